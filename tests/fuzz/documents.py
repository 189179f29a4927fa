"""Documents of every format: read, translated, written, and read again."""

from __future__ import annotations

import html
from functools import partial
from pathlib import Path

from app.documents.formats.table import FORMATS
from app.errors import ServiceError
from model.errors import InputError
from tests.app.documents.test_refusals import FILES, READERS, REFUSED
from tests.app.documents.translated import in_capitals
from tests.fuzz.mutations import mutated_archive, mutated_form, unpacked_size
from tests.fuzz.target import Target

ARCHIVES = (".docx", ".odt", ".pptx", ".xlsx", ".ods", ".odp", ".epub")

SECRET = "TOP-SECRET-OF-THE-OPERATOR"
"""Is in a file beside this one, which inputs name as an entity; no output may have it."""

_SECRET_FILE = Path(__file__).with_name("secret.txt")

MOST_UNITS = 60
"""Units that are translated; the others stay."""


def _translate(suffix: str, data: bytes) -> None:
    file = FORMATS[suffix].read(data)
    units = file.units
    translations = [in_capitals(unit) if len(unit.text) < 2_000 else None for unit in units[:MOST_UNITS]]
    written = file.write([*translations, *[None] * (len(units) - len(translations))], "de")
    assert SECRET.encode() not in written, "an entity was read from a file"
    FORMATS[suffix].read(written)


def _seeds(suffix: str) -> list[bytes]:
    refused = [data if isinstance(data, bytes) else data() for other, data, _ in REFUSED.values() if other == suffix]
    entity = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{_SECRET_FILE.as_uri()}">]><a>&x;{html.escape("<")}</a>'
    small = [first for first in refused if len(first) < 30_000]
    return [FILES.get(suffix, FILES[".html"]), *small, *([] if suffix in ARCHIVES else [entity.encode()])]


TARGETS = [
    Target(
        name=f"document-{suffix[1:]}",
        run=partial(_translate, suffix),
        seeds=partial(_seeds, suffix),
        refusals=(ServiceError, InputError),
        mutate=mutated_archive if suffix in ARCHIVES else mutated_form,
        size=unpacked_size if suffix in ARCHIVES else len,
    )
    for suffix in READERS
]
