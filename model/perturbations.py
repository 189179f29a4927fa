"""Odd inputs: what people really send, made from a test set, and what must not happen to it.

Test sets are tidy: whole sentences, cased and punctuated, about people with a handful of names. Each oddity here
bends their sentences another way. Where the translation is known all the same, BLEU tells what that costs; where it
is not, one can still count what is wrong with any answer: nothing where there was something, or the same words over
and over.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
"""A sentence and its translation."""

_NAMES = (
    "Ayşe",
    "Björn",
    "Chidi",
    "Guadalupe",
    "Hiroshi",
    "Ingrid",
    "Kowalski",
    "Nguyen",
    "Olumide",
    "Priya",
    "Svetlana",
)
_NUMBERS = ("7", "23", "1,984", "3.5", "42 %", "10:30", "2026-11-21", "0171 555 0199")
_NOISE = ("🙂", "https://example.org/a?b=c", "user@example.org", "#2", "C++", "…", "„“", "→", "½", "日本")
_COMMON_NAMES = re.compile(r"\b(Tom|Mary|Maria)\b")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Oddity:
    """One way to bend a sentence.

    Args:
        name: For tables.
        what: What it stands for.
        bend: Makes, with a source of chance, one odd pair of the test set's pairs and a place among them; the
            translation is None where it is no longer known, the pair None where this sentence cannot be bent so.
        ignore_case: Whether case is no part of the score, because the source has none left.
    """

    name: str
    what: str
    bend: Callable[[Sequence[Pair], int, random.Random], tuple[str, str | None] | None]
    ignore_case: bool = False


@dataclass(frozen=True)
class OddInput:
    """A bent sentence.

    Args:
        oddity: How it was bent.
        text: The sentence.
        reference: Its translation, where it is known.
        kept: What any translation has to hold, letter for letter: names and numbers put in.
    """

    oddity: Oddity
    text: str
    reference: str | None
    kept: tuple[str, ...] = ()


def make_odd_inputs(pairs: Sequence[Pair], number: int, seed: int = 1) -> list[OddInput]:
    """Bend sentences of a test set, as many of each kind.

    Args:
        pairs: The test set.
        number: Odd inputs to make.
        seed: The same inputs for the same seed.

    Returns:
        The inputs, kind by kind.

    Raises:
        ValueError: There is no pair to bend.
    """
    if not pairs:
        raise ValueError("There are no sentences to bend.")
    found: list[OddInput] = []
    for kind, oddity in enumerate(ODDITIES):
        wanted = number * (kind + 1) // len(ODDITIES) - number * kind // len(ODDITIES)
        chance = random.Random(f"{seed} {oddity.name}")
        order = list(range(len(pairs)))
        chance.shuffle(order)
        made = 0
        # Around again where a kind fits few sentences: chance makes something else of them.
        for attempt in range(max(20 * wanted, 2 * len(pairs))):
            if made == wanted:
                break
            bent = oddity.bend(pairs, order[attempt % len(order)], chance)
            if bent is not None and bent[0].strip():
                found.append(OddInput(oddity, *bent, kept=_put_in(oddity, bent[0])))
                made += 1
    return found


def share_kept(odd: OddInput, translation: str) -> tuple[int, int]:
    """How much of what was put in is still there: (found, put in)."""
    return sum(part in translation for part in odd.kept), len(odd.kept)


def _put_in(oddity: Oddity, text: str) -> tuple[str, ...]:
    if oddity.bend is _new_names:
        return tuple(name for name in _NAMES if name in text)
    if oddity.bend is _numbers:
        return tuple(re.findall(r"\d+", text))
    return ()


def _upper(pairs: Sequence[Pair], at: int, _: random.Random) -> tuple[str, str]:
    return pairs[at][0].upper(), pairs[at][1]


def _lower(pairs: Sequence[Pair], at: int, _: random.Random) -> tuple[str, str] | None:
    source, target = pairs[at]
    return None if source == source.lower() else (source.lower(), target)


def _unpunctuated(pairs: Sequence[Pair], at: int, _: random.Random) -> tuple[str, str] | None:
    source, target = (side.translate(_NO_PUNCTUATION) for side in pairs[at])
    return None if source == pairs[at][0] else (source, target)


_NO_PUNCTUATION = str.maketrans("", "", '.,!?;:"()„“”«»')


def _typos(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, str] | None:
    """One letter in about thirty is swapped with its neighbour, left out, doubled or another."""
    source, target = pairs[at]
    letters = list(source)
    places = [place for place in range(1, len(letters) - 1) if letters[place].isalpha()]
    if len(places) < 4:
        return None
    for place in sorted(chance.sample(places, max(1, len(places) // 30)), reverse=True):
        slip = chance.randrange(4)
        if slip == 0:
            letters[place], letters[place - 1] = letters[place - 1], letters[place]
        elif slip == 1:
            del letters[place]
        elif slip == 2:
            letters.insert(place, letters[place])
        else:
            letters[place] = chance.choice(string.ascii_lowercase)
    return "".join(letters), target


def _new_names(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, str] | None:
    """Names that are none of the training data's favourites; both sides must have the same ones as often."""
    source, target = pairs[at]
    found = [sorted(_COMMON_NAMES.findall(side)) for side in (source, target)]
    names = set(found[0])
    if not names or found[0] != found[1]:
        return None
    others = dict(zip(sorted(names), chance.sample(_NAMES, len(names)), strict=True))
    swapped = [_COMMON_NAMES.sub(lambda name: others[name[0]], side) for side in (source, target)]
    return swapped[0], swapped[1]


def _numbers(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, None]:
    """A number after some word; what the translation would be nobody knows, but the digits must be in it."""
    words = pairs[at][0].split()
    words.insert(chance.randint(1, len(words)) if words else 0, chance.choice(_NUMBERS))
    return " ".join(words), None


def _concatenated(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, str]:
    """Three to six sentences strung together by commas: long, and no sentence splitter will cut it."""
    chosen = [at, *(chance.randrange(len(pairs)) for _ in range(chance.randint(2, 5)))]
    sides = [[pairs[place][side].rstrip(".!?") for place in chosen] for side in (0, 1)]
    return ", ".join(sides[0]) + ".", ", ".join(sides[1]) + "."


def _fragments(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, None] | None:
    words = pairs[at][0].split()
    if len(words) < 3:
        return None
    length = chance.randint(1, len(words) - 1)
    begin = chance.randint(0, len(words) - length)
    return " ".join(words[begin : begin + length]), None


def _noisy(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, None]:
    """Signs no training data has: emoji, addresses, arrows, other scripts."""
    words = pairs[at][0].split()
    for _ in range(chance.randint(1, 2)):
        words.insert(chance.randint(0, len(words)), chance.choice(_NOISE))
    return " ".join(words), None


def _stuttering(pairs: Sequence[Pair], at: int, chance: random.Random) -> tuple[str, None] | None:
    """A word said three times, which tempts a model to say it for ever."""
    words = pairs[at][0].split()
    if len(words) < 2:
        return None
    place = chance.randrange(len(words))
    return " ".join([*words[:place], *[words[place]] * 3, *words[place + 1 :]]), None


ODDITIES: tuple[Oddity, ...] = (
    Oddity("upper case", "ALL CAPITALS", _upper, ignore_case=True),
    Oddity("lower case", "no capitals", _lower, ignore_case=True),
    Oddity("no punctuation", "as typed on a telephone", _unpunctuated),
    Oddity("typos", "a letter in thirty is wrong", _typos),
    Oddity("other names", "than Tom and Mary", _new_names),
    Oddity("numbers", "somewhere in the sentence", _numbers),
    Oddity("long", "three to six sentences with commas between", _concatenated),
    Oddity("fragments", "some words of a sentence", _fragments),
    Oddity("odd signs", "emoji, addresses, arrows, other scripts", _noisy),
    Oddity("stutter", "a word three times", _stuttering),
)
"""All kinds, in the order of tables."""
