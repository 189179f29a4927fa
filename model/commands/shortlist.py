"""The command ``shortlist``: learn which target tokens a sentence can need, and put that into a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.commands.models import say, with_progress
from model.errors import ArtifactError, ConfigError
from model.text.tokenizer import Tokenizer
from model.training.shortlist import ShortlistSettings

_DEFAULTS = ShortlistSettings()

EPILOG = """\
examples:
  verso shortlist --model mine.pt --data DATA --config configs/verso-en-de.yaml --out mine-short.pt
  verso evaluate --model mine-short.pt --test DATA/eval/test
  verso evaluate --model mine-short.pt --test DATA/eval/test --shortlist
  VERSO_MODEL=mine-short.pt VERSO_SHORTLIST=on verso serve
Which target tokens translate which source tokens is learned from the training text the config names (IBM Model 1).
With the shortlist on, a sentence's answer is made of the lists of its own tokens and of the most frequent tokens; the
compiled decoder computes nothing else. Longer lists cost time, shorter ones BLEU: evaluate with and without.
An --out that ends in .npz gets the table alone.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="a bundle, or for .npz a checkpoint")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="a YAML file that names the corpora")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder that corpus paths are relative to; default: this one",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the new bundle (.pt, .verso) or table (.npz)"
    )
    parser.add_argument(
        "--per-token",
        type=int,
        default=_DEFAULTS.per_token,
        metavar="N",
        help=f"translations stored for each source token; default {_DEFAULTS.per_token}",
    )
    parser.add_argument(
        "--min-probability",
        type=float,
        default=_DEFAULTS.min_probability,
        metavar="P",
        help=f"less likely translations are left out; default {_DEFAULTS.min_probability}",
    )
    parser.add_argument(
        "--frequent",
        type=int,
        default=_DEFAULTS.frequent,
        metavar="N",
        help=f"most frequent target tokens, which every sentence may use; default {_DEFAULTS.frequent}",
    )
    parser.add_argument(
        "--iterations", type=int, default=_DEFAULTS.iterations, help=f"rounds; default {_DEFAULTS.iterations}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Learn it and write it."""
    from model.artifacts.archive import add_shortlist
    from model.artifacts.bundle import is_checkpoint, read_tokenizer
    from model.artifacts.checkpoint import load_checkpoint
    from model.artifacts.manifest import Manifest
    from model.training.corpus import load_training_pairs
    from model.training.settings import TrainingSettings
    from model.training.shortlist import learn_for_model

    alone = arguments.out.suffix == ".npz"
    if arguments.out.suffix not in (".pt", ".verso", ".npz"):
        raise ConfigError(f"--out is {str(arguments.out)!r}; it must end in .pt, .verso or .npz.")
    shortlist_settings = ShortlistSettings(
        per_token=arguments.per_token,
        min_probability=arguments.min_probability,
        frequent=arguments.frequent,
        iterations=arguments.iterations,
    )
    if is_checkpoint(arguments.model):
        if not alone:
            raise ConfigError(f"--model is the checkpoint {arguments.model}; export it first, or write an .npz file.")
        checkpoint = load_checkpoint(arguments.model)
        manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, "float32")
        tokenizer: Tokenizer = checkpoint.tokenizer
    else:
        manifest, tokenizer = read_tokenizer(arguments.model)
    settings = TrainingSettings.load(arguments.config)
    corpora, _ = load_training_pairs(arguments.data, settings.train, settings.languages)
    pairs = [pair for corpus in corpora for pair in corpus.pairs]
    shortlist = learn_for_model(manifest, tokenizer, pairs, settings.languages, shortlist_settings, with_progress)
    if alone:
        try:
            arguments.out.write_bytes(shortlist.to_bytes())
        except OSError as error:
            raise ArtifactError(f"The table {arguments.out} cannot be written: {error.strerror}.") from error
    else:
        add_shortlist(arguments.model, shortlist, arguments.out)
    say(
        f"{len(shortlist.ids)} translations of {len(shortlist.offsets) - 1} source tokens, and {len(shortlist.always)} "
        f"tokens that are always there; a sentence has {shortlist.facts['candidates']:.0f} of "
        f"{manifest.architecture['target_vocab_size']} on average"
    )
    print(arguments.out)
    return 0
