"""Preparation of parallel text: every rule of cleaning, and held-out sets that share no side with the training text."""

from __future__ import annotations

import gzip
import lzma
import random
import unicodedata
from pathlib import Path

import pytest

from model.errors import DataError
from model.training.cleaning import MAX_CHARACTERS, MAX_REPETITIONS, Reason, clean_side, fault, split_pair
from model.training.corpus import Pair, bare_words, unseen
from model.training.preparation import Prepared, prepare_text, read_files, read_table
from tests.grammar import sentence

EO_IT = ("eo", "it")


def sentences(number: int, seed: int = 1) -> list[Pair]:
    """Different sentence pairs."""
    rng = random.Random(seed)
    result: dict[Pair, None] = {}
    while len(result) < number:
        result[sentence(rng)] = None
    return list(result)


def prepared(pairs: list[Pair], held_out: int | None = 5) -> Prepared:
    return prepare_text([(first.encode(), second.encode()) for first, second in pairs], EO_IT, held_out)


def with_good_text(*pairs: Pair) -> Prepared:
    """Prepared text of pairs under test, behind enough pairs without fault."""
    return prepared([*sentences(150), *pairs])


def everything(text: Prepared) -> list[Pair]:
    return [*text.train, *text.dev, *text.test]


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        (unicodedata.normalize("NFD", "Città Ĝis"), "Città Ĝis"),
        ("  two\t words \u00a0here\u2028 ", "two words here"),
        ("a\x00b\x07c\x7f\x9d", "abc"),
        ("\ufeffsoft\u00adly \u200bdone\u200e", "softly done"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # the joiner belongs to the spelling
        ("½ ﬁ Ａ", "½ ﬁ Ａ"),  # compatibility characters are kept
    ],
)
def test_a_side_is_repaired(written: str, clean: str) -> None:
    assert clean_side(written) == clean


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("12 + 7 = 19, or", "12 + 7 = 19, o"), Reason.FEW_LETTERS),
        (("Tom!", "tom"), Reason.COPY),
        (("word " * (MAX_CHARACTERS // 5 + 1), "parola " * 80), Reason.TOO_LONG),
        (("No.", "Una frase che dice molto più di quanto stia scritto dall'altra parte."), Reason.LOPSIDED),
        (("Good morning.", "Buongiorno."), None),
        (("It's 7:45.", "Sono le 7:45."), None),
        (("नमस्ते दुनिया, कैसे हो तुम?", "Ciao mondo, come stai tu?"), None),  # its vowel signs are no letters
    ],
)
def test_a_pair_with_a_fault_is_recognised(pair: Pair, reason: Reason | None) -> None:
    assert fault(pair, 1.0) == reason


def test_lengths_are_compared_with_the_ratio_of_the_languages() -> None:
    english, chinese = "The committee will discuss the proposal again at its next meeting.", "委员会下次开会再议。"
    assert fault((english, chinese), 1.0) is Reason.LOPSIDED
    assert fault((english, chinese), 0.3) is None


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("", "Buongiorno."), Reason.EMPTY),
        (("Bonan tagon.", " \u200b\t"), Reason.EMPTY),
        (("Bonan tagon\ufffd", "Buongiorno."), Reason.DAMAGED),
        (("123 456", "123 456 a"), Reason.FEW_LETTERS),
        (("Roma", "roma."), Reason.COPY),
        (("longa " * 120, "lungo " * 120), Reason.TOO_LONG),
        (("Ne.", "Una frase che dice molto più di quanto stia scritto dall'altra parte."), Reason.LOPSIDED),
        (sentences(150)[7], Reason.DUPLICATE),
        ((f"  {sentences(150)[7][0]}", sentences(150)[7][1].replace(" ", "  ")), Reason.DUPLICATE),
    ],
)
def test_a_faulty_pair_is_left_out_with_line_and_reason(pair: Pair, reason: Reason) -> None:
    result = with_good_text(pair)
    (left_out,) = result.left_out
    assert (left_out.line, left_out.reason) == (151, reason)
    assert sorted(everything(result)) == sorted(sentences(150))


def test_a_side_may_have_only_so_many_translations() -> None:
    # Case and punctuation make no other side.
    many = [(f"Bone{'!' * (number % 3)}", f"Bene {chr(97 + number) * 3}") for number in range(MAX_REPETITIONS + 3)]
    result = with_good_text(*many)
    assert [item.reason for item in result.left_out] == [Reason.REPEATED] * 3
    assert sum(bare_words(pair[0]) == "bone" for pair in result.train) == MAX_REPETITIONS


@pytest.mark.parametrize(
    ("line", "pairs"),
    [
        (("Unu du. Tri kvar!", "Uno due. Tre quattro!"), [("Unu du.", "Uno due."), ("Tri kvar!", "Tre quattro!")]),
        (("Unu du. Tri kvar!", "Uno due e tre quattro!"), None),
        # As many sentences, but the lengths say that they do not correspond.
        (
            ("Jes. Mi venos morgaŭ al la granda malnova domo.", "Sì verrò domani alla casa grande e vecchia. Ciao."),
            None,
        ),
    ],
)
def test_a_line_is_split_where_its_sentences_correspond(line: Pair, pairs: list[Pair] | None) -> None:
    assert split_pair(line, EO_IT, 1.0) == (pairs or [line])


def test_held_out_sets_share_no_side_with_any_other_set() -> None:
    pairs = sentences(900)
    # Other punctuation and case, and a second translation: not to be held out beside their twins in the training text.
    pairs += [(first.upper(), second.rstrip(".") + "!") for first, second in pairs[:200]]
    pairs += [(first, f"{second[:-1]} qui.") for first, second in pairs[200:400]]
    result = prepared(pairs, held_out=60)
    assert len(result.dev) == len(result.test) == 60
    for held_out, others in ((result.dev, result.test), (result.dev, result.train), (result.test, result.train)):
        assert unseen(held_out, others) == held_out


def test_the_same_text_gives_the_same_sets() -> None:
    first, other = prepared(sentences(400), held_out=30), prepared(sentences(400), held_out=30)
    assert (first.dev, first.test) == (other.dev, other.test)
    # The order of the lines does not matter; the sets keep it.
    turned = prepared(sentences(400)[::-1], held_out=30)
    assert (turned.dev[::-1], turned.test[::-1]) == (first.dev, first.test)


def test_more_held_out_pairs_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"\d+ of 150 pairs share no side .* held-out sets of 76; ask for fewer"):
        prepared(sentences(150), held_out=76)


def test_too_little_text_is_refused_with_what_was_left_out() -> None:
    with pytest.raises(DataError, match=r"99 pairs are left of 101 lines.*2: both sides have the same words"):
        prepared([*sentences(99), ("Tom", "Tom"), ("Roma", "Roma")])


def test_a_line_that_is_not_utf8_is_left_out_with_its_number() -> None:
    raw = [(first.encode(), second.encode()) for first, second in sentences(150)]
    raw[41] = (b"Bonan tagon.", "Città.".encode("latin-1"))
    result = prepare_text(raw, EO_IT, 5)
    (left_out,) = result.left_out
    assert (left_out.line, left_out.reason) == (42, Reason.NOT_UTF8)


def test_a_text_in_another_encoding_is_refused_with_the_remedy() -> None:
    raw = [(first.encode(), f"{second} Città".encode("latin-1")) for first, second in sentences(150)]
    with pytest.raises(DataError, match=r"150 of 150 lines are not UTF-8, line 1 first.*iconv"):
        prepare_text(raw, EO_IT)


def test_files_are_read_plain_and_packed(tmp_path: Path) -> None:
    (tmp_path / "a.eo.gz").write_bytes(gzip.compress("\ufeffUnu\r\nDu\r\n".encode()))
    (tmp_path / "a.it.xz").write_bytes(lzma.compress(b"Uno\nDue\n"))
    assert read_files(tmp_path / "a.eo", tmp_path / "a.it.xz") == [(b"Unu", b"Uno"), (b"Du", b"Due")]


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "utf16").write_bytes("Unu".encode("utf-16"))
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "some").write_text("Uno\n")
    with pytest.raises(DataError, match=r"is UTF-16.*iconv"):
        read_files(tmp_path / "utf16", tmp_path / "some")
    with pytest.raises(DataError, match="nothing is empty"):
        read_files(tmp_path / "nothing", tmp_path / "some")
    with pytest.raises(DataError, match=r"No text at .*nowhere"):
        read_files(tmp_path / "nowhere", tmp_path / "some")


def test_columns_of_a_table_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("1\tUnu\t7\tUno\n2\tDu\n", encoding="utf-8")
    assert read_table(tmp_path / "t.tsv", (4, 2)) == [(b"Uno", b"Unu"), None]
    with pytest.raises(DataError, match=r"No line of .* has 5 columns"):
        read_table(tmp_path / "t.tsv", (1, 5))
    result = prepare_text(
        [*read_table(tmp_path / "t.tsv", (2, 4)), *[(a.encode(), b.encode()) for a, b in sentences(150)]], EO_IT, 5
    )
    assert (result.left_out[0].line, result.left_out[0].reason) == (2, Reason.TOO_FEW_COLUMNS)
