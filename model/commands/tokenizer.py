"""The command ``tokenizer``: learn a vocabulary, or show the pieces of a text."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.errors import ArtifactError

EPILOG = """\
examples:
  verso tokenizer --learn text.en text.de.xz --languages en de --vocab-size 8000 --out tokenizer.model
  verso tokenizer --show 'Good morning.' --target de --tokenizer tokenizer.model
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--learn", type=Path, nargs="+", metavar="FILE", help="text to learn from (plain, .gz, .xz)")
    which.add_argument("--show", metavar="TEXT", help="print the pieces of a text with their characters")
    parser.add_argument("--languages", nargs="+", default=["de", "en"], metavar="XX", help="languages to translate to")
    parser.add_argument("--vocab-size", type=int, default=8000, help="tokens; default 8000")
    parser.add_argument("--out", type=Path, default=Path("tokenizer.model"), metavar="FILE", help="where to write it")
    parser.add_argument("--tokenizer", type=Path, default=Path("tokenizer.model"), metavar="FILE", help="for --show")
    parser.add_argument("--target", default="de", metavar="XX", help="for --show: language of the translation")


def run(arguments: argparse.Namespace) -> int:
    """Learn or show."""
    from model.text.tokenizer import VersoTokenizer
    from model.text.tokenizer_training import learn_tokenizer
    from model.training.corpus import read_lines

    if arguments.show is not None:
        tokenizer = VersoTokenizer.load(arguments.tokenizer)
        ids, spans = tokenizer.encode_with_offsets(arguments.show, arguments.target)
        for token_id, piece, (start, end) in zip(ids, tokenizer.pieces(ids), spans, strict=True):
            print(f"{token_id:>6}  {start:>4}-{end:<4}  {piece}")
        return 0
    lines = (line for path in arguments.learn for line in read_lines(path))
    tokenizer = learn_tokenizer(lines, arguments.vocab_size, arguments.languages)
    try:
        arguments.out.write_bytes(tokenizer.model_proto)
    except OSError as error:
        raise ArtifactError(f"The tokenizer {arguments.out} cannot be written: {error.strerror}.") from error
    print(f"{arguments.out}: {tokenizer.vocab_size} tokens")
    return 0
