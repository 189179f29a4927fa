"""The compiled decoder's ARM kernels give the answers of this machine's, and ``replay.cpp`` notices another answer."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from model.decoding.native import compiler, library
from scripts import test_arm
from tests.model.test_native import needs_library
from tests.native import replay
from tests.native.answers import record

FLOAT_BYTES = 4


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "recording"
    record(path)
    return path


def test_every_architecture_has_its_own_sets_and_the_portable_one() -> None:
    assert list(compiler.sets("aarch64")) == ["neon-i8mm", "neon-dotprod", "portable"]
    assert [unit.name for unit in compiler.units("aarch64")] == ["neon-i8mm", "neon-dotprod", "portable", "decoder"]
    assert {*compiler.sets("x86_64"), *compiler.sets("aarch64")} == {*compiler.SET_NAMES}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("x86_64", "x86-64"), ("AMD64", "x86-64"), ("aarch64", "aarch64"), ("arm64", "aarch64"), ("riscv64", None)],
)
def test_a_machine_is_recognised_by_any_name_of_its_architecture(
    machine: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiler.architecture(machine) == expected
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert (library.processor_reason() is None) == (expected is not None)


def test_a_missing_tool_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert test_arm.main([]) == 3
    assert "not installed: g++-aarch64-linux-gnu and qemu-user" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/gcc" if "g++" in name else None)
    assert test_arm.main([]) == 3
    assert "not installed: qemu-user (" in capsys.readouterr().err


@needs_library
@pytest.mark.slow
def test_every_set_of_this_machine_gives_the_recorded_answers(recording: Path) -> None:
    finished = replay.replay(replay.build(), recording)
    assert finished.status == 0, (finished.lines, finished.errors)
    result = library.load_library()
    assert result is not None
    assert finished.sets == tuple(
        instruction_set.name for instruction_set in library.instruction_sets(result) if instruction_set.lacking is None
    )


@needs_library
@pytest.mark.slow
def test_avx_vnni_gives_the_recorded_answers_in_the_encoding_of_avx_512(recording: Path) -> None:
    result = library.load_library()
    assert result is not None
    lacking = {instruction_set.name: instruction_set.lacking for instruction_set in library.instruction_sets(result)}
    if reason := lacking.get("avx512-vnni", "x86-64"):
        pytest.skip(f"this processor has no {reason}")
    finished = replay.replay(replay.build(more_flags=[replay.EVEX]), recording)
    assert finished.status == 0, (finished.lines, finished.errors)
    assert "avx-vnni" in finished.sets


@needs_library
@pytest.mark.slow
def test_a_recording_with_another_answer_is_noticed(recording: Path, tmp_path: Path) -> None:
    content = bytearray(recording.read_bytes())
    last_logit = len(content) - 2 * FLOAT_BYTES  # the end mark follows
    content[last_logit] ^= 2
    other = tmp_path / "other"
    other.write_bytes(content)
    finished = replay.replay(replay.build(), other)
    assert finished.status == 1
    assert any("logits 0 differs" in line for line in finished.lines)
    other.write_bytes(content[:-100])
    finished = replay.replay(replay.build(), other)
    assert (finished.status, finished.errors) == (2, "the recording is cut off\n")


@needs_library
@pytest.mark.slow
@pytest.mark.parametrize("model", replay.SETS_OF_MODELS)
def test_every_arm_set_gives_the_recorded_answers(model: str, recording: Path) -> None:
    try:
        cross_compiler, emulator = replay.find_arm_tools()
    except replay.CannotReplay as error:
        pytest.skip(str(error))
    finished = replay.replay(replay.build("aarch64", cross_compiler), recording, emulator, model)
    assert finished.status == 0, (finished.lines, finished.errors)
    assert finished.sets == replay.SETS_OF_MODELS[model]
