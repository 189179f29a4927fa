"""Builds the folder of the corpora, DATA, from public sources at pinned versions.

Downloads what ``scripts/data/sources.yaml`` names, takes the text out, cleans it, and compares it with the digests of
the text that the shipped weights were trained on. DATA gets train/, eval/ and mono/, sha256sums.txt (the digests of the
files), ATTRIBUTION.md (licences, authors and sources) and absent.txt (sets that are not built, with the reasons).

The same command resumes an interrupted build: complete sets, downloads and unpacked archives are kept. To build a set
again, delete its files. Needs the group "data" of pyproject.toml. Exit code 1: a set could not be built, or is not what
it should be.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tabulate import tabulate

from model.commands.table import run as run_parsed
from model.errors import ConfigError
from scripts.data import table
from scripts.data.build import Builder
from scripts.data.fetch import Cache


def _mirror(text: str) -> tuple[str, str]:
    begin, equals, address = text.partition("=")
    if not equals or not address:
        raise argparse.ArgumentTypeError(f"{text!r} is not BEGIN=ADDRESS")
    return begin, address


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("--out", type=Path, metavar="DATA", help="the folder of the corpora")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="folder of downloads, several GB; default: DATA/cache"
    )
    parser.add_argument("--offline", action="store_true", help="download nothing; an archive may be put into the cache")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="build these sets only")
    parser.add_argument(
        "--mirror",
        type=_mirror,
        action="append",
        default=[],
        metavar="BEGIN=ADDRESS",
        help="replace the beginning of addresses, as https://registry.npmjs.org=https://npm.example.org",
    )
    parser.add_argument(
        "--list", action="store_true", help="list all sets with licence and archives, and build nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Build or list."""
    sources = table.load()
    if arguments.list:
        rows = [(f"{item.folder}/{item.name}", item.count, item.licence, item.attribution) for item in sources.sets]
        print(tabulate(rows, headers=("set", "lines", "licence", "attribution")))
        print("\n".join(f"absent: {name}: {reason}" for name, reason in sources.absent.items()))
        return 0
    if arguments.out is None:
        raise ConfigError("--out is missing: the folder that gets train/, eval/ and mono/.")
    if unknown := sorted(set(arguments.only) - {item.name for item in sources.sets}):
        reasons = "; ".join(f"{name}: {sources.absent.get(name, 'unknown; --list has all')}" for name in unknown)
        raise ConfigError(f"--only names sets that cannot be built: {reasons}.")
    cache = Cache(arguments.cache or arguments.out / "cache", offline=arguments.offline, mirrors=dict(arguments.mirror))
    outcome = Builder(sources, cache, arguments.out).build(arguments.only)
    print(f"{len(outcome.built)} sets are in {arguments.out}; {len(sources.absent)} are absent (absent.txt).")
    for line in outcome.failed:
        print(f"not built: {line}", file=sys.stderr)
    if outcome.unlike:
        print(f"not as published: {', '.join(outcome.unlike)}", file=sys.stderr)
    return 1 if outcome.failed or outcome.unlike else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m scripts.data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.set_defaults(do=run)
    sys.exit(run_parsed(parser.parse_args()))
