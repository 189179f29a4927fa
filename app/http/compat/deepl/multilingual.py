"""``/v3/glossaries``: glossaries with a dictionary for each of several language pairs."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidParameter
from app.glossaries.store import Dictionary, GlossaryInfo
from app.glossaries.terms import to_tsv
from app.http.compat.deepl.answers import (
    DICTIONARIES,
    DICTIONARY,
    MULTILINGUAL,
    MULTILINGUALS,
    DeepLDictionaries,
    DeepLDictionary,
    DeepLEntries,
    DeepLMultilingual,
    DeepLMultilinguals,
)
from app.http.compat.deepl.dependency import ADMITTED, AdmittedRoute, reads
from app.http.compat.deepl.documentation import errors, no_content, success
from app.http.compat.deepl.glossaries import read_dictionary
from app.http.compat.deepl.parameters import (
    CHANGES_EXAMPLES,
    DICTIONARY_EXAMPLES,
    MULTILINGUAL_EXAMPLES,
    DictionaryParameters,
    MultilingualChanges,
    MultilingualParameters,
    PairParameters,
)
from app.http.compat.deepl.protocol import answer
from app.http.state import glossaries_of, service_of
from model.languages import LanguagePairs

router = APIRouter(route_class=AdmittedRoute)


@router.post(
    "/v3/glossaries",
    name="deepl_create_multilingual",
    status_code=201,
    summary="Create a glossary",
    responses={**success(MULTILINGUAL, 201), **errors(400, 403, 413, 456, 504)},
)
async def create(
    request: Request,
    body: Annotated[MultilingualParameters, reads(MultilingualParameters, MULTILINGUAL_EXAMPLES)],
) -> Response:
    """Store a glossary with a dictionary for each language pair. With `VERSO_DATA_DIR` it survives a restart."""
    pairs = await service_of(request).language_pairs()
    store = glossaries_of(request)
    glossary = await asyncio.to_thread(lambda: store.create(body.name, _dictionaries(body.dictionaries, pairs)))
    return answer(_described(glossary), 201)


@router.get(
    "/v3/glossaries",
    name="deepl_multilinguals",
    dependencies=ADMITTED,
    summary="Glossaries",
    responses={**success(MULTILINGUALS), **errors(403)},
)
async def all_glossaries(request: Request) -> Response:
    """All glossaries, the oldest first."""
    stored = await asyncio.to_thread(glossaries_of(request).all)
    return answer(DeepLMultilinguals(glossaries=list(map(_described, stored))))


@router.get(
    "/v3/glossaries/{glossary_id}",
    name="deepl_multilingual",
    dependencies=ADMITTED,
    summary="A glossary",
    responses={**success(MULTILINGUAL), **errors(403, 404)},
)
async def get(request: Request, glossary_id: str) -> Response:
    """A glossary, without its terms."""
    return answer(_described(await asyncio.to_thread(glossaries_of(request).get, glossary_id)))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    name="deepl_change_multilingual",
    summary="Rename a glossary, or add terms",
    responses={**success(MULTILINGUAL), **errors(400, 403, 404, 413, 456, 504)},
)
async def change(
    request: Request,
    glossary_id: str,
    body: Annotated[MultilingualChanges, reads(MultilingualChanges, CHANGES_EXAMPLES)],
) -> Response:
    """Rename a glossary or add terms. A term with the same source is replaced; other terms stay."""
    pairs = await service_of(request).language_pairs()
    store = glossaries_of(request)
    changed = await asyncio.to_thread(
        lambda: store.update(glossary_id, body.name, _dictionaries(body.dictionaries, pairs))
    )
    return answer(_described(changed))


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    name="deepl_replace_dictionary",
    summary="Replace the terms of a language pair",
    responses={**success(DICTIONARY), **errors(400, 403, 404, 413, 456, 504)},
)
async def replace(
    request: Request,
    glossary_id: str,
    body: Annotated[DictionaryParameters, reads(DictionaryParameters, DICTIONARY_EXAMPLES)],
) -> Response:
    """Replace all terms of a language pair, or add the pair."""
    pairs = await service_of(request).language_pairs()
    store = glossaries_of(request)

    def put() -> Dictionary:
        dictionary = read_dictionary(body, pairs)
        store.replace(glossary_id, dictionary)
        return dictionary

    stored = await asyncio.to_thread(put)
    return answer(DeepLDictionary(source_lang=stored.source, target_lang=stored.target, entry_count=len(stored.terms)))


@router.get(
    "/v3/glossaries/{glossary_id}/entries",
    name="deepl_dictionary_entries",
    summary="The terms of a language pair",
    responses={**success(DICTIONARIES), **errors(400, 403, 404)},
)
async def entries(
    request: Request, glossary_id: str, body: Annotated[PairParameters, reads(PairParameters)]
) -> Response:
    """The terms of one language pair of a glossary."""
    store = glossaries_of(request)
    dictionary = await asyncio.to_thread(store.dictionary, glossary_id, body.source_lang, body.target_lang)
    return answer(
        DeepLDictionaries(
            dictionaries=[
                DeepLEntries(
                    source_lang=dictionary.source,
                    target_lang=dictionary.target,
                    entries=to_tsv(dictionary.terms),
                    entries_format="tsv",
                )
            ]
        )
    )


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries",
    name="deepl_delete_dictionary",
    status_code=204,
    summary="Delete the terms of a language pair",
    responses={**no_content(), **errors(400, 403, 404)},
)
async def delete_dictionary(
    request: Request, glossary_id: str, body: Annotated[PairParameters, reads(PairParameters)]
) -> Response:
    """Delete the terms of one language pair of a glossary."""
    store = glossaries_of(request)
    await asyncio.to_thread(store.delete_dictionary, glossary_id, body.source_lang, body.target_lang)
    return answer("", 204)


@router.delete(
    "/v3/glossaries/{glossary_id}",
    name="deepl_delete_multilingual",
    status_code=204,
    dependencies=ADMITTED,
    summary="Delete a glossary",
    responses={**no_content(), **errors(403, 404)},
)
async def delete(request: Request, glossary_id: str) -> Response:
    """Delete a glossary."""
    await asyncio.to_thread(glossaries_of(request).delete, glossary_id)
    return answer("", 204)


def _dictionaries(parameters: list[DictionaryParameters], pairs: LanguagePairs) -> list[Dictionary]:
    """The validated dictionaries of a request.

    Raises:
        InvalidParameter: A language pair is not served, or occurs twice.
        InvalidGlossary: The terms are wrong.
    """
    dictionaries: dict[tuple[str, str], Dictionary] = {}
    for terms in parameters:
        dictionary = read_dictionary(terms, pairs)
        pair = dictionary.source, dictionary.target
        if pair in dictionaries:
            raise InvalidParameter(f"dictionaries has the language pair {pair[0]}-{pair[1]} twice.")
        dictionaries[pair] = dictionary
    return list(dictionaries.values())


def _described(glossary: GlossaryInfo) -> DeepLMultilingual:
    return DeepLMultilingual(
        glossary_id=glossary.id,
        name=glossary.name,
        dictionaries=[
            DeepLDictionary(source_lang=pair.source, target_lang=pair.target, entry_count=pair.num_terms)
            for pair in glossary.dictionaries
        ],
        creation_time=glossary.created,
    )
