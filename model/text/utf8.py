"""Lines of a file as text in UTF-8, with an error that names the line."""

from __future__ import annotations

from model.errors import DataError


def decode(text: bytes, first_line: int, name: str) -> str:
    """Text in UTF-8.

    Args:
        text: A line of the input, or all of it.
        first_line: The number of its first line.
        name: What the input is called in an error.

    Raises:
        DataError: It is not UTF-8.
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + text.count(b"\n", 0, error.start)
        raise DataError(
            f"Line {line} of {name} is not UTF-8: it holds byte 0x{text[error.start]:02x}. "
            "Convert it first, for example with 'iconv -f latin1 -t utf-8'."
        ) from error
