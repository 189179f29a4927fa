"""Numbers come through: a sentence whose translation lacks one is decoded again with this number protected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.decoding.options import Hypothesis
from model.errors import DecodingError
from model.text.glossary import GlossaryTerm
from model.text.numbers import find_numbers, wrong_numbers
from model.text.symbols import Part, Symbol
from model.text.tokenizer import VersoTokenizer
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from model.translation.quantities import NumberUse
from model.translation.reading import SentenceReader
from model.translation.verification import SOUND, Verifier
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
        ("_7 cats", "7 Katzen", []),
        ("555 0199", "555 019", ["0199"]),
        ("17 cats and 7 dogs", "17 Katzen und Hunde", ["7"]),
        ("7 cats and 7 dogs", "7 Katzen und Hunde", ["7"]),
        ("7 cats at 7:30", "Katzen um 7:30", ["7"]),
        ("weighs 5kg, uses B2B", "wiegt etwas", ["5kg", "B2B"]),
        ("the 2nd, the 90s, the 3RD", "der zweite, die Neunziger, der dritte", []),
        ("der 2. Weltkrieg in den 90ern", "World War II in the nineties", []),
        ("at 7:30 pm, at 7 p.m., 5pm", "um 19:30, um 19 Uhr, um 17 Uhr", []),
        ("kostet 1.299,99 €", "costs 1,299.99 €", []),
        ("kostet 1.299,99 €", "costs 1299.99 €", []),
        ("kostet 1.299,99 €", "costs 1.299.99 €", ["1.299,99"]),
        ("1.000.000 Einwohner", "1,000,000 people", []),
        ("1.000.000 Einwohner", "1,000.000 people", ["1.000.000"]),
        ("am 12.05.2021", "on 12/05/2021", []),
        ("am 12.05.2021", "on 12 May 2021 or 05", []),
        ("am 12.05.2021", "on 12,05.2021", ["12.05.2021"]),
        ("am 12.05.2021", "on 12,05,2021", ["12.05.2021"]),
        ("3.5 cats", "35 Katzen", ["3.5"]),
        ("in 10000 years", "in 10.000 Jahren", []),
        ("grew 18%", "wuchs 18 % um 18 %", ["18"]),
        ("two cats, 2 dogs", "2 Katzen, 2 Hunde", []),
        ("5 0 0 2 2 33", "5 0 2 2 33", ["0"]),
        ("3-12 goals", "3-12-12 Tore", ["12"]),
        ("see 521(a)(2)(B)", "siehe 521(a)(B)", ["521(a)(2)(B)"]),
        ("ratio 1:10", "Verhältnis 1:10:10", ["1:10"]),
        ("open 9.30-17.00", "geöffnet 9,30-17.00", ["9.30", "17.00"]),
        ("1.50-2.50 m", "1,50-2,50 m", []),
        ("at 3.10", "on 3,10th", []),
    ],
)
def test_a_translation_may_separate_digits_otherwise_and_lose_none(source: str, answer: str, lost: list[str]) -> None:
    wrong = wrong_numbers(source, find_numbers(source), answer, find_numbers(answer))
    assert [source[slice(*span)] for span in wrong] == lost


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("red 7 cat sees 1,984 old dog.", ["7", "1.984"]),
        ("THE 42 TREES SEE 10:30.", ["42", "10:30"]),
        ("cat 3 {x} 5 dog", ["3", "5"]),
    ],
)
def test_every_number_comes_back_as_the_target_language_spells_it(
    text: str, forms: list[str], translator: Translator
) -> None:
    (translation,) = translator.translate([text], GREEDY, "en", "de")
    assert [translation.text.count(form) for form in forms] == [1] * len(forms), translation.text


def test_only_protected_spans_are_in_the_integrity(translator: Translator) -> None:
    text = "red 7 cat {x} sees 42 dog."
    (translation,) = translator.translate([text], GREEDY, "en", "de")
    assert translation.integrity is not None
    assert [text[slice(*use.source)] for use in translation.integrity] == ["{x}"]
    assert_whole(text, translation, ["{x}"])
    numbers = {
        text[slice(*use.source)]: (translation.text[slice(*use.target)], use.status) for use in translation.numbers
    }
    assert numbers == {"7": ("7", "protected"), "42": ("42", "protected")}


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


def answer_with_placeholders(translator: Translator, text: str) -> Hypothesis:
    tokenizer = translator.pipeline.tokenizer
    assert isinstance(tokenizer, VersoTokenizer)
    first, *others = text.split("<ph0>")
    parts: list[Part] = [first, *(part for other in others for part in (Symbol("<ph0>"), other))]
    return Hypothesis(tokenizer.encode_target_parts(parts)[:-1], None, "stop")


def assert_kept(translator: Translator, plan: Plan, text: str) -> None:
    attention = dict(zip([item.key for item in plan.attended], translator.align(plan.attended), strict=True))
    translation = plan.complete(attention)
    assert (translation.text, translation.num_untranslated, translation.num_unchanged) == (text, 1, 1)


def test_a_translation_with_its_numbers_is_kept(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat.", GREEDY)
    plan.settle_one(0, hypothesis(translator, "rote 7 Katze."))
    assert not plan.pending


def test_a_number_in_another_form_is_spelled_again_without_a_further_decoding(translator: Translator) -> None:
    plan = planned(translator, "red 1,984 cat, 7 dog.", GREEDY)
    plan.settle_one(0, hypothesis(translator, "rote 1,984 Katze, 7 Hund."))
    assert not plan.pending
    translation = plan.complete()
    assert translation.text == "rote 1.984 Katze, 7 Hund."
    assert translation.numbers == (NumberUse((4, 9), (5, 10), "respelled"),)


def test_a_sentence_is_decoded_again_with_the_numbers_that_it_lost(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat sees 42 dog.", GREEDY)
    for answer in ("rote 7 Katze.", "rote 7 Katze <ph0>."):
        (request,) = plan.pending
        plan.settle_one(0, answer_with_placeholders(translator, answer))
    assert len(request.required_ids) == 1
    assert plan.sentences[0].protected == ((15, 17),)
    assert not plan.pending


def test_of_several_hypotheses_the_first_with_all_numbers_is_chosen(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat.", replace(GREEDY, decoding="beam", num_hypotheses=3))
    answers = [hypothesis(translator, text) for text in ("rote Katze.", "rote 7 Katze.", "Katze 7.")]
    plan.settle_one(0, Hypothesis.ranked(answers))
    assert not plan.pending
    assert plan.hypotheses == [Hypothesis.ranked([answers[1], answers[2]])]


def test_of_several_hypotheses_those_without_a_number_are_left_out(translator: Translator) -> None:
    plan = planned(translator, "red 7 cat.", replace(GREEDY, decoding="beam", num_hypotheses=3))
    answers = [hypothesis(translator, text) for text in ("rote 7 Katze.", "rote Katze.", "Katze 7.")]
    plan.settle_one(0, Hypothesis.ranked(answers))
    assert plan.hypotheses == [Hypothesis.ranked([answers[0], answers[2]])]


def test_a_sentence_for_which_nothing_holds_is_decoded_piece_by_piece(translator: Translator) -> None:
    text = "red cat 7, 42 dog {x}."
    plan = translator.prepare(text, "en", "de", GREEDY)
    pieces: list[str] = []
    plan.settle_one(0, hypothesis(translator, "rote Katze."))
    while plan.pending:
        (request,) = plan.pending
        pieces += [] if request.required_ids else [translator.pipeline.tokenizer.decode(request.source_ids)]
        plan.settle_one(0, hypothesis(translator, "rote " * (1 if pieces else 9)))
    assert pieces == ["red cat", "dog"]
    assert plan.complete().text == "rote 7, 42 rote {x}."


FAILURES = [
    [replace(Hypothesis([], None, "stop"), finish_reason="length")] * 5,
    [DecodingError("NaN")],
    ["rote rote rote rote rote", DecodingError("NaN")],
]


@pytest.mark.parametrize("failures", FAILURES, ids=["cut", "failed", "loop"])
def test_a_sentence_whose_numbers_are_lost_in_the_end_stays_as_it_is(
    failures: list[str | Hypothesis | DecodingError], translator: Translator
) -> None:
    text = "red 7 cat sees 42 dog."
    plan = planned(translator, text, GREEDY)
    plan.settle_one(0, hypothesis(translator, "rote 7 Katze."))
    for outcome in failures:
        if plan.pending:
            plan.settle_one(0, hypothesis(translator, outcome) if isinstance(outcome, str) else outcome)
    assert not plan.pending and plan.failure is None
    assert_kept(translator, plan, text)


def test_a_sentence_whose_further_decoding_is_dropped_stays_as_it_is(translator: Translator) -> None:
    text = "red 7 cat sees 42 dog."
    plan = planned(translator, text, GREEDY)
    plan.settle_one(0, hypothesis(translator, "rote 7 Katze."))
    assert plan.drop_retries() == [0]
    assert_kept(translator, plan, text)


def test_a_sentence_that_stays_as_it_is_has_links_spans_and_a_confidence(translator: Translator) -> None:
    text = "red {x} cat 7. red dog."
    options = replace(GREEDY, return_alignment=True, return_confidence=True)
    plan = translator.prepare(text, "en", "de", options)
    plan.settle([hypothesis(translator, "rote Katze."), hypothesis(translator, "rot.")])
    plan.drop_retries()
    attention = dict(zip([item.key for item in plan.attended], translator.align(plan.attended), strict=True))
    translation = plan.complete(attention, translator.confidence(plan))
    assert translation.text == "red {x} cat 7. rot."
    assert (translation.num_untranslated, translation.num_unchanged) == (1, 1)
    assert translation.integrity is not None and translation.alignment is not None
    assert [use.target for use in translation.integrity] == [(4, 7)]
    assert all(link.source == link.target for link in translation.alignment if link.source[1] <= 14)
    assert translation.confidence is not None


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
    reader = translator.pipeline.reader
    sentence = reader.read("7 cats", 0, 6, [], GREEDY, ("en", "de"))
    answer = hypothesis(translator, "Katzen")
    plain = SentenceReader(reader.tokenizer, Capabilities(), fold_capitals=False)
    for told, is_sound in ((reader, False), (plain, True)):
        verifier = Verifier(told, translator.pipeline.writer, retry_loops=True)
        assert (verifier.verify(sentence, answer) == SOUND) == is_sound
