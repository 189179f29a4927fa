"""Look-up of sentences in translation memories: exactly by digest, or similar ones by their rarest words.

A sentence is compared with few units, whatever the size of a memory: those that share most of its rarest words. Nearly
all the work is done by two statements, each of which returns one row, as a thread of Python waits for others at each
row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import MemoryNotFound
from app.memories.database import token_of
from app.memories.store import CORRECTIONS
from app.memories.unit import MAX_FUZZY_CHARACTERS, digest_of, normalised, words_of
from app.storage import owned_by
from model.languages import plain_code, standard_code
from model.translation.memory import MemoryMatch

if TYPE_CHECKING:
    import sqlite3

MAX_MEMORIES = 5
"""Most memories of one look-up."""

MIN_THRESHOLD = 0.5
"""Lowest score of a similar sentence: below, two sentences have little in common."""

DEFAULT_THRESHOLD = 0.7
"""The score from which on similar sentences are found unless a request says otherwise."""

_MAX_POSTINGS = 500
_MAX_RARE_WORDS = 6
_MAX_READ = 60
_MAX_CANDIDATES = 30
"""Units that have one of the rarest words; those words; units whose lengths are compared, and whose texts are."""


@dataclass(frozen=True)
class _Pair:
    """A language pair of a memory."""

    number: int
    memory: str


Pairs = Sequence[_Pair]
"""Where to look sentences up, in this order."""


class Lookup:
    """Looks sentences up. One thread at a time may use it.

    Args:
        connection: The file of the memories.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def pairs(self, owner: str | None, ids: Sequence[str], source: str, target: str) -> Pairs:
        """The pairs of memories that have translations for two languages, with and without their regions.

        Args:
            owner: The owner of the memories; None for any.
            ids: The memories, of which earlier ones count first; :data:`~app.memories.store.CORRECTIONS` for that of
                the owner's corrections. Without ids, all memories of the owner.
            source: The language of the sentences.
            target: The target language.

        Raises:
            MemoryNotFound: The owner has no memory with one of the ids.
        """
        condition, values = owned_by(owner)
        rows = self._connection.execute(
            "SELECT id, purpose, source, target, pairs.number FROM memories "
            f"LEFT JOIN pairs ON memory = memories.number WHERE {condition}",
            values,
        ).fetchall()
        if ids:
            own_ids = {id for id, *_ in rows} | {CORRECTIONS}
            for id in ids:
                if id not in own_ids:
                    raise MemoryNotFound(id)
        plain, code = plain_code(source), standard_code(target)
        varieties = (code, plain_code(target))  # other varieties of the target language come last
        matching: list[tuple[int, int, _Pair]] = []
        for id, purpose, own_source, own_target, number in rows:
            position = min((place for place, name in enumerate(ids) if name in (id, purpose)), default=len(ids))
            if number is None or (ids and position == len(ids)):
                continue
            if (plain_code(own_source), plain_code(own_target)) == (plain, varieties[1]):
                distance = varieties.index(own_target) if own_target in varieties else len(varieties)
                matching.append((distance, position, _Pair(number, id)))
        return [pair for _, _, pair in sorted(matching, key=lambda entry: entry[:2])]

    def exact(self, pairs: Pairs, sentences: Sequence[str]) -> list[MemoryMatch | None]:
        """The stored translations of sentences, or None.

        Args:
            pairs: Where to look, in this order.
            sentences: The sentences.
        """
        return [self._exact(pairs, normalised(sentence)) for sentence in sentences]

    def best(self, pairs: Pairs, sentences: Sequence[str | None], threshold: float) -> list[MemoryMatch | None]:
        """The stored translations of sentences, or that of the most similar sentence, or None.

        Args:
            pairs: Where to look.
            sentences: The sentences; None is not looked up.
            threshold: The lowest score.
        """
        best_matches: dict[str, MemoryMatch | None] = {}
        for sentence in sentences:
            if sentence is not None and sentence not in best_matches:
                matches = self.similar(pairs, sentence, threshold, 1)
                best_matches[sentence] = matches[0] if matches else None
        return [None if sentence is None else best_matches[sentence] for sentence in sentences]

    def similar(self, pairs: Pairs, sentence: str, threshold: float, limit: int) -> list[MemoryMatch]:
        """Stored translations of a sentence and of similar ones, the best first.

        Args:
            pairs: Where to look.
            sentence: The sentence.
            threshold: The lowest score.
            limit: At most so many; with 1, nothing similar is searched if there is an exact match.
        """
        text = normalised(sentence)
        exact = self._exact(pairs, text)
        if exact is not None and limit == 1:
            return [exact]
        matches = [] if exact is None else [exact]
        if 1 < len(text) <= MAX_FUZZY_CHARACTERS and threshold < 1.0:
            for pair in pairs:
                matches += self._similar(pair, text, threshold, limit)
        best = {match.unit: match for match in matches}.values()
        return sorted(best, key=lambda match: -match.score)[:limit]

    def _exact(self, pairs: Pairs, text: str) -> MemoryMatch | None:
        digest = digest_of(text)
        for pair in pairs:
            row = self._connection.execute(
                "SELECT source, target, id FROM units WHERE pair = ? AND digest = ?", (pair.number, digest)
            ).fetchone()
            if row is not None:
                source, target, id = row
                return MemoryMatch(source, target, 1.0, pair.memory, id)
        return None

    def _similar(self, pair: _Pair, text: str, threshold: float, limit: int) -> list[MemoryMatch]:
        """Similar units of a pair, without the same one."""
        # Imported here: only similar sentences need it.
        from rapidfuzz import fuzz, process

        candidates = self._candidates(pair.number, text, threshold)
        ranked = process.extract(
            text,
            {number: normalised(source) for number, (_, source) in enumerate(candidates)},
            scorer=fuzz.ratio,
            score_cutoff=100 * threshold,
            limit=limit + 1,
        )
        matches: list[MemoryMatch] = []
        for _, score, number in ranked:
            id, source = candidates[number]
            row = self._connection.execute("SELECT target FROM units WHERE id = ?", (id,)).fetchone()
            if score < 100.0 and row is not None:
                matches.append(MemoryMatch(source, row[0], round(min(score / 100, 0.9999), 4), pair.memory, id))
        return matches

    def _candidates(self, pair: int, text: str, threshold: float) -> list[tuple[int, str]]:
        """Units with the rarest words of a text and a length that allows the score: id and source."""
        words = sorted(words_of(text))
        counts = self._connection.execute(
            "SELECT json_group_array(json_array(count, word)) FROM frequencies "
            "WHERE pair = ? AND count > 0 AND word IN (SELECT value FROM json_each(?))",
            (pair, json.dumps(words)),
        ).fetchone()
        rare: list[tuple[int, int]] = []
        for count, word in sorted(json.loads(counts[0]))[:_MAX_RARE_WORDS]:
            if rare and sum(number for number, _ in rare) + count > _MAX_POSTINGS:
                break
            rare.append((count, word))
        if not rare:
            return []
        # Newer units first, if a word has too many.
        postings = " UNION ALL ".join(
            f"SELECT rowid AS id, {1 / count:.9f} AS weight FROM "
            f"(SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT {_MAX_POSTINGS})"
            for count, _ in rare
        )
        # A ratio of at least t needs the shorter text to have t / (2 - t) of the longer one's characters.
        share = threshold / (2 - threshold)
        (rows,) = self._connection.execute(
            "SELECT json_group_array(json_array(id, source)) FROM (SELECT units.id, source FROM "
            f"(SELECT id, sum(weight) AS weight FROM ({postings}) GROUP BY id ORDER BY weight DESC, id DESC LIMIT ?) "
            "AS hits JOIN units USING (id) WHERE length BETWEEN ? AND ? ORDER BY weight DESC, id DESC LIMIT ?)",
            (
                *(f'"{token_of(pair, word)}"' for _, word in rare),
                _MAX_READ,
                len(text) * share,
                len(text) / share,
                _MAX_CANDIDATES,
            ),
        ).fetchone()
        return [(id, source) for id, source in json.loads(rows)]
