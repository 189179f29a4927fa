"""Where the routes are, and the headers that let pages of other sites call them."""

from __future__ import annotations

PREFIX = "/libretranslate"
"""The path that all routes of the protocol begin with."""

SHARED = "/translate"
"""The path that a native route has, too; at the root, the body of a request says whose it is."""

CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "1728000",
}
"""Headers of every answer, errors included."""
