"""Files as answers: the header that names them."""

from __future__ import annotations

from urllib.parse import quote


def attachment(filename: str, plain: str | None = None) -> dict[str, str]:
    """The header of an answer that is a file to save (RFC 6266).

    Args:
        filename: Its name, in any characters.
        plain: A name in ASCII for clients that do not know the other form.
    """
    fallback = "" if plain is None else f'filename="{plain}"; '
    return {"Content-Disposition": f"attachment; {fallback}filename*=UTF-8''{quote(filename, safe='')}"}
