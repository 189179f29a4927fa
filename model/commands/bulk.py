"""The options of ``translate`` that are for files, and what it does with ``--ray`` (:mod:`model.bulk`)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from model.bulk.files import find_files, prepare_folder
from model.bulk.formats.table import FileType
from model.bulk.job import Job
from model.bulk.records import Records
from model.bulk.rows import TEXT_COLUMN, TRANSLATION_COLUMN, Columns
from model.bulk.run import Outcome, pending_files, translate_files
from model.commands.models import decoding_options, device_of, say, with_progress
from model.errors import ArtifactError, ConfigError, UnsupportedPair
from model.process.files import file_digest

_DEFAULTS = {
    "column": TEXT_COLUMN,
    "output_column": TRANSLATION_COLUMN,
    "batch_size": 256,
    "max_characters": 100_000,
}

_OPTIONS = (
    "files",
    "out",
    "file_type",
    "column",
    "output_column",
    "workers",
    "batch_size",
    "max_characters",
    "overwrite",
)
"""Options that need ``--ray``, as attributes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options for files."""
    group = parser.add_argument_group("words and files")
    group.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="words to translate, or documents; with --ray files, folders, or patterns in quotes, of Parquet, JSON "
        "lines and text",
    )
    group.add_argument(
        "--ray",
        action="store_true",
        help="translate files with workers of Ray: on this machine, or the cluster that RAY_ADDRESS names",
    )
    group.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the translated files; with --ray required")
    group.add_argument(
        "--file-type",
        choices=get_args(FileType),
        help="the format of all files; default: by their extensions (.parquet, .pq, .jsonl, .ndjson, .txt)",
    )
    group.add_argument("--column", metavar="NAME", help="column or field of the text; default text")
    group.add_argument(
        "--output-column",
        metavar="NAME",
        help="column or field of the translation, and the beginning of the name of the one for errors "
        "(NAME_error); default translation",
    )
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes that translate, each with --threads CPUs (default here: 1); default: as many as the CPUs allow",
    )
    group.add_argument(
        "--batch-size", type=int, metavar="N", help="rows that a worker gets at a time, 1 to 100000; default 256"
    )
    group.add_argument("--max-characters", type=int, metavar="N", help="longer texts get an error; default 100000")
    group.add_argument(
        "--overwrite",
        action="store_const",
        const=True,
        help="translate again the files whose input or options have changed since they were translated",
    )


def refuse_arguments(arguments: argparse.Namespace) -> None:
    """Refuse options for files where there is no ``--ray``.

    Raises:
        ConfigError: There is one.
    """
    for name in _OPTIONS:
        value = getattr(arguments, name)
        if value not in (None, []):
            argument = f"FILE {value[0]}" if name == "files" else f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{argument} is for bulk translation: add --ray. Without it the input is standard input: "
                "verso translate --target de < lines.txt."
            )


def run(arguments: argparse.Namespace) -> int:
    """Translate files."""
    from model.bulk import pipeline

    _check(arguments)
    files = find_files(arguments.files, arguments.out, arguments.file_type)
    job = _job(arguments)
    prepare_folder(arguments.out)
    records, outcome = Records(arguments.out.resolve(), job.recorded), Outcome()
    with records.locked():
        pending = pending_files(files, records, job, outcome, overwrite=bool(arguments.overwrite))
        if pending:
            for reason in outcome.failed:
                say(f"error: {reason}")
            say(f"{len(pending):,} of {len(files):,} files to translate, {outcome.num_before:,} are finished")
            with pipeline.start_ray(job, arguments.workers, arguments.batch_size) as translated:
                translate_files(
                    pending, records, job, translated, outcome, report=say, show_progress=not arguments.quiet
                )
    for line in outcome.describe():
        say(line)
    return outcome.exit_code


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not fit together, and put in defaults.

    Raises:
        ConfigError: There is such an option.
    """
    if not arguments.files:
        raise ConfigError(
            "--ray translates files; name files, folders or patterns: verso translate --ray data/ --out new/"
        )
    if arguments.out is None:
        raise ConfigError("--ray needs --out, the folder of the translated files.")
    if arguments.input == "document":
        raise ConfigError("--input document is for standard input; with --ray each line or row is one text.")
    for name in ("target_prefix", "search"):
        if getattr(arguments, name):
            raise ConfigError(f"--{name.replace('_', '-')} is for a single sentence; with --ray there are many.")
    for name, default in _DEFAULTS.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
    for name, most in (("threads", None), ("workers", None), ("batch_size", 100_000), ("max_characters", 10_000_000)):
        value = getattr(arguments, name)
        if value is not None and not 1 <= value <= (most or value):
            bounds = "at least 1" if most is None else f"1 to {most}"
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; it must be {bounds}.")


def _job(arguments: argparse.Namespace) -> Job:
    """What to do with the texts, checked against the bundle.

    Raises:
        ConfigError: The model is a checkpoint.
        UnsupportedPair: The model does not translate this pair.
        UnsupportedFormality: It does not support the form of address.
        ArtifactError: The bundle is not there, is damaged, or has no shortlist and one is wanted.
    """
    from model.artifacts.bundle import is_checkpoint, read_manifest
    from model.artifacts.pretrained import build_pretrained

    options = decoding_options(arguments, format=arguments.format, return_confidence=arguments.confidence)
    device = device_of(arguments)
    if arguments.model == "auto":
        bundle = build_pretrained(device, report=say, progress=with_progress)
    else:
        bundle = Path(arguments.model)
        if is_checkpoint(bundle):
            raise ConfigError(f"--ray needs a bundle, and {bundle} is a checkpoint: export it first.")
    manifest = read_manifest(bundle)
    pairs = manifest.directions.find(arguments.source, arguments.target)
    if len(pairs) != 1:
        raise UnsupportedPair(arguments.source, arguments.target, manifest.directions)
    source, target = pairs[0]
    manifest.capabilities.check_formality(options.formality, target)
    if arguments.shortlist and not manifest.shortlist:
        raise ArtifactError(
            f"{bundle} has no vocabulary shortlist; make one with 'verso shortlist --model {bundle}', or leave "
            "--shortlist out."
        )
    return Job(
        bundle=bundle.resolve(),
        sha256=file_digest(bundle),
        device=device,
        num_threads=arguments.threads or 1,
        shortlist=arguments.shortlist,
        source=source,
        target=target,
        options=options,
        columns=Columns(arguments.column, arguments.output_column, arguments.confidence),
        max_characters=arguments.max_characters,
    )
