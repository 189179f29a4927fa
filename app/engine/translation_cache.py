"""A cache of translated sentences, bounded by memory; the least recently used entries are dropped first.

The key of an entry contains everything that the translation depends on: the source tokens, the forced ones, the prefix
and the required ones, all options, and the digest of the bundle. Failures are not cached, and neither are answers with
their search, which take the memory of about a hundred others.
"""

from __future__ import annotations

import weakref
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

from model.decoding.options import DecodingOptions, FinishReason, Hypothesis

if TYPE_CHECKING:
    from model.decoding.sentence import DecodingRequest
    from model.translator import Translator

_ENTRY_BYTES = 520
"""Measured memory of an entry without its tokens: its objects and its share of the tables."""

_ALTERNATIVE_BYTES = 176
"""Measured memory of an alternative without its tokens."""

_ID_BYTES = 8
"""Memory of a required token or one of a prefix in a key."""


class SentenceKey(NamedTuple):
    """Everything that the translation of a sentence depends on.

    Args:
        sha256: Digest of the model's bundle.
        options: How it is decoded.
        forced_ids: The forced tokens at the start of its translation.
        prefix_ids: The tokens that its translation begins with.
        required_ids: The tokens that its translation holds once each.
        source: Its tokens, four bytes each.
    """

    sha256: str
    options: DecodingOptions
    forced_ids: tuple[int, ...]
    prefix_ids: tuple[int, ...]
    required_ids: tuple[int, ...]
    source: bytes

    @classmethod
    def of(cls, model: Translator, request: DecodingRequest) -> SentenceKey:
        """The key of a sentence for a model."""
        return cls(
            model.sha256,
            request.options,
            request.forced_ids,
            request.prefix_ids,
            request.required_ids,
            _packed(request.source_ids),
        )


@dataclass(frozen=True, slots=True)
class _PackedHypothesis:
    """A hypothesis with its tokens as bytes, and the estimated memory of its entry."""

    tokens: bytes
    score: float | None
    finish_reason: FinishReason
    alternatives: tuple[_PackedHypothesis, ...]
    num_bytes: int

    @classmethod
    def of(cls, hypothesis: Hypothesis, other_bytes: int) -> _PackedHypothesis:
        tokens = _packed(hypothesis.token_ids)
        alternatives = tuple(cls.of(alternative, _ALTERNATIVE_BYTES) for alternative in hypothesis.alternatives)
        num_bytes = other_bytes + len(tokens) + sum(alternative.num_bytes for alternative in alternatives)
        return cls(tokens, hypothesis.score, hypothesis.finish_reason, alternatives, num_bytes)

    def unpack(self) -> Hypothesis:
        tokens = array("I")
        tokens.frombytes(self.tokens)
        alternatives = tuple(alternative.unpack() for alternative in self.alternatives)
        return Hypothesis(tokens.tolist(), self.score, self.finish_reason, alternatives)


class TranslationCache:
    """Hypotheses by sentence, bounded by memory. Not thread-safe: the caller holds a lock.

    Args:
        max_bytes: Maximum of the estimated memory; 0 disables the cache.
    """

    def __init__(self, max_bytes: int) -> None:
        self._entries: LRUCache[SentenceKey, _PackedHypothesis] = LRUCache(
            max_bytes, getsizeof=lambda entry: entry.num_bytes
        )
        # Equal options of different requests are stored once.
        self._options: weakref.WeakValueDictionary[int, DecodingOptions] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        """Number of cached sentences."""
        return len(self._entries)

    @property
    def is_on(self) -> bool:
        """Whether the cache is enabled."""
        return self._entries.maxsize > 0

    @property
    def num_bytes(self) -> int:
        """Estimated memory of all entries."""
        return int(self._entries.currsize)

    def get(self, key: SentenceKey) -> Hypothesis | None:
        """The hypothesis cached for a sentence, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry.unpack()

    def put(self, key: SentenceKey, hypothesis: Hypothesis) -> None:
        """Cache a hypothesis and evict the least recently used ones if needed.

        Too large hypotheses, and those with their search, are not cached.
        """
        if key.options.return_search:
            return
        key_bytes = len(key.source) + _ID_BYTES * (len(key.prefix_ids) + len(key.required_ids))
        entry = _PackedHypothesis.of(hypothesis, _ENTRY_BYTES + key_bytes)
        if entry.num_bytes <= self._entries.maxsize:
            self._entries[key._replace(options=self._shared(key.options))] = entry

    def forget(self, sha256: str) -> None:
        """Drop all entries of a bundle."""
        for key in [key for key in self._entries if key.sha256 == sha256]:
            del self._entries[key]

    def _shared(self, options: DecodingOptions) -> DecodingOptions:
        equal = self._options.get(hash(options))
        if equal == options:
            return equal
        self._options[hash(options)] = options
        return options


def _packed(token_ids: list[int]) -> bytes:
    return array("I", token_ids).tobytes()
