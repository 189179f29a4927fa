"""``python -m tests.fuzz.api``: requests of schemathesis to every route of a real process, without keys and with them.

Each pass sends what one seed makes of the service's own OpenAPI document, and stops the run if an answer is an error of
the service, is not what the document says, or takes too long.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil
from tabulate import tabulate

from tests.app.accounts.keyed import make_key
from tests.fuzz.api_hooks import ADMIN_TOKEN
from tests.fuzz.guard import ROOT
from tests.server import Server, served

CHECKS = (
    "no_inner_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
"""Whether a valid request must be accepted is left out: a schema cannot say which languages are served."""

_LONGEST_S = 40
"""Seconds that an answer may take: the deadline of the service, and some for a busy machine."""

_BUNDLE = ROOT / "tests" / "releases" / "0.2.0" / "toy-float32.pt"

_MOST_GROWTH = 1.10
"""How much larger the process may be at the end than in the middle."""


class Setting:
    """One way to run the service.

    Args:
        name: What the table calls it.
        keys: Keys that requests have.
        settings: Settings of the service.
    """

    def __init__(self, name: str, keys: Sequence[str], **settings: str) -> None:
        self.name = name
        self.keys = keys
        self.settings = settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.api", description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000, help="at least, of all settings together")
    parser.add_argument("--examples", type=int, default=100, help="of each operation, in each pass")
    parser.add_argument("--seed", type=int, default=0, help="of the first pass")
    parser.add_argument("--folder", type=Path, default=ROOT / ".fuzz", help="of what is found")
    args = parser.parse_args(arguments)
    result = args.folder / "found"
    result.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verso-fuzz-") as folder:
        settings = _settings(Path(folder))
        num_requests = args.requests / len(settings)
        return max([_run(setting, num_requests, args, Path(folder), result) for setting in settings])


def _settings(folder: Path) -> list[Setting]:
    """Without keys, with LibreTranslate's routes at the root; and with keys, some of which may do little."""
    keys = folder / "keys.sqlite"
    few = make_key(keys, "translate", requests_per_minute=200, characters_per_month=20_000, concurrent_sentences=8)
    several = [make_key(keys), make_key(keys), make_key(keys, "documents"), few, "vk_wrong", ""]
    return [
        Setting("no keys", ["anything"] * 9 + [""], VERSO_COMPAT="libretranslate", VERSO_DATA_DIR=str(folder / "data")),
        Setting(
            "keys", several, VERSO_KEYS_DB=str(keys), VERSO_ANONYMOUS="on", VERSO_ADDRESS_REQUESTS_PER_MINUTE="1000"
        ),
    ]


def _run(setting: Setting, num_requests: float, args: argparse.Namespace, folder: Path, result: Path) -> int:
    """Make passes with one setting until enough requests are sent; prints its tables."""
    bundles = folder / "bundles"
    bundles.mkdir(exist_ok=True)
    shutil.copy(_BUNDLE, bundles)
    statuses: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    memory: list[tuple[int, float]] = []
    began = time.monotonic()
    code = 0
    with served(bundles, VERSO_ADMIN_TOKEN=ADMIN_TOKEN, **setting.settings) as server:
        process = psutil.Process(server.popen.pid)
        memory.append((0, process.memory_info().rss / 2**20))
        seed = args.seed
        while code == 0 and statuses.total() < num_requests:
            counts = folder / f"counts of {setting.name}.json"
            code = _pass(setting, server, seed, args.examples, counts, result)
            body = json.loads(counts.read_text())
            statuses.update(body["statuses"])
            slowest.update({route: max(took, slowest.get(route, 0.0)) for route, took in body["slowest"].items()})
            memory.append((statuses.total(), process.memory_info().rss / 2**20))
            seed += 1
        server.client.get("/readyz").raise_for_status()
        failed = [line for line in server.lines if '"level": "error"' in line]
    _print(setting, statuses, slowest, memory, time.monotonic() - began)
    middle, end = memory[(len(memory) + 1) // 2][1], memory[-1][1]
    if len(memory) > 4 and end > _MOST_GROWTH * middle:
        print(f"{setting.name}: the memory grew from {middle:.0f} to {end:.0f} MB in the second half")
        code = 1
    if failed:
        print(f"{setting.name}: the service logged {len(failed)} errors, such as {failed[0]}")
        code = 1
    return code


def _pass(setting: Setting, server: Server, seed: int, examples: int, counts: Path, result: Path) -> int:
    """Send what one seed gives; returns 1 if something was found, which schemathesis prints with its request."""
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("run", f"{server.client.base_url}/openapi.json".replace("//openapi", "/openapi")),
        *("--checks", ",".join(CHECKS), "--max-response-time", str(_LONGEST_S), "--request-timeout", "60"),
        *("-n", str(examples), "--seed", str(seed), "--no-shrink", "--continue-on-failure", "--no-color"),
        *("--suppress-health-check", "all", "--generation-database", "none", "--warnings", "off"),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SCHEMATHESIS_HOOKS": "tests.fuzz.api_hooks",
        "FUZZ_KEYS": json.dumps(setting.keys),
        "FUZZ_COUNTS": str(counts),
    }
    log = result / f"api-{setting.name.replace(' ', '-')}-{seed}.log"
    with log.open("w") as output, tempfile.TemporaryDirectory() as nowhere:
        code = subprocess.run(command, cwd=nowhere, env=environment, stdout=output, stderr=output).returncode
    if code:
        print(f"{setting.name}: schemathesis ended with {code}; see {log}", flush=True)
    else:
        log.unlink()
    return code


def _print(
    setting: Setting, statuses: Counter[str], slowest: dict[str, float], memory: list[tuple[int, float]], took_s: float
) -> None:
    """The tables of a setting."""
    rows: dict[str, dict[str, int]] = {}
    for result, number in statuses.items():
        route, _, status = result.rpartition(" ")
        rows.setdefault(route, {})[status] = number
    reference = sorted({status for by_status in rows.values() for status in by_status})
    others = [route for route, by_status in rows.items() if set(by_status) <= {"405"} or route.startswith("OPTIONS")]
    num_others = sum(sum(rows.pop(route).values()) for route in others)
    table = [[route, *(rows[route].get(status, "") for status in reference), slowest[route]] for route in sorted(rows)]
    print(f"\n{setting.name}: {statuses.total():,} requests in {took_s:.0f} s")
    print(tabulate(table, ["route", *reference, "slowest s"], floatfmt=".2f"))
    print(f"{num_others:,} requests with methods that the paths do not take: 405, and 200 for the OPTIONS of CORS")
    half = memory[(len(memory) + 1) // 2] if len(memory) > 2 else memory[-1]
    points = ", ".join(
        f"{size:.0f} MB after {number:,}"
        for number, size in (memory[0], memory[min(1, len(memory) - 1)], half, memory[-1])
    )
    print(f"memory of the process: {points}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
