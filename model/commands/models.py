"""Arguments that several commands share: the model, the device, decoding options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

from tqdm import tqdm

from model.decoding.options import Scoring
from model.errors import ConfigError
from model.languages import LanguagePairs, standard_code
from model.text.glossary import Glossary, GlossaryTerm
from model.text.protection import Protect
from model.translation.options import Formality, TranslationOptions

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision
    from model.translator import Translator


def say(line: str) -> None:
    """Print a message for people, on standard error; standard output is for results."""
    print(line, file=sys.stderr, flush=True)


def with_progress(items: Iterable[Any], label: str, total: int, unit: str = "sentences") -> Iterable[Any]:
    """A progress bar on standard error."""
    # None: no bar if standard error is not a terminal.
    return tqdm(items, desc=label, total=total, unit=f" {unit}", dynamic_ncols=True, disable=None)


def output_file(text: str) -> Path:
    """A file to write, as an argument; a missing folder is reported before the work, not after it."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}")
    return path


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """``--model``, ``--device``, ``--threads``."""
    parser.add_argument(
        "--model",
        default="auto",
        metavar="FILE|auto",
        help="a bundle or a checkpoint; auto is the shipped translator (default)",
    )
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU that torch can use, or the CPU), cpu or cuda; default auto"
    )
    parser.add_argument("--threads", type=int, default=None, help="CPU threads; default: all")


def add_test_argument(parser: argparse.ArgumentParser) -> None:
    """``--test``, a list of one test set or more."""
    parser.add_argument(
        "--test",
        type=Path,
        required=True,
        action="append",
        metavar="BASE",
        help="test set without language ending; may be given several times",
    )


def add_precision_argument(parser: argparse.ArgumentParser) -> None:
    """``--precision`` of a bundle to be written."""
    parser.add_argument(
        "--precision",
        choices=("auto", "float32", "float16", "bfloat16", "int8"),
        default="auto",
        help="auto is int8 on a CPU that multiplies bytes, float32 on others, float16 on a GPU; bfloat16 takes half "
        "the memory of float32",
    )


def chosen_precision(arguments: argparse.Namespace, device: str) -> Precision:
    """The precision of ``--precision`` on a device."""
    from model.artifacts.pretrained import preferred_precision

    chosen: Precision = preferred_precision(device) if arguments.precision == "auto" else arguments.precision
    return chosen


def add_shortlist_argument(parser: argparse.ArgumentParser) -> None:
    """``--shortlist``."""
    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="choose among likely translations of the sentence's own tokens only, by the shortlist in the bundle",
    )


def device_of(arguments: argparse.Namespace) -> str:
    """The device of ``--device``; reports a GPU that was expected and cannot be used."""
    from model.process.devices import choose_device

    choice = choose_device(arguments.device)
    if choice.warning is not None:
        say(f"warning: {choice.warning}")
    return choice.device


def load_translator(arguments: argparse.Namespace) -> Translator:
    """The translator the arguments name; a checkpoint runs eagerly in float32.

    Raises:
        ConfigError: A shortlist is requested, but the model is a checkpoint; only bundles have one.
    """
    # Imported here: a command line that needs no model, such as that of a client, need not wait for torch.
    import torch

    from model.artifacts.bundle import Bundle, is_checkpoint
    from model.artifacts.checkpoint import load_checkpoint
    from model.artifacts.loaded_network import LoadedNetwork
    from model.artifacts.manifest import Manifest
    from model.artifacts.pretrained import build_pretrained
    from model.translator import Translator

    device = device_of(arguments)
    shortlist = getattr(arguments, "shortlist", False)  # not every command offers it
    if arguments.model == "auto":
        path = build_pretrained(device, report=say, progress=with_progress)
        return Translator.load(path, device, arguments.threads, shortlist=shortlist)
    path = Path(arguments.model)
    if not is_checkpoint(path):
        return Translator.load(path, device, arguments.threads, shortlist=shortlist)
    if shortlist:
        raise ConfigError(f"--shortlist needs a bundle, and {path} is a checkpoint: export it first.")
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    checkpoint = load_checkpoint(path)
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, "float32")
    module = checkpoint.build().to(device)
    return Translator(Bundle(LoadedNetwork(module), checkpoint.tokenizer, manifest, torch.device(device), ""))


def add_pair_arguments(parser: argparse.ArgumentParser) -> None:
    """``--source`` and ``--target``."""
    parser.add_argument("--source", metavar="XX", help="language of the text; optional if --target determines it")
    parser.add_argument("--target", metavar="XX", help="language of the translation")


def parse_pair(text: str) -> tuple[str, str]:
    """The two codes of ``en-de``, or of ``en:zh-Hans`` if a code contains a hyphen.

    Raises:
        ConfigError: It is something else.
    """
    parts = text.split(":") if ":" in text else text.split("-")
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f"--pair is {text!r}; it must be two codes, like en-de (or en:zh-Hans).")
    return standard_code(parts[0]), standard_code(parts[1])


def chosen_pairs(texts: Sequence[str] | None, directions: LanguagePairs) -> list[tuple[str, str]]:
    """The pairs ``--pair`` names, or all there are.

    Raises:
        ConfigError: The model has no such pair, or has too many to take all.
    """
    pairs = [parse_pair(text) for text in texts or []] or list(directions.pairs)
    if not pairs:
        raise ConfigError(f"The model translates {directions.describe()}; choose with --pair.")
    for source, target in pairs:
        if (source, target) not in directions:
            raise ConfigError(f"--pair is '{source}-{target}'; the model has {directions.describe()}.")
    return pairs


def add_decoding_arguments(parser: argparse.ArgumentParser) -> None:
    """All fields of :class:`model.translation.options.TranslationOptions`."""
    defaults = TranslationOptions()
    parser.add_argument("--decoding", choices=("greedy", "beam"), default=defaults.decoding, help="default beam")
    parser.add_argument("--beam-size", type=int, default=defaults.beam_size, help="hypotheses kept; default 4")
    parser.add_argument(
        "--length-penalty", type=float, default=None, help="0 favours short answers; default: the model's own, mostly 1"
    )
    parser.add_argument(
        "--scoring",
        choices=get_args(Scoring),
        default=None,
        help="whose rules compare hypotheses (docs/import.md); default: the model's own",
    )
    parser.add_argument("--min-new-tokens", type=int, default=0, help="no answer is shorter; default 0")
    parser.add_argument(
        "--max-new-tokens", type=int, default=None, help="longer answers are cut; default: twice the source plus 20"
    )
    parser.add_argument(
        "--no-repeat-ngram-size", type=int, default=0, help="guard against loops: no n tokens occur twice; default off"
    )
    parser.add_argument(
        "--formality",
        choices=get_args(Formality),
        default=None,
        help="form of address of the translation, for models that support it",
    )
    parser.add_argument(
        "--glossary",
        type=read_glossary,
        default=(),
        metavar="FILE",
        help="terms and their translations, one pair a line, with a tab between",
    )
    parser.add_argument(
        "--no-lexicon",
        action="store_false",
        dest="lexicon",
        help="do without the lexicon of the model, which has translations of rare words",
    )
    parser.add_argument(
        "--protect",
        action="append",
        metavar="auto|none|PATTERN",
        help="spans that come back unchanged: auto (default: URLs, placeholders, tags, emoji ...), none, or a regular "
        "expression (RE2), which replaces the default; may be given several times",
    )


def add_steering_arguments(parser: argparse.ArgumentParser) -> None:
    """``--target-prefix`` and ``--search``."""
    parser.add_argument(
        "--target-prefix", default="", metavar="TEXT", help="what the translation of a single sentence begins with"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="behind the translation of a single sentence, every token that the search considered, step by step",
    )


class SearchCandidate(Protocol):
    """A candidate of a search, of this machine or of a service."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def parent(self) -> int:
        """The number of the candidate that it continues."""
        ...

    @property
    def token(self) -> str:
        """The token as text."""
        ...

    @property
    def log_prob(self) -> float:
        """The sum of log-probabilities so far."""
        ...

    @property
    def kept(self) -> bool:
        """Whether the search continued with it, or it ended among the best."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the translation ends with it."""
        ...


def search_table(search: Iterable[Iterable[SearchCandidate]]) -> list[str]:
    """The candidates of a search as lines of a table, with a head.

    Args:
        search: The candidates of each step.
    """
    lines = ["step    id  parent  log_prob  token"]
    for step, candidates in enumerate(search):
        for candidate in candidates:
            fate = "ended" if candidate.finished and candidate.kept else "kept" if candidate.kept else ""
            numbers = f"{step:4}  {candidate.id:4}  {candidate.parent:6}  {candidate.log_prob:8.3f}"
            lines.append(f"{numbers}  {candidate.token:<16}  {fate}".rstrip())
    return lines


def read_glossary(text: str) -> Glossary:
    """The terms of a file, as an argument: source and target of a term with a tab between them, one term a line."""
    path = Path(text)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read: {error}") from error
    terms: list[GlossaryTerm] = []
    for number, line in enumerate(lines, start=1):
        source, tab, target = line.partition("\t")
        if not line.strip():
            continue
        if not tab or "\t" in target:
            raise argparse.ArgumentTypeError(f"line {number} of {text!r} must be a term, a tab and its translation")
        terms.append(GlossaryTerm(source.strip(), target.strip()))
    return tuple(terms)


def _protect(values: Sequence[str] | None) -> Protect:
    """What the arguments ``--protect`` ask for."""
    match values:
        case None | ["auto"]:
            return "auto"
        case ["none"]:
            return "none"
        case _:
            return tuple(values)


def decoding_options(arguments: argparse.Namespace, **more: Any) -> TranslationOptions:
    """The options the arguments ask for."""
    return TranslationOptions(
        decoding=arguments.decoding,
        beam_size=arguments.beam_size,
        length_penalty=arguments.length_penalty,
        scoring=arguments.scoring,
        min_new_tokens=arguments.min_new_tokens,
        max_new_tokens=arguments.max_new_tokens,
        no_repeat_ngram_size=arguments.no_repeat_ngram_size,
        formality=arguments.formality,
        glossary=arguments.glossary,
        lexicon=arguments.lexicon,
        protect=_protect(arguments.protect),
        target_prefix=getattr(arguments, "target_prefix", ""),  # not every command offers these
        return_search=getattr(arguments, "search", False),
        **more,
    )
