"""Scores of translations: BLEU and chrF (library sacrebleu), and the share of exact matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.text.tokenizer import Tokenizer, VersoTokenizer


@dataclass(frozen=True)
class Score:
    """Corpus scores of one direction.

    Args:
        bleu: sacreBLEU, 0 to 100.
        chrf: chrF2, 0 to 100.
        bleu_signature: The signature of BLEU, so that others can compare.
        chrf_signature: The signature of chrF.
        num_sentences: Number of sentences.
    """

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    num_sentences: int


def score(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> Score:
    """Compare translations with references: BLEU (Post 2018) and chrF2.

    Args:
        hypotheses: Translations.
        references: One reference for each, in the same order.
        tokenize: The units of BLEU: ``13a`` for words, ``char`` for characters.
        lowercase: Whether case is ignored.
    """
    from sacrebleu.metrics import BLEU, CHRF  # plots of training runs do not need it

    bleu, chrf = BLEU(tokenize=tokenize, lowercase=lowercase), CHRF(lowercase=lowercase)
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)]).score
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)]).score
    return Score(bleu_score, chrf_score, str(bleu.get_signature()), str(chrf.get_signature()), len(references))


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """The chrF2 of each translation, 0 to 100.

    Args:
        hypotheses: Translations.
        references: One reference for each, in the same order.
    """
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    return [
        chrf.sentence_score(hypothesis, [reference]).score
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def bleu_units(tokenizer: Tokenizer) -> str:
    """The units of BLEU for a vocabulary, as an argument of :func:`score`: characters or words.

    The lines of a character model may be single words. They have no pairs of words to compare, so their BLEU over words
    would be 0, however good they are.
    """
    return "char" if isinstance(tokenizer, VersoTokenizer) and tokenizer.is_char else "13a"


def exact_share(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The percentage of translations that equal their reference."""
    num_exact = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return 100.0 * num_exact / max(1, len(references))


def bleu_keys(row: Mapping[str, float | None]) -> list[str]:
    """The keys of an evaluation of a training run that have the BLEU of a direction.

    Args:
        row: Scores by key. ``bleu_en-de`` is the mean over the held-out corpora; ``bleu_en-de/NAME``, of one of several
            corpora, is left out.
    """
    return [key for key in row if key.startswith("bleu_") and "/" not in key]


def mean_bleu(row: Mapping[str, float | None]) -> float | None:
    """The mean of the directions' BLEU in an evaluation; None if it has none."""
    scores = [value for key in bleu_keys(row) if (value := row[key]) is not None]
    return sum(scores) / len(scores) if scores else None
