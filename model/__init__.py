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

from model.decoding.options import DecodingOptions
from model.translator import Translator

__all__ = ["DecodingOptions", "Translator"]
