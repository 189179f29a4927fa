"""Imported bundles: which tensors are used, from which files, in which precisions, and the manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from model.__main__ import main
from model.artifacts.bundle import Bundle, load_bundle, read_manifest
from model.artifacts.manifest import Manifest, Precision
from model.importing.family import Overrides
from model.importing.importer import import_checkpoint
from model.network.embeddings import position_table
from model.network.quantised import int8_is_supported
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.importing.checkpoints import quiet, sentences
from tests.model.importing.folders import Copy, edit, edit_tensors

ONE_TABLE = [
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
]
POSITIONS = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]

precisions = pytest.mark.parametrize(
    "precision",
    [
        "float32",
        "bfloat16",
        "float16",
        pytest.param("int8", marks=pytest.mark.skipif(not int8_is_supported(), reason="no int8 kernels here")),
    ],
)


def imported(folder: Path, precision: Precision = "float32", overrides: Overrides = Overrides()) -> Bundle:  # noqa: B008
    """Import a folder and load the bundle, in data form: TorchScript takes a second longer."""
    out = folder / f"{precision}.verso"
    import_checkpoint(folder, out, precision, overrides=overrides, report=lambda line: None)
    return load_bundle(out)


def their_model(folder: Path, kind: str = "MarianMTModel", **options: Any) -> Any:
    """The same folder in transformers, in float32."""
    import transformers

    with quiet():
        return getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32, **options).eval()


def probe() -> tuple[Tensor, Tensor]:
    """Sources without padding and targets, with tokens of every family."""
    generator = torch.Generator().manual_seed(5)
    return torch.randint(4, 150, (6, 9), generator=generator), torch.randint(4, 150, (6, 7), generator=generator)


def logits(bundle: Bundle) -> Tensor:
    with torch.inference_mode():
        result: Tensor = bundle.module.forward(*probe()).float()
    return result


def their_logits(model: Any) -> Tensor:
    source, target = probe()
    with torch.inference_mode():
        expected: Tensor = model(input_ids=source, decoder_input_ids=target).logits
    return expected


def assert_same(actual: Tensor, expected: Tensor) -> None:
    assert float(expected.std()) > 0.5
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0.0)


def num_parameters(bundle: Bundle) -> int:
    """The number of parameters in memory; a shared table counts once."""
    tables = {parameter.data_ptr(): parameter.numel() for parameter in bundle.module.parameters()}
    return sum(tables.values())


# --- which tensors are used


@pytest.mark.parametrize("family", ["marian", "m2m100"])
def test_a_separate_output_projection_is_used_even_if_the_configuration_says_tied(copy: Copy, family: str) -> None:
    folder = copy(family)
    own = torch.randn(load_file(folder / "model.safetensors")["model.shared.weight"].shape) * 0.2
    edit_tensors(folder, lambda tensors: tensors.update({"lm_head.weight": own}))
    assert json.loads((folder / "config.json").read_text()).get("tie_word_embeddings", True)
    ours = imported(folder)
    assert ours.manifest.architecture["tie_output"] is False
    assert ours.manifest.architecture["share_embeddings"] is True
    theirs = their_model(folder, "MarianMTModel" if family == "marian" else "M2M100ForConditionalGeneration")
    theirs.lm_head.weight = torch.nn.Parameter(own)  # transformers tied it, as configured
    assert_same(logits(ours), their_logits(theirs))


@pytest.mark.parametrize("says_tied", [True, False])
def test_equal_copies_of_an_embedding_are_one_table(copy: Copy, says_tied: bool) -> None:
    folder = copy("marian")
    tied = imported(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors.update({name: tensors["model.shared.weight"].clone() for name in ONE_TABLE})
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    edit(folder / "config.json", tie_word_embeddings=says_tied)
    ours = imported(folder)
    assert ours.manifest.architecture["tie_output"] is True
    assert ours.manifest.architecture["share_embeddings"] is True
    assert num_parameters(ours) == num_parameters(tied)
    assert torch.equal(logits(ours), logits(tied))


def test_without_an_output_projection_the_embedding_is_used_whatever_the_configuration_says(
    copy: Copy,
) -> None:
    folder = copy("marian")
    tied = imported(folder)
    edit(folder / "config.json", tie_word_embeddings=False)
    ours = imported(folder)
    assert ours.manifest.architecture["tie_output"] is True
    assert torch.equal(logits(ours), logits(tied))


def test_embeddings_that_differ_in_one_number_are_two_tables(copy: Copy) -> None:
    folder = copy("marian")
    tied = imported(folder)

    def change(tensors: dict[str, Tensor]) -> None:
        other = tensors["model.shared.weight"].clone()
        other[100, 3] += 0.5
        tensors["model.encoder.embed_tokens.weight"] = other

    edit_tensors(folder, change)
    ours = imported(folder)
    assert ours.manifest.architecture["share_embeddings"] is False
    assert num_parameters(ours) == num_parameters(tied) + 165 * 32


@pytest.mark.parametrize("names", [POSITIONS, POSITIONS[:1], POSITIONS[1:]], ids=["both", "encoder's", "decoder's"])
def test_stored_positions_are_used(copy: Copy, names: list[str]) -> None:
    folder = copy("marian")
    table = torch.randn(400, 32)
    edit_tensors(folder, lambda tensors: tensors.update({name: table.clone() for name in names}))
    ours = imported(folder)
    assert ours.manifest.architecture["positions"] == "learned"
    assert_same(logits(ours), their_logits(their_model(folder)))


def test_stored_positions_equal_to_the_formula_change_nothing(copy: Copy) -> None:
    folder = copy("marian")
    expected = logits(imported(folder))
    formula = position_table("halves", 400, 32)
    edit_tensors(folder, lambda tensors: tensors.update({name: formula.clone() for name in POSITIONS}))
    ours = imported(folder)
    assert ours.manifest.architecture["positions"] == "halves"
    assert torch.equal(logits(ours), expected)


def test_stored_positions_of_m2m100_begin_after_the_padding_row(copy: Copy) -> None:
    folder = copy("m2m100")
    table = torch.randn(402, 32)
    name = "model.encoder.embed_positions.weights"
    edit_tensors(folder, lambda tensors: tensors.update({name: table}))
    theirs = their_model(folder, "M2M100ForConditionalGeneration")
    theirs.model.encoder.embed_positions.weights = table  # otherwise transformers would compute it
    assert_same(logits(imported(folder)), their_logits(theirs))


def test_a_missing_output_bias_is_zero(copy: Copy) -> None:
    folder = copy("marian")

    def zero(tensors: dict[str, Tensor]) -> None:
        tensors["final_logits_bias"].zero_()

    edit_tensors(folder, zero)
    expected = logits(imported(folder))
    edit_tensors(folder, lambda tensors: tensors.__delitem__("final_logits_bias"))
    actual = logits(imported(folder))
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0.0)
    assert_same(actual, their_logits(their_model(folder)))


# --- files


def in_pieces(folder: Path, *, safe: bool) -> None:
    model = their_model(folder)
    (folder / "model.safetensors").unlink()
    with quiet():
        model.save_pretrained(folder, max_shard_size="60KB", safe_serialization=safe)
    name = "model.safetensors.index.json" if safe else "pytorch_model.bin.index.json"
    assert len(set(json.loads((folder / name).read_text())["weight_map"].values())) > 2


def as_pickle(folder: Path, *, zipped: bool) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda folder: as_pickle(folder, zipped=True),
        lambda folder: as_pickle(folder, zipped=False),
        lambda folder: in_pieces(folder, safe=True),
        lambda folder: in_pieces(folder, safe=False),
    ],
    ids=["pickle", "legacy pickle", "safetensors in pieces", "pickles in pieces"],
)
def test_weights_are_equal_in_every_file_format(copy: Copy, rewrite: Callable[[Path], None]) -> None:
    folder = copy("marian")
    expected = logits(imported(folder))
    rewrite(folder)
    assert not (folder / "model.safetensors").exists()
    assert torch.equal(logits(imported(folder)), expected)


def test_safetensors_are_preferred_to_a_pickle(copy: Copy) -> None:
    folder = copy("marian")
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    imported(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("pickled", [False, True])
def test_weights_of_another_precision_are_read_as_float32(copy: Copy, dtype: torch.dtype, pickled: bool) -> None:
    folder = copy("marian")
    edit_tensors(folder, lambda tensors: tensors.update({name: value.to(dtype) for name, value in tensors.items()}))
    expected = their_logits(their_model(folder))
    if pickled:
        as_pickle(folder, zipped=True)
    ours = imported(folder)
    assert {parameter.dtype for parameter in ours.module.parameters()} == {torch.float32}
    assert_same(logits(ours), expected)


# --- decoding rules

OLD_HABITS: dict[str, Any] = {
    "num_beams": 6,
    "bad_words_ids": [[164], [7], [8, 9]],
    "length_penalty": 0.5,
    "early_stopping": True,
}


def test_decoding_rules_are_read_from_config_json_of_older_checkpoints(copy: Copy) -> None:
    folder = copy("marian")
    (folder / "generation_config.json").unlink()
    edit(folder / "config.json", **OLD_HABITS)
    notes: list[str] = []
    manifest = import_checkpoint(folder, folder / "bundle.verso", "float32", report=notes.append)
    decoding = manifest.decoding
    assert decoding["beam_size"] == 6
    assert decoding["length_penalty"] == 0.5
    assert decoding["early_stopping"] is True
    assert decoding["force_end"] is True
    assert list(decoding["forbidden"]) == [7, 164]
    assert manifest.tokenizer["start_id"] == 164
    assert "note: bad_words_ids of more than one token are not imported" in notes


def test_generation_config_json_overrides_config_json(copy: Copy) -> None:
    folder = copy("marian")
    edit(folder / "config.json", **OLD_HABITS)
    theirs = their_model(folder).generation_config
    decoding = imported(folder).manifest.decoding
    assert decoding["beam_size"] == theirs.num_beams == 4
    assert decoding["length_penalty"] == theirs.length_penalty == 1.0
    assert decoding["early_stopping"] is theirs.early_stopping is False
    assert [[token_id] for token_id in decoding["forbidden"]] == theirs.bad_words_ids == [[164]]


# --- precisions


@pytest.mark.sampled(4)
@precisions
@pytest.mark.parametrize("family", ["marian", "m2m100", "nllb"])
def test_every_precision_stays_close_to_float32(copy: Copy, family: str, precision: Precision) -> None:
    folder = copy(family)
    expected = logits(imported(folder))
    ours = imported(folder, precision)
    bound = {"float32": 0.0, "float16": 0.01, "bfloat16": 0.05, "int8": 0.1}[precision]
    rms = (logits(ours) - expected).square().mean().sqrt()
    assert float(rms / expected.std()) <= bound
    assert ours.manifest.precision == precision
    assert (
        ours.manifest.precision_report["rms_logit_error"] <= bound * ours.manifest.precision_report["logit_deviation"]
    )


@pytest.mark.parametrize("suffix", [".pt", ".verso"])
def test_the_same_checkpoint_gives_the_same_bytes(copy: Copy, suffix: str) -> None:
    folder = copy("marian")
    contents = []
    precision: Precision = "int8" if int8_is_supported() else "float32"
    for out in (folder / "one" / f"bundle{suffix}", folder / "two" / f"bundle{suffix}"):
        import_checkpoint(folder, out, precision, report=lambda line: None)
        contents.append(out.read_bytes())
    assert contents[0] == contents[1]


# --- use of a bundle


def make_end_improbable(tensors: dict[str, Tensor]) -> None:
    """Make the end token improbable."""
    if "final_logits_bias" in tensors:
        tensors["final_logits_bias"][0, 0] -= 20.0
    else:  # the final norm's bias is a direction every output has a part in
        direction = tensors["model.decoder.layer_norm.bias"]
        tensors["model.shared.weight"][2] -= 20.0 * direction / direction.square().sum()


@pytest.mark.parametrize(
    ("family", "source", "target"),
    [("marian", "en", "de"), ("multilingual", "en", "fr"), ("m2m100", "de", "ru"), ("nllb", "ru", "de")],
)
def test_a_bundle_translates_and_returns_attention_and_confidence(
    copy: Copy, family: str, source: str, target: str
) -> None:
    folder = copy(family)
    edit_tensors(folder, make_end_improbable)
    ours = Translator(imported(folder))
    texts = ["", "Hello world", *sentences(20, (source,)), "  " + " ".join(sentences(3, (source,))) + "\n\n x"]
    # The vocabularies of these models lack letters, which would be protected.
    options = TranslationOptions(max_new_tokens=12, return_scores=True, protect="none")
    translations = ours.translate(texts, options, source, target, return_alignment=True, return_confidence=True)
    assert [item.text for item in translations] == [
        item.text for text in texts for item in ours.translate([text], options, source, target)
    ]
    num_links = 0
    for text, translation in zip(texts, translations, strict=True):
        assert (translation.source, translation.target) == (source, target)
        assert translation.alignment is not None
        for link in translation.alignment:
            assert 0 <= link.source[0] < link.source[1] <= len(text)
            assert 0 <= link.target[0] < link.target[1] <= len(translation.text)
            assert 0.0 <= link.weight <= 1.0
            num_links += 1
        assert translation.confidence is not None
        assert [translation.text[slice(*word.target)] for word in translation.confidence.words] == (
            translation.text.split()
        )
        if len(translation.text.split()) > 1:
            uncovered = translation.confidence.uncovered
            assert (uncovered is None) == (family in ("marian", "multilingual"))
            assert {text[slice(*span)] for span in uncovered or ()} <= set(text.split())
    assert num_links > 10
    attention = ours.attention("Hello world", options, source, target)
    assert attention.translation == translations[1].text
    for kind in ("encoder", "decoder", "cross"):
        weights = getattr(attention, kind)
        rows, columns = attention.labels(kind)
        assert weights.shape == (2, 4, len(rows), len(columns))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("spelling", ["en", "EN", "eng", "eng_Latn", "en-US", "en_gb"])
@pytest.mark.parametrize("family", ["m2m100", "nllb"])
def test_a_language_code_may_have_any_spelling(bundles: dict[str, Translator], family: str, spelling: str) -> None:
    ours = bundles[family]
    options = TranslationOptions(max_new_tokens=5)
    (expected,) = ours.translate(["Güte."], options, "de", "en")
    (translation,) = ours.translate(["Güte."], options, "DEU", spelling)
    assert translation == expected
    assert translation.target == "en"


@pytest.fixture(scope="module")
def bundles(originals: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Translator]:
    """The families that translate every language into every other."""
    loaded = {}
    for family in ("m2m100", "nllb"):
        out = tmp_path_factory.mktemp("bundle") / "bundle.verso"
        import_checkpoint(originals[family], out, "float32", report=lambda line: None)
        loaded[family] = Translator.load(out)
    return loaded


# --- the manifest


def manifest_of(folder: Path, *arguments: str) -> Manifest:
    """Import through the command line, and read the manifest."""
    out = folder / "bundle.verso"
    assert main(["import", str(folder), "--out", str(out), "--precision", "float32", *arguments]) == 0
    return read_manifest(out)


@pytest.mark.parametrize(
    ("readme", "licence"),
    [
        ("---\nlicense: cc-by-4.0\n---\n# A model", "cc-by-4.0"),
        ("---\nlanguage: en\nlicense: [mit, apache-2.0]\n---\n", "mit, apache-2.0"),
        ("---\nlicense: {a: b}\n---\n", "unstated"),
        ("---\nlicense: 2020-99-99\n---\n", "unstated"),
        ("---\nlicense: [\n---\n", "unstated"),
        ("---\n- a\n", "unstated"),
        ("---", "unstated"),
        ("license: mit", "unstated"),
        ("", "unstated"),
        (None, "unstated"),
    ],
)
def test_the_licence_is_read_from_the_readme(copy: Copy, readme: str | None, licence: str) -> None:
    folder = copy("marian")
    if readme is not None:
        (folder / "README.md").write_text(readme)
    assert manifest_of(folder).licence == licence


def test_options_of_the_command_line_are_in_the_manifest(copy: Copy) -> None:
    folder = copy("marian")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    assert manifest_of(folder).name == "marian"
    output = ("--name", "opus", "--licence", "CC-BY 4.0", "--attribution", "OPUS", "--attribution", "Tatoeba")
    manifest = manifest_of(folder, *output)
    assert manifest.name == "opus"
    assert manifest.licence == "CC-BY 4.0"
    assert manifest.attribution == ("OPUS", "Tatoeba")
    assert manifest.training == {"imported_from": "marian checkpoint"}


@pytest.mark.parametrize(
    ("family", "arguments", "pairs", "languages"),
    [
        ("marian", (), [("en", "de")], ()),
        ("marian", ("--pair", "fra-deu", "--pair", "EN-de"), [("fr", "de"), ("en", "de")], ()),
        ("multilingual", (), [("en", "fr"), ("en", "de"), ("en", "zh"), ("en", "cmn-Hans")], ()),
        ("multilingual", ("--pair", "eng-fra", "--pair", "en-fr"), [("en", "fr")], ()),
        ("multilingual", ("--pair", "en:cmn_Hans"), [("en", "cmn-Hans")], ()),
        ("m2m100", ("--languages", "eng_Latn,DE, fr-FR,en"), [], ("en", "de", "fr")),
        ("m2m100", ("--pair", "en-de", "--pair", "deu:eng_Latn"), [("en", "de"), ("de", "en")], ()),
        ("nllb", ("--languages", "en,zh-TW,arb_Arab"), [], ("en", "zh-Hant", "arb-Arab")),
        ("nllb", ("--pair", "en:zh_Hans", "--languages", "en,de"), [("en", "zh-Hans")], ("en", "de")),
    ],
)
def test_the_served_pairs_are_in_the_manifest(
    copy: Copy,
    family: str,
    arguments: tuple[str, ...],
    pairs: list[tuple[str, str]],
    languages: tuple[str, ...],
) -> None:
    manifest = manifest_of(copy(family), *arguments)
    assert list(manifest.pairs) == pairs
    assert manifest.languages == languages


@pytest.mark.parametrize(("family", "number"), [("m2m100", 100), ("nllb", 202)])
def test_all_languages_are_served_by_default(bundles: dict[str, Translator], family: str, number: int) -> None:
    assert len(bundles[family].manifest.languages) == number
    assert {"en", "de", "fr"} <= set(bundles[family].manifest.languages)


def test_a_model_with_a_fixed_target_and_language_tokens_forces_no_token(copy: Copy) -> None:
    folder = copy("multilingual")
    edit(folder / "tokenizer_config.json", target_lang="es")
    ours = imported(folder)
    assert ours.manifest.pairs[:2] == (("en", "es"), ("en", "fr"))
    plain, request = (ours.tokenizer.encode("Hello.", target) for target in ("es", "fr"))
    assert request[1:] == plain
