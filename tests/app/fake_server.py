"""``python -m app`` around a translator that needs no model, for tests that want a real process.

The environment says how it behaves: ``FAKE_LOAD_S`` seconds of loading, ``FAKE_LOAD_ERROR`` as the reason why loading
fails, ``FAKE_STEP_S`` seconds for each decoding step.
"""

from __future__ import annotations

import os
import sys
import time

from app.commands.serve import main
from model.errors import ArtifactError
from tests.app.fakes import FakeBundles, FakeTranslator, manifest_of


def load() -> FakeTranslator:
    time.sleep(float(os.environ.get("FAKE_LOAD_S", "0")))
    reason = os.environ.get("FAKE_LOAD_ERROR")
    if reason is not None:
        raise ArtifactError(reason)
    return FakeTranslator(step_s=float(os.environ.get("FAKE_STEP_S", "0")))


if __name__ == "__main__":
    sys.exit(main(bundles=FakeBundles(load, files={"fr.pt": FakeTranslator(manifest=manifest_of("fr", "fr-en"))})))
