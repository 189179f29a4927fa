"""The command ``plot``: draw learning curves, attention, positional encodings and masks."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import get_args

from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    add_pair_arguments,
    decoding_options,
    load_translator,
    output_file,
)
from model.errors import ConfigError, DataError
from model.network.config import PositionTable

EPILOG = """\
examples:
  verso plot curve runs/mine/curve.csv --out curve.png
  verso plot curve runs/a/curve.csv runs/b/curve.csv --out both.png
  verso plot attention 'Good morning, my friend.' --target de --out heads.png
  verso plot positions --out positions.png
  verso plot masks --out masks.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    pictures = parser.add_subparsers(dest="picture", required=True, metavar="PICTURE")

    curve = pictures.add_parser("curve", help="a run's curve.csv, or several in one picture")
    curve.add_argument("curves", type=Path, nargs="+", metavar="FILE", help="curve.csv of a run")
    curve.set_defaults(draw=_draw_curves)

    attention = pictures.add_parser("attention", help="every head of every layer, for one sentence")
    attention.add_argument("text", help="one sentence")
    attention.add_argument(
        "--target-text", metavar="TEXT", help="show the attention of this translation instead of the model's own"
    )
    attention.add_argument("--kind", choices=("cross", "encoder", "decoder"), default="cross", help="default cross")
    add_model_arguments(attention)
    add_pair_arguments(attention)
    add_decoding_arguments(attention)
    attention.set_defaults(draw=_draw_attention)

    positions = pictures.add_parser("positions", help="positional encodings, and how similar positions are")
    layouts = [layout for layout in get_args(PositionTable) if layout != "learned"]
    positions.add_argument("--layout", choices=layouts, default="interleaved", help="default interleaved")
    positions.add_argument("--places", type=int, default=100, metavar="N", help="default 100")
    positions.add_argument("--d-model", type=int, default=128, metavar="C", help="columns; default 128")
    positions.set_defaults(draw=_draw_positions)

    masks = pictures.add_parser("masks", help="which positions may attend to which")
    masks.add_argument("--length", type=int, default=5, metavar="N", help="tokens of the sentence; default 5")
    masks.add_argument("--padding", type=int, default=2, metavar="N", help="padding after it; default 2")
    masks.set_defaults(draw=_draw_masks)

    for picture in (curve, attention, positions, masks):
        picture.add_argument("--out", type=output_file, required=True, metavar="FILE", help="the .png file to write")


def run(arguments: argparse.Namespace) -> int:
    """Draw."""
    if arguments.out.suffix != ".png":
        raise ConfigError(f"--out is {str(arguments.out)!r}; it must end in .png.")
    arguments.draw(arguments)
    print(arguments.out)
    return 0


def _draw_curves(arguments: argparse.Namespace) -> None:
    from model.plots import learning_curve, learning_curves  # matplotlib takes half a second to import

    curves = list(dict.fromkeys(arguments.curves))
    runs = {name: _read_curve(path) for name, path in zip(_names_of(curves), curves, strict=True)}
    if len(runs) == 1:
        learning_curve(next(iter(runs.values())), arguments.out)
    else:
        learning_curves(runs, arguments.out)


def _names_of(paths: list[Path]) -> list[str]:
    """Distinct names for curves: those of the files, or else of their folders, or else the whole paths."""
    for names in ([path.stem for path in paths], [str(path.parent) for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _read_curve(path: Path) -> list[dict[str, float | None]]:
    """The evaluations of a run.

    Raises:
        DataError: The file cannot be read, or has none.
    """
    try:
        with path.open(newline="", encoding="utf-8") as source:
            rows = [
                {key: float(value) if value else None for key, value in row.items()} for row in csv.DictReader(source)
            ]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read as a learning curve: {error}.") from error
    if not rows:
        raise DataError(f"{path} contains no evaluation yet.")
    if "step" not in rows[0]:
        raise DataError(f"{path} cannot be read as a learning curve: it has no column 'step'.")
    return rows


def _draw_attention(arguments: argparse.Namespace) -> None:
    from model.plots import attention_grid

    attention = load_translator(arguments).attention(
        arguments.text, decoding_options(arguments), arguments.source, arguments.target, arguments.target_text
    )
    rows, columns = attention.labels(arguments.kind)
    title = f"{arguments.kind} attention, every head: {attention.translation}"
    arguments.out.write_bytes(attention_grid(getattr(attention, arguments.kind), rows, columns, title))


def _draw_positions(arguments: argparse.Namespace) -> None:
    from model.network.embeddings import position_table
    from model.plots import position_picture

    if arguments.places < 1:
        raise ConfigError(f"--places is {arguments.places}; it must be at least 1.")
    if arguments.d_model < 4 or arguments.d_model % 2:
        raise ConfigError(f"--d-model is {arguments.d_model}; it must be even and at least 4.")
    table = position_table(arguments.layout, arguments.places, arguments.d_model)
    position_picture(table, f"positional encoding, {arguments.layout}", arguments.out)


def _draw_masks(arguments: argparse.Namespace) -> None:
    import torch

    from model.network.masks import causal_mask, padding_mask
    from model.plots import mask_picture

    for name, value, least in (("length", arguments.length, 1), ("padding", arguments.padding, 0)):
        if not least <= value <= 100:
            raise ConfigError(f"--{name} is {value}; it must be {least} to 100.")
    pad_id = 0
    tokens = torch.tensor([[1] * arguments.length + [pad_id] * arguments.padding])
    total = tokens.size(1)
    masks = {
        "at the source: not at padding": padding_mask(tokens, pad_id)[0, 0].expand(total, total),
        "at the target: not ahead": causal_mask(total, torch.device("cpu")),
    }
    mask_picture(masks, arguments.out)
