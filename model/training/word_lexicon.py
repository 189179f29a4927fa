"""Which words of a sentence pair translate each other: IBM Model 1 in both directions, links where both agree.

What one direction alone proposes is often wrong (Och & Ney 2003, section 4.4); a link is kept if each word is the best
partner of the other, and likely enough.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from model.errors import ArtifactError
from model.process.files import write_file
from model.text.symbols import Span
from model.training.corpus import Pair
from model.training.shortlist import translation_shares

_WORD = re.compile(r"\w+(?:[-'’.]\w+)*")
_SEEN_AT_LEAST = 3
"""Rarer words have no entry: one sentence says little about what translates what."""

_NUM_FREQUENT = 120
_KEPT_SHARE = 0.02
_MIN_SCORE = 0.15
_MAX_LINKS = 40_000_000
_ENDING = 3
"""Letters of an ending."""
_DISTANCE_PENALTY = 0.5
"""How much a partner at the other end of the sentence is worth less: decides between equal words."""


@dataclass(frozen=True)
class WordLink:
    """Two words that translate each other.

    Args:
        first: Characters of the first sentence.
        second: Characters of the second.
        first_index: Which word of its sentence it is.
        second_index: Likewise.
        score: How sure it is, 0 to 1.
    """

    first: Span
    second: Span
    first_index: int
    second_index: int
    score: float

    def swapped(self) -> WordLink:
        """The same with the sentences in the other order."""
        return WordLink(self.second, self.first, self.second_index, self.first_index, self.score)


class WordLexicon:
    """Probabilities that a word translates another, both ways.

    Args:
        forward: ``forward[first word][second word]``: how likely the second is as a translation of the first.
        backward: ``backward[second word][first word]``.
        frequent: The most frequent words of both languages: articles, pronouns and the like.
    """

    def __init__(
        self,
        forward: dict[str, dict[str, float]],
        backward: dict[str, dict[str, float]],
        frequent: Collection[str] = (),
    ) -> None:
        self.forward = forward
        self.backward = backward
        self.frequent = frozenset(frequent)

    @classmethod
    def learn(cls, pairs: Sequence[Pair], iterations: int = 4) -> WordLexicon:
        """Learn both tables from sentence pairs; words are compared in small letters.

        Args:
            pairs: The text.
            iterations: Rounds of expectation-maximisation.
        """
        # Corpora stand one behind the other, and not all of them may be looked at.
        pairs = random.Random(1).sample(pairs, len(pairs))
        sides = [[[match[0].lower() for match in _WORD.finditer(side)] for side in pair] for pair in pairs]
        vocabularies = [_vocabulary([side[which] for side in sides]) for which in (0, 1)]
        encoded: list[tuple[list[int], list[int]]] = []
        num_links = 0
        for first, second in sides:
            ids = [
                [vocabulary[word] for word in side if word in vocabulary]
                for vocabulary, side in zip(vocabularies, (first, second), strict=True)
            ]
            num_links += (len(ids[0]) + 1) * len(ids[1])
            if num_links > _MAX_LINKS:
                break
            if ids[0] and ids[1]:
                encoded.append((ids[0], ids[1]))
        return cls(
            _table(encoded, vocabularies[0], vocabularies[1], iterations),
            _table([(second, first) for first, second in encoded], vocabularies[1], vocabularies[0], iterations),
            [word for vocabulary in vocabularies for word in list(vocabulary)[:_NUM_FREQUENT]],
        )

    @classmethod
    def load(cls, path: Path) -> WordLexicon:
        """Read a lexicon that a training run kept.

        Args:
            path: The file.

        Raises:
            ArtifactError: The file cannot be read.
        """
        try:
            stored = json.loads(gzip.decompress(path.read_bytes()))
            return cls(stored["forward"], stored["backward"], stored["frequent"])
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"The word lexicon {path} cannot be read: {error}.") from error

    @classmethod
    def load_or_learn(cls, path: Path, pairs: Sequence[Pair]) -> WordLexicon:
        """Read a lexicon that was kept, or learn it and keep it.

        Args:
            path: The file.
            pairs: The text to learn from, if the file does not exist.

        Raises:
            ArtifactError: The file cannot be read or written.
        """
        if path.exists():
            return cls.load(path)
        lexicon = cls.learn(pairs)
        try:
            tables = {"forward": lexicon.forward, "backward": lexicon.backward, "frequent": sorted(lexicon.frequent)}
            write_file(path, gzip.compress(json.dumps(tables, ensure_ascii=False).encode(), mtime=0))
        except OSError as error:
            raise ArtifactError(f"The word lexicon {path} cannot be written: {error}.") from error
        return lexicon

    def links(self, first: str, second: str) -> list[WordLink]:
        """The words of two sentences that translate each other, in the order of the first.

        Args:
            first: A sentence.
            second: Its translation.
        """
        words = [list(_WORD.finditer(side)) for side in (first, second)]
        lower = [[match[0].lower() for match in side] for side in words]
        positions: dict[str, list[int]] = {}
        for j, other in enumerate(lower[1]):
            positions.setdefault(other, []).append(j)
        scores: dict[tuple[int, int], float] = {}
        for i, word in enumerate(lower[0]):
            for other in {word, *self.forward.get(word, ())} & positions.keys():
                worth = self._score(word, other)
                for j in positions[other]:
                    distance = abs(i / len(lower[0]) - j / len(lower[1]))
                    scores[i, j] = worth * (1.0 - _DISTANCE_PENALTY * distance)
        best: dict[tuple[int, int], tuple[int, int]] = {}  # (side, index) to the best cell there
        for cell in sorted(scores, key=scores.__getitem__):
            best[0, cell[0]] = best[1, cell[1]] = cell
        return [
            WordLink(words[0][i].span(), words[1][j].span(), i, j, scores[i, j])
            for (side, _), (i, j) in sorted(best.items())
            if side == 0 and best[1, j] == (i, j) and scores[i, j] >= _MIN_SCORE
        ]

    def words_ending_like(self, word: str, is_first: bool) -> Sequence[str]:
        """Words of the same language with the same last letters, in small letters, in a fixed order.

        In German such words mostly have the same gender, or are the same part of speech. Frequent words, short ones
        and what is not made of letters alone are not among them.

        Args:
            word: A word.
            is_first: Whether it is of the first language.
        """
        return self._by_ending[not is_first].get(word.lower()[-_ENDING:], ())

    @cached_property
    def _by_ending(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """The words of both languages by their last letters."""
        counterparts: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
        for words, table in zip(counterparts, (self.forward, self.backward), strict=True):
            for word in sorted(table):
                if len(word) > _ENDING and word.isalpha() and word not in self.frequent:
                    words.setdefault(word[-_ENDING:], []).append(word)
        return counterparts

    def _score(self, first: str, second: str) -> float:
        """How well two words fit, wherever they stand: the geometric mean of both directions' probabilities."""
        if first == second and (len(first) > 3 or first.isdigit()):
            return 1.0
        return math.sqrt(self.forward.get(first, {}).get(second, 0.0) * self.backward.get(second, {}).get(first, 0.0))


def _vocabulary(sentences: Sequence[Sequence[str]]) -> dict[str, int]:
    """Words by number; 0 is kept for what no word explains."""
    counts = Counter(word for words in sentences for word in words)
    return {
        word: number for number, (word, count) in enumerate(counts.most_common(), start=1) if count >= _SEEN_AT_LEAST
    }


def _table(
    encoded: Sequence[tuple[Sequence[int], Sequence[int]]],
    sources: dict[str, int],
    targets: dict[str, int],
    iterations: int,
) -> dict[str, dict[str, float]]:
    with_empty_word = [([0, *source], target) for source, target in encoded]
    rows, columns, shares = translation_shares(with_empty_word, len(targets) + 1, iterations)
    keep = shares >= _KEPT_SHARE
    words = [["", *vocabulary] for vocabulary in (sources, targets)]
    table: dict[str, dict[str, float]] = {}
    for row, column, share in zip(rows[keep].tolist(), columns[keep].tolist(), shares[keep].tolist(), strict=True):
        if row:
            table.setdefault(words[0][row], {})[words[1][column]] = share
    return table
