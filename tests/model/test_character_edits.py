"""Characters in another form: the model reads the plain spelling, and positions are those of the text."""

from __future__ import annotations

from typing import Any

import pytest

from model.text.character_edits import escape_of_apostrophes, find_edits, with_edits
from model.text.protection import Protect
from model.text.tokenizer_training import learn_tokenizer
from model.translation.capabilities import Capabilities
from model.translation.options import TranslationOptions
from model.translation.reading import SentenceReader, SourceSentence
from model.translation.writing import SentenceWriter

TEXTS = ["it's a red cat.", "don't see the office floor", "Kolleginnen jede Kundin geht's", "naive naïve é"]
TOKENIZER = learn_tokenizer(TEXTS * 3, 352, ["de", "en"], normalisation="nfc", reserve_symbols=True)
READER = SentenceReader(TOKENIZER, Capabilities(placeholders=4), fold_capitals=False)
WRITER = SentenceWriter(TOKENIZER)


def as_read(text: str, language: str) -> str:
    return with_edits(text, None, find_edits(text, language))[0]


@pytest.mark.parametrize(
    ("text", "language", "read"),
    [
        (r"It\'s good, don\'t", "en", "It's good, don't"),
        (r"It\u2019s nice", "en", "It's nice"),
        ("You can''t do this, it''s late", "en", "You can't do this, it's late"),
        ("It&#39;s, it&rsquo;s, it&apos;s", "en", "It's, it's, it's"),
        ("It´s, don`t, itʼs, it′s, it＇s", "en", "It's, don't, it's, it's, it's"),
        ("Wie geht`s dir?", "de", "Wie geht's dir?"),
        ("The ﬁrst oﬃce, Einﬂuss", "en", "The first office, Einfluss"),
        ("nai\u0308ve cafe\u0301", "en", "naïve café"),
        ("Ｈｅｌｌｏ １２ 𝐆𝐨𝐨𝐝", "en", "Hello 12 Good"),
        (
            "On Wed, 14 Dec 2022 and Aug 9, in Sept. 2020",
            "en",
            "On Wednesday, 14 December 2022 and August 9, in September 2020",
        ),
        ("Am Do., 7. Okt. 2021 und So ist 5 Jan.", "de", "Am Donnerstag, 7. Oktober 2021 und So ist 5 Januar."),
        ("Wait &ndash; it is 5&nbsp;%", "en", "Wait \u2013 it is 5&nbsp;%"),
        ("Donau\u00addampf\u200bschiff", "de", "Donaudampfschiff"),
        ("Gr&uuml;&szlig;e &amp; K&#252;sse", "de", "Grüße &amp; Küsse"),
        (
            "Kolleg*innen, Bürger_innen, Lehrer·innen, Ärzt:innen",
            "de",
            "Kolleginnen, Bürgerinnen, Lehrerinnen, Ärztinnen",
        ),
        (
            "Schüler/-innen, Kund/in, Mitarbeiter(innen), LehrerInnen",
            "de",
            "Schülerinnen, Kundin, Mitarbeiterinnen, Lehrerinnen",
        ),
        ("JEDE*R KUND*IN, LEHRER:INNEN", "de", "JEDE KUNDIN, LEHRERINNEN"),
        ("Jede*r Kund*in, ein*e, keine_r, gute*r", "de", "Jede Kundin, eine, keine, gute"),
        ("Der*die Student*in; er*sie", "de", "Die Studentin; sie"),
    ],
)
def test_a_model_reads_the_plain_spelling(text: str, language: str, read: str) -> None:
    assert as_read(text, language) == read


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the ''capital'' of '''Berlin'''", "en"),
        ("use `don` and `x`", "en"),
        ("snake_case, log_in, a*b, 5*3, **bold**, AT&T &amp; 3′ 5″ x²", "en"),
        ("Kolleg*innen", "en"),
        ("snake_case, wert_n, *wichtig*, **in** x, LinkedIn, z*n", "de"),
        ("12:30, er:warte, der/die, er/sie, Nr. 5:in", "de"),
        ("boys' toys, rock'n'roll, \\n and \\t", "en"),
    ],
)
def test_what_only_looks_like_another_form_is_read_as_it_is(text: str, language: str) -> None:
    assert not find_edits(text, language)


def test_each_character_that_is_read_stands_for_those_of_the_text() -> None:
    text = "a \\'b o\ufb03ce e\u0301"
    edits = find_edits("x" + text[1:].replace(" \\", "\\"), "en")
    assert [(edit.start, edit.end) for edit in edits] == [(1, 3), (6, 7), (10, 12)]
    read, starts, ends = with_edits("cafe\u0301s", None, find_edits("cafe\u0301s", "en"))
    assert (read, starts, ends) == ("cafés", [0, 1, 2, 3, 5], [1, 2, 3, 5, 6])


def sentence_of(text: str, language: str = "en", protect: Protect = "auto") -> SourceSentence:
    spans = list(READER.protected_spans(text, protect, language))
    pair = (language, "de" if language == "en" else "en")
    return READER.read(text, 0, len(text), spans, TranslationOptions(), pair, READER.edits(text, spans, language))


@pytest.mark.parametrize(
    ("text", "language", "plain"),
    [
        (r"it\'s a red cat.", "en", "it's a red cat."),
        ("see the oﬃce ﬂoor {x}", "en", "see the office floor {x}"),
        ("jede*r Kund*in", "de", "jede Kundin"),
        ("don`t see `a cat`", "en", "don't see `a cat`"),
    ],
)
def test_such_words_are_not_protected_and_have_the_tokens_of_the_plain_text(
    text: str, language: str, plain: str
) -> None:
    sentence, expected = sentence_of(text, language), sentence_of(plain, language)
    assert sentence.token_ids == expected.token_ids
    assert [text[slice(*span)] for span in sentence.protected] == [plain[slice(*span)] for span in expected.protected]
    spans = READER.source_offsets(sentence)
    assert len(spans) == len(sentence.token_ids)
    assert [span for span in spans if span[1] > span[0]] == sorted(span for span in spans if span[1] > span[0])
    covered = {index for start, end in spans for index in range(start, end)}
    kept = {index for start, end in sentence.protected for index in range(start, end)}
    left_out = {index for index in range(len(text)) if text[index].isalpha()} - covered - kept
    assert all(text[index] == "r" for index in left_out), "only the ending that is not read"


@pytest.mark.parametrize(
    ("source", "written", "answer"),
    [
        (r"it\'s a red cat", "geht's don't", r"geht\'s don\'t"),
        ("it''s a red cat", "geht's don't", "geht''s don''t"),
        (r"it\u2019s a red cat", "geht's don't", r"geht\u2019s don\u2019t"),
        ("it´s a red cat", "geht's don't", "geht's don't"),
        (r"it\'s a {x} cat", "<it's cat", r"<it\'s cat"),
    ],
)
def test_apostrophes_that_the_translation_needs_are_escaped_as_in_the_source(
    source: str, written: str, answer: str
) -> None:
    sentence: Any = sentence_of(source)
    token_ids = TOKENIZER.encode_target(written)[:-1]
    result = WRITER.write_with_offsets(sentence, [*token_ids, *sentence.required_ids], None, [])
    assert result.text.replace(" {x}", "").lower() == answer
    assert all(start <= end <= len(result.text) for start, end in result.tokens)
    assert [result.text[slice(*span)] for span in result.spans] == [source[slice(*span)] for span in sentence.protected]


def test_the_first_escape_of_a_text_counts() -> None:
    text = r"it's \'a, don\'t, can''t"
    assert escape_of_apostrophes(text, find_edits(text, "en")) == r"\'"
    assert escape_of_apostrophes("it´s", find_edits("it´s", "en")) == ""
