"""A cohort in the compiled library: its steps and its choices are one call."""

from __future__ import annotations

import array
import ctypes
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple

import torch

from model.decoding.cohort import Vocabulary
from model.decoding.native.library import Request, Rule, check
from model.decoding.native.packed import NativeModel
from model.decoding.options import Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN
from model.decoding.sentence import DecodingRequest, Finished, Sentence
from model.errors import DecodingError

STEP_S = 0.002
"""A call goes on for this long, so that crossing into the library costs little; whoever joins waits no longer."""


class NativeCohort:
    """See :class:`model.decoding.cohort.Cohort`.

    Args:
        model: The packed model.
        vocabulary: Special tokens.
        width: Rows of each sentence.
        longest_target: Tokens the model can produce at all, forced ones included.
        policy: The model's way of decoding.
    """

    def __init__(
        self, model: NativeModel, vocabulary: Vocabulary, width: int, longest_target: int, policy: DecodingPolicy
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._width = width
        self._longest_target = longest_target
        self._policy = policy
        self._sentences: dict[int, DecodingRequest] = {}
        never = sorted(set(policy.never_generated(vocabulary.never_generated)))
        handle = model.library.verso_cohort(
            model.handle,
            width,
            vocabulary.end_id,
            int(policy.renormalise),
            (ctypes.c_int32 * len(never))(*never),
            len(never),
        )
        if not handle:
            raise MemoryError("There is no memory for a cohort.")
        self._handle = handle
        weakref.finalize(self, _free, model, handle)

    @property
    def width(self) -> int:
        """Rows of each sentence."""
        return self._width

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now."""
        return len(self._sentences)

    @property
    def num_rows(self) -> int:
        """Rows they may take."""
        return len(self._sentences) * self._width

    @property
    def keys(self) -> list[int]:
        """The sentences' keys, in the order they joined."""
        return list(self._sentences)

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included."""
        return max((len(request.source_ids) for request in self._sentences.values()), default=0)

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Take sentences in; they are read at the next step.

        Raises:
            IndexError: A token or a length is one the model does not have; nobody joined.
        """
        if requests:
            tokens = array.array("i")
            for request in requests:
                tokens.extend(request.source_ids)
                tokens.append(self._vocabulary.start_id)
                tokens.extend(request.forced_ids)
            wishes = (Request * len(requests))(*map(self._wish, requests))
            address, _ = tokens.buffer_info()
            check(self._model.library.verso_join(self._handle, wishes, len(requests), address))
            self._sentences.update((request.key, request) for request in requests)
        return []

    def step(self) -> list[Finished]:
        """At least one token further for everybody, and on until :data:`STEP_S` are over."""
        if not self._sentences:
            return []
        outcomes, scores, length = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int32()
        check(
            self._model.library.verso_run(
                self._handle,
                STEP_S,
                torch.get_num_threads(),
                ctypes.byref(outcomes),
                ctypes.byref(length),
                ctypes.byref(scores),
            )
        )
        if not length.value:
            return []
        assert outcomes.value is not None
        numbers = (ctypes.c_int32 * length.value).from_address(outcomes.value)[:]
        return list(self._read(numbers, scores.value))

    def leave(self, keys: Collection[int]) -> None:
        """Drop sentences nobody waits for any more; unknown keys are ignored."""
        leaving = [key for key in keys if self._sentences.pop(key, None) is not None]
        if leaving:
            check(
                self._model.library.verso_leave(self._handle, (ctypes.c_int64 * len(leaving))(*leaving), len(leaving))
            )

    def _wish(self, request: DecodingRequest) -> Request:
        sentence = Sentence.of(request, self._policy, self._longest_target)
        options = sentence.options
        return Request(
            sentence.key,
            Rule(*astuple(sentence.rule)),
            sentence.num_source_tokens,
            sentence.num_forced,
            options.min_new_tokens,
            sentence.max_new_tokens,
            options.no_repeat_ngram_size,
            options.num_hypotheses,
            options.return_scores,
        )

    def _read(self, numbers: Sequence[int], scores: int | None) -> Iterator[Finished]:
        """What cohort.h says of sentences that finished."""
        place = score = 0
        while place < len(numbers):
            low, high, num_hypotheses = numbers[place : place + 3]
            place += 3
            key = (high << 32) | (low & 0xFFFFFFFF)
            request = self._sentences.pop(key)
            if not num_hypotheses:
                yield Finished(key, None, DecodingError(NO_TOKEN))
                continue
            answers = []
            for _ in range(num_hypotheses):
                cut, num_tokens = numbers[place : place + 2]
                place += 2
                worth = None
                if request.options.return_scores:
                    assert scores is not None
                    worth = ctypes.c_double.from_address(scores + 8 * score).value
                score += 1
                tokens = numbers[place : place + num_tokens]
                place += num_tokens
                answers.append(Hypothesis(list(tokens), worth, "length" if cut else "stop"))
            yield Finished(key, Hypothesis.ranked(answers))


def _free(model: NativeModel, handle: int) -> None:
    """Free a cohort before the model it looks at, which is therefore an argument."""
    model.library.verso_cohort_free(handle)
