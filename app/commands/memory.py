"""The command ``memory``: import, export, list and delete the translation memories of a service, in its folder."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from app.errors import ServiceError
from model.errors import ConfigError, DataError

if TYPE_CHECKING:
    from app.memories.store import MemoryInfo, MemoryStore

EPILOG = """\
examples:
  export VERSO_DATA_DIR=/var/lib/verso
  verso memory import manuals.tmx --name Manuals
  verso memory list
  verso memory export Manuals manuals.tmx
  verso memory delete Manuals
A memory is named by its id, or by its name if no other has it. Files are TMX 1.4, and are read and written piece by
piece. A running service sees the changes at once. The settings VERSO_MAX_MEMORIES_PER_KEY,
VERSO_MAX_MEMORY_UNITS_PER_KEY and VERSO_MAX_MEMORY_BYTES_PER_KEY apply.
"""

VARIABLE = "VERSO_DATA_DIR"
"""Names the folder, for the service and for this command."""

_READ_BYTES = 1_000_000
_UNITS_AT_ONCE = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help=f"the folder of the service; that of {VARIABLE} unless given"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="import | export | list | delete")

    importing = actions.add_parser("import", help="add the units of a TMX file to a memory")
    importing.add_argument("file", type=Path, help="the file")
    importing.add_argument("--memory", metavar="NAME", help="the memory (default: a new one)")
    importing.add_argument("--name", help="the name of a new memory (default: that of the file)")
    importing.add_argument("--source", metavar="LANGUAGE", help="its source language (default: that of the file)")
    importing.add_argument("--owner", default="", metavar="KEY", help="the id of the key that a new memory belongs to")

    exporting = actions.add_parser("export", help="write a memory to a TMX file")
    exporting.add_argument("memory", metavar="NAME", help="the memory, which 'list' shows")
    exporting.add_argument("file", type=Path, help="the file, which must not exist")

    listing = actions.add_parser("list", help="list the memories")
    listing.add_argument("--json", action="store_true", help="print a JSON list instead")

    deleting = actions.add_parser("delete", help="delete a memory with its units")
    deleting.add_argument("memory", metavar="NAME", help="the memory, which 'list' shows")


def run(arguments: argparse.Namespace) -> int:
    """Do it."""
    # Imported here: the help needs none of them.
    from app.memories.database import FILE_NAME
    from app.memories.service import bounds_of
    from app.memories.store import MemoryStore
    from app.memories.tmx import TmxRefused
    from app.settings import load_settings

    folder = arguments.data_dir or Path(os.environ.get(VARIABLE, "") or os.devnull)
    if str(folder) == os.devnull:
        raise ConfigError(f"name the folder of the service: --data-dir DIR, or {VARIABLE}.")
    if arguments.action != "import" and not (folder / FILE_NAME).exists():
        raise ConfigError(f"{folder} has no translation memories; 'verso memory import' makes one.")
    limits = {name: value for name, value in os.environ.items() if name.startswith("VERSO_MAX_MEMOR")}
    actions: dict[str, Callable[[MemoryStore, argparse.Namespace], int]] = {
        "import": _import,
        "export": _export,
        "list": _list,
        "delete": _delete,
    }
    try:
        store = MemoryStore(folder, bounds_of(load_settings(limits)))
        try:
            return actions[arguments.action](store, arguments)
        finally:
            store.close()
    except (ServiceError, TmxRefused, LookupError, OSError, sqlite3.Error) as error:
        raise DataError(str(error)) from error


def _import(store: MemoryStore, arguments: argparse.Namespace) -> int:
    from app.memories.file_units import add_texts, source_of
    from app.memories.store import Added
    from model.languages import standard_code

    memory = None if arguments.memory is None else _named(store, arguments.memory)
    added, skipped, began = Added(), 0, time.monotonic()
    with arguments.file.open("rb") as file:
        for language, batch in _batches(file):
            if memory is None:
                source = arguments.source or source_of(language, batch)
                name = arguments.name or arguments.file.stem
                memory = store.create(arguments.owner, name, standard_code(source), time.time())
            more, num_skipped = add_texts(store, None, memory, batch, time.time())
            added, skipped = added + more, skipped + num_skipped
    if memory is None:
        raise DataError(f"{arguments.file} has no units.")
    print(memory.id)
    print(
        f"{memory.name} ({memory.source}): {added.new} units added, {added.replaced} replaced, {added.unchanged} "
        f"unchanged, {skipped} skipped, in {time.monotonic() - began:.1f} s.",
        file=sys.stderr,
    )
    return 0


def _batches(file: IO[bytes]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """The source language of a file and some units at a time, each as texts by language."""
    from app.memories.tmx import TmxReader

    reader = TmxReader()
    batch: list[dict[str, str]] = []
    data = b"-"
    while data:
        data = file.read(_READ_BYTES)
        batch += [dict(unit.texts) for unit in (reader.feed(data) if data else reader.close())]
        while len(batch) >= _UNITS_AT_ONCE or (batch and not data):
            yield reader.source_language, batch[:_UNITS_AT_ONCE]
            del batch[:_UNITS_AT_ONCE]


def _export(store: MemoryStore, arguments: argparse.Namespace) -> int:
    from app.memories.tmx import TMX_END, tmx_beginning, tmx_units

    memory, after = _named(store, arguments.memory), 0
    with arguments.file.open("xb") as file:
        file.write(tmx_beginning(memory.source))
        while page := store.units(None, memory.id, after, _UNITS_AT_ONCE):
            file.write(tmx_units(memory.source, page))
            after = page[-1].id
        file.write(TMX_END)
    return 0


def _list(store: MemoryStore, arguments: argparse.Namespace) -> int:
    rows = [(owner, memory) for owner in store.owners() for memory in store.all(owner)]
    if arguments.json:
        print(json.dumps([{**asdict(memory), "owner": owner} for owner, memory in rows], indent=2))
        return 0
    # Imported here: only people read tables.
    from tabulate import tabulate

    head = ("id", "name", "owner", "source", "targets", "units")
    shown = [
        (memory.id, memory.name, owner, memory.source, ",".join(memory.targets), memory.num_units)
        for owner, memory in rows
    ]
    print(tabulate(shown, head, disable_numparse=True))
    return 0


def _delete(store: MemoryStore, arguments: argparse.Namespace) -> int:
    memory = store.delete(None, _named(store, arguments.memory).id)
    while store.purge():
        pass
    print(f"{memory.name} ({memory.id}) with {memory.num_units} units is deleted.", file=sys.stderr)
    return 0


def _named(store: MemoryStore, name: str) -> MemoryInfo:
    """The memory with an id or a name.

    Raises:
        MemoryNotFound: There is none.
        LookupError: Several have the name.
    """
    named = [memory for memory in store.all(None) if memory.name == name]
    if len(named) > 1:
        raise LookupError(f"{len(named)} memories are named {name!r}; give the id of one, which 'list' shows.")
    return named[0] if named else store.get(None, name)
