"""``POST /v2/translate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import DetectedPairNotServed, InvalidParameter, LanguageNotDetected
from app.glossaries.terms import merge_glossaries, terms_in
from app.http.access import caller_of, metered, owner_of
from app.http.chosen_memories import corrections_of, memory_of
from app.http.compat.deepl.answers import TRANSLATIONS, DeepLTranslation, DeepLTranslations
from app.http.compat.deepl.dependency import AdmittedRoute, reads
from app.http.compat.deepl.documentation import errors, success
from app.http.compat.deepl.parameters import TRANSLATE_EXAMPLES, GlossaryChoice, TranslateParameters
from app.http.compat.deepl.protocol import answer, not_supported, shown_code, state_of, supported
from app.http.compat.grace import with_grace
from app.http.limits import check_texts
from app.http.state import glossaries_of, memories_of, service_of, settings_of
from app.http.stored_terms import StoredTerms, search_terms
from app.memories.lookup import MIN_THRESHOLD
from app.serving.model_choice import DETECT, NO_LANGUAGE
from app.serving.request import Memory, MemoryChoice, TranslationRequest
from app.serving.text_job import TranslateResult
from app.telemetry.logs import log_fields
from model.errors import InvalidMarkup, UnsupportedFormality, UnsupportedPair
from model.languages import plain_code
from model.text.glossary import Glossary
from model.translation.options import Formality, TranslationOptions

if TYPE_CHECKING:
    from model.translation.results import Translation

router = APIRouter(route_class=AdmittedRoute)

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
    responses={**success(TRANSLATIONS), **errors(400, 403, 404, 413, 500, 504)},
)
async def translate(
    request: Request, body: Annotated[TranslateParameters, reads(TranslateParameters, TRANSLATE_EXAMPLES)]
) -> Response:
    """Translate one text or a list of texts.

    Unknown parameters are ignored. A text whose language cannot be detected, or is not loaded, comes back unchanged.
    If the service is busy or still loading, the answer waits. If the client disconnects, the work continues for 10
    seconds, so that a client that repeats its request gets the answer.
    """
    characters = sum(map(len, body.text))
    log_fields(request.scope).update(texts=len(body.text), characters=characters)
    check_texts(body.text, settings_of(request))
    pairs = await service_of(request).language_pairs()
    target = supported("target_lang", body.target_lang, pairs.targets)
    if body.source_lang is not None:
        supported("source_lang", body.source_lang, pairs.languages)

    async with metered(request, body.text, body):
        if body.source_lang is not None and plain_code(body.source_lang) == plain_code(target):
            translations = [(text, body.source_lang) for text in body.text]
        else:
            memory = memory_of(request, await memory_choice(request, body))
            terms = await stored_terms(request, body, body.text) if body.all_glossary_ids else StoredTerms()
            translations = await _translations(request, body, terms, memory)
    state_of(request).num_characters += characters
    return answer(
        DeepLTranslations(
            translations=[
                DeepLTranslation(
                    detected_source_language=shown_code(target if source == NO_LANGUAGE else source),
                    text=translation,
                    billed_characters=len(text) if body.show_billed_characters else None,
                    model_type_used=_MODEL_TYPE_USED.get(body.model_type or "", body.model_type),
                    tag_handling_version=body.tag_handling_version,
                )
                for text, (translation, source) in zip(body.text, translations, strict=True)
            ]
        )
    )


async def stored_terms(request: Request, body: GlossaryChoice, texts: Sequence[str]) -> StoredTerms:
    """The terms of the chosen glossaries that texts contain.

    Args:
        request: The request.
        body: Its parameters.
        texts: The texts.

    Raises:
        InvalidParameter: The source language is missing.
        GlossaryNotFound: No glossary has the id.
        GlossaryPairMissing: It has no terms for the languages.
        InvalidGlossary: The texts contain too many terms.
        DeadlineExceeded: The search took too long.
    """
    source = body.source_lang
    if source is None:
        raise InvalidParameter("Value for 'source_lang' not supported: it is required with a glossary.")
    store = glossaries_of(request)

    def find(check: Callable[[], None]) -> Glossary:
        dictionaries = [store.dictionary(id, source, body.target_lang).terms for id in body.all_glossary_ids]
        return terms_in(merge_glossaries(dictionaries), texts, plain_code(source), check)

    return await search_terms(request, find)


def formality_refused(target: str) -> InvalidParameter:
    """The error for a language without forms of address, in DeepL's words.

    Args:
        target: The target language as sent.
    """
    return InvalidParameter(f"Target language '{target.upper()}' doesn't support formality.")


async def memory_choice(request: Request, body: GlossaryChoice) -> MemoryChoice | None:
    """The translation memory of a request; without an id the caller's corrections, if the service keeps them.

    Args:
        request: The request.
        body: Its parameters.

    Raises:
        MemoryNotFound: The caller has no memory with the id.
    """
    if body.translation_memory_id is None:
        return corrections_of(request)
    percent = body.translation_memory_threshold
    threshold = None if percent is None else max(MIN_THRESHOLD, percent / 100)
    choice = MemoryChoice((body.translation_memory_id,), threshold)
    await memories_of(request).check(owner_of(request), choice)
    return choice


async def _translations(
    request: Request, body: TranslateParameters, terms: StoredTerms, memory: Memory | None
) -> list[tuple[str, str]]:
    """Each translation with the language of its text. A text that is a term needs no model."""
    exact = {term.source: term.target for term in terms.terms}
    others = [text for text in body.text if text.strip() not in exact]
    outcome = await _translated(request, body, others, terms, memory) if others else None
    results = iter([] if outcome is None else outcome.results)
    translations: list[tuple[str, str]] = []
    for index, text in enumerate(body.text):
        if (term := text.strip()) in exact:
            translations.append((text.replace(term, exact[term]), body.source_lang or ""))
        elif isinstance(result := next(results), LanguageNotDetected):
            # LibreOffice empties the paragraph of a request that fails (decision 0051).
            translations.append((text, NO_LANGUAGE))
        elif isinstance(result, DetectedPairNotServed) and not result.is_loaded:
            translations.append((text, result.language))
        else:
            translation = _checked(result, index, body)
            translations.append((translation.text, body.source_lang or translation.source))
    return translations


def _checked(result: Translation | Exception, index: int, body: TranslateParameters) -> Translation:
    """A translation.

    Raises:
        Exception: The text failed, and with it the request: the protocol has no errors of single texts.
    """
    if isinstance(result, UnsupportedFormality):
        raise formality_refused(body.target_lang)
    if isinstance(result, InvalidMarkup):
        raise InvalidParameter(f"Tag handling parsing failed, please check text {index + 1}: {result}")
    if isinstance(result, Exception):
        raise result
    return result


async def _translated(
    request: Request, body: TranslateParameters, texts: list[str], terms: StoredTerms, memory: Memory | None
) -> TranslateResult:
    """The translations; a form of address that is only preferred is dropped if the model does not support it."""
    options = _options(body, terms.terms, FORMALITY[body.formality])
    outcome = await _run(request, body, texts, options, terms.within_s, memory)
    refused = any(isinstance(result, UnsupportedFormality) for result in outcome.results)
    if refused and body.formality.startswith("prefer_"):
        return await _run(request, body, texts, _options(body, terms.terms, None), terms.within_s, memory)
    return outcome


async def _run(
    request: Request,
    body: TranslateParameters,
    texts: list[str],
    options: TranslationOptions,
    within_s: float | None,
    memory: Memory | None,
) -> TranslateResult:
    source, target = body.source_lang or DETECT, body.target_lang
    job = TranslationRequest(
        texts, source, target, options, caller_of(request), waits=True, memory=memory, within_s=within_s
    )
    try:
        return await with_grace(service_of(request).translate(job))
    except UnsupportedPair:
        raise not_supported("target_lang") from None


def _options(body: TranslateParameters, terms: Glossary, formality: Formality | None) -> TranslationOptions:
    return TranslationOptions(
        formality=formality,
        glossary=terms,
        format=body.tag_handling or "text",
        ignore_tags=tuple(body.ignore_tags) if body.tag_handling else (),
        splitting_tags=tuple(body.splitting_tags) if body.tag_handling else (),
        non_splitting_tags=tuple(body.non_splitting_tags) if body.tag_handling else (),
        outline_detection=body.outline_detection,
        is_lenient=True,
    )
