"""Chooses the media type of an answer by the ``Accept`` header, as RFC 9110, section 12.5.1, defines it.

Neither FastAPI nor Starlette reads this header, and these few lines are not worth another dependency.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from app.errors import NotAcceptable


@lru_cache(maxsize=64)  # clients send the same few headers again and again
def choose_media_type(accept: str | None, offered: tuple[str, ...]) -> str:
    """The offered media type that the client prefers.

    Args:
        accept: The ``Accept`` header; None or empty accepts anything.
        offered: The media types the route can answer with, the default first.

    Returns:
        The one with the highest quality; among equals the one that the header names most specifically, then the first.

    Raises:
        NotAcceptable: The client accepts none of them.
    """
    if not accept or not accept.strip():
        return offered[0]
    ranges = [_parse_range(part) for part in accept.split(",")]
    best = max(offered, key=lambda media_type: _preference(media_type, ranges))
    if _preference(best, ranges)[0] <= 0.0:
        raise NotAcceptable(accept[:100], offered)
    return best


def _parse_range(part: str) -> tuple[str, float]:
    """One element of the header: a media range and its quality, 0 if the quality cannot be parsed."""
    media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return media_range, min(max(float(value), 0.0), 1.0)
            except ValueError:
                return media_range, 0.0
    return media_range, 1.0


def _preference(media_type: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """The quality of a media type, and the specificity of its range: the most specific range that matches decides."""
    family = media_type.partition("/")[0] + "/*"
    for specificity, pattern in ((2, media_type), (1, family), (0, "*/*")):
        qualities = [quality for media_range, quality in ranges if media_range == pattern]
        if qualities:
            return max(qualities), specificity
    return 0.0, -1
