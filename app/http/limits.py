"""The operator's bounds of a request, checked before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import LimitExceeded
from app.http.schemas.requests import AttentionRequest, TranslateRequest
from app.settings import Settings


def check_translate_limits(body: TranslateRequest, settings: Settings) -> None:
    """Refuse a translation request that exceeds a bound.

    Args:
        body: The request.
        settings: The bounds.

    Raises:
        LimitExceeded: Too many texts, too long a text, too wide a beam or too many hypotheses.
    """
    check_texts(body.text, settings)
    check_beam(body.beam_size, settings)
    if body.num_hypotheses > settings.max_hypotheses:
        raise LimitExceeded("num_hypotheses", body.num_hypotheses, settings.max_hypotheses, "hypotheses of one text")


def check_texts(texts: str | Sequence[str], settings: Settings) -> None:
    """Refuse too many texts, or one that is too long.

    Args:
        texts: The text or the texts of the field ``text``.
        settings: The bounds.

    Raises:
        LimitExceeded: A bound is exceeded.
    """
    if isinstance(texts, str):
        _check_length("text", texts, settings)
        return
    if len(texts) > settings.max_texts:
        raise LimitExceeded("text", len(texts), settings.max_texts, "texts in one request")
    for index, text in enumerate(texts):
        _check_length(f"text[{index}]", text, settings)


def check_attention_limits(body: AttentionRequest, settings: Settings) -> None:
    """Refuse an attention request that exceeds a bound.

    Args:
        body: The request.
        settings: The bounds.

    Raises:
        LimitExceeded: Too long a text or too wide a beam.
    """
    _check_length("text", body.text, settings)
    if body.target_text is not None:
        _check_length("target_text", body.target_text, settings)
    check_beam(body.beam_size, settings)


def _check_length(field: str, text: str, settings: Settings) -> None:
    if len(text) > settings.max_text_characters:
        raise LimitExceeded(field, len(text), settings.max_text_characters, "characters of one text")


def check_beam(beam_size: int, settings: Settings) -> None:
    """Refuse a beam that is wider than allowed.

    Args:
        beam_size: Its width.
        settings: The bound.

    Raises:
        LimitExceeded: It is too wide.
    """
    if beam_size > settings.max_beam_size:
        raise LimitExceeded("beam_size", beam_size, settings.max_beam_size, "hypotheses in a beam")


def check_attention_size(num_weights: int, num_in_steps: int, settings: Settings) -> None:
    """Refuse a JSON answer with too many attention weights and numbers of steps.

    Args:
        num_weights: Requested weights of all kinds, layers and heads.
        num_in_steps: Numbers in the requested steps of one head, or 0.
        settings: The bound.

    Raises:
        LimitExceeded: They are too many; the message names alternatives.
    """
    if num_weights + num_in_steps > settings.max_attention_cells:
        steps = f" and numbers of steps ({num_in_steps})" if num_in_steps else ""
        raise LimitExceeded(
            "kinds",
            num_weights + num_in_steps,
            settings.max_attention_cells,
            f"attention weights{steps} in one JSON answer; set average_heads, name fewer kinds, layers or heads, or "
            "request application/x-npz, which has no such limit",
        )
