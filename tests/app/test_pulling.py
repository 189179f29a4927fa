"""Models of a hub among the configured bundles, and the process that pulls them."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from app.commands.diagnosis import service
from app.errors import BundleOutside
from app.models.bundles import BundleFiles
from app.models.pulling import pull_bundles
from app.settings import Settings
from model.artifacts.bundle import read_manifest
from model.artifacts.pretrained import preferred_precision
from model.artifacts.pulled import PulledBundles, PulledName
from model.errors import ArtifactError
from model.translator import Translator
from tests.app.fakes import FakeTranslator
from tests.app.test_bundles import write

COMMIT = "0123456789" * 4
NAME = PulledName("Helsinki-NLP/opus-mt-en-fr", COMMIT)
BRANCH = PulledName("Helsinki-NLP/opus-mt-en-fr")


def keep(cache: Path, name: PulledName = NAME) -> Path:
    """Write a bundle where a pull would have put it."""
    bundles = PulledBundles(name, preferred_precision("cpu"), cache)
    bundle = write(bundles.path(COMMIT), "opus-mt-en-fr")
    bundles.record(COMMIT)
    return bundle


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    paths: list[Path] = []
    monkeypatch.setattr(Translator, "load", lambda path, **options: paths.append(path))
    return paths


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(subprocess, "Popen", refuse)


def program(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Run this shell script instead of Python."""
    path = folder / "program.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


@pytest.mark.usefixtures("no_processes")
def test_a_pinned_commit_that_is_in_the_cache_starts_no_process(tmp_path: Path, loaded: list[Path]) -> None:
    bundle = keep(tmp_path)
    other = write(tmp_path / "other" / "a.pt", "a")
    settings = Settings(device="cpu", models=f"{other}, hf:{NAME}", cache_dir=tmp_path)
    BundleFiles(settings).load_configured()
    assert loaded == [other, bundle]


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_a_branch_is_asked_for_by_another_process_whose_messages_are_logged(
    tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bundle = keep(tmp_path / "cache")
    program(monkeypatch, tmp_path, f'echo "one" >&2; echo "warning: $*" >&2; printf "{BRANCH}\\t{bundle}\\n"')
    with caplog.at_level(logging.INFO):
        BundleFiles(Settings(device="cpu", model=f"hf:{BRANCH}", cache_dir=tmp_path / "cache")).load_configured()
    assert loaded == [bundle]
    messages = {record.levelname: record.getMessage() for record in caplog.records}
    assert messages["INFO"] == "one"
    precision = preferred_precision("cpu")
    assert messages["WARNING"].startswith(f"-m model pull {BRANCH} --precision {precision} --cache-dir ")


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'error: no such model' >&2; exit 1", r"^hf:Helsinki-NLP/opus-mt-en-fr: no such model$"),
        ("echo 'Traceback' >&2; exit 3", r"exit code 3, 'Traceback'\); try 'verso pull .*'"),
        ("kill -9 $$", r"it was killed, most likely for lack of memory"),
    ],
)
def test_the_reason_of_a_failure_is_the_process_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    program(monkeypatch, tmp_path, script)
    with pytest.raises(ArtifactError, match=reason):
        pull_bundles([BRANCH], "float32", tmp_path)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ArtifactError, match="'hf:' is not the name of a model"):
        BundleFiles(Settings(device="cpu", model="hf:")).load_configured()


@pytest.mark.usefixtures("no_processes")
def test_only_models_that_the_settings_name_may_be_loaded_again(tmp_path: Path, loaded: list[Path]) -> None:
    bundle = keep(tmp_path)
    source = BundleFiles(Settings(device="cpu", model=f"hf:{NAME}", cache_dir=tmp_path))
    assert source.describe(f"hf:{NAME}", None).manifest.name == "opus-mt-en-fr"
    source.load(source.describe(f"hf:{NAME}", None))
    assert loaded == [bundle]
    for other in ("hf:a/b", bundle.name):
        with pytest.raises(BundleOutside):
            source.load(source.describe(other, None))


@pytest.mark.usefixtures("no_processes")
def test_the_doctor_says_what_is_in_the_cache_and_asks_nobody(tmp_path: Path) -> None:
    settings = Settings(device="cpu", model=f"hf:{BRANCH}", cache_dir=tmp_path)
    (bundle,), check = service.check_bundles(settings, True)
    assert not bundle.built
    assert "a model of a hub, still to be pulled" in check.text
    assert service.check_bundles(settings, False)[1].state == "problem"
    stored = keep(tmp_path, BRANCH)
    (bundle,), check = service.check_bundles(settings, False)
    assert (bundle.name, bundle.path, check.state) == ("opus-mt-en-fr", stored, "ok")
    assert stored.relative_to(tmp_path).as_posix() in service.check_cache(settings).details["bundles"]


@pytest.mark.thorough
def test_the_process_runs_this_package_and_no_other_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "__init__.py").write_text("raise SystemExit('another package')")
    monkeypatch.chdir(tmp_path)
    with socket.socket() as unused:  # bound, but nothing listens
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(ArtifactError, match=r"^hf:Helsinki.* cannot be reached .* contains nothing of it"):
            pull_bundles([BRANCH], "float32", tmp_path / "cache")


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_one_process_pulls_all_models_and_groups_and_each_bundle_keeps_its_place_in_the_list(
    tmp_path: Path, loaded: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache, own = tmp_path / "cache", write(tmp_path / "own.pt", "own")
    english, german = (write(tmp_path / f"{pair}.pt", pair) for pair in ("en-de", "de-en"))
    lines = f"firefox:de-en\\t{german}\\nfirefox:all\\t{german}\\nfirefox:all\\t{english}\\n"
    program(monkeypatch, tmp_path, f"printf '{lines}'; echo \"$*\" >&2")
    settings = Settings(
        device="cpu",
        models=f"firefox:all,{own},firefox:de-en",
        cache_dir=cache,
        firefox_registry="https://mirror.example.com/x",
    )
    with caplog.at_level(logging.INFO):
        BundleFiles(settings).load_configured()
    assert loaded == [german, english, own]
    (message,) = [message for message in caplog.messages if message.startswith("-m model pull ")]
    assert message.startswith("-m model pull firefox:all firefox:de-en --precision ")
    assert message.endswith("--firefox-registry https://mirror.example.com/x")


@pytest.mark.usefixtures("no_processes")
def test_a_pinned_firefox_model_in_the_cache_needs_no_process_and_a_group_is_not_loaded_by_name(
    tmp_path: Path, loaded: list[Path]
) -> None:
    name = PulledName.parse(f"firefox:en-de:{'ab' * 32}")
    bundle = write(PulledBundles(name, preferred_precision("cpu"), tmp_path).path(name.revision), "firefox-en-de")
    source = BundleFiles(Settings(device="cpu", models=f"{name},firefox:all", cache_dir=tmp_path))
    source.load(source.describe(str(name), None))
    assert loaded == [bundle]
    with pytest.raises(BundleOutside):
        source.load(source.describe("firefox:all", None))


@pytest.mark.usefixtures("no_processes")
def test_the_doctor_lists_the_models_of_a_group_that_are_in_the_cache(tmp_path: Path) -> None:
    settings = Settings(device="cpu", models="firefox:all-to-en", cache_dir=tmp_path)
    (bundle,), check = service.check_bundles(settings, True)
    assert not bundle.built
    assert "models of a hub, still to be pulled" in check.text
    for pair in ("de-en", "en-de", "fr-en"):
        bundles = PulledBundles(PulledName.parse(f"firefox:{pair}"), preferred_precision("cpu"), tmp_path)
        write(bundles.path("ab" * 32), f"firefox-{pair}")
        bundles.record("ab" * 32)
    found, check = service.check_bundles(settings, False)
    assert [bundle.name for bundle in found] == ["firefox-de-en", "firefox-fr-en"]
    assert check.state == "ok"
    assert len(service.check_cache(settings).details["bundles"]) == 3


def test_the_doctor_loads_models_one_after_the_other_if_they_need_not_fit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory: list[weakref.ref[FakeTranslator]] = []

    def load(path: Path, **options: Any) -> FakeTranslator:
        assert not [reference for reference in in_memory if reference() is not None]
        translator = FakeTranslator(manifest=read_manifest(path))
        in_memory.append(weakref.ref(translator))
        return translator

    monkeypatch.setattr(Translator, "load", load)
    paths = [write(tmp_path / f"{name}.pt", name) for name in ("a", "b")]
    settings = Settings(device="cpu", models=",".join(map(str, paths)), model_memory=10**9)
    check = service.check_loading(settings)
    assert check.state == "ok"
    assert check.text.startswith("2 models, each loaded alone in ")
