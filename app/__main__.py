"""``python -m app``: the same as ``verso serve``."""

from __future__ import annotations

import sys

from app.commands.serve import main

if __name__ == "__main__":
    sys.exit(main())
