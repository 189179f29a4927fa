"""Documents for a soak: a few sentences in each of several formats."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence

import docx

from app.documents.formats.table import format_of


def _text(sentences: Sequence[str]) -> bytes:
    return "\n\n".join(sentences).encode() + b"\n"


def _markdown(sentences: Sequence[str]) -> bytes:
    first, *others = sentences
    return f"# {first}\n\n{''.join(f'- {item}{chr(10)}' for item in others)}".encode()


def _html(sentences: Sequence[str]) -> bytes:
    return f"<html><body>{''.join(f'<p>{sentence}</p>' for sentence in sentences)}</body></html>".encode()


def _subtitles(sentences: Sequence[str]) -> bytes:
    cues = (
        f"{number}\n00:00:{number:02},000 --> 00:00:{number:02},900\n{sentence}\n"
        for number, sentence in enumerate(sentences, 1)
    )
    return "\n".join(cues).encode()


def _gettext(sentences: Sequence[str]) -> bytes:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return (head + "\n".join(f'msgid "{sentence}"\nmsgstr ""\n' for sentence in sentences)).encode()


def _json(sentences: Sequence[str]) -> bytes:
    return json.dumps({f"message {number}": sentence for number, sentence in enumerate(sentences)}, indent=1).encode()


def _word(sentences: Sequence[str]) -> bytes:
    document = docx.Document()
    for sentence in sentences:
        document.add_paragraph(sentence)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


WRITERS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "txt": _text,
    "md": _markdown,
    "html": _html,
    "srt": _subtitles,
    "po": _gettext,
    "json": _json,
    "docx": _word,
}
"""By the ending of the file's name."""


def num_characters(name: str, content: bytes) -> int:
    """The characters of a document that count.

    Args:
        name: The name of the file.
        content: The file.
    """
    return sum(len(unit.text) for unit in format_of(name).read(content).units)
