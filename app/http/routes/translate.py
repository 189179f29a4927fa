"""``POST /translate``: texts in, translations out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Body, Request

from app.errors import LimitExceeded, NotAcceptable, problem_for
from app.http.examples import TRANSLATE_ANSWER, TRANSLATE_REQUESTS
from app.http.json_route import accepting, json_route
from app.http.limits import check_translate_limits
from app.http.openapi import BODY_ERRORS, TRANSLATION_ERRORS, answers
from app.http.schemas.answers import (
    AlignmentLinkBody,
    AlternativeBody,
    ConfidenceBody,
    FailedTranslationBody,
    IntegrityBody,
    SpanUseBody,
    TermUseBody,
    TimingsBody,
    TranslateResponse,
    TranslationBody,
    UsageBody,
    WordConfidenceBody,
    detected_body,
)
from app.http.schemas.problems import ProblemBody
from app.http.schemas.requests import TranslateRequest
from app.http.state import service_of, settings_of
from app.http.stored_terms import stored_terms
from app.serving.text_job import TextResult
from app.telemetry.logs import log_fields
from model.errors import InvalidMarkup, MarkupNotKept

if TYPE_CHECKING:
    from model.confidence import Confidence
    from model.text_plan import SpanUse

router = APIRouter(tags=["translation"], route_class=json_route(accepting("application/json")))


@router.post(
    "/translate",
    summary="Translate texts",
    responses=answers(
        TRANSLATE_ANSWER, NotAcceptable, *BODY_ERRORS, LimitExceeded, InvalidMarkup, MarkupNotKept, *TRANSLATION_ERRORS
    ),
)
async def translate(
    request: Request, asked: Annotated[TranslateRequest, Body(openapi_examples=TRANSLATE_REQUESTS)]
) -> TranslateResponse:
    """Translate one text or a list of texts.

    Texts may have many sentences: they are split, and everything between the sentences (line breaks, indentation,
    blank lines) comes back as it was. Nothing is cut: a sentence that is too long for the model is split further.
    A text that fails has an `error` at its position in `translations` and the others are answered; if there is only
    one text, its error is the answer.

    With `source: auto` the language of each text is detected separately, among the languages loaded, from its first
    few thousand characters; `detected` names it. A text without letters, and one that is in the target language
    already, comes back unchanged. A text whose language cannot be detected, or is not translated into the target,
    fails alone. `target` is optional if the language leaves a single pair.
    """
    texts = asked.texts
    log_fields(request.scope).update(texts=len(texts), characters=sum(map(len, texts)), decoding=asked.decoding)
    check_translate_limits(asked, settings_of(request))

    outcome = await service_of(request).translate(
        texts,
        source=asked.source,
        target=asked.target,
        options=asked.options(await stored_terms(request, asked, texts)),
    )

    failures = [result for result in outcome.results if isinstance(result, Exception)]
    timings = TimingsBody(
        queue=round(outcome.queue_ms, 3), decode=round(outcome.decode_ms, 3), total=round(outcome.total_ms, 3)
    )
    usage = UsageBody(source_tokens=outcome.num_source_tokens, target_tokens=outcome.num_target_tokens)
    log_fields(request.scope).update(
        failed_texts=len(failures),
        source_tokens=usage.source_tokens,
        target_tokens=usage.target_tokens,
        queue_ms=timings.queue,
        decode_ms=timings.decode,
    )
    if failures and len(texts) == 1:
        raise failures[0]
    return TranslateResponse(
        translations=[_entry(text) for text in outcome.texts],
        model=outcome.model,
        usage=usage,
        timings_ms=timings,
    )


def _entry(text: TextResult) -> TranslationBody | FailedTranslationBody:
    """The entry of one text in the answer."""
    result = text.result
    if isinstance(result, Exception):
        return FailedTranslationBody(error=ProblemBody.model_validate(problem_for(result).to_dict()))
    alignment = result.alignment
    return TranslationBody(
        text=result.text,
        source=result.source,
        target=result.target,
        finish_reason=result.finish_reason,
        score=result.score,
        alternatives=[
            AlternativeBody(text=other.text, score=other.score, finish_reason=other.finish_reason)
            for other in result.alternatives
        ],
        alignment=None
        if alignment is None
        else [AlignmentLinkBody(source=link.source, target=link.target, weight=link.weight) for link in alignment],
        model=text.model,
        detected=detected_body(text.detected),
        confidence=None if result.confidence is None else _confidence(result.confidence),
        integrity=None if result.integrity is None else _integrity(result.integrity),
        glossary=None
        if result.glossary is None
        else [TermUseBody(source=use.source, target=use.target, status=use.status) for use in result.glossary],
    )


def _integrity(spans: Sequence[SpanUse]) -> IntegrityBody:
    return IntegrityBody(
        status="restored" if any(span.restored for span in spans) else "intact",
        spans=[SpanUseBody(source=span.source, target=span.target, restored=span.restored) for span in spans],
    )


def _confidence(confidence: Confidence) -> ConfidenceBody:
    return ConfidenceBody(
        score=confidence.score,
        words=[WordConfidenceBody(target=word.target, probability=word.probability) for word in confidence.words],
        uncovered=None if confidence.uncovered is None else list(confidence.uncovered),
    )
