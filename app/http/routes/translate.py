"""``POST /translate``: texts in, translations out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Body, Request

from app.errors import FieldProblem, InvalidRequest, LimitExceeded, NotAcceptable, problem_for
from app.http.access import metered, needs
from app.http.event_stream import EVENT_STREAM, NDJSON, Event, EventStream, as_stream, begin
from app.http.examples import TRANSLATE_ANSWER, TRANSLATE_EVENTS, TRANSLATE_REQUESTS
from app.http.json_route import accepting, json_route
from app.http.limits import check_translate_limits
from app.http.openapi import BODY_ERRORS, TRANSLATION_ERRORS, answers
from app.http.schemas.answers import (
    DoneEvent,
    ErrorEvent,
    FailedTranslationBody,
    IntegrityBody,
    SentenceEvent,
    TimingsBody,
    TranslateResponse,
    TranslationBody,
    TranslationEvent,
    UsageBody,
    search_body,
)
from app.http.schemas.problems import ProblemBody
from app.http.schemas.requests import TranslateRequest
from app.http.state import service_of, settings_of
from app.http.stored_terms import stored_terms, translation_request
from app.serving.request import TranslationRequest
from app.serving.text_job import TextResult, TranslateResult
from app.serving.text_translation import StreamedSentence, StreamedText
from app.telemetry.logs import log_fields
from model.errors import EmptySource, InvalidMarkup, InvalidPrefix, MarkupNotKept, SeveralSentences

if TYPE_CHECKING:
    from model.translation.results import SpanUse

router = APIRouter(
    tags=["translation"],
    route_class=json_route(needs("translate"), accepting("application/json", NDJSON, EVENT_STREAM)),
)


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=TranslateResponse,
    responses=answers(
        TRANSLATE_ANSWER,
        NotAcceptable,
        *BODY_ERRORS,
        LimitExceeded,
        InvalidMarkup,
        MarkupNotKept,
        EmptySource,
        SeveralSentences,
        InvalidPrefix,
        *TRANSLATION_ERRORS,
        streams={media_type: as_stream(TRANSLATE_EVENTS, media_type) for media_type in (NDJSON, EVENT_STREAM)},
    ),
)
async def translate(
    request: Request, body: Annotated[TranslateRequest, Body(openapi_examples=TRANSLATE_REQUESTS)]
) -> TranslateResponse | EventStream:
    """Translate one text or a list of texts.

    Texts may have many sentences: they are split, and everything between the sentences (line breaks, indentation,
    blank lines) comes back as it was. Nothing is cut: a sentence that is too long for the model is split further.
    A text that fails has an `error` at its position in `translations` and the others are answered; if there is only
    one text, its error is the answer.

    With `source: auto` the language of each text is detected separately, among the languages loaded, from its first
    few thousand characters; `detected` names it. A text without letters, and one that is in the target language
    already, comes back unchanged. A text whose language cannot be detected, or is not translated into the target,
    fails alone. `target` is optional if the language leaves a single pair.

    With `target_prefix` the translation of a single sentence begins with that text, and so do its alternatives; with
    `return_search` the answer shows what the search considered. A text that would come back unchanged is refused then.

    `Accept: application/x-ndjson` or `text/event-stream` streams the answer: an event `sentence` when a sentence is
    finished (in order within a text), `translation` with the whole entry when a text is, `error` instead if it failed,
    and `done` at the end. A client that leaves stops the work.
    """
    texts = body.texts
    log_fields(request.scope).update(texts=len(texts), characters=sum(map(len, texts)), decoding=body.decoding)
    check_translate_limits(body, settings_of(request))
    _require_one_text(body)

    async def job() -> TranslationRequest:
        return translation_request(request, body, texts, await stored_terms(request, body, texts))

    media_type: str = request.state.media_type
    if media_type != "application/json":

        async def streamed() -> EventStream:
            elements = service_of(request).stream(await job())
            return await begin(_events(request, elements), media_type)

        return await metered(request, texts, body, streamed)

    async def translated() -> TranslateResult:
        outcome = await service_of(request).translate(await job())
        if len(texts) == 1 and isinstance(outcome.results[0], Exception):
            _summary(request, outcome)
            raise outcome.results[0]
        return outcome

    outcome = await metered(request, texts, body, translated, lambda outcome: _num_answered(texts, outcome))
    usage, timings = _summary(request, outcome)
    return TranslateResponse(
        translations=[_entry(text) for text in outcome.texts],
        model=outcome.model,
        usage=usage,
        timings_ms=timings,
    )


def _num_answered(texts: Sequence[str], outcome: TranslateResult) -> int:
    """Characters of the texts that did not fail."""
    return sum(
        len(text) for text, found in zip(texts, outcome.results, strict=True) if not isinstance(found, Exception)
    )


def _require_one_text(body: TranslateRequest) -> None:
    """Refuse several texts with a field that is for one.

    Raises:
        InvalidRequest: There is not one text.
    """
    if body.steering and len(body.texts) != 1:
        reason = f"holds {len(body.texts)} texts; with {' and '.join(body.steering)} there must be one"
        raise InvalidRequest([FieldProblem("text", reason, None, 1)])


def _summary(request: Request, outcome: TranslateResult) -> tuple[UsageBody, TimingsBody]:
    """What a request took, which is logged, too."""
    timings = TimingsBody(
        queue=round(outcome.queue_ms, 3), decode=round(outcome.decode_ms, 3), total=round(outcome.total_ms, 3)
    )
    usage = UsageBody(source_tokens=outcome.num_source_tokens, target_tokens=outcome.num_target_tokens)
    log_fields(request.scope).update(
        failed_texts=sum(isinstance(result, Exception) for result in outcome.results),
        source_tokens=usage.source_tokens,
        target_tokens=usage.target_tokens,
        queue_ms=timings.queue,
        decode_ms=timings.decode,
    )
    return usage, timings


async def _events(
    request: Request, found: AsyncGenerator[StreamedSentence | StreamedText | TranslateResult, None]
) -> AsyncGenerator[Event, None]:
    """The events of a streamed answer."""
    async with aclosing(found):
        async for one in found:
            if isinstance(one, StreamedSentence):
                yield "sentence", _sentence_event(one)
            elif isinstance(one, TranslateResult):
                usage, timings = _summary(request, one)
                yield "done", DoneEvent(model=one.model, usage=usage, timings_ms=timings)
            else:
                entry = _entry(one.result)
                if isinstance(entry, FailedTranslationBody):
                    yield "error", ErrorEvent(**entry.error.model_dump(), text=one.text)
                else:
                    yield "translation", TranslationEvent(text=one.text, translation=entry)


def _sentence_event(one: StreamedSentence) -> SentenceEvent:
    translated = one.translated
    return SentenceEvent(
        text=one.text,
        sentence=one.index,
        source=translated.source,
        translation=translated.text,
        finish_reason=translated.finish_reason,
    )


def _entry(text: TextResult) -> TranslationBody | FailedTranslationBody:
    """The entry of one text in the answer."""
    result = text.result
    if isinstance(result, Exception):
        return FailedTranslationBody(error=ProblemBody.model_validate(problem_for(result).to_dict()))
    return TranslationBody.model_validate(
        {
            "text": result.text,
            "source": result.source,
            "target": result.target,
            "finish_reason": result.finish_reason,
            "score": result.score,
            "alternatives": result.alternatives,
            "alignment": result.alignment,
            "model": text.model,
            "detected": text.detected,
            "confidence": result.confidence,
            "integrity": None if result.integrity is None else _integrity(result.integrity),
            "glossary": result.glossary,
            "search": search_body(result.search),
        }
    )


def _integrity(spans: Sequence[SpanUse]) -> IntegrityBody:
    status = "restored" if any(span.restored for span in spans) else "intact"
    return IntegrityBody.model_validate({"status": status, "spans": spans})
