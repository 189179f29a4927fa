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

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from model.decoding.options import DecodingOptions
    from model.translator import Translator

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
