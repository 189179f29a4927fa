"""Training in several short calls (scripts/shipped/train_gpu.py), with a toy on the CPU."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from model.artifacts.checkpoint import load_checkpoint
from model.errors import ConfigError, DataError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.training.loop import AVERAGED, train
from model.training.run_setup import LAST
from model.training.settings import TrainingSettings
from scripts.shipped import train_gpu
from scripts.shipped.train_gpu import SHAPES, Machine, choose, pack, plan
from tests.toy import write_toy

CONFIG = Path(__file__).parents[1] / "configs" / "verso-en-de" / "gpu.yaml"
H100 = Machine(989e12, 0.4, 80 * 2**30, 20 * 60)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    source = tmp_path / "data"
    source.mkdir()
    pack(write_toy(source), source, tmp_path / "packed")
    return tmp_path / "packed"


def stopping_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(train_gpu, "train", functools.partial(train, stop_after_steps=steps))


def call(packed: Path, folder: Path, name: str, *, last: bool = False) -> Path | None:
    """A call on a machine of its own: only the folder of the state is kept."""
    work = folder / name
    work.mkdir()
    return train_gpu.call(packed, folder / "state", 60.0, last=last, device="cpu", work=work)


def test_the_next_call_goes_on_where_the_last_one_stopped(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping_after(monkeypatch, 3)
    assert call(packed, tmp_path, "first") is None
    first = load_checkpoint(tmp_path / "first" / LAST)
    assert train_gpu.join_state(tmp_path / "state", tmp_path / "joined.pt")
    joined = load_checkpoint(tmp_path / "joined.pt")
    assert joined.progress == {**first.progress, "optimizers": {}, "cpu_rng": joined.progress["cpu_rng"]}
    assert torch.equal(joined.progress["cpu_rng"], first.progress["cpu_rng"])
    for name, weight in first.weights.items():
        assert joined.weights[name].dtype == torch.float32
        assert torch.equal(joined.weights[name], weight.bfloat16().float())
    assert call(packed, tmp_path, "second") is None
    assert load_checkpoint(tmp_path / "second" / LAST).progress["step"] == 6


def test_the_last_call_cools_down_and_leaves_a_checkpoint_to_export(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping_after(monkeypatch, 3)
    call(packed, tmp_path, "first")
    monkeypatch.setattr(train_gpu, "train", train)
    # An hour at this speed is 8 updates.
    (tmp_path / "state" / train_gpu.SPEED).write_text('{"seconds_per_update": 400.0, "besides_s": 100.0}')
    averaged = call(packed, tmp_path, "last", last=True)
    assert averaged == tmp_path / "last" / AVERAGED
    facts = load_checkpoint(averaged).facts
    assert facts["settings"]["max_steps"] == facts["step"] == 3 + 8
    assert facts["settings"]["cooldown_steps"] == 7 and facts["averaged_checkpoints"] == 2


def test_a_call_ends_when_its_time_is_over(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = threading.Event()

    def endless(*arguments: Any, **options: Any) -> Path:
        train(*arguments, **options, stop_after_steps=1)
        trained.set()
        time.sleep(60)
        raise AssertionError("no signal came")

    monkeypatch.setattr(train_gpu, "train", endless)
    timers: list[float] = []

    class ShortTimer(threading.Timer):
        def __init__(self, seconds: float, function: Callable[..., object], arguments: Sequence[object]) -> None:
            def interrupt() -> None:
                trained.wait(60)  # an update may take any time
                function(*arguments)

            timers.append(seconds)
            super().__init__(1.0, interrupt)

    monkeypatch.setattr(threading, "Timer", ShortTimer)
    assert call(packed, tmp_path, "first") is None
    assert timers == [3600 * train_gpu.MARGIN]
    assert load_checkpoint(tmp_path / "first" / LAST).progress["step"] == 1


def test_a_state_without_one_of_its_parts_is_refused(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping_after(monkeypatch, 1)
    monkeypatch.setattr(train_gpu, "PART_BYTES", 20_000)
    monkeypatch.setattr(train_gpu, "MAX_PARTS", 99)
    call(packed, tmp_path, "first")
    parts = sorted((tmp_path / "state").glob("part-*"))
    assert len(parts) > 1
    parts[1].unlink()
    with pytest.raises(DataError, match=rf"has {len(parts) - 1} of {len(parts)} parts"):
        call(packed, tmp_path, "second")


def test_a_state_that_is_too_large_to_travel_is_refused(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping_after(monkeypatch, 1)
    monkeypatch.setattr(train_gpu, "PART_BYTES", 2_000)
    with pytest.raises(DataError, match="7 parts of 2,000 may travel; train a smaller shape"):
        call(packed, tmp_path, "first")


def test_the_last_call_needs_a_measured_speed(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="comes after a call that measured the speed"):
        call(packed, tmp_path, "first", last=True)


def test_text_that_is_too_large_to_travel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_gpu, "PACKED_BYTES", 3_000)
    with pytest.raises(DataError, match="more than 3,000; leave out some of"):
        pack(write_toy(tmp_path), tmp_path, tmp_path / "packed")


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_those_of_the_transformer(name: str) -> None:
    config = ModelConfig.from_dict({**SHAPES[name], "source_vocab_size": 16_000, "target_vocab_size": 16_000})
    with torch.device("meta"):
        expected = sum(parameter.numel() for parameter in Transformer(config, 0).parameters())
    assert plan(name, H100, 16_000, 60_000).num_parameters == expected


def test_the_configuration_has_the_shape_that_is_chosen_for_an_h100_and_25_minutes() -> None:
    settings = TrainingSettings.load(CONFIG)
    _, chosen = choose(H100, settings.vocab_size, settings.batch_tokens)
    assert 40e6 < chosen.num_parameters < 60e6 and chosen.tokens > 1e9
    assert {**settings.model, "dropout": None} == {**SHAPES[chosen.name], "dropout": None}


def test_a_plan_that_fits_no_shape_says_so() -> None:
    with pytest.raises(ConfigError, match="No shape reads 1,000,000,000 tokens in 1 minutes"):
        choose(Machine(50e12, 0.4, 80 * 2**30, 60), 16_000, 60_000)
