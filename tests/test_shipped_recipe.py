"""How the text of the translator that ships is made (scripts/shipped/), with tiny texts and a toy model."""

from __future__ import annotations

import argparse
import lzma
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from model.errors import DataError
from model.process.files import file_digest
from model.text.tokenizer import VersoTokenizer
from model.training.corpus import Pair, read_lines, read_parallel, unseen, write_lines, write_parallel
from model.training.settings import CorpusSettings, TrainingSettings
from model.translator import Translator
from scripts.shipped import add_sets, back_translate, command, configuration, held_out, plausible, vocabulary
from scripts.shipped.plausible import Reason
from tests import toy

ROOT = Path(__file__).parents[1]
STAGES = ROOT / "configs" / "verso-en-de"
EN_DE = ("en", "de")


def toy_pairs(number: int, seed: int = 5) -> list[Pair]:
    """Different sentences of at least three words in the toy language."""
    rng = random.Random(seed)
    pairs: dict[Pair, None] = {}
    while len(pairs) < number:
        pair = toy.sentence(rng)
        if len(pair[0].split()) >= 3:
            pairs[pair] = None
    return list(pairs)


def start(run: Callable[[argparse.Namespace], int], add: Callable[[argparse.ArgumentParser], None], *argv: str) -> int:
    return command.start("test", None, add, run, argv)


# Held-out sets


def test_no_side_of_a_held_out_pair_stays_in_the_training_text() -> None:
    pairs = toy_pairs(60)
    # The same English with another translation, in capitals and without its full stop.
    again = [(first.upper().rstrip("."), "anders") for first, _ in pairs]
    dev, rest = held_out.hold_out(
        {"one": pairs[:30], "two": pairs[30:], "three": again}, {"kind": {"one": 5, "two": 4}}
    )
    assert len(dev["kind"]) == 9
    assert [len(rest[name]) for name in ("one", "two")] == [25, 26]
    long = [pair for pair in dev["kind"] if min(len(side.split()) for side in pair) > 3]
    assert long
    assert all(unseen(long, remaining) == long for remaining in rest.values())


def test_held_out_pairs_share_no_side_and_are_fit_to_test_with() -> None:
    good = [("One two three.", "Eins zwei drei."), ("Four five six.", "Vier fünf sechs.")]
    unfit = [
        ("Two words.", "Nur zwei Worte."),
        ("One two three.", "Eins und zwei und drei."),
        (" ".join(["long"] * 61), " ".join(["lang"] * 61)),
        ("Only three words.", "Hier stehen viel mehr Worte als auf der englischen Seite des Paares."),
    ]
    chosen = held_out.choose([*unfit, *good], 10)
    assert len(chosen) == 2
    assert good[1] in chosen
    assert (good[0] in chosen) != (unfit[1] in chosen)


def test_tokenised_corpora_are_detokenised_and_lose_fragments(tmp_path: Path) -> None:
    write_parallel(tmp_path / "wiki", EN_DE, [("It 's old .", "Es ist alt ."), ("of the house .", "Des Hauses .")])
    assert held_out.read_corpus(tmp_path / "wiki", tokenised=True) == [("It's old.", "Es ist alt.")]
    assert len(held_out.read_corpus(tmp_path / "wiki", tokenised=False)) == 2


def test_other_development_sets_than_the_listed_ones_are_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "dev" / "game.en", ["Hello."])
    write_lines(tmp_path / "list", [f"{file_digest(tmp_path / 'dev' / 'game.en')}  game.en"])
    held_out.check(tmp_path / "dev", tmp_path / "list")
    write_lines(tmp_path / "dev" / "game.en", ["Goodbye."])
    with pytest.raises(DataError, match=r"game\.en"):
        held_out.check(tmp_path / "dev", tmp_path / "list")


def test_every_development_set_has_a_committed_checksum() -> None:
    listed = [line.split()[1] for line in read_lines(STAGES / "held-out.sha256")]
    assert sorted(listed) == sorted(f"{kind}.{language}" for kind in held_out.KINDS for language in EN_DE)


# Filters of back-translated text


@pytest.mark.parametrize(
    ("natural", "synthetic", "reason"),
    [
        ("The red cat sees a house.", "Die rote Katze sieht ein Haus.", None),
        ("Tom!", "Tom!", None),
        ("No, no, no, I said.", "Nein, nein, das sagte ich.", None),
        ("Wait ...", "...", Reason.EMPTY),
        ("word " * 61, "Wort " * 61, Reason.TOO_LONG),
        ("A house.", "Ein Haus mit einem Garten und sehr vielen Bäumen.", Reason.LENGTH_RATIO),
        ("Please open the settings menu.", "Please open the settings Menü.", Reason.COPY),
        ("He runs very fast today.", "Er läuft sehr sehr sehr schnell.", Reason.LOOP),
        (
            "I saw the man there, then his wife and the old dog.",
            "Ich sah ihn dort, ich sah ihn dort, ich sah ihn.",
            Reason.LOOP,
        ),
        ("What is that?", "Was ist das" + "?" * 20, Reason.LOOP),
        ("He likes crème brûlée.", "Er mag Cr\ufffdme Brulee.", Reason.UNKNOWN),
        ("He likes noodles.", "Er mag \u2047 Nudeln.", Reason.UNKNOWN),
    ],
)
def test_faults_of_back_translations(natural: str, synthetic: str, reason: Reason | None) -> None:
    assert plausible.fault(natural, synthetic) is reason


def test_held_out_sentences_and_repetitions_are_no_training_text() -> None:
    stored, left_out = back_translate.plausible_pairs(
        ["The cat.", "The cat.", "The dog."], ["Die Katze.", "Eine Katze.", "Der Hund."], {"the dog"}
    )
    assert stored == [("The cat.", "Die Katze.")]
    assert left_out == {Reason.REPEATED: 1, Reason.HELD_OUT: 1}


def test_a_round_trip_keeps_what_comes_back_similar() -> None:
    pairs = [("The red cat.", "Die rote Katze."), ("The old dog.", "Ein Baum.")]
    assert back_translate.survive_round_trip(pairs, ["The red cat!", "A tree."], 50) == pairs[:1]


# Back-translation


class CountingTranslator(Translator):
    """Counts the texts of all instances."""

    num_texts = 0

    def translate(self, texts: Sequence[str], *more: object, **named: object) -> list[object]:  # type: ignore[override]
        CountingTranslator.num_texts += len(texts)
        return super().translate(texts, *more, **named)  # type: ignore[arg-type,return-value]


def test_an_interrupted_back_translation_goes_on(
    toy_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(back_translate, "load_translator", lambda arguments: CountingTranslator.load(arguments.model))
    monkeypatch.setattr(CountingTranslator, "num_texts", 0)
    pairs = toy_pairs(30)
    write_lines(tmp_path / "mono" / "toy.en", [first for first, _ in pairs])
    write_parallel(tmp_path / "dev" / "held", EN_DE, pairs[:2])
    out = tmp_path / "bt" / "toy-en"
    arguments = ["--text", str(tmp_path / "mono" / "toy.en"), "--to", "de", "--out", str(out)]
    arguments += ["--held-out", str(tmp_path / "dev"), "--model", str(toy_bundle)]

    assert start(back_translate.run, back_translate.add_arguments, *arguments) == 0
    first = read_parallel(out, EN_DE)
    assert CountingTranslator.num_texts == 30
    assert first
    assert set(first) <= set(pairs[2:])  # the toy translates its sentences without mistakes
    assert f"{len(first)} of 30 sentences" in capsys.readouterr().out

    # Interrupted within the eleventh line.
    (raw,) = (tmp_path / "bt" / "raw").iterdir()
    full = raw.read_bytes()
    lines = full.splitlines(keepends=True)
    raw.write_bytes(b"".join(lines[:10]) + lines[10][:4])
    assert start(back_translate.run, back_translate.add_arguments, *arguments) == 0
    assert CountingTranslator.num_texts == 30 + 20
    assert raw.read_bytes() == full
    assert read_parallel(out, EN_DE) == first

    # Another text has files of its own; the round trip translates the plausible pairs back.
    arguments += ["--sentences", "9", "--round-trip", "99"]
    assert start(back_translate.run, back_translate.add_arguments, *arguments) == 0
    assert raw.read_bytes() == full
    again = read_parallel(out, EN_DE)
    assert again
    assert set(again) <= set(first)


# Vocabulary


def test_the_vocabulary_has_the_required_characters_that_are_learned_and_words_of_the_further_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.write_corpus(tmp_path, "train", 200, seed=1)
    pairs = read_parallel(tmp_path / "train", EN_DE)
    write_parallel(tmp_path / "train", EN_DE, [*pairs, *[("€ é", "€ é")] * 3])
    monkeypatch.setattr(vocabulary, "LEAST_FREQUENT", 5)
    write_lines(tmp_path / "mono" / "wikipedia.de", ["Zugspitze Alpen Wetterstein"] * 200)
    monkeypatch.setattr(vocabulary, "MORE_SENTENCES", {"mono/wikipedia.de": 150})
    values = {**yaml.safe_load(toy.CONFIG), "vocab_size": 370, "normalisation": "nfc", "reserve_symbols": True}
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    models = []
    for name in ("one.model", "two.model"):
        arguments = ["--config", str(tmp_path / "toy.yaml"), "--data", str(tmp_path), "--out", str(tmp_path / name)]
        assert start(vocabulary.run, vocabulary.add_arguments, *arguments) == 0
        models.append((tmp_path / name).read_bytes())
    assert models[0] == models[1]
    tokenizer = VersoTokenizer.load(tmp_path / "one.model")
    for character, is_learned in {"€": True, "é": True, ".": True, "ź": False, "=": False, "{": False}.items():
        assert tokenizer.decode(tokenizer.encode_target(character)) == character
        assert set(tokenizer.encode_target(character)).isdisjoint(tokenizer.byte_ids) == is_learned, character
        assert (character in tokenizer.known_characters) == is_learned, character
    assert len(tokenizer.encode_target("Wetterstein")) == 2  # one piece and the end token


# Configurations


OWN_SETS = add_sets.names(ROOT / "data" / "written") + add_sets.names(ROOT / "data" / "translated")


@pytest.mark.parametrize("name", ["general", "continued", "focused", "cooldown", "phrases", "phrases-and-chat", "long"])
def test_the_configurations_use_what_the_scripts_write(name: str) -> None:
    settings = TrainingSettings.load(STAGES / f"{name}.yaml")
    script = (ROOT / "scripts" / "train_shipped.sh").read_text(encoding="utf-8")
    held = set(held_out.CORPORA)
    mixed = set[str]()
    for corpus in settings.train:
        assert isinstance(corpus, CorpusSettings)
        folder, _, base = corpus.path.partition("/")
        if folder in ("bt1", "bt2", "bt3"):
            text, _, language = base.rpartition("-")
            assert f"{folder} " in script
            assert text in script
            # The target was written by people.
            assert (corpus.direction, corpus.tag) == (f"{'de' if language == 'en' else 'en'}-{language}", "<bt>")
        else:
            assert base not in mixed
            mixed.add(base)
            assert folder in ("mix", "best")
            assert corpus.direction is None
    own_dev: set[str] = set()
    if name in ("general", "continued"):
        assert mixed == held
    else:
        assert mixed <= held | {*add_sets.OTHERS, *OWN_SETS}
        own_dev = set(add_sets.names(ROOT / "data" / "dev"))
    assert isinstance(settings.dev, tuple)
    assert {path for path in settings.dev if path.startswith("dev/")} == {
        f"dev/{kind}" for kind in {*held_out.KINDS, *own_dev}
    }


# Corpora that the folder lacks


def test_a_configuration_leaves_out_absent_corpora(tmp_path: Path) -> None:
    (tmp_path / "absent.txt").write_text("books: hard\nhistory: hard\nchromium: gone\n")
    for name in ("continued", "phrases-and-chat"):
        arguments = ["--data", str(tmp_path), "--config", str(STAGES / f"{name}.yaml"), "--out", str(tmp_path / "out")]
        assert start(configuration.run, configuration.add_arguments, *arguments) == 0
        before, after = (TrainingSettings.load(path) for path in (STAGES / f"{name}.yaml", tmp_path / "out"))
        kept = {corpus.path if isinstance(corpus, CorpusSettings) else corpus for corpus in after.train}
        gone = {corpus.path if isinstance(corpus, CorpusSettings) else corpus for corpus in before.train} - kept
        assert {path.partition("/")[2] for path in gone} <= {"books", "history", "chromium"}
        assert len(gone) >= 2
        assert set(before.dev) - set(after.dev) == {"dev/fiction", "dev/history"}


def test_a_configuration_is_copied_where_nothing_is_absent(tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path), "--config", str(STAGES / "general.yaml"), "--out", str(tmp_path / "out")]
    assert start(configuration.run, configuration.add_arguments, *arguments) == 0
    assert (tmp_path / "out").read_bytes() == (STAGES / "general.yaml").read_bytes()


def test_development_sets_are_cut_out_of_the_corpora_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "absent.txt").write_text("books: hard\nhistory: hard\npud: gone\n")
    for name in set(held_out.CORPORA):
        if name not in ("books", "history", "pud"):
            write_xz(tmp_path / "train" / name, toy_pairs(5, seed=len(name)))
    arguments = ["--data", str(tmp_path), "--out", str(tmp_path / "out")]
    assert start(held_out.run, held_out.add_arguments, *arguments) == 0
    dev = tmp_path / "out" / "dev"
    assert {path.stem for path in dev.iterdir()} == held_out.KINDS.keys() - {"fiction", "history"}
    assert "encyclopaedia-news, fiction, history" in capsys.readouterr().out
    # Sets that lack a corpus are not compared with the list.
    complete = sorted(path for path in dev.iterdir() if path.stem != "encyclopaedia-news")
    write_lines(tmp_path / "list", [f"{file_digest(path)}  {path.name}" for path in complete])
    assert start(held_out.run, held_out.add_arguments, *arguments, "--checksums", str(tmp_path / "list")) == 0
    write_lines(tmp_path / "list", [f"{'0' * 64}  {path.name}" for path in complete])
    assert start(held_out.run, held_out.add_arguments, *arguments, "--checksums", str(tmp_path / "list")) == 1


# Newer sets


def write_xz(base: Path, pairs: list[Pair]) -> None:
    base.parent.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(EN_DE):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        base.with_name(f"{base.name}.{language}.xz").write_bytes(lzma.compress(lines.encode()))


def test_newer_sets_are_added_without_held_out_sentences(tmp_path: Path) -> None:
    good, short = ("Nobody tests this sentence.", "Diesen Satz prüft niemand."), ("Hello world!", "Hallo Welt!")
    dev, test = ("This is the dev set.", "Das ist anders."), ("A sentence of the test.", "Ein Satz des Tests.")
    everyday = next(pair for pair in add_sets.everyday_pairs(add_sets.EVERYDAY) if len(pair[0].split()) > 3)
    data, own, out = tmp_path / "data", tmp_path / "own", tmp_path / "out"
    write_xz(own / "dev" / "written", [dev, short])
    write_xz(data / "eval" / "test", [test, short])
    write_xz(own / "written" / "basics", [good, good, short, (dev[0].upper(), "neu"), ("new", test[1]), everyday])
    write_xz(own / "translated" / "forward-de", [good])
    (data / "absent.txt").write_text("chromium: gone\n")
    for name in {*add_sets.OTHERS} - {"chromium"}:
        write_xz(data / "train" / name, [good])
    arguments = ["--data", str(data), "--own", str(own), "--out", str(out)]
    assert start(add_sets.run, add_sets.add_arguments, *arguments) == 0
    assert read_parallel(out / "mix" / "basics", EN_DE) == [good, short]
    assert read_parallel(out / "mix" / "forward-de", EN_DE) == [good]
    assert read_parallel(out / "dev" / "written", EN_DE) == [dev, short]
