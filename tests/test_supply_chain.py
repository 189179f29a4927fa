"""What is installed for serving: locked with digests, under licences that fit, and listed in a bill of materials."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


def loaded(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    """The script that writes docs/licences.md."""
    return loaded("licences")


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    """The script that writes the bill of materials."""
    return loaded("sbom")


def entries(name: str) -> dict[str, str]:
    """By name: the requirements of a lock file, with their digests."""
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n", 1)[1]
    return {one.split("==")[0]: one for one in re.split(r"\n(?=\S)", lines.strip())}


LOCKS = ("requirements.lock", "requirements-torch.lock", "requirements-compiler.lock")
LOCKED = {name: entry for lock in LOCKS for name, entry in entries(lock).items()}


def test_every_file_that_is_installed_has_a_digest() -> None:
    for name, entry in LOCKED.items():
        first, *digests = (line.strip(" \\") for line in entry.splitlines())
        assert re.fullmatch(r"==[^+*,]+", str(Requirement(first).specifier)), name
        assert digests
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in digests), name


def test_all_locks_have_the_same_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    exact = {one.name: str(one.specifier) for one in map(Requirement, (x for x in lines if not x.startswith("#")))}
    for name, entry in LOCKED.items():
        assert f"=={exact[name].removeprefix('==')}" == str(Requirement(entry.split(" \\")[0]).specifier), name


def test_everything_the_service_needs_is_locked() -> None:
    for file in ("pyproject.toml", "client/pyproject.toml"):
        content = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))
        for line in [*content["project"]["dependencies"], *content["build-system"]["requires"]]:
            assert canonicalize_name(Requirement(line).name) in LOCKED, line
    assert set(entries("requirements-torch.lock")) >= {"torch", "triton"}
    assert set(entries("requirements-compiler.lock")) == {"ziglang"}
    assert not [
        name
        for name in entries("requirements.lock")
        if name.startswith(("torch", "triton", "nvidia-", "cuda-", "ziglang"))
    ]


def test_serving_and_the_image_install_what_is_locked_and_build_without_a_download() -> None:
    for name in ("Makefile", "Dockerfile"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "--no-deps --require-hashes --requirement" in text, name
        assert "--no-deps --no-build-isolation" in text, name


def test_the_page_of_licences_has_the_locked_versions(licences: ModuleType) -> None:
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.+) \|$", licences.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [row for row in rows if row[0] not in ("package", "---")]
    assert [(name, version) for name, version, _ in rows] == sorted(licences.locked()), "run 'make licences'"
    for name, version, licence in rows:
        assert licences.is_accepted(licence), name
        try:
            same = importlib.metadata.version(name).split("+")[0] == version
        except importlib.metadata.PackageNotFoundError:
            continue
        if same:
            assert licences.licence(name) == licence, name


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        ("MIT", True),
        ("GPL-3.0-or-later", False),
        ("AGPL-3.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("MIT AND (BSD-2-Clause OR LGPL-2.1-or-later)", True),
        ("MIT AND (GPL-2.0-only OR AGPL-3.0-only)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("(MIT", False),
        ("", False),
        ("unstated", False),
    ],
)
def test_licences_are_accepted_by_name(expression: str, accepted: bool, licences: ModuleType) -> None:
    assert licences.is_accepted(expression) is accepted


def test_no_tool_of_the_project_is_under_the_gpl_either() -> None:
    names = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    for name in names:
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        stated = [metadata[key][:100] for key in ("License-Expression", "License") if key in metadata]
        stated += [line for line in metadata.get_all("Classifier") or () if line.startswith("License ::")]
        assert not re.search(r"(?<!L)GPL|GNU (Affero )?General", " ".join(stated)), name


def test_the_bill_of_materials_has_what_is_served_and_nothing_else(
    sbom: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def component(name: str, **more: Any) -> dict[str, Any]:
        return {"bom-ref": f"{name}==1", "name": name, "version": "1", **more}

    local = {"type": "distribution", "url": "file:///home/somebody/client"}
    made: dict[str, Any] = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [
            component("PyYAML", externalReferences=[{"type": "website", "url": "https://pyyaml.org"}]),
            component("pytest"),
            component("verso-client", externalReferences=[local]),
        ],
        "dependencies": [
            {"ref": "root", "dependsOn": ["PyYAML==1", "pytest==1"]},
            {"ref": "pytest==1"},
            {"ref": "PyYAML==1"},
        ],
    }

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        assert command[1:4] == ["-m", "cyclonedx_py", "environment"]
        assert command[-1] == "/some/python"
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps(made).encode())

    monkeypatch.setattr(sbom.subprocess, "run", run)
    out = tmp_path / "sbom.cdx.json"
    monkeypatch.setattr(sys, "argv", ["sbom.py", str(out), "--python", "/some/python"])
    assert sbom.main() == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert [one["name"] for one in found["components"]] == ["PyYAML", "verso-client", "swagger-ui-dist", "verso-en-de"]
    assert found["dependencies"] == [
        {"ref": "root", "dependsOn": ["PyYAML==1"]},
        {"ref": "PyYAML==1", "dependsOn": []},
    ]
    assert found["components"][0]["externalReferences"] == made["components"][0]["externalReferences"]
    assert "file:" not in out.read_text(encoding="utf-8")


def test_the_bill_of_a_wheel_has_what_is_in_the_file_with_its_licences(sbom: ModuleType) -> None:
    bill = sbom.wheel_bill("1.2", "0.9")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/verso-translate@1.2"
    assert {one["name"]: one["licenses"] for one in bill["components"]} == {
        "llvm-cxx-runtime": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
        "swagger-ui-dist": [{"license": {"id": "Apache-2.0"}}],
        "verso-en-de": [{"license": {"id": "CC-BY-SA-4.0"}}],
    }
    (dependencies,) = bill["dependencies"]
    assert set(dependencies["dependsOn"]) == {one["bom-ref"] for one in bill["components"]}
