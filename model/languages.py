"""Language codes, and the directions a model translates."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import langcodes
from langcodes.tag_parser import LanguageTagError

_FARTHEST = 5
"""Largest distance, as CLDR counts it, at which one code means another: ``no`` is ``nb``, ``nl`` is not ``de``."""


@functools.lru_cache(maxsize=4096)
def standard_code(code: str) -> str:
    """A language code as BCP 47 writes it: ``en`` for ``EN``, ``eng`` and ``eng_Latn``, ``en-US`` for ``en_us``.

    What is no language code comes back in small letters, so that it can be compared and named in a message.
    """
    try:
        return langcodes.standardize_tag(code.strip())
    except LanguageTagError:
        return code.strip().lower()


@functools.lru_cache(maxsize=4096)
def plain_code(code: str) -> str:
    """The language alone, without script and region: ``zh`` for ``zh-Hant``, ``ar`` for ``arb_Arab``."""
    try:
        return langcodes.Language.get(langcodes.standardize_tag(code.strip(), macro=True)).language or ""
    except LanguageTagError:
        return standard_code(code)


@dataclass(frozen=True)
class LanguagePairs:
    """Directions that can be translated.

    Args:
        pairs: (source, target), one by one.
        any_to_any: Languages each of which goes into each other, where that is so; for a model of 200 languages the
            list of its 39,800 pairs would help nobody.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    any_to_any: tuple[str, ...] = ()

    def __contains__(self, pair: object) -> bool:
        """Whether exactly this (source, target) is among them."""
        if pair in self.pairs:
            return True
        return (
            isinstance(pair, tuple)
            and len(pair) == 2
            and pair[0] != pair[1]
            and pair[0] in self.any_to_any
            and pair[1] in self.any_to_any
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """Languages that can be translated from, each once."""
        return tuple(dict.fromkeys([*(source for source, _ in self.pairs), *self.any_to_any]))

    @property
    def targets(self) -> tuple[str, ...]:
        """Languages that can be translated to, each once."""
        return tuple(dict.fromkeys([*(target for _, target in self.pairs), *self.any_to_any]))

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of either side, each once."""
        return tuple(dict.fromkeys([*self.sources, *self.targets]))

    def find(self, source: str | None, target: str | None) -> list[tuple[str, str]]:
        """The pairs a caller may mean: codes in any spelling, regions allowed, None for any language.

        Args:
            source: Language of the text.
            target: Language wanted.

        Returns:
            The (source, target) that fit, in their own spelling; none where nothing does.
        """
        source_code = closest(source, self.sources) if source is not None else None
        target_code = closest(target, self.targets) if target is not None else None
        if (source is not None and source_code is None) or (target is not None and target_code is None):
            return []
        found = [pair for pair in self.pairs if source_code in (None, pair[0]) and target_code in (None, pair[1])]
        sources = [code for code in self.any_to_any if source_code in (None, code)]
        targets = [code for code in self.any_to_any if target_code in (None, code)]
        explicit = set(found)
        found += [(a, b) for a in sources for b in targets if a != b and (a, b) not in explicit]
        return found

    def describe(self, at_most: int = 20) -> str:
        """The pairs for a message: ``en-de, de-en and 3 more``."""
        parts = [f"{source}-{target}" for source, target in self.pairs[:at_most]]
        if len(self.pairs) > at_most:
            parts.append(f"{len(self.pairs) - at_most} more")
        if self.any_to_any:
            named = ", ".join(self.any_to_any[:at_most])
            more = f" and {len(self.any_to_any) - at_most} more" if len(self.any_to_any) > at_most else ""
            parts.append(f"any of {named}{more} to any other of them")
        return ", ".join(parts) or "none"


def merge(several: Iterable[LanguagePairs]) -> LanguagePairs:
    """All directions of several models, each once; only for messages and detection.

    Models that translate any of their languages to any other do not do so among each other: the largest such group
    stays one, what the others add to it is listed pair by pair.
    """
    several = list(several)
    largest = max((pairs.any_to_any for pairs in several), key=len, default=())
    members = set(largest)
    found: dict[tuple[str, str], None] = {}
    for pairs in several:
        found.update(dict.fromkeys(pairs.pairs))
        if not members.issuperset(pairs.any_to_any):
            found.update(dict.fromkeys(itertools.permutations(pairs.any_to_any, 2)))
    return LanguagePairs(tuple(pair for pair in found if not members.issuperset(pair)), largest)


@functools.lru_cache(maxsize=4096)
def closest(code: str, supported: tuple[str, ...]) -> str | None:
    """The supported code a caller means, or None.

    Args:
        code: In any spelling: ``EN``, ``en-US``, ``eng``, ``eng_Latn``, ``zh-TW``.
        supported: Codes to choose from, in their own spelling.
    """
    asked = standard_code(code)
    by_code = {standard_code(own): own for own in reversed(supported)}
    if asked in by_code:
        return by_code[asked]
    if not langcodes.tag_is_valid(asked):
        return None
    match, distance = langcodes.closest_match(asked, list(by_code), max_distance=_FARTHEST)
    if distance <= _FARTHEST:
        return by_code.get(match)
    # ko for ko-Hang: where only one member of a language is there, it is the one that is meant.
    members = [own for own in supported if plain_code(own) == plain_code(asked)]
    return members[0] if len(members) == 1 and "-" not in asked else None
