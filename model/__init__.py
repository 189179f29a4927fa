"""Verso's translator: text in, text out, no HTTP; usable offline.

Axes named in shapes throughout this package:

====  ==========================================
B     sentences of a batch
S     source positions
T     target positions
C     ``d_model``, width of the vectors between layers
H     attention heads
D     width of one head, C / H
K     hypotheses of one sentence (beam)
V     vocabulary
L     layers
====  ==========================================
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.decoding.options import DecodingOptions
    from model.translator import Translator

# Before torch is imported: its threads wait for each other by turning, for milliseconds, on processors that others need
# (the service's event loop, for one); while one of them is away a step of 0.5 ms takes 40. A thousand turns, a few
# microseconds, and they sleep.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__all__ = ["DecodingOptions", "Translator"]


def __getattr__(name: str) -> Any:
    """Import the two names on first use: errors and options alone must not cost the seconds torch takes."""
    if name == "DecodingOptions":
        from model.decoding.options import DecodingOptions

        return DecodingOptions
    if name == "Translator":
        from model.translator import Translator

        return Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
