"""From aligned text in two languages to training text and held-out text: clean, split, deduplicate, hold out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from model.errors import DataError
from model.process.progress import Progress, no_progress
from model.training.cleaning import MAX_REPETITIONS, Reason, clean_side, fault, incomplete, split_pair
from model.training.corpus import HOW_TO_CONVERT, Pair, bare_words, find_text, read_unpacked

RawPair = tuple[bytes, bytes] | None
"""The two sides of a line as they are in the files; None if a line of a table has too few columns."""

MIN_PAIRS = 100
"""Pairs that must be left after cleaning."""

_MAX_NOT_UTF8 = 0.1
"""Share of lines that are not UTF-8 above which the text has another encoding."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class LeftOut:
    """A pair that is not used.

    Args:
        line: Its line in the files, from 1.
        reason: Why.
        pair: Its sides; characters of unreadable sides are replaced.
    """

    line: int
    reason: Reason
    pair: Pair


@dataclass(frozen=True)
class Prepared:
    """Prepared text. Each pair of the files is in one of the lists.

    Args:
        train: Training pairs, in the order of the files.
        dev: Held-out pairs, on which checkpoints are selected.
        test: Held-out pairs for the final score.
        left_out: The other pairs.
        num_lines: Lines of the files.
        num_repaired: Lines in which a character was changed or removed.
        num_split: Lines that were split into several pairs.
        length_ratio: Characters of the second language for each character of the first.
    """

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]
    left_out: list[LeftOut]
    num_lines: int
    num_repaired: int
    num_split: int
    length_ratio: float

    @property
    def num_pairs(self) -> int:
        """Pairs of the files, after lines were split."""
        return len(self.train) + len(self.dev) + len(self.test) + len(self.left_out)


def read_files(first: Path, second: Path) -> list[RawPair]:
    """Read two aligned files (plain, ``.gz`` or ``.xz``).

    Raises:
        DataError: A file cannot be read, is UTF-16, or has another number of lines than the other.
    """
    sides = _raw_lines(first), _raw_lines(second)
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{first} has {len(sides[0])} lines and {second} has {len(sides[1])}; each line of one must be the "
            "translation of the same line of the other."
        )
    return list(zip(*sides, strict=True))


def read_table(path: Path, columns: tuple[int, int]) -> list[RawPair]:
    """Read two columns of a table with tabs between columns (plain, ``.gz`` or ``.xz``).

    Args:
        path: The table.
        columns: The columns of the two languages, from 1.

    Raises:
        DataError: The file cannot be read, is UTF-16, or no line has these columns.
    """
    first, second = (column - 1 for column in columns)
    rows = [line.split(b"\t") for line in _raw_lines(path)]
    if all(len(row) < max(columns) for row in rows):
        raise DataError(f"No line of {path} has {max(columns)} columns with tabs between them; check --columns.")
    return [(row[first], row[second]) if len(row) >= max(columns) else None for row in rows]


def _raw_lines(path: Path) -> list[bytes]:
    data = read_unpacked(find_text(path))
    if data.startswith(_UTF16_MARKS):
        raise DataError(f"{path} is UTF-16; convert it first, with 'iconv -f utf-16 -t utf-8'.")
    lines = data.removeprefix(_BYTE_ORDER_MARK).replace(b"\r\n", b"\n").split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise DataError(f"{path} is empty.")
    return lines


def default_held_out(num_pairs: int) -> int:
    """How many pairs the development set and the test set have each.

    A fiftieth of the text, from 100 to 2,000 pairs: BLEU of 100 sentences is uncertain by several points, of 2,000 by
    less than one. At most a tenth, so that a small text keeps four fifths for training.
    """
    return min(2000, max(min(100, num_pairs // 10), num_pairs // 50))


def prepare_text(
    raw: Sequence[RawPair],
    languages: tuple[str, str],
    held_out: int | None = None,
    progress: Progress = no_progress,
) -> Prepared:
    """Clean, split, deduplicate and hold out.

    Held-out pairs share no side with any other pair, up to case and punctuation. They are those with the smallest
    digests, so the same text gives the same sets.

    Args:
        raw: The text.
        languages: Its languages.
        held_out: Pairs of the development set, and of the test set; by default :func:`default_held_out`.
        progress: Draws a progress bar.

    Raises:
        DataError: The text is not UTF-8, too few pairs are left, or too few can be held out.
    """
    work = _Preparation(languages)
    items = progress(raw, "clean", len(raw))
    lines = [(number, pair) for number, item in enumerate(items, start=1) if (pair := work.decode(number, item))]
    work.check_encoding(len(raw))
    length_ratio = _length_ratio([pair for _, pair in lines])
    usable = [pair for number, line in lines for pair in work.usable_pairs(number, line, length_ratio)]
    if len(usable) < MIN_PAIRS:
        raise DataError(
            f"{len(usable)} pairs are left of {len(raw)} lines, too few to train on; {MIN_PAIRS} are needed. Left out: "
            + "; ".join(f"{count}: {reason.value}" for reason, count in work.counts().most_common())
        )
    num_held_out = default_held_out(len(usable)) if held_out is None else held_out
    train, dev, test = _hold_out(usable, num_held_out)
    return Prepared(train, dev, test, work.left_out, len(raw), work.num_repaired, work.num_split, length_ratio)


def _length_ratio(pairs: Sequence[Pair]) -> float:
    """Characters of the second language for each character of the first, in the whole text."""
    lengths = [sum(len(pair[side]) for pair in pairs) for side in (0, 1)]
    return min(100.0, max(0.01, round(lengths[1] / lengths[0], 2))) if pairs else 1.0


@dataclass
class _Preparation:
    """Counts and pairs of the lines read so far."""

    languages: tuple[str, str]
    left_out: list[LeftOut] = field(default_factory=list)
    num_repaired: int = 0
    num_split: int = 0
    _pairs: set[Pair] = field(default_factory=set)
    _repetitions: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))

    def counts(self) -> Counter[Reason]:
        """Pairs left out, by reason."""
        return Counter(entry.reason for entry in self.left_out)

    def decode(self, number: int, raw: RawPair) -> Pair | None:
        """The cleaned sides of a line, or None if it is left out."""
        if raw is None:
            self._leave_out(number, Reason.TOO_FEW_COLUMNS, ("", ""))
            return None
        try:
            written = (raw[0].decode("utf-8"), raw[1].decode("utf-8"))
        except UnicodeDecodeError:
            shown = (raw[0].decode("utf-8", "replace"), raw[1].decode("utf-8", "replace"))
            self._leave_out(number, Reason.NOT_UTF8, shown)
            return None
        pair = (clean_side(written[0]), clean_side(written[1]))
        reason = incomplete(pair)
        if reason:
            self._leave_out(number, reason, pair)
            return None
        # Whitespace at the ends is no repair.
        self.num_repaired += pair != (written[0].strip(), written[1].strip())
        return pair

    def check_encoding(self, num_lines: int) -> None:
        """Refuse a text in another encoding.

        Raises:
            DataError: Too many lines are not UTF-8.
        """
        lines = [entry.line for entry in self.left_out if entry.reason is Reason.NOT_UTF8]
        if len(lines) > _MAX_NOT_UTF8 * num_lines:
            raise DataError(f"{len(lines)} of {num_lines} lines are not UTF-8, line {lines[0]} first. {HOW_TO_CONVERT}")

    def usable_pairs(self, number: int, line: Pair, length_ratio: float) -> Iterable[Pair]:
        """The sentence pairs of a line that are not left out."""
        pairs = split_pair(line, self.languages, length_ratio)
        self.num_split += len(pairs) > 1
        for pair in pairs:
            reason = fault(pair, length_ratio) or self._repetition(pair)
            if reason:
                self._leave_out(number, reason, pair)
            else:
                yield pair

    def _repetition(self, pair: Pair) -> Reason | None:
        """Why a pair without fault adds nothing to the earlier ones; counts it if it does."""
        if pair in self._pairs:
            return Reason.DUPLICATE
        counted = [(counts, bare_words(side)) for counts, side in zip(self._repetitions, pair, strict=True)]
        if any(counts[side] >= MAX_REPETITIONS for counts, side in counted):
            return Reason.REPEATED
        for counts, side in counted:
            counts[side] += 1
        self._pairs.add(pair)
        return None

    def _leave_out(self, number: int, reason: Reason, pair: Pair) -> None:
        self.left_out.append(LeftOut(number, reason, pair))


def _hold_out(pairs: Sequence[Pair], number: int) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Training, development and test pairs; the latter two have ``number`` pairs each.

    Raises:
        DataError: Too few pairs share no side with others.
    """
    words = [tuple(map(bare_words, pair)) for pair in pairs]
    counts = [Counter(sides[which] for sides in words) for which in (0, 1)]
    unique = [index for index, sides in enumerate(words) if counts[0][sides[0]] == counts[1][sides[1]] == 1]
    if len(unique) < 2 * number or len(pairs) <= 2 * number:
        raise DataError(
            f"{len(unique)} of {len(pairs)} pairs share no side with another, too few for two held-out sets of "
            f"{number}; ask for fewer with --held-out, or give more text."
        )
    unique.sort(key=lambda index: hashlib.sha256("\t".join(words[index]).encode()).digest())
    test, dev = set(unique[:number]), set(unique[number : 2 * number])
    return (
        [pair for index, pair in enumerate(pairs) if index not in test and index not in dev],
        [pair for index, pair in enumerate(pairs) if index in dev],
        [pair for index, pair in enumerate(pairs) if index in test],
    )
