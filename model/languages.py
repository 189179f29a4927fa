"""Language codes, and the language pairs of a model."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import langcodes
from langcodes.tag_parser import LanguageTagError

_MAX_DISTANCE = 5
"""The largest CLDR distance at which two codes match: ``no`` matches ``nb``, ``nl`` does not match ``de``."""


@functools.lru_cache(maxsize=4096)
def standard_code(code: str) -> str:
    """A language code in BCP 47 form: ``en`` for ``EN``, ``eng`` and ``eng_Latn``, ``en-US`` for ``en_us``.

    A string that is not a language code is returned in lower case, so that it can be compared and shown in messages.
    """
    try:
        return langcodes.standardize_tag(code.strip())
    except LanguageTagError:
        return code.strip().lower()


@functools.lru_cache(maxsize=4096)
def plain_code(code: str) -> str:
    """The language without script and region: ``zh`` for ``zh-Hant``, ``ar`` for ``arb_Arab``."""
    try:
        return langcodes.Language.get(langcodes.standardize_tag(code.strip(), macro=True)).language or ""
    except LanguageTagError:
        return standard_code(code)


@functools.lru_cache(maxsize=4096)
def english_name(code: str) -> str:
    """The English name of a language, such as ``Chinese (Simplified)``; a string that is not a code is unchanged."""
    standard = standard_code(code)
    return langcodes.Language.get(standard).display_name() if is_language(code) else code


def is_language(code: str) -> bool:
    """Whether a string is the code of a language, in any spelling."""
    return langcodes.tag_is_valid(standard_code(code))


@dataclass(frozen=True)
class LanguagePairs:
    """Directions that can be translated.

    Args:
        pairs: (source, target), listed one by one.
        any_to_any: Languages that can all be translated into each other. They are not listed in ``pairs``: 200
            languages have 39,800 pairs.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    any_to_any: tuple[str, ...] = ()

    def __contains__(self, pair: object) -> bool:
        """Whether exactly this (source, target) can be translated."""
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
    def example(self) -> tuple[str, str]:
        """The first pair; there must be at least one."""
        source, target = self.pairs[0] if self.pairs else self.any_to_any[:2]
        return source, target

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
        """Source and target languages, each once."""
        return tuple(dict.fromkeys([*self.sources, *self.targets]))

    def find(self, source: str | None, target: str | None) -> list[tuple[str, str]]:
        """The pairs that match a request.

        Args:
            source: Language of the text, in any spelling and with or without a region; None for any language.
            target: Target language, likewise.

        Returns:
            The matching (source, target) in their own spelling; empty if there are none.
        """
        source_code = closest(source, self.sources) if source is not None else None
        target_code = closest(target, self.targets) if target is not None else None
        if (source is not None and source_code is None) or (target is not None and target_code is None):
            return []
        pairs = [pair for pair in self.pairs if source_code in (None, pair[0]) and target_code in (None, pair[1])]
        sources = [code for code in self.any_to_any if source_code in (None, code)]
        targets = [code for code in self.any_to_any if target_code in (None, code)]
        explicit = set(pairs)
        pairs += [(a, b) for a in sources for b in targets if a != b and (a, b) not in explicit]
        return pairs

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
    """All language pairs of several models, each once; used for messages and language detection only.

    No model translates between the groups of two any-to-any models. The largest group is therefore kept, and the
    additional pairs of the other groups are listed one by one.
    """
    several = list(several)
    largest = max((pairs.any_to_any for pairs in several), key=len, default=())
    members = set(largest)
    merged: dict[tuple[str, str], None] = {}
    for pairs in several:
        merged.update(dict.fromkeys(pairs.pairs))
        if not members.issuperset(pairs.any_to_any):
            merged.update(dict.fromkeys(itertools.permutations(pairs.any_to_any, 2)))
    return LanguagePairs(tuple(pair for pair in merged if not members.issuperset(pair)), largest)


@functools.lru_cache(maxsize=4096)
def closest(code: str, supported: tuple[str, ...]) -> str | None:
    """The supported code that matches a requested code, or None.

    Args:
        code: The requested code in any spelling: ``EN``, ``en-US``, ``eng``, ``eng_Latn``, ``zh-TW``.
        supported: Codes to choose from, in their own spelling.
    """
    standard = standard_code(code)
    by_code = {standard_code(own): own for own in reversed(supported)}
    if standard in by_code:
        return by_code[standard]
    if not is_language(code):
        return None
    match, distance = langcodes.closest_match(standard, list(by_code), max_distance=_MAX_DISTANCE)
    if distance <= _MAX_DISTANCE:
        return by_code.get(match)
    # ko for ko-Hang: if only one variety of a language is supported, it is the match.
    members = [own for own in supported if plain_code(own) == plain_code(standard)]
    return members[0] if len(members) == 1 and "-" not in standard else None
