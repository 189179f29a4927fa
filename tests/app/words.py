"""Translators without a model that replace words by those of a dictionary, and write them in another order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from model.decoding.sentence import DecodingRequest
from model.text.symbols import Span
from model.translation.results import AttendedSentence
from tests.app.fakes import FakeTokenizer, FakeTranslator, manifest_of

_WORD = re.compile(r"\w+")

FR_EN = {"le": "the", "chat": "cat", "noir": "black", "dort": "sleeps", "bonjour": "hello"}
EN_DE = {"the": "die", "cat": "katze", "black": "schwarze", "sleeps": "schläft", "hello": "hallo"}


class WordTokenizer(FakeTokenizer):
    """Characters are tokens, and keep their case."""

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


class WordTranslator(FakeTranslator):
    """Translates word by word. Two words at ``swapped`` change places.

    Args:
        name: Its name.
        pair: Its language pair, such as ``fr-en``.
        words: Its dictionary; other words stay.
        swapped: The numbers of two words that follow each other.
    """

    tokenizer_type = WordTokenizer

    def __init__(self, name: str, pair: str, words: Mapping[str, str], swapped: int | None = None) -> None:
        super().__init__(manifest=manifest_of(name, pair), sha256=f"{sum(map(ord, pair)):064x}")
        self._words = words
        self._swapped = swapped
        self.texts: list[str] = []

    def text_of(self, request: DecodingRequest) -> str:
        return "".join(word for word, _ in self._parts(super().text_of(request)))

    def align(self, sentences: Sequence[AttendedSentence]) -> list[Tensor]:
        """Each character attends to the first one of its word's source, after the language marker."""
        rows = []
        for sentence in sentences:
            source = "".join(map(chr, sentence.source_ids[1:-1]))
            parts = self._parts(source)
            weights = torch.full((sum(len(word) for word, _ in parts), len(sentence.source_ids)), 0.01)
            ends = accumulate(len(word) for word, _ in parts)
            for (word, (start, stop)), end in zip(parts, ends, strict=True):
                for offset in range(len(word)):
                    weights[end - len(word) + offset, 1 + min(start + offset, stop - 1)] = 0.5
            rows.append(weights[: len(sentence.answer_ids)])
        return rows

    def _parts(self, source: str) -> list[tuple[str, Span]]:
        """The words and the characters between them, in the order of the translation, with their source."""
        spans = [match.span() for match in _WORD.finditer(source)]
        order = list(spans)
        if self._swapped is not None and self._swapped + 1 < len(spans):
            order[self._swapped : self._swapped + 2] = order[self._swapped + 1], order[self._swapped]
        parts: list[tuple[str, Span]] = []
        position = 0
        for (start, end), span in zip(spans, order, strict=True):
            parts += [(source[index], (index, index + 1)) for index in range(position, start)]
            word = source[slice(*span)]
            parts.append((self._words.get(word, word), span))
            position = end
        return [*parts, *((source[index], (index, index + 1)) for index in range(position, len(source)))]


def french_to_english() -> WordTranslator:
    """``le chat noir`` becomes ``the black cat``."""
    return WordTranslator("french", "fr-en", FR_EN, swapped=1)


def english_to_german() -> WordTranslator:
    """``the black cat`` becomes ``die schwarze katze``."""
    return WordTranslator("german", "en-de", EN_DE)
