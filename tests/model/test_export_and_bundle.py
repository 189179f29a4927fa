from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.artifacts import bundle as bundle_module
from model.artifacts import compare as compare_module
from model.artifacts import pretrained as pretrained_module
from model.artifacts.bundle import is_checkpoint, load_bundle, read_manifest
from model.artifacts.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from model.artifacts.compare import LOGIT_BOUNDS
from model.artifacts.convert import convert_bundle
from model.artifacts.export import export_bundle
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.pretrained import build_pretrained, preferred_precision
from model.artifacts.scripted import int8_layers
from model.decoding.native.library import load_library
from model.errors import ArtifactError, DeviceError
from model.network import quantised as quantised_module
from model.network.quantised import activation_levels, int8_is_supported
from model.translator import Translator
from tests.archives import of_two_disks

LOWER: list[Precision] = ["float16", "bfloat16", *(["int8"] if int8_is_supported() else [])]  # type: ignore[list-item]


def quiet(line: str) -> None:
    """Discards progress messages."""


def rewrite(source: Path, target: Path, name: str, content: bytes | None) -> Path:
    """Write a copy of an archive with one member changed or omitted."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.namelist():
            if not member.endswith(name):
                new.writestr(member, old.read(member))
            elif content is not None:
                new.writestr(member, content)
    return target


def test_the_scripted_model_equals_the_eager_one(toy_checkpoint: Path, toy_bundle: Path) -> None:
    eager = load_checkpoint(toy_checkpoint).build()
    module = load_bundle(toy_bundle).module
    source = torch.tensor([[4, 5, 6, 7, 3], [4, 9, 3, 0, 0]])
    target = torch.tensor([[2, 8, 9, 10], [2, 11, 12, 0]])
    with torch.inference_mode():
        torch.testing.assert_close(module.forward(source, target), eager(source, target), atol=1e-4, rtol=0)
        for first, other in zip(module.attend(source, target), eager.attend(source, target), strict=True):
            torch.testing.assert_close(first, other, atol=1e-5, rtol=0)


def test_the_manifest_contains_the_measurements(toy_bundle: Path) -> None:
    manifest = read_manifest(toy_bundle)
    assert (manifest.name, manifest.precision, manifest.licence) == ("toy", "float32", "CC0")
    assert set(manifest.pairs) == {("en", "de"), ("de", "en")}
    assert (manifest.max_source_tokens, manifest.max_target_tokens) == (24, 64)
    report = manifest.precision_report
    assert report["max_logit_error"] <= 1e-4
    assert report["identical_to_float32"] + report["ties"] == report["sentences"] == 40
    assert manifest.training["max_steps"] == 400


@pytest.mark.parametrize("precision", LOWER)
def test_lower_precisions_are_measured_bounded_and_usable(
    precision: Precision, toy_checkpoint: Path, tmp_path: Path
) -> None:
    path = tmp_path / "lower.pt"
    manifest = export_bundle(load_checkpoint(toy_checkpoint), precision, path, report=quiet)
    assert 0 < manifest.precision_report["rms_logit_error"] <= compare_module.LOGIT_BOUNDS[precision]
    for full, this in manifest.precision_report["greedy_bleu_float32_and_this"].values():
        assert full - this <= compare_module.BLEU_BOUND
    assert load_bundle(path).manifest == manifest


def test_a_bundle_contains_no_path_of_the_machine_that_made_it(toy_bundle: Path) -> None:
    here = str(Path(compare_module.__file__).parents[1]).encode()
    with zipfile.ZipFile(toy_bundle) as archive:
        for member in archive.namelist():
            assert here not in archive.read(member), member


def test_nothing_is_written_if_the_logits_differ(
    toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compare_module.LOGIT_BOUNDS, "bfloat16", 1e-9)
    with pytest.raises(ArtifactError, match="nothing was written"):
        export_bundle(load_checkpoint(toy_checkpoint), "bfloat16", tmp_path / "stray.pt", report=quiet)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_if_bleu_drops(
    toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_module, "BLEU_BOUND", -1.0)
    with pytest.raises(ArtifactError, match="BLEU"):
        export_bundle(load_checkpoint(toy_checkpoint), "float16", tmp_path / "stray.pt", report=quiet)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_writable_is_named(toy_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="could not be written"):
        export_bundle(load_checkpoint(toy_checkpoint), "float32", tmp_path / "file" / "x.pt", report=quiet)


def test_a_missing_bundle_is_named_with_the_command_that_makes_one(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no bundle at .*nowhere\.pt.*verso export"):
        load_bundle(tmp_path / "nowhere.pt")


def test_a_truncated_bundle_is_refused(toy_bundle: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pt"
    cut.write_bytes(toy_bundle.read_bytes()[:-2000])
    with pytest.raises(ArtifactError, match="cut short"):
        load_bundle(cut)


def test_a_bundle_with_a_changed_byte_is_refused(toy_bundle: Path, tmp_path: Path) -> None:
    data = bytearray(toy_bundle.read_bytes())
    with zipfile.ZipFile(toy_bundle) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
    data[largest.header_offset + 200] ^= 0xFF
    changed = tmp_path / "changed.pt"
    changed.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"checksum of .* is wrong"):
        load_bundle(changed)


def test_a_bundle_of_several_disks_is_refused_by_all_that_reads_it(toy_bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "disks.pt"
    path.write_bytes(of_two_disks(toy_bundle.read_bytes()))
    for read in (bundle_module.read_tokenizer, bundle_module.extra_files, bundle_module.is_checkpoint, load_bundle):
        with pytest.raises(ArtifactError, match="cut short"):
            read(path)


def test_a_bundle_without_its_first_bytes_is_refused_by_all_that_reads_it(toy_bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pt"
    # Offsets of members that begin before the file does are no BadZipFile.
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/extra/source.spm", b"x")
        archive.writestr("toy/extra/manifest.json", read_manifest(toy_bundle).to_json())
    path.write_bytes(path.read_bytes()[10:])
    for read in (bundle_module.read_tokenizer, bundle_module.extra_files, load_bundle):
        with pytest.raises(ArtifactError, match="damaged"):
            read(path)


def test_a_vocabulary_that_is_too_large_is_not_unpacked(
    toy_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy/extra/source.spm", b"\0" * 1_000_001)
    monkeypatch.setattr(bundle_module, "MAX_FILE_BYTES", 1_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it is unpacked"))
    with pytest.raises(ArtifactError, match="1000001 bytes; it may have 1000000"):
        bundle_module.extra_files(path)


def test_a_wrong_digest_is_refused_before_any_code_runs(toy_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.jit, "load", lambda *args, **options: pytest.fail("the file was loaded"))
    with pytest.raises(ArtifactError, match=r"SHA-256 .* is required"):
        load_bundle(toy_bundle, sha256="0" * 64)


def test_the_digest_is_case_insensitive(toy_bundle: Path) -> None:
    digest = load_bundle(toy_bundle).sha256
    assert load_bundle(toy_bundle, sha256=digest.upper()).sha256 == digest


def test_a_foreign_torchscript_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(path))
    with pytest.raises(ArtifactError, match="not a Verso bundle"):
        load_bundle(path)


def test_a_bundle_of_another_model_is_refused_with_the_missing_methods(toy_bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    files = {**bundle_module.extra_files(toy_bundle), "manifest.json": read_manifest(toy_bundle).to_json()}
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(path), _extra_files=files)
    with pytest.raises(ArtifactError, match="another model: it has no encode, project_memory, step, attend; export"):
        load_bundle(path)


def test_a_checkpoint_instead_of_a_bundle_is_refused(toy_checkpoint: Path, toy_bundle: Path) -> None:
    assert is_checkpoint(toy_checkpoint)
    assert not is_checkpoint(toy_bundle)
    with pytest.raises(ArtifactError, match="not a Verso bundle"):
        load_bundle(toy_checkpoint)


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"format_version": 99}, "format version 99 and this release reads up to 3"),
        ({"format": "other"}, "not a Verso bundle"),
        ({"pairs": None}, "wrong: pairs: Input should be a valid array"),
        ({"max_source_tokens": "24"}, "wrong: max_source_tokens: Input should be a valid integer"),
        ({"architecture": []}, "wrong: architecture: Input should be"),
        ({"precision": "int4"}, "wrong: precision: Input should be 'float32'"),
        ({"fold_capitals": 1}, "wrong: fold_capitals: Input should be a valid boolean"),
    ],
)
def test_a_newer_foreign_or_incomplete_manifest_is_refused(
    change: dict[str, object], output: str, toy_bundle: Path, tmp_path: Path
) -> None:
    values = {**json.loads(read_manifest(toy_bundle).to_json()), **change}
    path = rewrite(toy_bundle, tmp_path / "x.pt", "manifest.json", json.dumps(values).encode())
    with pytest.raises(ArtifactError, match=output):
        load_bundle(path)


def test_a_manifest_that_is_not_json_is_refused(toy_bundle: Path, tmp_path: Path) -> None:
    path = rewrite(toy_bundle, tmp_path / "x.pt", "manifest.json", b"{")
    with pytest.raises(ArtifactError, match="damaged"):
        load_bundle(path)


def test_code_that_torch_cannot_run_is_an_artifact_error(toy_bundle: Path, tmp_path: Path) -> None:
    path = rewrite(toy_bundle, tmp_path / "x.pt", "model/network/transformer.py", b"def (:")
    with zipfile.ZipFile(toy_bundle) as archive:
        member = next(name for name in archive.namelist() if "transformer" in name)
    path = rewrite(toy_bundle, tmp_path / "y.pt", member, b"def (:")
    with pytest.raises(ArtifactError, match="export it again"):
        load_bundle(path)


@pytest.mark.parametrize("device", ["tpu", "mps", "nonsense:3"])
def test_an_unknown_device_is_named(device: str, toy_bundle: Path) -> None:
    with pytest.raises(DeviceError, match=device):
        load_bundle(toy_bundle, device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused(toy_bundle: Path) -> None:
    with pytest.raises(DeviceError, match=r"The device is cuda, but .* Use cpu, or install"):
        load_bundle(toy_bundle, "cuda")


@pytest.mark.parametrize("form", [".pt", ".verso"])
def test_an_int8_bundle_on_a_gpu_is_expanded_to_float16(
    form: str, toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "toy.pt"
    checkpoint = load_checkpoint(toy_checkpoint)
    export_bundle(checkpoint, "int8", path, report=lambda line: None)
    if form == ".verso":
        convert_bundle(path, tmp_path / "toy.verso")
        path = tmp_path / "toy.verso"
    sources = [remaining for remaining, _ in checkpoint.facts["dev_sample"]][:20]
    expected = Translator.load(path, native=False).translate(sources, target="de")
    int8 = load_bundle(path)

    # As on a GPU, but on the CPU, which computes in float16, too.
    monkeypatch.setattr(bundle_module, "served_precision", lambda precision, location: "float16")
    bundle = load_bundle(path)
    assert bundle.manifest == replace(int8.manifest, precision="float16")
    assert bundle.sha256 == int8.sha256
    assert list(int8_layers(bundle.module)) == []
    assert {weight.dtype for weight in bundle.module.parameters()} == {torch.float16}
    source, target = torch.tensor([[4, 5, 6, 7, 3], [4, 9, 3, 0, 0]]), torch.tensor([[2, 8, 9, 10], [2, 11, 12, 0]])
    difference = bundle.module.forward(source, target).float() - int8.module.forward(source, target)
    assert difference.square().mean().sqrt() < LOGIT_BOUNDS["int8"]
    answers = Translator.load(path, native=False).translate(sources, target="de")
    assert sum(a.text == b.text for a, b in zip(answers, expected, strict=True)) >= 18


def test_a_bfloat16_bundle_is_expanded_to_float32_without_a_change_of_its_weights(
    toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "toy.pt"
    export_bundle(load_checkpoint(toy_checkpoint), "bfloat16", path, report=lambda line: None)
    before = dict(load_bundle(path).module.named_parameters())
    monkeypatch.setattr(bundle_module, "served_precision", lambda precision, target: "float32")
    bundle = load_bundle(path)
    assert bundle.manifest.precision == "float32"
    for name, weight in bundle.module.named_parameters():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, before[name].float())


def test_int8_is_not_compared_on_a_gpu(toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.artifacts.export.check_device", lambda device, precision: torch.device(device))
    with pytest.raises(DeviceError, match="export it with --device cpu"):
        export_bundle(load_checkpoint(toy_checkpoint), "int8", tmp_path / "toy.pt", device="cuda")


def test_a_processor_without_products_of_bytes_serves_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained_module, "torch_multiplies_bytes", lambda: False)
    assert preferred_precision("cpu") == ("int8" if load_library() is not None else "float32")
    monkeypatch.setattr(pretrained_module, "load_library", lambda: None)
    assert preferred_precision("cpu") == "float32"
    assert preferred_precision("cuda") == "float16"


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="there is nothing to compare")
def test_an_int8_bundle_gives_the_same_answers_with_the_int8_engine_of_arm(
    toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "toy.pt"
    checkpoint = load_checkpoint(toy_checkpoint)
    export_bundle(checkpoint, "int8", path, report=lambda line: None)
    sources = [remaining for remaining, _ in checkpoint.facts["dev_sample"]]
    source, target = torch.tensor([[4, 5, 6, 7, 3], [4, 9, 3, 0, 0]]), torch.tensor([[2, 8, 9, 10], [2, 11, 12, 0]])
    expected = load_bundle(path).module.forward(source, target)
    levels = activation_levels()  # fewer without VNNI
    answers = Translator.load(path).translate(sources, target="de")

    monkeypatch.setattr(quantised_module, "torch_multiplies_bytes", lambda: False)
    monkeypatch.setattr(bundle_module, "torch_multiplies_bytes", lambda: False)
    monkeypatch.setattr(torch.backends.quantized, "engine", "qnnpack")
    module = load_bundle(path).module
    for layer in int8_layers(module):
        layer.levels = levels
    assert torch.equal(module.forward(source, target), expected)
    assert Translator.load(path).translate(sources, target="de") == answers


def test_the_shipped_translator_is_built_once_and_rebuilt_after_a_change(
    toy_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "toy.pt"
    shutil.copy(toy_checkpoint, shipped)
    monkeypatch.setattr(pretrained_module, "PRETRAINED", shipped)
    news: list[str] = []
    path = build_pretrained("cpu", tmp_path / "cache", precision="float32", report=news.append)
    assert load_bundle(path).manifest.name == "toy"
    assert any("building" in line for line in news)
    news.clear()
    assert build_pretrained("cpu", tmp_path / "cache", precision="float32", report=news.append) == path
    assert news == []
    checkpoint: Checkpoint = load_checkpoint(shipped)
    save_checkpoint(replace(checkpoint, facts={**checkpoint.facts, "name": "other"}), shipped)
    other = build_pretrained("cpu", tmp_path / "cache", precision="float32", report=news.append)
    assert other != path
    assert Manifest.from_json(read_manifest(other).to_json()).name == "other"
    shipped.unlink()
    with pytest.raises(ArtifactError, match="shipped weights are missing"):
        build_pretrained("cpu", tmp_path / "cache", precision="float32", report=quiet)


def test_no_kernels_are_compiled_for_a_loaded_bundle(toy_bundle: Path) -> None:
    torch._C._jit_override_can_fuse_on_gpu(True)
    load_bundle(toy_bundle)
    assert not torch._C._jit_can_fuse_on_gpu()
