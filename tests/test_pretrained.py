"""The shipped translator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model.artifacts.bundle import Bundle
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.loaded_network import LoadedNetwork
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.pretrained import PRETRAINED, build_pretrained
from model.decoding.repetition_guard import loops
from model.network.quantised import int8_is_supported
from model.translation.options import TranslationOptions
from model.translator import Translator

pytestmark = pytest.mark.thorough

EVERY_PRECISION: list[Precision] = ["float32", "float16", "bfloat16"]


def eager() -> Translator:
    checkpoint = load_checkpoint(PRETRAINED)
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, "float32")
    return Translator(
        Bundle(LoadedNetwork(checkpoint.build()), checkpoint.tokenizer, manifest, torch.device("cpu"), "")
    )


def test_the_shipped_weights_translate_both_directions_and_name_their_licence() -> None:
    translator = eager()
    assert set(translator.manifest.pairs) == {("en", "de"), ("de", "en")}
    assert translator.manifest.licence == "CC BY-SA 4.0"
    for pair, bleu in (("en-de", 20.0), ("de-en", 26.0)):
        assert translator.manifest.scores["flores-dev"][pair]["bleu"] > bleu
    greedy = TranslationOptions(decoding="greedy")
    assert translator.translate(["Good morning!"], greedy, target="de")[0].text == "Guten Morgen!"
    assert translator.translate(["Wo ist der Bahnhof?"], greedy, target="en")[0].text == "Where is the station?"


def test_the_shipped_translator_reads_capitals_and_does_not_loop() -> None:
    translator = eager()
    assert translator.manifest.fold_capitals
    assert translator.manifest.retry_loops
    greedy = TranslationOptions(decoding="greedy")
    (translation,) = translator.translate(["WHERE IS THE STATION?"], greedy, target="de")
    assert translation.text == "WO IST DER BAHNHOF?"
    stuttered = "The three three three of them began to laugh."
    assert not loops(translator.translate([stuttered], target="de")[0].text, stuttered)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [*EVERY_PRECISION, *(["int8"] if int8_is_supported() else [])])
def test_every_precision_of_the_shipped_translator_stays_within_its_bounds(
    precision: Precision, tmp_path: Path
) -> None:
    path = build_pretrained("cpu", tmp_path, precision=precision, report=lambda line: None)
    (translation,) = Translator.load(path).translate(["Where is the station?"], target="de")
    assert "Bahnhof" in translation.text


@pytest.mark.gpu
def test_the_shipped_translator_gives_equal_outputs_on_gpu_and_cpu(tmp_path: Path) -> None:
    path = build_pretrained("cuda", tmp_path, report=lambda line: None)
    on_gpu = Translator.load(path, device="cuda")
    on_gpu.warm_up([1, 4])
    sentences = [remaining for remaining, _ in load_checkpoint(PRETRAINED).facts["dev_sample"]][:100]
    for options in (TranslationOptions(decoding="greedy"), TranslationOptions()):
        expected = eager().translate(sentences, options, "en", "de")
        translations = on_gpu.translate(sentences, options, "en", "de")
        same = sum(first.text == other.text for first, other in zip(translations, expected, strict=True))
        assert same >= 90, f"{same} of 100 sentences are the same in float16"
