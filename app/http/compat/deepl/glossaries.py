"""``/v2/glossaries``: glossaries of one language pair. Those of several are at ``/v3/glossaries`` only."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidParameter
from app.glossaries.store import Dictionary, GlossaryInfo
from app.glossaries.terms import parse_csv, parse_tsv, to_tsv
from app.http.compat.deepl import examples
from app.http.compat.deepl.answers import DeepLGlossaries, DeepLGlossary
from app.http.compat.deepl.documentation import body, errors, id_parameter, no_content, success, text
from app.http.compat.deepl.parameters import DictionaryParameters, GlossaryParameters
from app.http.compat.deepl.protocol import answer, read_asked
from app.http.state import glossaries_of, service_of
from model.languages import LanguagePairs, plain_code

router = APIRouter()

_TSV = "text/tab-separated-values"


@router.post(
    "/v2/glossaries",
    name="deepl_create_glossary",
    status_code=201,
    summary="Create a glossary of one language pair",
    responses={**success(DeepLGlossary, examples.GLOSSARY, 201), **errors(400, 403, 413, 456, 504)},
    openapi_extra=body(GlossaryParameters, examples.CREATE_GLOSSARY),
)
async def create(request: Request) -> Response:
    """Store a glossary. With `VERSO_DATA_DIR` it outlives the process."""
    _, given = await read_asked(request)
    asked = given.as_model(GlossaryParameters)
    pairs = await service_of(request).language_pairs()
    store = glossaries_of(request)
    made = await asyncio.to_thread(lambda: store.create(asked.name, [read_dictionary(asked, pairs)]))
    return answer(_described(made), 201)


@router.get(
    "/v2/glossaries",
    name="deepl_glossaries",
    summary="Glossaries of one language pair",
    responses={**success(DeepLGlossaries, examples.GLOSSARIES), **errors(403)},
)
async def all_glossaries(request: Request) -> Response:
    """All glossaries of one language pair, the oldest first."""
    await read_asked(request)
    found = await asyncio.to_thread(glossaries_of(request).all)
    return answer(DeepLGlossaries(glossaries=[_described(one) for one in found if len(one.dictionaries) == 1]))


@router.get(
    "/v2/glossaries/{glossary_id}",
    name="deepl_glossary",
    summary="A glossary",
    responses={**success(DeepLGlossary, examples.GLOSSARY), **errors(400, 403, 404)},
    openapi_extra=id_parameter(),
)
async def get(request: Request) -> Response:
    """A glossary, without its terms."""
    await read_asked(request)
    return answer(_described(await asyncio.to_thread(glossaries_of(request).get, id_of(request))))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    name="deepl_glossary_entries",
    response_class=Response,
    summary="The terms of a glossary",
    responses={**text(_TSV, examples.TSV), **errors(400, 403, 404)},
    openapi_extra=id_parameter(),
)
async def entries(request: Request) -> Response:
    """The terms of a glossary: a line for each, with a tab between source and target."""
    await read_asked(request)
    found = await asyncio.to_thread(glossaries_of(request).dictionary, id_of(request), None, None)
    return answer(to_tsv(found.terms), media_type=_TSV)


@router.delete(
    "/v2/glossaries/{glossary_id}",
    name="deepl_delete_glossary",
    status_code=204,
    summary="Delete a glossary",
    responses={**no_content(), **errors(403, 404)},
    openapi_extra=id_parameter(),
)
async def delete(request: Request) -> Response:
    """Delete a glossary, whatever its language pairs are."""
    await read_asked(request)
    await asyncio.to_thread(glossaries_of(request).delete, id_of(request))
    return answer("", 204)


def id_of(request: Request) -> str:
    """The id of a glossary in the path."""
    glossary_id: str = request.path_params["glossary_id"]
    return glossary_id


def read_dictionary(asked: DictionaryParameters, pairs: LanguagePairs) -> Dictionary:
    """The terms of a language pair, checked.

    Args:
        asked: The terms as they were sent.
        pairs: The language pairs served.

    Raises:
        InvalidParameter: The language pair is not served.
        InvalidGlossary: The terms are wrong.
    """
    if not pairs.find(asked.source_lang, asked.target_lang):
        given = f"{asked.source_lang!r}, {asked.target_lang!r}"
        raise InvalidParameter(f"Unsupported glossary source and target language pair: {given}.")
    terms = parse_tsv(asked.entries) if asked.entries_format == "tsv" else parse_csv(asked.entries)
    return Dictionary(plain_code(asked.source_lang), plain_code(asked.target_lang), terms)


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
