"""The text pipeline: requests for the model, retries, and joining the outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from model.decoding.options import Hypothesis
from model.decoding.repetition_guard import guarded
from model.errors import DecodingError, EmptySource, SeveralSentences, SourceTooLong
from model.text.glossary import GlossaryTerm
from model.text.lexicon import Lexicon
from model.translation.alignment import AlignmentLink, sentence_links
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.pipeline import TextPipeline
from model.translation.plan import Plan, settle_all
from model.translation.reading import SentenceReader
from model.translation.results import AttendedSentence, LastTranslation
from tests.app.fakes import FakeTokenizer

OPTIONS = TranslationOptions(decoding="greedy")
HTML = replace(OPTIONS, format="html")


def pipeline(max_source_tokens: int = 50, *, fold_capitals: bool = False, retry_loops: bool = True) -> TextPipeline:
    tokenizer: Any = FakeTokenizer()
    reader = SentenceReader(tokenizer, Capabilities(), fold_capitals=fold_capitals)
    return TextPipeline(reader, max_source_tokens, 50, retry_loops=retry_loops)


def prepare(text: str, **settings: Any) -> Plan:
    return pipeline(**settings).prepare(text, "en", "de", OPTIONS)


def answer(text: str, score: float | None = None) -> Hypothesis:
    return Hypothesis(list(map(ord, text)), score, "stop")


def letter_by_letter(item: AttendedSentence) -> Tensor:
    """Attention of the pipeline's characters: each letter to the same one, whatever its case; signs to the first."""
    source = bytes(item.source_ids).lower()
    rows = torch.zeros(len(item.answer_ids), len(source))
    for row, character in zip(rows, bytes(item.answer_ids).lower(), strict=True):
        row[source.index(character) if chr(character).isalpha() else 1] = 1.0
    return rows


def test_a_plan_has_a_request_for_each_sentence_with_a_letter() -> None:
    plan = prepare("One. 42. Two.")
    assert [request.key for request in plan.pending] == [0, 1]
    assert [request.source_ids for request in plan.pending] == [[2, *map(ord, text), 3] for text in ("One.", "Two.")]
    assert {(request.options, request.forced_ids) for request in plan.pending} == {(OPTIONS.for_decoding, (ord("d"),))}


def test_a_blank_text_has_nothing_pending_and_is_complete() -> None:
    plan = prepare(" \n ")
    assert (list(plan.pending), plan.failure, plan.hypotheses) == ([], None, [])
    assert plan.complete().text == " \n "


def test_outputs_replace_their_sentences() -> None:
    plan = prepare("One.\n\n  Two.")
    plan.settle([answer("eins.", -1.0), answer("zwei!", -0.5)])
    translation = plan.complete()
    assert translation.text == "EINS.\n\n  ZWEI."
    assert translation.score == pytest.approx(-0.75)
    assert (translation.num_source_tokens, translation.num_target_tokens) == (8, 10)


def with_capitals(text: str, protect: Any = "auto") -> str:
    """A text in which all that the model reads is in capitals."""
    plan = pipeline().prepare(text, "en", "de", replace(OPTIONS, protect=protect))
    plan.settle([answer(bytes(request.source_ids[1:-1]).decode()) for request in plan.pending])
    return plan.complete().text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We ate the cake 🍰", "WE ATE THE CAKE 🍰"),
        ("🎉 We won :-)", "🎉 WE WON :-)"),
        ("Good cake 🍰. Good bread!", "GOOD CAKE 🍰. GOOD BREAD!"),
        ("It is ready :blobcat: #GoodBread #morning", "IT IS READY :blobcat: #GoodBread #morning"),
        ("One... two...  three...", "ONE... TWO...  THREE..."),
        ("One book|Many books", "ONE BOOK|MANY BOOKS"),
        ("File > Open -> Recent / Shoes »", "FILE > OPEN -> RECENT / SHOES »"),
        ("Red ........ 5", "RED ........ 5"),
        ("-----Original Message-----", "-----ORIGINAL MESSAGE-----"),
        (r"Come in\Nmy friend\nnow", r"COME IN\NMY FRIEND\nNOW"),
        ("{{#if user}}Hello{{else}}Bye{{/if}}", "{{#if user}}HELLO{{else}}BYE{{/if}}"),
        ("[quote=anna]The door is open.[/quote]", "[quote=anna]THE DOOR IS OPEN.[/quote]"),
        ('[gallery ids="1,2"] See it.', '[gallery ids="1,2"] SEE IT.'),
        ("_The door is open._ <1>Good morning</1>", "_THE DOOR IS OPEN._ <1>GOOD MORNING</1>"),
        ("red + blue = green, key = value", "RED + BLUE = GREEN, KEY = VALUE"),
        ("a + b = c", "a + b = c"),
        ("WARNING: Do not touch.\nANNA: Come!", "WARNING: DO NOT TOUCH.\nANNA: COME!"),
        (
            ".. note:: The door\n\n.. code:: python\n\n   make(it)",
            ".. note:: THE DOOR\n\n.. code:: python\n\n   make(it)",
        ),
        ("menu.file.open", "menu.file.open"),
        ("Type A", "TYPE A"),
    ],
)
def test_what_is_no_language_divides_a_text_or_stays_at_an_edge(text: str, expected: str) -> None:
    assert with_capitals(text) == expected
    if text.isascii():
        assert with_capitals(text, "none") == text.upper()


def test_patterns_of_a_caller_leave_the_roles_of_the_default_kinds_out() -> None:
    assert with_capitals("One book|Many xD", ("q+",)) == "ONE BOOK|MANY XD"
    assert [sentence.text for sentence in prepare("One|Many xD").sentences] == ["One", "Many"]
    plan = pipeline().prepare("One|Many xD", "en", "de", replace(OPTIONS, protect=("q+",)))
    assert [sentence.text for sentence in plan.sentences] == ["One|Many xD"]


@pytest.mark.parametrize(
    ("text", "read", "written", "expected"),
    [
        ("E&xit", "Exit", "beenden", "&BEENDEN"),
        ("E&xit", "Exit", "ein text", "EIN TE&XT"),
        ("_Open the file", "Open the file", "datei offen", "DATEI _OFFEN"),
        ("Red - cat -- dog", "Red - cat -- dog", "rot \u2013 katze \u2014 hund", "ROT - KATZE -- HUND"),
    ],
)
def test_accelerators_and_hyphens_come_back(text: str, read: str, written: str, expected: str) -> None:
    plan = prepare(text)
    (request,) = plan.pending
    assert bytes(request.source_ids[1:-1]).decode() == read
    plan.settle([answer(written)])
    assert plan.complete().text == expected


def test_alternatives_are_attended_only_where_something_is_placed_in_them() -> None:
    ranked = Hypothesis.ranked([answer("eins zwei."), answer("zwei eins.")])
    for text, options, expected in (
        ("One two.", replace(OPTIONS, return_alignment=True), [(0, 0)]),
        ("One two.", OPTIONS, []),
        ("One {x} two.", OPTIONS, [(0, 0), (0, 1)]),
    ):
        plan = pipeline().prepare(text, "en", "de", options)
        plan.settle([ranked])
        assert [item.key for item in plan.attended] == expected


def test_spans_and_terms_of_alternatives_are_placed_by_the_alignment_of_each() -> None:
    options = replace(OPTIONS, glossary=(GlossaryTerm("two", "2"),))
    plan = pipeline().prepare("One {x} two.", "en", "de", options)
    plan.settle([Hypothesis.ranked([answer("one two."), answer("two one.")])])
    translation = plan.complete({item.key: letter_by_letter(item) for item in plan.attended})
    assert (translation.text, translation.alternatives[0].text) == ("ONE {x} 2.", "2 ONE {x}.")


def test_a_repetition_loop_is_pending_once_more_with_a_guard() -> None:
    plan = prepare("One. Two.")
    loop = answer("no no no no")
    plan.settle([answer("eins."), loop])
    (retry,) = plan.pending
    assert (retry.key, retry.options) == (1, guarded(OPTIONS.for_decoding))
    plan.settle([loop])
    (retry,) = plan.pending
    assert retry.options.num_hypotheses > 1
    plan.settle([Hypothesis.ranked([loop, loop, answer("zwei.")])])
    assert not plan.pending
    assert plan.complete().text == "EINS. ZWEI."


def test_a_sentence_that_only_loops_stays_as_it_is() -> None:
    plan = prepare("One. Two.")
    loop = answer("no no no no")
    plan.settle([answer("eins."), loop])
    while plan.pending:
        plan.settle([loop])
    translation = plan.complete()
    assert (translation.text, translation.num_untranslated) == ("EINS. Two.", 1)


def test_models_without_retries_retry_nothing() -> None:
    plan = prepare("One.", retry_loops=False)
    plan.settle([answer("no no no no")])
    assert not plan.pending


@pytest.mark.parametrize("error", [DecodingError("NaN"), ValueError("of a service")])
def test_a_sentence_whose_second_decoding_fails_stays_as_it_is(error: Exception) -> None:
    plan = prepare("One. Two.")
    plan.settle([answer("no no no no"), answer("zwei.")])
    plan.settle([error])
    assert not plan.pending and plan.failure is None
    assert plan.complete().text == "One. ZWEI."


def test_second_decodings_can_be_dropped_and_first_ones_cannot() -> None:
    plan = prepare("One. Two.")
    assert plan.drop_retries() == []
    plan.settle_one(1, answer("no no no no"))
    assert plan.drop_retries() == [1]
    assert [request.key for request in plan.pending] == [0]
    plan.settle([answer("eins.")])
    assert plan.complete().text == "EINS. Two."


def test_a_text_that_was_decoded_again_is_decoded_again_the_next_time() -> None:
    last, loop = LastTranslation(), answer("no no no no")
    for _ in range(2):
        plan = prepare("One. Two.")
        plan.last = last
        plan.settle([answer("eins."), loop])
        assert [request.key for request in plan.pending] == [1]
        plan.settle([answer("zwei.")])
        assert plan.complete().text == "EINS. ZWEI."
        assert last.made_of is None


def test_second_decodings_of_a_document_can_be_dropped() -> None:
    plan = pipeline().prepare("<p>One.</p><p>Two.</p>", "en", "de", replace(OPTIONS, format="html"))
    plan.settle([answer("eins."), answer("no no no no")])
    assert [request.key for request in plan.pending] == [1]
    assert plan.drop_retries() == [1]
    assert not plan.pending and plan.failure is None


def test_a_text_fails_with_its_first_failure() -> None:
    plan = prepare("One. Two. Three.")
    first, second = DecodingError("first"), DecodingError("second")
    plan.settle([answer("eins."), first, second])
    assert plan.failure is first
    with pytest.raises(DecodingError, match="first"):
        plan.complete()


def test_there_is_one_outcome_for_each_pending_request() -> None:
    plan = prepare("One. Two.")
    with pytest.raises(ValueError, match="shorter"):
        plan.settle([answer("eins.")])


def test_outcomes_of_several_texts_are_distributed_in_order() -> None:
    plans = [prepare("One. Two."), prepare(""), prepare("Three.")]
    settle_all(plans, [answer("1a"), answer("2b"), answer("3c")])
    assert [plan.complete().text for plan in plans] == ["1A. 2B.", "", "3C."]


def test_capitals_are_folded_for_the_model_and_restored_in_the_output() -> None:
    plan = prepare("RED CAT SEES DOG.", fold_capitals=True)
    (sentence,) = plan.sentences
    assert sentence.in_capitals
    assert "".join(map(chr, sentence.token_ids[1:-1])).lower() == "red cat sees dog."
    assert not "".join(map(chr, sentence.token_ids[1:-1])).isupper()


def test_a_text_that_is_not_one_sentence_is_refused() -> None:
    item = pipeline(max_source_tokens=10)
    with pytest.raises(EmptySource):
        item.prepare_sentence(" \n", "en", "de", OPTIONS)
    with pytest.raises(SeveralSentences):
        item.prepare_sentence("One. Two.", "en", "de", OPTIONS)
    with pytest.raises(SourceTooLong):
        item.prepare_sentence("One that is long.", "en", "de", OPTIONS)
    assert item.prepare_sentence(" 42 ", "en", "de", OPTIONS).pending, "a sentence needs no letter"


def test_links_use_the_largest_weight_among_tokens_that_cover_characters() -> None:
    rows = torch.tensor([[0.7, 0.1, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    links = sentence_links(rows, [(0, 0), (0, 3), (3, 5)], [(0, 2), (2, 2), (2, 4)], 10, 20)
    assert list(links) == [
        AlignmentLink((13, 15), (20, 22), 0.2),
        AlignmentLink((13, 15), (22, 24), 0.8),
    ]


@pytest.mark.parametrize(("before", "after", "options"), [("", "", OPTIONS), ("<p>", "</p>", HTML)])
def test_the_answer_has_the_words_of_the_lexicon_that_the_model_used(
    before: str, after: str, options: TranslationOptions
) -> None:
    tokenizer: Any = FakeTokenizer()
    lexicon = Lexicon({("en", "de"): [GlossaryTerm("dog", "HUND"), GlossaryTerm("cat", "KATZE")]})
    reader = SentenceReader(tokenizer, Capabilities(glossary=True), fold_capitals=False, lexicon=lexicon)
    text = f"{before}One. A dog, a cat.{after}"
    plan = TextPipeline(reader, 50, 50, retry_loops=False).prepare(text, "en", "de", options)
    plan.settle([answer("eins."), answer("ein hund, ein tier.")])
    translation = plan.complete()
    assert translation.text == f"{before}EINS. EIN HUND, EIN TIER.{after}"
    uses = [
        (use.source, use.target and translation.text[slice(*use.target)], use.status) for use in translation.lexicon
    ]
    assert [(text[slice(*source)], target, status) for source, target, status in uses] == [("dog", "HUND", "used")]
    assert translation.glossary is None
