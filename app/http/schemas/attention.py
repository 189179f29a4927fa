"""Answers of ``POST /attention``, and an example."""

from __future__ import annotations

from app.http.schemas.answers import AnswerBody, DetectedBody, SearchStepBody
from model.network.heads import AttentionKind


class AttentionMatrices(AnswerBody):
    """The weights of one kind of attention; each row sums to 1.

    All lists are empty for `decoder` if the model's decoder is recurrent and has no self-attention.
    """

    layers: list[int]
    """The layers of the first axis, in order."""

    heads: list[int]
    """The heads of the second axis, in order; if `averaged`, those that were averaged into one."""

    averaged: bool
    """Whether the second axis is only the mean of the heads."""

    weights: list[list[list[list[float]]]]
    """Layer, head, attending position, attended position."""


Matrix = list[list[float]]
"""Rows of positions."""


class AttentionStepsBody(AnswerBody):
    """The computation of one head and its sub-layer, with the numbers of the running model.

    T positions attend: `source_tokens` if `kind` is `encoder`, else `decoder_input_tokens`. S positions are attended
    to: the columns of the weights. Vectors have C numbers, within a head D.
    """

    kind: AttentionKind
    """The kind of attention."""

    layer: int
    """The layer, counted from 0."""

    head: int
    """The head, counted from 0."""

    embedding: Matrix
    """Embeddings of the tokens as the model uses them, after scaling, T x C."""

    position: Matrix
    """The positional encodings added to them, T x C."""

    embedded: Matrix | None = None
    """Their sum after a norm, T x C; absent unless the model has that norm."""

    input: Matrix
    """The input of the attention sub-layer, T x C: in layer 0, except for `cross`, the sum of `embedding` and
    `position`, or `embedded`."""

    normed: Matrix | None = None
    """`input` after the norm, T x C; only of models with the norm before the sub-layer (pre-norm)."""

    query: Matrix
    """The head's queries, T x D."""

    key: Matrix
    """The head's keys, S x D."""

    value: Matrix
    """The head's values, S x D."""

    scores: Matrix
    """`query` times `key` transposed, divided by the square root of D, T x S."""

    masked: list[list[float | None]]
    """`scores` with null where a position may not be attended to, T x S; in npz, minus infinity."""

    weights: Matrix
    """The softmax of each row of `masked`, T x S: the weights of this layer and head."""

    mixed: Matrix
    """`weights` times `value`, T x D."""

    output: Matrix
    """The output projection of `mixed` of all heads, concatenated, T x C."""

    normed_output: Matrix | None = None
    """`output` after the norm, T x C; only of models with the norm before the sum (residual-post-norm)."""

    residual: Matrix
    """`input` + `output` (or `normed_output`), T x C."""

    result: Matrix
    """The output of the sub-layer, T x C: `residual`; in post-norm models, `residual` after the norm."""

    feed_forward: Matrix | None = None
    """The output of the feed-forward block for `result`, before they are added, T x C; absent for `decoder`, because
    cross-attention follows."""


class AttentionResponse(AnswerBody):
    """The tokens of a sentence and of its translation, and how they attend to each other."""

    source_tokens: list[str]
    """The source as the model reads it, including markers."""

    target_tokens: list[str]
    """The tokens of the translation, including the end token: the rows of `decoder` and `cross`."""

    decoder_input_tokens: list[str]
    """The tokens that the decoder reads, the start token first: the columns of `decoder`."""

    translation: str
    """The translation, or the given `target_text`."""

    model: str
    """The model that answered."""

    detected: DetectedBody | None
    """The detected language of the sentence; null if `source` was named, unless it is almost certainly in another
    language."""

    search: list[SearchStepBody] | None = None
    """The steps of the search for the translation; absent unless `return_search`."""

    encoder: AttentionMatrices | None = None
    """Source to source, S x S; absent unless requested."""

    decoder: AttentionMatrices | None = None
    """Target to target, T x T; absent unless requested."""

    cross: AttentionMatrices | None = None
    """Target to source, T x S; absent unless requested."""

    steps: AttentionStepsBody | None = None
    """The steps of one head; absent unless requested."""


ATTENTION_ANSWER = AttentionResponse(
    source_tokens=["<2de>", "▁Good", "▁morning", "</s>"],
    target_tokens=["▁Guten", "▁Morgen", "</s>"],
    decoder_input_tokens=["<s>", "▁Guten", "▁Morgen"],
    translation="Guten Morgen",
    model="verso-en-de",
    detected=None,
    cross=AttentionMatrices(
        layers=[0],
        heads=[0, 1, 2, 3],
        averaged=True,
        weights=[[[[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]]],
    ),
)
