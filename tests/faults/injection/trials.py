"""Every fault in turn: a scenario is run once, and then again with a fault at each of its operations."""

from __future__ import annotations

import hashlib
import os
import random
import select
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.injection.disk import Disk, Operation, Tree, read_record, read_tree, write_tree
from tests.faults.injection.scenario import History, Scenario, Trial, emptied
from tests.faults.injection.shim import FAULTS, Fault, Shim

PATIENCE_S = 120.0
"""Seconds after which a run counts as hanging."""

SHARES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.8, 0.8), (0.5, 1.0), (1.0, 0.5))
"""What power cuts leave: the shares of changed names and of changed pages. The second leaves names of empty files."""

SCRIPTED_CUTS = 3
"""The first of these are tried at every operation; the others in turn, with the seed."""


@dataclass
class Report:
    """The results of a scenario.

    Args:
        scenario: Its name.
        store: What it uses.
        num_operations: Its operations.
        num_faults: Runs in which an operation met each kind of fault. Of the last operations, none may need room.
        num_kills: Different states after a kill.
        num_power_cuts: Different states after a power cut.
        failures: What was wrong, each with the fault and the operation.
    """

    scenario: str
    store: str
    num_operations: int = 0
    num_faults: dict[str, int] = field(default_factory=dict)
    num_kills: int = 0
    num_power_cuts: int = 0
    failures: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """The numbers in one line."""
        faults = ", ".join(f"{number} x {name}" for name, number in self.num_faults.items())
        tried = f"{self.num_operations} operations; {faults}, {self.num_kills} kills, {self.num_power_cuts} power cuts"
        return f"{tried}: {len(self.failures)} failures"


class Trials:
    """Runs one scenario with faults.

    Args:
        scenario: The scenario.
        shim: Counts the operations of this process.
        scratch: A folder for all files.
        seed: Decides what power cuts leave.
    """

    def __init__(self, scenario: Scenario, shim: Shim, scratch: Path, seed: int = 0) -> None:
        self.report = Report(scenario.name, scenario.store)
        self._scenario = scenario
        self._shim = shim
        self._seed = seed
        # The same path for all runs: what a scenario writes may contain it.
        self._folder = scratch / scenario.name / "folder"
        self._record = scratch / scenario.name / "record"
        self._notes = scratch / scenario.name / "notes"
        self._folder.mkdir(parents=True)
        scenario.prepare(self._folder.parent)

    def run(self, sample: int | None = None) -> Report:
        """Run the scenario.

        Args:
            sample: The number of operations that meet a fault; None for all of them with every fault.
        """
        if not self._run_once():
            return self.report
        operations = list(read_record(self._record))
        numbers = self._numbers(operations)
        if sample is None:
            for fault in FAULTS:
                self._run_with(fault, numbers)
        else:
            numbers = [numbers[index - 1] for index in spread(len(numbers), sample)]
            for index, fault in enumerate(FAULTS):
                self._run_with(fault, numbers[index :: len(FAULTS)])
        self._start_after_cuts(operations, set(numbers), after_answers=sample is None)
        return self.report

    def _numbers(self, operations: Sequence[Operation]) -> list[int]:
        """The operations that meet faults, counted from 1."""
        counted = [operation for operation in operations if operation.is_counted]
        return [
            number
            for number, (before, operation) in enumerate(zip([None, *counted], counted, strict=False), start=1)
            if not self._scenario.merges_writes
            or before is None
            or (before.kind, before.fd) != ("w", operation.fd)
            or operation.kind != "w"
        ]

    def _fresh(self) -> Path:
        folder = emptied(self._folder)
        self._scenario.seed(folder)
        return folder

    def _run_once(self) -> bool:
        """Run the scenario without a fault and record its operations; returns whether it works."""
        folder = self._fresh()
        record = os.open(self._record, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)

        def run() -> str:
            self._shim.watch(folder, record)
            trial = Trial(self._shim, self._notes)
            self._scenario.run(folder, trial)
            number = self._shim.stop()
            assert not trial.history.refused, trial.history.refused
            return str(number)

        number = self._in_child("no fault", run)
        os.close(record)
        if number is None:
            return False
        self.report.num_operations = int(number)
        operations, real, history = list(read_record(self._record)), read_tree(folder), History()
        for operation in operations:
            if operation.kind == "n":
                history.note(operation.data.decode())
        is_right = self._start_again("no fault", history)
        self._check_model(operations, real)
        return is_right

    def _check_model(self, operations: Sequence[Operation], real: Tree) -> None:
        """Check that the model of the disk ends with the files that are there."""
        disk = Disk(self._fresh())
        for operation in operations:
            disk.apply(operation)
        modelled = disk.as_seen()
        different = [path for path in modelled.keys() | real.keys() if modelled.get(path) != real.get(path)]
        different = [path for path in different if not path.endswith("-shm")]
        assert not different, f"{self.report.scenario}: the model of the disk is wrong about {different}"

    def _run_with(self, fault: Fault, numbers: Sequence[int]) -> None:
        """Run the scenario with a fault at each of these operations, and start again."""
        for number in numbers:
            what = f"{fault.name} at operation {number}"
            folder = self._fresh()

            def run(folder: Path = folder, number: int = number) -> str:
                self._shim.watch(folder, -1, fault, number)
                self._scenario.run(folder, Trial(self._shim, self._notes))
                self._shim.stop()
                return str(self._shim.num_failures)

            answer, failure = call_in_child(run)
            self.report.num_faults[fault.name] = self.report.num_faults.get(fault.name, 0) + (answer != "0")
            has_aborted = self._scenario.may_abort and failure == ABORTED
            if failure is not None and not has_aborted:
                self.report.failures.append(f"{what}: {failure}")
            if answer is not None or has_aborted:
                history = History()
                for line in self._notes.read_text(encoding="utf-8").splitlines():
                    history.note(line)
                self._start_again(what, history)

    def _start_after_cuts(self, operations: Sequence[Operation], numbers: set[int], *, after_answers: bool) -> None:
        """Start again after a kill and power cuts at each of these operations, and after each answer if requested."""
        seen: set[bytes] = set()
        for what, is_kill, tree, history in self._cuts(operations, numbers, after_answers=after_answers):
            key = _digest(tree, history)
            if key in seen:
                continue
            seen.add(key)
            self.report.num_kills += is_kill
            self.report.num_power_cuts += not is_kill
            folder = emptied(self._folder)
            write_tree(tree, folder)
            self._start_again(what, history)

    def _cuts(
        self, operations: Sequence[Operation], numbers: set[int], *, after_answers: bool
    ) -> Iterator[tuple[str, bool, Tree, History]]:
        """The states of the disk after kills and power cuts, each with what was answered before."""
        disk, history, number = Disk(self._fresh()), History(), 0
        rng = random.Random(self._seed)
        for operation in operations:
            if operation.kind == "n":
                history.note(operation.data.decode())
                # An answer was given: what it promised must be on the disk now.
                if after_answers:
                    yield from self._power_cuts(disk, history, rng, f"after {history.tried[-1]}", number)
                continue
            number += operation.is_counted
            wanted = operation.is_counted and number in numbers
            if wanted and operation.kind == "w":
                yield f"kill within write {number}", True, disk.as_seen(operation), history.copy()
            disk.apply(operation)
            if wanted:
                yield f"kill after operation {number}", True, disk.as_seen(), history.copy()
                yield from self._power_cuts(disk, history, rng, f"after operation {number}", number)

    def _power_cuts(
        self, disk: Disk, history: History, rng: random.Random, what: str, number: int
    ) -> Iterator[tuple[str, bool, Tree, History]]:
        others = SHARES[SCRIPTED_CUTS:]
        for names, contents in (*SHARES[:SCRIPTED_CUTS], others[number % len(others)]):
            tree = disk.after_power_cut(rng, names, contents)
            yield (
                f"power cut {what}, {names:.0%} of names and {contents:.0%} of pages kept",
                False,
                tree,
                history.copy(),
            )

    def _start_again(self, what: str, history: History) -> bool:
        """Check the folder in a process of its own; returns whether it is right."""

        def check() -> str:
            self._scenario.check(self._folder, history)
            return ""

        return self._in_child(f"start after {what}", check) is not None

    def _in_child(self, what: str, function: Callable[[], str]) -> str | None:
        """Call a function in a process of its own; returns its answer, or None after a failure, which is reported."""
        answer, failure = call_in_child(function)
        if failure is not None:
            self.report.failures.append(f"{what}: {failure}")
        return answer


def call_in_child(function: Callable[[], str], patience_s: float = PATIENCE_S) -> tuple[str | None, str | None]:
    """Call a function in a fork of this process.

    Returns:
        Its answer, or a description of its failure.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # torch writes there when it ends a process
        try:
            text = "+" + function()
        except BaseException:  # noqa: BLE001  (the parent reports it)
            text = "-" + "\n".join(traceback.format_exc().strip().splitlines()[-3:])
        with os.fdopen(writer, "w", encoding="utf-8") as sink:
            sink.write(text)
        os._exit(0)
    os.close(writer)
    pieces: list[bytes] = []
    while select.select([reader], [], [], patience_s)[0] and (piece := os.read(reader, 2**16)):
        pieces.append(piece)
    os.close(reader)
    if not pieces:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    text = b"".join(pieces).decode()
    if text.startswith("+"):
        return text[1:], None
    return None, text[1:] or f"it ended or hung (status {status})"


ABORTED = f"it ended or hung (status {int(signal.SIGABRT)})"
"""The failure of a child that called ``abort()``."""


def spread(total: int, number: int) -> list[int]:
    """Numbers from 1 to a total, spread evenly."""
    number = min(number, total)
    return [round((index + 0.5) * total / number + 0.5) for index in range(number)]


def _digest(tree: Tree, history: History) -> bytes:
    digest = hashlib.sha256(repr((history.tried, history.accepted, history.refused)).encode())
    for path, content in tree.items():
        digest.update(f"{path} {content is None} {len(content or b'')}\n".encode())
        digest.update(content or b"")
    return digest.digest()
