"""Pictures of what people would rather look at than read: attention as heat maps, training as curves."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

_CELL_INCHES = 0.32
_MAX_INCHES = 28.0
_LOSSES = (("train_loss", "training loss"), ("dev_loss", "held-out loss"))


def attention_heat_map(weights: Tensor, row_tokens: Sequence[str], column_tokens: Sequence[str], title: str) -> bytes:
    """Attention weights as a labelled picture.

    Args:
        weights: One head, (T, S), or several side by side, (H, T, S).
        row_tokens: The T positions that look.
        column_tokens: The S positions looked at.
        title: Stands above.

    Returns:
        A PNG file.

    Raises:
        ValueError: The labels do not fit the weights.
    """
    heads = weights.unsqueeze(0) if weights.dim() == 2 else weights
    if heads.shape[1:] != (len(row_tokens), len(column_tokens)):
        raise ValueError(
            f"weights are {tuple(heads.shape[1:])}, labels {len(row_tokens)} rows and {len(column_tokens)} columns"
        )
    across = min(len(heads), max(1, math.ceil(math.sqrt(len(heads)))))
    down = math.ceil(len(heads) / across)
    width = min(_MAX_INCHES, across * (1.6 + _CELL_INCHES * len(column_tokens)))
    height = min(_MAX_INCHES, 0.6 + down * (1.4 + _CELL_INCHES * len(row_tokens)))
    figure = Figure(figsize=(max(width, 4.0), max(height, 3.0)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_visible(title), fontsize=11)
    panels = figure.subplots(down, across, squeeze=False).flat
    # Cells shrink once the picture is as large as it gets, and labels with them.
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
        image = panel.imshow(heads[number].float().numpy(), cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto")
        panel.set_xticks(range(len(column_tokens)), [_visible(token) for token in column_tokens], rotation=90)
        panel.set_yticks(range(len(row_tokens)), [_visible(token) for token in row_tokens])
        panel.tick_params(labelsize=font_size, length=0)
        if len(heads) > 1:
            panel.set_title(f"{number + 1} of {len(heads)}", fontsize=9)
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="weight")
    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    return sink.getvalue()


def learning_curve(rows: Sequence[Mapping[str, float | None]], path: Path) -> None:
    """Loss and BLEU of a training run over its updates.

    Args:
        rows: The evaluations: ``step``, losses, and one ``bleu_xx-yy`` for each direction, any of them missing.
        path: The PNG file to write.
    """
    figure = Figure(figsize=(8.0, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    loss_axes = figure.subplots()
    loss_axes.set_xlabel("updates")
    loss_axes.set_ylabel("loss, nats a token")
    loss_axes.grid(alpha=0.3)
    for number, (key, label) in enumerate(_LOSSES):
        _line(loss_axes, rows, key, label, f"C{number}", "--")
    pairs = sorted({key for row in rows for key in row if key.startswith("bleu_")})
    if pairs:
        bleu_axes = loss_axes.twinx()
        bleu_axes.set_ylabel("BLEU, greedy, held-out sentences")
        for number, key in enumerate(pairs):
            _line(bleu_axes, rows, key, f"BLEU {key.removeprefix('bleu_')}", f"C{number + 2}", "-")
        bleu_axes.set_ylim(bottom=0)
    if any(axes.lines for axes in figure.axes):
        figure.legend(loc="outside upper center", ncols=4, fontsize=9)
    figure.savefig(path, format="png")


def _line(axes: Axes, rows: Sequence[Mapping[str, float | None]], key: str, label: str, color: str, style: str) -> None:
    points = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), style, color=color, label=label, marker=".", linewidth=1.5)


def _visible(token: str) -> str:
    """Labels as text: a dollar sign would start mathematics, and U+2581 is in few fonts."""
    return token.replace("\u2581", "_").replace("$", r"\$")
