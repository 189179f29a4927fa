"""Documents that the command ``translate`` names: translated on this machine, or by a running service."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Never

from tqdm import tqdm

from model.errors import ConfigError, DataError, ModelError
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from app.documents.document import Document
    from app.documents.service import DocumentService

TranslateFile = Callable[[Path], tuple[bytes, str]]
"""Translates a document; returns the file and the language it is in."""


def find_documents(names: Sequence[str]) -> list[Path]:
    """The documents that are named on a command line; none if the names are words to translate.

    Args:
        names: The names.

    Raises:
        ConfigError: A name is that of a folder or of a file that is not there.
    """
    from app.documents.formats.table import FORMATS

    paths = [Path(name) for name in names]
    are_files = [path.is_file() for path in paths]
    for name, path, is_file in zip(names, paths, are_files, strict=True):
        if path.is_dir():
            raise ConfigError(f"{name} is a folder; name its files, or add --ray for bulk translation.")
        is_named_like_one = not any(map(str.isspace, name)) and path.suffix.lower() in FORMATS
        if not is_file and (any(are_files) or is_named_like_one):
            raise ConfigError(f"There is no file {name}.")
    return paths if any(are_files) else []


def translate_files(paths: Sequence[Path], folder: Path | None, translate: TranslateFile) -> int:
    """Translate documents one after the other, each into a new file.

    Args:
        paths: The documents.
        folder: The folder of the new files; beside each document if None.
        translate: Translates one of them.

    Returns:
        The exit code: 1 if a document was not translated.
    """
    from app.documents.formats.table import translated_name

    has_failed = False
    for path in paths:
        try:
            content, target = translate(path)
            new = (folder or path.parent) / translated_name(path.name, target)
            _write(new, content)
        except (ModelError, OSError) as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            has_failed = True
        else:
            print(new)
    return int(has_failed)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise DataError(
            f"{path} exists, and nothing is overwritten; move it away, or name a folder with --out."
        ) from error


def translate_here(arguments: argparse.Namespace, paths: Sequence[Path], options: TranslationOptions) -> int:
    """Translate documents with a model on this machine.

    Args:
        arguments: The command line.
        paths: The documents.
        options: How to translate them.

    Returns:
        The exit code.

    Raises:
        ConfigError: The model is a checkpoint, or a value of the command line is out of bounds.
    """
    from app.documents.service import DocumentService
    from app.errors import SettingsError
    from app.models.bundles import BundleFiles
    from app.serving.service import TranslationService
    from app.settings import AUTO, load_settings
    from app.telemetry.metrics import Metrics
    from model.artifacts.bundle import is_checkpoint

    if arguments.model != AUTO and is_checkpoint(Path(arguments.model)):
        raise ConfigError(f"Documents need a bundle, and {arguments.model} is a checkpoint: export it first.")
    threads = "" if arguments.threads is None else str(arguments.threads)
    try:
        settings = load_settings(
            {
                "VERSO_MODEL": arguments.model,
                "VERSO_DEVICE": arguments.device,
                "VERSO_THREADS": threads,
                "VERSO_SHORTLIST": "on" if arguments.shortlist else "off",
            }
        )
    except SettingsError as error:
        raise ConfigError(str(error)) from error

    async def run() -> int:
        service = TranslationService(settings, Metrics(), BundleFiles(settings))
        documents = DocumentService(settings, service)
        await service.start()
        try:
            await service.wait_loaded()
            if service.failure is not None:
                raise DataError(str(service.failure))
            loop = asyncio.get_running_loop()

            def translate(path: Path) -> tuple[bytes, str]:
                return asyncio.run_coroutine_threadsafe(
                    _translate(documents, path, arguments.source, arguments.target, options, arguments.quiet), loop
                ).result()

            return await asyncio.to_thread(translate_files, paths, arguments.out, translate)
        finally:
            await documents.stop()
            await service.stop()

    return asyncio.run(run())


async def _translate(
    documents: DocumentService,
    path: Path,
    source: str | None,
    target: str | None,
    options: TranslationOptions,
    quiet: bool,
) -> tuple[bytes, str]:
    """A translated document and its language, with a progress bar.

    Raises:
        DataError: It cannot be translated.
    """
    from app.errors import ServiceError

    try:
        document = await documents.add(path.read_bytes(), path.name, source or "auto", target, options)
        with tqdm(desc=path.name, unit=" sentences", disable=quiet or None, dynamic_ncols=True) as bar:
            async for state in documents.states(document):
                document = state
                _show(bar, document)
        if document.problem is not None:
            raise DataError(str(document.problem["detail"]))
        if document.num_left:
            print(f"{path}: {document.num_left} sentences stay in their language", file=sys.stderr)
        return (await documents.result(document.id)).content, document.target
    except ServiceError as error:
        raise DataError(str(error)) from error


def _show(bar: tqdm[Never], document: Document) -> None:
    if document.num_sentences is not None:
        bar.total = document.num_sentences
        bar.update(document.num_done - bar.n)
