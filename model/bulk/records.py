"""Records of finished files, one for each, in a hidden folder beside them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from model.bulk.files import ERRORS_ENDING, BulkFile
from model.errors import DataError
from model.process.files import file_digest, put_in_place, write_file

FOLDER = ".verso"
"""The folder of the records, within the output folder."""

_FORMAT = 1

State = Literal["pending", "finished", "changed", "foreign"]


@dataclass
class Counts:
    """What was counted in one file or more.

    Args:
        rows: Rows, those without a text included.
        errors: Rows with an error.
        cut: Rows with a sentence that reached the bound of its tokens.
        sentences: Sentences that were decoded.
        source_tokens: Their tokens.
        target_tokens: Tokens of their translations.
    """

    rows: int = 0
    errors: int = 0
    cut: int = 0
    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0

    def add(self, other: Counts) -> None:
        """Add what was counted elsewhere."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Status:
    """The record of a file.

    Args:
        state: ``finished`` if its output is complete, of this input and these options; ``changed`` if the output is of
            another input or other options, or was altered; ``foreign`` if there is an output that no run wrote.
        reason: What has changed.
        counts: Of a finished file.
    """

    state: State
    reason: str = ""
    counts: Counts = field(default_factory=Counts)


class Records:
    """The records of an output folder.

    A record is written just before its output gets its name. So an output has a record, and a record without output is
    that of a run that was killed in between.

    Args:
        out: The folder.
        options: What translations depend on, in JSON's types.
    """

    def __init__(self, out: Path, options: dict[str, Any]) -> None:
        self._out = out
        self._options: dict[str, Any] = json.loads(json.dumps(options))

    def output(self, file: BulkFile) -> Path:
        """Where the translation of a file is, or will be."""
        return self._out / file.name

    def partial(self, file: BulkFile) -> Path:
        """Where it is written until it is complete."""
        output = self.output(file)
        return output.with_name(f".{output.name}.partial")

    def partial_errors(self, file: BulkFile) -> Path:
        """Where errors are written until the translation is complete, for formats without columns."""
        output = self.output(file)
        return output.with_name(f".{output.name}{ERRORS_ENDING}.partial")

    def status(self, file: BulkFile) -> Status:
        """The record of a file.

        Raises:
            DataError: Its record is damaged.
        """
        try:
            num_bytes = self.output(file).stat().st_size
        except FileNotFoundError:
            return Status("pending")
        record = self._read(file)
        if record is None:
            return Status("foreign")
        reasons = list(_differences(record["options"], self._options))
        if num_bytes != record["output_bytes"]:
            reasons.append(f"the output has {num_bytes} bytes, and {record['output_bytes']} were written")
        if not _is_same(file, record["input"]):
            reasons.append("the input was changed")
        if reasons:
            return Status("changed", "; ".join(reasons))
        return Status("finished", counts=Counts(**record["counts"]))

    def finish(self, file: BulkFile, counts: Counts) -> None:
        """Give the complete translation of a file its name, and record it.

        Raises:
            DataError: The input was changed in the meantime.
        """
        output, partial = self.output(file), self.partial(file)
        digest = file_digest(file.source)
        if file.is_changed:
            raise DataError(f"{file.source} was changed while it was translated; run the command again.")
        record = {
            "format": _FORMAT,
            "input": {
                "path": str(file.source),
                "bytes": file.num_bytes,
                "modified_ns": file.modified_ns,
                "sha256": digest,
            },
            "options": self._options,
            "output_bytes": partial.stat().st_size,
            "counts": asdict(counts),
        }
        # An old output must not be taken for the one that the new record describes.
        output.unlink(missing_ok=True)
        errors = output.with_name(output.name + ERRORS_ENDING)
        if self.partial_errors(file).exists():
            put_in_place(self.partial_errors(file), errors)
        elif file.type == "text":
            errors.unlink(missing_ok=True)
        self._write(file, record)
        put_in_place(partial, output)

    def discard(self, file: BulkFile) -> None:
        """Remove what was written of a file that is not complete."""
        self.partial(file).unlink(missing_ok=True)
        self.partial_errors(file).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs away from the folder.

        Raises:
            DataError: Another run writes into it.
        """
        folder = self._out / FOLDER
        folder.mkdir(exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            try:
                import fcntl  # Ray's platforms have it, but for Windows

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:
                pass
            except BlockingIOError as error:
                raise DataError(
                    f"Another run writes into {self._out}; wait for its end, or name another folder with --out."
                ) from error
            yield

    def _path(self, file: BulkFile) -> Path:
        return self._out / FOLDER / f"{file.name}.json"

    def _read(self, file: BulkFile) -> dict[str, Any] | None:
        path = self._path(file)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            is_known = record["format"] == _FORMAT
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged; remove it and {self.output(file)} to translate again.") from error
        if not is_known:
            raise DataError(
                f"{path} has the format {record['format']}, and this version of Verso reads {_FORMAT}; name another "
                "folder with --out."
            )
        return dict(record)

    def _write(self, file: BulkFile, record: dict[str, Any]) -> None:
        write_file(self._path(file), json.dumps(record, indent=1).encode())


def _is_same(file: BulkFile, recorded: dict[str, Any]) -> bool:
    """Whether a file is as recorded. Its digest is computed only if it was touched: a copy has another time."""
    if file.num_bytes != recorded["bytes"]:
        return False
    return bool(file.modified_ns == recorded["modified_ns"] or file_digest(file.source) == recorded["sha256"])


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """The options that differ; one that is absent has its default."""
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            was, is_now = (
                json.dumps(settings.get(name, "default"), ensure_ascii=False)[:60] for settings in (before, now)
            )
            yield f"{name} was {was} and is {is_now}"
