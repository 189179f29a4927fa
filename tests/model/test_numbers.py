"""Numbers come through: a sentence whose translation lacks one is decoded again with this number protected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.decoding.options import Hypothesis
from model.errors import DecodingError
from model.text.glossary import GlossaryTerm
from model.text.numbers import find_numbers, lost_numbers
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from model.translation.reading import SentenceReader, SourceSentence
from model.translator import Translator
from tests.model.test_protected_translation import assert_whole, told_model

GREEDY = TranslationOptions(decoding="greedy")


@pytest.fixture(scope="module")
def translator() -> Translator:
    """It writes no number of its source."""
    return told_model("0123456789", ends=True)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("at 10:30, in 1984.", ["10:30", "1984"]),
        ("1,984 and 3.5 and 10\u00a0000", ["1,984", "3.5", "10\u00a0000"]),
        ("the 3rd of B2B, x64 and 5kg", ["3rd", "B2B", "x64", "5kg"]),
        ("0171 555 0199", ["0171", "555", "0199"]),
        ("90%, $5, -7", ["90", "5", "7"]),
        ("no number, no ²", []),
        ("x" * 10_000 + "!", []),
    ],
)
def test_a_number_is_a_word_with_a_digit_and_its_separators(text: str, numbers: list[str]) -> None:
    assert [text[slice(*span)] for span in find_numbers(text)] == numbers


@pytest.mark.parametrize(
    ("source", "answer", "lost"),
    [
        ("1,984 cats", "1.984 Katzen", []),
        ("1,984 cats", "1984 Katzen", []),
        ("1,984 cats", "1 984 Katzen", []),
        ("at 10:30", "um 10.30 Uhr", []),
        ("am 01.02.2024", "on 01/02/2024", []),
        ("um 08:30 Uhr", "at 8:30", []),
        ("um 19:10 und 21:40 Uhr", "at 7:10 pm and 9:40pm", []),
        ("um 19:10 Uhr", "at 7:10", ["19:10"]),
        ("7 cats", "Katzen", ["7"]),
        ("7 cats", "sieben Katzen", ["7"]),
        ("555 0199", "555 019", ["0199"]),
        ("17 cats and 7 dogs", "17 Katzen und Hunde", ["7"]),
        ("7 cats and 7 dogs", "7 Katzen und Hunde", ["7"]),
        ("7 cats at 7:30", "Katzen um 7:30", ["7"]),
        ("weighs 5kg, uses B2B", "wiegt etwas", ["5kg", "B2B"]),
        ("the 2nd, the 90s, the 3RD", "der zweite, die Neunziger, der dritte", []),
        ("der 2. Weltkrieg in den 90ern", "World War II in the nineties", []),
        ("at 7:30 pm, at 7 p.m., 5pm", "um 19:30, um 19 Uhr, um 17 Uhr", []),
    ],
)
def test_a_translation_may_separate_digits_otherwise_and_lose_none(source: str, answer: str, lost: list[str]) -> None:
    assert [source[slice(*span)] for span in lost_numbers(source, find_numbers(source), answer)] == lost


@pytest.mark.parametrize("text", ["red 7 cat sees 1,984 old dog.", "THE 42 TREES SEE 10:30.", "cat 3 {x} 5 dog"])
def test_every_number_comes_back_as_it_is(text: str, translator: Translator) -> None:
    (translation,) = translator.translate([text], GREEDY, "en", "de")
    for span in find_numbers(text):
        assert translation.text.count(text[slice(*span)]) == 1


def test_only_protected_spans_are_in_the_integrity(translator: Translator) -> None:
    text = "red 7 cat {x} sees 42 dog."
    (translation,) = translator.translate([text], GREEDY, "en", "de")
    assert translation.integrity is not None
    assert [text[slice(*use.source)] for use in translation.integrity] == ["{x}"]
    assert_whole(text, translation, ["{x}"])


def test_attention_and_confidence_are_of_the_second_translation(translator: Translator) -> None:
    text = "red 7 cat."
    (translation,) = translator.translate([text], GREEDY, "en", "de", return_confidence=True)
    attention = translator.attention(text, GREEDY, "en", "de")
    assert attention.translation == translation.text
    assert "<ph0>" in attention.source_tokens
    assert translation.confidence is not None and translation.confidence.words


def planned(translator: Translator, text: str, options: TranslationOptions) -> Plan:
    return translator.pipeline.prepare_sentence(text, "en", "de", options)


def hypothesis(translator: Translator, text: str) -> Hypothesis:
    return Hypothesis(translator.pipeline.tokenizer.encode_target(text)[:-1], None, "stop")


def test_a_translation_with_its_numbers_is_kept(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat.", GREEDY)
    plan.settle_one(0, hypothesis(translator, "rote 7 Katze."))
    assert not plan.pending


def test_a_sentence_is_decoded_again_once_with_what_it_lost(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat sees 42 dog.", GREEDY)
    for _ in range(2):
        (request,) = plan.pending
        plan.settle_one(0, hypothesis(translator, "rote 7 Katze."))
    assert len(request.required_ids) == 1
    assert plan.sentences[0].protected == ((15, 17),)
    assert not plan.pending


def test_a_second_translation_that_is_cut_is_not_preferred(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat sees 42 dog.", GREEDY)
    first, before = hypothesis(translator, "rote 7 Katze."), plan.sentences[0]
    plan.settle_one(0, first)
    plan.settle_one(0, replace(hypothesis(translator, "rote rote rote"), finish_reason="length"))
    assert not plan.pending
    assert plan.outcome(0) is first
    assert plan.sentences[0] is before


def test_a_second_translation_that_fails_leaves_the_first(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat sees 42 dog.", GREEDY)
    first, before = hypothesis(translator, "rote 7 Katze."), plan.sentences[0]
    plan.settle_one(0, first)
    plan.settle_one(0, DecodingError("NaN"))
    assert not plan.pending and plan.failure is None
    assert (plan.outcome(0), plan.sentences[0]) == (first, before)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_after_a_loop_in_the_second_translation_the_first_still_stands(
    is_dropped: bool, translator: Translator
) -> None:
    plan = planned(translator, "red 7 cat sees 42 dog.", GREEDY)
    first, before = hypothesis(translator, "rote 7 Katze."), plan.sentences[0]
    plan.settle_one(0, first)
    plan.settle_one(0, hypothesis(translator, "rote rote rote rote rote"))
    assert plan.pending, "the loop is decoded again with a guard"
    if is_dropped:
        assert plan.drop_retries() == [0]
    else:
        plan.settle_one(0, DecodingError("NaN"))
    assert (plan.outcome(0), plan.sentences[0]) == (first, before)


def test_no_more_numbers_are_protected_than_there_are_placeholders(translator: Translator) -> None:
    text = "red {x} " + " ".join(str(number) for number in range(1, 21))
    plan = planned(translator, text, GREEDY)
    plan.settle_one(0, hypothesis(translator, "rote"))
    (request,) = plan.pending
    assert len(request.required_ids) == len(plan.sentences[0].protected) == 16


def test_spans_whose_placeholders_were_dropped_stay_dropped(translator: Translator) -> None:
    plan = planned(translator, "red {x} 7 cats.", GREEDY)
    plan.settle_one(0, replace(hypothesis(translator, "rote"), finish_reason="length"))
    (request,) = plan.pending
    assert request.required_ids == ()
    plan.settle_one(0, hypothesis(translator, "rote"))
    assert not plan.pending


@pytest.mark.parametrize(
    "options",
    [
        replace(GREEDY, protect="none"),
        replace(GREEDY, target_prefix="rote"),
        replace(GREEDY, glossary=(GlossaryTerm("7 cats", "Katzen"),)),
    ],
)
def test_a_caller_who_says_what_to_write_gets_it(options: TranslationOptions, translator: Translator) -> None:
    plan = planned(translator, "red 7 cats.", options)
    plan.settle_one(0, hypothesis(translator, "rote Katzen."))
    assert not plan.pending


def test_an_answer_that_is_cut_is_kept(translator: Translator) -> None:
    plan = planned(translator, "red 7 cats.", replace(GREEDY, max_new_tokens=1))
    plan.settle_one(0, replace(hypothesis(translator, "rote"), finish_reason="length"))
    assert not plan.pending


def test_a_model_without_placeholders_is_asked_once(translator: Translator) -> None:
    sentence = SourceSentence(0, 6, "7 cats", [], ("en", "de"))
    reader = translator.pipeline.reader
    assert reader.with_numbers(sentence, []) is not None
    assert SentenceReader(reader.tokenizer, Capabilities(), fold_capitals=False).with_numbers(sentence, []) is None
