"""``/v2/languages``, ``/v3/languages``, ``/v2/usage`` and ``/v2/glossary-language-pairs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.http.access import accounts_of, key_of
from app.http.compat.deepl.answers import (
    LANGUAGES,
    PAIRS,
    SERVED_LANGUAGES,
    USAGE,
    DeepLFeature,
    DeepLLanguage,
    DeepLLanguages,
    DeepLPair,
    DeepLPairs,
    DeepLServedLanguage,
    DeepLServedLanguages,
    DeepLUsage,
)
from app.http.compat.deepl.dependency import ADMITTED, AdmittedRoute, reads
from app.http.compat.deepl.documentation import errors, success
from app.http.compat.deepl.parameters import LanguagesParameters, ResourceParameters
from app.http.compat.deepl.protocol import answer, state_of
from app.http.state import service_of
from model.languages import LanguagePairs, english_name, plain_code, standard_code

router = APIRouter(route_class=AdmittedRoute)

UNLIMITED = 1_000_000_000_000
"""DeepL's number for no limit."""

_REGIONS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""Target languages that clients accept only with a region: the Python SDK refuses EN and PT."""

_ANSWERS = {**success(LANGUAGES), **errors(400, 403, 504)}


@router.get(
    "/v2/languages",
    name="deepl_languages",
    summary="Languages",
    responses=_ANSWERS,
)
@router.post(
    "/v2/languages",
    name="deepl_languages_by_post",
    summary="Languages",
    responses=_ANSWERS,
)
async def languages(
    request: Request, body: Annotated[LanguagesParameters, reads(LanguagesParameters, {"targets": {"type": "target"}})]
) -> Response:
    """The source or the target languages. The parameter may also be in the body of a GET request."""
    pairs = await service_of(request).language_pairs()
    if body.type == "source":
        codes = dict.fromkeys(map(plain_code, pairs.sources))
        listed = [DeepLLanguage(language=code.upper(), name=english_name(code)) for code in codes]
    else:
        formal = _languages_with_formality(request)
        listed = [
            DeepLLanguage(language=code, name=name, supports_formality=own in formal)
            for own in pairs.targets
            for code, name in _targets(own).items()
        ]
    return answer(DeepLLanguages(sorted(listed, key=lambda item: item.language)))


@router.get(
    "/v3/languages",
    name="deepl_served_languages",
    summary="Languages, and what they can be used for",
    responses={**success(SERVED_LANGUAGES), **errors(400, 403, 504)},
)
async def served_languages(
    request: Request,
    body: Annotated[ResourceParameters, reads(ResourceParameters, {"texts": {"resource": "translate_text"}})],
) -> Response:
    """All languages. They are the same for texts, documents and glossaries; what is not offered has none."""
    if not body.is_offered:
        return answer(DeepLServedLanguages([]))
    pairs = await service_of(request).language_pairs()
    formal = set() if body.resource == "glossary" else _languages_with_formality(request)
    sources = {standard_code(code): english_name(code) for code in map(plain_code, pairs.sources)}
    targets = {standard_code(code): name for own in pairs.targets for code, name in _targets(own).items()}
    formal_targets = {standard_code(code) for own in pairs.targets if own in formal for code in _targets(own)}
    return answer(
        DeepLServedLanguages(
            [
                DeepLServedLanguage(
                    lang=code,
                    name=name,
                    usable_as_source=code in sources,
                    usable_as_target=code in targets,
                    features={"formality": DeepLFeature()} if code in formal_targets else {},
                )
                for code, name in sorted({**sources, **targets}.items())
            ]
        )
    )


@router.get(
    "/v2/usage",
    name="deepl_usage",
    dependencies=ADMITTED,
    summary="Characters translated",
    responses={**success(USAGE), **errors(403)},
)
@router.post(
    "/v2/usage",
    name="deepl_usage_post",
    dependencies=ADMITTED,
    summary="Characters translated, for clients that post",
    responses={**success(USAGE), **errors(400, 403, 413)},
)
async def usage(request: Request) -> Response:
    """The characters translated this month and the limit of the key.

    Without keys: the characters that this process has translated for clients of this protocol, and no limit.
    """
    accounts, key = accounts_of(request), key_of(request)
    if accounts is None or key is None:
        return answer(DeepLUsage(character_count=state_of(request).num_characters, character_limit=UNLIMITED))
    limit = UNLIMITED if key.characters_per_month is None else key.characters_per_month
    used = await accounts.usage_of(key)
    return answer(DeepLUsage(character_count=used.characters, character_limit=limit))


@router.get(
    "/v2/glossary-language-pairs",
    name="deepl_glossary_pairs",
    dependencies=ADMITTED,
    summary="Language pairs of glossaries",
    responses={**success(PAIRS), **errors(403, 504)},
)
async def glossary_pairs(request: Request) -> Response:
    """The language pairs that a glossary can have: all served pairs."""
    return answer(DeepLPairs(supported_languages=_plain_pairs(await service_of(request).language_pairs())))


def _plain_pairs(pairs: LanguagePairs) -> list[DeepLPair]:
    plain = dict.fromkeys((plain_code(source), plain_code(target)) for source, target in pairs.find(None, None))
    return [DeepLPair(source_lang=source, target_lang=target) for source, target in plain if source != target]


def _languages_with_formality(request: Request) -> set[str]:
    return {language for model in service_of(request).models for language in model.manifest.capabilities.formality}


def _targets(code: str) -> Mapping[str, str]:
    """The codes of a target language in this protocol, and their names."""
    standard = standard_code(code)
    return _REGIONS.get(standard, {standard.upper(): english_name(standard)})
