"""Where the routes are."""

from __future__ import annotations

PREFIX = "/libretranslate"
"""The path that all routes of the protocol begin with."""

SHARED = "/translate"
"""The path that a native route has, too; at the root, the body of a request says whose it is."""
