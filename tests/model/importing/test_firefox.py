"""Firefox's models by name, from a registry on this machine. The import itself is replaced: files become a manifest."""

from __future__ import annotations

import gzip
import hashlib
import random
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.models.pulling import pull_bundles
from model.__main__ import main
from model.artifacts.bundle import read_manifest
from model.artifacts.pulled import PulledName
from model.errors import ArtifactError
from model.importing.hub import HubUnreachable
from model.importing.pull import Hubs, Puller, pull_all
from model.translator import Translator
from tests.app.fakes import MANIFEST
from tests.firefox_registry import FakeRegistry, running_registry
from tests.model.importing.marian_nmt.files import make_student

NAME = "firefox:en-de"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture(autouse=True)
def imports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, bytes]]:
    """The files of each folder that was imported. A file of weights that begins with "bad" is refused."""
    folders: list[dict[str, bytes]] = []

    def stand_in(path: Path, out: Path, precision: Any, *, overrides: Any, **fields: Any) -> None:
        folders.append({file.name: file.read_bytes() for file in path.iterdir()})
        if any(content.startswith(b"bad") for content in folders[-1].values()):
            raise ArtifactError(f"{path} is refused.")
        chosen = {name: fields[name] for name in ("name", "licence", "attribution")}
        manifest = replace(MANIFEST, pairs=overrides.pairs, precision=precision, **chosen)
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("bundle/extra/manifest.json", manifest.to_json())
            archive.writestr("bundle/weights.safetensors", b"")

    monkeypatch.setattr("model.importing.importer.import_checkpoint", stand_in)
    return folders


class Pulls:
    """Pulls into one cache folder from one registry, and keeps what was reported."""

    def __init__(self, cache: Path, address: str) -> None:
        self.cache, self.address = cache, address
        self.said: list[str] = []

    def __call__(self, *names: str) -> list[Path]:
        self.said.clear()
        hubs = Hubs(self.said.append, self.address)
        parsed = [PulledName.parse(name) for name in names or (NAME,)]
        return [path for _, path in pull_all(parsed, "float32", self.cache, hubs, report=self.said.append)]

    def warnings(self) -> list[str]:
        return [line for line in self.said if line.startswith("warning: ")]


@pytest.fixture
def pull(tmp_path: Path, registry: FakeRegistry) -> Pulls:
    return Pulls(tmp_path / "cache", registry.address)


def test_a_name_becomes_a_bundle_with_its_licence_and_origin(
    registry: FakeRegistry, pull: Pulls, imports: list[dict[str, bytes]]
) -> None:
    entry = registry.add("en", "de")
    (bundle,) = pull()
    manifest = read_manifest(bundle)
    assert manifest.name == "firefox-en-de-tiny"
    assert manifest.licence == "MPL-2.0"
    assert manifest.pairs == (("en", "de"),)
    assert manifest.attribution == (
        f"Firefox Translations, Mozilla: {registry.address}/{entry['files']['model']['path']}",
    )
    assert bundle.relative_to(pull.cache).parts[:2] == ("firefox", "en-de")
    assert bundle.name.startswith(entry["files"]["model"]["uncompressedHash"])
    assert "licence of the weights: MPL-2.0" in pull.said
    (files,) = imports
    assert sorted(files) == ["model.ende.intgemm.alphas.bin", "vocab.ende.spm"]
    assert files["vocab.ende.spm"] == b"a vocabulary"
    remaining = sorted(path.suffix for path in pull.cache.rglob("*") if path.is_file() and path.name != ".lock")
    assert remaining == [".commit", ".verso"]


def test_two_vocabularies_keep_their_sides(
    registry: FakeRegistry, pull: Pulls, imports: list[dict[str, bytes]]
) -> None:
    registry.add("en", "ja", split=True)
    registry.add("en", "zh_hant", split=True)
    bundles = pull("firefox:en-ja", "firefox:en-zh-Hant")
    assert [sorted(files)[1:] for files in imports] == [
        ["srcvocab.enja.spm", "trgvocab.enja.spm"],
        ["srcvocab.enzh_hant.spm", "trgvocab.enzh_hant.spm"],
    ]
    assert read_manifest(bundles[1]).pairs == (("en", "zh-Hant"),)


@pytest.mark.parametrize(
    ("published", "name", "chosen"),
    [
        ({"tiny": "Release", "base-memory": "Release"}, "firefox:en-de", "base-memory"),
        ({"tiny": "Release Android", "base": "Release Desktop", "base-memory": "Release"}, "firefox:en-de", "base"),
        ({"tiny": "Release", "base": "Nightly"}, "firefox:en-de", "tiny"),
        ({"tiny": None, "base": "Nightly"}, "firefox:en-de:best", "base"),
        ({"tiny": "Release", "base": "Nightly"}, "firefox:en-de:base", "base"),
        ({"tiny": "Nightly", "base": "Release"}, "FIREFOX:EN-DE:Tiny".replace("FIREFOX", "firefox"), "tiny"),
    ],
)
def test_the_best_released_architecture_is_pulled_unless_one_is_named(
    registry: FakeRegistry, pull: Pulls, published: dict[str, str | None], name: str, chosen: str
) -> None:
    for architecture, status in published.items():
        registry.add("en", "de", architecture, status=status)
    (bundle,) = pull(name)
    assert read_manifest(bundle).name == f"firefox-en-de-{chosen}"


def test_a_second_pull_downloads_nothing_and_a_pinned_one_asks_nobody(registry: FakeRegistry, pull: Pulls) -> None:
    digest = registry.add("en", "de")["files"]["model"]["uncompressedHash"]
    (bundle,) = pull()
    registry.requests.clear()
    assert pull() == [bundle]
    assert registry.requests == [("/mirror/db/models.json", 0)]
    registry.requests.clear()
    assert pull(f"{NAME}:{digest.upper()}") == [bundle]
    assert registry.requests == []


def test_without_a_registry_the_cache_serves_with_a_warning(registry: FakeRegistry, pull: Pulls) -> None:
    registry.add("en", "de")
    registry.add("de", "en")
    english, german = pull(NAME, "firefox:de-en")
    registry.status = 503
    assert pull() == [english]
    (warning,) = pull.warnings()
    assert "cannot be reached (it answered with status 503)" in warning
    assert "version " in warning and "of firefox:en-de, pulled on" in warning
    registry.requests.clear()
    assert pull("firefox:all") == [german, english]
    assert len(registry.requests) == 1, "a lack of network is waited for once"
    assert pull("firefox:all-from-en") == [english]
    with pytest.raises(HubUnreachable, match=r"contains nothing of it\. Run 'verso pull firefox:en-fr' on a machine"):
        pull("firefox:en-fr")
    with pytest.raises(HubUnreachable, match="status 503"):
        pull("firefox:all-to-fr")


def test_a_group_is_every_pair_of_its_side_and_one_bad_model_does_not_stop_it(
    registry: FakeRegistry, pull: Pulls
) -> None:
    for source, target in (("en", "de"), ("de", "en"), ("en", "fr")):
        registry.add(source, target)
    registry.add("fr", "en", "base")
    registry.add("en", "zh_hant", weights=b"bad weights")

    def pairs(name: str) -> list[tuple[str, str]]:
        return [read_manifest(bundle).pairs[0] for bundle in pull(name)]

    assert pairs("firefox:all-from-en") == [("en", "de"), ("en", "fr")]
    (warning,) = pull.warnings()
    assert warning.startswith("warning: firefox:en-zh-hant is left out: firefox:en-zh-hant is refused")
    assert pairs("firefox:all-to-en:tiny") == [("de", "en")]
    assert len(pairs("firefox:all")) == 4
    with pytest.raises(ArtifactError, match="firefox:all-to-zh names no model"):
        pull("firefox:all-to-zh")


def test_an_interrupted_download_continues_where_it_ended(registry: FakeRegistry, pull: Pulls) -> None:
    weights = random.Random(1).randbytes(100_000)
    registry.add("en", "de", weights=weights)
    registry.cuts["alphas.bin.gz"] = [40_000, 20_000, 0]
    with pytest.raises(HubUnreachable, match=r"what was downloaded of firefox:en-de is kept"):
        pull()
    (bundle,) = pull()
    assert bundle.is_file()
    starts = [start for path, start in registry.requests if path.endswith("alphas.bin.gz")]
    assert starts == [0, 40_000, 60_000, 60_000]
    assert registry.downloads().count("vocab.ende.spm.gz") == 1


def test_a_file_that_changed_meanwhile_is_downloaded_from_its_beginning(registry: FakeRegistry, pull: Pulls) -> None:
    registry.add("en", "de", weights=random.Random(1).randbytes(100_000))
    registry.cuts["alphas.bin.gz"] = [40_000, 0]
    with pytest.raises(HubUnreachable):
        pull()
    (partial,) = pull.cache.rglob("*.incomplete")
    partial.write_bytes(b"of another file" * 10)
    assert pull()[0].is_file()
    assert any("damaged" in line and line.endswith("It is downloaded from its beginning.") for line in pull.said)


def damage(registry: FakeRegistry, entry: dict[str, Any], kind: str) -> None:
    """Serve something else than the registry states."""
    path = entry["files"]["model"]["path"]
    content = gzip.decompress(registry.files[path])
    registry.files[path] = {
        "another content": gzip.compress(bytes(byte ^ 1 for byte in content)),
        "cut short": registry.files[path][:-9],
        "no gzip": content,
        "a bomb": gzip.compress(bytes(len(content) * 1000)),
        "a shorter file": gzip.compress(content[:-1]),
        "a huge file": bytes(random.Random(1).randbytes(len(content) * 100)),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("another content", r"was damaged during the download: its SHA256"),
        ("cut short", r"was damaged during the download \(Compressed file ended"),
        ("no gzip", r"was damaged during the download \(Not a gzipped file"),
        ("a bomb", r"inflates to more than the \d+ bytes that it may have"),
        ("a shorter file", r"has \d+ bytes, and the registry states \d+"),
        ("a huge file", r"has more than the \d+ bytes that it may have"),
    ],
)
def test_weights_that_are_not_as_stated_are_refused_and_not_kept(
    registry: FakeRegistry, pull: Pulls, imports: list[dict[str, bytes]], kind: str, message: str
) -> None:
    entry = registry.add("en", "de")
    good = dict(registry.files)
    damage(registry, entry, kind)
    with pytest.raises(ArtifactError, match=message) as refused:
        pull()
    assert "\n" not in str(refused.value)
    assert imports == []
    assert [path.name for path in pull.cache.rglob("model.*")] == []
    registry.files = good
    assert pull()[0].is_file()


def test_a_vocabulary_is_bounded(registry: FakeRegistry, pull: Pulls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.importing.firefox._MAX_VOCABULARY_BYTES", 5_000)
    registry.add("en", "de", vocabulary=bytes(100_000))
    with pytest.raises(ArtifactError, match=r"vocab\.ende\.spm inflates to more than the 5000 bytes"):
        pull()
    assert "model.ende.intgemm.alphas.bin.gz" not in registry.downloads()


def test_missing_files_and_models_are_named(registry: FakeRegistry, pull: Pulls) -> None:
    entry = registry.add("en", "de")
    with pytest.raises(ArtifactError, match=r"has no model en-xx; it has 1 pairs \(en-de, \.\.\.\)"):
        pull("firefox:en-xx")
    with pytest.raises(ArtifactError, match="has no model base of en-de; it has tiny"):
        pull("firefox:en-de:base")
    del registry.files[entry["files"]["vocab"]["path"]]
    with pytest.raises(ArtifactError, match=r"vocab\.ende\.spm\.gz is not there, or may not be read \(status 404\)"):
        pull()


@pytest.mark.parametrize(
    "change",
    [
        {"sourceLanguage": "../en"},
        {"sourceLanguage": None},
        {"targetLanguage": "de/../../x"},
        {"architecture": "../tiny"},
        {"files": []},
        {"files": {"model": {"path": "https://192.0.2.1/model.gz"}}},
        {"files.model.path": "../../etc/passwd.gz"},
        {"files.model.path": "/etc/passwd.gz"},
        {"files.model.path": "a//b.gz"},
        {"files.model.path": "//192.0.2.1/b.gz"},
        {"files.model.path": "a/../b.gz"},
        {"files.model.path": "a/b.gz?x=1"},
        {"files.model.path": "a\\b.gz"},
        {"files.model.path": "a" * 600 + ".gz"},
        {"files.model.uncompressedSize": 10**12},
        {"files.model.uncompressedSize": -1},
        {"files.model.uncompressedSize": "10"},
        {"files.model.uncompressedHash": None},
        {"files.model.uncompressedHash": "../" + "a" * 61},
        {"files.vocab.path": "file:///etc/passwd"},
        {"files.vocab": None},
    ],
)
def test_a_model_whose_entry_is_not_of_the_expected_form_does_not_exist(
    registry: FakeRegistry, pull: Pulls, change: dict[str, Any]
) -> None:
    registry.add("de", "en")
    entry: Any = registry.add("en", "de")
    ((field, value),) = change.items()
    *parents, last = field.split(".")
    for parent in parents:
        entry = entry[parent]
    entry[last] = value
    with pytest.raises(ArtifactError, match=r"has no model en-de"):
        pull()
    assert registry.downloads() == []
    assert len(pull("firefox:all")) == 1


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"models": []}', b"\xff", b"[" * 100_000])
def test_what_is_no_registry_is_refused(registry: FakeRegistry, pull: Pulls, content: bytes) -> None:
    registry.redirects["db/models.json"] = f"{registry.address}/other"
    registry.files["other"] = content
    with pytest.raises(ArtifactError, match="is it a registry of Firefox's models"):
        pull()


def test_a_compressed_index_is_read_and_a_large_one_refused(
    registry: FakeRegistry, pull: Pulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.redirects["db/models.json"] = "/mirror/other"
    registry.files["other"] = gzip.compress(b'{"models": {}}' + b" " * 5000)
    with pytest.raises(ArtifactError, match="has no model en-de; it has 0 pairs"):
        pull()
    monkeypatch.setattr("model.importing.firefox._MAX_INDEX_BYTES", 4000)
    with pytest.raises(ArtifactError, match="more than the 4000 bytes that a registry may have"):
        pull()


@pytest.mark.parametrize("elsewhere", ["http://192.0.2.1/", "http://localhost:1/", "ftp://127.0.0.1/", "file:///etc/"])
def test_redirects_to_another_host_are_not_followed(registry: FakeRegistry, pull: Pulls, elsewhere: str) -> None:
    path = registry.add("en", "de")["files"]["vocab"]["path"]
    registry.redirects[path] = f"{elsewhere}vocab.ende.spm.gz"
    with pytest.raises(ArtifactError, match=r"redirects to another .*, which is not followed"):
        pull()


def test_files_come_from_the_registrys_own_address_whatever_its_base_url_says(
    registry: FakeRegistry, pull: Pulls
) -> None:
    registry.add("en", "de")  # the index names a host that does not exist
    assert pull()[0].is_file()
    assert {path.partition("/")[0] for path in registry.files} == {"models"}


@pytest.mark.parametrize("address", ["file:///tmp", "ftp://x/y", "mirror", "https://"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    name = PulledName.parse(NAME)
    with pytest.raises(ArtifactError, match="is not the address of a registry"):
        Puller(name, "float32", tmp_path, hubs=Hubs(print, address)).to_cache()


@pytest.mark.parametrize(
    "name",
    [
        *("firefox:", "firefox:en", "firefox:en-de:huge", "firefox:en-de@main", "firefox:../x-de", "firefox:en-de/x"),
        *("firefox:all-en", "firefox:all-from-", f"firefox:all:{'a' * 64}", f"firefox:en-de:{'g' * 64}"),
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="is not the name of a model; write firefox:en-de"):
        PulledName.parse(name)


def test_the_command_pulls_several_names_and_lists_the_registry(
    registry: FakeRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add("en", "de", weights=bytes(17_000_000))
    entry = registry.add("de", "en", "base-memory", status="\x1b[2J")
    entry["metrics"]["flores200-plus"] |= {"\x1b[2J": 1.0, "a list": [1], "not a number": float("nan")}
    monkeypatch.setenv("VERSO_FIREFOX_REGISTRY", registry.address)
    assert main(["pull", "--list", "firefox"]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    listed = [line.split() for line in output.splitlines()]
    assert listed[0][:5] == ["firefox:de-en:base-memory", "0", "MB", "no", "status"]
    assert listed[0][5:] == listed[1][4:]
    assert listed[1] == ["firefox:en-de:tiny", "17", "MB", "Release", "bleu", "38.8,", "comet22", "0.857"]
    options = ["--cache-dir", str(tmp_path), "--precision", "float32"]
    assert main(["pull", "firefox:de-en", "firefox:all-from-en", "--with-names", *options]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == ["firefox:de-en", "firefox:all-from-en"]
    assert all(Path(path).is_file() for _, path in lines)
    assert main(["pull", *options]) == 1
    assert "Name a model" in capsys.readouterr().err
    assert main(["pull", "firefox:all", "--out", str(tmp_path / "x.pt"), *options]) == 1
    assert "--out FILE is for one model" in capsys.readouterr().err


def test_the_digest_of_the_weights_is_the_version(registry: FakeRegistry, pull: Pulls) -> None:
    first = registry.add("en", "de", weights=b"first" * 10)
    (old,) = pull()
    registry.models["en-de"].clear()
    registry.add("en", "de", weights=b"second" * 10)
    (new,) = pull()
    assert old != new
    assert new.name.startswith(hashlib.sha256(b"second" * 10).hexdigest())
    assert pull(f"{NAME}:{first['files']['model']['uncompressedHash']}") == [old]


@pytest.mark.thorough
def test_a_real_model_is_pulled_by_a_process_and_translates(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_student(tmp_path / "made")
    registry.add(
        "en",
        "de",
        weights=(tmp_path / "made" / "model.ende.intgemm.alphas.bin").read_bytes(),
        vocabulary=(tmp_path / "made" / "vocab.ende.spm").read_bytes(),
    )
    registry.add("de", "en", weights=b"no model of Marian")
    monkeypatch.chdir(tmp_path)
    name, group = PulledName.parse(NAME), PulledName.parse("firefox:all")
    paths = pull_bundles([name, group], "float32", tmp_path / "cache", registry.address)
    assert paths[group] == paths[name]
    (bundle,) = paths[name]
    assert read_manifest(bundle).licence == "MPL-2.0"
    (translation,) = Translator.load(bundle, num_threads=1).translate(["The pharmacy is on the corner."], target="de")
    assert translation.text
    with pytest.raises(ArtifactError, match=r"^firefox:de-en: "):
        pull_bundles([PulledName.parse("firefox:de-en")], "float32", tmp_path / "cache", registry.address)
