"""What a model says about finished translations: probabilities by teacher forcing, in both directions.

The probabilities of a translation's tokens say how sure the model is of them. What a translation left out they do not
show: attention looks at a source word before the token is chosen, whatever the token is. A model that translates back
shows it: a source word that the translation covers is much more probable given the translation than given nothing
(Vamvas & Sennrich 2022, arXiv:2203.01927, use such contrasts for single words and phrases).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from model.artifacts.bundle import Bundle
from model.confidence import Evidence
from model.network.padding import pad
from model.text_pipeline import Plan

_SENTENCES_AT_ONCE = 16

_LOGITS_AT_ONCE = 2**25
"""Logits in memory at once, 128 MiB."""


def collect_evidence(bundle: Bundle, plan: Plan, begin: int = 0, end: int | None = None) -> list[Evidence]:
    """The evidence of sentences of a text.

    Args:
        bundle: The model that translated it.
        plan: The text; all its sentences have answers.
        begin: Index of the first sentence.
        end: Index after the last sentence; None for all that follow.
    """
    tokenizer = bundle.tokenizer
    sentences = plan.sentences[begin:end]
    sources, targets, answers = [], [], []
    for sentence, hypothesis in zip(sentences, plan.hypotheses[begin:end], strict=True):
        closing = [tokenizer.end_id] if hypothesis.finish_reason == "stop" else []
        sources.append(sentence.token_ids)
        targets.append([*hypothesis.token_ids, *closing])
        answers.append(tokenizer.decode(hypothesis.token_ids))
    log_probs = target_log_probs(bundle, sources, targets, plan.forced_ids)
    gains = _gains(bundle, sources, answers, plan.source, plan.target) if translates_back(bundle) else None
    return [
        Evidence(
            log_probs[index],
            None if gains is None else gains[index],
            sentence.end - sentence.start,
            len(answers[index]),
        )
        for index, sentence in enumerate(sentences)
    ]


def translates_back(bundle: Bundle) -> bool:
    """Whether a model has the opposite of each of its pairs, and one vocabulary for sources and targets."""
    directions = bundle.manifest.directions
    return bool(bundle.manifest.architecture.get("share_embeddings")) and all(
        (target, source) in directions for source, target in directions.pairs
    )


def target_log_probs(
    bundle: Bundle,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    forced_ids: Sequence[int],
    sentences_at_once: int = _SENTENCES_AT_ONCE,
) -> list[Tensor]:
    """The log-probability of each token of given translations.

    Args:
        bundle: The model.
        sources: Token ids of the sentences, markers included.
        targets: Token ids of a translation of each.
        forced_ids: Tokens between the start token and each translation.
        sentences_at_once: Sentences of a batch; fewer where their logits would take too much memory.

    Returns:
        For each translation (T,), float32 on the CPU.
    """
    beginning = [bundle.tokenizer.start_id, *forced_ids]
    longest = len(beginning) + max(map(len, targets), default=0)
    num_logits = longest * int(bundle.manifest.architecture["target_vocab_size"])
    size = min(sentences_at_once, max(1, _LOGITS_AT_ONCE // num_logits))
    found: list[Tensor] = []
    for begin in range(0, len(sources), size):
        chosen = targets[begin : begin + size]
        # Row t chooses token t from the tokens before it: the last one need not be read.
        inputs = [[*beginning, *ids[:-1]] for ids in chosen]
        with torch.inference_mode():
            logits = bundle.module.forward(_padded(bundle, sources[begin : begin + size]), _padded(bundle, inputs))
            for rows, ids in zip(logits, chosen, strict=True):
                row = rows[len(forced_ids) : len(forced_ids) + len(ids)].float()  # (T, V)
                log_probs = row[range(len(ids)), ids] - row.logsumexp(dim=1)
                found.append(log_probs.cpu())
    return found


def _gains(
    bundle: Bundle, sources: Sequence[list[int]], answers: Sequence[str], source: str, target: str
) -> list[Tensor]:
    """How much more probable each source token is given the translation than given nothing, in nats.

    Args:
        bundle: A model that translates back.
        sources: Token ids of the sentences, markers included.
        answers: Their translations.
        source: The language of the sentences.
        target: The language of the translations.

    Returns:
        For each sentence (S,); markers, which no translation is made of, have infinity.
    """
    tokenizer = bundle.tokenizer
    markers = {*tokenizer.encode("", target, source), *tokenizer.never_generated}
    columns = [[index for index, token_id in enumerate(ids) if token_id not in markers] for ids in sources]
    targets = [[ids[index] for index in chosen] for ids, chosen in zip(sources, columns, strict=True)]
    # A translation that was cut may have more tokens than the encoder has positions, once it is encoded.
    given = [tokenizer.encode(answer, source, target)[: bundle.manifest.max_target_tokens] for answer in answers]
    nothing = [tokenizer.encode("", source, target)] * len(answers)
    forced_ids = tokenizer.forced_ids(source)
    with_answer = target_log_probs(bundle, given, targets, forced_ids)
    without = target_log_probs(bundle, nothing, targets, forced_ids)
    gains = [torch.full((len(ids),), math.inf) for ids in sources]
    for index, chosen in enumerate(columns):
        gains[index][chosen] = with_answer[index] - without[index]
    return gains


def _padded(bundle: Bundle, ids: Sequence[list[int]]) -> Tensor:
    return pad(ids, bundle.tokenizer.pad_id).to(bundle.device)
