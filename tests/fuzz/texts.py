"""Texts and markup, made by hypothesis: through the parts that read them, and through whole translations.

The strategies and the tests are those of ``tests/model``; here they get their choices from the fuzzer instead of from
hypothesis. What they assert is a finding if it is false.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from model.artifacts.bundle import load_bundle
from model.errors import InputError
from model.text.glossary import GlossaryTerm
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.fuzz.bundles import RELEASE
from tests.fuzz.target import Target
from tests.model.markup_documents import HTML, XML
from tests.model.test_generated_markup import (
    ANYTHING,
    test_any_html_has_every_tag_once_under_any_alignment,
    test_any_untranslated_html_comes_back_byte_for_byte,
    test_well_formed_xml_has_every_tag_once_and_stays_well_formed,
)
from tests.model.test_markup_offsets import (
    test_characters_of_any_translation_are_found_in_the_translated_document,
    test_characters_of_any_untranslated_html_stay_where_they_are,
)
from tests.model.test_protected_translation import texts
from tests.model.test_protection import (
    TEXTS,
    test_default_spans_are_in_order_disjoint_and_within_a_line,
    test_no_character_outside_of_the_unknown_spans_is_unknown,
    test_spans_of_patterns_are_in_order_and_disjoint,
)

OPTIONS = st.fixed_dictionaries(
    {"max_new_tokens": st.integers(1, 6)},
    optional={
        "decoding": st.sampled_from(["greedy", "beam"]),
        "beam_size": st.integers(1, 3),
        "num_hypotheses": st.integers(1, 2),
        "min_new_tokens": st.integers(0, 6),
        "length_penalty": st.floats(0, 2),
        "no_repeat_ngram_size": st.integers(0, 3),
        "scoring": st.sampled_from(["hf", "ct2", "marian", "wu"]),
        "early_stopping": st.booleans(),
        "protect": st.sampled_from(["auto", "none", ("[0-9]+", r"\w+t"), ("(", "auto"), ("",)]),
        "glossary": st.lists(st.builds(GlossaryTerm, st.text(max_size=5), st.text(max_size=5)), max_size=3).map(tuple)
        | st.just((GlossaryTerm("cat", "Kater"),)),
        "target_prefix": st.sampled_from(["Katze", "x", " "]) | st.text(max_size=5),
        **dict.fromkeys(("return_scores", "return_search", "return_alignment", "return_confidence"), st.booleans()),
    },
)
MARKUP = ANYTHING | st.sampled_from([*HTML.values(), *XML.values()])


@cache
def _translator() -> Translator:
    return Translator(load_bundle(RELEASE / "toy-float32.pt"))


def translate(text: str, format: str, fields: dict[str, Any]) -> None:
    """A translation is a text, and every span that it names lies in its text."""
    translator = _translator()
    try:
        options = TranslationOptions(**{"format": format, **fields})
        (translation,) = translator.translate([text], options, *translator.manifest.pairs[0])
    except InputError:
        return
    spans = [(item.source, item.target) for item in translation.alignment or ()]
    spans += [(item.source, item.target) for item in translation.integrity or ()]
    for source, target in spans:
        assert 0 <= source[0] <= source[1] <= len(text)
        assert 0 <= target[0] <= target[1] <= len(translation.text)
    for use in (translation.integrity or ()) if format == "text" else ():  # markup may be wrapped within a span
        assert translation.text[slice(*use.target)] == text[slice(*use.source)]
    if not text.strip():
        assert translation.text == text


@given(TEXTS | texts().map(lambda pair: pair[0]) | st.text(), OPTIONS)
def _any_text_is_translated_or_refused(text: str, fields: dict[str, Any]) -> None:
    translate(text, "text", fields)


@given(MARKUP, st.sampled_from(["html", "xml"]), OPTIONS)
def _any_markup_is_translated_or_refused(text: str, format: str, fields: dict[str, Any]) -> None:
    translate(text, format, {name: value for name, value in fields.items() if name != "return_search"})


def _seeds() -> list[bytes]:
    rng = random.Random(1)
    return [rng.randbytes(2**size) for size in range(4, 13)]


def _target(name: str, *tests: Callable[..., None]) -> Target:
    runs = [test.hypothesis.fuzz_one_input for test in tests]  # type: ignore[attr-defined]
    for item in runs:
        item(b"")  # hypothesis compiles code of its own for a test's first input, which is not an input's doing

    def run(data: bytes) -> None:
        runs[data[0] % len(runs) if data else 0](data[1:])

    return Target(name, run, _seeds, (InputError,))


TARGETS = [
    _target(
        "markup",
        test_any_untranslated_html_comes_back_byte_for_byte,
        test_any_html_has_every_tag_once_under_any_alignment,
        test_well_formed_xml_has_every_tag_once_and_stays_well_formed,
        test_characters_of_any_untranslated_html_stay_where_they_are,
        test_characters_of_any_translation_are_found_in_the_translated_document,
    ),
    _target(
        "protection",
        test_default_spans_are_in_order_disjoint_and_within_a_line,
        test_spans_of_patterns_are_in_order_and_disjoint,
        test_no_character_outside_of_the_unknown_spans_is_unknown,
    ),
    _target("translation", _any_text_is_translated_or_refused, _any_markup_is_translated_or_refused),
]
