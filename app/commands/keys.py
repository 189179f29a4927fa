"""The command ``keys``: make, list and revoke the keys of a service, and show what they have used."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from app.accounts.keys import SCOPES, Key, Scope
from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore, month_of
from app.engine.caller import Priority
from app.errors import SettingsError

EPILOG = """\
examples:
  export VERSO_KEYS_DB=/var/lib/verso/keys.sqlite
  verso keys create 'the shop' --scopes translate,documents --characters-per-month 5000000
  verso keys list
  verso keys usage --month 2026-01
  verso keys revoke 0f3c9d5e8a7b
The key is printed by 'create' and never again: only its digest is stored. A running service sees new and revoked keys
at once. 'list' and 'usage' take --json.
"""

VARIABLE = "VERSO_KEYS_DB"
"""Names the file, for the service and for this command."""

_DAY_S = 86_400.0
_LARGEST = 2**62


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help=f"the file of the keys; that of {VARIABLE} unless given"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="create | list | revoke | usage")

    create = actions.add_parser("create", help="create a key, and print it once")
    create.add_argument("name", help="what the key is for")
    create.add_argument(
        "--scopes",
        type=_scopes,
        default=("translate", "attention", "documents"),
        help=f"its scopes, separated by commas: {', '.join(SCOPES)} (default: all but admin)",
    )
    create.add_argument("--days", type=_positive, help="days until it expires (default: never)")
    create.add_argument("--characters-per-month", type=_positive, metavar="N", help="most characters a month (UTC)")
    create.add_argument("--requests-per-minute", type=_positive, metavar="N", help="most requests a minute")
    create.add_argument("--concurrent-sentences", type=_positive, metavar="N", help="most sentences at a time")
    create.add_argument(
        "--priority",
        choices=[priority.label for priority in Priority],
        default=Priority.INTERACTIVE.label,
        help="interactive sentences go before those in bulk",
    )

    listing = actions.add_parser("list", help="list the keys")
    listing.add_argument("--json", action="store_true", help="print a JSON list instead")

    revoke = actions.add_parser("revoke", help="revoke a key")
    revoke.add_argument("id", help="the key's id, which 'list' shows")

    usage = actions.add_parser("usage", help="show the usage of the keys")
    usage.add_argument("--month", metavar="YYYY-MM", help="a month, or 'all' (default: this month, UTC)")
    usage.add_argument("--json", action="store_true", help="print a JSON list instead")


def run(arguments: argparse.Namespace) -> int:
    """Do it."""
    path = arguments.db or Path(os.environ.get(VARIABLE, "") or os.devnull)
    if str(path) == os.devnull:
        return _failed(f"name the file of the keys: --db FILE, or {VARIABLE}.")
    if arguments.action != "create" and not path.exists():
        return _failed(f"{path} does not exist; 'verso keys create' makes it.")
    actions: dict[str, Callable[[Path, argparse.Namespace, float], int]] = {
        "create": _create,
        "list": _list,
        "revoke": _revoke,
        "usage": _usage,
    }
    try:
        return actions[arguments.action](path, arguments, time.time())
    except SettingsError as error:
        return _failed(str(error))
    except sqlite3.Error as error:
        return _failed(f"{path} cannot be read or written: {error}.")


def _create(path: Path, arguments: argparse.Namespace, now: float) -> int:
    store = KeyStore(path)
    key, token = store.create(
        arguments.name,
        arguments.scopes,
        now,
        expires_at=None if arguments.days is None else now + arguments.days * _DAY_S,
        characters_per_month=arguments.characters_per_month,
        requests_per_minute=arguments.requests_per_minute,
        concurrent_sentences=arguments.concurrent_sentences,
        priority=Priority[arguments.priority.upper()],
    )
    store.close()
    print(token.text)
    print(f"The key {key.id} is made; it is not shown again. It may use: {', '.join(key.scopes)}.", file=sys.stderr)
    return 0


def _list(path: Path, arguments: argparse.Namespace, now: float) -> int:
    store = KeyStore(path)
    keys = store.all()
    store.close()
    if arguments.json:
        listed = [{**asdict(key), "priority": key.priority.label, "unusable": key.why_unusable(now)} for key in keys]
        print(json.dumps(listed, indent=2))
        return 0
    head = ("id", "name", "scopes", "created", "state", "characters/month", "requests/min", "sentences", "priority")
    rows = [
        (
            key.id,
            key.name,
            ",".join(key.scopes),
            _day(key.created_at),
            _state(key, now),
            key.characters_per_month,
            key.requests_per_minute,
            key.concurrent_sentences,
            key.priority.label,
        )
        for key in keys
    ]
    _print_table(head, rows)
    return 0


def _revoke(path: Path, arguments: argparse.Namespace, now: float) -> int:
    store = KeyStore(path)
    key = store.revoke(arguments.id, now)
    store.close()
    if key is None:
        return _failed(f"there is no key {arguments.id!r}; 'verso keys list' shows them.")
    print(f"The key {key.id} ({key.name}) is revoked.", file=sys.stderr)
    return 0


def _usage(path: Path, arguments: argparse.Namespace, now: float) -> int:
    keys, usage = KeyStore(path), UsageStore(path)
    month = None if arguments.month == "all" else arguments.month or month_of(now)
    names, used = {key.id: key.name for key in keys.all()}, usage.all(month)
    keys.close()
    usage.close()
    if arguments.json:
        print(json.dumps([{**asdict(entry), "name": names.get(entry.key)} for entry in used], indent=2))
        return 0
    rows = [(entry.month, entry.key, names.get(entry.key, ""), entry.characters, entry.requests) for entry in used]
    _print_table(("month", "key", "name", "characters", "requests"), rows)
    return 0


def _print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    # Imported here: only people read tables.
    from tabulate import tabulate

    print(tabulate(rows, head, missingval="-", disable_numparse=True))


def _state(key: Key, now: float) -> str:
    until = "valid" if key.expires_at is None else f"until {_day(key.expires_at)}"
    return key.why_unusable(now) or until


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _scopes(text: str) -> tuple[Scope, ...]:
    names = {name.strip() for name in text.split(",")}
    if not names <= set(SCOPES):
        raise argparse.ArgumentTypeError(f"{text!r} must be of {', '.join(SCOPES)}, separated by commas")
    return tuple(scope for scope in SCOPES if scope in names)


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def _failed(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1
