"""Models of a hub: their bundles in the cache, which another process makes if they are missing.

Importing takes twice the memory of serving, and much code that serving does not need. A separate process releases both
when it ends, and cannot end the service (docs/decisions/0023).
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


def pull_bundle(name: PulledName, precision: Precision, cache_dir: Path | None) -> Path:
    """The bundle of a model; a model that is not in the cache is downloaded and imported.

    Args:
        name: The model.
        precision: Precision of the bundle.
        cache_dir: The cache folder; that of the user by default.

    Raises:
        ArtifactError: The model cannot be pulled; the message says why and what to do.
    """
    folder = (cache_dir or cache_folder()).absolute()
    last = PulledBundles(name, precision, folder).last()
    if name.pinned and last is not None:
        return last
    logger.info("pulling a model", extra={"fields": {"model": str(name), "precision": precision}})
    arguments = ["pull", str(name), "--precision", precision, "--cache-dir", str(folder), "--end-with-input"]
    return _run(name, [sys.executable, "-m", "model", *arguments])


def _run(name: PulledName, command: Sequence[str]) -> Path:
    reason, message = None, ""
    with subprocess.Popen(
        command,
        cwd=_PACKAGES,  # so that "-m" uses this package
        env={**os.environ, "PYTHONUTF8": "1"},
        stdin=subprocess.PIPE,  # closed when this process ends, which ends the other one
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
            message = line.strip()
            if message.startswith(_ERROR):
                reason = message.removeprefix(_ERROR)
            elif message.startswith(_WARNING):
                logger.warning(message.removeprefix(_WARNING), extra={"fields": {"model": str(name)}})
            else:
                logger.info(message, extra={"fields": {"model": str(name)}})
        path = process.stdout.read().strip()
        code = process.wait()
    if code == 0 and path:
        return Path(path)
    if reason is None:
        killed = code == -getattr(signal, "SIGKILL", 9)
        why = "it was killed, most likely for lack of memory" if killed else f"exit code {code}, {message!r}"
        reason = f"the import failed ({why}); try 'verso pull {name}'."
    raise ArtifactError(f"{PREFIX}{name}: {reason}")
