"""Models by name, from a hub on this machine."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub.constants
import pytest

from model.__main__ import main
from model.artifacts.bundle import read_manifest
from model.artifacts.pulled import PulledName
from model.errors import ArtifactError
from model.importing.folder import needed_files
from model.importing.hub import HubUnreachable
from model.importing.pull import Puller
from model.translator import Translator
from tests.hub import FakeHub, running_hub
from tests.model.importing.checkpoints import make_m2m100, make_marian

ROOT = Path(__file__).resolve().parents[3]
NAME = "Helsinki-NLP/opus-mt-en-de"
CARD = "---\nlicense: cc-by-4.0\n---\nA model.\n"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny OPUS-MT model, among files that Verso does not need."""
    folder = tmp_path_factory.mktemp("hub") / "marian"
    make_marian(folder)
    (folder / "README.md").write_text(CARD)
    for other in ("tf_model.h5", "rust_model.ot", "pytorch_model.bin", ".gitattributes", "notes.md"):
        (folder / other).write_bytes(b"not needed")
    return folder


@pytest.fixture
def hub(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


class Pulls:
    """Pulls into one cache folder, and keeps what was reported."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.said: list[str] = []

    def __call__(self, name: str = NAME, precision: Any = "float32") -> Path:
        self.said.clear()
        return Puller(PulledName.parse(name), precision, self.cache, report=self.said.append).to_cache()

    def warnings(self) -> list[str]:
        return [line for line in self.said if line.startswith("warning: ")]


@pytest.fixture
def pull(tmp_path: Path) -> Pulls:
    return Pulls(tmp_path / "cache")


def test_a_name_becomes_a_bundle_that_translates(hub: FakeHub, checkpoint: Path, pull: Pulls) -> None:
    commit = hub.add(NAME, checkpoint)
    bundle = pull()
    manifest = read_manifest(bundle)
    assert manifest.name == "opus-mt-en-de"
    assert manifest.licence == "cc-by-4.0"
    assert manifest.attribution == (f"{hub.address}/{NAME}, commit {commit}",)
    assert manifest.precision == "float32"
    assert commit in bundle.name
    assert f"{NAME}: commit {commit}" in pull.said[0]
    assert pull.said[1] == "licence of the weights: cc-by-4.0"
    (translation,) = Translator.load(bundle, device="cpu", num_threads=1).translate(["Hello world."], target="de")
    assert translation.text


def test_only_the_files_that_are_needed_are_downloaded_and_none_is_kept(
    hub: FakeHub, checkpoint: Path, pull: Pulls
) -> None:
    hub.add(NAME, checkpoint)
    bundle = pull()
    assert sorted(hub.downloads()) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "tokenizer_config.json",
        "vocab.json",
    ]
    remaining = [path for path in bundle.parent.rglob("*") if path.is_file() and path.name != ".lock"]
    assert sorted(path.suffix for path in remaining) == [".commit", ".pt"]


def test_a_model_of_many_languages_without_safetensors_is_pulled(hub: FakeHub, tmp_path: Path, pull: Pulls) -> None:
    import torch

    folder = tmp_path / "nllb"
    weights = make_m2m100(folder, nllb=True).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    hub.add("facebook/nllb", folder)
    manifest = read_manifest(pull("facebook/nllb"))
    assert len(manifest.languages) > 2
    assert "warning: cc-by-nc-4.0 forbids commercial use" in pull.said


@pytest.mark.parametrize("full", ["model.safetensors", "pytorch_model.bin"])
def test_weights_in_parts_are_found_and_safetensors_preferred(full: str) -> None:
    stem, suffix = full.split(".")
    parts = [f"{stem}-0000{number}-of-00002.{suffix}" for number in (1, 2)]
    there = ["config.json", f"{full}.index.json", *parts, "flax_model.msgpack"]
    assert needed_files(there) == (["config.json", f"{full}.index.json"], parts)
    assert needed_files([*there, "model.safetensors"])[1] == ["model.safetensors"]


def test_a_second_pull_downloads_nothing_and_a_pinned_one_asks_nobody(
    hub: FakeHub, checkpoint: Path, pull: Pulls
) -> None:
    commit = hub.add(NAME, checkpoint)
    bundle = pull()
    hub.asked.clear()
    assert pull() == bundle
    assert [request.path for request in hub.asked] == [f"/api/models/{NAME}/revision/main"]
    hub.asked.clear()
    assert pull(f"{NAME}@{commit}") == bundle
    assert pull(f"hf:{NAME}@{commit.upper()}") == bundle
    assert hub.asked == []


def test_without_a_hub_the_cache_serves_with_a_warning_that_names_the_commit(
    checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        commit = hub.add(NAME, checkpoint)
        bundle = pull()
    assert pull() == bundle
    (warning,) = pull.warnings()
    assert f"{hub.address} cannot be reached" in warning
    assert f"commit {commit[:12]} of {NAME}" in warning
    assert pull(f"{NAME}@{commit}") == bundle
    assert pull.said == []
    with pytest.raises(HubUnreachable, match=r"contains only [0-9a-f]{12} in another revision or precision"):
        pull(f"{NAME}@v2")
    with pytest.raises(HubUnreachable, match=r"contains nothing of it\. Run 'verso pull a/b' on a machine"):
        pull("a/b")


def test_the_hub_is_not_asked_where_it_must_not_be(
    hub: FakeHub, checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, checkpoint)
    bundle = pull()
    hub.asked.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    from huggingface_hub.utils import reset_sessions

    reset_sessions()
    try:
        assert pull() == bundle
        assert len(pull.warnings()) == 1
    finally:
        monkeypatch.undo()
        reset_sessions()
    assert hub.asked == []


def test_a_branch_that_moved_is_pulled_again_and_a_pinned_commit_stays(
    hub: FakeHub, checkpoint: Path, tmp_path: Path, pull: Pulls
) -> None:
    old = hub.add(NAME, checkpoint)
    first = pull()
    newer = shutil.copytree(checkpoint, tmp_path / "newer")
    (newer / "README.md").write_text(CARD.replace("cc-by-4.0", "apache-2.0"))
    new = hub.add(NAME, newer)
    second = pull()
    assert old in first.name and new in second.name
    assert read_manifest(second).licence == "apache-2.0"
    assert pull(f"{NAME}@{old}") == first
    hub.repositories[NAME].branches["v1"] = old
    assert pull(f"{NAME}@v1") == first
    # Each name remembers its own commit.
    hub.status = 503
    assert pull(f"{NAME}@v1") == first
    assert pull() == second
    assert "503" in pull.warnings()[0]


def test_precisions_are_kept_apart(hub: FakeHub, checkpoint: Path, pull: Pulls) -> None:
    hub.add(NAME, checkpoint)
    assert read_manifest(pull(precision="float32")).precision == "float32"
    assert read_manifest(pull(precision="bfloat16")).precision == "bfloat16"


def test_an_interrupted_download_continues_where_it_ended(
    hub: FakeHub, checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    hub.add(NAME, checkpoint)
    hub.cuts["model.safetensors"] = [50_000, 0]
    with pytest.raises(HubUnreachable, match=r"what was downloaded .* is kept, and the next attempt continues there"):
        pull()
    hub.asked.clear()
    pull()
    (weights,) = [request for request in hub.asked if request.path.startswith("/large/")]
    assert weights.path.endswith("model.safetensors")
    assert weights.start >= 49_000


def test_a_lost_connection_does_not_end_a_pull(
    hub: FakeHub, checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    hub.add(NAME, checkpoint)
    hub.cuts["model.safetensors"] = [50_000, 50_000]
    pull()
    starts = [
        request.start for request in hub.asked if request.method == "GET" and request.path.endswith("model.safetensors")
    ]
    assert starts == [0, 50_000, 100_000]
    assert pull.said.count("the connection was lost; model.safetensors continues where it ended") == 2


@pytest.mark.parametrize("file", ["model.safetensors", "vocab.json"])
def test_a_damaged_file_is_refused_and_downloaded_again(hub: FakeHub, checkpoint: Path, pull: Pulls, file: str) -> None:
    hub.add(NAME, checkpoint)
    hub.damaged.add(file)
    with pytest.raises(
        ArtifactError, match=rf"^{file} was damaged during the download: its SHA.* It was deleted"
    ) as refused:
        pull()
    assert "\n" not in str(refused.value)
    hub.damaged.clear()
    assert pull().is_file()


def test_a_missing_model_and_a_missing_revision_are_told_apart(hub: FakeHub, checkpoint: Path, pull: Pulls) -> None:
    with pytest.raises(ArtifactError, match=r"has no model a/b, or it is private: .* HF_TOKEN"):
        pull("a/b")
    hub.add(NAME, checkpoint)
    with pytest.raises(ArtifactError, match=rf"^{NAME} has no commit, tag or branch 'v9'; {hub.address}/{NAME} lists"):
        pull(f"{NAME}@v9")
    assert not list(pull.cache.rglob("*.pt"))


@pytest.mark.parametrize(
    ("locked", "reason"),
    [("gated", r"is gated: accept its terms at .*HF_TOKEN"), ("private", r"or it is private")],
)
def test_a_model_that_needs_a_token_is_pulled_with_one(
    hub: FakeHub, checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch, locked: str, reason: str
) -> None:
    hub.add(NAME, checkpoint, locked=locked)
    with pytest.raises(ArtifactError, match=reason):
        pull()
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert pull().is_file()


def test_a_token_without_the_right_is_named(hub: FakeHub, pull: Pulls) -> None:
    hub.status = 403
    with pytest.raises(ArtifactError, match=r"does not let you read a/b: set HF_TOKEN"):
        pull("a/b")


def test_of_a_model_of_another_family_only_the_description_is_downloaded(
    hub: FakeHub, checkpoint: Path, tmp_path: Path, pull: Pulls
) -> None:
    folder = shutil.copytree(checkpoint, tmp_path / "bert")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    hub.add("google/bert", folder)
    with pytest.raises(ArtifactError, match=r"^google/bert: config\.json has model_type .bert.; 'marian' .* 'm2m_100'"):
        pull("google/bert")
    assert "model.safetensors" not in hub.downloads()


def test_a_model_without_weights_for_verso_is_refused(
    hub: FakeHub, checkpoint: Path, tmp_path: Path, pull: Pulls
) -> None:
    folder = shutil.copytree(checkpoint, tmp_path / "tensorflow")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").unlink()
    hub.add("a/tensorflow", folder)
    with pytest.raises(ArtifactError, match="a/tensorflow contains no weights"):
        pull("a/tensorflow")


def test_a_full_disk_is_found_before_the_weights_are_downloaded(
    hub: FakeHub, checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, checkpoint)
    free = (checkpoint / "model.safetensors").stat().st_size * 3 // 2
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(ArtifactError, match=r"needs \d+ MB in .* and 0 MB are free"):
        pull()
    assert "model.safetensors" not in hub.downloads()


def test_a_cache_that_cannot_be_written_serves_what_it_holds(
    hub: FakeHub, checkpoint: Path, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.add(NAME, checkpoint)
    bundle = pull()

    def refuse(path: Path, *arguments: Any, **options: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    # Permissions would not do: root, as which tests may run, can write everywhere.
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr("model.artifacts.pulled.write_file", refuse)
    assert pull() == bundle
    hub.repositories[NAME].branches["v1"] = commit
    assert pull(f"{NAME}@v1") == bundle
    assert pull.said == [f"note: the commit of {NAME}@v1, {commit[:12]}, cannot be recorded: Read-only file system"]
    hub.add(NAME, checkpoint)
    with pytest.raises(ArtifactError, match="cannot be written: mount it writable"):
        pull()


def test_a_hub_that_names_no_commit_is_refused(hub: FakeHub, checkpoint: Path, pull: Pulls) -> None:
    hub.add(NAME, checkpoint)
    repository = hub.repositories[NAME]
    repository.branches["main"] = "../../elsewhere"
    repository.commits["../../elsewhere"] = checkpoint
    with pytest.raises(ArtifactError, match="does not say which commit"):
        pull()


def test_a_cache_folder_that_cannot_be_made_is_named(hub: FakeHub, checkpoint: Path, tmp_path: Path) -> None:
    hub.add(NAME, checkpoint)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match=r"the cache folder .*file.* cannot be written"):
        Pulls(tmp_path / "file" / "cache")()


@pytest.mark.parametrize(
    "name", ["", "a/b/c", "../etc", "a/..", "a--b/c", "a/b@", "a/b@x@y", "a/b@../c", "a b/c", "https://x.y/a/b"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="is not the name of a model; write hf:OWNER/NAME"):
        PulledName.parse(name)


def test_a_revision_may_have_slashes_and_stays_in_its_folder(hub: FakeHub, checkpoint: Path, pull: Pulls) -> None:
    hub.add(NAME, checkpoint, branch="refs/pr/1")
    bundle = pull(f"{NAME}@refs/pr/1")
    assert {path.parent for path in pull.cache.rglob("*.commit")} == {bundle.parent}


def test_the_command_prints_the_path_of_the_bundle(
    hub: FakeHub, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(NAME, checkpoint)
    assert main(["pull", NAME, "--cache-dir", str(tmp_path), "--precision", "float32"]) == 0
    output = capsys.readouterr()
    assert Path(output.out.strip()).is_file()
    assert "licence of the weights: cc-by-4.0" in output.err
    assert main(["pull", "a/b", "--cache-dir", str(tmp_path), "--precision", "float32"]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_directions_are_chosen_for_a_bundle_of_its_own(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_marian(tmp_path / "many", multilingual=True)
    hub.add("a/many", tmp_path / "many")
    arguments = ["pull", "a/many", "--cache-dir", str(tmp_path / "cache"), "--pair", "en-fr"]
    assert main(arguments) == 1
    assert "add --out FILE" in capsys.readouterr().err
    assert main([*arguments, "--out", str(tmp_path / "fr.pt"), "--precision", "float32"]) == 0
    assert read_manifest(tmp_path / "fr.pt").pairs == (("en", "fr"),)
    assert not list((tmp_path / "cache").rglob("*.pt"))


@pytest.mark.slow
@pytest.mark.thorough
def test_a_pull_ends_with_the_program_that_started_it(hub: FakeHub, checkpoint: Path, tmp_path: Path) -> None:
    hub.add(NAME, checkpoint)
    # Waits for a lock that this test holds, as during a long download.
    from huggingface_hub.utils import WeakFileLock

    folder = tmp_path / "hub" / NAME.replace("/", "--")
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "model", "pull", NAME, "--precision", "float32", "--end-with-input"]
    with WeakFileLock(folder / ".lock"):
        process = subprocess.Popen(
            [*command, "--cache-dir", str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(120) != 0
