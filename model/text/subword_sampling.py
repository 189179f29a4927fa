"""Random segmentations of a text into the pieces of a unigram vocabulary (Kudo 2018, arXiv:1804.10959, section 3.2).

SentencePiece samples from the same distribution, but mixes its seed with a number that differs from process to process.
A run that resumes in the middle of an epoch, and processes that train together, need the same segmentations.
"""

from __future__ import annotations

import math
import random

import sentencepiece

from model.text.pieces import text_pieces

_UNKNOWN_PENALTY = 10.0
"""The log-probability of a character without a piece is that of the rarest piece minus this, as in SentencePiece."""


class SubwordSampler:
    """Samples segmentations; the same seed gives the same one in every process.

    Args:
        processor: A unigram vocabulary with byte fallback.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        self._bytes = [processor.PieceToId(f"<0x{byte:02X}>") for byte in range(256)]
        self._ids = text_pieces(processor)
        self._scores = {piece: processor.GetScore(token_id) for piece, token_id in self._ids.items()}
        self._prefixes = {piece[:length] for piece in self._ids for length in range(1, len(piece) + 1)}
        self._unknown_score = min(self._scores.values(), default=0.0) - _UNKNOWN_PENALTY

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """The pieces of a random segmentation, drawn in proportion to its probability to the power of ``alpha``.

        Args:
            text: The text.
            alpha: 0 gives all segmentations the same probability; a large number gives the most probable one.
            seed: Seed of the random numbers.
        """
        text = self._processor.Normalize(text)
        totals, arriving = self._forward(text, alpha)
        rng = random.Random(seed)
        ids: list[int] = []
        end = len(text)
        while end:
            start = _draw(arriving[end], totals[end], rng)
            piece = text[start:end]
            token_id = self._ids.get(piece)
            ids += [token_id] if token_id is not None else [self._bytes[byte] for byte in reversed(piece.encode())]
            end = start
        return ids[::-1]

    def _forward(self, text: str, alpha: float) -> tuple[list[float], list[list[tuple[int, float]]]]:
        """The forward pass over the lattice of pieces.

        Returns:
            For each index of the text, the logarithm of the summed weights of all segmentations of the text before it;
            and for each index, the pieces that end there: the start of each, and the logarithm of the summed weights of
            the segmentations that end with it.
        """
        scores, prefixes = self._scores, self._prefixes
        length = len(text)
        totals = [0.0] * (length + 1)
        arriving: list[list[tuple[int, float]]] = [[] for _ in range(length + 1)]
        for start in range(length + 1):
            if start:
                weights = [weight for _, weight in arriving[start]]
                largest = max(weights)
                totals[start] = largest + math.log(sum([math.exp(weight - largest) for weight in weights]))
            before = totals[start]
            for end in range(start + 1, length + 1):
                piece = text[start:end]
                if piece in scores:
                    arriving[end].append((start, before + alpha * scores[piece]))
                elif end == start + 1:
                    arriving[end].append((start, before + alpha * self._unknown_score))
                if piece not in prefixes:
                    break
        return totals, arriving


def _draw(arriving: list[tuple[int, float]], total: float, rng: random.Random) -> int:
    """Draw the start of a piece, with the weights of the pieces."""
    remaining = rng.random()
    for start, log_weight in arriving:
        remaining -= math.exp(log_weight - total)
        if remaining <= 0.0:
            return start
    return arriving[-1][0]  # rounding left a remainder
