"""Forms of address of German sentences: the formal ``Sie`` and the informal ``du`` and ``ihr``."""

from __future__ import annotations

import re

_IHR_WITH_VERB = r"Ihr (?:seid|[a-zäöüß]+t)\b"
"""The informal plural at the start of a sentence ("Ihr habt"); after the formal "Ihr" comes a noun or an adjective."""

_INFORMAL = re.compile(
    rf"\b([Dd]u|[Dd]ich|[Dd]ir|[Dd]ein(?:e[mnrs]?)?|[Ee]uch|[Ee]u(?:er|re[mnrs]?)|{_IHR_WITH_VERB})\b"
)
_FORMAL_WORD = rf"(?!{_IHR_WITH_VERB})(Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b"
_FORMAL = re.compile(rf"(?<=[^.!?:„“\"»«›‹–—…-]\s){_FORMAL_WORD}")
_FORMAL_ANYWHERE = re.compile(rf"\b{_FORMAL_WORD}")
_YOU = re.compile(r"\b(you|your|yours|yourself|yourselves)\b", re.IGNORECASE)
_THIRD_PERSON = re.compile(r"\b(she|her|hers|they|them|their|theirs|it|its)\b", re.IGNORECASE)


def is_formal(german: str, english: str) -> bool:
    """Whether a German sentence addresses its reader formally.

    Args:
        german: The sentence.
        english: What it translates: tells "you" from "she" and "they" where ``Sie`` begins the sentence.
    """
    if _FORMAL.search(german):
        return True
    addressed = _YOU.search(english) is not None and not _THIRD_PERSON.search(english)
    return addressed and _FORMAL_ANYWHERE.search(german) is not None


def is_informal(german: str) -> bool:
    """Whether a German sentence addresses its reader informally.

    Args:
        german: The sentence.
    """
    return _INFORMAL.search(german) is not None
