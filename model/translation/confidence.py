"""Confidence: how sure a model is of a translation, and which source words the translation leaves out.

The score of a sentence is a logistic regression over a few features of the :class:`Evidence`, as in unsupervised
quality estimation (Fomicheva et al. 2020, arXiv:2005.10608). Its coefficients belong to the model
(:class:`Calibration`); :mod:`model.training.calibration` fits them to development text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from model.text.symbols import Span

if TYPE_CHECKING:
    from torch import Tensor

_WORD = re.compile(r"\S+")

_DECIMALS = 4

Feature = Literal[
    "weakest_words",
    "weakest_word_probability",
    "weakest_gain",
    "mean_probability",
    "log_prob_per_character",
    "log_source_characters",
    "log_length_ratio",
    "mean_gain",
]
"""What a calibrated score is computed from; ``verso calibrate`` fits those of :data:`FITTED`."""

FITTED: tuple[Feature, ...] = ("weakest_words", "weakest_word_probability", "weakest_gain")
"""The features of new calibrations: one wrong word makes a translation wrong. Models that were calibrated by earlier
releases have the others."""

_NUM_WEAKEST = 3

_MIN_LOG_PROB = math.log(1e-4)
_MIN_GAIN = -10.0
"""Bounds, in nats: beyond them a word is as good as excluded, and a single value must not outweigh all others."""


@dataclass(frozen=True)
class WordConfidence:
    """A word of a translation and its probability.

    Args:
        target: Characters of the translation. Words are separated by whitespace and include punctuation.
        probability: The product of the probabilities of its tokens, each given the source and the tokens before.
    """

    target: Span
    probability: float


@dataclass(frozen=True)
class Confidence:
    """How sure a model is of the translation of a text.

    Args:
        score: 0 to 1; see :meth:`Calibration.text_score`.
        words: The words of the translation, in order.
        uncovered: Characters of the source words that the translation leaves out; None if the model does
            not translate back.
    """

    score: float
    words: tuple[WordConfidence, ...]
    uncovered: tuple[Span, ...] | None


NOTHING_TRANSLATED = Confidence(1.0, (), ())
"""The confidence of a text that is its own translation."""


@dataclass(frozen=True)
class Evidence:
    """A model's probabilities for one sentence and its translation (:mod:`model.translation.evidence`).

    Args:
        log_probs: Log-probability of each token of the translation, and of the end token unless it was cut, (T,).
        gains: For each source token, its log-probability given the translation minus that given nothing, in nats,
            (S,); infinity for markers. None if the model does not translate back.
        num_source_characters: Length of the sentence.
        num_target_characters: Length of its translation.
        word_log_probs: Log-probability of each word of the translation, as the model wrote it.
    """

    log_probs: Tensor
    gains: Tensor | None
    num_source_characters: int
    num_target_characters: int
    word_log_probs: tuple[float, ...]

    def features(self) -> dict[Feature, float]:
        """The features by name."""
        # Lengths are counted from 1, as an empty translation has its end token.
        source, target = self.num_source_characters + 1, self.num_target_characters + 1
        weakest = sorted(max(log_prob, _MIN_LOG_PROB) for log_prob in self.word_log_probs or (0.0,))[:_NUM_WEAKEST]
        features: dict[Feature, float] = {
            "weakest_words": sum(weakest) / len(weakest),
            "weakest_word_probability": math.exp(weakest[0]),
            "mean_probability": float(self.log_probs.exp().mean()) if len(self.log_probs) else 0.0,
            "log_prob_per_character": float(self.log_probs.sum()) / target,
            "log_source_characters": math.log(source),
            "log_length_ratio": math.log(target / source),
        }
        if self.gains is not None:
            gains = self.gains[self.gains.isfinite()]
            features["mean_gain"] = float(gains.mean()) if len(gains) else 0.0
            features["weakest_gain"] = max(float(gains.min()), _MIN_GAIN) if len(gains) else 0.0
        return features


@dataclass(frozen=True)
class Calibration:
    """The coefficients that turn evidence into a confidence.

    Args:
        intercept: The intercept of the logistic regression.
        weights: The coefficient of each feature; empty if the model was not calibrated.
        coverage_bound: A source word is uncovered if its gain is smaller than this, in nats.
    """

    intercept: float = 0.0
    weights: Mapping[Feature, float] = field(default_factory=dict)
    coverage_bound: float = 0.0

    def sentence_score(self, evidence: Evidence) -> float:
        """The probability that a careful reader calls the translation right in meaning; 0 if it has no token at all.

        Without calibration it is the geometric mean of the probabilities of its tokens, which ranks translations but
        is not a probability of being right.
        """
        if not len(evidence.log_probs):
            return 0.0
        if not self.weights:
            return math.exp(float(evidence.log_probs.mean()))
        return 0.5 + 0.5 * math.tanh(0.5 * self.logit(evidence))  # the logistic function, without overflow

    def logit(self, evidence: Evidence) -> float:
        """The logit of a calibrated score."""
        features = evidence.features()
        return self.intercept + sum(weight * features[name] for name, weight in self.weights.items())

    def rescaled(self, intercept: float, slope: float) -> Calibration:
        """The same ranking on another scale (Platt 1999): each logit is multiplied by ``slope``, then added to."""
        weights = {name: slope * weight for name, weight in self.weights.items()}
        return replace(self, intercept=intercept + slope * self.intercept, weights=weights)

    def text_score(self, evidence: Sequence[Evidence]) -> float:
        """The share of a text that is probably right: the mean score of its sentences, weighted by their tokens.

        A sentence counts as 1 token at least. The share of a text without sentences is 1.
        """
        if not evidence:
            return NOTHING_TRANSLATED.score
        weights = [max(1, len(item.log_probs)) for item in evidence]
        total = sum(weight * self.sentence_score(item) for weight, item in zip(weights, evidence, strict=True))
        return round(total / sum(weights), _DECIMALS)


UNCALIBRATED = Calibration()


def word_confidences(
    evidence: Evidence, target: str, target_spans: Sequence[Span], target_start: int
) -> Iterator[WordConfidence]:
    """The words of a sentence's translation.

    Args:
        evidence: The evidence of the sentence.
        target: Its translation.
        target_spans: Characters that each token of the translation covers.
        target_start: Index of the translation's first character in the translated text.
    """
    for (start, end), tokens in _words(target, target_spans):
        if not tokens:  # part of a span that the model did not write
            continue
        log_prob = sum(float(evidence.log_probs[token]) for token in tokens)
        yield WordConfidence((target_start + start, target_start + end), round(math.exp(log_prob), _DECIMALS))


def word_log_probs(log_probs: Sequence[float], target: str, target_spans: Sequence[Span]) -> tuple[float, ...]:
    """The log-probability of each word of a translation: the sum of its tokens'.

    Args:
        log_probs: Log-probability of each token; those after the last span, such as the end token, are not read.
        target: The translation.
        target_spans: Characters that each token covers.
    """
    return tuple(sum(log_probs[token] for token in tokens) for _, tokens in _words(target, target_spans) if tokens)


def word_gains(
    evidence: Evidence, source: str, source_spans: Sequence[Span], source_start: int
) -> Iterator[tuple[Span, float]]:
    """The words of a sentence that have letters or digits, each with the sum of its tokens' gains, in nats.

    Args:
        evidence: The evidence of the sentence; without gains there are no words.
        source: The sentence.
        source_spans: Characters that each source token covers; markers cover none.
        source_start: Index of the sentence's first character in the source text.
    """
    if evidence.gains is None:
        return
    for (start, end), tokens in _words(source, source_spans):
        gains = [gain for token in tokens if math.isfinite(gain := float(evidence.gains[token]))]
        if gains and any(character.isalnum() for character in source[start:end]):
            yield (source_start + start, source_start + end), sum(gains)


def _words(text: str, spans: Sequence[Span]) -> list[tuple[Span, list[int]]]:
    """The words of a text, each with its tokens; a token belongs to the word in which it starts or that follows it.

    Tokens that are a space before a word, or a byte of a character but the last one, cover no characters.
    """
    words: list[tuple[Span, list[int]]] = [(match.span(), []) for match in _WORD.finditer(text)]
    index = 0
    for token, (start, _) in enumerate(spans):
        while index < len(words) - 1 and words[index][0][1] <= start:
            index += 1
        if words:
            words[index][1].append(token)
    return words
