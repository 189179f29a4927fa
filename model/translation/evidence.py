"""Evidence for finished translations: probabilities by teacher forcing, in both directions.

The probabilities of a translation's tokens show how sure the model is of them. They do not show omissions, and neither
does attention, which is computed before a token is chosen. Translating back does: a source word that the translation
covers is much more probable given the translation than given nothing (Vamvas & Sennrich 2022, arXiv:2203.01927, use
such contrasts for single words and phrases).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from model.text.tokenizer import Tokenizer
from model.translation.confidence import Evidence, word_log_probs
from model.translation.plan import Plan

Logits: TypeAlias = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Iterator[Tensor]]
"""Computes logits of given targets, as :meth:`model.decoding.backend.Backend.logits` does."""


def collect_evidence(
    tokenizer: Tokenizer,
    logits: Logits,
    plan: Plan,
    begin: int = 0,
    end: int | None = None,
    *,
    max_tokens_back: int | None,
) -> list[Evidence]:
    """The evidence of sentences of a text.

    Args:
        tokenizer: The tokenizer of the model that translated it.
        logits: Computes the model's logits.
        plan: The text; all its sentences have answers.
        begin: Index of the first sentence.
        end: Index after the last sentence; None for all remaining ones.
        max_tokens_back: Tokens of the longest source when translating back; None if the model does not translate back.
    """
    sentences = plan.sentences[begin:end]
    sources, targets, answers, spans = [], [], [], []
    for sentence, hypothesis in zip(sentences, plan.hypotheses[begin:end], strict=True):
        closing = [tokenizer.end_id] if hypothesis.finish_reason == "stop" else []
        sources.append(sentence.token_ids)
        targets.append([*hypothesis.token_ids, *closing])
        answer, target_spans = tokenizer.decode_with_offsets(hypothesis.token_ids)
        answers.append(answer)
        spans.append(target_spans)
    log_probs = target_log_probs(logits, tokenizer.start_id, sources, targets, plan.forced_ids)
    gains = None
    if max_tokens_back is not None:
        gains = _gains(tokenizer, logits, sources, answers, plan.source, plan.target, max_tokens_back)
    return [
        Evidence(
            log_probs[index],
            None if gains is None else gains[index],
            sentence.end - sentence.start,
            len(answers[index]),
            word_log_probs(log_probs[index].tolist(), answers[index], spans[index]),
        )
        for index, sentence in enumerate(sentences)
    ]


def target_log_probs(
    logits: Logits,
    start_id: int,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    forced_ids: Sequence[int],
) -> list[Tensor]:
    """The log-probability of each token of given translations.

    Args:
        logits: Computes the model's logits.
        start_id: The token that begins every target.
        sources: Token ids of the sentences, markers included.
        targets: Token ids of a translation of each.
        forced_ids: Tokens between the start token and each translation.

    Returns:
        For each translation (T,), float32 on the CPU.
    """
    # Row t chooses token t from the tokens before it, so the last token is not read.
    inputs = [[start_id, *forced_ids, *ids[:-1]] for ids in targets]
    log_probs: list[Tensor] = []
    for rows, ids in zip(logits(sources, inputs), targets, strict=True):
        with torch.inference_mode():
            row = rows[len(forced_ids) : len(forced_ids) + len(ids)]  # (T, V)
            log_probs.append((row[range(len(ids)), ids] - row.logsumexp(dim=1)).cpu())
    return log_probs


def _gains(
    tokenizer: Tokenizer,
    logits: Logits,
    sources: Sequence[list[int]],
    answers: Sequence[str],
    source: str,
    target: str,
    max_tokens: int,
) -> list[Tensor]:
    """For each source token, its log-probability given the translation minus that given nothing, in nats.

    Args:
        tokenizer: The tokenizer of the model.
        logits: Computes the model's logits.
        sources: Token ids of the sentences, markers included.
        answers: Their translations.
        source: The language of the sentences.
        target: The language of the translations.
        max_tokens: Tokens of the longest source that the model reads.

    Returns:
        For each sentence (S,); infinity for markers, which no translation contains.
    """
    markers = {*tokenizer.encode("", target, source), *tokenizer.never_generated}
    columns = [[index for index, token_id in enumerate(ids) if token_id not in markers] for ids in sources]
    targets = [[ids[index] for index in chosen] for ids, chosen in zip(sources, columns, strict=True)]
    # A translation that was cut, encoded again, may have more tokens than the encoder has positions.
    encoded_answers = [tokenizer.encode(answer, source, target)[:max_tokens] for answer in answers]
    nothing = [tokenizer.encode("", source, target)] * len(answers)
    forced_ids = tokenizer.forced_ids(source)
    with_answer = target_log_probs(logits, tokenizer.start_id, encoded_answers, targets, forced_ids)
    without = target_log_probs(logits, tokenizer.start_id, nothing, targets, forced_ids)
    gains = [torch.full((len(ids),), math.inf) for ids in sources]
    for index, chosen in enumerate(columns):
        gains[index][chosen] = with_answer[index] - without[index]
    return gains
