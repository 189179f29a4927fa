"""Sentence pairs bent the way people bend them, so that a model has seen it before: capitals, typos, new names.

Corpora are tidy and about few people, and a model that saw nothing else answers anything else with nonsense. What is
done to a source is done to its target wherever a translator would do it: capitals stay capitals, names stay names.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from model.errors import ConfigError

_NAMES_OF_CORPORA = re.compile(r"\b(Tom|Mary|Maria|Sami|Layla|Skura|Ziri|Yanni|John|Ken|Bill|Jim|Emily)\b")
_PUNCTUATION = str.maketrans("", "", '.,!?;:"()„“”«»')
_ONSETS = (
    *"bcdfghjklmnprstvwxyz", "br", "ch", "dr", "fr", "gl", "gr", "kh", "kl", "kr", "ł", "ñ", "ph", "pr", "qu", "sch",
    "sh", "sk", "st", "ş", "š", "th", "tr", "ts", "tz", "w", "zh", "ž", "",
)  # fmt: skip
_VOWELS = (
    *"aaaeeeiiooouuy",
    *("á", "ai", "au", "å", "ä", "ão", "é", "ei", "ê", "ia", "ie", "í", "ó", "ö", "ø", "ou", "ü"),
)
_CODAS = (*"klmnrstz", "", "", "", "", "ch", "ck", "ff", "ll", "nd", "ng", "nn", "rd", "ś", "ss", "th", "wski", "sen")
_EMOJI = tuple("🙂😀😂👍🎉❤🔥😢🤔🙏")
_SIGNS = ("…", "→", "½", "€", "&", "%", "§", "°", "C#", "日本", "Москва", "«", "»", "—")


@dataclass(frozen=True)
class Augmentation:
    """How many of the sentence pairs of an epoch are bent, and how; drawn anew in every epoch.

    Args:
        upper: Share whose two sides are written in capitals.
        lower: Share whose source has no capitals.
        unpunctuated: Share whose two sides lose their punctuation.
        typos: Share whose source has a wrong letter, or several where it is long.
        names: Share of the pairs with a favourite name of the corpora whose names are replaced by made-up ones.
        signs: Share with a number, an address, an emoji or another sign put at the same end of both sides.
        joined: Share of the batches whose sentences, bent or not, are joined to longer ones, up to the longest
            allowed.

    Raises:
        ConfigError: A share is no number from 0 to 1, or ``upper``, ``lower``, ``unpunctuated``, ``typos`` and
            ``signs`` come to more than 1.
    """

    upper: float = 0.0
    lower: float = 0.0
    unpunctuated: float = 0.0
    typos: float = 0.0
    names: float = 0.0
    signs: float = 0.0
    joined: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            share = getattr(self, field.name)
            if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
                raise ConfigError(f"augment has {field.name} {share!r}; it must be a share, 0 to 1.")
        if self._of_sentences > 1 + 1e-9:  # shares that come to 1 may be off by what floating point rounds
            raise ConfigError(
                f"The shares of augment come to {self._of_sentences:g} without names and joined; a sentence is bent in "
                "one way, so they can come to 1 at most."
            )

    @property
    def bends_sentences(self) -> bool:
        """Whether :meth:`bend` ever changes a pair."""
        return self._of_sentences > 0 or self.names > 0

    @property
    def _of_sentences(self) -> float:
        return self.upper + self.lower + self.unpunctuated + self.typos + self.signs

    def bend(self, source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
        """A sentence pair, bent or as it was.

        Args:
            source: A sentence.
            target: Its translation.
            rng: Decides; the same pair comes of the same state.
        """
        if rng.random() < self.names:
            source, target = rename(source, target, rng)
        draw = rng.random()
        for share, way in (
            (self.upper, _capitals),
            (self.lower, _no_capitals),
            (self.unpunctuated, _no_punctuation),
            (self.typos, _typos),
            (self.signs, _signs),
        ):
            if draw < share:
                return way(source, target, rng)
            draw -= share
        return source, target


def string_together(pairs: Sequence[tuple[str, str]], rng: np.random.Generator) -> tuple[str, str]:
    """Sentences in a row as one: as they are, or with commas for their full stops.

    Args:
        pairs: Sentences and their translations; at least one.
        rng: Decides.
    """
    if rng.random() < 0.5:
        return " ".join(source for source, _ in pairs), " ".join(target for _, target in pairs)
    sides = [[side.rstrip(".!?") for side in sentences] for sentences in zip(*pairs, strict=True)]
    return ", ".join(sides[0]) + ".", ", ".join(sides[1]) + "."


def rename(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    """Replace the favourite names of the corpora by made-up ones, the same on both sides.

    Pairs whose sides do not have the same names as often are left as they are; ``Mary`` may be ``Maria`` over there.

    Args:
        source: A sentence.
        target: Its translation.
        rng: Decides.
    """
    sides = [[_one_spelling(name) for name in _NAMES_OF_CORPORA.findall(side)] for side in (source, target)]
    if not sides[0] or sorted(sides[0]) != sorted(sides[1]):
        return source, target
    others = {name: made_up_name(rng) for name in dict.fromkeys(sides[0])}
    renamed = [_NAMES_OF_CORPORA.sub(lambda found: others[_one_spelling(found[0])], side) for side in (source, target)]
    return renamed[0], renamed[1]


def made_up_name(rng: np.random.Generator) -> str:
    """One to three syllables no vocabulary has as a whole, often with letters of other languages."""
    syllables = [_pick(_ONSETS, rng) + _pick(_VOWELS, rng) + _pick(_CODAS, rng) for _ in range(rng.integers(1, 4))]
    return "".join(syllables).capitalize()


def _one_spelling(name: str) -> str:
    return "Maria" if name == "Mary" else name


def _capitals(source: str, target: str, _: np.random.Generator) -> tuple[str, str]:
    return source.upper(), target.upper()


def _no_capitals(source: str, target: str, _: np.random.Generator) -> tuple[str, str]:
    return source.lower(), target


def _no_punctuation(source: str, target: str, _: np.random.Generator) -> tuple[str, str]:
    bare = source.translate(_PUNCTUATION), target.translate(_PUNCTUATION)
    return bare if bare[0].strip() and bare[1].strip() else (source, target)


def _typos(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    letters = list(source)
    for _ in range(1 + len(source) // 40):
        places = [place for place in range(1, len(letters)) if letters[place].isalpha()]
        if len(places) < 4:
            break
        place = places[int(rng.integers(len(places)))]
        slip = rng.integers(4)
        if slip == 0:
            letters[place - 1], letters[place] = letters[place], letters[place - 1]
        elif slip == 1:
            del letters[place]
        elif slip == 2:
            letters.insert(place, letters[place])
        else:
            letters[place] = _pick(tuple(string.ascii_lowercase), rng)
    return "".join(letters), target


def _signs(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    sign = _made_up_sign(rng)
    return (f"{sign} {source}", f"{sign} {target}") if rng.random() < 0.3 else (f"{source} {sign}", f"{target} {sign}")


def _made_up_sign(rng: np.random.Generator) -> str:
    kind = rng.integers(6)
    word = made_up_name(rng).lower()
    number = str(int(rng.integers(10 ** int(rng.integers(1, 7)))))
    if kind == 0:
        return number
    if kind == 1:
        return f"{number[:2]}:{number[-2:]}" if len(number) > 3 else f"#{number}"
    if kind == 2:
        return f"https://{word}.{_pick(('org', 'com', 'de', 'io'), rng)}/{number}"
    if kind == 3:
        return f"{word}{number[:2]}@{word}.{_pick(('org', 'com', 'de'), rng)}"
    return _pick(_EMOJI if kind == 4 else _SIGNS, rng)


def _pick(among: tuple[str, ...], rng: np.random.Generator) -> str:
    return among[int(rng.integers(len(among)))]
