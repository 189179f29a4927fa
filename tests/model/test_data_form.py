"""Bundles in data form: the answers of TorchScript, nothing of the file run, faults named, the same bytes twice."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.artifacts.archive import add_calibration, add_shortlist
from model.artifacts.bundle import Bundle, is_checkpoint, load_bundle, read_manifest
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.convert import convert_bundle
from model.artifacts.data_checks import check_data
from model.artifacts.data_form import WEIGHTS
from model.artifacts.export import export_bundle
from model.artifacts.manifest import Precision
from model.commands.table import COMMANDS
from model.decoding.native.library import find_library
from model.decoding.shortlist import Limits, Shortlist
from model.errors import ArtifactError, ConfigError, ModelError
from model.network.padding import NO_PAD_ID
from model.network.quantised import int8_is_supported
from model.process.files import file_digest
from model.text.glossary import GlossaryTerm
from model.text.lexicon import Lexicon
from model.translation.options import TranslationOptions
from model.translator import Translator

PRECISIONS: list[Precision] = ["float32", "float16", "bfloat16", *(["int8"] if int8_is_supported() else [])]  # type: ignore[list-item]

TEXTS = ["red cat sees old dog.", "tree. old house likes cat.", "dog"]


@pytest.fixture(scope="module")
def bundles(toy_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """By precision: the toy as TorchScript with a shortlist, and the same bundle converted to data."""
    folder = tmp_path_factory.mktemp("forms")
    product: dict[str, tuple[Path, Path]] = {}
    for precision in PRECISIONS:
        scripted, data = folder / f"{precision}.pt", folder / f"{precision}.verso"
        checkpoint = load_checkpoint(toy_checkpoint)
        size = checkpoint.config.source_vocab_size
        everything = np.arange(size, dtype=np.int32)
        table = Shortlist(np.zeros(size + 1, dtype=np.int32), everything[:0], everything, {"per_token": 1})
        export_bundle(checkpoint, precision, scripted, shortlist=table, report=lambda line: None)
        convert_bundle(scripted, data)
        product[precision] = (scripted, data)
    return product


@pytest.fixture(scope="module")
def data(bundles: dict[str, tuple[Path, Path]]) -> Path:
    """The toy in data form, float32."""
    return bundles["float32"][1]


def rewritten(
    source: Path,
    out: Path,
    changes: Mapping[str, bytes | None],
    compression: int = zipfile.ZIP_STORED,
) -> Path:
    """A copy with members replaced, added, or left out where the change is None."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w", compression) as new:
        for name in dict.fromkeys([*old.namelist(), *changes]):
            content = changes[name] if name in changes else old.read(name)
            if content is not None:
                new.writestr(name, content)
    return out


def with_weights(source: Path, out: Path, change: Callable[[dict[str, Tensor]], None]) -> Path:
    """A copy with other weights."""
    with zipfile.ZipFile(source) as archive:
        weights = safetensors.torch.load(archive.read(WEIGHTS))
    change(weights)
    return rewritten(source, out, {WEIGHTS: safetensors.torch.save(weights)})


def with_manifest(source: Path, out: Path, **changes: object) -> Path:
    """A copy with fields of its manifest changed."""
    values = {**json.loads(read_manifest(source).to_json()), **changes}
    return rewritten(source, out, {"bundle/extra/manifest.json": json.dumps(values).encode()})


@pytest.mark.parametrize("precision", PRECISIONS)
def test_both_forms_compute_the_same_bits(precision: str, bundles: dict[str, tuple[Path, Path]]) -> None:
    scripted, data = (load_bundle(path) for path in bundles[precision])
    source = torch.tensor([[4, 5, 6, 7, 3], [4, 9, 3, 0, 0]])
    target = torch.tensor([[2, 8, 9, 10], [2, 11, 12, 0]])
    with torch.inference_mode():
        assert torch.equal(scripted.module.forward(source, target), data.module.forward(source, target))
        for first, other in zip(
            scripted.module.attend(source, target), data.module.attend(source, target), strict=True
        ):
            assert torch.equal(first, other)


def backends(bundle: Bundle, precision: str) -> dict[str, Translator]:
    """The bundle in each back-end that can decode it here."""
    product = {
        "eager": Translator(bundle, native=False),
        "eager with shortlist": Translator(bundle, native=False, shortlist=True),
        "slots": Translator(bundle, slots=True),
    }
    if precision in ("float32", "int8") and find_library().library is not None:
        product["native"] = Translator(bundle)
        product["native with shortlist"] = Translator(bundle, shortlist=True)
    return product


@pytest.mark.sampled(2)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_both_forms_give_equal_answers_in_every_back_end(precision: str, bundles: dict[str, tuple[Path, Path]]) -> None:
    options = [
        TranslationOptions(decoding="beam", beam_size=3, return_scores=True),
        TranslationOptions(decoding="greedy"),
    ]
    scripted, data = (backends(load_bundle(path), precision) for path in bundles[precision])
    for name in scripted:
        assert scripted[name].backend.name == data[name].backend.name == name.split()[0]
        for option in options:
            results = [
                translators[name].translate(TEXTS, option, "en", "de", return_alignment=True, return_confidence=True)
                for translators in (scripted, data)
            ]
            assert results[0] == results[1], name
            assert "Katze" in results[0][0].text
        both = [translators[name].attention("red cat sees dog.", target="de") for translators in (scripted, data)]
        assert both[0].target_tokens == both[1].target_tokens
        assert torch.equal(both[0].cross, both[1].cross)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_there_and_back_gives_the_same_bytes(
    precision: str, bundles: dict[str, tuple[Path, Path]], tmp_path: Path
) -> None:
    scripted, data = bundles[precision]
    convert_bundle(data, tmp_path / "back.pt")
    convert_bundle(tmp_path / "back.pt", tmp_path / "again.verso")
    assert (tmp_path / "again.verso").read_bytes() == data.read_bytes()
    assert (tmp_path / "back.pt").read_bytes() == scripted.read_bytes()
    assert read_manifest(data) == replace(read_manifest(scripted), format_version=3)


def test_nothing_of_a_file_is_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: object, **options: object) -> None:
        pytest.fail("something was loaded that can hold code")

    for name in ("torch.jit.load", "torch.load", "pickle.load", "pickle.loads", "pickle.Unpickler"):
        monkeypatch.setattr(name, run)
    bundle = load_bundle(data)
    assert not any(isinstance(part, torch.jit.ScriptModule) for part in bundle.module.modules())


def test_a_program_called_like_data_is_refused_before_any_of_it_runs(
    toy_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.jit, "load", lambda *args, **options: pytest.fail("the file was loaded"))
    disguised = tmp_path / "program.verso"
    disguised.write_bytes(toy_bundle.read_bytes())
    for read in (load_bundle, read_manifest, is_checkpoint):
        with pytest.raises(ArtifactError, match=r"no bundle/weights\.safetensors; nothing of it was run"):
            read(disguised)


def test_code_beside_data_is_refused(data: Path, tmp_path: Path) -> None:
    path = rewritten(data, tmp_path / "both.pt", {"bundle/code/__torch__/model.py": b"def f(): pass"})
    with pytest.raises(ArtifactError, match=r"a member 'bundle/code/__torch__/model\.py', which such a bundle"):
        load_bundle(path)


@pytest.mark.parametrize("name", ["bundle/../evil", "/etc/passwd", "other/extra/manifest.json", "bundle/extra/x.pkl"])
def test_a_member_of_another_name_is_refused(name: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="which such a bundle does not have"):
        read_manifest(rewritten(data, tmp_path / "x.verso", {name: b"x"}))


def test_a_compressed_member_is_refused_unread(data: Path, tmp_path: Path) -> None:
    bomb = {"bundle/extra/vocab.json": bytes(10**6)}
    path = rewritten(data, tmp_path / "x.verso", bomb, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ArtifactError, match="compressed"):
        load_bundle(path)


def test_a_member_that_is_there_twice_is_refused(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.verso"
    path.write_bytes(data.read_bytes())
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("bundle/extra/manifest.json", b"{}")
    with pytest.raises(ArtifactError, match="twice"):
        load_bundle(path)


def test_a_manifest_that_is_too_large_is_refused(data: Path, tmp_path: Path) -> None:
    path = rewritten(data, tmp_path / "x.verso", {"bundle/extra/manifest.json": b" " * (2**24 + 1)})
    with pytest.raises(ArtifactError, match="of 16777217 bytes; it may have 16777216"):
        read_manifest(path)


def infinite(weights: dict[str, Tensor]) -> None:
    weights["encoder.0.feed_forward.wide.bias"][0] = float("inf")


def transposed(weights: dict[str, Tensor]) -> None:
    name = "encoder.0.feed_forward.wide.weight"
    weights[name] = weights[name].T.contiguous()


def missing(weights: dict[str, Tensor]) -> None:
    del weights["decoder_norm.bias"]


def surplus(weights: dict[str, Tensor]) -> None:
    weights["backdoor"] = torch.zeros(1)


def other_type(weights: dict[str, Tensor]) -> None:
    weights["decoder_norm.bias"] = weights["decoder_norm.bias"].double()


@pytest.mark.parametrize(
    ("change", "output"),
    [
        (infinite, r"'encoder\.0\.feed_forward\.wide\.bias' contains NaN or infinity"),
        (transposed, r"is float32 of shape \(32, 64\); its manifest needs float32 of shape \(64, 32\)"),
        (missing, r"have no 'decoder_norm\.bias'"),
        (surplus, "the unknown 'backdoor'"),
        (other_type, "is float64 of shape"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    change: Callable[[dict[str, Tensor]], None], output: str, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match=output):
        load_bundle(with_weights(data, tmp_path / "x.verso", change))


@pytest.mark.parametrize("content", [b"", b"x" * 100, (2**62).to_bytes(8, "little") + b"{}"])
def test_weights_that_are_no_safetensors_are_refused(content: bytes, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="weights are damaged"):
        load_bundle(rewritten(data, tmp_path / "x.verso", {WEIGHTS: content}))


def test_a_manifest_that_contradicts_itself_is_refused(data: Path, tmp_path: Path) -> None:
    architecture = read_manifest(data).architecture
    for changes, output in (
        ({"max_source_tokens": 10**6}, "max_source_tokens is 1000000; its architecture has positions for 1 to 64"),
        ({"max_target_tokens": 0}, "max_target_tokens is 0"),
        ({"architecture": {**architecture, "encoder_layers": 10**9}}, "fewer tensors than its architecture has layers"),
        ({"architecture": {**architecture, "d_model": 2**12}}, "its manifest needs float32 of shape"),
        ({"architecture": {**architecture, "d_model": 2**40}}, "cannot be set up"),
        ({"architecture": {**architecture, "max_positions": 2**70}}, "cannot be set up"),
        ({"architecture": {**architecture, "surprise": 1}}, "unknown key 'surprise'"),
        ({"format_version": 2}, "format version 3; make it again"),
        ({"tokenizer": {"kind": "marian"}}, "tokenizer is incomplete"),
        ({"tokenizer": {"kind": []}}, "tokenizer is damaged"),
        ({"decoding": {"forbidden": [10**6]}}, r"\(1000000,\) may not come"),
        ({"decoding": {"forbidden": [-1]}}, r"\(-1,\) may not come"),
        ({"decoding": {"length_penalty": "long"}}, "manifest is wrong"),
        ({"capabilities": {"placeholders": 10**9}}, "1000000000 placeholders"),
        ({"confidence": {"weights": 1}}, "confidence is wrong"),
        ({"pairs": [["en", "xx"]]}, "no token for the language 'xx'"),
        ({"pairs": []}, "names no pair of languages"),
    ):
        with pytest.raises(ModelError, match=output):
            load_bundle(with_manifest(data, tmp_path / "x.verso", **changes))


@pytest.mark.parametrize(
    "text", ["[" * 10**6, '{"max_source_tokens": ' + "9" * 5000 + "}"], ids=["deep", "long number"]
)
def test_a_manifest_that_python_cannot_read_is_refused(text: str, data: Path, tmp_path: Path) -> None:
    path = rewritten(data, tmp_path / "x.verso", {"bundle/extra/manifest.json": text.encode()})
    with pytest.raises(ArtifactError, match="manifest is damaged"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("more", "output"),
    [
        (-1, "tokens up to {size_less_1} and {size_less_1}; its model has {model} and {model} tokens"),
        # The model may choose a token that the vocabulary has no text for.
        (1, "vocabularies have {size} and {size} tokens; its model has {model} and {model}"),
    ],
)
def test_a_vocabulary_of_another_size_is_refused(more: int, output: str, data: Path, tmp_path: Path) -> None:
    architecture = read_manifest(data).architecture
    size = architecture["source_vocab_size"]

    def resize(weights: dict[str, Tensor]) -> None:
        for name in ("source_embedding.tokens.weight", "output.bias"):
            weights[name] = torch.cat([weights[name], weights[name]])[: size + more].contiguous()

    resized = {**architecture, "source_vocab_size": size + more, "target_vocab_size": size + more}
    path = with_weights(data, tmp_path / "x.verso", resize)
    path = with_manifest(path, tmp_path / "y.verso", architecture=resized)
    with zipfile.ZipFile(path) as archive:
        stored = {name: None for name in archive.namelist() if name.endswith("shortlist.npz")}
    path = rewritten(path, tmp_path / "z.verso", stored)
    with pytest.raises(ArtifactError, match=output.format(size=size, size_less_1=size - 1, model=size + more)):
        load_bundle(path)


def test_a_shortlist_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = tmp_path / "shortlist.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("lengths", "steps", "always", "facts"):
            archive.writestr(f"{name}.npy", array)
    with pytest.raises(ArtifactError, match="too large"):
        Shortlist.from_bytes(path.read_bytes())


SHORTLIST_MEMBER = "bundle/extra/shortlist.npz"


def table_of(data: Path, **changes: npt.NDArray[Any]) -> bytes:
    """The shortlist of a bundle with arrays replaced."""
    with zipfile.ZipFile(data) as archive, np.load(io.BytesIO(archive.read(SHORTLIST_MEMBER))) as arrays:
        sink = io.BytesIO()
        np.savez_compressed(sink, **{**arrays, **changes})
    return sink.getvalue()


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({"steps": np.zeros(60_000_000, dtype=np.int8)}, r"steps has 60000000 elements; for this model it may have"),
        ({"lengths": np.zeros(1_000_000, dtype=np.int32)}, r"lengths has 1000000 elements"),
        ({"always": np.zeros(1_000_000, dtype=np.int32)}, r"always has 1000000 elements"),
        ({"facts": np.full(2_000_000, 0x20, dtype=np.uint8)}, r"facts has 2000000 elements"),
        ({"more": np.zeros(1)}, r"more has 1 elements; for this model it may have 0"),
    ],
    ids=["steps", "lengths", "always", "facts", "more"],
)
def test_a_small_file_that_would_be_inflated_to_much_more_than_its_model_needs_is_refused(
    changes: dict[str, npt.NDArray[Any]], output: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rewritten(data, tmp_path / "x.verso", {SHORTLIST_MEMBER: table_of(data, **changes)})

    def inflate(*_: object, **__: object) -> None:
        raise AssertionError("nothing is inflated")

    monkeypatch.setattr(np, "load", inflate)
    with pytest.raises(ArtifactError, match=output):
        load_bundle(path)


def test_a_shortlist_is_inflated_to_no_more_than_the_bytes_of_its_bundle(data: Path, tmp_path: Path) -> None:
    limits = Limits(source_vocab_size=30_000, target_vocab_size=30_000, max_bytes=1_000_000)
    with pytest.raises(ArtifactError, match="bytes together; they may be 1000000"):
        Shortlist.from_bytes(table_of(data, steps=np.zeros(1_000_001, dtype=np.int8)), limits)


@given(position=st.integers(min_value=0), value=st.integers(0, 255), length=st.integers(1, 8))
@settings(max_examples=100)
def test_a_damaged_shortlist_in_a_whole_bundle_is_refused_with_an_error_of_ours(
    position: int, value: int, length: int, data: Path
) -> None:
    content = bytearray(table_of(data))
    start = position % len(content)
    content[start : start + length] = bytes([value]) * length
    with contextlib.suppress(ArtifactError):
        Shortlist.from_bytes(bytes(content), Limits(100, 100, 2**20))


@given(position=st.integers(min_value=0), value=st.integers(0, 255), length=st.integers(1, 64))
def test_a_damaged_file_is_refused_or_reads_the_same(
    position: int, value: int, length: int, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(data.read_bytes())
    start = position % len(content)
    content[start : start + length] = bytes([value]) * length
    path = tmp_path_factory.getbasetemp() / "damaged.verso"
    path.write_bytes(content)
    try:
        loaded = load_bundle(path)
    except ModelError:
        return
    assert loaded.manifest == read_manifest(data)


def test_one_suffix_for_each_form(data: Path, toy_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.verso \(data only\) or \.pt"):
        convert_bundle(data, tmp_path / "x.zip")
    with pytest.raises(ConfigError, match=r"in the form that x\.verso asks for"):
        convert_bundle(data, tmp_path / "x.verso")
    with pytest.raises(ArtifactError, match="There is no bundle"):
        convert_bundle(tmp_path / "nowhere.pt", tmp_path / "x.verso")
    with pytest.raises(ArtifactError, match="another form"):
        add_calibration(toy_bundle, {}, tmp_path / "x.verso")
    assert list(tmp_path.iterdir()) == []


def test_shortlist_and_calibration_keep_the_form(bundles: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    _, data = bundles["float32"]
    shortlist = load_bundle(data).shortlist
    assert shortlist is not None
    add_calibration(data, {}, tmp_path / "a.verso")
    add_shortlist(tmp_path / "a.verso", shortlist, tmp_path / "b.verso")
    assert load_bundle(tmp_path / "b.verso").manifest == read_manifest(data)


def test_a_bundle_carries_its_lexicon_in_both_forms(toy_checkpoint: Path, toy_bundle: Path, tmp_path: Path) -> None:
    lexicon = Lexicon({("en", "de"): [GlossaryTerm("dog", "Hund")]})
    checkpoint = load_checkpoint(toy_checkpoint)
    export_bundle(checkpoint, "float32", tmp_path / "a.pt", lexicon=lexicon, report=lambda line: None)
    convert_bundle(tmp_path / "a.pt", tmp_path / "a.verso")
    stored = [load_bundle(tmp_path / name).lexicon for name in ("a.pt", "a.verso")]
    assert [item and item.to_bytes() for item in stored] == [lexicon.to_bytes()] * 2
    assert load_bundle(toy_bundle).lexicon is None


def test_export_writes_the_form_that_the_suffix_names(toy_checkpoint: Path, toy_bundle: Path, tmp_path: Path) -> None:
    export_bundle(load_checkpoint(toy_checkpoint), "float32", tmp_path / "a.verso", report=lambda line: None)
    convert_bundle(toy_bundle, tmp_path / "b.verso")
    assert (tmp_path / "a.verso").read_bytes() == (tmp_path / "b.verso").read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", [pytest.param(".pt", marks=pytest.mark.slow), ".verso"])
def test_two_processes_write_the_same_bytes_under_any_name(suffix: str, toy_checkpoint: Path, tmp_path: Path) -> None:
    digests = []
    for seed in ("1", "2"):
        out = tmp_path / f"name-{seed}{suffix}"
        command = [sys.executable, "-m", "model", "export", "--checkpoint", str(toy_checkpoint), "--out", str(out)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "--precision", "float32"], env=environment, check=True, capture_output=True)
        digests.append(file_digest(out))
    assert digests[0] == digests[1]


def test_the_command_prints_the_path(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    module = next(command for command in COMMANDS if command.name == "convert").load()
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    out = tmp_path / "toy.pt"
    assert module.run(parser.parse_args([str(data), str(out)])) == 0
    output = capsys.readouterr()
    assert output.out == f"{out}\n"
    assert file_digest(out) in output.err


def test_a_vocabulary_may_have_no_padding_token(
    bundles: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = load_bundle(bundles["float32"][1])
    monkeypatch.setattr(bundle.tokenizer, "pad_id", NO_PAD_ID)
    check_data(bundle.manifest, bundle.tokenizer)
    for wrong in (-2, 10**6):
        monkeypatch.setattr(bundle.tokenizer, "pad_id", wrong)
        with pytest.raises(ArtifactError, match="special tokens"):
            check_data(bundle.manifest, bundle.tokenizer)
