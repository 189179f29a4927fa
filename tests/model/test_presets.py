"""The presets of four published Transformers: their parameters, training, export, outputs and attention."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.artifacts.bundle import read_manifest
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.artifacts.manifest import Precision
from model.decoding.native.packed import reason_not_native
from model.errors import ConfigError
from model.network.config import ModelConfig
from model.network.heads import AttentionHead
from model.network.presets import PRESETS, expand_preset
from model.network.quantised import int8_is_supported
from model.training.loop import train
from model.training.settings import TrainingSettings
from model.translation.options import TranslationOptions
from model.translator import Translator
from scripts.reversal import main as write_words

pytestmark = pytest.mark.thorough

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "presets"
PRECISIONS: list[Precision] = ["float32", *(["int8"] if int8_is_supported() else [])]  # type: ignore[list-item]
GREEDY = TranslationOptions(decoding="greedy")

every_preset = pytest.mark.parametrize("preset", PRESETS)
# Each training takes ten seconds and more. tests/test_reversal.py trains one in each run.
every_trained_preset = pytest.mark.parametrize("preset", [pytest.param(one, marks=pytest.mark.slow) for one in PRESETS])


def quiet(line: str) -> None:
    """Discards progress messages."""


def scaled_down(preset: str) -> TrainingSettings:
    """The preset's configuration with 2 + 2 layers of 64, and a training of seconds instead of minutes."""
    settings = TrainingSettings.load(CONFIGS / f"{preset}.yaml")
    shape = {"d_model": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    num_steps = 400
    if preset != "res-post-norm":
        shape["d_ff"], num_steps = 128, 300
    return replace(
        settings,
        model={**settings.model, **shape},
        batch_tokens=800,
        max_steps=num_steps,
        learning_rate=0.005,
        warmup_steps=50,
        cooldown_steps=num_steps * 2 // 5,
        evaluate_every=num_steps,
        dev_sentences=200,
        precision="float32",
        threads=1,
    )


_learned: dict[str, Path] = {}


@pytest.fixture
def learned(preset: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of the scaled-down preset, trained on first use."""
    if preset not in _learned:
        folder = tmp_path_factory.mktemp(preset)
        short = ["--words", "20000", "--held-out", "500", "--letters", "3", "6", "--alphabet", "abcdefgh"]
        assert write_words([str(folder), *short]) == 0
        _learned[preset] = train(scaled_down(preset), folder, folder / "run", show_progress=False, report=quiet)
    return _learned[preset]


@every_trained_preset
def test_a_preset_learns_to_write_words_backwards(preset: str, learned: Path) -> None:
    checkpoint = load_checkpoint(learned)
    assert checkpoint.facts["dev"]["exact_qfw-qrv"] >= 95.0
    assert checkpoint.facts["dev_sample"] != []
    assert checkpoint.config.norm == PRESETS[preset]["norm"]


@every_trained_preset
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_preset_exports_translates_and_returns_attention_of_every_layer(
    preset: str, precision: Precision, learned: Path, tmp_path: Path
) -> None:
    checkpoint = load_checkpoint(learned)
    path = tmp_path / "bundle.pt"
    export_bundle(checkpoint, precision, path, report=quiet)
    assert ModelConfig.from_dict(read_manifest(path).architecture) == checkpoint.config
    translator = Translator.load(path, num_threads=1)
    words = [word for word, _ in checkpoint.facts["dev_sample"]][:60]
    answers = [translation.text for translation in translator.translate(words, GREEDY)]
    assert sum(answer == word[::-1] for answer, word in zip(answers, words, strict=True)) >= 0.9 * len(words)
    with_torch = Translator.load(path, num_threads=1, native=False)
    # The compiled decoder keeps an int8 model's keys and values in float16, which may change the order of close scores.
    of_torch = with_torch.translate(words, GREEDY)
    agreed = sum(translation.text == answer for translation, answer in zip(of_torch, answers, strict=True))
    assert agreed >= (len(words) if precision == "float32" else 0.95 * len(words))
    attention = translator.attention("badge", GREEDY, steps=AttentionHead("cross", 1, 3))
    assert attention.translation == "egdab"
    assert attention.encoder.shape == (2, 4, 7, 7)  # <2qrv> b a d g e </s>
    assert attention.decoder.shape == (2, 4, 6, 6)
    assert attention.cross.shape == (2, 4, 6, 7)
    torch.testing.assert_close(attention.cross.sum(dim=-1), torch.ones(2, 4, 6), atol=1e-3, rtol=0)
    assert attention.steps is not None
    torch.testing.assert_close(attention.steps["weights"], attention.cross[1, 3], atol=1e-6, rtol=0)


@pytest.mark.parametrize("preset", ["pre-norm-scalar", "pre-norm", "post-norm"])
def test_the_base_shape_is_the_published_one(preset: str) -> None:
    config = ModelConfig.from_dict({"source_vocab_size": 11, "target_vocab_size": 11, **PRESETS[preset]})
    assert (config.d_model, config.num_heads, config.encoder_layers, config.decoder_layers) == (512, 8, 6, 6)
    assert config.d_ff == (1024 if preset == "post-norm" else 2048)


def test_other_keys_override_a_preset() -> None:
    fields = expand_preset({"preset": "post-norm", "d_model": 64, "dropout": 0.3})
    assert (fields["norm"], fields["d_model"], fields["dropout"], fields["num_heads"]) == ("post", 64, 0.3, 8)
    assert expand_preset({"d_model": 64}) == {"d_model": 64}


@pytest.mark.parametrize("name", ["post", None, 5, ["pre-norm"]], ids=repr)
def test_an_unknown_preset_is_refused_with_the_known_ones(name: object) -> None:
    with pytest.raises(
        ConfigError, match=r"preset is .*; it must be one of pre-norm-scalar, pre-norm, post-norm, res-"
    ):
        expand_preset({"preset": name})


@every_preset
def test_the_compiled_decoder_accepts_the_presets_it_supports(preset: str) -> None:
    config = ModelConfig.from_dict({"source_vocab_size": 11, "target_vocab_size": 13, **PRESETS[preset]})
    assert ("the norm is" in str(reason_not_native(config))) == (preset == "res-post-norm")


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "num_parameters"), [("pre-norm", 44_000_000), ("res-post-norm", 300_000)])
def test_a_preset_in_its_published_shape_learns_to_write_words_backwards(
    preset: str, num_parameters: int, tmp_path: Path
) -> None:
    settings = TrainingSettings.load(CONFIGS / f"{preset}.yaml")
    checkpoint = load_checkpoint(train(settings, tmp_path, tmp_path / "run", show_progress=False, report=print))
    assert sum(weight.numel() for weight in checkpoint.weights.values()) > num_parameters
    assert checkpoint.facts["dev"]["exact_qfw-qrv"] >= 99.0
