"""``python -m tests.fuzz``: fuzzes each target in a process of its own, and prints a table of what was done.

docs/fuzzing.md describes it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis
from tabulate import tabulate

from tests.fuzz.target import Target

ROOT = Path(__file__).resolve().parents[2]

GROUPS = {
    "documents": ("csv", "docx", "epub", "html", "json", "md", "odt", "po", "pptx", "srt", "txt", "vtt", "xliff"),
    "bundles": ("bundle-data", "bundle-script", "checkpoint"),
    "importers": ("import-safetensors", "import-pickle", "import-marian"),
    "texts": ("markup", "protection", "translation"),
    "bodies": ("bodies",),
}
"""The modules of this folder with the names of their targets; those of documents without what they begin with."""

MODULES = {
    (f"document-{name}" if module == "documents" else name): module
    for module, names in GROUPS.items()
    for name in names
}
"""The module of each target."""

SHORT = tuple(name for name in MODULES if not name.startswith(("import-", "checkpoint")))
"""Targets of the gate; the seeds of the others take seconds to make."""

_SHORT_INPUTS = 200
_SHORT_S = 2.0
"""Inputs of each target in the gate, and seconds that they may take."""

_START_S = 420.0
"""Seconds that a process may take beside its time: imports, seeds, and one hang."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each target")
    parser.add_argument("--targets", nargs="+", default=[*MODULES], help=f"some of: {', '.join([*MODULES, *GROUPS])}")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--folder", type=Path, default=ROOT / ".fuzz", help="of the corpora and of what is found")
    parser.add_argument("--mutations", action="store_true", help="random changes even if atheris is installed")
    parser.add_argument("--short", action="store_true", help="the half minute of the gate: the same inputs each time")
    parser.add_argument("--here", action="store_true", help="run the one target in this process")
    args = parser.parse_args(arguments)
    names = [name for target in args.targets for name in _targets_of(target, parser)]
    # Before a target is imported: a test keeps the settings that it is made with.
    hypothesis.settings.register_profile("fuzz", database=None)
    hypothesis.settings.load_profile("fuzz")
    if args.here:
        _fuzz_here(names[0], args)
        return 0
    began = time.monotonic()
    reports = _fuzz_shortly(args) if args.short else [_fuzz(name, args) for name in names]
    columns = (
        "target",
        "engine",
        "executions",
        "refused",
        "seconds",
        "slowest s",
        "MB at start",
        "MB at peak",
        "found",
    )
    print(tabulate([_row(report) for report in reports], columns, floatfmt=".1f"))
    total = sum(report["executions"] for report in reports)
    findings = sum(len(report["findings"]) for report in reports)
    print(f"{total:,} executions in {time.monotonic() - began:.0f} s; {findings} findings, in {args.folder / 'found'}")
    return 1 if findings else 0


def _targets_of(name: str, parser: argparse.ArgumentParser) -> list[str]:
    if name in MODULES:
        return [name]
    if name not in GROUPS:
        parser.error(f"there is no target {name!r}; there are {', '.join([*MODULES, *GROUPS])}")
    return [target for target, module in MODULES.items() if module == name]


def _row(report: dict[str, Any]) -> list[Any]:
    numbers = [report[name] for name in ("seconds", "slowest_s", "start_mb", "peak_mb")]
    return [
        report["target"],
        report["engine"],
        report["executions"],
        report["refused"],
        *numbers,
        len(report["findings"]),
    ]


def _fuzz(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Fuzz one target in a process of its own; an end that it did not choose is a finding."""
    findings: Path = args.folder / "found"
    report = findings / f"{name}.json"
    report.unlink(missing_ok=True)
    options = ["--seconds", str(args.seconds), "--seed", str(args.seed), "--folder", str(args.folder)]
    if args.mutations:
        options.append("--mutations")
    command = [sys.executable, "-m", "tests.fuzz", "--here", "--targets", name, *options]
    findings.mkdir(parents=True, exist_ok=True)
    with (findings / f"{name}.log").open("w") as log:
        try:
            code = subprocess.run(command, cwd=ROOT, stderr=log, stdout=log, timeout=args.seconds + _START_S).returncode
        except subprocess.TimeoutExpired:
            code = -1
    for line in (findings / f"{name}.log").read_text(errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            print(line, flush=True)
    if report.is_file():
        body: dict[str, Any] = json.loads(report.read_text())
        return body
    current = findings / f"{name}.current"
    if current.is_file():
        shutil.copy(current, findings / f"{name}-ended.bin")
    print(f"{name}: the process ended with {code}; see {findings / f'{name}.log'} and {name}-ended.bin", flush=True)
    numbers = dict.fromkeys(("executions", "refused", "seconds", "slowest_s", "start_mb", "peak_mb"), 0)
    return {"target": name, "engine": "-", **numbers, "findings": {f"ended with {code}": 1}}


def _fuzz_shortly(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a few random changes of the seeds of most targets, all in this process."""
    from tests.fuzz.session import Session, mutate_until_over

    reports = []
    for name in SHORT:
        target = target_of(name)
        session = Session(target, args.folder / "found", _SHORT_S, "mutations", _SHORT_INPUTS)
        mutate_until_over(session, None, args.seed)
        session.finish()
        reports.append(asdict(session.report))
    return reports


def target_of(name: str) -> Target:
    """The target of a name."""
    targets: list[Target] = importlib.import_module(f"tests.fuzz.{MODULES[name]}").TARGETS
    return next(target for target in targets if target.name == name)


def _fuzz_here(name: str, args: argparse.Namespace) -> None:
    """Fuzz one target in this process."""
    is_guided = not args.mutations and importlib.util.find_spec("atheris") is not None
    if is_guided:
        import atheris

        with atheris.instrument_imports(include=["app", "model", "markdown_it"], enable_loader_override=False):
            target = target_of(name)
    else:
        target = target_of(name)
    # Imported after what the target needs, which atheris has to see first.
    from tests.fuzz.session import Session, guide_until_over, mutate_until_over

    session = Session(target, args.folder / "found", args.seconds, "atheris" if is_guided else "mutations")
    (guide_until_over if is_guided else mutate_until_over)(session, args.folder / "corpus" / name, args.seed)
    session.finish()


if __name__ == "__main__":
    sys.exit(main())
