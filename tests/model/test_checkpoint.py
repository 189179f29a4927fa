"""Checkpoints: they round-trip, damaged ones are refused with a reason, and a failed write keeps the old file."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from model.artifacts.checkpoint import (
    FORMAT_VERSION,
    Checkpoint,
    average_weights,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    untied_weights,
)
from model.errors import ArtifactError
from model.network.transformer import Transformer
from tests.archives import of_two_disks
from tests.model.torch_layers import randomise, small_config
from tests.model.vocabulary import TOKENIZER

NAME = "encoder.0.feed_forward.wide.weight"


def checkpoint(seed: int = 0, **changes: Any) -> Checkpoint:
    config = small_config(source_vocab_size=290, target_vocab_size=290, **changes)
    transformer = Transformer(config, 0)
    randomise(transformer, seed)
    return Checkpoint(config, untied_weights(transformer), TOKENIZER, {"name": "x"}, {"step": 3})


def content() -> dict[str, Any]:
    """The content of a checkpoint file."""
    full = checkpoint()
    return {
        "format_version": FORMAT_VERSION,
        "config": full.config.to_dict(),
        "weights": full.weights,
        "tokenizer": TOKENIZER.model_proto,
        "facts": {},
        "progress": {},
    }


@pytest.mark.parametrize("share", [True, False])
def test_a_loaded_checkpoint_equals_the_saved_one(share: bool, tmp_path: Path) -> None:
    saved = checkpoint(share_embeddings=share, tie_output=share)
    path = tmp_path / "new folder" / "c.pt"
    save_checkpoint(saved, path)
    loaded = load_checkpoint(path)
    assert (loaded.config, loaded.facts, loaded.progress) == (saved.config, saved.facts, saved.progress)
    assert loaded.tokenizer.encode("cat", "de") == TOKENIZER.encode("cat", "de")
    assert loaded.weights.keys() == saved.weights.keys()
    assert all(torch.equal(loaded.weights[name], saved.weights[name]) for name in saved.weights)
    source, target = torch.tensor([[5, 6, 3]]), torch.tensor([[2, 7]])
    with torch.inference_mode():
        assert torch.equal(loaded.build()(source, target), saved.build()(source, target))
    assert not loaded.build().training
    assert list(path.parent.iterdir()) == [path]


def test_a_checkpoint_without_the_kind_of_norm_is_read(tmp_path: Path) -> None:
    old = content()
    del old["config"]["layer_norm_gain"]
    torch.save(old, tmp_path / "c.pt")
    loaded = load_checkpoint(tmp_path / "c.pt")
    assert loaded.config == checkpoint().config
    assert loaded.own_tokenizer.target_proto is None


def test_tied_parameters_are_saved_once() -> None:
    assert "output.weight" not in checkpoint().weights
    assert "output.weight" in checkpoint(tie_output=False).weights
    built = checkpoint().build()
    assert built.output.weight is built.source_embedding.tokens.weight


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"There is no checkpoint at .*c\.pt"):
        load_checkpoint(tmp_path / "c.pt")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float, tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(checkpoint(), path)
    full = path.read_bytes()
    path.write_bytes(full[: int(share * len(full))])
    with pytest.raises(ArtifactError, match=r"is no checkpoint, or was cut short; restore it"):
        load_checkpoint(path)


def test_an_archive_of_several_disks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(checkpoint(), path)
    path.write_bytes(of_two_disks(path.read_bytes()))
    with pytest.raises(ArtifactError, match="is no checkpoint"):
        load_checkpoint(path)


def test_one_wrong_byte_in_a_weight_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(checkpoint(), path)
    full = bytearray(path.read_bytes())
    needle = checkpoint().weights[NAME].numpy().tobytes()
    full[full.index(needle) + 7] ^= 0x10
    path.write_bytes(full)
    with pytest.raises(ArtifactError, match=r"c\.pt cannot be read .* inside it is damaged"):
        load_checkpoint(path)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("holiday.txt", "sun")
    with pytest.raises(ArtifactError, match="cannot be read as a checkpoint"):
        load_checkpoint(path)


@pytest.mark.parametrize("foreign", [{"weights": {}}, [1, 2], torch.ones(2)], ids=["mapping", "list", "tensor"])
def test_a_file_of_another_program_is_refused(foreign: object, tmp_path: Path) -> None:
    torch.save(foreign, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match="no checkpoint of this project: it has no format_version"):
        load_checkpoint(tmp_path / "c.pt")


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 0, "new"])
def test_another_format_is_refused_with_both_versions(version: object, tmp_path: Path) -> None:
    torch.save({**content(), "format_version": version}, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match=rf"checkpoint format {version}; this version reads {FORMAT_VERSION}"):
        load_checkpoint(tmp_path / "c.pt")


@pytest.mark.parametrize("name", ["config", "weights", "tokenizer", "facts", "progress"])
def test_a_missing_part_is_named(name: str, tmp_path: Path) -> None:
    torch.save({key: value for key, value in content().items() if key != name}, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match=f"is incomplete: it has no '{name}'"):
        load_checkpoint(tmp_path / "c.pt")


@pytest.mark.parametrize(
    "change",
    [{"config": 5}, {"config": {"d_model": 7}}, {"weights": 5}, {"weights": {"a": 5}}, {"tokenizer": 5}],
    ids=str,
)
def test_a_part_that_is_something_else_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    torch.save({**content(), **change}, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match=r"c\.pt is not a checkpoint"):
        load_checkpoint(tmp_path / "c.pt")


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    torch.save({**content(), "tokenizer": TOKENIZER.model_proto[:-50]}, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match="tokenizer is damaged"):
        load_checkpoint(tmp_path / "c.pt")


def test_code_in_a_checkpoint_is_not_executed(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({**content(), "weights": Trap()}, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_checkpoint(tmp_path / "c.pt")
    assert not (tmp_path / "ran").exists()


def without(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight for name, weight in weights.items() if name != NAME}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (without(checkpoint().weights), f"misses parameter {NAME}; it is of another architecture"),
        ({**checkpoint().weights, "extra": torch.ones(1)}, "has the unknown parameter extra"),
        (
            {**checkpoint().weights, NAME: torch.ones(2, 2)},
            rf"{NAME} has shape \(2, 2\) in the checkpoint; the architecture needs \(24, 16\)",
        ),
        ({**checkpoint().weights, NAME: torch.full((24, 16), torch.nan)}, f"{NAME} contains NaN or infinity"),
        ({**checkpoint().weights, NAME: torch.full((24, 16), torch.inf)}, f"{NAME} contains NaN or infinity"),
    ],
    ids=["missing", "surplus", "shape", "nan", "infinity"],
)
def test_weights_that_do_not_fit_are_named(weights: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        replace(checkpoint(), weights=weights).build()


def test_loaded_weights_are_copies() -> None:
    saved = checkpoint()
    transformer = Transformer(saved.config, 0)
    load_weights(transformer, saved.weights)
    with torch.no_grad():
        transformer.get_parameter(NAME).zero_()
    assert saved.weights[NAME].any()


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), RuntimeError("PytorchStreamWriter failed writing file")],
    ids=["OSError", "RuntimeError"],
)
def test_a_full_disk_keeps_the_old_file_and_leaves_no_partial_one(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(checkpoint(), path)
    before = path.read_bytes()

    def half(content: object, sink: io.BufferedWriter) -> None:
        sink.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(ArtifactError, match=r"c\.pt could not be written: .*The previous one is intact"):
        save_checkpoint(checkpoint(seed=1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_average_is_the_mean_of_each_parameter() -> None:
    first, second = {"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, 6.0])}
    assert torch.equal(average_weights([first, second])["a"], torch.tensor([2.0, 4.0]))


@pytest.mark.parametrize("other", [{"b": torch.ones(1)}, {"a": torch.ones(2)}, {}], ids=["name", "shape", "nothing"])
def test_averaging_different_architectures_is_refused(other: dict[str, Tensor]) -> None:
    with pytest.raises(ArtifactError, match="different architectures"):
        average_weights([{"a": torch.ones(1)}, other])


def test_averaging_no_checkpoint_is_refused() -> None:
    with pytest.raises(ArtifactError, match="no checkpoint to average"):
        average_weights([])
