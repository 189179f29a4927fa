"""The memory of prepared texts: what is remembered, and that a remembered text is translated as a new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.serving.prepared_texts import MAX_CHARACTERS, MAX_SENTENCES, MAX_TEXTS, PreparedTexts
from model.decoding.options import Hypothesis
from model.text.glossary import GlossaryTerm
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from model.translator import Translator

TEXT = "The house is old. The 3 cats sleep at https://example.com/a."
OPTIONS = TranslationOptions()


@pytest.fixture(scope="module")
def translator(toy_bundle: Path) -> Translator:
    return Translator.load(toy_bundle, num_threads=1)


@pytest.fixture
def memory() -> PreparedTexts:
    return PreparedTexts(is_on=True)


def prepare(memory: PreparedTexts, model: Translator, text: str = TEXT, options: TranslationOptions = OPTIONS) -> Plan:
    source, target = model.manifest.directions.pairs[0]
    return memory.plan(model, text, source, target, options)


def test_text_is_prepared_once(memory: PreparedTexts, translator: Translator) -> None:
    first, again = prepare(memory, translator), prepare(memory, translator)
    assert again is not first
    assert again.texts is first.texts


def test_outcomes_of_one_request_are_not_those_of_another(memory: PreparedTexts, translator: Translator) -> None:
    first = prepare(memory, translator)
    translator.decode([first])
    again = prepare(memory, translator)
    assert [request.source_ids for request in again.pending] == [
        request.source_ids for request in translator.prepare(TEXT, first.source, first.target, OPTIONS).pending
    ]
    for index in range(again.num_sentences):  # another answer to the same sentences
        again.settle_one(index, Hypothesis([], None, "length"))
    assert first.complete() == completed(translator, first)
    assert again.outcome(0) != first.outcome(0)


def test_translation_of_the_same_answers_is_not_made_again(memory: PreparedTexts, translator: Translator) -> None:
    first = prepare(memory, translator)
    answers = decoded(translator, first)
    translation = first.complete()
    again = prepare(memory, translator)
    again.settle([replace(answer) for answer in answers])
    assert again.complete() is translation
    other = prepare(memory, translator)
    other.settle([replace(answer, token_ids=answer.token_ids[:1]) for answer in answers])
    assert other.complete() != translation


def decoded(model: Translator, plan: Plan) -> list[Hypothesis]:
    """The answers to the sentences of a plan, which are settled with them; none is decoded again."""
    model.decode([plan])
    return plan.hypotheses


def completed(model: Translator, plan: Plan) -> object:
    """The translation of the text of a plan without a memory."""
    fresh = model.prepare(plan.text, plan.source, plan.target, plan.options)
    model.decode([fresh])
    return fresh.complete()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a" * (MAX_CHARACTERS + 1), OPTIONS),
        ("The house.\n" * (MAX_SENTENCES + 1), OPTIONS),
        ("<p>The house.</p>", replace(OPTIONS, format="html")),
        (TEXT, replace(OPTIONS, glossary=(GlossaryTerm("house", "Haus"),))),
        ("The house.", replace(OPTIONS, target_prefix="Das")),
        (TEXT, replace(OPTIONS, num_hypotheses=2)),
    ],
)
def test_long_texts_and_those_with_large_options_are_not_remembered(
    memory: PreparedTexts, translator: Translator, text: str, options: TranslationOptions
) -> None:
    assert prepare(memory, translator, text, options).texts is not prepare(memory, translator, text, options).texts


def test_texts_with_other_options_are_prepared_again(memory: PreparedTexts, translator: Translator) -> None:
    other = replace(OPTIONS, protect="none")
    assert prepare(memory, translator).texts is not prepare(memory, translator, options=other).texts
    assert prepare(memory, translator, options=other).options == other


def test_least_recently_used_text_is_forgotten(memory: PreparedTexts, translator: Translator) -> None:
    first = prepare(memory, translator)
    for number in range(MAX_TEXTS):
        prepare(memory, translator, str(number))
    assert prepare(memory, translator).texts is not first.texts


def test_nothing_is_remembered_without_a_cache(translator: Translator) -> None:
    memory = PreparedTexts(is_on=False)
    assert prepare(memory, translator).texts is not prepare(memory, translator).texts
