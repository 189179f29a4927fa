"""The answer of :meth:`verso_client.Client.attention`, as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

from verso_client.answers import Detected, SearchStep

Weights = tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
"""Attention weights: layer, head, attending position, attended position."""

Matrix = tuple[tuple[float, ...], ...]
"""A row for each position."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """The weights of one kind of attention; each row sums to 1.

    Args:
        layers: The layers of the first axis, in order.
        heads: The heads of the second axis, in order; if ``averaged``, the heads whose mean it has.
        averaged: Whether the second axis has only the mean of the heads.
        weights: Layer, head, attending position, attended position.
    """

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    averaged: bool
    weights: Weights


@dataclass(frozen=True, slots=True)
class AttentionSteps:
    """How one head computes its weights, and how its sub-layer uses them.

    Rows are the positions that attend: ``source_tokens`` of kind ``encoder``, else ``decoder_input_tokens``; rows of
    ``key`` and ``value``, and columns of ``scores``, ``masked`` and ``weights``, are those attended to. docs/api.md of
    Verso has the formulas.

    Args:
        kind: ``encoder``, ``decoder`` or ``cross``.
        layer: The layer, counted from 0.
        head: The head, counted from 0.
        embedding: Token embeddings, after scaling.
        position: The position encodings that are added to them.
        input: The input of the attention sub-layer.
        query: The head's queries.
        key: The head's keys.
        value: The head's values.
        scores: Queries times keys, divided by the square root of a head's width.
        masked: ``scores`` with None where a position may not be attended to.
        weights: The softmax of each row of ``masked``.
        mixed: ``weights`` times ``value``.
        output: The output projection of all heads.
        residual: ``input`` plus ``output``, or plus ``normed_output``.
        result: The output of the sub-layer.
        embedded: The sum of ``embedding`` and ``position`` after a norm; None if the model has none there.
        normed: ``input`` after the norm; None unless the model is pre-norm.
        normed_output: ``output`` after the norm; None unless the model is residual-post-norm.
        feed_forward: The output of the feed-forward block for ``result``; None for ``decoder``.
    """

    kind: str
    layer: int
    head: int
    embedding: Matrix
    position: Matrix
    input: Matrix
    query: Matrix
    key: Matrix
    value: Matrix
    scores: Matrix
    masked: tuple[tuple[float | None, ...], ...]
    weights: Matrix
    mixed: Matrix
    output: Matrix
    residual: Matrix
    result: Matrix
    embedded: Matrix | None = None
    normed: Matrix | None = None
    normed_output: Matrix | None = None
    feed_forward: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """The tokens of a sentence and of its translation, and how they attend to each other.

    Args:
        source_tokens: The source as the model reads it.
        target_tokens: The generated tokens: the rows of ``decoder`` and ``cross``.
        decoder_input_tokens: The tokens that the decoder can attend to: the columns of ``decoder``.
        translation: The translation, or the ``target_text`` of the request.
        model: The model.
        detected: The detected language, with ``source="auto"``.
        encoder: Source to source; None unless requested.
        decoder: Target to target; None unless requested.
        cross: Target to source; None unless requested.
        steps: The computation of one head; None unless requested.
        search: The steps of the search; None unless ``return_search``.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    decoder_input_tokens: tuple[str, ...]
    translation: str
    model: str
    detected: Detected | None = None
    encoder: Matrices | None = None
    decoder: Matrices | None = None
    cross: Matrices | None = None
    steps: AttentionSteps | None = None
    search: tuple[SearchStep, ...] | None = None
