"""Wheels with the compiled decoder inside, and the compiler that builds them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from model.decoding.native import compiler

ROOT = Path(__file__).resolve().parents[1]
NATIVE = "model/decoding/native"


@pytest.fixture(scope="module")
def build_wheels() -> ModuleType:
    """The script that builds wheels."""
    spec = importlib.util.spec_from_file_location("build_wheels", ROOT / "scripts" / "build_wheels.py")
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The programs on the PATH, on Linux; the package ziglang is not installed."""
    result: set[str] = set()
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name in result else None)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compiler, "ZIG", "no_such_package")
    return result


@pytest.fixture
def install_ziglang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Path]:
    """A function that installs a package of that kind and returns its program, which prints its environment."""

    def install() -> Path:
        package = tmp_path / "zig_of_a_test"
        package.mkdir()
        (package / "__init__.py").touch()
        program = package / "zig"
        program.write_text('#!/bin/sh\necho "$ZIG_GLOBAL_CACHE_DIR $ZIG_LOCAL_CACHE_DIR"\n')
        program.chmod(0o755)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(compiler, "ZIG", package.name)
        return program

    return install


def sources_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the sources to a folder, from which they are then compiled."""
    original = compiler.FOLDER
    shutil.copytree(original, folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("FOLDER", "DECODER", "KERNELS"):
        monkeypatch.setattr(compiler, name, folder / getattr(compiler, name).relative_to(original))
    return folder


def test_compilers_are_looked_for_in_the_documented_order(
    programs: set[str], install_ziglang: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install_ziglang()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    zig = (str(program), "c++", "-target", "x86_64-linux-gnu.2.17", "-s", "-Wl,-Bsymbolic")
    assert compiler.find_compiler() == zig
    for name in ("clang++", "g++", "c++"):
        programs.add(name)
        assert compiler.find_compiler() == (f"/bin/{name}",)
    monkeypatch.setenv("CXX", "ccache g++-12")
    assert compiler.find_compiler() == ("/bin/c++",)  # there is no ccache
    programs.add("ccache")
    assert compiler.find_compiler() == ("/bin/ccache", "g++-12")


def test_without_any_compiler_the_message_names_all_that_were_looked_for(programs: set[str]) -> None:
    with pytest.raises(
        compiler.NoCompiler, match=r"c\+\+, g\+\+, clang\+\+\) on the PATH, and the package .* not installed"
    ):
        compiler.find_compiler()


def test_the_compiler_of_the_package_is_for_linux_only(
    programs: set[str], install_ziglang: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ziglang()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(compiler.NoCompiler):
        compiler.find_compiler()


def test_the_compiler_of_the_package_writes_nothing_to_the_home_directory(
    programs: set[str], install_ziglang: Callable[[], Path]
) -> None:
    install_ziglang()
    first, second = compiler.compiler_version(compiler.find_compiler()).split()
    assert first == second
    assert not Path(first).is_relative_to(Path.home())
    assert not Path(first).parent.exists()  # a temporary folder


@pytest.mark.parametrize("installed", [True, False])
def test_installation_asks_whether_a_compiler_is_missing(
    installed: bool, programs: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    if installed:
        programs.add("g++")
        compiler.main(["--find"])
        assert capsys.readouterr().out == "/bin/g++\n"
    else:
        with pytest.raises(SystemExit, match="no C\\+\\+ compiler"):
            compiler.main(["--find"])


def test_a_library_is_named_after_its_sources_and_processor_and_not_after_where_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = {machine: compiler.library_name(machine) for machine in ("x86_64", "aarch64")}
    assert names["x86_64"] != names["aarch64"]
    assert compiler.library_name() == compiler.library_name(platform.machine())
    assert names["x86_64"] == compiler.library_name("AMD64")
    copy = sources_in(tmp_path / "native", monkeypatch)
    assert compiler.library_name("x86_64") == names["x86_64"]
    header = copy / "kernels.h"
    header.write_text(header.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert compiler.library_name("x86_64") != names["x86_64"]


@pytest.mark.parametrize("machine", [None, "x86_64", "AMD64", "aarch64", "arm64"])
def test_a_library_has_every_unit_of_its_kind_of_processor(
    machine: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled: list[str] = []

    def run(command: compiler.Compiler, arguments: list[str], folder: Path) -> str:
        compiled.append(Path(arguments[arguments.index("-o") + 1]).name)
        return ""

    monkeypatch.setattr(compiler, "_run", run)
    compiler.compile_library(tmp_path / "decoder.so", (), ("c++",), machine)
    sets = compiler.sets(machine or platform.machine())
    assert sorted(compiled) == sorted([*(f"{name}.o" for name in sets), "decoder.o", "decoder.so"])
    assert machine is None or len(sets) >= 3


def test_the_library_beside_its_sources_is_used_without_a_compiler(
    programs: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources_in(tmp_path / "native", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(compiler.NoCompiler):
        compiler.build_library()
    library = tmp_path / "native" / compiler.library_name()
    library.touch()
    assert compiler.build_library() == library


@pytest.mark.slow
@pytest.mark.thorough
def test_a_wheel_has_its_library_and_its_sources_for_one_platform_and_the_same_bytes_each_time(
    build_wheels: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    name = compiler.library_name("aarch64")
    wheels = []
    for folder, umask in (("one", 0o022), ("two", 0o077)):
        project = tmp_path / folder / "project"
        before = os.umask(umask)
        try:
            build_wheels.copy_project(project)
            (project / "model" / "pretrained" / "verso-en-de.pt").write_bytes(b"stub")  # it takes a second to compress
            (project / NATIVE / name).write_bytes(b"a library")
            (project / build_wheels.BILL).write_text("a bill", encoding="utf-8")
            wheels.append(build_wheels.pack(project, "manylinux_2_17_aarch64", tmp_path / folder / "dist"))
        finally:
            os.umask(before)
    assert hashlib.sha256(wheels[0].read_bytes()).digest() == hashlib.sha256(wheels[1].read_bytes()).digest()
    assert wheels[0].name.endswith("-py3-none-manylinux_2_17_aarch64.whl")
    with zipfile.ZipFile(wheels[0]) as wheel:
        files = set(wheel.namelist())
        assert [file for file in files if file.endswith(".so")] == [f"{NATIVE}/{name}"]
        (about,) = (file for file in files if file.endswith(".dist-info/WHEEL"))
        assert b"Root-Is-Purelib: false\nTag: py3-none-manylinux_2_17_aarch64\n" in wheel.read(about)
        folder = about.rpartition("/")[0]
        assert wheel.read(f"{folder}/sboms/{build_wheels.BILL}") == b"a bill"
        assert f"{folder}/sboms/{build_wheels.BILL},sha256=" in wheel.read(f"{folder}/RECORD").decode()
        assert_licences(wheel, ROOT)
    tracked = subprocess.run(["git", "ls-files", "app", "model"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(tracked.stdout.split()) - files
    assert not [file for file in files if file.split("/")[0] in ("tests", "scripts", "client", "benchmarks")]


def assert_licences(wheel: zipfile.ZipFile, project: Path) -> None:
    """The wheel states the licences of its project and has each of the files."""
    stated = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    folder = metadata.rpartition("/")[0]
    assert f"\nLicense-Expression: {stated['license']}\n" in wheel.read(metadata).decode()
    licences = {name.removeprefix(f"{folder}/licenses/") for name in wheel.namelist() if "/licenses/" in name}
    assert licences == set(stated["license-files"])
    for name in licences:
        assert wheel.read(f"{folder}/licenses/{name}") == (project / name).read_bytes()


@pytest.mark.thorough
def test_the_wheel_of_the_client_has_its_licence(tmp_path: Path) -> None:
    project = tmp_path / "client"
    shutil.copytree(ROOT / "client", project, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    code = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, capture_output=True)
    (path,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        assert_licences(wheel, ROOT / "client")
        assert "verso_client/py.typed" in wheel.namelist()


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None or importlib.util.find_spec("auditwheel") is None,
    reason="needs the extra 'compiler' and the group 'wheel'",
)
def test_both_wheels_are_built_twice_with_the_same_bytes_and_the_one_for_this_machine_decodes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = [sys.executable, "scripts/build_wheels.py", "--out"]
    for folder in ("one", "two"):
        subprocess.run([*script, str(tmp_path / folder)], cwd=ROOT, env=environment, check=True)
    wheels = sorted((tmp_path / "one").iterdir())
    assert len(wheels) == 2
    for wheel in wheels:
        assert wheel.read_bytes() == (tmp_path / "two" / wheel.name).read_bytes()
    (here,) = (wheel for wheel in wheels if platform.machine() in wheel.name)
    with zipfile.ZipFile(here) as archive:
        archive.extractall(tmp_path / "installed")
    code = "from model.decoding.native.library import find_library as f; import model; print(model.__file__, f())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert str(tmp_path / "installed") in process.stdout
    assert compiler.library_name() in process.stdout
