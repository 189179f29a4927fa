"""``POST /attention``: the attention weights of a translation, as JSON, arrays or a picture."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from app.errors import FieldProblem, InvalidRequest, LimitExceeded, NotAcceptable, PairInTwoLegs
from app.http.access import metered, needs
from app.http.json_route import accepting, json_route
from app.http.limits import check_attention_limits, check_attention_size
from app.http.openapi import BODY_ERRORS, TRANSLATION_ERRORS, answers
from app.http.pictures import Pictures
from app.http.schemas.answers import DetectedBody, search_body
from app.http.schemas.attention import ATTENTION_ANSWER, AttentionResponse
from app.http.schemas.requests import ATTENTION_REQUESTS, AttentionRequest
from app.http.state import pictures_of, service_of, settings_of
from app.http.stored_terms import translation_request
from app.serving.text_job import AttentionResult
from app.telemetry.logs import log_fields
from model.errors import EmptySource, InvalidPrefix, SeveralSentences, SourceTooLong, TargetTooLong, UnknownHead
from model.network.heads import AttentionHead, AttentionKind

if TYPE_CHECKING:
    from torch import Tensor

    from model.attention import Attention

JSON = "application/json"
NPZ = "application/x-npz"
PNG = "image/png"

NO_SELF_ATTENTION = "the decoder of this model is recurrent and has no self-attention; request encoder or cross"

router = APIRouter(tags=["attention"], route_class=json_route(needs("attention"), accepting(JSON, NPZ, PNG)))


@dataclass(frozen=True)
class Selection:
    """The requested weights of one kind.

    Args:
        kind: Which attention.
        layers: Layers on the first axis, counted from 0.
        heads: Heads on the second axis, or those that were averaged into one.
        averaged: Whether the second axis is the mean of the heads.
        weights: float32, (layers, heads or 1, attending position, attended position).
    """

    kind: AttentionKind
    layers: list[int]
    heads: list[int]
    averaged: bool
    weights: npt.NDArray[np.float32]


@router.post(
    "/attention",
    summary="Attention weights of a translation",
    response_model=AttentionResponse,
    responses=answers(
        ATTENTION_ANSWER,
        NotAcceptable,
        *BODY_ERRORS,
        LimitExceeded,
        EmptySource,
        SourceTooLong,
        TargetTooLong,
        SeveralSentences,
        UnknownHead,
        InvalidPrefix,
        PairInTwoLegs,
        *TRANSLATION_ERRORS,
        also={NPZ: "The same as NumPy arrays.", PNG: "A labelled heat map."},
    ),
)
async def attention(
    request: Request, body: Annotated[AttentionRequest, Body(openapi_examples=ATTENTION_REQUESTS)]
) -> Response:
    """The attention weights of one sentence and its translation, or of a translation given as `target_text`.

    `Accept` chooses the form: `application/json`, `application/x-npz` (arrays named `encoder`, `decoder`, `cross`,
    each with its `…_layers` and `…_heads`, besides the lists of tokens and `translation`, and `search` as JSON), or
    `image/png` (one kind and one layer; the last layer unless `layers` names one).

    `steps` adds the computation of one head, number by number: in JSON as an object, in npz as arrays named `steps_…`.

    With `source: auto` the language of the sentence is detected first; a sentence in the target language is refused,
    and so is a pair that two models translate one after the other.
    """
    media_type: str = request.state.media_type
    log_fields(request.scope).update(characters=len(body.text), decoding=body.decoding, answer=media_type)
    check_attention_limits(body, settings_of(request))
    if media_type == PNG:
        _require_one_picture(body)

    async with metered(request, [body.text], body):
        content = await _content(request, body, media_type)
    return Response(content, media_type=media_type)


async def _content(request: Request, body: AttentionRequest, media_type: str) -> bytes:
    """The body of the answer."""
    job = await translation_request(request, body, [body.text])
    outcome = await service_of(request).attention(job, body.target_text, body.steps_of)

    result = outcome.attention
    log_fields(request.scope).update(source_tokens=len(result.source_tokens), target_tokens=len(result.target_tokens))
    selections = select(result, body, only_last_layer=media_type == PNG)
    # Writing a large answer takes tens of milliseconds, which would block the event loop.
    if media_type == NPZ:
        return await asyncio.to_thread(as_npz, outcome, selections, body.steps_of)
    if media_type == PNG:
        return await as_png(pictures_of(request), result, selections[0])
    num_weights = sum(selection.weights.size for selection in selections)
    num_in_steps = sum(step.numel() for step in (result.steps or {}).values())
    check_attention_size(num_weights, num_in_steps, settings_of(request))
    return await asyncio.to_thread(as_json, outcome, selections, body.steps_of)


def _require_one_picture(body: AttentionRequest) -> None:
    """Refuse a request that does not fit one heat map.

    Raises:
        InvalidRequest: More than one kind or layer, or steps, or the search is requested.
    """
    problems = []
    if len(body.kinds) > 1:
        problems.append(FieldProblem("kinds", "a picture shows one kind; request one kind, or JSON or npz", None, 1))
    if body.layers is not None and len(body.layers) > 1:
        problems.append(FieldProblem("layers", "a picture shows one layer; request one layer, or JSON or npz", None, 1))
    if body.steps is not None:
        problems.append(FieldProblem("steps", "a picture shows only weights; request JSON or npz"))
    if body.return_search:
        problems.append(FieldProblem("return_search", "a picture does not show the search; request JSON or npz"))
    if problems:
        raise InvalidRequest(problems)


def select(result: Attention, body: AttentionRequest, only_last_layer: bool) -> list[Selection]:
    """Select the requested kinds, layers and heads.

    Args:
        result: All weights of one pair of sentences.
        body: The request.
        only_last_layer: Whether ``layers: null`` means the last layer instead of all.

    Returns:
        One selection for each kind, in the order requested, each kind once. It is empty for the self-attention of a
        recurrent decoder, whichever layers and heads are requested.

    Raises:
        InvalidRequest: A layer or head does not exist, or a picture would have no weights.
    """
    selections = []
    problems = []
    for kind in dict.fromkeys(body.kinds):
        weights: npt.NDArray[np.float32] = getattr(result, kind).numpy()
        num_layers, num_heads = weights.shape[:2]
        if num_heads == 0:
            if only_last_layer:
                problems.append(FieldProblem("kinds[0]", NO_SELF_ATTENTION, kind))
            selections.append(Selection(kind, [], [], False, weights[:0]))
            continue
        all_layers = [num_layers - 1] if only_last_layer else list(range(num_layers))
        layers = all_layers if body.layers is None else body.layers
        heads = list(range(num_heads)) if body.heads is None else body.heads
        wrong = [
            *_out_of_range("layers", layers, num_layers, f"{kind} layers"),
            *_out_of_range("heads", heads, num_heads, f"{kind} heads"),
        ]
        if wrong:
            problems.extend(wrong)
            continue
        chosen = weights[np.ix_(layers, heads)]  # (layers, heads, T or S, T or S)
        if body.average_heads:
            chosen = chosen.mean(axis=1, keepdims=True)
        selections.append(Selection(kind, layers, heads, body.average_heads, chosen))
    if problems:
        raise InvalidRequest(problems)
    return selections


def _out_of_range(field: str, numbers: Sequence[int], count: int, plural: str) -> list[FieldProblem]:
    """The numbers that name no layer or head."""
    return [
        FieldProblem(
            f"{field}[{index}]", f"there are {count} {plural}, counted from 0 to {count - 1}", number, count - 1
        )
        for index, number in enumerate(numbers)
        if number >= count
    ]


def as_json(outcome: AttentionResult, selections: Sequence[Selection], steps_of: AttentionHead | None = None) -> bytes:
    """The answer as JSON, weights and steps rounded to seven decimals.

    It is written row by row: a single call that serialises a large answer, such as FastAPI's, would keep the
    interpreter lock until it ends, and so block the event loop.

    Args:
        outcome: Tokens, translation, model and detected language.
        selections: The weights.
        steps_of: The head whose steps are included, or None.
    """
    result, detected = outcome.attention, outcome.detected
    head = {
        "source_tokens": result.source_tokens,
        "target_tokens": result.target_tokens,
        "decoder_input_tokens": result.decoder_input_tokens,
        "translation": result.translation,
        "model": outcome.model,
        "detected": None if detected is None else DetectedBody.model_validate(detected).model_dump(),
        **_search(result),
    }
    parts = [json.dumps(head, ensure_ascii=False)[:-1]]
    for selection in selections:
        about = {"layers": selection.layers, "heads": selection.heads, "averaged": selection.averaged}
        parts.append(f', "{selection.kind}": {json.dumps(about)[:-1]}, "weights": ')
        parts.append(_nested(selection.weights.astype(np.float64).round(7)))
        parts.append("}")
    if steps_of is not None and result.steps is not None:
        parts.append(f', "steps": {json.dumps(asdict(steps_of))[:-1]}')
        for name, step in result.steps.items():
            parts.append(f', "{name}": {_step(step)}')
        parts.append("}")
    parts.append("}")
    return "".join(parts).encode()


def _step(step: Tensor) -> str:
    """A matrix as JSON lists, minus infinity as null."""
    rows: npt.NDArray[np.float64] = step.numpy().astype(np.float64).round(7)
    finite = ([None if value == -math.inf else value for value in row] for row in rows.tolist())
    return "[" + ", ".join(json.dumps(row, allow_nan=False) for row in finite) + "]"


def _search(result: Attention) -> dict[str, Any]:
    """The steps of the search in the form of the JSON answer, if requested."""
    steps = search_body(result.search)
    return {} if steps is None else {"search": [step.model_dump() for step in steps]}


def _nested(weights: npt.NDArray[np.float64]) -> str:
    """An array of any depth as JSON lists."""
    if weights.ndim == 1:
        return json.dumps(weights.tolist(), allow_nan=False)
    return "[" + ", ".join(_nested(part) for part in weights) + "]"


def as_npz(outcome: AttentionResult, selections: Sequence[Selection], steps_of: AttentionHead | None = None) -> bytes:
    """The answer as NumPy's archive of arrays, without pickled objects.

    Args:
        outcome: Tokens, translation and detected language.
        selections: The weights.
        steps_of: The head whose steps are included, or None.
    """
    result = outcome.attention
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "source_tokens": np.array(result.source_tokens, dtype=np.str_),
        "target_tokens": np.array(result.target_tokens, dtype=np.str_),
        "decoder_input_tokens": np.array(result.decoder_input_tokens, dtype=np.str_),
        "translation": np.array(result.translation, dtype=np.str_),
    }
    for name, search in _search(result).items():
        arrays[name] = np.array(json.dumps(search, ensure_ascii=False), dtype=np.str_)
    for selection in selections:
        arrays[selection.kind] = selection.weights
        arrays[f"{selection.kind}_layers"] = np.array(selection.layers)
        arrays[f"{selection.kind}_heads"] = np.array(selection.heads)
    if steps_of is not None and result.steps is not None:
        arrays |= {f"steps_{name}": np.array(value) for name, value in asdict(steps_of).items()}
        arrays |= {f"steps_{name}": step.numpy() for name, step in result.steps.items()}
    if outcome.detected is not None:
        arrays["detected_language"] = np.array(outcome.detected.language, dtype=np.str_)
        arrays["detected_confidence"] = np.array(outcome.detected.confidence)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


async def as_png(pictures: Pictures, result: Attention, selection: Selection) -> bytes:
    """The answer as a heat map of one layer.

    Args:
        pictures: Draws it.
        result: Tokens for the axes.
        selection: The weights of one layer.
    """
    rows, columns = result.labels(selection.kind)
    title = f"{selection.kind} attention, layer {selection.layers[0]}"
    title += ", mean of the heads" if selection.averaged else f", heads {', '.join(map(str, selection.heads))}"
    return await pictures.attention_heat_map(selection.weights[0], rows, columns, title)
