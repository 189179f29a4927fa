"""What is sent with a document: its name, the options and the target language, checked and adapted."""

from __future__ import annotations

import re
from dataclasses import replace

from app.errors import DocumentRefused
from model.languages import english_name, plain_code
from model.translation.options import TranslationOptions

_MAX_NAME = 200

_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def check_target(declared: str, target: str) -> None:
    """Refuse a catalogue whose translations are in another language than requested.

    Raises:
        DocumentRefused: They are.
    """
    if declared and plain_code(declared) != plain_code(target):
        raise DocumentRefused(
            f"The translations that the file has are in {english_name(declared)} ({declared[:20]}), and the target is "
            f"{target}; remove them, or send the file with their language as the target."
        )


def options_of_documents(options: TranslationOptions) -> TranslationOptions:
    """Options for documents: units have their own formats, and only the translated text is used."""
    return replace(
        options,
        format="text",
        ignore_tags=(),
        num_hypotheses=1,
        return_scores=False,
        return_alignment=False,
        return_confidence=False,
    )


def shown_name(filename: str) -> str:
    """A file's name as the client sent it, without folders and unprintable characters."""
    name = _UNPRINTABLE.sub("", _FOLDERS.sub("", filename)).strip()
    stem, dot, ending = name.rpartition(".")
    return f"{stem[: _MAX_NAME - len(ending) - 1]}{dot}{ending}" if len(name) > _MAX_NAME else name
