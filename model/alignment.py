"""From attention weights to links between pieces of a sentence and pieces of its translation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from model.text.tokenizer import Span


@dataclass(frozen=True)
class AlignmentLink:
    """A piece of the translation and the piece of the source the model attended to most when it chose it.

    Args:
        source: Characters ``text[start:end]`` of the source text.
        target: Characters of the translation.
        weight: The attention weight, 0 to 1: mean over the heads of the last decoder layer.
    """

    source: Span
    target: Span
    weight: float


def answer_rows(cross: Tensor, num_forced: int, num_target_tokens: int, num_source_tokens: int) -> Tensor:
    """The attention behind an answer's tokens, of one sentence of a padded batch.

    Args:
        cross: Weights of all decoder layers and heads, (L, H, T, S).
        num_forced: Forced tokens between the start token and the first one the model chose.
        num_target_tokens: Tokens of the answer, without the closing one.
        num_source_tokens: Tokens of the source, markers included.

    Returns:
        Weights of the last layer, mean of its heads: rows are answer tokens, columns source tokens.
    """
    last_layer = cross[-1].mean(dim=0)  # (T, S)
    return last_layer[num_forced : num_forced + num_target_tokens, :num_source_tokens]


def sentence_links(
    rows: Tensor, source_spans: Sequence[Span], target_spans: Sequence[Span], source_start: int, target_start: int
) -> Iterator[AlignmentLink]:
    """A link for each token of an answer that gave characters, to the source token with the largest weight.

    Args:
        rows: What :func:`answer_rows` gave.
        source_spans: Characters of the sentence each source token covers; markers cover none.
        target_spans: Characters of the answer each token gave.
        source_start: Position of the sentence in the source text.
        target_start: Position of its answer in the translation.
    """
    visible = [column for column, (start, end) in enumerate(source_spans) if end > start]
    for row, (start, end) in zip(rows, target_spans, strict=True):
        if end == start or not visible:
            continue
        weight, index = row[visible].max(dim=0)
        span = source_spans[visible[int(index)]]
        yield AlignmentLink(
            (source_start + span[0], source_start + span[1]),
            (target_start + start, target_start + end),
            round(float(weight), 4),
        )
