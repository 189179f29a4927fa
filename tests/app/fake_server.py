"""``python -m app`` around a translator that needs no model, for tests that need a real process.

The environment configures it: ``FAKE_LOAD_ERROR`` is the reason why loading fails, ``FAKE_STEP_S`` the seconds of each
decoding step. Loading waits until the file ``FAKE_LOAD_GATE`` exists. In the folder ``FAKE_STEP_GATE`` the file
``reached`` is created by the first step, which waits until the file ``open`` exists. With ``FAKE_DEADLY``, each cohort
ends the engine's thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from app.commands.serve import main
from model.errors import ArtifactError
from tests.app.fakes import FakeBundles, FakeTranslator, held_translator, manifest_of


def wait_for_file(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def guard_steps(translator: FakeTranslator, gate: Path) -> None:
    translator.stepping.wait()
    (gate / "reached").touch()
    wait_for_file(gate / "open")
    translator.step_gate.set()


class DeadlyTranslator(FakeTranslator):
    """A translator that ends the thread that runs it."""

    def cohort(self, width: int) -> Any:
        raise SystemExit(3)  # no Exception: it is not taken for an error of the model


def load() -> FakeTranslator:
    if "FAKE_LOAD_GATE" in os.environ:
        wait_for_file(Path(os.environ["FAKE_LOAD_GATE"]))
    reason = os.environ.get("FAKE_LOAD_ERROR")
    if reason is not None:
        raise ArtifactError(reason)
    if "FAKE_DEADLY" in os.environ:
        return DeadlyTranslator()
    if "FAKE_STEP_GATE" not in os.environ:
        return FakeTranslator(step_s=float(os.environ.get("FAKE_STEP_S", "0")))
    translator = held_translator()
    gate = Path(os.environ["FAKE_STEP_GATE"])
    threading.Thread(target=guard_steps, args=(translator, gate), daemon=True).start()
    return translator


if __name__ == "__main__":
    sys.exit(main(bundles=FakeBundles(load, files={"fr.pt": FakeTranslator(manifest=manifest_of("fr", "fr-en"))})))
