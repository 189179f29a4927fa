"""Which files are served, and which may be loaded later."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from app.errors import BundleNotFound, BundleOutside, SettingsError
from app.models.bundles import BundleFiles
from app.settings import Settings
from model.artifacts.manifest import Precision
from model.errors import ArtifactError
from model.process import devices
from model.translator import Translator
from tests.app.fakes import manifest_of


def write(path: Path, name: str, shortlist: bool = False, precision: Precision = "float32") -> Path:
    """Write a file with a manifest but without a model."""
    manifest = replace(
        manifest_of(name, "en-de"), shortlist={"per_token": 50} if shortlist else {}, precision=precision
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bundle/extra/manifest.json", manifest.to_json())
        if path.suffix == ".verso":
            archive.writestr("bundle/weights.safetensors", b"")
    return path


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Records calls of ``load_bundle`` instead of loading."""
    calls: list[dict[str, Any]] = []

    def load(path: Path, **options: Any) -> Path:
        calls.append({"path": path, **options})
        return path

    monkeypatch.setattr(Translator, "load", load)
    return calls


def files(**settings: Any) -> BundleFiles:
    options: dict[str, Any] = {name: str(value) for name, value in settings.items()}
    return BundleFiles(Settings(device="cpu", **options))


def paths(loaded: list[dict[str, Any]]) -> list[Path]:
    return [call["path"] for call in loaded]


def test_one_bundle_is_loaded_with_all_threads_and_its_digest(
    tmp_path: Path, loaded: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = "ab" * 32
    monkeypatch.setattr("app.models.bundles.usable_threads", lambda expected: expected)
    BundleFiles(Settings(device="cpu", model=str(tmp_path / "x.pt"), threads=3, model_sha256=digest)).load_configured()
    assert loaded == [
        {
            "path": tmp_path / "x.pt",
            "device": "cpu",
            "num_threads": 3,
            "sha256": digest,
            "native": True,
            "shortlist": False,
            "isa": "auto",
            "graphs": True,
        }
    ]


def test_every_bundle_of_a_folder_is_loaded_in_alphabetical_order(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    written = [write(tmp_path / f"{name}.pt", name) for name in ("b", "a", "c")]
    (tmp_path / "notes.txt").write_text("not a bundle")
    files(models=tmp_path).load_configured()
    assert paths(loaded) == sorted(written)


def test_a_folder_may_hold_both_forms(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    scripted, data = write(tmp_path / "b.pt", "b"), write(tmp_path / "a.verso", "a")
    bundles = files(models=tmp_path)
    bundles.load_configured()
    assert paths(loaded) == [data, scripted]
    assert bundles.describe("a.verso", None).manifest.name == "a"
    with pytest.raises(BundleNotFound) as raised:
        bundles.describe("c.verso", None)
    assert raised.value.args[0].count("a.verso") == 1


def test_listed_bundles_are_loaded_in_the_order_of_the_list(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    second, first = write(tmp_path / "a.pt", "a"), write(tmp_path / "deep" / "b.pt", "b")
    files(models=f"{first}, {second},").load_configured()
    assert paths(loaded) == [first, second]


def test_auto_is_the_shipped_translator(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    shipped, own = write(tmp_path / "shipped.pt", "verso-en-de"), write(tmp_path / "own.pt", "own")
    files(models=f"{own},auto", auto_bundle=shipped).load_configured()
    files(auto_bundle=shipped).load_configured()
    assert paths(loaded) == [own, shipped, shipped]


def test_auto_is_built_if_its_bundle_does_not_exist(
    tmp_path: Path, loaded: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, Path]] = []

    def build(device: str, cache_dir: Path, report: Any) -> Path:
        built.append((device, cache_dir))
        return tmp_path / "built.pt"

    monkeypatch.setattr("model.artifacts.pretrained.build_pretrained", build)
    files(cache_dir=tmp_path).load_configured()
    assert built == [("cpu", tmp_path)]
    assert paths(loaded) == [tmp_path / "built.pt"]


def test_a_folder_without_bundles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"VERSO_MODELS is .*: the folder has no \.pt file"):
        files(models=tmp_path).load_configured()
    with pytest.raises(SettingsError, match="names no bundle"):
        files(models=" , ").load_configured()


def test_two_bundles_of_one_name_are_refused_before_either_is_loaded(
    tmp_path: Path, loaded: list[dict[str, Any]]
) -> None:
    write(tmp_path / "a.pt", "same")
    write(tmp_path / "b.pt", "same")
    with pytest.raises(SettingsError, match="two bundles called 'same'") as refused:
        files(models=tmp_path).load_configured()
    assert "a.pt" in str(refused.value) and "b.pt" in str(refused.value)
    assert loaded == []


def test_a_listed_bundle_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    there = write(tmp_path / "a.pt", "a")
    with pytest.raises(ArtifactError, match=r"b\.pt"):
        files(models=f"{there},{tmp_path / 'b.pt'}").load_configured()


def test_a_bundle_loaded_later_uses_one_thread_and_may_be_pinned(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    write(tmp_path / "a.pt", "a")
    later = write(tmp_path / "deep" / "later.pt", "later")
    source = files(models=tmp_path, threads=8)
    assert source.describe("deep/later.pt", None).manifest.name == "later"
    source.load(source.describe("deep/later.pt", "cd" * 32))
    assert loaded == [
        {
            "path": later.resolve(),
            "device": "cpu",
            "num_threads": 1,
            "sha256": "cd" * 32,
            "native": True,
            "shortlist": False,
            "isa": "auto",
            "graphs": True,
        }
    ]


def test_bundles_may_be_loaded_from_the_folders_of_those_listed(tmp_path: Path) -> None:
    first, second = write(tmp_path / "one" / "a.pt", "a"), write(tmp_path / "two" / "b.pt", "b")
    write(tmp_path / "two" / "c.pt", "c")
    assert files(models=f"{first},{second}").describe("c.pt", None).manifest.name == "c"
    assert files(model=second).describe("c.pt", None).manifest.name == "c"
    with pytest.raises(BundleNotFound, match=r"no bundle 'c\.pt'; available: a\.pt"):
        files(model=first).describe("c.pt", None)


def test_the_shipped_translator_may_always_be_loaded(tmp_path: Path) -> None:
    shipped = write(tmp_path / "shipped.pt", "verso-en-de")
    own = write(tmp_path / "own" / "a.pt", "a")
    assert files(models=own, auto_bundle=shipped).describe("auto", None).manifest.name == "verso-en-de"


@pytest.mark.parametrize("file", ["../outside.pt", "/etc/passwd", "{outside}", "link.pt", "sub/../../outside.pt"])
def test_a_bundle_outside_the_folder_is_refused_whether_or_not_it_exists(tmp_path: Path, file: str) -> None:
    outside = write(tmp_path / "outside.pt", "outside")
    write(tmp_path / "in" / "a.pt", "a")
    (tmp_path / "in" / "link.pt").symlink_to(outside)
    source = files(models=tmp_path / "in")
    with pytest.raises(BundleOutside):
        source.describe(file.format(outside=outside), None)
    with pytest.raises(BundleOutside):
        source.load(source.describe(file.format(outside=outside), None))


def test_nothing_may_be_loaded_if_no_folder_is_configured(tmp_path: Path) -> None:
    with pytest.raises(BundleOutside, match="VERSO_MODELS"):
        files().describe("a.pt", None)


@pytest.mark.parametrize("file", ["b.pt", "deep/a.pt", ".", "x" * 900, "a.pt/b.pt"])
def test_a_missing_bundle_is_refused_with_the_existing_ones(tmp_path: Path, file: str) -> None:
    write(tmp_path / "a.pt", "a")
    with pytest.raises(BundleNotFound, match=r"available: a\.pt") as refused:
        files(models=tmp_path).describe(file, None)
    assert len(str(refused.value)) < 400


def test_circular_links_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.pt", "a")
    (tmp_path / "one.pt").symlink_to(tmp_path / "two.pt")
    (tmp_path / "two.pt").symlink_to(tmp_path / "one.pt")
    with pytest.raises(BundleNotFound):
        files(models=f"{tmp_path / 'a.pt'},").describe("one.pt", None)


def test_a_file_that_is_not_a_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(ArtifactError, match="no bundle"):
        files(models=tmp_path).describe("a.pt", None)


def test_shortlists_are_used_if_enabled_and_in_the_bundle(
    tmp_path: Path, loaded: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.pt", "a", shortlist=True)
    write(tmp_path / "b.pt", "b")
    with caplog.at_level("WARNING", logger="app.bundles"):
        files(models=tmp_path, shortlist="on").load_configured()
    assert [call["shortlist"] for call in loaded] == [True, False]
    assert [record.fields for record in caplog.records] == [{"file": "b.pt"}]  # type: ignore[attr-defined]
    loaded.clear()
    files(models=tmp_path).load_configured()
    assert [call["shortlist"] for call in loaded] == [False, False]


def test_enabling_shortlists_that_no_bundle_has_is_refused(tmp_path: Path, loaded: list[dict[str, Any]]) -> None:
    only = write(tmp_path / "a.pt", "a")
    with pytest.raises(
        SettingsError, match=r"VERSO_SHORTLIST is 'on', but .*a\.pt has no shortlist: .*verso shortlist'"
    ):
        files(model=only, shortlist="on").load_configured()
    assert loaded == []


def test_on_a_gpu_shortlists_are_not_used_and_the_log_says_so(
    tmp_path: Path, loaded: list[dict[str, Any]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = write(tmp_path / "a.pt", "a", shortlist=True)
    with caplog.at_level("WARNING", logger="app.bundles"):
        monkeypatch.setattr("model.artifacts.bundle.check_device", lambda device, precision: torch.device(device))
        BundleFiles(Settings(device="cuda", model=str(only), shortlist="on")).load_configured()
    assert "shortlists are not used on a GPU" in caplog.text


def test_a_gpu_that_cannot_be_used_is_a_warning_and_the_cpu_serves(
    tmp_path: Path, loaded: list[dict[str, Any]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstacle = devices.Obstacle("the NVIDIA driver on your system is too old", "update the NVIDIA driver")
    monkeypatch.setattr(devices, "cuda_obstacle", lambda: obstacle)
    monkeypatch.setattr("torch.version.cuda", "13.0")
    with caplog.at_level("INFO", logger="app.bundles"):
        BundleFiles(Settings(device="auto", model=str(write(tmp_path / "a.pt", "a")))).load_configured()
    assert [call["device"] for call in loaded] == ["cpu"]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "the model runs on the CPU, because the NVIDIA driver on your system is too old; to use a GPU, update the "
        "NVIDIA driver"
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("Helsinki-NLP/opus-mt-en-de", "hf:Helsinki-NLP/opus-mt-en-de"), ("en-de", "firefox:en-de")]
)
def test_a_model_of_a_hub_without_its_prefix_is_recognised(name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"write {meant}"):
        BundleFiles(Settings(models=name)).load_configured()
