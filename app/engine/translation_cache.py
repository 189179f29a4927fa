"""Answers to sentences that were translated before: a bounded memory of which the longest unused go first.

A sentence is known again when everything is equal that its answer depends on: its tokens, the tokens its answer begins
with, every option, and the digest of the bundle that translates it. Texts are compared as the model reads them, which
is what text and pair come to. Failures are not kept.
"""

from __future__ import annotations

import weakref
from array import array
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from model.decoding.options import DecodingOptions, FinishReason, Hypothesis

if TYPE_CHECKING:
    from model.decoding.sentence import DecodingRequest
    from model.translator import Translator

_ENTRY_BYTES = 448
"""What an entry takes besides its tokens: the objects it is made of and its place in the table, measured."""

_ALTERNATIVE_BYTES = 176


class SentenceKey(NamedTuple):
    """All that the answer to a sentence depends on.

    Args:
        sha256: Digest of the model's bundle.
        options: How it is decoded.
        forced_ids: Tokens its answer begins with.
        source: Its tokens, four bytes each.
    """

    sha256: str
    options: DecodingOptions
    forced_ids: tuple[int, ...]
    source: bytes

    @classmethod
    def of(cls, model: Translator, request: DecodingRequest) -> SentenceKey:
        """The key of a sentence for a model."""
        return cls(model.sha256, request.options, request.forced_ids, _packed(request.source_ids))


@dataclass(frozen=True, slots=True)
class _Answer:
    """A hypothesis with its tokens packed."""

    tokens: bytes
    score: float | None
    finish_reason: FinishReason
    alternatives: tuple[_Answer, ...]

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> _Answer:
        return cls(
            _packed(hypothesis.token_ids),
            hypothesis.score,
            hypothesis.finish_reason,
            tuple(cls.of(one) for one in hypothesis.alternatives),
        )

    def hypothesis(self) -> Hypothesis:
        tokens = array("I")
        tokens.frombytes(self.tokens)
        others = tuple(one.hypothesis() for one in self.alternatives)
        return Hypothesis(tokens.tolist(), self.score, self.finish_reason, others)

    @property
    def num_bytes(self) -> int:
        return len(self.tokens) + sum(_ALTERNATIVE_BYTES + one.num_bytes for one in self.alternatives)


class TranslationCache:
    """Answers by sentence, within a bound of memory. Not thread-safe: whoever shares it holds a lock.

    Args:
        max_bytes: Memory it may take, estimated; 0 keeps nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._answers: OrderedDict[SentenceKey, _Answer] = OrderedDict()
        # Equal options of different requests are kept once.
        self._options: weakref.WeakValueDictionary[int, DecodingOptions] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        """Sentences it knows."""
        return len(self._answers)

    @property
    def is_on(self) -> bool:
        """Whether it keeps anything."""
        return self._max_bytes > 0

    @property
    def num_bytes(self) -> int:
        """Memory it takes, estimated."""
        return self._num_bytes

    def get(self, key: SentenceKey) -> Hypothesis | None:
        """The answer to a sentence, or None where it is not known."""
        answer = self._answers.get(key)
        if answer is None:
            return None
        self._answers.move_to_end(key)
        return answer.hypothesis()

    def put(self, key: SentenceKey, hypothesis: Hypothesis) -> None:
        """Keep an answer; those unused for longest make room. One larger than the whole cache is not kept."""
        answer = _Answer.of(hypothesis)
        if _bytes_of(key, answer) > self._max_bytes:
            return
        self._drop(key)
        self._answers[key._replace(options=self._shared(key.options))] = answer
        self._num_bytes += _bytes_of(key, answer)
        while self._num_bytes > self._max_bytes:
            self._drop(next(iter(self._answers)))

    def forget(self, sha256: str) -> None:
        """Drop every answer of one bundle."""
        for key in [key for key in self._answers if key.sha256 == sha256]:
            self._drop(key)

    def _drop(self, key: SentenceKey) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._num_bytes -= _bytes_of(key, answer)

    def _shared(self, options: DecodingOptions) -> DecodingOptions:
        known = self._options.get(hash(options))
        if known == options:
            return known
        self._options[hash(options)] = options
        return options


def _bytes_of(key: SentenceKey, answer: _Answer) -> int:
    return _ENTRY_BYTES + len(key.source) + answer.num_bytes


def _packed(token_ids: list[int]) -> bytes:
    return array("I", token_ids).tobytes()
