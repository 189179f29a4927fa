"""Translation in two legs, with a toy that translates into German and back, so that the result is the text again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.artifacts.bundle import load_bundle
from model.decoding.options import Hypothesis
from model.errors import EmptySource, InvalidPrefix, SeveralSentences, UnsupportedFormality
from model.text.glossary import GlossaryTerm
from model.text.tokenizer import Tokenizer
from model.translation.options import TextFormat, TranslationOptions
from model.translation.pivot import SecondLeg, prepare_first
from model.translation.plan import Plan
from model.translation.results import AnswerKey, AttendedSentence, Translation
from model.translator import Translator
from tests.model.test_protected_translation import SPANS, WORDS, told_model

GREEDY = TranslationOptions(decoding="greedy")
BACK = ("en", "de", "en")


@pytest.fixture(scope="module")
def toy(toy_bundle: Path) -> Translator:
    return Translator(load_bundle(toy_bundle, "cpu"))


def translate(
    text: str,
    options: TranslationOptions,
    first: Translator,
    second: Translator | None = None,
    languages: tuple[str, str, str] = BACK,
) -> Translation:
    """A translation in two legs, as the service does it."""
    second = second or first
    plan = prepare_first(first.pipeline, second.pipeline, text, languages, options)
    first.decode([plan])
    evidence = first.confidence(plan) if options.return_confidence else None
    onward = SecondLeg(plan, attention(first, plan.attended), evidence, second.pipeline, languages[1:], options)
    second.decode([onward])
    evidence = second.confidence(onward) if options.return_confidence else None
    return onward.complete(attention(second, onward.attended), evidence)


def attention(translator: Translator, attended: Sequence[AttendedSentence]) -> dict[AnswerKey, Tensor]:
    return {item.key: rows for item, rows in zip(attended, translator.align(attended), strict=True)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "red cat.",
        "red cat sees old dog. tree likes house.\n\n  - old tree.\n\t* red dog. ",
        "1. red cat.\n2. old dog.",
        "red cat.\told dog.\n| red cat. | tree. |",
        "42",
    ],
)
def test_a_toy_and_its_inverse_give_the_text_with_its_layout(text: str, toy: Translator) -> None:
    translation = translate(text, GREEDY, toy)
    assert translation.text == text
    assert (translation.source, translation.target) == ("en", "en")
    assert translation.num_source_tokens == sum(
        item.num_source_tokens for item in toy.translate([text], GREEDY, "en", "de")
    )


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ('<p>red <b>cat</b> sees <a href="/x?a&amp;b">old dog</a>.</p><ul><li>tree.</ul>', "html"),
        ("<doc><p>red <x/>cat likes <i>tree</i>.</p>\n<p>old dog.</p></doc>", "xml"),
    ],
)
def test_markup_stays_at_its_words(text: str, format: TextFormat, toy: Translator) -> None:
    assert translate(text, replace(GREEDY, format=format), toy).text == text


def test_the_alignment_is_that_of_both_legs(toy: Translator) -> None:
    text = "red cat sees old dog. tree likes house."
    translation = translate(text, replace(GREEDY, return_alignment=True), toy)
    assert translation.alignment is not None
    linked = {
        (text[slice(*link.source)].strip(), text[slice(*link.target)].strip())
        for link in translation.alignment
        if text[slice(*link.target)].strip().isalpha()
    }
    words = {word.strip(".") for word in text.split()}
    assert all(source == target for source, target in linked if source in words and target in words)
    assert {source for source, _ in linked} >= words
    assert [link.target for link in translation.alignment] == sorted(link.target for link in translation.alignment)
    assert all(0 <= link.weight <= 1 for link in translation.alignment)


def test_details_are_absent_unless_they_are_requested(toy: Translator) -> None:
    plain = translate("red cat.", GREEDY, toy)
    assert (plain.alignment, plain.confidence, plain.integrity, plain.glossary, plain.search, plain.score) == (
        None,
    ) * 6
    sure = translate("red cat.", replace(GREEDY, return_confidence=True), toy)
    assert sure.alignment is None


def test_a_confidence_is_the_product_of_both(toy: Translator) -> None:
    options = replace(GREEDY, return_confidence=True)
    text = "red cat sees old dog."
    (there,) = toy.translate([text], options, "en", "de")
    (back,) = toy.translate([there.text], options, "de", "en")
    both = translate(text, options, toy).confidence
    assert there.confidence is not None and back.confidence is not None and both is not None
    assert both.score == pytest.approx(there.confidence.score * back.confidence.score, abs=1e-4)
    assert [word.target for word in both.words] == [word.target for word in back.confidence.words]
    for word, first, second in zip(both.words, there.confidence.words, back.confidence.words, strict=True):
        assert word.probability == pytest.approx(first.probability * second.probability, abs=1e-3)


def test_spans_without_placeholders_are_placed_by_both_alignments(toy: Translator) -> None:
    text = "red cat {name} sees https://example.com/x old dog 😀."
    translation = translate(text, GREEDY, toy)
    assert translation.integrity is not None
    for use in translation.integrity:
        assert translation.text[slice(*use.target)] == text[slice(*use.source)]
    assert [use.restored for use in translation.integrity] == [True, True, False], "the last one is no part of it"
    assert [text[slice(*use.source)] for use in translation.integrity] == ["{name}", "https://example.com/x", "😀"]


@pytest.fixture(scope="module")
def told() -> Translator:
    return told_model()


@settings(max_examples=40, phases=[Phase.generate])
@given(st.lists(st.sampled_from([*WORDS, *SPANS]), min_size=1, max_size=9), st.sampled_from(["text", "html"]))
def test_each_span_comes_back_once_whatever_the_models_write(
    told: Translator, words: list[str], format: TextFormat
) -> None:
    text = " ".join(word for word in words if format == "text" or not set(word) & set("<>&"))
    translation = translate(text, replace(GREEDY, format=format, max_new_tokens=20), told)
    (direct,) = told.translate([text], replace(GREEDY, format=format, max_new_tokens=20), "en", "de")
    assert (translation.integrity is None) == (direct.integrity is None)
    uses = translation.integrity or ()
    assert [use.source for use in uses] == [use.source for use in direct.integrity or ()]
    for use in uses:
        assert translation.text[slice(*use.target)] == text[slice(*use.source)]
    targets = sorted(use.target for use in uses)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(targets))


def test_a_callers_pattern_protects_the_text_and_nothing_of_the_pivot_text(toy: Translator) -> None:
    translation = translate("red cat sees dog.", replace(GREEDY, protect=("red|Hund",)), toy)
    assert translation.text == "red cat sees dog."
    assert translation.integrity is not None
    assert [use.source for use in translation.integrity] == [(0, 3)]


def test_a_term_replaces_what_its_word_is_translated_to(toy: Translator) -> None:
    options = replace(GREEDY, glossary=(GlossaryTerm("cat", "pussy willow"), GlossaryTerm("zebra", "horse")))
    translation = translate("red cat sees old dog.", options, toy)
    assert translation.text == "red pussy willow sees old dog."
    assert translation.glossary is not None
    assert [(use.source, use.target, use.status) for use in translation.glossary] == [((4, 7), (4, 16), "replaced")]


def test_terms_of_models_with_placeholders_are_in_the_translation(told: Translator) -> None:
    options = replace(GREEDY, glossary=(GlossaryTerm("cat", "Typ 3"),), max_new_tokens=20)
    translation = translate("the red cat sees the old dog", options, told)
    assert translation.glossary is not None
    for use in translation.glossary:
        assert use.target is None or translation.text[slice(*use.target)] == "Typ 3"


def test_a_prefix_begins_the_translation_and_not_the_pivot_text(toy: Translator) -> None:
    options = replace(GREEDY, target_prefix="old tree")
    assert translate("red cat sees old dog.", options, toy).text.startswith("old tree")
    with pytest.raises(SeveralSentences):
        translate("red cat. old dog.", options, toy)
    with pytest.raises(EmptySource):
        translate(" ", options, toy)
    with pytest.raises(InvalidPrefix):
        translate("red cat.", replace(GREEDY, target_prefix="tree½"), toy)


def test_alternatives_scores_and_the_search_are_those_of_the_second_leg(toy: Translator) -> None:
    options = TranslationOptions(beam_size=3, num_hypotheses=3, return_scores=True, return_search=True)
    (there,) = toy.translate(["red cat."], TranslationOptions(beam_size=3), "en", "de")
    (back,) = toy.translate([there.text], options, "de", "en")
    translation = translate("red cat.", options, toy)
    assert translation.alternatives == back.alternatives
    assert (translation.score, translation.search) == (back.score, back.search)


def test_the_limit_of_tokens_is_that_of_the_second_leg(toy: Translator) -> None:
    translation = translate("red cat sees old dog.", replace(GREEDY, max_new_tokens=2), toy)
    assert translation.finish_reason == "length"
    assert translation.num_target_tokens <= 2


def test_formality_is_asked_of_the_second_model(toy: Translator, told: Translator) -> None:
    options = replace(GREEDY, formality="formal", max_new_tokens=9)
    translate("red cat.", options, toy, told, ("de", "en", "de"))
    with pytest.raises(UnsupportedFormality):
        translate("red cat.", options, told, toy, ("de", "en", "de"))


def loop(plan: Plan, index: int, word: str, tokenizer: Tokenizer) -> None:
    """Let every decoding of a sentence be a repetition loop, so that the sentence stays as it is."""
    ids = tokenizer.encode_target(" ".join([word] * 30))[:-1]
    while any(request.key == index for request in plan.pending):
        plan.settle_one(index, Hypothesis(ids, None, "stop"))


def test_a_sentence_that_the_first_leg_leaves_as_it_is_has_no_second_one(told: Translator, toy: Translator) -> None:
    text = "the cat likes a dog. red cat."
    options = replace(GREEDY, return_alignment=True)
    plan = prepare_first(told.pipeline, toy.pipeline, text, BACK, options)
    loop(plan, 0, "dog", told.pipeline.tokenizer)
    plan.settle_one(1, Hypothesis(told.pipeline.tokenizer.encode_target("alten Hund.")[:-1], None, "stop"))
    onward = SecondLeg(plan, attention(told, plan.attended), None, toy.pipeline, BACK[1:], options)
    assert [onward.sentences[request.key].text for request in onward.pending] == ["alten Hund."]
    onward.settle([Hypothesis(toy.pipeline.tokenizer.encode_target("old dog.")[:-1], None, "stop")])
    translation = onward.complete(attention(toy, onward.attended))
    assert translation.text == "the cat likes a dog. old dog."
    assert (translation.num_sentences, translation.num_untranslated) == (2, 1)
    assert translation.alignment is not None
    stays = [(link.source, link.target) for link in translation.alignment if link.source[0] < 20]
    assert [text[slice(*source)] for source, _ in stays] == ["the", "cat", "likes", "a", "dog", "."]
    assert all(source == target for source, target in stays)


def test_a_sentence_that_the_second_leg_leaves_as_it_is_stays_in_the_pivot_language(
    told: Translator, toy: Translator
) -> None:
    text = "red cat sees dog. old tree."
    plan = prepare_first(toy.pipeline, told.pipeline, text, BACK, GREEDY)
    toy.decode([plan])
    onward = SecondLeg(plan, {}, None, told.pipeline, BACK[1:], GREEDY)
    for index in range(2):
        loop(onward, index, "dog", told.pipeline.tokenizer)
    translation = onward.complete(attention(told, onward.attended))
    assert translation.text == "rot Katze sieht Hund. alt Baum."
    assert (translation.num_sentences, translation.num_untranslated) == (2, 2)


def test_a_sentence_that_is_too_long_for_the_second_model_is_split(toy: Translator, toy_bundle: Path) -> None:
    short = Translator(load_bundle(toy_bundle, "cpu"))
    short.pipeline._max_source_tokens = 6
    text = "old tree. red cat sees old dog."
    plan = prepare_first(toy.pipeline, short.pipeline, text, BACK, GREEDY)
    toy.decode([plan])
    onward = SecondLeg(plan, {}, None, short.pipeline, BACK[1:], GREEDY)
    assert [sentence.text for sentence in onward.sentences] == ["alt Baum.", "rot Katze sieht alt", "Hund."]
    short.decode([onward])
    assert [onward.sentence(index, {}).source for index in range(3)] == [(0, 9), (10, 31), (31, 31)]
    assert onward.complete().num_sentences == 2


def sentences_of(text: str, translation: Translation) -> list[tuple[str, str]]:
    """The sentences of a text and of its translation."""
    assert translation.sentences is not None
    return [(text[slice(*source)], translation.text[slice(*target)]) for source, target in translation.sentences]


@pytest.mark.parametrize(
    ("text", "format", "sentences"),
    [
        ("red cat.\n - old tree. tree.", "text", ["red cat.", "old tree.", "tree."]),
        ("<p>red <b>cat</b>.</p> old tree. tree.", "html", ["red <b>cat</b>.", "old tree.", "tree."]),
    ],
)
def test_the_positions_of_sentences_are_those_of_the_text(
    text: str, format: TextFormat, sentences: list[str], toy: Translator
) -> None:
    options = replace(GREEDY, format=format, return_sentences=True)
    translation = translate(text, options, toy)
    assert translation.text == text
    assert sentences_of(text, translation) == [(sentence, sentence) for sentence in sentences]
    assert translate(text, replace(options, return_sentences=False), toy).sentences is None


def test_a_sentence_that_is_divided_for_the_second_leg_is_one_and_one_that_stays_keeps_its_position(
    told: Translator, toy: Translator, toy_bundle: Path
) -> None:
    options = replace(GREEDY, return_sentences=True)
    short = Translator(load_bundle(toy_bundle, "cpu"))
    short.pipeline._max_source_tokens = 6
    text = "old tree. red cat sees old dog. tree."
    first, divided, last = sentences_of(text, translate(text, options, toy, short))
    assert (first, last) == (("old tree.", "old tree."), ("tree.", "tree."))
    assert divided[0] == "red cat sees old dog." and divided[1].endswith(" dog.")

    text = "red cat. the cat likes a dog. red cat."
    plan = prepare_first(told.pipeline, toy.pipeline, text, BACK, options)
    loop(plan, 1, "dog", told.pipeline.tokenizer)
    plan.settle([Hypothesis(told.pipeline.tokenizer.encode_target("alten Hund.")[:-1], None, "stop")] * 2)
    onward = SecondLeg(plan, attention(told, plan.attended), None, toy.pipeline, BACK[1:], options)
    onward.settle([Hypothesis(toy.pipeline.tokenizer.encode_target("old dog.")[:-1], None, "stop")] * 2)
    translation = onward.complete(attention(toy, onward.attended))
    stays = "the cat likes a dog."
    assert sentences_of(text, translation) == [("red cat.", "old dog."), (stays, stays), ("red cat.", "old dog.")]


def test_apostrophes_are_escaped_as_in_the_text_if_the_pivot_text_has_none() -> None:
    told = told_model("'")
    for text, expected in (
        ("it\\'s old.", "dog\\'s old."),
        ("it is old.", "dog's old."),
        ("it''s old.", "dog''s old."),
    ):
        plan = prepare_first(told.pipeline, told.pipeline, text, BACK, GREEDY)
        plan.settle([Hypothesis(told.pipeline.tokenizer.encode_target("alten Hund.")[:-1], None, "stop")])
        onward = SecondLeg(plan, {}, None, told.pipeline, BACK[1:], GREEDY)
        onward.settle([Hypothesis(told.pipeline.tokenizer.encode_target("dog's old.")[:-1], None, "stop")])
        assert onward.complete().text == expected


PARTS = ["red", "<b>cat sees</b>", "<i>old</i>", '<a href="x">the <b>dog</b></a>', "<br>", "<code>x</code>", "{name}",
         "tree.", "House,", "&amp;", "<i></i>", "<p>likes</p>"]  # fmt: skip


@settings(max_examples=40, phases=[Phase.generate])
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=9))
def test_markup_is_kept_whatever_the_models_write(told: Translator, parts: list[str]) -> None:
    text = " ".join(parts)
    options = replace(GREEDY, format="html", max_new_tokens=20, return_alignment=True, return_confidence=True)
    translation = translate(text, options, told)
    assert sorted(re.findall(r"<[^>]*>", translation.text)) == sorted(re.findall(r"<[^>]*>", text))
    assert translation.alignment is not None and translation.confidence is not None
    for link in translation.alignment:
        assert 0 <= link.source[0] <= link.source[1] <= len(text)
        assert 0 <= link.target[0] <= link.target[1] <= len(translation.text)
    uncovered = translation.confidence.uncovered
    assert uncovered is not None and list(uncovered) == sorted(set(uncovered))


def test_links_and_spans_of_a_sentence_that_stays_move_with_those_before_it(told: Translator, toy: Translator) -> None:
    text = "red cat. the cat {x} likes a dog. 42 {y}! red cat."
    options = replace(GREEDY, return_alignment=True)
    plan = prepare_first(told.pipeline, toy.pipeline, text, BACK, options)
    assert plan.num_sentences == 3
    loop(plan, 1, "dog", told.pipeline.tokenizer)
    for index, answer in ((0, "rote Katze mag den Hund."), (2, "Katze.")):
        plan.settle_one(index, Hypothesis(told.pipeline.tokenizer.encode_target(answer)[:-1], None, "stop"))
    onward = SecondLeg(plan, attention(told, plan.attended), None, toy.pipeline, BACK[1:], options)
    for index, answer in ((0, "tree."), (1, "old house.")):
        onward.settle_one(index, Hypothesis(toy.pipeline.tokenizer.encode_target(answer)[:-1], None, "stop"))
    translation = onward.complete(attention(toy, onward.attended))
    assert translation.text == "tree. the cat {x} likes a dog. 42 {y}! old house."
    assert translation.integrity is not None and translation.alignment is not None
    assert [translation.text[slice(*use.target)] for use in translation.integrity] == ["{x}", "42", "{y}"]
    stays = [link for link in translation.alignment if text.index("the") <= link.source[0] < text.index("42")]
    assert [translation.text[slice(*link.target)] for link in stays] == [text[slice(*link.source)] for link in stays]
    assert len(stays) > 6
