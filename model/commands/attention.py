"""The command ``attention``: draw the attention behind one sentence."""

from __future__ import annotations

import argparse

from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    add_pair_arguments,
    add_steering_arguments,
    decoding_options,
    load_translator,
    output_file,
    say,
    search_table,
)
from model.errors import ConfigError

EPILOG = """\
example:
  verso attention 'Good morning, my friend.' --target de --out attention.png
An .npz file gets all weights of encoder, decoder and cross-attention instead of a picture.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("text", help="one sentence")
    add_model_arguments(parser)
    add_pair_arguments(parser)
    parser.add_argument(
        "--target-text", metavar="TEXT", help="show the attention of this translation instead of the model's own"
    )
    parser.add_argument("--kind", choices=("cross", "encoder", "decoder"), default="cross", help="default cross")
    parser.add_argument("--layer", type=int, default=-1, help="counted from 0, or from the end with -1 (default)")
    parser.add_argument("--head", type=int, help="counted from 0; default: the mean of all")
    parser.add_argument("--out", type=output_file, required=True, metavar="FILE", help="a .png or .npz file")
    add_decoding_arguments(parser)
    add_steering_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the picture or the weights."""
    if arguments.out.suffix not in (".png", ".npz"):
        raise ConfigError(f"--out is {str(arguments.out)!r}; it must end in .png or .npz.")
    attention = load_translator(arguments).attention(
        arguments.text, decoding_options(arguments), arguments.source, arguments.target, arguments.target_text
    )
    if arguments.out.suffix == ".npz":
        import numpy as np

        np.savez_compressed(
            arguments.out,
            encoder=attention.encoder.numpy(),
            decoder=attention.decoder.numpy(),
            cross=attention.cross.numpy(),
            source_tokens=np.array(attention.source_tokens),
            target_tokens=np.array(attention.target_tokens),
        )
    else:
        from model.plots import attention_heat_map

        layers = getattr(attention, arguments.kind)
        if not -len(layers) <= arguments.layer < len(layers):
            raise ConfigError(f"--layer is {arguments.layer}; {arguments.kind} has layers 0 to {len(layers) - 1}.")
        heads = layers[arguments.layer]
        if not len(heads):
            raise ConfigError("--kind is decoder; the decoder of this model is recurrent and has no self-attention.")
        if arguments.head is not None and not 0 <= arguments.head < len(heads):
            raise ConfigError(f"--head is {arguments.head}; there are heads 0 to {len(heads) - 1}.")
        rows, columns = attention.labels(arguments.kind)
        which = "mean of the heads" if arguments.head is None else f"head {arguments.head}"
        title = f"{arguments.kind} attention, layer {arguments.layer % len(layers)}, {which}"
        weights = heads.mean(dim=0) if arguments.head is None else heads[arguments.head]
        arguments.out.write_bytes(attention_heat_map(weights.numpy(), rows, columns, title))
    print(attention.translation)
    for line in search_table(attention.search) if attention.search is not None else ():
        print(line)
    say(f"{arguments.out}")
    return 0
