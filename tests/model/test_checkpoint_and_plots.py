from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from model.errors import ArtifactError
from model.plots import attention_heat_map, learning_curve
from model.training.checkpoint import (
    FORMAT_VERSION,
    Checkpoint,
    average_weights,
    load_checkpoint,
    save_checkpoint,
    untied_weights,
)
from model.transformer import Transformer
from tests.model.torch_layers import randomise, small_config
from tests.model.vocabulary import TOKENIZER


def checkpoint() -> Checkpoint:
    config = small_config(source_vocab_size=290, target_vocab_size=290)
    transformer = Transformer(config, 0)
    randomise(transformer)
    return Checkpoint(config, untied_weights(transformer), TOKENIZER, {"name": "x"}, {"step": 3})


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    saved = checkpoint()
    save_checkpoint(saved, tmp_path / "new folder" / "c.pt")
    loaded = load_checkpoint(tmp_path / "new folder" / "c.pt")
    assert (loaded.config, loaded.facts, loaded.progress) == (saved.config, saved.facts, saved.progress)
    source, target = torch.tensor([[5, 6, 3]]), torch.tensor([[2, 7]])
    with torch.inference_mode():
        assert torch.equal(loaded.build()(source, target), saved.build()(source, target))
    assert loaded.tokenizer.encode("cat", "de") == TOKENIZER.encode("cat", "de")


def test_a_checkpoint_that_is_missing_cut_or_foreign_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    with pytest.raises(ArtifactError, match="no checkpoint at"):
        load_checkpoint(path)
    save_checkpoint(checkpoint(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(ArtifactError, match="cut short"):
        load_checkpoint(path)
    torch.save({"weights": {}}, path)
    with pytest.raises(ArtifactError, match="no format_version"):
        load_checkpoint(path)
    torch.save({"format_version": FORMAT_VERSION + 1}, path)
    with pytest.raises(ArtifactError, match="checkpoint format 2; this version reads 1"):
        load_checkpoint(path)
    torch.save({"format_version": FORMAT_VERSION}, path)
    with pytest.raises(ArtifactError, match="incomplete"):
        load_checkpoint(path)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"format_version": FORMAT_VERSION, "weights": Trap()}, tmp_path / "c.pt")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_checkpoint(tmp_path / "c.pt")
    assert not (tmp_path / "ran").exists()


def test_weights_that_do_not_fit_are_named() -> None:
    good = checkpoint()
    name = "encoder.0.feed_forward.wide.weight"
    for weights, said in (
        ({key: value for key, value in good.weights.items() if key != name}, f"misses parameter {name}"),
        ({**good.weights, "extra": torch.ones(1)}, "unknown parameter extra"),
        ({**good.weights, name: torch.ones(2, 2)}, r"has shape \(2, 2\)"),
        ({**good.weights, name: good.weights[name] * torch.nan}, "NaN"),
    ):
        with pytest.raises(ArtifactError, match=said):
            replace(good, weights=weights).build()


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(checkpoint(), path)
    before = path.read_bytes()

    def half(content: object, sink: io.BufferedWriter) -> None:
        sink.write(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file: no space")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(ArtifactError, match="previous one is intact"):
        save_checkpoint(checkpoint(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_average_is_the_mean_and_needs_like_parts() -> None:
    one, two = {"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, 6.0])}
    assert torch.equal(average_weights([one, two])["a"], torch.tensor([2.0, 4.0]))
    assert torch.equal(average_weights([one] * 7)["a"], one["a"])
    with pytest.raises(ArtifactError, match="different architectures"):
        average_weights([one, {"b": torch.ones(1)}])
    with pytest.raises(ArtifactError, match="no checkpoint to average"):
        average_weights([])


def size_of(png: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return image.size


def test_a_heat_map_is_a_picture_that_grows_with_its_tokens_up_to_a_bound() -> None:
    small = size_of(attention_heat_map(torch.eye(3), list("abc"), ["\u2581M\u00fc", "$x$", "</s>"], "t"))
    large = size_of(attention_heat_map(torch.rand(40, 40), ["x"] * 40, ["y"] * 40, "t"))
    huge = size_of(attention_heat_map(torch.rand(256, 100), ["x"] * 256, ["y"] * 100, "t"))
    assert small < large
    assert max(huge) <= 28 * 110


def test_several_heads_stand_side_by_side_and_labels_must_fit() -> None:
    assert size_of(attention_heat_map(torch.rand(3, 2, 2), ["a", "b"], ["c", "d"], "heads"))
    with pytest.raises(ValueError, match="labels 1 rows"):
        attention_heat_map(torch.rand(2, 2), ["a"], ["c", "d"], "t")


def test_a_curve_is_drawn_though_values_are_missing(tmp_path: Path) -> None:
    rows: list[dict[str, float | None]] = [
        {"step": 1.0, "train_loss": 3.0, "dev_loss": None},
        {"step": 2.0, "train_loss": 2.0, "dev_loss": 2.5, "bleu_en-de": 1.0},
    ]
    learning_curve(rows, tmp_path / "c.png")
    assert size_of((tmp_path / "c.png").read_bytes()) == (960, 540)
