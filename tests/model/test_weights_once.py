"""Where the compiled decoder has the weights, torch's copy is in memory only while something uses it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from model import TranslationOptions, Translator
from model.artifacts.bundle import load_bundle
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.convert import convert_bundle
from model.artifacts.data_form import weights_as_bytes
from model.artifacts.export import export_bundle
from model.artifacts.loaded_network import KEPT_S, LoadedNetwork
from model.artifacts.script import script
from model.decoding.native import library
from model.decoding.native.packed import make_native_model
from model.network.heads import AttentionHead
from model.network.quantised import int8_is_supported
from tests.model.test_native import ARCHITECTURES, transformer
from tests.model.torch_layers import small_config

needs_library = pytest.mark.skipif(library.load_library() is None, reason="the compiled decoder cannot be used here")
PRECISIONS = ["float32", "bfloat16", *(["int8"] if int8_is_supported() else [])]
TEXT = "red cat sees old dog."


def instruction_sets() -> list[str]:
    """Those that can be run here."""
    loaded = library.load_library()
    return (
        []
        if loaded is None
        else [
            instruction_set.name
            for instruction_set in library.instruction_sets(loaded)
            if instruction_set.lacking is None
        ]
    )


@pytest.mark.sampled(9)
@needs_library
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_packed_weights_come_back_to_the_bit(name: str, precision: Any) -> None:
    config = small_config(**{"d_model": 64, "num_heads": 2, **ARCHITECTURES[name]})
    module = script(transformer(**ARCHITECTURES[name]), precision)
    weights = safetensors.torch.load(weights_as_bytes(module))
    for isa in instruction_sets():
        packed = make_native_model(module, config, isa=isa)
        assert packed.precision == precision
        for weight, value in weights.items():
            assert torch.equal(packed.weight(weight), value), (isa, weight)
        for unknown in ("decoder.9.feed_forward.wide.weight", "output.gain"):
            with pytest.raises(KeyError):
                packed.weight(unknown)


@pytest.fixture(scope="module", params=PRECISIONS)
def forms(request: pytest.FixtureRequest, toy_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The toy in both forms."""
    folder = tmp_path_factory.mktemp("forms")
    scripted, data = folder / "toy.pt", folder / "toy.verso"
    export_bundle(load_checkpoint(toy_checkpoint), request.param, scripted, report=lambda line: None)
    convert_bundle(scripted, data)
    return [scripted, data]


def everything_of_torch(translator: Translator) -> tuple[Any, ...]:
    """What torch computes for a user."""
    attention = translator.attention(TEXT, target="de", steps=AttentionHead("cross", 0, 0))
    (translation,) = translator.translate([TEXT], TranslationOptions(), target="de", return_confidence=True)
    assert attention.steps is not None
    steps = [(name, value.tolist()) for name, value in attention.steps.items()]
    return *(part.tolist() for part in (attention.encoder, attention.decoder, attention.cross)), steps, translation


@needs_library
def test_attention_and_confidence_are_those_of_the_loaded_network_in_both_forms(forms: list[Path]) -> None:
    for path in forms:
        translator = Translator.load(path)
        network = translator.bundle.network
        translator.warm_up([1])
        translator.translate([TEXT], target="de", return_alignment=True)
        assert translator.backend.name == "native" and not network.in_memory
        expected = everything_of_torch(translator)
        assert network.in_memory
        loaded = Translator(load_bundle(path))
        loaded.bundle.network.free(lambda path=path: load_bundle(path).module)
        assert everything_of_torch(loaded) == expected


@needs_library
def test_nothing_keeps_the_loaded_weights(forms: list[Path]) -> None:
    bundle = load_bundle(forms[1])
    parts = dict(bundle.module.named_modules())
    stored = weakref.ref(parts["encoder.0.feed_forward.wide"])
    del parts
    translator = Translator(bundle)
    gc.collect()
    assert stored() is None
    assert translator.translate([TEXT], target="de")


def test_a_network_is_made_without_the_compiler_of_torch(forms: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch._dynamo", "torch.fx.experimental.symbolic_shapes"):
        monkeypatch.setitem(sys.modules, module, None)  # to import it is an error
    assert Translator.load(forms[1]).bundle.module


@needs_library
def test_what_attention_needs_is_made_by_any_thread_and_computes_without_python(forms: list[Path]) -> None:
    for path in forms:
        translator = Translator.load(path)
        other = threading.Thread(target=translator.prepare_attention)
        other.start()
        other.join()
        assert translator.bundle.network.in_memory
        # Each eager operation would wait for Python's lock.
        assert isinstance(translator.bundle.module, torch.jit.ScriptModule)


@needs_library
def test_networks_of_several_models_can_be_made_at_once(forms: list[Path]) -> None:
    translators = [Translator.load(forms[number % 2]) for number in range(4)]
    with ThreadPoolExecutor(len(translators)) as pool:
        list(pool.map(Translator.prepare_attention, translators))
        maps = list(pool.map(lambda translator: translator.attention(TEXT, target="de").cross.tolist(), translators))
    assert maps == maps[:1] * len(translators)


def test_a_network_leaves_memory_when_it_was_not_used_for_some_time() -> None:
    now = 0.0
    outputs: list[Any] = []

    def make() -> Any:
        outputs.append(object())
        return outputs[-1]

    first: Any = object()
    network = LoadedNetwork(first, lambda: now)
    now = 10 * KEPT_S
    network.tidy()
    assert network.get() is first, "it cannot be made again, so it stays"
    network.free(make)
    assert not network.in_memory
    assert network.get() is network.get() is outputs[0]
    now += KEPT_S / 2
    assert network.get() is outputs[0]
    now += KEPT_S / 2
    network.tidy()
    assert network.in_memory
    now += KEPT_S / 2
    network.tidy()
    assert not network.in_memory
    assert network.get() is outputs[1]


def test_a_network_that_is_just_being_made_is_not_waited_for() -> None:
    first: Any = object()
    network = LoadedNetwork(first)

    def make() -> Any:
        network.tidy()  # as another thread would, while this one has the lock
        return first

    network.free(make)
    assert network.get() is first
