"""Evaluation during training: loss on held-out text, and BLEU of greedy translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from model.decoding.batch import decode_in_order
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.options import DecodingOptions
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from model.network.transformer import Transformer
from model.scores import bleu_units, exact_share, score
from model.text.tokenizer import Tokenizer
from model.training.batches import BatchMaker
from model.training.corpus import LoadedCorpus, Pair
from model.training.loss import label_smoothed_loss


def dev_scores(
    transformer: Transformer,
    tokenizer: Tokenizer,
    corpora: Mapping[str, Sequence[Pair]],
    languages: tuple[str, str],
    directions: Sequence[tuple[str, str]],
    policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
) -> dict[str, float]:
    """Loss and greedy BLEU of a model in training: means over all corpora, and the scores of each if there are several.

    Args:
        transformer: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        corpora: Held-out sentences by the name of their corpus, in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to score.
        policy: The model's decoding policy.

    Returns:
        The scores of :func:`corpus_scores`, such as ``dev_loss``; with several corpora also ``dev_loss/NAME`` for each.
    """
    each = {
        name: corpus_scores(transformer, tokenizer, pairs, languages, directions, policy)
        for name, pairs in corpora.items()
    }
    scores = {
        key: sum(corpus_scores[key] for corpus_scores in each.values()) / len(each) for key in next(iter(each.values()))
    }
    if len(each) > 1:
        scores.update(
            {f"{key}/{name}": value for name, corpus_scores in each.items() for key, value in corpus_scores.items()}
        )
    return scores


def corpus_scores(
    transformer: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    languages: tuple[str, str],
    directions: Sequence[tuple[str, str]],
    policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
) -> dict[str, float]:
    """Loss and greedy BLEU of a model on one held-out corpus.

    Args:
        transformer: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        pairs: Held-out sentences in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to score.
        policy: The model's decoding policy.

    Returns:
        ``dev_loss`` in nats per token, and for each direction ``bleu_xx-yy``. If the tokens are characters, BLEU is
        computed over characters, and ``exact_xx-yy`` is the percentage of exact matches.
    """
    scores = {"dev_loss": dev_loss(transformer, tokenizer, pairs, languages, directions)}
    units = bleu_units(tokenizer)
    for source, target in directions:
        ordered = pairs if source == languages[0] else [(second, first) for first, second in pairs]
        hypotheses = translate_greedily(transformer, tokenizer, [pair[0] for pair in ordered], target, source, policy)
        references = [pair[1] for pair in ordered]
        scores[f"bleu_{source}-{target}"] = score(hypotheses, references, tokenize=units).bleu
        if units == "char":
            scores[f"exact_{source}-{target}"] = exact_share(hypotheses, references)
    return scores


@torch.inference_mode()
def dev_loss(
    transformer: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    languages: tuple[str, str],
    directions: Sequence[tuple[str, str]],
) -> float:
    """Mean negative log-likelihood of held-out target tokens, in nats, without label smoothing."""
    device = transformer.output.weight.device
    longest = min(250, transformer.target_embedding.positions.size(0))
    maker = BatchMaker(
        [LoadedCorpus(list(pairs))], languages, directions, tokenizer, batch_tokens=4000, max_tokens=longest, seed=0
    )
    total, tokens = 0.0, 0
    for batch in maker.epoch(0):
        target = batch.target.to(device)
        hidden = transformer.hidden(batch.source.to(device), target[:, :-1])
        counts = target[:, 1:] != tokenizer.pad_id
        _, nll = label_smoothed_loss(
            hidden[counts], transformer.output.weight, transformer.output.bias, target[:, 1:][counts], 0.0
        )
        total += float(nll)
        tokens += int(counts.sum())
    return total / tokens


def translate_greedily(
    transformer: Transformer,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    target: str,
    source: str | None = None,
    policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
) -> list[str]:
    """Translate sentences with a model in training; the translation of a failed sentence is empty.

    Sentences longer than the model's positions are truncated. This is meant for scores during training, not for
    translation.
    """
    device = transformer.output.weight.device
    longest = transformer.target_embedding.positions.size(0)
    options, forced_ids = DecodingOptions(decoding="greedy"), tokenizer.forced_ids(target)
    outcomes = decode_in_order(
        lambda width: TorchCohort(
            TorchState(transformer, width, tokenizer.pad_id, device), tokenizer, width, longest, device, policy
        ),
        [
            DecodingRequest(0, tokenizer.encode(sentence, target, source)[:longest], options, forced_ids)
            for sentence in sentences
        ],
        max_batch_tokens=4096,
    )
    return [tokenizer.decode(outcome.hypothesis.token_ids) if outcome.hypothesis else "" for outcome in outcomes]
