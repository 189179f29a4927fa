"""``POST /v2/translate``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidParameter
from app.glossaries.terms import merged, terms_in
from app.http.access import caller_of, counted
from app.http.compat.deepl import examples
from app.http.compat.deepl.answers import DeepLTranslation, DeepLTranslations
from app.http.compat.deepl.documentation import body, errors, success
from app.http.compat.deepl.parameters import GlossaryChoice, TranslateParameters
from app.http.compat.deepl.protocol import answer, not_supported, read_asked, shown_code, state_of, supported
from app.http.limits import check_texts
from app.http.state import glossaries_of, service_of, settings_of
from app.http.stored_terms import StoredTerms, search_terms
from app.serving.model_choice import DETECT, NO_LANGUAGE
from app.serving.text_job import TranslateResult
from app.telemetry.logs import log_fields
from model.errors import InvalidMarkup, UnsupportedFormality, UnsupportedPair
from model.languages import plain_code
from model.text.glossary import Glossary
from model.translation.options import Formality, TranslationOptions

if TYPE_CHECKING:
    from model.translation.results import Translation

router = APIRouter()

FORMALITY: dict[str, Formality | None] = {
    "default": None,
    "more": "formal",
    "prefer_more": "formal",
    "less": "informal",
    "prefer_less": "informal",
}
"""Values of ``formality`` as forms of address."""

_MODEL_TYPE_USED = {"prefer_quality_optimized": "quality_optimized"}


@router.post(
    "/v2/translate",
    name="deepl_translate",
    summary="Translate texts",
    responses={**success(DeepLTranslations, examples.TRANSLATIONS), **errors(400, 403, 404, 413, 500, 504)},
    openapi_extra=body(TranslateParameters, examples.TRANSLATE),
)
async def translate(request: Request) -> Response:
    """Translate one text or a list of texts.

    Unknown parameters are ignored. If the service is busy or still loading, the answer waits. If the client
    disconnects, the work goes on for 10 seconds, so that a client that repeats its request gets the answer.
    """
    key, parameters = await read_asked(request)
    asked = parameters.as_model(TranslateParameters, settings_of(request).max_texts)
    characters = sum(map(len, asked.text))
    log_fields(request.scope).update(texts=len(asked.text), characters=characters)
    check_texts(asked.text, settings_of(request))
    pairs = await service_of(request).language_pairs()
    target = supported("target_lang", asked.target_lang, pairs.targets)
    if asked.source_lang is not None:
        supported("source_lang", asked.source_lang, pairs.languages)

    async def translated() -> list[tuple[str, str]]:
        if asked.source_lang is not None and plain_code(asked.source_lang) == plain_code(target):
            return [(text, asked.source_lang) for text in asked.text]
        terms = await stored_terms(request, asked, asked.text) if asked.all_glossary_ids else StoredTerms()
        return await _translations(request, key, asked, terms)

    found = await counted(request, asked.text, asked, translated)
    state_of(request).num_characters += characters
    return answer(
        DeepLTranslations(
            translations=[
                DeepLTranslation(
                    detected_source_language=shown_code(target if source == NO_LANGUAGE else source),
                    text=translation,
                    billed_characters=len(text) if asked.show_billed_characters else None,
                    model_type_used=_MODEL_TYPE_USED.get(asked.model_type or "", asked.model_type),
                    tag_handling_version=asked.tag_handling_version,
                )
                for text, (translation, source) in zip(asked.text, found, strict=True)
            ]
        )
    )


async def stored_terms(request: Request, asked: GlossaryChoice, texts: Sequence[str]) -> StoredTerms:
    """The terms of the glossaries asked for that texts hold.

    Args:
        request: The request.
        asked: Its parameters.
        texts: The texts.

    Raises:
        InvalidParameter: There is no source language.
        GlossaryNotFound: There is no such glossary.
        GlossaryPairMissing: It has no terms for the languages.
        InvalidGlossary: The texts hold too many terms.
        DeadlineExceeded: The search took too long.
    """
    source = asked.source_lang
    if source is None:
        raise InvalidParameter("Value for 'source_lang' not supported: it is required with a glossary.")
    store = glossaries_of(request)

    def find(check: Callable[[], None]) -> Glossary:
        several = [store.dictionary(one, source, asked.target_lang).terms for one in asked.all_glossary_ids]
        return terms_in(merged(several), texts, plain_code(source), check)

    return await search_terms(request, find)


def formality_refused(target: str) -> InvalidParameter:
    """The error for a language without forms of address, in DeepL's words.

    Args:
        target: The target language as it was sent.
    """
    return InvalidParameter(f"Target language '{target.upper()}' doesn't support formality.")


async def _translations(
    request: Request, key: str, asked: TranslateParameters, terms: StoredTerms
) -> list[tuple[str, str]]:
    """Each translation with the language of its text. A text that is a term needs no model."""
    exact = {term.source: term.target for term in terms.terms}
    others = [text for text in asked.text if text.strip() not in exact]
    outcome = await _translated(request, key, asked, others, terms) if others else None
    results = iter([] if outcome is None else outcome.results)
    found: list[tuple[str, str]] = []
    for index, text in enumerate(asked.text):
        if (term := text.strip()) in exact:
            found.append((text.replace(term, exact[term]), asked.source_lang or ""))
        else:
            result = _checked(next(results), index, asked)
            found.append((result.text, asked.source_lang or result.source))
    return found


def _checked(result: Translation | Exception, index: int, asked: TranslateParameters) -> Translation:
    """A translation.

    Raises:
        Exception: It failed, and with it the request: the protocol has no errors of single texts.
    """
    if isinstance(result, UnsupportedFormality):
        raise formality_refused(asked.target_lang)
    if isinstance(result, InvalidMarkup):
        raise InvalidParameter(f"Tag handling parsing failed, please check text {index + 1}: {result}")
    if isinstance(result, Exception):
        raise result
    return result


async def _translated(
    request: Request, key: str, asked: TranslateParameters, texts: list[str], terms: StoredTerms
) -> TranslateResult:
    """The translations; a form of address that is only preferred is left out where the model knows none."""
    options = _options(asked, terms.terms, FORMALITY[asked.formality])
    outcome = await _run(request, key, asked, texts, options, terms.within)
    refused = any(isinstance(result, UnsupportedFormality) for result in outcome.results)
    if refused and asked.formality.startswith("prefer_"):
        return await _run(request, key, asked, texts, _options(asked, terms.terms, None), terms.within)
    return outcome


async def _run(
    request: Request,
    key: str,
    asked: TranslateParameters,
    texts: list[str],
    options: TranslationOptions,
    within: Mapping[str, float],
) -> TranslateResult:
    service = service_of(request)
    source, target = asked.source_lang or DETECT, asked.target_lang

    def start() -> Coroutine[Any, Any, TranslateResult]:
        return service.translate(
            texts, source=source, target=target, options=options, caller=caller_of(request), waits=True, **within
        )

    try:
        return await state_of(request).work.run((key, tuple(texts), source, target, options), start)
    except UnsupportedPair:
        raise not_supported("target_lang") from None


def _options(asked: TranslateParameters, terms: Glossary, formality: Formality | None) -> TranslationOptions:
    return TranslationOptions(
        formality=formality,
        glossary=terms,
        format=asked.tag_handling or "text",
        ignore_tags=tuple(asked.ignore_tags) if asked.tag_handling else (),
    )
