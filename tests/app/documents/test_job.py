"""The translation of a document's units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.documents.document import MemoryCounts
from app.documents.formats.document_file import Unit
from app.documents.job import Job
from model.errors import DecodingError
from model.translation.options import TranslationOptions
from tests.app.serving import RoteService

pytestmark = pytest.mark.anyio


async def test_sentences_that_stay_in_their_language_are_counted_like_those_that_fail() -> None:
    stored: list[tuple[Mapping[int, str | None], int, int]] = []

    async def store(
        translations: Mapping[int, str | None],
        num_sentences: int,
        num_left: int,
        positions: Mapping[int, bytes],
        memory: MemoryCounts,
    ) -> None:
        stored.append((translations, num_sentences, num_left))

    service: Any = RoteService(errors={"nan": DecodingError("NaN")})
    units = [Unit(text) for text in ("a", "untranslatable", "nan")]
    await Job(service, "en", "de", TranslationOptions(), "", store).run(units, [1, 1, 2], {})
    assert stored == [({0: "A", 1: "UNTRANSLATABLE", 2: None}, 4, 3)]
