"""Models of a hub: the bundle in the cache, made by another process if it is not there.

Importing takes twice the memory of serving and most of the code that serving does not need. A process of its own gives
both back when it ends, and cannot bring the service down (docs/decisions/0023).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import model
from model.artifacts.pulled import PREFIX, PulledBundles, PulledName
from model.errors import ArtifactError
from model.process.folders import cache_folder

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision

logger = logging.getLogger("app.bundles")

_PACKAGES = Path(model.__file__).parents[1]

_ERROR = "error: "
_WARNING = "warning: "


def pulled(name: PulledName, precision: Precision, cache_dir: Path | None) -> Path:
    """The bundle of a model; takes as long as a download and an import if it is not in the cache.

    Args:
        name: The model.
        precision: Precision of the bundle.
        cache_dir: Where bundles are kept; the cache folder of the user by default.

    Raises:
        ArtifactError: The model cannot be had; the message says why and what to do.
    """
    folder = (cache_dir or cache_folder()).absolute()
    last = PulledBundles(name, precision, folder).last()
    if name.pinned and last is not None:
        return last
    logger.info("asking for a model", extra={"fields": {"model": str(name), "precision": precision}})
    arguments = ["pull", str(name), "--precision", precision, "--cache-dir", str(folder), "--end-with-input"]
    return _run(name, [sys.executable, "-m", "model", *arguments])


def _run(name: PulledName, command: Sequence[str]) -> Path:
    reason, said = None, ""
    with subprocess.Popen(
        command,
        cwd=_PACKAGES,  # where "-m" finds this package, and no other of its name
        env={**os.environ, "PYTHONUTF8": "1"},
        stdin=subprocess.PIPE,  # ends with this process, and the other one ends with it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            if not line.strip():
                continue
            said = line.strip()
            if said.startswith(_ERROR):
                reason = said.removeprefix(_ERROR)
            elif said.startswith(_WARNING):
                logger.warning(said.removeprefix(_WARNING), extra={"fields": {"model": str(name)}})
            else:
                logger.info(said, extra={"fields": {"model": str(name)}})
        path = process.stdout.read().strip()
        code = process.wait()
    if code == 0 and path:
        return Path(path)
    if reason is None:
        killed = code == -getattr(signal, "SIGKILL", 9)
        why = "it was killed, most likely for want of memory" if killed else f"exit code {code}, {said!r}"
        reason = f"the import failed ({why}); 'verso pull {name}' does the same by hand."
    raise ArtifactError(f"{PREFIX}{name}: {reason}")
