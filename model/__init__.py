"""Verso's translator: a library that translates text, without HTTP.

Axes of the shapes in this package:

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
    from model.translation.options import TranslationOptions
    from model.translator import Translator

# Must be set before torch is imported. By default OpenMP threads busy-wait for each other for milliseconds and occupy
# CPUs that other threads need, such as that of the service's event loop; a decoding step of 0.5 ms then takes up to
# 40 ms. With 1000 spins they sleep after a few microseconds.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__all__ = ["TranslationOptions", "Translator"]


def __getattr__(name: str) -> Any:
    """Import the two names on first use, because importing torch takes seconds."""
    if name == "TranslationOptions":
        from model.translation.options import TranslationOptions

        return TranslationOptions
    if name == "Translator":
        from model.translator import Translator

        return Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
