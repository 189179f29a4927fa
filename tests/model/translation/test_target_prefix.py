"""Translations begin with the given text, and the model continues as it would have."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from model.artifacts.bundle import load_bundle
from model.errors import EmptySource, InvalidOptions, InvalidPrefix, SeveralSentences
from model.text.glossary import GlossaryTerm
from model.translation.options import MAX_PREFIX_CHARACTERS, TranslationOptions
from model.translation.results import Translation
from model.translator import Translator
from tests.model.test_protected_translation import SPANS, WORDS, assert_whole, imported_model, told_model

GREEDY = TranslationOptions(decoding="greedy")
SENTENCE = "red cat sees old dog."
ANSWER = "rot Katze sieht alt Hund."


@pytest.fixture(scope="module")
def toy(toy_bundle: Path) -> Translator:
    return Translator(load_bundle(toy_bundle, "cpu"))


@pytest.fixture(scope="module")
def told() -> Translator:
    return told_model()


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return imported_model(tmp_path_factory.mktemp("opus"))


@pytest.fixture(params=["toy", "told", "imported"])
def translator(request: pytest.FixtureRequest) -> Translator:
    result: Translator = request.getfixturevalue(request.param)
    return result


def begin(translator: Translator, text: str, prefix: str, options: TranslationOptions = GREEDY) -> Translation:
    (translation,) = translator.translate([text], replace(options, target_prefix=prefix), *translator.manifest.pairs[0])
    return translation


def to_german(toy: Translator, text: str, prefix: str = "", options: TranslationOptions = GREEDY) -> Translation:
    (translation,) = toy.translate([text], replace(options, target_prefix=prefix), "en", "de")
    return translation


@pytest.mark.parametrize("options", [GREEDY, TranslationOptions(beam_size=3)], ids=["greedy", "beam"])
def test_behind_each_beginning_of_its_own_answer_the_model_goes_on_as_it_did(
    toy: Translator, options: TranslationOptions
) -> None:
    assert to_german(toy, SENTENCE, options=options).text == ANSWER
    for end in (match.end() for match in re.finditer(r"\w+|\.", ANSWER)):
        assert to_german(toy, SENTENCE, ANSWER[:end], options).text == ANSWER


def test_another_first_word_steers_the_translation(toy: Translator) -> None:
    translation = to_german(toy, SENTENCE, "Baum")
    assert translation.text.startswith("Baum ") and translation.text != ANSWER


@pytest.mark.parametrize("end", range(1, 9))
def test_a_word_that_a_prefix_breaks_off_is_continued(toy: Translator, end: int) -> None:
    prefix = ANSWER[:end]
    if not prefix.endswith(" "):
        assert to_german(toy, SENTENCE, prefix).text.startswith(prefix)


def test_alternatives_begin_with_the_prefix_too(translator: Translator) -> None:
    options = TranslationOptions(beam_size=4, num_hypotheses=4, max_new_tokens=8)
    translation = begin(translator, "red cat {x} sees old dog.", "the {x} dog", options)
    assert len(translation.alternatives) == 3
    assert all(
        item.text.startswith("the {x} dog") and item.text.count("{x}") == 1
        for item in (translation, *translation.alternatives)
    )


def test_a_protected_span_of_the_prefix_stands_there_and_nowhere_else(translator: Translator) -> None:
    text = "red cat {x} sees {y} https://example.com/a_b old dog."
    translation = begin(translator, text, "the https://example.com/a_b {x}")
    assert translation.text.startswith("the https://example.com/a_b {x}")
    assert_whole(text, translation, ["{x}", "{y}", "https://example.com/a_b"])
    assert translation.integrity is not None
    x, y, url = translation.integrity
    assert (x.target, url.target, x.restored, url.restored) == ((28, 31), (4, 27), False, False)
    assert y.target[0] >= 31


def test_a_placeholder_token_stands_for_the_span_of_a_prefix(told: Translator) -> None:
    options = replace(GREEDY, target_prefix="the {x} dog")
    plan = told.prepare("red cat {x} sees", *told.manifest.pairs[0], options)
    (request,) = plan.pending
    assert request.prefix_ids.count(request.required_ids[0]) == 1
    assert told.pipeline.tokenizer.decode(request.prefix_ids) == "the dog"


def test_a_span_without_placeholder_is_left_out_of_what_the_model_reads(toy: Translator) -> None:
    options = replace(GREEDY, target_prefix="rot {x} Katze")
    (request,) = toy.prepare("red {x} cat.", "en", "de", options).pending
    assert request.prefix_ids == tuple(toy.pipeline.tokenizer.encode_target("rot Katze")[:-1])


def test_a_span_that_is_part_of_a_longer_word_of_the_prefix_is_another_word(toy: Translator) -> None:
    translation = to_german(toy, "red cat @user sees old dog.", "rot @users")
    assert translation.text.startswith("rot @users") and translation.text.count("@user") == 2


def test_a_prefix_that_is_one_span_is_continued_behind_a_space(toy: Translator) -> None:
    translation = to_german(toy, "https://example.com/a red cat.", "https://example.com/a")
    assert translation.text == "https://example.com/a rot Katze."


@pytest.mark.parametrize("prefix", ["THE", "THE RED C", "the", "Red {x}", "{x}"])
def test_of_a_sentence_in_capitals_the_prefix_stays_and_the_rest_is_in_capitals(told: Translator, prefix: str) -> None:
    translation = begin(told, "THE RED CAT {x} SEES THE DOG", prefix)
    assert translation.text.startswith(prefix)
    rest = translation.text.removeprefix(prefix).replace("{x}", "")
    assert rest == rest.upper() and translation.text.count("{x}") == 1


def test_a_prefix_in_capitals_is_read_in_lower_case_if_the_sentence_is_in_capitals(told: Translator) -> None:
    options = replace(GREEDY, target_prefix="THE RED")
    (capitals,) = told.prepare("THE RED CAT SEES", *told.manifest.pairs[0], options).pending
    (other,) = told.prepare("the red cat sees", *told.manifest.pairs[0], options).pending
    tokenizer = told.pipeline.tokenizer
    assert capitals.prefix_ids == tuple(tokenizer.encode_target("The red")[:-1]) != other.prefix_ids


def test_repeated_punctuation_replaces_no_character_of_the_prefix(toy: Translator) -> None:
    assert to_german(toy, "red cat..", "rot Katze").text == "rot Katze.."
    assert to_german(toy, "red cat..", "rot Katze.").text.startswith("rot Katze.")
    assert to_german(toy, "red cat..", "rot Katze!").text.startswith("rot Katze!")
    assert to_german(toy, "red cat..", "rot Katze...").text.startswith("rot Katze...")


def test_unusual_white_space_stands_where_the_prefix_has_it_or_behind(toy: Translator) -> None:
    text = "red cat\u00a0sees old dog."
    assert to_german(toy, text).text == "rot Katze\u00a0sieht alt Hund."
    assert to_german(toy, text, "rot Katze\u00a0sieht").text == "rot Katze\u00a0sieht alt Hund."
    assert to_german(toy, text, "rot Katze").text == "rot Katze\u00a0sieht alt Hund."
    assert to_german(toy, text, "rot Katze sieht").text == "rot Katze sieht alt Hund."


def test_terms_replace_no_word_of_the_prefix(toy: Translator) -> None:
    glossary = (GlossaryTerm("cat", "Kater"), GlossaryTerm("dog", "Köter"))
    options = replace(GREEDY, glossary=glossary)
    assert to_german(toy, SENTENCE, options=options).text == "rot Kater sieht alt Köter."
    translation = to_german(toy, SENTENCE, "rot Katze", options)
    assert translation.text == "rot Katze sieht alt Köter."
    assert translation.glossary is not None
    assert [use.status for use in translation.glossary] == ["missing", "replaced"]
    given_term = to_german(toy, SENTENCE, "rot Kater", options)
    assert given_term.glossary is not None and given_term.glossary[0].target == (4, 9)


def test_the_text_before_the_sentence_is_part_of_the_prefix(toy: Translator) -> None:
    assert to_german(toy, "- red cat.\n", "- rot").text == "- rot Katze.\n"
    with pytest.raises(InvalidPrefix, match="begins with '- '"):
        to_german(toy, "- red cat.", "rot")
    with pytest.raises(InvalidPrefix, match="begins with whitespace"):
        to_german(toy, "  red cat.", "rot")


@pytest.mark.parametrize(
    ("prefix", "written"), [("rot ½", "rot 1⁄2"), ("rot  Katze", "rot Katze"), ("rot\nKatze", "rot Katze")]
)
def test_a_prefix_that_the_model_would_write_differently_is_refused(toy: Translator, prefix: str, written: str) -> None:
    with pytest.raises(InvalidPrefix, match=re.escape(f"{prefix!r}, and the model would write {written!r}")):
        to_german(toy, SENTENCE, prefix)


def test_the_error_names_what_the_model_reads_of_a_prefix_if_that_is_not_all_of_it(toy: Translator) -> None:
    with pytest.raises(InvalidPrefix, match=re.escape("which the model reads as 'rot ½', and the model would write")):
        to_german(toy, "red {x} cat.", "rot {x} ½")


def test_characters_that_the_model_does_not_know_are_refused(imported: Translator) -> None:
    with pytest.raises(InvalidPrefix, match="characters that it does not know"):
        begin(imported, "red cat", "你好")
    assert begin(imported, "你好 red cat", "你好").text.startswith("你好")  # there it comes back


def test_a_prefix_leaves_room_for_one_more_token(toy: Translator) -> None:
    longest = toy.manifest.max_target_tokens
    words = "rot " * (longest - 2) + "rot"
    assert len(toy.pipeline.tokenizer.encode_target(words)) == longest
    translation = to_german(toy, SENTENCE, words)
    assert translation.text.startswith(words) and translation.num_target_tokens <= longest
    with pytest.raises(InvalidPrefix, match=f"has {longest} tokens and may have {longest - 1}"):
        to_german(toy, SENTENCE, f"{words} rot")


@pytest.mark.parametrize(
    ("name", "options"),
    [("target_prefix", replace(GREEDY, target_prefix="rot")), ("return_search", replace(GREEDY, return_search=True))],
)
def test_what_is_for_one_sentence_needs_one(toy: Translator, name: str, options: TranslationOptions) -> None:
    with pytest.raises(SeveralSentences, match=f"2 sentences and {name} is defined for one"):
        to_german(toy, "red cat. old dog.", options.target_prefix, options)
    with pytest.raises(SeveralSentences, match="no sentence with letters"):
        to_german(toy, "12 — 7", options.target_prefix, options)
    with pytest.raises(EmptySource):
        to_german(toy, " \n", options.target_prefix, options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"target_prefix": "rot "}, "whitespace at its ends"),
        ({"target_prefix": "\nrot"}, "whitespace at its ends"),
        ({"target_prefix": "r" * (MAX_PREFIX_CHARACTERS + 1)}, f"may have {MAX_PREFIX_CHARACTERS}"),
        ({"target_prefix": "rot", "format": "html"}, "target_prefix needs format 'text'"),
        ({"return_search": True, "format": "xml"}, "return_search needs format 'text'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidOptions, match=reason):
        TranslationOptions(**options)  # type: ignore[arg-type]


def test_links_and_words_are_in_characters_of_the_whole_translation(translator: Translator) -> None:
    prefix, text = "the {x} dog", "red {x} cat sees old dog."
    options = replace(GREEDY, target_prefix=prefix)
    pair = translator.manifest.pairs[0]
    (translation,) = translator.translate([text], options, *pair, return_alignment=True, return_confidence=True)
    assert translation.alignment is not None and translation.confidence is not None
    words = [translation.text[slice(*word.target)] for word in translation.confidence.words]
    # A span that the model does not write has no probability.
    assert [word for word in words if word != "{x}"] == [word for word in translation.text.split() if word != "{x}"]
    assert translation.alignment[0].target[0] == 0
    assert len(prefix) in {link.target[1] for link in translation.alignment}
    assert all(0 <= link.target[0] < link.target[1] <= len(translation.text) for link in translation.alignment)


def test_attention_is_that_of_the_translation_with_the_prefix(toy: Translator) -> None:
    options = replace(GREEDY, target_prefix="rot Hund")
    attention = toy.attention(SENTENCE, options, "en", "de")
    assert attention.translation == to_german(toy, SENTENCE, "rot Hund").text
    assert attention.target_tokens[:2] == toy.pipeline.tokenizer.target_pieces(
        toy.pipeline.tokenizer.encode_target("rot Hund")[:2]
    )
    assert attention.cross.size(2) == len(attention.target_tokens)
    with pytest.raises(InvalidOptions, match="target_text is a whole translation, and target_prefix"):
        toy.attention(SENTENCE, options, "en", "de", "rot Katze.")


@pytest.mark.parametrize("options", [GREEDY, TranslationOptions(beam_size=3)], ids=["greedy", "beam"])
@pytest.mark.parametrize(
    ("name", "text", "prefix"),
    [
        ("toy", SENTENCE, ""),
        ("toy", SENTENCE, "rot Hun"),
        ("toy", "red {x} cat.", "rot {x}"),
        ("told", SENTENCE, "rot"),
        ("told", "red {x} cat.", "rot"),
        ("told", "red {x} cat.", "rot {x}"),
        ("told", "THE RED CAT", "THE"),
        ("imported", SENTENCE, "rot"),
        ("imported", "red {x} cat.", "rot {x}"),
    ],
)
def test_the_texts_of_candidates_join_to_the_translation(
    request: pytest.FixtureRequest, name: str, options: TranslationOptions, text: str, prefix: str
) -> None:
    translator: Translator = request.getfixturevalue(name)
    options = replace(options, target_prefix=prefix, return_search=True, return_scores=True, max_new_tokens=12)
    (translation,) = translator.translate([text], options, *translator.manifest.pairs[0])
    assert translation.search
    candidates = {item.id: item for step in translation.search for item in step}
    assert list(candidates) == list(range(1, len(candidates) + 1))
    written = {0: prefix}
    for candidate in candidates.values():
        written[candidate.id] = written[candidate.parent] + candidate.text
        assert candidate.log_prob <= (candidates[candidate.parent].log_prob if candidate.parent else 0.0)
    assert translation.text in {written[item.id] for item in candidates.values() if item.finished and item.kept}
    assert all(candidates[item.parent].kept for item in candidates.values() if item.parent)


def test_without_return_search_there_is_no_search(toy: Translator) -> None:
    assert to_german(toy, SENTENCE).search is None


@st.composite
def prefixes(draw: st.DrawFn) -> str:
    """Words, spans and characters of all kinds, without whitespace at the ends."""
    part = st.sampled_from([*WORDS, *SPANS, "RED", "Katze", "12", "½", "a\u00a0b"]) | st.text(max_size=5)
    separator = st.sampled_from([" ", " ", "", "  ", "\u00a0", "- "])
    parts = draw(st.lists(st.tuples(separator, part), min_size=1, max_size=6))
    return "".join(before + item for before, item in parts).strip()


@st.composite
def sentences(draw: st.DrawFn) -> str:
    """A text, mostly of one sentence."""
    parts = draw(st.lists(st.sampled_from(WORDS) | st.sampled_from(SPANS), min_size=1, max_size=8))
    text = draw(st.sampled_from(["", "- ", "1) "])) + " ".join(parts) + draw(st.sampled_from(["", "?!", "..."]))
    return text.upper() if draw(st.booleans()) else text


@pytest.mark.thorough
def test_whatever_is_accepted_is_the_beginning(translator: Translator) -> None:
    accepted = 0

    # Shrinking would translate for minutes.
    @settings(max_examples=60, phases=[Phase.explicit, Phase.generate])
    @given(text=sentences(), prefix=prefixes(), cut=st.integers(1, 60))
    def run(text: str, prefix: str, cut: int) -> None:
        nonlocal accepted
        options = TranslationOptions(
            beam_size=2,
            num_hypotheses=2,
            max_new_tokens=10,
            glossary=(GlossaryTerm("cat", "Kater"),),
            return_alignment=True,
            return_search=True,
        )
        plain = replace(options, return_search=False)
        (own,) = translator.translate([text], plain, *translator.manifest.pairs[0])
        for given_prefix in (prefix, own.text[:cut].strip()):
            try:
                translation = begin(translator, text, given_prefix, options)
            except (InvalidPrefix, SeveralSentences, EmptySource):
                continue
            accepted += 1
            assert translation.text.startswith(given_prefix)
            assert all(other.text.startswith(given_prefix) for other in translation.alternatives)
            for use in translation.integrity or ():
                assert translation.text[slice(*use.target)] == text[slice(*use.source)]
            places = sorted(use.target for use in translation.integrity or ())
            assert all(first[1] <= second[0] for first, second in itertools.pairwise(places))

    run()
    assert accepted >= 10
