"""The header of answers that are files."""

from __future__ import annotations

from urllib.parse import quote


def attachment(filename: str, plain: str | None = None) -> dict[str, str]:
    """The header of an answer that is a file to download (RFC 6266).

    Args:
        filename: Its name, in any characters.
        plain: A name in ASCII, for clients without support for ``filename*``.
    """
    fallback = "" if plain is None else f'filename="{plain}"; '
    return {"Content-Disposition": f"attachment; {fallback}filename*=UTF-8''{quote(filename, safe='')}"}
