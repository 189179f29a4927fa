"""The lexicon of the shipped translator: which entries are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.training.corpus import write_parallel
from scripts.shipped.command import LANGUAGES, start
from scripts.shipped.lexicon import add_arguments, run

CORPORA = {
    "dictionary": [
        ("skyscraper", "Wolkenkratzer"),
        ("house", "Haus"),
        ("lock", "Schloss"),
        ("castle", "Schloss"),
        ("newt", "Molch"),
        ("tram", "Tram"),
        ("neurotoxin", "Nervengift"),
    ],
    "titles": [("Dark Energy", "Dunkle Energie"), ("skyscraper", "Wolkenkratzer")],
    "news": [
        ("Two skyscrapers.", "Zwei Wolkenkratzer."),
        ("Newt Gingrich spoke.", "Newt Gingrich sprach."),
        ("A salamander.", "Ein Molch."),
        *[("A house.", "Ein Haus.")] * 3,
    ],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, pairs in CORPORA.items():
        write_parallel(tmp_path / "mix" / name, LANGUAGES, pairs)
    return tmp_path


def entries(data: Path, pair: str) -> list[str]:
    out = data / "lexicon.tsv"
    argv = ["--data", str(data), "--pair", pair, "--out", str(out), "--most", "2"]
    assert start("lexicon", __doc__, add_arguments, run, argv) == 0
    return [line.split("\t", 1)[1] for line in out.read_text(encoding="utf-8").splitlines()]


def test_entries_are_rare_have_one_translation_and_agree_with_the_text(data: Path) -> None:
    assert entries(data, "de-en") == [
        "Dunkle Energie\tDark Energy",
        "Nervengift\tneurotoxin",
        "Wolkenkratzer\tskyscraper",
    ], "Haus is frequent, Schloss has two translations, Molch another one in the text, Tram is the same word"


def test_words_match_in_any_inflection_of_the_text(data: Path) -> None:
    assert "skyscraper\tWolkenkratzer" in entries(data, "en-de")


def test_other_languages_are_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--data", str(data), "--pair", "de-fr", "--out", str(data / "x.tsv")]
    assert start("lexicon", __doc__, add_arguments, run, argv) == 1
    assert "de-fr" in capsys.readouterr().err
