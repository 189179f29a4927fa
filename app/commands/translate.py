"""The command ``translate``: that of the model, or with ``--server`` of a running service, with the same options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from app.commands.document_files import TranslateFile, find_documents, translate_files, translate_here
from model.commands import bulk
from model.commands import translate as offline
from model.commands.models import decoding_options, search_table
from model.errors import ConfigError, DataError
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from verso_client import Client, ProblemError, TranslateOptions

EPILOG = f"""{offline.EPILOG}
Words and documents may also be named:
  verso translate "Good morning." --target de
  verso translate letter.docx README.md --target de
A document's translation is a new file beside it (letter.de.docx), or in the folder --out; its path is printed.

With --server a running service translates, which need not be on this machine (the package verso-client is needed):
  echo 'Good morning.' | verso translate --server http://localhost:8000 --target de
"""

_LOCAL_OPTIONS = ("model", "device", "threads", "shortlist")
"""Options that say how this machine translates."""

_TEXTS_AT_ONCE = 64
_CHARACTERS_AT_ONCE = 10_000
"""Sizes of one request: large enough for full batches, and small enough for the deadline of a slow service."""

_BYTES_OF_A_CHARACTER = 6
"""The most that JSON needs for one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    offline.add_arguments(parser)
    parser.set_defaults(local_defaults={name: parser.get_default(name) for name in _LOCAL_OPTIONS})
    parser.add_argument(
        "--server", metavar="URL", help="address of a running service that translates with its own models"
    )
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="file with a key of that service, if it needs one"
    )


def run(arguments: argparse.Namespace) -> int:
    """Translate."""
    documents = [] if arguments.ray else find_documents(arguments.files)
    folder = arguments.out
    if arguments.files and not arguments.ray:
        if documents:
            _refuse_options_of_lines(arguments)
            arguments.out = None
        else:
            arguments.words = " ".join(arguments.files)
        arguments.files = []
    if arguments.server is None:
        if arguments.key_file is not None:
            raise ConfigError("--key-file is for a service; name its address with --server.")
        if documents:
            bulk.refuse_arguments(arguments)
            arguments.out = folder
            return translate_here(arguments, documents, decoding_options(arguments))
        return offline.run(arguments)
    if arguments.ray:
        raise ConfigError(
            "--ray translates on this machine or a cluster of Ray, and --server asks a service; choose one."
        )
    bulk.refuse_arguments(arguments)
    for name, default in arguments.local_defaults.items():
        if getattr(arguments, name) != default:
            raise ConfigError(f"--{name} is for translating on this machine; with --server the service decides it.")
    try:
        from verso_client import Client, VersoError
    except ImportError:
        return _failed("--server needs the package verso-client, which is in the folder client: pip install ./client")
    try:
        with Client(arguments.server, headers=_headers(arguments.key_file)) as client:
            if documents:
                options: dict[str, Any] = {**_request_options(arguments)}
                return translate_files(documents, folder, _by_service(client, options, arguments.quiet))
            service = _Service(client, arguments)
            offline.translate_input(arguments, service.translate, service.texts_at_once)
    except (ValueError, VersoError) as error:  # the former if it is no URL
        return _failed(str(error))
    return 0


def _refuse_options_of_lines(arguments: argparse.Namespace) -> None:
    """Refuse options that documents do not have.

    Raises:
        ConfigError: There is one.
    """
    for name in ("input", "confidence", "target_prefix", "search"):
        if getattr(arguments, name):
            raise ConfigError(f"--{name.replace('_', '-')} is for words and lines, not for documents.")
    if arguments.format != "text":
        raise ConfigError("--format is for words and lines; the format of a document is that of its ending.")


def _by_service(client: Client, options: dict[str, Any], quiet: bool) -> TranslateFile:
    """Translates documents by a service.

    Args:
        client: Asks it.
        options: Fields of the requests.
        quiet: Whether to show no progress.
    """
    from verso_client import VersoError

    if options["target"] is None:
        raise ConfigError("Documents need --target.")
    options["source"] = options["source"] or "auto"

    def translate(path: Path) -> tuple[bytes, str]:
        try:
            return client.translate_document(path, progress=not quiet, **options), options["target"]
        except VersoError as error:
            raise DataError(str(error)) from error

    return translate


def _headers(key_file: Path | None) -> dict[str, str]:
    """The headers with the key; in a file, it is not in the list of processes.

    Raises:
        DataError: The file cannot be read.
    """
    if key_file is None:
        return {}
    try:
        return {"Authorization": f"Bearer {key_file.read_text(encoding='utf-8').strip()}"}
    except (OSError, ValueError) as error:
        raise DataError(f"--key-file {key_file} cannot be read: {error}") from error


class _Service:
    """A running service in the place of a translator.

    Args:
        client: Asks it.
        arguments: The command line.
    """

    def __init__(self, client: Client, arguments: argparse.Namespace) -> None:
        limits = [model.limits for model in client.models()]
        self.texts_at_once = min([_TEXTS_AT_ONCE, *(limit.max_texts for limit in limits)])
        smallest_body = min((limit.max_body_bytes for limit in limits), default=_CHARACTERS_AT_ONCE)
        self._characters_at_once = min(_CHARACTERS_AT_ONCE, smallest_body // _BYTES_OF_A_CHARACTER)
        self._client = client
        self._options = _request_options(arguments)
        self._num_translated = 0

    def translate(self, texts: Sequence[str]) -> Iterator[offline.Translated]:
        """Translate texts in requests of bounded size.

        Args:
            texts: The next texts of the input, at most ``texts_at_once``.

        Raises:
            DataError: The service cannot translate one of them.
            VersoError: It does not answer.
        """
        from verso_client import ProblemError

        for part in self._parts(texts):
            try:
                translations = self._client.translate(part, **self._options).results
            except ProblemError as error:
                raise DataError(self._explained(error, len(part))) from error
            for translation in translations:
                confidence = translation.confidence
                search = search_table(step.hypotheses for step in translation.search or ())
                yield offline.Translated(
                    translation.text,
                    None if confidence is None else confidence.score,
                    search if translation.search is not None else (),
                )
            self._num_translated += len(part)

    def _parts(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts of one request after the other; a text that is longer than the bound is sent alone."""
        part: list[str] = []
        num_characters = 0
        for text in texts:
            if part and num_characters + len(text) > self._characters_at_once:
                yield part
                part, num_characters = [], 0
            part.append(text)
            num_characters += len(text)
        if part:
            yield part

    def _explained(self, error: ProblemError, num_texts: int) -> str:
        """What the service answered, and about which texts."""
        from verso_client import TextFailed

        first = self._num_translated + 1
        if isinstance(error, TextFailed):
            where = f"text {first + error.index}"
        else:
            where = f"text {first}" if num_texts == 1 else f"texts {first} to {first + num_texts - 1}"
        return f"{where}: {error.detail} ({error.code}, request {error.request_id})"


def _request_options(arguments: argparse.Namespace) -> TranslateOptions:
    """The fields of a request that the command line asks for; what it leaves open the service decides."""
    options, defaults = decoding_options(arguments, format=arguments.format), TranslationOptions()
    chosen: dict[str, Any] = {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if getattr(options, field.name) != getattr(defaults, field.name)
    }
    if options.glossary:
        chosen["glossary"] = [{"source": term.source, "target": term.target} for term in options.glossary]
    if arguments.confidence:
        chosen["return_confidence"] = True
    return cast("TranslateOptions", chosen | {"source": arguments.source, "target": arguments.target})


def _failed(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1
