"""``POST /translate``: texts in, translations out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.errors import problem_for
from app.http.limits import check_translate_limits
from app.http.negotiation import choose_media_type
from app.http.openapi import TRANSLATE_ERRORS, TRANSLATE_EXAMPLE, TRANSLATE_REQUESTS, answers, request_body
from app.http.request_body import read_request
from app.http.schemas import (
    AlignmentLinkBody,
    AlternativeBody,
    FailedTranslationBody,
    ProblemBody,
    TimingsBody,
    TranslateRequest,
    TranslateResponse,
    TranslationBody,
    UsageBody,
    detected_body,
)
from app.serving.service import TranslationService
from app.serving.text_job import TextResult
from app.settings import Settings
from app.telemetry.logs import log_fields

router = APIRouter(tags=["translation"])


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=TranslateResponse,
    responses=answers(TRANSLATE_EXAMPLE, *TRANSLATE_ERRORS),
    openapi_extra=request_body(TranslateRequest, TRANSLATE_REQUESTS),
)
async def translate(request: Request) -> Response:
    """Translate one text or a list of texts.

    Texts may have many sentences: they are split, and everything between the sentences (line breaks, indentation,
    blank lines) comes back as it was. Nothing is cut: a sentence that is too long for the model is split further.
    A text that fails has an `error` at its place in `translations` and the others are answered; where there is
    only one text, its error is the answer.

    With `source: auto` the language of each text is told by itself, among the languages loaded, from its first few
    thousand characters; `detected` names it. A text without letters, and one that is in the target language already,
    comes back as it is. A text whose language cannot be told, or is not translated into the target, fails alone.
    `target` may be left out where the language leaves a single pair.
    """
    settings: Settings = request.app.state.settings
    service: TranslationService = request.app.state.service
    choose_media_type(request.headers.get("accept"), ["application/json"])
    asked = await read_request(request, TranslateRequest, settings.max_body_bytes)
    texts = asked.texts
    log_fields(request.scope).update(texts=len(texts), characters=sum(map(len, texts)), decoding=asked.decoding)
    check_translate_limits(asked, settings)

    outcome = await service.translate(
        texts,
        source=asked.source,
        target=asked.target,
        options=asked.options(),
        return_alignment=asked.return_alignment,
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
    answer = TranslateResponse(
        translations=[_entry(text) for text in outcome.texts],
        model=outcome.model,
        usage=usage,
        timings_ms=timings,
    )
    return Response(answer.model_dump_json(), media_type="application/json")


def _entry(text: TextResult) -> TranslationBody | FailedTranslationBody:
    """One text's place in the answer."""
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
    )
