"""The kinds of perturbed inputs, and how each changes a sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.quality.texts import (
    BULLETS,
    CODE,
    COMPANIES,
    EMOJI,
    FAMILY_NAMES,
    GIVEN_NAMES,
    NAMES,
    NUMBERS,
    PLACES,
    REPEATED_MARKS,
    SIGNS,
    unicode_blocks,
)
from model.training.noising import (
    LETTERS,
    MIN_LETTERS_FOR_TYPOS,
    SENTENCE_ENDS,
    TYPO_KINDS,
    Pair,
    joined_by_commas,
    misspell,
    replace_names,
    without_punctuation,
)

_LETTERS_PER_TYPO = 30

_EXTRA_SENTENCES = (2, 5)
"""Smallest and largest number of sentences joined to another."""

_LIST_ITEMS = (3, 5)
_WORDS_OF_HEADING = (2, 8)
_TOKENS_OF_LONG_SENTENCE = 100
_BLOCKS_PER_INPUT = 2
"""With the default number of inputs, every Unicode block occurs."""

_CHARACTERS_PER_BLOCK = 3
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMMON_NAMES = re.compile(r"\b(Tom|Mary|Maria)\b")


@dataclass(frozen=True)
class Draw:
    """The material of a perturbed input.

    Args:
        pairs: The test set.
        at: Index of the pair to perturb.
        rng: A random number generator.
        number: How many inputs of this kind were made before.
    """

    pairs: Sequence[Pair]
    at: int
    rng: random.Random
    number: int

    @property
    def pair(self) -> Pair:
        """The pair to perturb."""
        return self.pairs[self.at]

    def random_pair(self) -> Pair:
        """A random pair of the test set."""
        return self.pairs[self.rng.randrange(len(self.pairs))]


@dataclass(frozen=True)
class Changed:
    """A perturbed sentence.

    Args:
        text: The sentence.
        reference: Its translation; None if the reference is no longer valid.
        kept: What any translation must contain unchanged.
    """

    text: str
    reference: str | None = None
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Perturbation:
    """One way to perturb a sentence.

    Args:
        name: Its name in tables.
        apply: Gives the perturbed sentence; None if the perturbation does not apply to the sentence drawn.
        ignore_case: Whether scores ignore case, because the source has none.
    """

    name: str
    apply: Callable[[Draw], Changed | None]
    ignore_case: bool = False


def _upper(draw: Draw) -> Changed:
    return Changed(draw.pair[0].upper(), draw.pair[1])


def _lower(draw: Draw) -> Changed | None:
    source, target = draw.pair
    return None if source == source.lower() else Changed(source.lower(), target)


def _unpunctuated(draw: Draw) -> Changed | None:
    source, target = (without_punctuation(side) for side in draw.pair)
    return None if source == draw.pair[0] else Changed(source, target)


def _typos(draw: Draw) -> Changed | None:
    """Swap about one letter in thirty with the letter before, or remove, double or replace it."""
    source, target = draw.pair
    letters = list(source)
    indices = [index for index in range(1, len(letters) - 1) if letters[index].isalpha()]
    if len(indices) < MIN_LETTERS_FOR_TYPOS:
        return None
    # From the end, so that removing or doubling a letter does not move the letters still to be changed.
    for index in sorted(draw.rng.sample(indices, max(1, len(indices) // _LETTERS_PER_TYPO)), reverse=True):
        misspell(letters, index, draw.rng.randrange(TYPO_KINDS), lambda: draw.rng.choice(LETTERS))
    return Changed("".join(letters), target)


def _new_names(draw: Draw) -> Changed | None:
    """Replace the most frequent names of the training data by other names."""
    replaced = replace_names(
        draw.pair,
        _COMMON_NAMES,
        lambda names: dict(zip(sorted(names), draw.rng.sample(NAMES, len(names)), strict=True)),
    )
    return replaced and Changed(*replaced, tuple(name for name in NAMES if name in replaced[0]))


def _people(draw: Draw) -> Changed:
    """Put a full name in place of a frequent one; where there is none, as the speaker of the sentence."""
    name = f"{draw.rng.choice(GIVEN_NAMES)} {draw.rng.choice(FAMILY_NAMES)}"
    replaced = replace_names(draw.pair, _COMMON_NAMES, lambda names: {**{same: same for same in names}, names[0]: name})
    source, target = replaced or (f"{name}: {side}" for side in draw.pair)
    return Changed(source, target, (name,))


def _places(draw: Draw) -> Changed:
    place = draw.rng.choice(PLACES)
    return _both(draw, lambda side: _before_end(side, f" ({place})"), (place,))


def _companies(draw: Draw) -> Changed:
    company = draw.rng.choice(COMPANIES)
    return _both(draw, lambda side: f"{company}: {side}", (company,))


def _numbers(draw: Draw) -> Changed:
    """Insert a number after a random word. The translation is not known, but it must contain the digits."""
    words = draw.pair[0].split()
    words.insert(draw.rng.randint(1, len(words)) if words else 0, draw.rng.choice(NUMBERS))
    text = " ".join(words)
    return Changed(text, None, tuple(re.findall(r"\d+", text)))


def _concatenated(draw: Draw) -> Changed:
    """Join three to six sentences by commas: a long input that segmentation does not split."""
    return Changed(
        *joined_by_commas([draw.pair, *(draw.random_pair() for _ in range(draw.rng.randint(*_EXTRA_SENTENCES)))])
    )


def _hundred_tokens(draw: Draw) -> Changed:
    pairs = [draw.pair]
    while sum(len(_TOKEN.findall(source)) for source, _ in pairs) < _TOKENS_OF_LONG_SENTENCE:
        pairs.append(draw.random_pair())
    return Changed(*joined_by_commas(pairs))


def _fragments(draw: Draw) -> Changed | None:
    words = draw.pair[0].split()
    if len(words) < 3:
        return None
    length = draw.rng.randint(1, len(words) - 1)
    start = draw.rng.randint(0, len(words) - length)
    return Changed(" ".join(words[start : start + length]))


def _single_words(draw: Draw) -> Changed | None:
    words = [word for word in _TOKEN.findall(draw.pair[0]) if word.isalpha() and len(word) > 1]
    return Changed(draw.rng.choice(words)) if words else None


def _headings(draw: Draw) -> Changed | None:
    """Write the words of a short sentence with capitals, without a full stop."""
    source, target = (side.rstrip(SENTENCE_ENDS) for side in draw.pair)
    words = source.split()
    if not _WORDS_OF_HEADING[0] <= len(words) <= _WORDS_OF_HEADING[1]:
        return None
    return Changed(" ".join(word[0].upper() + word[1:] for word in words), target)


def _lists(draw: Draw) -> Changed:
    pairs = [draw.pair, *(draw.random_pair() for _ in range(draw.rng.randint(*_LIST_ITEMS) - 1))]
    bullet = draw.rng.choice(BULLETS)
    # "1." and "a)" count on: their first character is followed by the next ones.
    bullets = [
        (chr(ord(bullet[0]) + index) + bullet[1:] if bullet[0].isalnum() else bullet) for index in range(len(pairs))
    ]
    source, target = (
        "\n".join(f"{mark} {side}" for mark, side in zip(bullets, sides, strict=True))
        for sides in zip(*pairs, strict=True)
    )
    return Changed(source, target)


def _noisy(draw: Draw) -> Changed:
    """Insert symbols that the training data does not contain: emoji, addresses, arrows, other scripts."""
    words = draw.pair[0].split()
    for _ in range(draw.rng.randint(1, 2)):
        words.insert(draw.rng.randint(0, len(words)), draw.rng.choice(SIGNS))
    return Changed(" ".join(words))


def _emoji(draw: Draw) -> Changed:
    emoji = draw.rng.sample(EMOJI, draw.rng.randint(1, 3))
    text = "".join(emoji)
    in_front = draw.rng.random() < 0.3
    return _both(draw, lambda side: f"{text} {side}" if in_front else f"{side} {text}", tuple(emoji))


def _every_script(draw: Draw) -> Changed:
    """Insert a word of each of the next Unicode blocks: three random characters."""
    words = draw.pair[0].split()
    blocks = unicode_blocks()
    first = draw.number * _BLOCKS_PER_INPUT
    inserted = [
        "".join(draw.rng.choices(blocks[index % len(blocks)], k=_CHARACTERS_PER_BLOCK))
        for index in range(first, first + _BLOCKS_PER_INPUT)
    ]
    for word in inserted:
        words.insert(draw.rng.randint(0, len(words)), word)
    return Changed(" ".join(words), None, tuple(inserted))


def _repeated_marks(draw: Draw) -> Changed:
    marks = draw.rng.choice(REPEATED_MARKS)
    return _both(draw, lambda side: side.rstrip(SENTENCE_ENDS) + marks)


def _code(draw: Draw) -> Changed:
    """Write code behind a sentence, in its line or in the next."""
    code = draw.rng.choice(CODE)
    between = draw.rng.choice((" ", "\n"))
    return _both(draw, lambda side: f"{side.rstrip(SENTENCE_ENDS)}:{between}{code}", (code,))


def _wrong_language(draw: Draw) -> Changed:
    return Changed(draw.pair[1])


def _mixed_languages(draw: Draw) -> Changed:
    """Join a sentence and one that is in the target language by a comma."""
    _, target = draw.random_pair()
    return Changed(*joined_by_commas([draw.pair, (target, target)]))


def _stuttering(draw: Draw) -> Changed | None:
    """Repeat a word three times, which may start a repetition loop."""
    words = draw.pair[0].split()
    if len(words) < 2:
        return None
    index = draw.rng.randrange(len(words))
    return Changed(" ".join([*words[:index], *[words[index]] * 3, *words[index + 1 :]]))


def _both(draw: Draw, change: Callable[[str], str], kept: tuple[str, ...] = ()) -> Changed:
    """The same change on both sides."""
    source, target = draw.pair
    return Changed(change(source), change(target), kept)


def _before_end(text: str, new: str) -> str:
    """A sentence with something before its full stop."""
    body = text.rstrip(SENTENCE_ENDS)
    return body + new + text[len(body) :]


PERTURBATIONS: tuple[Perturbation, ...] = (
    Perturbation("upper case", _upper, ignore_case=True),
    Perturbation("lower case", _lower, ignore_case=True),
    Perturbation("no punctuation", _unpunctuated),
    Perturbation("typos", _typos),
    Perturbation("other names", _new_names),
    Perturbation("people", _people),
    Perturbation("places", _places),
    Perturbation("companies", _companies),
    Perturbation("numbers", _numbers),
    Perturbation("long", _concatenated),
    Perturbation("100 tokens", _hundred_tokens),
    Perturbation("fragments", _fragments),
    Perturbation("single words", _single_words),
    Perturbation("headings", _headings, ignore_case=True),
    Perturbation("lists", _lists),
    Perturbation("odd signs", _noisy),
    Perturbation("emoji", _emoji),
    Perturbation("every script", _every_script),
    Perturbation("repeated marks", _repeated_marks),
    Perturbation("code", _code),
    Perturbation("wrong language", _wrong_language),
    Perturbation("mixed languages", _mixed_languages),
    Perturbation("stutter", _stuttering),
)
"""All perturbations, in the order of tables. Their names are part of the random seed."""
