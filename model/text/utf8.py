"""Decoding UTF-8, with an error that names the line."""

from __future__ import annotations

from model.errors import DataError


def decode(text: bytes, first_line: int, name: str) -> str:
    """Decode UTF-8.

    Args:
        text: Lines of the input.
        first_line: The number of its first line.
        name: The name of the input in an error.

    Raises:
        DataError: It is not UTF-8.
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + text.count(b"\n", 0, error.start)
        raise DataError(
            f"Line {line} of {name} is not UTF-8: it has the byte 0x{text[error.start]:02x}. "
            "Convert it first, for example with 'iconv -f latin1 -t utf-8'."
        ) from error
