"""Bundles that are replaced, cut short or deleted on the disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from model.artifacts import bundle as bundle_module
from model.artifacts import pretrained
from model.artifacts.bundle import load_bundle
from model.artifacts.convert import convert_bundle
from model.artifacts.pretrained import build_pretrained
from model.errors import ArtifactError
from tests.server import ROOT, served

TOKEN = "a token of the operator".replace(" ", "-")
FORMS = ("toy.pt", "toy.verso")


@pytest.fixture
def bundle(request: pytest.FixtureRequest, toy_bundle: Path, tmp_path: Path) -> Path:
    """A copy of the toy in the form of the parameter."""
    path: Path = tmp_path / "bundles" / request.param
    path.parent.mkdir()
    if path.suffix == ".pt":
        shutil.copy(toy_bundle, path)
    else:
        convert_bundle(toy_bundle, path)
    return path


def damage(path: Path) -> None:
    """Write over the whole file, and cut it short, in place."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)
        file.truncate(size // 2)


@pytest.mark.faults
@pytest.mark.parametrize("bundle", FORMS, indirect=True)
def test_a_bundle_damaged_on_disk_is_served_on_and_refused_when_it_is_loaded_again(bundle: Path) -> None:
    full = bundle.read_bytes()
    with served(bundle.parent, VERSO_ADMIN_TOKEN=TOKEN, VERSO_CACHE_BYTES="0") as server:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        texts = ["cat sees dog.", "red house.", "old tree likes cat."]
        before = server.translate(text=texts)["translations"]
        question = {"text": texts[0], "source": "en", "target": "de"}
        mapped = Path(f"/proc/{server.popen.pid}/maps")
        if mapped.exists():
            assert bundle.name not in mapped.read_text()

        damage(bundle)
        assert server.translate(text=texts)["translations"] == before
        # The first use of torch's network, which is made of the weights in memory.
        assert server.client.post("/attention", json=question).json()["translation"] == before[0]["text"]
        bundle.unlink()
        assert server.translate(text=texts)["translations"] == before

        bundle.write_bytes(full)
        damage(bundle)
        assert server.client.delete("/admin/models/toy", headers=headers).status_code == 200
        refused = server.client.post("/admin/models", json={"file": bundle.name}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "bundle_refused")
        assert server.client.get("/livez").status_code == 200

        bundle.write_bytes(full)
        assert server.client.post("/admin/models", json={"file": bundle.name}, headers=headers).status_code == 201
        assert server.translate(text=texts)["translations"] == before


@pytest.mark.faults
@pytest.mark.parametrize("bundle", FORMS, indirect=True)
def test_a_start_with_a_damaged_bundle_ends_with_one_line(bundle: Path) -> None:
    damage(bundle)
    environment = {**os.environ, "VERSO_MODEL": str(bundle), "VERSO_PORT": "0", "VERSO_DEVICE": "cpu"}
    ran = subprocess.run([sys.executable, "-m", "app"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1
    (line,) = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    assert line.startswith("verso: cannot start: ") and bundle.name in line


@pytest.mark.parametrize("bundle", FORMS, indirect=True)
def test_a_bundle_that_is_replaced_while_it_is_loaded_is_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra_files = bundle_module.extra_files

    def replacing(path: Path) -> dict[str, bytes]:
        other = path.with_suffix(".new")
        shutil.copy(path, other)
        os.replace(other, path)
        return extra_files(path)

    with monkeypatch.context() as patched:
        patched.setattr(bundle_module, "extra_files", replacing)
        with pytest.raises(ArtifactError, match="was changed while it was loaded"):
            load_bundle(bundle)
    assert load_bundle(bundle).manifest.name == "toy"


@pytest.mark.faults
def test_the_kept_bundle_of_the_shipped_translator_is_built_again_if_it_is_damaged(
    tmp_path: Path, toy_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained, "PRETRAINED", toy_checkpoint)
    reports: list[str] = []

    def built() -> Path:
        reports.clear()
        return build_pretrained("cpu", tmp_path, precision="float32", report=reports.append)

    path = built()
    assert reports
    full = path.read_bytes()
    assert built() == path and not reports
    middle = len(full) // 2
    flipped = full[:middle] + bytes([full[middle] ^ 1]) + full[middle + 1 :]
    for damaged in (b"", full[:middle], flipped):  # the first is what a power cut may leave
        path.write_bytes(damaged)
        assert built() == path and reports
        assert path.read_bytes() == full
