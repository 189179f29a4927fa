"""The command ``prepare``: aligned text to training text, held-out text and a configuration."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from model.commands.models import device_of, say, with_progress
from model.errors import ConfigError, DataError

if TYPE_CHECKING:
    from model.text.tokenizer import VersoTokenizer
    from model.training.corpus import Pair
    from model.training.defaults import FittingSettings, Hardware
    from model.training.preparation import Prepared

CONFIGURATION = "train.yaml"
LEFT_OUT = "left-out.tsv"

_TOLERANCE = 1.2
"""How many times as long as wanted a training may probably take."""

_CODE = re.compile(r"[a-z]{2,3}")

_NO_LANGUAGES = ("txt", "tok", "raw")
"""Endings that name no language, although they are codes of some."""

EPILOG = """\
examples:
  verso prepare --source text.eo --target text.it --out data/eo-it
  verso prepare --source subtitles.fi.gz --target subtitles.et.gz --held-out 1000 --hours 12 --out data/fi-et
  verso prepare --table sentences.tsv --columns 2 4 --languages cs sk --out data/cs-sk
Line n of one file is the translation of line n of the other (UTF-8; plain, .gz or .xz). The languages are the endings
of the files, or --languages. The folder gets
  train.xx train.yy    the training text: cleaned, split where both sides have equally many sentences, each pair once
  dev.* test.*         held-out text: no side of it, up to case and punctuation, is in the training text
  train.yaml           a configuration that fits the amount of text and this machine, with a reason for each setting
  left-out.tsv         every pair that is not used: its line, the reason, both sides
The same text gives the same sets. Then:
  verso train --config data/eo-it/train.yaml --data data/eo-it --run runs/eo-it
  verso export --checkpoint runs/eo-it/averaged.pt --out eo-it.pt
  VERSO_MODEL=eo-it.pt verso serve
docs/training.md goes through it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("--source", type=Path, metavar="FILE", help="the text in one language")
    parser.add_argument("--target", type=Path, metavar="FILE", help="its translation, line by line")
    parser.add_argument("--table", type=Path, metavar="FILE", help="instead of both: a file with tabs between columns")
    parser.add_argument(
        "--columns", type=int, nargs=2, default=(1, 2), metavar="N", help="columns of --table; default 1 2"
    )
    parser.add_argument(
        "--languages", nargs=2, metavar="XX", help="codes of two or three letters; default: the endings of the files"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write; created if needed")
    parser.add_argument("--overwrite", action="store_true", help="replace what an earlier preparation wrote there")
    parser.add_argument(
        "--held-out",
        type=int,
        metavar="N",
        help="pairs of the development set, and of the test set; default: a fiftieth of the text, 100 to 2,000",
    )
    parser.add_argument("--name", help="name of the model; default XX-YY")
    parser.add_argument("--hours", type=float, default=5.0, metavar="H", help="time for the training; default 5")
    parser.add_argument("--device", default="auto", help="device of the training: auto, cpu or cuda; default auto")


def run(arguments: argparse.Namespace) -> int:
    """Prepare."""
    from model.artifacts.bundle import check_device
    from model.training.defaults import fitting_settings
    from model.training.preparation import prepare_text, read_files, read_table
    from model.training.recipe import configuration_text, text_statistics, try_vocabulary

    _check(arguments)
    languages = _languages(arguments)
    device = device_of(arguments)
    check_device(device, "float32")
    if arguments.table:
        raw = read_table(arguments.table, tuple(arguments.columns))
    else:
        raw = read_files(arguments.source, arguments.target)
    prepared = prepare_text(raw, languages, arguments.held_out, with_progress)
    del raw
    hardware = _hardware(device)
    say("trying a vocabulary")
    tokenizer = try_vocabulary(prepared.train, languages)
    statistics = text_statistics(prepared.train, languages, tokenizer)
    fitting = fitting_settings(statistics, hardware, arguments.hours)
    name = arguments.name or "-".join(languages)
    text = configuration_text(name, languages, prepared.length_ratio, fitting)
    _write(arguments.out, languages, prepared, text)
    print(_report(prepared, languages))
    say("measuring the speed of a few updates")
    measured = _measured(arguments.out, tokenizer, prepared.train, device)
    tokens_per_s = measured * hardware.num_processes
    if fitting.num_tokens / tokens_per_s / 3600 > _TOLERANCE * arguments.hours:
        fitting = fitting_settings(statistics, hardware, arguments.hours, (fitting.shape, tokens_per_s))
        text = configuration_text(name, languages, prepared.length_ratio, fitting)
        (arguments.out / CONFIGURATION).write_text(text, encoding="utf-8")
    print(_estimate(arguments, fitting, hardware, measured))
    print(_next_steps(arguments.out, name))
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that do not fit together, before any work.

    Raises:
        ConfigError: An argument is missing or out of bounds.
        DataError: The folder has an earlier preparation.
    """
    if bool(arguments.table) == bool(arguments.source or arguments.target) or (
        not arguments.table and not (arguments.source and arguments.target)
    ):
        raise ConfigError("Give two files with --source and --target, or one with --table.")
    if min(arguments.columns) < 1 or arguments.columns[0] == arguments.columns[1]:
        raise ConfigError(f"--columns is {arguments.columns}; it must be two different numbers from 1.")
    if arguments.held_out is not None and arguments.held_out < 1:
        raise ConfigError(f"--held-out is {arguments.held_out}; it must be at least 1.")
    if not arguments.hours > 0:
        raise ConfigError(f"--hours is {arguments.hours:g}; it must be above 0.")
    if (arguments.out / CONFIGURATION).exists() and not arguments.overwrite:
        raise DataError(
            f"{arguments.out / CONFIGURATION} exists; choose another --out, or replace everything with --overwrite."
        )


def _languages(arguments: argparse.Namespace) -> tuple[str, str]:
    """The two codes.

    Raises:
        ConfigError: They are missing, equal, or not two or three letters.
    """
    if arguments.languages:
        first, second = (code.lower() for code in arguments.languages)
    elif arguments.table:
        raise ConfigError("--table needs --languages: two codes of two or three letters, such as 'cs sk'.")
    else:
        first, second = (_ending(path) for path in (arguments.source, arguments.target))
    for code in (first, second):
        if not _CODE.fullmatch(code) or (code in _NO_LANGUAGES and not arguments.languages):
            raise ConfigError(
                f"{code!r} is no language code of two or three letters; name the languages with --languages XX YY."
            )
    if first == second:
        raise ConfigError(f"Both languages are {first!r}; name two different ones with --languages XX YY.")
    return first, second


def _ending(path: Path) -> str:
    """``eo`` of ``text.eo`` and ``text.eo.gz``."""
    packed = path.suffix in (".gz", ".xz")
    return (Path(path.stem) if packed else path).suffix.removeprefix(".").lower()


def _hardware(device: str) -> Hardware:
    import torch

    from model.process.threads import available_threads
    from model.training.defaults import Hardware

    if device == "cpu":
        return Hardware("cpu", available_threads())
    return Hardware("cuda", available_threads(), torch.cuda.device_count())


def _write(folder: Path, languages: tuple[str, str], prepared: Prepared, configuration: str) -> None:
    from model.training.corpus import write_parallel

    folder.mkdir(parents=True, exist_ok=True)
    sets: dict[str, list[Pair]] = {"train": prepared.train, "dev": prepared.dev, "test": prepared.test}
    for base, pairs in sets.items():
        write_parallel(folder / base, languages, pairs)
    with (folder / LEFT_OUT).open("w", encoding="utf-8", newline="\n") as sink:
        sink.write("line\treason\t" + "\t".join(languages) + "\n")
        for entry in prepared.left_out:
            sides = (" ".join(side.split()) for side in entry.pair)
            sink.write("\t".join([str(entry.line), entry.reason.value, *sides]) + "\n")
    (folder / CONFIGURATION).write_text(configuration, encoding="utf-8")


def _report(prepared: Prepared, languages: tuple[str, str]) -> str:
    """A table of the result of every line."""
    from model.training.cleaning import Reason

    counts = Counter(entry.reason for entry in prepared.left_out)
    rows = [("lines", prepared.num_lines)]
    if prepared.num_split:
        rows.append(
            (f"+ pairs of the {prepared.num_split:,} lines that were split", prepared.num_pairs - prepared.num_lines)
        )
    rows += [(f"- {reason.value}", counts[reason]) for reason in Reason if counts[reason]]
    rows += [
        (f"= training text, train.{languages[0]} and train.{languages[1]}", len(prepared.train)),
        ("= development set, dev.*", len(prepared.dev)),
        ("= test set, test.*", len(prepared.test)),
    ]
    lines = [f"{label:<66}{number:>12,}" for label, number in rows]
    if prepared.num_repaired:
        lines.append(f"Repaired (Unicode form, control characters, spaces): {prepared.num_repaired:,} lines.")
    if counts[Reason.NOT_UTF8]:
        numbers = [str(entry.line) for entry in prepared.left_out if entry.reason is Reason.NOT_UTF8]
        more = ", ..." if len(numbers) > 10 else ""
        lines.append(f"Not UTF-8: line {', '.join(numbers[:10])}{more}.")
    if prepared.left_out:
        lines.append(f"{LEFT_OUT} lists what was left out.")
    return "\n".join(lines)


def _measured(folder: Path, tokenizer: VersoTokenizer, pairs: list[Pair], device: str) -> float:
    """Target tokens a second of one process."""
    from model.training.settings import TrainingSettings
    from model.training.speed import measured_tokens_per_s

    return measured_tokens_per_s(TrainingSettings.load(folder / CONFIGURATION), tokenizer, pairs, device)


def _estimate(arguments: argparse.Namespace, fitting: FittingSettings, hardware: Hardware, measured: float) -> str:
    """How long the training takes, and what to do if that is too long."""
    tokens_per_s = measured * hardware.num_processes
    hours = fitting.num_tokens / tokens_per_s / 3600
    steps = fitting.settings["max_steps"].value
    several = f" on each of {hardware.num_processes} GPUs" if hardware.num_processes > 1 else ""
    lines = [
        "",
        f"{fitting.shape.name}: {fitting.num_parameters / 1e6:.1f} M parameters, "
        f"{fitting.settings['vocab_size'].value:,} tokens; {steps:,} updates.",
        f"Training takes about {_duration(hours)} for {fitting.num_tokens / 1e6:.1f} M target tokens, at "
        f"{measured:,.0f} a second{several}, as just measured; evaluations and other programs are not counted.",
    ]
    if hours > _TOLERANCE * arguments.hours:
        lines.append(
            f"That is more than --hours {arguments.hours:g}, but {steps:,} updates are the fewest that are planned."
        )
    return "\n".join(lines)


def _duration(hours: float) -> str:
    minutes = round(hours * 60)
    if minutes < 1:
        return "a minute"
    return f"{minutes} minutes" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _next_steps(folder: Path, name: str) -> str:
    return f"""
next:
  verso train --config {folder / CONFIGURATION} --data {folder} --run runs/{name}
  verso export --checkpoint runs/{name}/averaged.pt --out {name}.pt
  verso evaluate --model {name}.pt --test {folder / "test"}
  VERSO_MODEL={name}.pt verso serve"""
