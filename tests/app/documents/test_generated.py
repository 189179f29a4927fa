"""Random documents of each format: a translation has their skeleton and all of their words."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from tests.app.documents.generated import DOCUMENTS, FORMATS, WORDS, Block, words_of
from tests.app.documents.translated import translated

_TAG = re.compile(r"<[^<>]*>")


def capitals_of(data: bytes) -> Counter[str]:
    """The words that a translation has in capitals."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = b"".join(
                _TAG.sub(" ", archive.read(name).decode()).encode()
                for name in archive.namelist()
                if name.endswith(("l", "f"))
            )
    words = Counter(re.findall("[A-Z]+", data.decode()))
    return Counter({word: words[word.upper()] for word in WORDS if words[word.upper()]})


def check(suffix: str, blocks: Sequence[Block]) -> None:
    """Translate a document, which compares the skeletons, and count its words."""
    result = translated(suffix, FORMATS[suffix](blocks))
    assert capitals_of(result) == Counter(words_of(blocks)), result


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=10)
@given(blocks=DOCUMENTS)
def test_no_word_and_no_sign_of_a_document_is_lost(suffix: str, blocks: list[Block]) -> None:
    check(suffix, blocks)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=400)
@given(blocks=DOCUMENTS)
def test_no_word_and_no_sign_of_many_documents_is_lost(suffix: str, blocks: list[Block]) -> None:
    check(suffix, blocks)
