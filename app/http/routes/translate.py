"""``POST /translate``: texts in, translations out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Body, Request

from app.errors import (
    FieldProblem,
    InvalidRequest,
    LimitExceeded,
    MemoryNotFound,
    NotAcceptable,
    StorageUnavailable,
    problem_for,
)
from app.http.access import metered, needs
from app.http.event_stream import EVENT_STREAM, NDJSON, Event, EventStream, as_stream, begin
from app.http.json_route import accepting, json_route
from app.http.limits import check_translate_limits
from app.http.openapi import BODY_ERRORS, TRANSLATION_ERRORS, answers
from app.http.schemas.answers import search_body
from app.http.schemas.memory_fields import memory_uses
from app.http.schemas.problems import ProblemBody
from app.http.schemas.requests import TRANSLATE_REQUESTS, TranslateRequest
from app.http.schemas.translation import (
    TRANSLATE_ANSWER,
    TRANSLATE_EVENTS,
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
)
from app.http.state import service_of, settings_of
from app.http.stored_terms import translation_request
from app.serving.text_job import TextResult, TranslateResult
from app.serving.text_translation import StreamedSentence, StreamedText
from app.telemetry.logs import log_fields
from model.errors import EmptySource, InvalidMarkup, InvalidPrefix, MarkupNotKept, SeveralSentences

if TYPE_CHECKING:
    from app.accounts.service import RequestCharge
    from model.translation.quantities import NumberUse
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
        MemoryNotFound,
        StorageUnavailable,
        *TRANSLATION_ERRORS,
        streams={media_type: as_stream(TRANSLATE_EVENTS, media_type) for media_type in (NDJSON, EVENT_STREAM)},
    ),
)
async def translate(
    request: Request, body: Annotated[TranslateRequest, Body(openapi_examples=TRANSLATE_REQUESTS)]
) -> TranslateResponse | EventStream:
    """Translate one text or a list of texts.

    Texts are split into sentences, and everything between the sentences (line breaks, indentation, blank lines) comes
    back unchanged. Nothing is cut: a sentence that is too long for the model is split further. A text that fails has an
    `error` at its position in `translations`, and the others are answered; the error of a single text is the answer.

    With `source: auto` the language of each text is detected separately, among the loaded languages, from its first
    few thousand characters; `detected` names it. A text without letters, or already in the target language, comes back
    unchanged. A text fails alone if its language cannot be detected or is not translated into the target. `target` is
    optional if the language leaves a single pair.

    With `target_prefix` the translation of a single sentence and its alternatives begin with that text; with
    `return_search` the answer has the steps of the search. Either refuses a text that would come back unchanged.

    `Accept: application/x-ndjson` or `text/event-stream` streams the answer: an event `sentence` for each
    finished sentence (in order within a text), `translation` with the complete entry for each finished text, or `error`
    if it failed, and `done` at the end. The work stops if the client disconnects.
    """
    texts = body.texts
    log_fields(request.scope).update(texts=len(texts), characters=sum(map(len, texts)), decoding=body.decoding)
    check_translate_limits(body, settings_of(request))
    _require_one_text(body)

    media_type: str = request.state.media_type
    async with metered(request, texts, body) as charge:
        job = await translation_request(request, body, texts)
        if media_type != "application/json":
            stream = await begin(_events(request, service_of(request).stream(job)), media_type)
            if charge is not None:
                await _count(charge, stream)
            return stream
        outcome = await service_of(request).translate(job)
        if len(texts) == 1 and isinstance(outcome.results[0], Exception):
            _summary(request, outcome)
            raise outcome.results[0]
        if charge is not None:
            charge.characters = _num_answered(texts, outcome)
    usage, timings = _summary(request, outcome)
    return TranslateResponse(
        translations=[_entry(text) for text in outcome.texts],
        model=outcome.model,
        usage=usage,
        timings_ms=timings,
    )


async def _count(charge: RequestCharge, stream: EventStream) -> None:
    """Count a request whose first event is ready, before it is sent; end its work if it cannot be counted.

    Raises:
        AccountsUnavailable: It cannot be counted.
    """
    try:
        await charge.settle()
    except BaseException:
        await stream.close()
        raise


def _num_answered(texts: Sequence[str], outcome: TranslateResult) -> int:
    """Characters of the texts that did not fail."""
    return sum(
        len(text) for text, result in zip(texts, outcome.results, strict=True) if not isinstance(result, Exception)
    )


def _require_one_text(body: TranslateRequest) -> None:
    """Refuse several texts with a field that needs one text.

    Raises:
        InvalidRequest: There are several texts.
    """
    if body.steering and len(body.texts) != 1:
        reason = f"has {len(body.texts)} texts; with {' and '.join(body.steering)} it must have one"
        raise InvalidRequest([FieldProblem("text", reason, None, 1)])


def _summary(request: Request, outcome: TranslateResult) -> tuple[UsageBody, TimingsBody]:
    """Tokens and durations of a request, which are also logged."""
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
    request: Request, elements: AsyncGenerator[StreamedSentence | StreamedText | TranslateResult, None]
) -> AsyncGenerator[Event, None]:
    """The events of a streamed answer."""
    async with aclosing(elements):
        async for element in elements:
            if isinstance(element, StreamedSentence):
                yield "sentence", _sentence_event(element)
            elif isinstance(element, TranslateResult):
                usage, timings = _summary(request, element)
                yield "done", DoneEvent(model=element.model, usage=usage, timings_ms=timings)
            else:
                entry = _entry(element.result)
                if isinstance(entry, FailedTranslationBody):
                    yield "error", ErrorEvent(**entry.error.model_dump(), text=element.text)
                else:
                    yield "translation", TranslationEvent(text=element.text, translation=entry)


def _sentence_event(sentence: StreamedSentence) -> SentenceEvent:
    translated = sentence.translated
    return SentenceEvent(
        text=sentence.text,
        sentence=sentence.index,
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
            "via": text.via,
            "detected": text.detected,
            "confidence": result.confidence,
            "integrity": _integrity(result.integrity or (), result.numbers),
            "untranslated": result.num_untranslated,
            "glossary": result.glossary,
            "lexicon": list(result.lexicon),
            "search": search_body(result.search),
            "memory": memory_uses(result.memory),
        }
    )


def _integrity(spans: Sequence[SpanUse], numbers: Sequence[NumberUse]) -> IntegrityBody | None:
    if not spans and not numbers:
        return None
    status = "restored" if any(span.restored for span in spans) else "intact"
    return IntegrityBody.model_validate({"status": status, "spans": spans, "numbers": numbers})
