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
    return {item.split("==")[0]: item for item in re.split(r"\n(?=\S)", lines.strip())}


LOCKS = ("locks/service.lock", "locks/torch.lock", "locks/compiler.lock")
OPTIONAL_LOCKS = ("locks/ray.lock", "locks/mcp.lock", "locks/sbom.lock")
LOCKED = {name: entry for lock in LOCKS for name, entry in entries(lock).items()}


@pytest.mark.parametrize("lock", LOCKS + OPTIONAL_LOCKS)
def test_every_file_that_is_installed_has_a_digest(lock: str) -> None:
    for name, entry in entries(lock).items():
        first, *digests = (line.strip(" \\") for line in entry.splitlines())
        assert re.fullmatch(r"==[^+*,]+", str(Requirement(first).specifier)), name
        assert digests
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in digests), name


def test_all_locks_have_the_same_versions() -> None:
    lines = (ROOT / "locks/constraints.txt").read_text(encoding="utf-8").splitlines()
    exact = {item.name: str(item.specifier) for item in map(Requirement, (x for x in lines if not x.startswith("#")))}
    for lock in LOCKS + OPTIONAL_LOCKS:
        for name, entry in entries(lock).items():
            version = str(Requirement(entry.split(" \\")[0]).specifier)
            assert f"=={exact[name].removeprefix('==')}" == version, (lock, name)


def test_everything_the_service_needs_is_locked() -> None:
    for file in ("pyproject.toml", "client/pyproject.toml"):
        content = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))
        for line in [*content["project"]["dependencies"], *content["build-system"]["requires"]]:
            assert canonicalize_name(Requirement(line).name) in LOCKED, line
    assert set(entries("locks/torch.lock")) >= {"torch", "triton"}
    assert set(entries("locks/compiler.lock")) == {"ziglang"}
    assert not [
        name
        for name in entries("locks/service.lock")
        if name.startswith(("torch", "triton", "nvidia-", "cuda-", "ziglang"))
    ]


def test_the_image_installs_nothing_without_a_digest() -> None:
    commands = re.findall(r"pip install (.*)", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert len(commands) >= 5
    for command in commands:
        assert command.startswith(("--no-deps --require-hashes --requirement", "--no-deps --no-build-isolation . ")), (
            command
        )


def test_images_are_named_by_digest() -> None:
    images = [item.replace("${PYTHON}", default) for item, default in base_images()]
    compose_files = (
        *ROOT.glob("*compose*.yml"),
        *(ROOT / "deploy").rglob("*compose*.yml"),
        *(ROOT / "deploy").rglob("*.yaml"),
    )
    for file in compose_files:
        images += re.findall(r"^\s*image: (\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    others = [item for item in images if not re.fullmatch(OWN_IMAGE, item)]
    assert len(others) == 4
    for image in others:
        assert re.fullmatch(r"(python|nginx):\d+\.\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image), image


OWN_IMAGE = r"verso(:cpu|:gpu|-ray)|\$\{VERSO_IMAGE:-verso:cpu\}"
"""Images that are built from this repository."""


def base_images() -> list[tuple[str, str]]:
    """The images that the Dockerfile begins with, and the value of its argument PYTHON."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (default,) = re.findall(r"^ARG PYTHON=(\S+)$", text, re.MULTILINE)
    return [(image, default) for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE)]


@pytest.mark.slow
@pytest.mark.parametrize("lock", OPTIONAL_LOCKS)
def test_the_index_has_the_files_that_are_locked(lock: str, tmp_path: Path) -> None:
    """pip downloads each of them, compares its digest and resolves nothing."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--no-deps", "--require-hashes", "--dry-run", "--ignore-installed", "--only-binary=:all:"]
    process = subprocess.run(
        [*pip, "install", *options, "--target", str(tmp_path), "--requirement", lock],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "Would install" in process.stdout


def test_the_page_of_licences_has_the_locked_versions(licences: ModuleType) -> None:
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.+) \|$", licences.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [row for row in rows if row[0] not in ("package", "---")]
    assert [(name, version) for name, version, _ in rows] == sorted(licences.locked()), (
        "run 'python -m scripts.licences'"
    )
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
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("MIT AND (BSD-2-Clause OR LGPL-2.1-or-later)", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("(MIT", False),
        ("unstated", False),
    ],
)
def test_licences_are_accepted_by_name(expression: str, accepted: bool, licences: ModuleType) -> None:
    assert licences.is_accepted(expression) is accepted


def test_no_tool_of_the_project_is_under_the_gpl_either() -> None:
    names = re.findall(r"^([\w.-]+)==", (ROOT / "locks/constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
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
    product: dict[str, Any] = {
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
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps(product).encode())

    monkeypatch.setattr(sbom.subprocess, "run", run)
    out = tmp_path / "sbom.cdx.json"
    monkeypatch.setattr(sys, "argv", ["sbom.py", str(out), "--python", "/some/python"])
    assert sbom.main() == 0
    body = json.loads(out.read_text(encoding="utf-8"))
    assert [item["name"] for item in body["components"]] == [
        "PyYAML",
        "verso-client",
        "swagger-ui-dist",
        "verso-en-de",
        "lid.176",
    ]
    assert body["dependencies"] == [
        {"ref": "root", "dependsOn": ["PyYAML==1"]},
        {"ref": "PyYAML==1", "dependsOn": []},
    ]
    assert body["components"][0]["externalReferences"] == product["components"][0]["externalReferences"]
    assert "file:" not in out.read_text(encoding="utf-8")


def test_the_bill_of_a_wheel_has_what_is_in_the_file_with_its_licences(sbom: ModuleType) -> None:
    bill = sbom.wheel_bill("1.2", "0.9")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/verso-translate@1.2"
    assert {component["name"]: component["licenses"] for component in bill["components"]} == {
        "llvm-cxx-runtime": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
        "swagger-ui-dist": [{"license": {"id": "Apache-2.0"}}],
        "verso-en-de": [{"license": {"id": "CC-BY-SA-4.0"}}],
        "lid.176": [{"license": {"id": "CC-BY-SA-3.0"}}],
    }
    (dependencies,) = bill["dependencies"]
    assert set(dependencies["dependsOn"]) == {item["bom-ref"] for item in bill["components"]}
