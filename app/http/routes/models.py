"""``GET /models``: the loaded models and their limits."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request

from app.errors import NotReady
from app.http.access import needs
from app.http.chosen_memories import keeps_corrections
from app.http.json_route import json_route
from app.http.openapi import answers
from app.http.schemas.models import MODELS_ANSWER, CapabilitiesBody, LimitsBody, ModelBody, ModelsResponse, PivotBody
from app.http.state import service_of, settings_of
from app.models.registry import ServedModel
from app.settings import Settings
from model.languages import LanguagePairs

router = APIRouter(tags=["translation"], route_class=json_route(needs(None)))


@router.get("/models", summary="The loaded models", responses=answers(MODELS_ANSWER, NotReady))
async def models(request: Request) -> ModelsResponse:
    """The loaded models: languages, limits, licence and attribution, and a card with their quality.

    If several models have the same pair, the first one translates it. `pivot` has the pairs that two models translate
    one after the other, because no model has them.
    """
    service = service_of(request)
    if not service.models and service.state != "empty":
        raise service.not_ready()
    return ModelsResponse(
        models=[model_body(model, settings_of(request)) for model in service.models],
        pivot=_pivot_body(settings_of(request).pivot, service.pivoted),
        corrections=keeps_corrections(request),
    )


def _pivot_body(language: str, pairs: LanguagePairs) -> PivotBody | None:
    """The pairs that are translated through a language; None if there are none."""
    if not pairs.languages:
        return None
    return PivotBody(language=language, pairs=list(pairs.pairs), languages=list(pairs.any_to_any))


def model_body(model: ServedModel, settings: Settings) -> ModelBody:
    """The description of a model.

    Args:
        model: The model.
        settings: The limits of requests.
    """
    manifest = model.manifest
    return ModelBody(
        name=manifest.name,
        pairs=list(manifest.pairs),
        languages=list(manifest.languages),
        precision=manifest.precision,
        device=model.device,
        memory_bytes=model.num_bytes,
        in_memory=model.in_memory,
        format_version=manifest.format_version,
        architecture=manifest.architecture,
        limits=LimitsBody(
            max_texts=settings.max_texts,
            max_text_characters=settings.max_text_characters,
            max_body_bytes=settings.max_body_bytes,
            max_beam_size=settings.max_beam_size,
            max_hypotheses=settings.max_hypotheses,
            deadline_s=settings.deadline_s,
            max_source_tokens=manifest.max_source_tokens,
            max_target_tokens=manifest.max_target_tokens,
        ),
        capabilities=CapabilitiesBody.model_validate(asdict(manifest.capabilities)),
        decoding=manifest.policy.to_dict(),
        licence=manifest.licence,
        attribution=list(manifest.attribution),
        card={
            "training": manifest.training,
            "scores": manifest.scores,
            "precision": manifest.precision_report,
            "confidence": {"calibrated": bool(manifest.confidence), **manifest.confidence},
        },
    )
