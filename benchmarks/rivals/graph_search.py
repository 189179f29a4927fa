"""The loop over the tokens for libraries that run graphs (:mod:`benchmarks.rivals.graphs`)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import Job, in_batches

BEAM_SIZE = 4
"""Rows of the beam in the exported graph."""

EXCLUDED = -1e9
"""The score of what cannot be chosen; not infinite, so that no sum of two is undefined."""

Integers = NDArray[np.int64]


def past_names(num_layers: int) -> list[str]:
    """Names of the inputs with the caches of a step; its outputs are called ``new_`` and the same."""
    return [f"{kind}_{layer}" for layer in range(num_layers) for kind in ("keys", "values")]


def source_names(num_layers: int) -> list[str]:
    """Names of the encoder's outputs, which are inputs of each step."""
    return [f"source_{name}" for name in past_names(num_layers)]


class Runner(Protocol):
    """Runs the graphs for one batch at a time."""

    def start(self, ids: Integers, may_attend: NDArray[np.bool_], beam_size: int) -> None:
        """Encode a batch.

        Args:
            ids: Padded token ids, (B, S).
            may_attend: True where ``ids`` are no padding.
            beam_size: 1 is greedy.
        """
        ...

    def step(self, position: int) -> tuple[Integers, Integers | None]:
        """Take a step with all rows.

        Args:
            position: Number of steps before.

        Returns:
            The token of each row, and the row of the step before that it continues; None if it is the same.
        """
        ...


def first_scores(num_sentences: int, beam_size: int) -> NDArray[np.float32]:
    """Scores with which the first step does not take a token several times: its rows are still equal.

    Args:
        num_sentences: Number of sentences.
        beam_size: Rows for each.
    """
    scores = np.full((num_sentences, beam_size), EXCLUDED, np.float32)
    scores[:, 0] = 0
    return scores.ravel()


def search(
    runner: Runner, sources: Sequence[Sequence[int]], beam_size: int, num_tokens: int, pad_id: int
) -> list[list[int]]:
    """Translate a batch; every output gets the same number of tokens.

    Args:
        runner: Runs the graphs.
        sources: Token ids of the sentences.
        beam_size: 1 is greedy.
        num_tokens: Tokens of each output.
        pad_id: Id of padding.

    Returns:
        The outputs with the highest scores.
    """
    length = max(map(len, sources))
    ids = np.full((len(sources), length), pad_id, np.int64)
    for row, source in zip(ids, sources, strict=True):
        row[: len(source)] = source
    runner.start(ids, ids != pad_id, beam_size)
    steps = [runner.step(position) for position in range(num_tokens)]
    rows = np.arange(0, len(sources) * beam_size, beam_size)  # a sentence's rows are in the order of their scores
    backwards = []
    for tokens, parents in reversed(steps):
        backwards.append(tokens[rows])
        if parents is not None:
            rows = parents[rows]
    return np.stack(backwards[::-1], axis=1).tolist()  # type: ignore[no-any-return]  # numpy's lists are untyped


class GraphEngine:
    """An engine that searches with runners, each in its own thread.

    Args:
        runners: One for each concurrent batch.
        pad_id: Id of padding.
    """

    def __init__(self, runners: Sequence[Runner], pad_id: int) -> None:
        self._runners: SimpleQueue[Runner] = SimpleQueue()
        for runner in runners:
            self._runners.put(runner)
        self._threads = ThreadPoolExecutor(len(runners))
        self._pad_id = pad_id

    def prepare(self, sources: list[list[int]]) -> list[list[int]]:
        return sources

    def translate(self, prepared: list[list[int]], job: Job) -> list[list[int]]:
        if job.beam_size not in (1, BEAM_SIZE) or job.min_tokens != job.max_tokens:
            raise ValueError(f"the graphs have a beam of 1 or {BEAM_SIZE} and outputs of one length")

        def translate_batch(indices: Sequence[int]) -> list[list[int]]:
            runner = self._runners.get()
            try:
                sources = [prepared[index] for index in indices]
                return search(runner, sources, job.beam_size, job.max_tokens, self._pad_id)
            finally:
                self._runners.put(runner)

        batches = in_batches(prepared, job.batch_size)[::-1]  # the longest first: the threads end at similar times
        answers: dict[int, list[int]] = {}
        for indices, translated in zip(batches, self._threads.map(translate_batch, batches), strict=True):
            answers.update(zip(indices, translated, strict=True))
        return [answers[index] for index in range(len(prepared))]

    def token_ids(self, answers: list[list[int]]) -> list[list[int]]:
        return answers
