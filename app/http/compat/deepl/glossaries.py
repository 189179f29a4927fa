"""``/v2/glossaries``: glossaries of one language pair. ``/v3/glossaries`` also has those of several."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidParameter
from app.glossaries.store import Dictionary, GlossaryInfo
from app.glossaries.terms import parse_csv, parse_tsv, to_tsv
from app.http.compat.deepl.answers import GLOSSARIES, GLOSSARY, TSV, DeepLGlossaries, DeepLGlossary
from app.http.compat.deepl.dependency import ADMITTED, AdmittedRoute, reads
from app.http.compat.deepl.documentation import errors, no_content, success, text
from app.http.compat.deepl.parameters import GLOSSARY_EXAMPLES, DictionaryParameters, GlossaryParameters
from app.http.compat.deepl.protocol import answer
from app.http.state import glossaries_of, service_of
from model.languages import LanguagePairs, plain_code

router = APIRouter(route_class=AdmittedRoute)

_TSV = "text/tab-separated-values"


@router.post(
    "/v2/glossaries",
    name="deepl_create_glossary",
    status_code=201,
    summary="Create a glossary of one language pair",
    responses={**success(GLOSSARY, 201), **errors(400, 403, 413, 456, 504)},
)
async def create(
    request: Request, body: Annotated[GlossaryParameters, reads(GlossaryParameters, GLOSSARY_EXAMPLES)]
) -> Response:
    """Store a glossary. With `VERSO_DATA_DIR` it survives a restart."""
    pairs = await service_of(request).language_pairs()
    store = glossaries_of(request)
    glossary = await asyncio.to_thread(lambda: store.create(body.name, [read_dictionary(body, pairs)]))
    return answer(_described(glossary), 201)


@router.get(
    "/v2/glossaries",
    name="deepl_glossaries",
    dependencies=ADMITTED,
    summary="Glossaries of one language pair",
    responses={**success(GLOSSARIES), **errors(403)},
)
async def all_glossaries(request: Request) -> Response:
    """All glossaries of one language pair, the oldest first."""
    stored = await asyncio.to_thread(glossaries_of(request).all)
    of_one_pair = [glossary for glossary in stored if len(glossary.dictionaries) == 1]
    return answer(DeepLGlossaries(glossaries=list(map(_described, of_one_pair))))


@router.get(
    "/v2/glossaries/{glossary_id}",
    name="deepl_glossary",
    dependencies=ADMITTED,
    summary="A glossary",
    responses={**success(GLOSSARY), **errors(400, 403, 404)},
)
async def get(request: Request, glossary_id: str) -> Response:
    """A glossary, without its terms."""
    return answer(_described(await asyncio.to_thread(glossaries_of(request).get, glossary_id)))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    name="deepl_glossary_entries",
    response_class=Response,
    dependencies=ADMITTED,
    summary="The terms of a glossary",
    responses={**text(_TSV, TSV), **errors(400, 403, 404)},
)
async def entries(request: Request, glossary_id: str) -> Response:
    """The terms of a glossary, one per line, with a tab between source and target."""
    dictionary = await asyncio.to_thread(glossaries_of(request).dictionary, glossary_id, None, None)
    return answer(to_tsv(dictionary.terms), media_type=_TSV)


@router.delete(
    "/v2/glossaries/{glossary_id}",
    name="deepl_delete_glossary",
    status_code=204,
    dependencies=ADMITTED,
    summary="Delete a glossary",
    responses={**no_content(), **errors(403, 404)},
)
async def delete(request: Request, glossary_id: str) -> Response:
    """Delete a glossary, of one or several language pairs."""
    await asyncio.to_thread(glossaries_of(request).delete, glossary_id)
    return answer("", 204)


def read_dictionary(body: DictionaryParameters, pairs: LanguagePairs) -> Dictionary:
    """The validated terms of a language pair.

    Args:
        body: The parameters with the terms.
        pairs: The language pairs served.

    Raises:
        InvalidParameter: The language pair is not served.
        InvalidGlossary: The terms are wrong.
    """
    if not pairs.find(body.source_lang, body.target_lang):
        pair = f"{body.source_lang!r}, {body.target_lang!r}"
        raise InvalidParameter(f"Unsupported glossary source and target language pair: {pair}.")
    terms = parse_tsv(body.entries) if body.entries_format == "tsv" else parse_csv(body.entries)
    return Dictionary(plain_code(body.source_lang), plain_code(body.target_lang), terms)


def _described(glossary: GlossaryInfo) -> DeepLGlossary:
    if len(glossary.dictionaries) != 1:
        raise InvalidParameter(
            f"The glossary has {len(glossary.dictionaries)} dictionaries; see /v3/glossaries/{glossary.id}."
        )
    (dictionary,) = glossary.dictionaries
    return DeepLGlossary(
        glossary_id=glossary.id,
        name=glossary.name,
        ready=True,
        source_lang=dictionary.source,
        target_lang=dictionary.target,
        creation_time=glossary.created,
        entry_count=dictionary.num_terms,
    )
