"""Sentences as a model reads them: protected spans, glossary terms, the form of address."""

from __future__ import annotations

import pytest
import torch

from model.errors import UnsupportedFormality
from model.text.glossary import GlossaryTerm
from model.text.lexicon import Lexicon
from model.text.symbols import Span, Symbol
from model.text.tokenizer import VersoTokenizer
from model.text.tokenizer_training import learn_tokenizer
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.reading import SentenceReader, SourceSentence
from model.translation.writing import SentenceWriter

TEXT = [
    "the red cat sees the old dog.",
    "die rote Katze sieht den alten Hund.",
    "Good morning, friend!",
    "SEE THE OLD DOG, HUND!",
] * 3
TOKENIZER: VersoTokenizer = learn_tokenizer(TEXT * 3, 365, ["de", "en"], reserve_symbols=True, normalisation="nfc")
ALL = Capabilities(placeholders=16, formality=("de",), glossary=True)
PAIR = ("en", "de")


WRITER = SentenceWriter(TOKENIZER)


def reader(capabilities: Capabilities = ALL, *, fold_capitals: bool = False) -> SentenceReader:
    return SentenceReader(TOKENIZER, capabilities, fold_capitals=fold_capitals)


def read(
    text: str,
    *terms: tuple[str, str],
    formality: str | None = None,
    capabilities: Capabilities = ALL,
    fold_capitals: bool = False,
) -> SourceSentence:
    options = TranslationOptions(formality=formality, glossary=tuple(GlossaryTerm(*term) for term in terms))  # type: ignore[arg-type]
    item = reader(capabilities, fold_capitals=fold_capitals)
    return item.read(text, 0, len(text), list(item.protected_spans(text, "auto")), options, PAIR)


def pieces(sentence: SourceSentence) -> str:
    return " ".join(TOKENIZER.pieces(sentence.token_ids)).replace("\u2581", "")


def test_a_plain_sentence_is_encoded_by_the_tokenizer_alone() -> None:
    assert read("the red cat.").token_ids == TOKENIZER.encode("the red cat.", "de")


def test_words_that_the_model_does_not_know_become_placeholders() -> None:
    sentence = read("the 猫 sees 😀.")
    assert pieces(sentence).replace(" ", "") == "<2de>the<ph0>sees<ph1>.</s>"
    assert [TOKENIZER.pieces([token_id]) for token_id in sentence.required_ids] == [["<ph0>"], ["<ph1>"]]


def test_for_a_model_without_placeholders_spans_are_taken_out() -> None:
    sentence = read("the 😀 cat.", capabilities=Capabilities())
    assert sentence.token_ids == TOKENIZER.encode("the cat.", "de")
    assert (sentence.protected, sentence.required_ids) == (((4, 5),), ())
    assert read("the 猫.", capabilities=Capabilities()).protected == ((4, 5),)


def test_only_models_with_placeholders_protect_what_they_do_not_know_if_nothing_is_to_be_protected() -> None:
    assert reader(Capabilities()).protected_spans("the 猫 {x}.", "none") == {}
    assert list(reader().protected_spans("the 猫 {x}.", "none")) == [(4, 9)], "braces have no piece here"


def test_spans_beyond_the_number_of_placeholders_are_taken_out() -> None:
    text = "see" + " {x}" * 20 + " dog"
    sentence = read(text)
    assert pieces(sentence).replace(" ", "") == "<2de>see" + "".join(f"<ph{k}>" for k in range(16)) + "dog</s>"
    assert (len(sentence.protected), len(sentence.required_ids)) == (20, 16)
    spans = reader().source_offsets(sentence)
    assert text[slice(*spans[17])] == "{x}", "the last placeholder"
    assert text[spans[-4][0] : spans[-2][1]].endswith("dog")


def test_a_term_stands_beside_its_word() -> None:
    assert (
        pieces(read("the red cat.", ("red cat", "Katze"))).replace(" ", "")
        == "<2de>the<term>redcat<as>Katze</term>.</s>"
    )


def test_a_model_without_glossary_reads_the_sentence_alone_and_the_term_is_remembered() -> None:
    sentence = read("the red cat.", ("cat", "Katze"), capabilities=Capabilities())
    assert sentence.token_ids == TOKENIZER.encode("the red cat.", "de")
    assert [(term.span, term.target) for term in sentence.terms] == [((8, 11), "Katze")]


@pytest.mark.parametrize("capabilities", [ALL, Capabilities()], ids=["told", "not told"])
def test_alignment_is_asked_where_a_translation_lacks_a_term(capabilities: Capabilities) -> None:
    item = read("the cat sees the cat.", ("cat", "Katze"), capabilities=capabilities)
    for answer, lacks in (("die Katze sieht Katzen.", False), ("die Katze sieht sie.", True), ("der Hund.", True)):
        assert WRITER.needs_attention(item, TOKENIZER.encode_target(answer)) is lacks


def test_the_form_of_address_stands_behind_the_language() -> None:
    assert pieces(read("the red cat.", formality="informal")).startswith("<2de> <informal> ")


def test_a_form_of_address_that_the_model_cannot_be_told_is_refused() -> None:
    ALL.check_formality("formal", "de-AT")
    ALL.check_formality(None, "en")
    with pytest.raises(UnsupportedFormality, match="only for translations into de"):
        ALL.check_formality("formal", "en")
    with pytest.raises(UnsupportedFormality, match="in no language"):
        Capabilities().check_formality("formal", "de")


@pytest.mark.parametrize(
    "sentence_options",
    [
        {},
        {"formality": "formal"},
        {"terms": [("red cat", "Katze")]},
        {"formality": "formal", "terms": [("dog", "Hund")]},
    ],
)
@pytest.mark.parametrize("text", ["the red cat sees the dog.", "the red cat, 😀 and 猫 see the dog!", "😀 cat"])
def test_source_offsets_are_one_for_each_token_and_name_its_characters(
    text: str, sentence_options: dict[str, object]
) -> None:
    terms: list[tuple[str, str]] = sentence_options.get("terms", [])  # type: ignore[assignment]
    sentence = read(text, *terms, formality=sentence_options.get("formality"))  # type: ignore[arg-type]
    spans = reader().source_offsets(sentence)
    assert len(spans) == len(sentence.token_ids)
    for token, (start, end) in zip(TOKENIZER.pieces(sentence.token_ids), spans, strict=True):
        plain = token.removeprefix("\u2581")
        if token.startswith("<ph"):
            assert text[start:end] in ("😀", "猫")
        elif not token.startswith("<") and not _is_told(plain, text, (start, end)):
            assert text[start:end] == plain


def _is_told(piece: str, text: str, span: Span) -> bool:
    """Whether a piece belongs to the translation of a term, which covers the term's word."""
    return text[slice(*span)] in ("red cat", "dog") and piece != text[slice(*span)]


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("text", ["The old dog.", "The old dog..."])
def test_a_translation_begins_with_a_capital_as_its_source_does(text: str, folds: bool) -> None:
    sentence, small = read(text, fold_capitals=folds), read(text.lower(), fold_capitals=folds)
    answer = TOKENIZER.encode_target("see the dog")[:-1]
    first = "S" if folds else "s"
    assert WRITER.write(sentence, answer).startswith(f"{first}ee the dog")
    assert WRITER.write_with_offsets(sentence, answer, None, []).text.startswith(f"{first}ee the dog")
    assert WRITER.write(small, answer).startswith("see the dog")


def test_a_word_behind_a_protected_span_keeps_its_small_letter() -> None:
    text = "See 猫 the dog."
    sentence = read(text, fold_capitals=True)
    answer = [sentence.required_ids[0], *TOKENIZER.encode_target("see the dog")[:-1]]
    assert WRITER.write(sentence, answer) == "猫 see the dog."


@pytest.mark.parametrize("span", ["猫", "{x}"])
def test_capitals_are_judged_and_folded_outside_of_protected_spans(span: str) -> None:
    text = f"SEE {span} THE OLD DOG"
    sentence = read(text, fold_capitals=True)
    assert sentence.in_capitals
    assert pieces(sentence).replace(" ", "") == "<2de>See<ph0>theolddog</s>"
    answer = TOKENIZER.encode_target("Hund")[:-1]
    assert WRITER.write(sentence, [*answer, sentence.required_ids[0]]) == f"HUND {span}"


def test_a_translation_has_its_protected_spans_where_the_model_put_them() -> None:
    text = "the 猫 sees 😀."
    sentence = read(text)
    first, second = sentence.required_ids
    token_ids = TOKENIZER.encode_target_parts([Symbol("<ph1>"), " sieht ", Symbol("<ph0>"), "."])[:-1]
    assert {first, second} <= set(token_ids)
    result = WRITER.write_with_offsets(sentence, token_ids, None, [])
    assert result.text == "😀 sieht 猫."
    assert [result.text[slice(*span)] for span in result.spans] == ["猫", "😀"]
    assert len(result.tokens) == len(token_ids)
    assert WRITER.write(sentence, token_ids) == result.text


def test_repeated_punctuation_at_the_end_comes_back() -> None:
    sentence = read("the red cat!!!")
    for answer in ("die rote Katze!", "die rote Katze", "die rote Katze.", "die rote Katze!!!"):
        token_ids = TOKENIZER.encode_target(answer)[:-1]
        assert WRITER.write(sentence, token_ids) == "die rote Katze!!!"


def test_what_a_source_vocabulary_knows_is_translated_although_targets_never_hold_it() -> None:
    sources = learn_tokenizer(["abc cab bca"] * 3, 266, ["de"], normalisation="nfc")
    targets = learn_tokenizer(["xyz zyx"] * 3, 265, [], normalisation="nfc")
    apart = VersoTokenizer(sources.model_proto, targets.model_proto)
    assert SentenceReader(apart, Capabilities(), fold_capitals=False).protected_spans("abc cab", "auto") == {}


def test_a_term_in_a_sentence_in_capitals_is_read_in_lower_case() -> None:
    sentence = read("SEE THE OLD DOG", ("dog", "Hund"), fold_capitals=True)
    assert pieces(sentence).replace(" ", "") == "<2de>Seetheold<term>dog<as>Hund</term></s>"


def test_signs_that_the_model_does_not_read_stand_around_the_words_aligned_with_theirs() -> None:
    text = "the (red cat) sees the dog"
    item = reader()
    signs = item.with_protected(read(text), [(4, 5), (12, 13)])
    assert signs is not None
    sentence = item.with_placed_spans(signs)
    token_ids = TOKENIZER.encode_target("die rote Katze sieht den Hund")[:-1]
    answer, target_spans = TOKENIZER.decode_with_offsets(token_ids)
    source_spans = item.source_offsets(sentence)
    words = dict(zip(answer.split(), ("the", "red", "cat", "sees", "the", "dog"), strict=True))
    rows = torch.zeros(len(token_ids), len(source_spans))
    for row, (start, end) in zip(rows, target_spans, strict=True):
        word = next(word for word in words if answer.index(word) <= start and end <= answer.index(word) + len(word))
        first = text.index(words[word])
        row[next(index for index, span in enumerate(source_spans) if span[0] <= first < span[1])] = 1.0
    written = WRITER.write_with_offsets(sentence, token_ids, rows, source_spans)
    assert written.text == "die (rote Katze) sieht den Hund"
    assert [written.text[slice(*span)] for span in written.spans] == ["(", ")"]


LEXICON = Lexicon({PAIR: [GlossaryTerm("dog", "Hund"), GlossaryTerm("cat", "Katze")]})


def with_lexicon(text: str, *terms: tuple[str, str], lexicon: bool = True, glossary: bool = True) -> SourceSentence:
    options = TranslationOptions(glossary=tuple(GlossaryTerm(*term) for term in terms), lexicon=lexicon)
    item = SentenceReader(
        TOKENIZER, Capabilities(placeholders=16, glossary=glossary), fold_capitals=False, lexicon=LEXICON
    )
    return item.read(text, 0, len(text), list(item.protected_spans(text, "auto")), options, PAIR)


def test_the_model_reads_a_translation_of_the_lexicon_as_it_reads_a_term() -> None:
    sentence = with_lexicon("the dog sees.")
    assert sentence.token_ids == read("the dog sees.", ("dog", "Hund")).token_ids
    assert ([hint.target for hint in sentence.hints], sentence.terms) == (["Hund"], ())


def test_a_term_of_the_request_comes_before_the_lexicon() -> None:
    sentence = with_lexicon("the dog sees the cat.", ("dog", "Katze"))
    assert [(term.target, sentence.text[slice(*term.span)]) for term in (*sentence.terms, *sentence.hints)] == [
        ("Katze", "dog"),
        ("Katze", "cat"),
    ]


def test_without_the_option_or_the_capability_no_lexicon_is_read() -> None:
    plain = TOKENIZER.encode("the dog sees.", "de")
    assert with_lexicon("the dog sees.", lexicon=False).token_ids == plain
    assert with_lexicon("the dog sees.", glossary=False).token_ids == plain


def test_a_translation_of_the_lexicon_is_never_enforced() -> None:
    sentence = with_lexicon("the dog sees.")
    other = TOKENIZER.encode_target("die rote Katze.")[:-1]
    assert not WRITER.needs_attention(sentence, other)
    assert WRITER.write(sentence, other) == "die rote Katze."


def test_hints_have_no_part_of_what_is_protected_later() -> None:
    item = SentenceReader(TOKENIZER, ALL, fold_capitals=False, lexicon=LEXICON)
    sentence = item.read("the dog sees the cat.", 0, 21, [], TranslationOptions(), PAIR)
    protected = item.with_protected(sentence, [(4, 7)])
    assert protected is not None
    assert [hint.target for hint in protected.hints] == ["Katze"]
