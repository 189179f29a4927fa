"""Training in several processes, started by ``torchrun`` as users start it."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from model.artifacts.checkpoint import load_checkpoint
from model.errors import DeviceError
from model.training.augmentation import Augmentation
from model.training.distributed import ALONE, Processes, join_processes
from model.training.loop import AVERAGED, train
from model.training.progress import CURVE
from model.training.run_setup import LAST
from model.training.settings import TrainingSettings
from model.training.update_batches import Position, update_batches
from tests.model.test_batches import maker
from tests.toy import CONFIG, write_toy

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0
SHORT = {"max_steps": 12, "evaluate_every": 4, "warmup_steps": 4, "cooldown_steps": 4, "dev_sentences": 6, "average": 2}


def torchrun(folder: Path, config: Path, run: str, *more: str) -> subprocess.Popen[str]:
    """Two processes of ``python -m model train``."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "model"]
    arguments = [
        "train",
        "--config",
        str(config),
        "--data",
        str(folder),
        "--run-dir",
        str(folder / run),
        "--device",
        "cpu",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, *arguments, *more], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed, after it ended without an error."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out, err


def write_config(folder: Path, **changes: object) -> Path:
    write_toy(folder)
    values = {**yaml.safe_load(CONFIG), **SHORT, "subword_sampling": 0.3, "augment": {"joined": 0.3}, **changes}
    path = folder / "short.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def alone(folder: Path, config: Path, run: str) -> Path:
    """One process that accumulates the batches of two."""
    settings = replace(TrainingSettings.load(config), accumulate=2)
    return train(settings, folder, folder / run, show_progress=False, report=lambda line: None)


def curve(run: Path) -> list[dict[str, str]]:
    with (run / CURVE).open(newline="") as source:
        return list(csv.DictReader(source))


def assert_same_run(first: Path, other: Path) -> None:
    """The same losses but for rounding, and nearly the same weights."""
    rows = list(zip(curve(first), curve(other), strict=True))
    assert len(rows) == 3
    for row, expected in rows:
        for column in ("step", "epoch", "learning_rate", "train_loss", "dev_loss"):
            assert float(row[column]) == pytest.approx(float(expected[column]), abs=1e-3), column
    weights, expected_weights = (load_checkpoint(run / AVERAGED).weights for run in (first, other))
    for name, weight in expected_weights.items():
        torch.testing.assert_close(weights[name], weight, atol=2e-3, rtol=0)


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_that_accumulates(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    out, err = finish(torchrun(tmp_path, config, "two"))
    alone(tmp_path, config, "one")
    assert_same_run(tmp_path / "two", tmp_path / "one")
    # Only the first process reports and prints.
    assert out.splitlines() == [str(tmp_path / "two" / AVERAGED)]
    assert err.count("M parameters") == 1
    assert "2 processes" in err


@pytest.mark.slow
def test_a_run_of_two_processes_is_resumed_by_one(tmp_path: Path) -> None:
    config = write_config(tmp_path, optimizer="muon")
    out, _ = finish(torchrun(tmp_path, config, "parts", "--stop-after", "5"))
    assert out.splitlines() == [str(tmp_path / "parts" / LAST)]
    alone(tmp_path, config, "parts")
    alone(tmp_path, config, "whole")
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.slow
def test_a_signal_stops_all_processes_with_a_checkpoint(tmp_path: Path) -> None:
    config = write_config(tmp_path, max_steps=1_000_000, save_every_s=100_000.0)
    process = torchrun(tmp_path, config, "run")
    end = time.monotonic() + PATIENCE_S
    while not (tmp_path / "run" / LAST).exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    step = load_checkpoint(tmp_path / "run" / LAST).progress["step"]
    assert err.count(f"stopped after update {step}") == 1


def test_a_signal_stops_a_single_process_with_a_checkpoint(tmp_path: Path) -> None:
    settings = TrainingSettings.load(write_config(tmp_path))
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if line.startswith("step 4"):
            signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path, tmp_path / "run", show_progress=False, report=report)
    assert lines[-1].startswith("stopped after update 5")
    assert load_checkpoint(tmp_path / "run" / LAST).progress["step"] == 5
    assert signal.getsignal(signal.SIGTERM) is before


def test_processes_share_the_batches_of_an_update_in_turn() -> None:
    batches = maker(augmentation=Augmentation(joined=0.5), subword_sampling=0.5)
    num_batches = sum(1 for _ in batches.epoch(0))
    assert num_batches < 48  # the updates below reach the next epoch

    def of(processes: Processes, accumulate: int) -> list[list[torch.Tensor]]:
        updates = update_batches(batches, Position(batch=3), accumulate, processes)
        return [[batch.target for batch in next(updates).batches] for _ in range(12)]

    full = of(ALONE, 4)
    shares = [of(Processes(rank, 2), 2) for rank in (0, 1)]
    for update, first, second in zip(full, *shares, strict=True):
        for expected, actual in zip(update, (first[0], second[0], first[1], second[1]), strict=True):
            torch.testing.assert_close(actual, expected)


def test_a_gpu_cannot_be_named_for_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(DeviceError, match="'cuda:1', but torchrun started 2 processes"), join_processes("cuda:1"):
        pass


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(DeviceError, match="set --nproc-per-node of torchrun to 1 at most"), join_processes("cuda"):
        pass
