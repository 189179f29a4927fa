from __future__ import annotations

from typing import Any

import pytest

from model.decoding.options import DecodingOptions, default_max_new_tokens
from model.errors import InvalidOptions
from model.text.glossary import GlossaryTerm
from model.translation.options import TranslationOptions


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"decoding": "sampling"}, "sampling"),
        ({"beam_size": 0}, "beam_size is 0"),
        ({"beam_size": 65}, "1 to 64"),
        ({"length_penalty": -0.1}, "length_penalty is -0.1"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        ({"num_hypotheses": 5}, "beam size, which is 4"),
        ({"decoding": "greedy", "num_hypotheses": 2}, "for greedy decoding"),
        ({"min_new_tokens": -1}, "min_new_tokens is -1"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"min_new_tokens": 5, "max_new_tokens": 4}, "which is 5"),
        ({"no_repeat_ngram_size": -2}, "no_repeat_ngram_size is -2"),
        ({"format": "md"}, "format is 'md'; it must be one of text, html, xml"),
        ({"ignore_tags": ("b",)}, "ignore_tags needs format"),
        ({"format": "html", "ignore_tags": ("b",) * 101}, "ignore_tags has 101 names; it may have 100"),
        ({"splitting_tags": ("b",)}, "splitting_tags needs format"),
        ({"format": "xml", "non_splitting_tags": ("b",) * 101}, "non_splitting_tags has 101 names"),
        ({"protect": "all"}, "protect is 'all'"),
        ({"formality": "polite"}, "formality is 'polite'; it must be formal or informal"),
        ({"glossary": (GlossaryTerm("a", "b"),) * 101}, "glossary has 101 terms; it may have 100"),
        ({"glossary": (GlossaryTerm("a", "b"), GlossaryTerm("", "b"))}, "source of glossary term 1 is ''"),
        ({"glossary": (GlossaryTerm("a", "b" * 201),)}, "1 to 200 characters"),
        ({"glossary": (GlossaryTerm("a", "b "),)}, "target of glossary term 0 is 'b '"),
    ],
)
def test_a_contradiction_is_refused_and_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidOptions, match=named.replace("(", r"\(")):
        TranslationOptions(**wrong)


def test_a_target_may_be_twice_its_source_plus_twenty_within_the_limit_of_the_model() -> None:
    assert default_max_new_tokens(10, 256) == 40
    assert default_max_new_tokens(200, 256) == 256


def test_what_decoding_ignores_is_left_out_for_decoding() -> None:
    options = TranslationOptions(
        beam_size=2,
        formality="formal",
        protect="none",
        format="html",
        ignore_tags=("b",),
        glossary=(GlossaryTerm("a", "b"),),
    )
    assert options.for_decoding == DecodingOptions(beam_size=2)
    assert TranslationOptions(return_alignment=True, return_confidence=True).for_decoding == DecodingOptions()


def test_equal_options_have_the_same_hash() -> None:
    for options in (DecodingOptions, TranslationOptions):
        assert hash(options(beam_size=2, length_penalty=0.5)) == hash(options(beam_size=2, length_penalty=0.5))
        assert options(length_penalty=0.5) != options(length_penalty=0.6)
