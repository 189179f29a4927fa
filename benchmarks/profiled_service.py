"""The service, profiled between two signals: SIGUSR1 begins, SIGUSR2 ends and writes the profile.

    python benchmarks/profiled_service.py FILE

It has the settings of ``python -m app``, and imports nothing of this folder, so that it can run the code of another
checkout, which PYTHONPATH names.
"""

from __future__ import annotations

import cProfile
import os
import signal
import sys
from types import FrameType

from app.commands.serve import serve


def main() -> int:
    """Serve."""
    profile = cProfile.Profile()

    def end(number: int, _: FrameType | None) -> None:
        profile.disable()
        profile.dump_stats(f"{sys.argv[1]}.part")
        os.replace(f"{sys.argv[1]}.part", sys.argv[1])

    signal.signal(signal.SIGUSR1, lambda number, frame: profile.enable())
    signal.signal(signal.SIGUSR2, end)
    return serve(os.environ)


if __name__ == "__main__":
    sys.exit(main())
