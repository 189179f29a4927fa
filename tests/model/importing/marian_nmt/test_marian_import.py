"""Models of Marian, imported: the numbers of its formulas, the bytes of its int8 matrices, its vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from model.artifacts.bundle import Bundle, load_bundle
from model.artifacts.data_checks import check_data
from model.artifacts.data_form import build_model, weights_as_bytes, weights_of
from model.artifacts.format import DATA_FORMAT_VERSION
from model.artifacts.manifest import Precision
from model.decoding.options import DecodingOptions
from model.errors import ArtifactError
from model.importing.family import Overrides
from model.importing.importer import import_checkpoint
from model.importing.marian_nmt.checkpoint import read_checkpoint
from model.token_translator import TokenTranslator
from model.translator import Translator
from tests.model.importing.marian_nmt.files import (
    SYMBOLS,
    Shape,
    make_opus,
    make_student,
    npz,
    options_of,
    quantised,
)
from tests.model.importing.marian_nmt.formulas import logits as logits_by_formula

SHAPES = {
    "student": Shape(),
    "student with two vocabularies": Shape(tied="tied-embeddings"),
    "student with one decoder layer and two heads": Shape(decoder=1, heads=2, inner=80),
    "teacher": Shape(recurrent=False),
    "swish": Shape(recurrent=False, activation="swish"),
    "sources and targets share an embedding, the output is its own": Shape(tied="tied-embeddings-src"),
    "nothing is tied": Shape(recurrent=False, tied=""),
}
SENTENCES = ("The pharmacy is on the corner.", "Tom!", "Nobody knows why she did that, and when.")


def imported(folder: Path, precision: Precision = "float32", suffix: str = ".verso") -> Bundle:
    out = folder / f"bundle{suffix}"
    import_checkpoint(folder, out, precision, report=lambda line: None)
    return load_bundle(out)


@pytest.mark.parametrize("name", SHAPES)
def test_an_imported_model_computes_what_marian_does(tmp_path: Path, name: str) -> None:
    tensors = make_student(tmp_path, SHAPES[name], int8=False)
    bundle = imported(tmp_path)
    tokenizer = bundle.tokenizer
    for text in SENTENCES:
        source, target = tokenizer.encode(text, "de"), tokenizer.encode_target(text[::-1])[:-1]
        with torch.inference_mode():
            theirs, weights = logits_by_formula(tensors, SHAPES[name], source, target)
            inputs = torch.tensor([[tokenizer.start_id, *target]])
            ours = bundle.module.forward(torch.tensor([source]), inputs)[0]
            cross = bundle.module.attend(torch.tensor([source]), inputs)[2][0, -1]
        assert ours.numpy() == pytest.approx(theirs, abs=2e-4)
        assert cross.numpy() == pytest.approx(weights, abs=1e-4)


def test_a_greedy_answer_is_the_one_of_the_formulas(tmp_path: Path) -> None:
    tensors = make_student(tmp_path, int8=False)
    bundle = imported(tmp_path, suffix=".pt")
    translator = Translator(bundle)
    for text in SENTENCES:
        source = bundle.tokenizer.encode(text, "de")
        options = DecodingOptions(decoding="greedy", max_new_tokens=2 * len(source))
        answer = translator.translate_tokens([source], options)[0]
        expected: list[int] = []
        while len(expected) < 2 * len(source):
            row = logits_by_formula(tensors, Shape(), source, expected)[0][-1]
            row[1] = -np.inf  # the unknown token
            if row.argmax() == 0:
                break
            expected.append(int(row.argmax()))
        assert answer.token_ids == expected


@pytest.mark.parametrize("suffix", [".pt", ".verso"])
def test_int8_weights_are_the_bytes_of_the_file(tmp_path: Path, suffix: str) -> None:
    tensors = make_student(tmp_path)
    weights = weights_of(imported(tmp_path, "int8", suffix).module)
    for name, matrices in {
        "encoder.0.self_attention.query_key_value": ["encoder_l1_self_Wq", "encoder_l1_self_Wk", "encoder_l1_self_Wv"],
        "decoder.1.recurrent.forget": ["decoder_l2_rnn_Wf"],
        "decoder.1.recurrent.input": ["decoder_l2_rnn_W"],
        "decoder.0.cross_attention.key_value": ["decoder_l1_context_Wk", "decoder_l1_context_Wv"],
        "decoder.0.feed_forward.narrow": ["decoder_l1_ffn_W2"],
        "output": ["Wemb"],
    }.items():
        levels, scales = [], []
        for matrix in matrices:
            rows, multiplier = quantised(tensors[matrix])
            rows = rows if matrix == "Wemb" else rows.T
            levels.append(rows)
            scales.append(np.full(len(rows), np.float32(1) / multiplier))
        assert np.array_equal(weights[f"{name}.weight"].numpy(), np.concatenate(levels))
        assert np.array_equal(weights[f"{name}.scales"].numpy(), np.concatenate(scales))
    table, multiplier = quantised(tensors["Wemb"])
    expected = table.astype(np.float32) * (np.float32(1) / multiplier)
    assert np.array_equal(weights["source_embedding.tokens.weight"].numpy(), expected)


def test_a_table_that_is_the_int8_output_is_stored_once(tmp_path: Path) -> None:
    make_student(tmp_path)
    content = weights_as_bytes(imported(tmp_path, "int8").module)
    stored = safetensors.torch.load(content)
    assert "source_embedding.tokens.weight" not in stored
    architecture = load_bundle(tmp_path / "bundle.verso").manifest.architecture
    for name in ("output.weight", "output.scales"):
        for change in (stored[name].flatten()[:5], stored[name].flatten()[:0], stored[name].half()):
            damaged = safetensors.torch.save({**stored, name: change})
            with pytest.raises(ArtifactError, match=r"output|tokens"):
                build_model(architecture, "int8", -1, damaged)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16", "int8"])
def test_int8_and_float32_files_become_bundles_of_every_precision(tmp_path: Path, precision: Precision) -> None:
    for int8 in (True, False):
        folder = tmp_path / str(int8)
        make_student(folder, int8=int8)
        bundle = imported(folder, precision)
        assert bundle.manifest.precision == precision
        assert bundle.manifest.pairs == (("en", "de"),)
        assert (bundle.manifest.max_source_tokens, bundle.manifest.max_target_tokens) == (128, 512)


def test_a_float32_bundle_of_an_int8_file_has_its_dequantised_weights(tmp_path: Path) -> None:
    tensors = make_student(tmp_path)
    dequantised = {
        name: tensor
        if not (name[-3:-1] == "_W" or name.endswith("_W") or "Wemb" in name)
        else np.divide(*quantised(tensor), dtype=np.float32)
        for name, tensor in tensors.items()
    }
    bundle = imported(tmp_path)
    source = bundle.tokenizer.encode(SENTENCES[0], "de")
    theirs, _ = logits_by_formula(dequantised, Shape(), source, [5, 9, 300])
    with torch.inference_mode():
        ours = bundle.module.forward(torch.tensor([source]), torch.tensor([[0, 5, 9, 300]]))[0]
    assert ours.numpy() == pytest.approx(theirs, abs=2e-4)


def test_symbols_of_the_vocabulary_in_a_text_are_text(tmp_path: Path) -> None:
    make_student(tmp_path)
    tokenizer = imported(tmp_path, "int8").tokenizer
    for symbol in SYMBOLS:
        ids = tokenizer.encode(f"Read {symbol} and go.", "de")
        assert not set(tokenizer.pieces(ids)) & set(SYMBOLS)
        assert tokenizer.decode(ids) == f"Read {symbol} and go."


def test_characters_without_a_piece_are_encoded_as_bytes(tmp_path: Path) -> None:
    make_student(tmp_path)
    tokenizer = imported(tmp_path, "int8").tokenizer
    text = "Tom 😀 日本"
    assert 1 not in tokenizer.encode(text, "de")
    assert tokenizer.decode(tokenizer.encode(text, "de")) == text
    ids, spans = tokenizer.encode_with_offsets(text, "de")
    assert ids == tokenizer.encode(text, "de") and len(spans) == len(ids)


def test_the_unknown_token_is_never_generated(tmp_path: Path) -> None:
    tensors = make_student(tmp_path, int8=False)
    tensors["decoder_ff_logit_out_b"][0, 1] = 1e4
    size = tensors["Wemb"].shape[0]
    (tmp_path / "model.ende.npz").write_bytes(npz(tensors, options_of(Shape(), (size, size))))
    translator = Translator(imported(tmp_path))
    answer = translator.translate_tokens([[5, 6, 0]], DecodingOptions(decoding="greedy"))[0]
    assert answer.token_ids
    assert 1 not in answer.token_ids


@pytest.mark.parametrize("native", [True, False])
def test_the_first_head_of_the_last_layer_aligns(tmp_path: Path, native: bool) -> None:
    tensors = make_student(tmp_path, int8=False)
    bundle = imported(tmp_path)
    assert bundle.policy.alignment_head == 0
    backend = TokenTranslator(bundle, native=native).backend
    pairs = [(bundle.tokenizer.encode(text, "de"), bundle.tokenizer.encode_target(text)[:-1]) for text in SENTENCES]
    weights = backend.attention([source for source, _ in pairs], [[0, *target] for _, target in pairs])
    for (source, target), ours in zip(pairs, weights, strict=True):
        theirs = logits_by_formula(tensors, Shape(), source, target)[1][0]
        assert ours.numpy() == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize(("name", "head"), [("opus.transformer-align.model1.npz.best.npz", 0), ("teacher.npz", None)])
def test_a_model_that_was_not_trained_to_align_uses_all_heads(tmp_path: Path, name: str, head: int | None) -> None:
    make_opus(tmp_path)
    (tmp_path / "opus.transformer-align.model1.npz.best.npz").rename(tmp_path / name)
    checkpoint = read_checkpoint(tmp_path / name, Overrides((("en", "de"),)))
    assert checkpoint.family.policy.alignment_head == head


def test_a_bundle_whose_alignment_head_does_not_exist_is_refused(tmp_path: Path) -> None:
    make_student(tmp_path)
    bundle = imported(tmp_path, "int8")
    manifest = replace(bundle.manifest, decoding={**bundle.manifest.decoding, "alignment_head": 4})
    with pytest.raises(ArtifactError, match="alignment_head is 4; its decoder has 4 heads"):
        check_data(replace(manifest, format_version=DATA_FORMAT_VERSION), bundle.tokenizer)


def test_an_answer_does_not_depend_on_its_batch(tmp_path: Path) -> None:
    make_student(tmp_path)
    translator = Translator(imported(tmp_path, "int8"))
    sources = [translator.bundle.tokenizer.encode(text, "de") for text in SENTENCES]
    options = DecodingOptions(beam_size=3)
    alone = [translator.translate_tokens([source], options)[0] for source in sources]
    assert translator.translate_tokens(sources, options) == alone


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("model.ende.intgemm.alphas.bin", ("en", "de")),
        ("model.jaen.intgemm.alphas.bin", ("ja", "en")),
        ("model.hbsen.bin", ("sr-Latn", "en")),
    ],
)
def test_the_file_names_the_languages(tmp_path: Path, name: str, pair: tuple[str, str]) -> None:
    make_student(tmp_path)
    (tmp_path / "model.ende.intgemm.alphas.bin").rename(tmp_path / name)
    (tmp_path / "vocab.ende.spm").rename(tmp_path / "vocab.spm")
    assert imported(tmp_path, "int8").manifest.pairs == (pair,)


def test_files_without_languages_need_a_pair(tmp_path: Path) -> None:
    make_student(tmp_path)
    (tmp_path / "model.ende.intgemm.alphas.bin").rename(tmp_path / "model.final.bin")
    (tmp_path / "vocab.ende.spm").rename(tmp_path / "vocab.spm")
    with pytest.raises(ArtifactError, match="--pair fr-en"):
        imported(tmp_path, "int8")
    out = tmp_path / "bundle.pt"
    import_checkpoint(tmp_path, out, "int8", overrides=Overrides((("fr", "de"),)), report=lambda line: None)
    assert load_bundle(out).manifest.pairs == (("fr", "de"),)


def test_of_several_models_one_is_named(tmp_path: Path) -> None:
    make_student(tmp_path)
    make_student(tmp_path, int8=False)
    with pytest.raises(ArtifactError, match="contains several models"):
        imported(tmp_path)
    out = tmp_path / "bundle.pt"
    import_checkpoint(tmp_path / "model.ende.npz", out, "float32", report=lambda line: None)
    assert "model.ende.npz" in load_bundle(out).manifest.training["imported_from"]


@pytest.mark.parametrize("separate", [False, True])
def test_an_opus_model_takes_its_ids_from_vocab_yml(tmp_path: Path, separate: bool) -> None:
    tensors = make_opus(tmp_path, separate=separate)
    out = tmp_path / "bundle.verso"
    import_checkpoint(tmp_path, out, "float32", overrides=Overrides((("en", "de"),)), report=lambda line: None)
    bundle = load_bundle(out)
    assert bundle.policy.length_penalty == 0.6
    assert bundle.policy.beam_size == 6
    source = bundle.tokenizer.encode(SENTENCES[0], "de")
    shape = replace(Shape(recurrent=False, activation="swish"), tied="" if separate else "tied-embeddings-all")
    theirs, _ = logits_by_formula(tensors, shape, source, [7, 8])
    with torch.inference_mode():
        ours = bundle.module.forward(torch.tensor([source]), torch.tensor([[0, 7, 8]]))[0]
    assert ours.numpy() == pytest.approx(theirs, abs=2e-4)
    ids = bundle.tokenizer.encode_target("Tom trägt Kleidung.")
    assert bundle.tokenizer.decode(ids) == "Tom trägt Kleidung."


def test_language_tokens_of_an_opus_model_select_the_target(tmp_path: Path) -> None:
    make_opus(tmp_path, multilingual=True)
    out = tmp_path / "bundle.pt"
    pairs = (("en", "fr"), ("en", "de"))
    import_checkpoint(tmp_path, out, "float32", overrides=Overrides(pairs), report=lambda line: None)
    bundle = load_bundle(out)
    assert bundle.manifest.pairs == pairs
    assert bundle.tokenizer.pieces(bundle.tokenizer.encode("Tom", "fr"))[0] == ">>fra<<"
