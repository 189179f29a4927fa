"""``POST /detect``: the languages of texts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request

from app.errors import DeadlineExceeded, LimitExceeded, NotReady
from app.http.access import needs
from app.http.json_route import json_route
from app.http.limits import check_texts
from app.http.openapi import BODY_ERRORS, answers
from app.http.schemas.answers import AnswerBody, DetectedBody
from app.http.schemas.requests import DetectRequest, request_examples
from app.http.state import service_of, settings_of
from app.telemetry.logs import log_fields

router = APIRouter(tags=["translation"], route_class=json_route(needs("translate")))


class DetectResponse(AnswerBody):
    """The languages of texts."""

    detections: list[DetectedBody | None]
    """One for each text, in order; null for a text without letters, or if no loaded language uses its letters and it is
    too short for others."""


DETECT_ANSWER = DetectResponse(detections=[DetectedBody(language="de", confidence=0.98), None])

DETECT_REQUESTS = request_examples(
    {"two texts": {"text": ["Guten Morgen, wie geht es Ihnen?", "12:30"]}, "a text": {"text": "Good morning."}}
)


@router.post(
    "/detect",
    summary="Detect the languages of texts",
    response_model=DetectResponse,
    responses=answers(DETECT_ANSWER, *BODY_ERRORS, LimitExceeded, NotReady, DeadlineExceeded),
)
async def detect(
    request: Request, body: Annotated[DetectRequest, Body(openapi_examples=DETECT_REQUESTS)]
) -> DetectResponse:
    """Detect the language of each text: among the loaded languages, unless it is almost certainly in another one.

    Short texts are sometimes detected wrongly.
    """
    check_texts(body.text, settings_of(request))
    log_fields(request.scope).update(texts=len(body.texts), characters=sum(map(len, body.texts)))
    detections = await service_of(request).detect(body.texts)
    return DetectResponse(
        detections=[
            None if detected is None else DetectedBody(language=detected.language, confidence=detected.confidence)
            for detected in detections
        ]
    )
