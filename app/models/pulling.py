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
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import model
from model.artifacts.pulled import PulledBundles, PulledName
from model.errors import ArtifactError
from model.process.folders import cache_folder

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision

logger = logging.getLogger("app.bundles")

_PACKAGES = Path(model.__file__).parents[1]

_ERROR = "error: "
_WARNING = "warning: "


def pull_bundles(
    names: Sequence[PulledName], precision: Precision, cache_dir: Path | None, firefox_registry: str | None = None
) -> dict[PulledName, list[Path]]:
    """The bundles of models; those that are not in the cache are downloaded and imported, by one process.

    Args:
        names: The models and groups of models.
        precision: Precision of the bundles.
        cache_dir: The cache folder; that of the user by default.
        firefox_registry: The address of a mirror of the registry of Firefox's models.

    Returns:
        The bundle of each model; of a group those of its models.

    Raises:
        ArtifactError: A model cannot be pulled; the message says why and what to do.
    """
    folder = (cache_dir or cache_folder()).absolute()
    paths: dict[PulledName, list[Path]] = {}
    wanted = []
    for name in dict.fromkeys(names):
        last = PulledBundles(name, precision, folder).last() if name.pinned else None
        if last is None:
            wanted.append(name)
        paths[name] = [] if last is None else [last]
    if wanted:
        logger.info("pulling models", extra={"fields": {"models": [*map(str, wanted)], "precision": precision}})
        arguments = ["--precision", precision, "--cache-dir", str(folder), "--with-names", "--end-with-input"]
        if firefox_registry is not None:
            arguments += ["--firefox-registry", firefox_registry]
        by_name = {str(name): name for name in wanted}
        for line in _run(wanted, [sys.executable, "-m", "model", "pull", *by_name, *arguments]):
            text, _, path = line.partition("\t")
            if text in by_name and path:
                paths[by_name[text]].append(Path(path))
    return paths


def _run(names: Sequence[PulledName], command: Sequence[str]) -> list[str]:
    """Run the process; returns its lines."""
    reason, message = None, ""
    fields = {"models": [*map(str, names)]}
    lines: list[str] = []
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
        # The paths of many models may fill the pipe while messages are read.
        reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()), name="verso-pull", daemon=True)
        reader.start()
        for line in process.stderr:
            if not line.strip():
                continue
            message = line.strip()
            if message.startswith(_ERROR):
                reason = message.removeprefix(_ERROR)
            elif message.startswith(_WARNING):
                logger.warning(message.removeprefix(_WARNING), extra={"fields": fields})
            else:
                logger.info(message, extra={"fields": fields})
        reader.join()
        code = process.wait()
    named = " ".join(map(str, names))
    if code == 0 and lines:
        return [line.rstrip("\n") for line in lines]
    if reason is None:
        killed = code == -getattr(signal, "SIGKILL", 9)
        why = "it was killed, most likely for lack of memory" if killed else f"exit code {code}, {message!r}"
        reason = f"the import failed ({why}); try 'verso pull {named}'."
    raise ArtifactError(f"{', '.join(name.setting for name in names)}: {reason}")
