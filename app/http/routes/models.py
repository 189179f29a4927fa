"""``GET /models``: what is loaded, and what may be asked of it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.errors import NotReady
from app.http.openapi import MODELS_EXAMPLE, answers
from app.http.schemas import LimitsBody, ModelBody, ModelsResponse
from app.models.registry import LoadedModel
from app.serving.service import TranslationService
from app.settings import Settings

router = APIRouter(tags=["translation"])


@router.get(
    "/models",
    summary="What is loaded",
    response_model=ModelsResponse,
    responses=answers(MODELS_EXAMPLE, NotReady),
)
async def models(request: Request) -> Response:
    """The loaded models: languages, limits, licence and attribution, and the card that says how good they are.

    Where several translate a pair, the first of them does.
    """
    settings: Settings = request.app.state.settings
    service: TranslationService = request.app.state.service
    if not service.models and service.state != "empty":
        raise service.not_ready()
    answer = ModelsResponse(models=[model_body(model, settings) for model in service.models])
    return Response(answer.model_dump_json(), media_type="application/json")


def model_body(model: LoadedModel, settings: Settings) -> ModelBody:
    """What is told of a model.

    Args:
        model: The model.
        settings: What requests may ask for.
    """
    manifest = model.manifest
    return ModelBody(
        name=manifest.name,
        pairs=list(manifest.pairs),
        languages=list(manifest.languages),
        precision=manifest.precision,
        device=model.device,
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
        decoding=manifest.policy.to_dict(),
        licence=manifest.licence,
        attribution=list(manifest.attribution),
        card={
            "training": manifest.training,
            "scores": manifest.scores,
            "precision": manifest.precision_report,
        },
    )
