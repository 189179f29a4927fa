"""Imported tokenizers compared with transformers, on difficult text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model.artifacts.bundle import read_tokenizer
from model.importing.importer import import_checkpoint
from model.text.tokenizer import Tokenizer
from tests.model.importing.checkpoints import HARD_TEXTS, quiet, sentences
from tests.model.importing.folders import Copy

TEXTS = [*HARD_TEXTS, *sentences(60, seed=9)]


def imported(folder: Path, out: Path) -> Tokenizer:
    import_checkpoint(folder, out, "float32", report=lambda line: None)
    _, tokenizer = read_tokenizer(out)
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer_of(originals: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tokenizer]:
    """The tokenizer of a family, which is imported once."""
    bundles = tmp_path_factory.mktemp("bundles")
    return functools.cache(lambda family: imported(originals[family], bundles / f"{family}.verso"))


def theirs(kind: str, folder: Path, **languages: str) -> Any:
    import transformers

    with quiet():
        return getattr(transformers, kind).from_pretrained(folder, **languages)


def has_language_token(text: str) -> bool:
    """Whether transformers takes the start of a text for a language token."""
    return text.startswith(">>") and "<<" in text


@pytest.fixture(scope="module", params=["marian", "separate", "multilingual"])
def marian(
    request: pytest.FixtureRequest, originals: dict[str, Path], tokenizer_of: Callable[[str], Tokenizer]
) -> tuple[Tokenizer, Any]:
    return tokenizer_of(request.param), theirs("MarianTokenizer", originals[request.param])


def test_marian_source_ids_are_those_of_transformers(marian: tuple[Tokenizer, Any]) -> None:
    ours, original = marian
    for text in TEXTS:
        if not has_language_token(text):
            assert ours.encode(text, "none") == original(text)["input_ids"], text


def test_marian_target_ids_and_texts_are_those_of_transformers(marian: tuple[Tokenizer, Any]) -> None:
    ours, original = marian
    for text in TEXTS:
        if has_language_token(text):
            continue  # a control token in transformers, text here
        ids = ours.encode_target(text)
        assert ids == original(text_target=text)["input_ids"], text
        assert ours.decode(ids) == original.decode(ids, skip_special_tokens=True), text
        assert ours.decode(ids[::-1]) == original.decode(ids[::-1], skip_special_tokens=True), text


def test_the_target_language_token_is_the_one_of_a_text_prefix(
    originals: dict[str, Path], tokenizer_of: Callable[[str], Tokenizer]
) -> None:
    ours, original = tokenizer_of("multilingual"), theirs("MarianTokenizer", originals["multilingual"])
    for text in TEXTS:
        if not has_language_token(text):
            assert ours.encode(text, "fr") == original(f">>fra<< {text}")["input_ids"], text
            assert ours.encode(text, "cmn-Hans") == original(f">>cmn_Hans<< {text}")["input_ids"], text


@pytest.mark.parametrize("text", [">>deu<< Hello", ">>deu<<Hello", ">>Hello, it is << here", ">>deu<<", "a >>deu<< b"])
def test_a_text_cannot_choose_the_target_language_and_nothing_of_it_is_lost(
    tokenizer_of: Callable[[str], Tokenizer], text: str
) -> None:
    ours = tokenizer_of("multilingual")
    ids, spans = ours.encode_with_offsets(text, "fr")
    assert ids == ours.encode(text, "fr")
    assert ours.pieces(ids[:1]) == [">>fra<<"]
    assert not any(piece.startswith(">>") and piece.endswith("<<") and len(piece) > 4 for piece in ours.pieces(ids[1:]))
    covered = {index for start, end in spans for index in range(start, end)}
    assert covered >= {index for index, character in enumerate(text) if not character.isspace()}


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "nllb, legacy"])
def test_m2m100_and_nllb_ids_and_texts_are_those_of_transformers(
    copy: Copy, tokenizer_of: Callable[[str], Tokenizer], kind: str
) -> None:
    folder = copy(kind.partition(",")[0])
    if kind == "nllb, legacy":
        config = folder / "tokenizer_config.json"
        config.write_text(config.read_text().replace('"legacy_behaviour": false', '"legacy_behaviour": true'))
        assert '"legacy_behaviour": true' in config.read_text()
        ours = imported(folder, folder / "bundle.verso")
    else:
        ours = tokenizer_of(kind)
    names = {"m2m100": ("M2M100Tokenizer", "de", "ru")}.get(kind, ("NllbTokenizer", "deu_Latn", "rus_Cyrl"))
    original = theirs(names[0], folder, src_lang=names[1], tgt_lang=names[2])
    for text in TEXTS:
        if "__de__" in text:
            continue  # language tokens in transformers, text here
        ids = ours.encode(text, "ru", "de")
        assert ids == original(text)["input_ids"], text
        assert ours.pieces(ids) == original.convert_ids_to_tokens(ids), text
        assert ours.decode(ids) == original.decode(ids, skip_special_tokens=True), text
        assert [*ours.forced_ids("ru"), *ours.encode_target(text)][1:-1] == [
            token for token in original(text)["input_ids"] if token not in original.all_special_ids or token == 3
        ], text


def test_special_tokens_in_a_text_stay_text(tokenizer_of: Callable[[str], Tokenizer]) -> None:
    ours = tokenizer_of("marian")
    ids = ours.encode("a </s> b <pad>", "de")
    assert ids.count(ours.end_id) == 1 and ids[-1] == ours.end_id
    assert ours.pad_id not in ids


@pytest.mark.parametrize("kind", ["multilingual", "m2m100", "nllb"])
def test_offsets_give_the_text_of_a_token(tokenizer_of: Callable[[str], Tokenizer], kind: str) -> None:
    ours = tokenizer_of(kind)
    target = "de" if kind == "multilingual" else "ru"
    for text in TEXTS:
        ids, spans = ours.encode_with_offsets(text, target, "de")
        assert ids == ours.encode(text, target, "de"), text
        assert len(spans) == len(ids)
        assert all(0 <= start <= end <= len(text) for start, end in spans), text
        for piece, (start, end) in zip(ours.pieces(ids), spans, strict=True):
            word = piece.lstrip("\u2581")
            if text.isascii() and word.isalpha():
                assert text[start:end] == word
        decoded, target_spans = ours.decode_with_offsets(ours.encode_target(text))
        assert decoded == ours.decode(ours.encode_target(text))
        assert all(0 <= start <= end <= len(decoded) for start, end in target_spans), text


@pytest.mark.slow
def test_clean_up_of_spaces_is_that_of_transformers(copy: Copy) -> None:
    folder = copy("nllb")
    config = folder / "tokenizer_config.json"
    config.write_text(
        config.read_text().replace('"clean_up_tokenization_spaces": false', '"clean_up_tokenization_spaces": true')
    )
    ours = imported(folder, folder / "bundle.verso")
    original = theirs("NllbTokenizer", folder, src_lang="deu_Latn")
    cleaned = 0
    for text in [*TEXTS, "a . b ? c ! d , e ' f do n't I 'm it 's we 've you 're . ' ' . .", " . ", " ' '"]:
        ids = ours.encode_target(text)
        decoded, spans = ours.decode_with_offsets(ids)
        assert decoded == original.decode(ids, skip_special_tokens=True), text
        assert all(0 <= start <= end <= len(decoded) for start, end in spans), text
        cleaned += decoded != original.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert cleaned
