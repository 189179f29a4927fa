"""How good a model is: loss on held-out text, and BLEU and chrF of its translations (library sacrebleu)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sacrebleu.metrics import BLEU, CHRF

from model.decoding.batch import decode_in_order
from model.decoding.options import DecodingOptions
from model.decoding.state import TorchState
from model.decoding.torch_cohort import TorchCohort
from model.tokenizer import PAD_ID, Tokenizer
from model.training.batches import BatchMaker
from model.training.corpus import Pair
from model.training.loss import label_smoothed_loss
from model.transformer import Transformer


@dataclass(frozen=True)
class Score:
    """Corpus scores of one direction.

    Args:
        bleu: sacreBLEU, 0 to 100.
        chrf: chrF2, 0 to 100.
        bleu_signature: How BLEU was computed, so that others can compare.
        chrf_signature: How chrF was computed.
        num_sentences: Sentences scored.
    """

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    num_sentences: int


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Compare translations with references: mixed-case BLEU with 13a tokenisation (Post 2018) and chrF2.

    Args:
        hypotheses: Translations.
        references: One reference for each, in the same order.
    """
    bleu, chrf = BLEU(), CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)]).score
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)]).score
    return Score(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()), len(references))


def dev_scores(
    transformer: Transformer,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    languages: tuple[str, str],
    directions: Sequence[tuple[str, str]],
) -> dict[str, float]:
    """Loss and greedy BLEU of a model in training.

    Args:
        transformer: The model, in evaluation mode.
        tokenizer: Its vocabulary.
        pairs: Held-out sentences in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to score.

    Returns:
        ``dev_loss`` in nats a token, and for each direction ``bleu_xx-yy``.
    """
    scores = {"dev_loss": dev_loss(transformer, tokenizer, pairs, languages, directions)}
    for source, target in directions:
        ordered = pairs if source == languages[0] else [(right, left) for left, right in pairs]
        hypotheses = translate_greedily(transformer, tokenizer, [pair[0] for pair in ordered], target)
        scores[f"bleu_{source}-{target}"] = score(hypotheses, [pair[1] for pair in ordered]).bleu
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
    maker = BatchMaker(pairs, languages, directions, tokenizer, batch_tokens=4000, max_tokens=250, seed=0)
    total, tokens = 0.0, 0
    for batch in maker.epoch(0):
        target = batch.target.to(device)
        hidden = transformer.hidden(batch.source.to(device), target[:, :-1])
        counts = target[:, 1:] != PAD_ID
        _, nll = label_smoothed_loss(
            hidden[counts], transformer.output.weight, transformer.output.bias, target[:, 1:][counts], 0.0
        )
        total += float(nll)
        tokens += int(counts.sum())
    return total / tokens


def translate_greedily(
    transformer: Transformer, tokenizer: Tokenizer, sentences: Sequence[str], target: str
) -> list[str]:
    """Translate sentences with a model that is still training; a failed sentence comes out empty.

    A sentence longer than the model's positions is translated as far as they reach: this is a yardstick of a
    training run, where such sentences cost points, and no way to translate.
    """
    device = transformer.output.weight.device
    longest = transformer.target_embedding.positions.size(0)
    outcomes = decode_in_order(
        lambda width: TorchCohort(
            TorchState(transformer, width, tokenizer.pad_id, device), tokenizer, width, longest, device
        ),
        [tokenizer.encode(sentence, target)[:longest] for sentence in sentences],
        DecodingOptions(decoding="greedy"),
        max_batch_tokens=4096,
    )
    return [tokenizer.decode(outcome.hypothesis.token_ids) if outcome.hypothesis else "" for outcome in outcomes]
