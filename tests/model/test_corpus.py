"""Reading corpora: plain or compressed, and the errors of damaged ones."""

from __future__ import annotations

import gzip
import lzma
import random
from pathlib import Path
from typing import Any

import pytest

from model.errors import DataError
from model.text.symbols import BACK_TRANSLATED
from model.training.corpus import (
    Pair,
    detokenise,
    find_text,
    load_dev_pairs,
    load_training_pairs,
    read_lines,
    read_parallel,
    spread,
    unseen,
)
from model.training.settings import CorpusSettings

NOISE = gzip.compress(b"".join(random.Random(0).randbytes(20).hex().encode() + b"\n" for _ in range(200)), mtime=0)


def write(folder: Path, base: str, english: str, german: str) -> None:
    (folder / f"{base}.en").write_text(english, encoding="utf-8")
    (folder / f"{base}.de").write_text(german, encoding="utf-8")


def pairs_of(folder: Path, **cleaning: Any) -> tuple[list[tuple[str, str]], dict[str, int]]:
    (corpus,), left_out = load_training_pairs(folder, [CorpusSettings("x", **cleaning)], ("en", "de"))
    return corpus.pairs, left_out


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_plain_and_compressed_text_give_equal_lines(ending: str, tmp_path: Path) -> None:
    text = "one\r\ntwo \u2028 still two\n\nM\u00fcnchen \U0001f600".encode()
    packed = {"": text, ".gz": gzip.compress(text), ".xz": lzma.compress(text)}[ending]
    (tmp_path / f"x.en{ending}").write_bytes(packed)
    assert read_lines(tmp_path / "x.en") == ["one", "two \u2028 still two", "", "M\u00fcnchen \U0001f600"]
    assert find_text(tmp_path / "x.en").name == f"x.en{ending}"


def test_plain_text_is_preferred_to_a_compressed_copy(tmp_path: Path) -> None:
    (tmp_path / "x.en.gz").write_bytes(gzip.compress(b"old"))
    (tmp_path / "x.en").write_text("new")
    assert read_lines(tmp_path / "x.en") == ["new"]


@pytest.mark.parametrize("content", [b"", b"\n", b"\n  \n\t\n"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_text_without_words_is_refused(content: bytes, ending: str, tmp_path: Path) -> None:
    (tmp_path / f"x.en{ending}").write_bytes(gzip.compress(content) if ending else content)
    with pytest.raises(DataError, match=r"x\.en.* is empty"):
        read_lines(tmp_path / "x.en")


@pytest.mark.parametrize("lines_before", [0, 1, 700])
def test_a_line_that_is_not_utf8_is_named_with_its_byte_and_the_remedy(lines_before: int, tmp_path: Path) -> None:
    (tmp_path / "x.de").write_bytes("gut\u00f6\n".encode() * lines_before + "M\u00fcnchen\n".encode("latin-1"))
    with pytest.raises(DataError, match=rf"line {lines_before + 1} has byte 0xfc.*iconv -f latin1"):
        read_lines(tmp_path / "x.de")


def test_a_missing_text_is_refused_with_every_name_that_was_tried(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No text at .*x\.en \(nor with \.gz or \.xz\); check the path"):
        read_lines(tmp_path / "x.en")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.en.gz", b"no gzip at all"),
        ("x.en.gz", NOISE[:-30]),
        ("x.en.gz", gzip.compress(b"word\n" * 100, mtime=0)[:12]),
        ("x.en.xz", b"no xz at all"),
        ("x.en.xz", lzma.compress(b"word\n" * 100)[:-10]),
    ],
)
def test_a_damaged_archive_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} cannot be read or unpacked"):
        read_lines(tmp_path / "x.en")


@pytest.mark.parametrize("position", range(12, len(NOISE) - 8, 97))
def test_an_archive_with_one_wrong_byte_is_refused_at_any_position(position: int, tmp_path: Path) -> None:
    # zlib, gzip and the checksum raise different errors for this.
    damaged = bytearray(NOISE)
    damaged[position] ^= 0x55
    (tmp_path / "x.en.gz").write_bytes(damaged)
    with pytest.raises(DataError, match="cannot be read or unpacked"):
        read_lines(tmp_path / "x.en")


def test_two_files_are_paired_line_by_line(tmp_path: Path) -> None:
    write(tmp_path, "x.v2", "a\nb\n", "A\nB")
    assert read_parallel(tmp_path / "x.v2", ("en", "de")) == [("a", "A"), ("b", "B")]
    assert read_parallel(tmp_path / "x.v2", ("de", "en")) == [("A", "a"), ("B", "b")]


def test_files_that_do_not_line_up_are_refused_with_both_lengths(tmp_path: Path) -> None:
    write(tmp_path, "x", "a\nb\n", "A\n")
    with pytest.raises(DataError, match="does not line up: 2 lines of en and 1 of de"):
        read_parallel(tmp_path / "x", ("en", "de"))


def test_an_empty_line_in_the_middle_keeps_the_lines_aligned(tmp_path: Path) -> None:
    write(tmp_path, "x", "a\n\nc\n", "A\nB\nC\n")
    assert read_parallel(tmp_path / "x", ("en", "de")) == [("a", "A"), ("", "B"), ("c", "C")]


@pytest.mark.parametrize(
    ("spaced", "clean"),
    [
        ("It 's , well ( so to say ) 5 % .", "It's, well (so to say) 5%."),
        ("I 'm here ; they 've left .", "I'm here; they've left."),
        ('He said : " yes " !', 'He said: "yes"!'),
        ("a well @-@ known man", "a well-known man"),
        ("\u201c Yes \u201d , he said \u2026", "\u201cYes\u201d, he said\u2026"),
        ("already clean, isn't it?", "already clean, isn't it?"),
    ],
)
def test_spaces_of_a_tokeniser_are_removed(spaced: str, clean: str) -> None:
    assert detokenise(spaced) == clean


def test_pairs_are_trimmed_and_duplicate_and_empty_ones_are_dropped(tmp_path: Path) -> None:
    write(tmp_path, "x", " Yes. \nYes.\n\nNo.\nYes.\n", "Ja.\nJa.\nLeer.\nNein.\nDoch.\n")
    pairs, left_out = pairs_of(tmp_path)
    assert pairs == [("Yes.", "Ja."), ("No.", "Nein."), ("Yes.", "Doch.")]
    assert left_out == {"empty": 1, "duplicate": 1, "fragment": 0, "lopsided": 0}


def test_a_pair_is_unequal_beyond_three_times_the_length_and_twenty_more(tmp_path: Path) -> None:
    write(tmp_path, "x", "ab\nab\n", "c" * 26 + "\n" + "c" * 27 + "\n")
    pairs, left_out = pairs_of(tmp_path)
    assert pairs == [("ab", "c" * 26)]
    assert left_out["lopsided"] == 1


def test_fragments_are_dropped_if_the_corpus_is_configured_so(tmp_path: Path) -> None:
    write(tmp_path, "x", "Whole one.\nof a thing\n1990 was good.\n", "Ganzer Satz.\nEiner Sache\n1990 war gut.\n")
    assert len(pairs_of(tmp_path)[0]) == 3
    pairs, left_out = pairs_of(tmp_path, whole_sentences_only=True)
    assert [english for english, _ in pairs] == ["Whole one.", "1990 was good."]
    assert left_out["fragment"] == 1


def test_duplicates_are_found_across_corpora(tmp_path: Path) -> None:
    write(tmp_path, "x", "Yes.\n", "Ja.\n")
    write(tmp_path, "y", "Yes.\nNo.\n", "Ja.\nNein.\n")
    corpora, left_out = load_training_pairs(tmp_path, [CorpusSettings("x"), CorpusSettings("y")], ("en", "de"))
    assert [corpus.pairs for corpus in corpora] == [[("Yes.", "Ja.")], [("No.", "Nein.")]]
    assert left_out["duplicate"] == 1


def test_a_corpus_empty_after_cleaning_is_refused_with_the_reasons(tmp_path: Path) -> None:
    write(tmp_path, "x", "a\n\n", "\nb\n")
    with pytest.raises(DataError, match=r"No training pair is left.*'empty': 2"):
        pairs_of(tmp_path)


def test_held_out_text_is_read(tmp_path: Path) -> None:
    write(tmp_path, "x", "Yes.\n", "Ja.\n")
    assert load_dev_pairs(tmp_path, ["x"], ("en", "de")) == {"x": [("Yes.", "Ja.")]}


def test_several_held_out_texts_keep_their_names(tmp_path: Path) -> None:
    write(tmp_path, "x", "Yes.\n", "Ja.\n")
    write(tmp_path, "y", "No.\n", "Nein.\n")
    held_out = load_dev_pairs(tmp_path, ["x", "y"], ("en", "de"))
    assert held_out == {"x": [("Yes.", "Ja.")], "y": [("No.", "Nein.")]}


def test_back_translated_text_is_used_only_towards_its_original_side(tmp_path: Path) -> None:
    write(tmp_path, "x", "Yes.\n", "Ja.\n")
    write(tmp_path, "y", "No.\n", "Nein.\n")
    settings = [CorpusSettings("x"), CorpusSettings("y", direction="en-de", tag=BACK_TRANSLATED, weight=0.5)]
    both, one_way = load_training_pairs(tmp_path, settings, ("en", "de"))[0]
    assert list(both.natural_sides(("en", "de"))) == ["Yes.", "Ja."]
    assert list(one_way.natural_sides(("en", "de"))) == ["Nein."]
    assert (one_way.direction, one_way.tag, one_way.weight) == (("en", "de"), "<bt>", 0.5)


def test_a_sample_of_a_large_corpus_can_be_drawn(tmp_path: Path) -> None:
    for language in ("en", "de"):
        (tmp_path / f"many.{language}").write_text("".join(f"{language} {number}\n" for number in range(100)))

    def drawn(number: int) -> list[Pair]:
        return load_training_pairs(tmp_path, [CorpusSettings("many", sentences=number)], ("en", "de"))[0][0].pairs

    assert len(drawn(10)) == 10
    assert drawn(10) == drawn(10)
    assert drawn(10) != [(f"en {number}", f"de {number}") for number in range(10)]
    assert all(english[3:] == german[3:] for english, german in drawn(10))
    assert len(drawn(1000)) == 100


def test_a_pair_is_unseen_if_neither_side_is_in_the_text() -> None:
    existing = [("Good morning!", "Guten Morgen!"), ("Yes.", "Ja.")]
    pairs = [("good morning", "Moin"), ("Morning", "guten morgen."), ("Ja", "Yes"), ("Good", "Gut")]
    assert unseen(pairs, existing) == [("Ja", "Yes"), ("Good", "Gut")]
    assert unseen(pairs, []) == pairs


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1, [0]), (2, [0, 5]), (4, [0, 2, 5, 7]), (10, list(range(10))), (11, list(range(10)))],
)
def test_a_sample_of_a_sorted_text_covers_all_of_it(number: int, expected: list[int]) -> None:
    pairs = [(str(position), str(position)) for position in range(10)]
    assert spread(pairs, number) == [pairs[position] for position in expected]
