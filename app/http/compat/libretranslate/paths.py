"""The paths of the routes."""

from __future__ import annotations

PREFIX = "/libretranslate"
"""The path that all routes of the protocol begin with."""

SHARED = ("/translate", "/detect")
"""Paths that native routes also have; at the root, the body of a request decides which route answers."""
