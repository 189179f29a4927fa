"""Which files are translated, and where their translations go."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.bulk.formats.format import Format
from model.bulk.formats.table import ENDINGS, FORMATS, FileType
from model.errors import ConfigError, DataError

ERRORS_ENDING = ".errors.jsonl"
"""Behind the name of a text file: the errors of its lines."""


@dataclass(frozen=True)
class BulkFile:
    """A file to translate.

    Args:
        source: The file; absolute.
        name: Path of its translation within the output folder.
        type: Its format.
        num_bytes: Its size when the run began.
        modified_ns: When it was changed last, as of then.
    """

    source: Path
    name: str
    type: FileType
    num_bytes: int
    modified_ns: int

    @property
    def format(self) -> Format:
        """The reader and writer of its format."""
        return FORMATS[self.type]

    @property
    def is_changed(self) -> bool:
        """Whether the file has changed since the run began."""
        try:
            stat = self.source.stat()
        except OSError:
            return True
        return (stat.st_size, stat.st_mtime_ns) != (self.num_bytes, self.modified_ns)


def find_files(inputs: Sequence[str], out: Path, file_type: FileType | None = None) -> list[BulkFile]:
    """The files that arguments name.

    Args:
        inputs: Files, folders and patterns (``data/**/*.jsonl``). The translation of a file of a folder has its path
            within that folder, of a pattern its path within the folder before the first wildcard.
        out: The output folder, which need not exist.
        file_type: What the files are; by default their endings say it. Names that begin with a dot or an underscore
            are skipped in folders.

    Returns:
        The files in the order of the arguments, and by name within folders, each once.

    Raises:
        DataError: There is no such file, or its ending is unknown.
        ConfigError: Two files would have the same output, or an output would be an input.
    """
    files: dict[str, BulkFile] = {}
    for path, name in (item for text in inputs for item in _named(text, out)):
        chosen = file_type or ENDINGS.get(path.suffix.lower())
        if chosen is None:
            raise DataError(
                f"The ending of {path} names no format; known are {', '.join(ENDINGS)}. Name its format with "
                "--file-type, or leave it out by a pattern such as 'data/*.jsonl'."
            )
        source = path.resolve()
        stat = source.stat()
        file = BulkFile(source, name, chosen, stat.st_size, stat.st_mtime_ns)
        if files.setdefault(name, file).source != source:
            raise ConfigError(
                f"{files[name].source} and {source} would both be written to {out / name}; translate them into two "
                "folders, or name a folder that contains both."
            )
    _check_outputs(files, out)
    return list(files.values())


def _check_outputs(files: dict[str, BulkFile], out: Path) -> None:
    """Refuse outputs that are inputs or the error files of other outputs.

    Raises:
        ConfigError: There is such an output.
    """
    sources = {file.source for file in files.values()}
    for name, file in files.items():
        written = [name, name + ERRORS_ENDING] if file.type == "text" else [name]
        if any((out / output).resolve() in sources for output in written) or (name + ERRORS_ENDING) in files:
            raise ConfigError(f"--out {out} would overwrite an input: {file.source}; name another folder.")


def _named(text: str, out: Path) -> Iterator[tuple[Path, str]]:
    """The files that an argument names, and the names of their translations."""
    path = Path(text)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
        root = path
        if out.resolve().is_relative_to(path.resolve()):
            raise ConfigError(
                f"--out {out} lies in the input folder {path}, and the next run would translate translations; name "
                "another folder."
            )
    elif path.exists():
        files, root = [path], path.parent
    elif glob.has_magic(text):
        files = [Path(match) for match in sorted(glob.glob(text, recursive=True)) if Path(match).is_file()]
        root = Path(*_before_wildcard(path))
    else:
        raise DataError(f"There is no file or folder {text}.")
    if not files:
        raise DataError(f"{text} contains no file." if path.is_dir() else f"No file fits the pattern {text}.")
    for file in files:
        yield file, file.relative_to(root).as_posix()


def _before_wildcard(pattern: Path) -> list[str]:
    """The parts of a pattern that are names of folders."""
    parts: list[str] = []
    for part in pattern.parent.parts:
        if glob.has_magic(part):
            break
        parts.append(part)
    return parts


def _is_hidden(path: Path) -> bool:
    """Whether a path within a folder has a name that programs use for their own files."""
    return any(part.startswith((".", "_")) for part in path.parts)


def prepare_folder(out: Path) -> None:
    """Create the output folder, and check that it can be written.

    Raises:
        DataError: It cannot.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(None, "no permission to write")
    except OSError as error:
        raise DataError(
            f"The output folder {out} cannot be written: {error.strerror or error}; name another one with --out."
        ) from error
