"""A translator without a model: it spells texts in capital letters, one character a step.

Texts may ask for trouble: one that holds ``boom`` makes every step of its cohort raise, ``nan`` makes its own
sentence fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from model.bundle import Bundle, Manifest
from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.sentence import DecodingRequest, Finished
from model.errors import DecodingError
from model.tokenizer import Span
from model.translator import Attention, PreparedText, Translator

GATE_S = 30.0
"""Longest a step waits for its gate, so that a test that forgets it fails instead of hanging."""

MANIFEST = Manifest(
    name="fake",
    pairs=(("en", "de"), ("de", "en")),
    architecture={"d_model": 8},
    precision="float32",
    max_source_tokens=200,
    max_target_tokens=200,
    licence="Apache-2.0",
)


class FakeTokenizer:
    """Characters are tokens."""

    def encode(self, text: str, target: str) -> list[int]:
        return [2, *map(ord, text), 3]

    def encode_with_offsets(self, text: str, target: str) -> tuple[list[int], list[Span]]:
        spans = [(place, place + 1) for place in range(len(text))]
        return self.encode(text, target), [(0, 0), *spans, (len(text), len(text))]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids)).upper()

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        return self.decode(ids), [(place, place + 1) for place in range(len(ids))]


@dataclass
class Log:
    """What the cohorts were told to do."""

    joins: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


class FakeCohort:
    def __init__(self, width: int, translator: FakeTranslator) -> None:
        self.width = width
        self._translator = translator
        self._requests: dict[int, DecodingRequest] = {}
        self._done: dict[int, int] = {}

    @property
    def num_sentences(self) -> int:
        return len(self._requests)

    @property
    def num_rows(self) -> int:
        return self.width * len(self._requests)

    @property
    def longest_source(self) -> int:
        return max((len(request.source_ids) for request in self._requests.values()), default=0)

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        self._translator.log.joins.append(len(requests))
        for request in requests:
            self._requests[request.key] = request
            self._done[request.key] = 0
        return self._advance([request.key for request in requests])

    def step(self) -> list[Finished]:
        self._translator.stepping.set()
        self._translator.step_gate.wait(GATE_S)
        time.sleep(self._translator.step_s)
        self._translator.log.steps.append(self.num_sentences)
        return self._advance(list(self._requests))

    def leave(self, keys: Collection[int]) -> None:
        for key in keys:
            if self._requests.pop(key, None) is not None:
                self._translator.log.left.append(key)

    def _advance(self, keys: list[int]) -> list[Finished]:
        texts = {key: self._translator.text_of(self._requests[key]) for key in keys}
        if any("boom" in text for text in texts.values()):
            raise RuntimeError("a tensor of the wrong shape, and secret words")
        finished = []
        for key, text in texts.items():
            self._done[key] += 1
            if "nan" in text:
                finished.append(Finished(key, None, DecodingError("NaN")))
            elif self._done[key] >= len(text):
                finished.append(Finished(key, self._answer(self._requests[key], text)))
        for outcome in finished:
            del self._requests[outcome.key]
        return finished

    def _answer(self, request: DecodingRequest, text: str) -> Hypothesis:
        score = -0.5 if request.options.return_scores else None
        ids = list(map(ord, text))
        others = tuple(Hypothesis(ids, score, "stop") for _ in range(request.options.num_hypotheses - 1))
        return Hypothesis(ids, score, "stop", others)


class FakeTranslator(Translator):
    """The real text handling around a cohort that needs no model.

    Args:
        step_s: Seconds each step takes.
    """

    def __init__(self, step_s: float = 0.0) -> None:
        tokenizer: Any = FakeTokenizer()
        super().__init__(Bundle(None, tokenizer, MANIFEST, torch.device("cpu"), "0" * 64))
        self.step_s = step_s
        self.step_gate = threading.Event()
        self.step_gate.set()
        self.stepping = threading.Event()  # set by the first step, before it waits for the gate
        self.log = Log()
        self.warmed_up: list[int] = []

    def text_of(self, request: DecodingRequest) -> str:
        return "".join(map(chr, request.source_ids[1:-1]))

    def cohort(self, width: int) -> Any:
        return FakeCohort(width, self)

    def warm_up(self, widths: Sequence[int]) -> None:
        self.warmed_up = list(widths)

    def align(self, prepared: PreparedText, hypotheses: Sequence[Hypothesis]) -> list[Tensor]:
        """Each character looks at the one it was made of, past the language marker."""
        return [
            torch.eye(len(segment.token_ids))[1 : len(hypothesis.token_ids) + 1]
            for segment, hypothesis in zip(prepared.segments, hypotheses, strict=True)
        ]

    def attention(
        self,
        text: str,
        options: DecodingOptions = DecodingOptions(),  # noqa: B008
        source: str | None = None,
        target: str | None = None,
        target_text: str | None = None,
    ) -> Attention:
        if "boom" in text:
            raise RuntimeError("secret words")
        words = text.split()
        uniform = torch.full((1, 2, len(words), len(words)), 1.0 / len(words))
        return Attention(words, words, words, target_text or text.upper(), uniform, uniform, uniform)


def held_translator() -> FakeTranslator:
    """A translator whose steps wait until its ``step_gate`` is set."""
    translator = FakeTranslator()
    translator.step_gate.clear()
    return translator
