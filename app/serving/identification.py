"""Texts in another language than the expected ones, found with fastText's model of 176 languages.

:mod:`app.serving.detection` chooses among the loaded languages, and calls a French sentence English if only English and
German are loaded. Here a text is compared with all languages, and another one is named only when it is nearly certain
(decision 0057).
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable
from typing import Any

import langcodes
from langcodes.tag_parser import LanguageTagError

from model.languages import plain_code

MAX_CHARACTERS = 300
"""Characters of a text that are read."""

MIN_BYTES = 20
"""UTF-8 bytes of words that a text needs: names and single words are too often written alike in many languages.

Of 80,000 phrases and sentences in English and German, 21 of this length were called foreign, most of them names such as
"Ligue de hockey junior majeur du Québec".
"""

MIN_PROBABILITY = 0.8
"""The least probability of the other language."""

MAX_DISTANCE = 30
"""The largest CLDR distance of languages that are not told apart: Danish and Norwegian have 12, French and
English 84.
"""

SAME_LANGUAGE = {"als": "gsw", "bar": "de", "ksh": "de", "pfl": "de", "sco": "en", "bs": "sr", "hr": "sr", "sh": "sr"}
"""Labels of the model that are not told apart from another language. ``als`` is its label for Alemannic."""

_PREFIX = "__label__"


def other_language(text: str, expected: Iterable[str]) -> tuple[str, float] | None:
    """The language of a text if it is almost certainly none of the expected ones.

    Takes about 50 us; may be called from any thread.

    Args:
        text: The text.
        expected: Language codes in any spelling.

    Returns:
        Its code and its probability among all languages of the model, 0 to 1; None if the text is short or in an
        expected language, if that is not certain, or if the model does not know an expected language.
    """
    line = " ".join(text[:MAX_CHARACTERS].split())
    # Each letter has at least one byte; counting them takes half the time of joining them.
    if sum(map(str.isalpha, line)) + line.count(" ") < MIN_BYTES and _num_bytes_of_words(line) < MIN_BYTES:
        return None
    labels, probabilities = _classifier().predict(line, 1, MIN_PROBABILITY, "replace")
    if not labels:
        return None
    code = labels[0].removeprefix(_PREFIX)
    if _may_be_expected(code, tuple(expected)):
        return None
    return code, round(min(1.0, float(probabilities[0])), 4)


def _num_bytes_of_words(line: str) -> int:
    return len("".join(sign for sign in line if sign.isalpha() or sign == " ").encode(errors="replace"))


@functools.cache
def _classifier() -> Any:
    # Imported here: a service that is not asked to translate needs no model of languages.
    import fasttext

    path = importlib.resources.files("app.serving") / "language_identification" / "lid.176.ftz"
    with importlib.resources.as_file(path) as file:
        return fasttext.load_model(str(file))


@functools.cache
def _known() -> frozenset[str]:
    """The codes of all languages of the model."""
    labels, _ = _classifier().predict("a", -1, 0.0)
    return frozenset(label.removeprefix(_PREFIX) for label in labels)


@functools.lru_cache(maxsize=1024)
def _may_be_expected(code: str, expected: tuple[str, ...]) -> bool:
    same = SAME_LANGUAGE.get(code, code)
    for language in map(plain_code, expected):
        wanted = SAME_LANGUAGE.get(language, language)
        if wanted == same or not _is_known(language):
            return True
        if min(langcodes.tag_distance(same, wanted), langcodes.tag_distance(wanted, same)) <= MAX_DISTANCE:
            return True
    return False


@functools.lru_cache(maxsize=1024)
def _is_known(language: str) -> bool:
    try:
        return any(langcodes.tag_distance(language, code) <= 1 for code in _known())
    except LanguageTagError:
        return False
