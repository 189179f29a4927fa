"""Pictures: PNG files of a bounded size that show the given numbers, for any labels."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from model import plots
from model.network.embeddings import position_table
from model.plots import (
    attention_grid,
    attention_heat_map,
    learning_curve,
    learning_curves,
    mask_picture,
    position_picture,
    reliability_diagram,
)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn during a test."""
    figures: list[Figure] = []

    def remember(**options: Any) -> Figure:
        figures.append(Figure(**options))
        return figures[-1]

    monkeypatch.setattr(plots, "Figure", remember)
    return figures


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    with Image.open(io.BytesIO(png)) as image:
        image.load()
        return image.size


def test_a_heat_map_shows_the_weights_and_their_tokens(drawn: list[Figure]) -> None:
    weights = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))
    size_of(attention_heat_map(weights.numpy(), ["M\u00fc", "\u2581Stra\u00dfe"], ["a", "b", "</s>"], "t"))
    panel = drawn[0].axes[0]
    (image,) = panel.images
    shown = image.get_array()
    assert shown is not None
    assert torch.equal(torch.as_tensor(shown), weights)
    assert image.get_clim() == (0.0, 1.0)
    assert [label.get_text() for label in panel.get_yticklabels()] == ["M\u00fc", "_Stra\u00dfe"]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["a", "b", "</s>"]


def test_the_size_of_a_heat_map_is_bounded() -> None:
    width, height = size_of(attention_heat_map(torch.rand(200, 1).numpy(), ["x"] * 200, ["y"], "t"))
    assert (width, height) == (4 * 110, 28 * 110)


@pytest.mark.parametrize(
    "token", ["$\\frac$", "$", "$$", "\\$", "a\\", "$x_{$", "^_{}", "\u00e4\u00f6\u00fc\u00df", ""]
)
def test_no_token_is_rendered_as_mathematics(token: str) -> None:
    assert size_of(attention_heat_map(torch.eye(2).numpy(), [token, "a"], ["b", token], token))


def test_each_head_has_a_panel(drawn: list[Figure]) -> None:
    weights = torch.rand(3, 2, 2, generator=torch.Generator().manual_seed(0))
    assert size_of(attention_heat_map(weights.numpy(), ["a", "b"], ["c", "d"], "heads"))
    panels = [panel for panel in drawn[0].axes if panel.get_title()]
    assert [panel.get_title() for panel in panels] == ["1 of 3", "2 of 3", "3 of 3"]
    for panel, head in zip(panels, weights, strict=True):
        assert torch.equal(torch.as_tensor(panel.images[0].get_array()), head)


@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (2, 2), (3, 2)])
def test_labels_of_the_wrong_number_are_refused_with_both_numbers(rows: int, columns: int) -> None:
    with pytest.raises(ValueError, match=rf"weights are \(2, 3\), labels {rows} rows and {columns} columns"):
        attention_heat_map(torch.rand(2, 3).numpy(), ["a"] * rows, ["b"] * columns, "t")


def test_a_curve_skips_missing_values(drawn: list[Figure], tmp_path: Path) -> None:
    rows: list[dict[str, float | None]] = [
        {"step": 1.0, "train_loss": 3.0, "dev_loss": None},
        {"step": 2.0, "train_loss": 2.0, "dev_loss": 2.5, "bleu_en-de": 1.0},
        {"step": 3.0, "dev_loss": 2.0, "bleu_en-de": 4.0},
    ]
    learning_curve(rows, tmp_path / "c.png")
    assert size_of((tmp_path / "c.png").read_bytes()) == (960, 540)
    lines = {
        str(line.get_label()): [tuple(point) for point in np.asarray(line.get_xydata()).tolist()]
        for axes in drawn[0].axes
        for line in axes.lines
    }
    assert lines == {
        "training loss": [(1, 3), (2, 2)],
        "held-out loss": [(2, 2.5), (3, 2)],
        "BLEU en-de": [(2, 1), (3, 4)],
    }


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"step": 1.0}],
        [{"step": 1.0, "train_loss": None, "bleu_de-en": None}],
        [{"step": 1.0, "train_loss": math.nan}, {"step": 2.0, "train_loss": math.inf}],
    ],
    ids=["no evaluation", "no value", "None", "diverged"],
)
def test_a_run_without_values_is_drawn_without_a_warning(rows: list[dict[str, float | None]], tmp_path: Path) -> None:
    learning_curve(rows, tmp_path / "c.png")
    assert size_of((tmp_path / "c.png").read_bytes()) == (960, 540)


def test_several_runs_share_their_axes(drawn: list[Figure], tmp_path: Path) -> None:
    runs: dict[str, list[dict[str, float | None]]] = {
        "a": [{"step": 1.0, "dev_loss": 3.0, "bleu_en-de": 2.0, "bleu_de-en": 4.0}],
        "b": [{"step": 1.0, "dev_loss": 5.0}, {"step": 2.0, "dev_loss": 4.0, "bleu_en-de": 6.0, "bleu_de-en": None}],
    }
    learning_curves(runs, tmp_path / "c.png")
    size_of((tmp_path / "c.png").read_bytes())
    shown = [
        {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axes.lines} for axes in drawn[0].axes
    ]
    assert shown == [{"a": [[1, 3]], "b": [[1, 5], [2, 4]]}, {"a": [[1, 3]], "b": [[2, 6]]}]


def test_positions_are_shown_with_their_similarity(drawn: list[Figure], tmp_path: Path) -> None:
    table = position_table("interleaved", 12, 8)
    position_picture(table, "places", tmp_path / "p.png")
    size_of((tmp_path / "p.png").read_bytes())
    vectors, alike = (torch.as_tensor(axes.images[0].get_array()) for axes in drawn[0].axes[:2])
    assert torch.equal(vectors, table)
    torch.testing.assert_close(alike.diagonal(), torch.ones(12))
    torch.testing.assert_close(alike[2, 7], torch.cosine_similarity(table[2], table[7], dim=0))


def test_masked_positions_are_crossed_out(drawn: list[Figure], tmp_path: Path) -> None:
    mask = torch.tensor([[True, False, True], [True, True, False]])
    mask_picture({"who": mask}, tmp_path / "m.png")
    size_of((tmp_path / "m.png").read_bytes())
    assert [text.get_position() for text in drawn[0].axes[0].texts] == [(1, 0), (2, 1)]


def test_every_head_of_every_layer_has_its_panel(drawn: list[Figure]) -> None:
    weights = torch.rand(2, 3, 2, 4, generator=torch.Generator().manual_seed(0))
    size_of(attention_grid(weights, ["a", "$"], list("wxyz"), "all"))
    panels = {panel.get_title(): panel for panel in drawn[0].axes if panel.get_title()}
    assert len(panels) == 6
    shown = torch.as_tensor(panels["layer 1, head 2"].images[0].get_array())
    assert torch.equal(shown, weights[1, 2])


def test_a_reliability_diagram_has_a_line_for_each_set(drawn: list[Figure], tmp_path: Path) -> None:
    sets = {"news_1": [(0.25, 0.5, 10), (0.75, 0.7, 30)], "chat": [(0.3, 0.0, 9), (0.9, 1.0, 11)]}
    reliability_diagram(sets, "t", tmp_path / "r.png")
    size_of((tmp_path / "r.png").read_bytes())
    shares, counts = drawn[0].axes
    diagonal, news, chat = (np.asarray(line.get_xydata()).tolist() for line in shares.lines)
    assert diagonal == [[0, 0], [1, 1]]
    assert news == [[0.25, 0.5], [0.75, 0.7]]
    assert chat == [[0.9, 1.0]]
    assert np.asarray(counts.lines[0].get_xydata()).tolist() == [[0.25, 25.0], [0.75, 75.0]]
    assert np.asarray(counts.lines[1].get_xydata()).tolist() == [[0.3, 45.0], [0.9, 55.0]]
