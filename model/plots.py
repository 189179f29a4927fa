"""Plots: attention weights as heat maps, learning curves, reliability, position vectors and masks."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from model.scores import bleu_keys, mean_bleu

if TYPE_CHECKING:
    from torch import Tensor  # at run time, the process that draws pictures for the service does without torch

_CELL_INCHES = 0.32
_MAX_INCHES = 28.0
_MIN_SENTENCES = 10
_LOSSES = (("train_loss", "training loss"), ("dev_loss", "held-out loss"))


def attention_heat_map(
    weights: npt.NDArray[np.float32], row_tokens: Sequence[str], column_tokens: Sequence[str], title: str
) -> bytes:
    """Plot attention weights as labelled heat maps.

    Args:
        weights: One head, (T, S), or several heads, (H, T, S), each in its own panel.
        row_tokens: The T tokens that attend.
        column_tokens: The S tokens attended to.
        title: Title of the figure.

    Returns:
        The content of a PNG file.

    Raises:
        ValueError: The labels do not fit the weights.
    """
    heads = weights[np.newaxis] if weights.ndim == 2 else weights
    if heads.shape[1:] != (len(row_tokens), len(column_tokens)):
        raise ValueError(
            f"weights are {heads.shape[1:]}, labels {len(row_tokens)} rows and {len(column_tokens)} columns"
        )
    across = min(len(heads), max(1, math.ceil(math.sqrt(len(heads)))))
    down = math.ceil(len(heads) / across)
    width = min(_MAX_INCHES, across * (1.6 + _CELL_INCHES * len(column_tokens)))
    height = min(_MAX_INCHES, 0.6 + down * (1.4 + _CELL_INCHES * len(row_tokens)))
    figure = _figure(max(width, 4.0), max(height, 3.0), dpi=110)
    figure.suptitle(_visible(title), fontsize=11)
    panels = figure.subplots(down, across, squeeze=False).flat
    # Once the figure has its maximum size, cells and labels shrink.
    cell = min(
        (width / across - 1.6) / max(1, len(column_tokens)),
        (height - 0.6) / down / max(1, len(row_tokens)),
        _CELL_INCHES,
    )
    font_size = max(3.0, min(9.0, cell * 28))
    for number, panel in enumerate(panels):
        if number >= len(heads):
            panel.set_axis_off()
            continue
        image = panel.imshow(heads[number], cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto")
        panel.set_xticks(range(len(column_tokens)), [_visible(token) for token in column_tokens], rotation=90)
        panel.set_yticks(range(len(row_tokens)), [_visible(token) for token in row_tokens])
        panel.tick_params(labelsize=font_size, length=0)
        if len(heads) > 1:
            panel.set_title(f"{number + 1} of {len(heads)}", fontsize=9)
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="weight")
    return _png(figure)


def learning_curve(rows: Sequence[Mapping[str, float | None]], path: Path) -> None:
    """Plot loss and BLEU of a training run over its updates.

    A run with several held-out corpora is drawn as :func:`learning_curves` draws runs, with a line for each corpus.

    Args:
        rows: The evaluations: ``step``, losses, and for each direction ``bleu_xx-yy`` and ``exact_xx-yy``; with
            ``/NAME`` behind the key, they are those of one held-out corpus. Any key but ``step`` may be missing.
        path: The PNG file to write.
    """
    corpora = {key.partition("/")[2]: None for row in rows for key in row if key.startswith("dev_loss/")}
    if corpora:
        learning_curves({name: [_of_corpus(row, name) for row in rows] for name in corpora}, path)
        return
    figure = _figure(8.0, 4.5)
    loss_axes = figure.subplots()
    loss_axes.set_xlabel("updates")
    loss_axes.set_ylabel("loss, nats a token")
    loss_axes.grid(alpha=0.3)
    for number, (key, label) in enumerate(_LOSSES):
        _line(loss_axes, rows, key, label, f"C{number}", "--")
    pairs = sorted({key for row in rows for key in bleu_keys(row)})
    if pairs:
        bleu_axes = loss_axes.twinx()
        bleu_axes.set_ylabel("BLEU, greedy, held-out sentences")
        for number, key in enumerate(pairs):
            _line(bleu_axes, rows, key, f"BLEU {key.removeprefix('bleu_')}", f"C{number + 2}", "-")
        for number, key in enumerate(sorted({key for row in rows for key in row if key.startswith("exact_")})):
            label = f"exact {key.removeprefix('exact_')}, %"
            _line(bleu_axes, rows, key, label, f"C{number + 2 + len(pairs)}", "-.")
        bleu_axes.set_ylim(bottom=0)
    if any(axes.lines for axes in figure.axes):
        figure.legend(loc="outside upper center", ncols=4, fontsize=9)
    figure.savefig(path, format="png")


def _of_corpus(row: Mapping[str, float | None], name: str) -> dict[str, float | None]:
    """The scores of one of several held-out corpora in an evaluation."""
    suffix = f"/{name}"
    own = {key.removesuffix(suffix): value for key, value in row.items() if key.endswith(suffix)}
    return {"step": row["step"], **own}


def learning_curves(runs: Mapping[str, Sequence[Mapping[str, float | None]]], path: Path) -> None:
    """Plot the held-out loss and the mean BLEU of several runs over their updates.

    Args:
        runs: The evaluations of each run, by its name.
        path: The PNG file to write.
    """
    figure = _figure(11.0, 4.5)
    loss_axes, bleu_axes = figure.subplots(1, 2)
    for axes, label in (
        (loss_axes, "held-out loss, nats a token"),
        (bleu_axes, "BLEU, greedy, mean of the directions"),
    ):
        axes.set_xlabel("updates")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    for number, (name, rows) in enumerate(runs.items()):
        means: list[Mapping[str, float | None]] = []
        for row in rows:
            means.append({"step": row["step"], "bleu": mean_bleu(row)})
        _line(loss_axes, rows, "dev_loss", _visible(name), f"C{number}", "-")
        _line(bleu_axes, means, "bleu", _visible(name), f"C{number}", "-")
    bleu_axes.set_ylim(bottom=0)
    handles, labels = bleu_axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=9)
    figure.savefig(path, format="png")


def reliability_diagram(sets: Mapping[str, Sequence[tuple[float, float, int]]], title: str, path: Path) -> None:
    """Plot which share of translations is right against the score that promises it.

    Args:
        sets: For each set of sentences its bins: mean score, share of right translations, number of sentences. The
            share among fewer than ten sentences is not shown.
        title: Title of the figure.
        path: The PNG file to write.
    """
    figure = _figure(6.0, 6.0)
    figure.suptitle(_visible(title), fontsize=11)
    shares, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    shares.plot((0, 1), (0, 1), "--", color="grey", label="perfectly calibrated", linewidth=1.0)
    for number, (name, bins) in enumerate(sets.items()):
        style: dict[str, Any] = {"color": f"C{number}", "marker": ".", "linewidth": 1.5}
        certain = [(score, share) for score, share, size in bins if size >= _MIN_SENTENCES]
        shares.plot([score for score, _ in certain], [share for _, share in certain], label=_visible(name), **style)
        total = sum(size for _, _, size in bins)
        counts.plot([score for score, _, _ in bins], [100.0 * size / total for _, _, size in bins], **style)
    shares.set_ylabel("share of right translations")
    counts.set_ylabel("sentences, %")
    counts.set_xlabel("score")
    for axes in (shares, counts):
        axes.grid(alpha=0.3)
        axes.set_xlim(0.0, 1.0)
    shares.set_ylim(0.0, 1.0)
    counts.set_ylim(bottom=0)
    shares.legend(loc="upper left", fontsize=9)
    figure.savefig(path, format="png")


def position_picture(table: Tensor, title: str, path: Path) -> None:
    """Plot position vectors and the cosine similarity of each two positions.

    Args:
        table: The position vectors, (P, C), from :func:`model.network.embeddings.position_table`.
        title: Title of the figure.
        path: The PNG file to write.
    """
    figure = _figure(11.0, 4.5)
    figure.suptitle(_visible(title), fontsize=11)
    vectors, similarity = figure.subplots(1, 2)
    bound = float(table.abs().max()) or 1.0
    image = vectors.imshow(table.numpy(), cmap="RdBu_r", vmin=-bound, vmax=bound, aspect="auto", interpolation="none")
    vectors.set_xlabel("column of the vector")
    vectors.set_ylabel("position")
    figure.colorbar(image, ax=vectors, shrink=0.8)
    unit = table / table.norm(dim=1, keepdim=True).clamp_min(1e-12)
    image = similarity.imshow((unit @ unit.T).numpy(), cmap="viridis", vmin=-1.0, vmax=1.0, interpolation="none")
    similarity.set_xlabel("position")
    similarity.set_ylabel("position")
    figure.colorbar(image, ax=similarity, shrink=0.8, label="cosine of the two vectors")
    figure.savefig(path, format="png")


def mask_picture(masks: Mapping[str, Tensor], path: Path) -> None:
    """Plot masks side by side: which position (row) may attend to which (column).

    Args:
        masks: Booleans (rows, columns) by title; True means "may attend".
        path: The PNG file to write.
    """
    figure = _figure(3.2 * len(masks), 3.6)
    for panel, (name, mask) in zip(figure.subplots(1, len(masks), squeeze=False).flat, masks.items(), strict=True):
        panel.imshow(mask.float().numpy(), cmap="Greens", vmin=0.0, vmax=1.3)
        panel.set_title(_visible(name), fontsize=9)
        panel.set_xlabel("attended to")
        panel.set_ylabel("attends")
        panel.set_xticks(range(mask.size(1)))
        panel.set_yticks(range(mask.size(0)))
        panel.tick_params(labelsize=7, length=0)
        for row, column in mask.logical_not().nonzero().tolist():
            panel.text(column, row, "\u00d7", ha="center", va="center", fontsize=9, color="firebrick")
    figure.savefig(path, format="png")


def attention_grid(weights: Tensor, row_tokens: Sequence[str], column_tokens: Sequence[str], title: str) -> bytes:
    """Plot the attention weights of all heads, with a row of panels for each layer.

    Args:
        weights: (L, H, T, S).
        row_tokens: The T tokens that attend.
        column_tokens: The S tokens attended to.
        title: Title of the figure.

    Returns:
        The content of a PNG file.
    """
    num_layers, num_heads = weights.shape[:2]
    width = min(_MAX_INCHES, 0.8 + num_heads * (0.9 + 0.16 * len(column_tokens)))
    height = min(_MAX_INCHES, 0.8 + num_layers * (0.9 + 0.16 * len(row_tokens)))
    figure = _figure(max(width, 4.0), max(height, 3.0), dpi=110)
    figure.suptitle(_visible(title), fontsize=11)
    panels = figure.subplots(num_layers, num_heads, squeeze=False)
    for (layer, head), panel in np.ndenumerate(panels):
        image = panel.imshow(weights[layer, head].float().numpy(), cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto")
        panel.set_title(f"layer {layer}, head {head}", fontsize=7)
        # Only the outer panels have labels; there is no room for them between the panels.
        last, first = layer == num_layers - 1, head == 0
        panel.set_xticks(range(len(column_tokens)), map(_visible, column_tokens) if last else [""] * len(column_tokens))
        panel.set_yticks(range(len(row_tokens)), map(_visible, row_tokens) if first else [""] * len(row_tokens))
        panel.tick_params(labelsize=6, length=0)
        panel.tick_params(axis="x", rotation=90)
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="weight")
    return _png(figure)


def _figure(width: float, height: float, dpi: int = 120) -> Figure:
    """An empty figure of the given size in inches, without pyplot's global state."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Figure) -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    return sink.getvalue()


def _line(axes: Axes, rows: Sequence[Mapping[str, float | None]], key: str, label: str, color: str, style: str) -> None:
    points = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), style, color=color, label=label, marker=".", linewidth=1.5)


def _visible(token: str) -> str:
    """Escape a label for matplotlib: a dollar sign would start a formula, and few fonts have U+2581."""
    return token.replace("\u2581", "_").replace("$", r"\$")
