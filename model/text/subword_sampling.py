"""Random segmentations of a text into the pieces of a unigram vocabulary (Kudo 2018, arXiv:1804.10959, section 3.2).

SentencePiece samples from the same distribution, but mixes its seed with a number that differs from process to process.
A run that resumes in the middle of an epoch, and processes that train together, need the same segmentations.
"""

from __future__ import annotations

import math
import random

import sentencepiece

_UNKNOWN_PENALTY = 10.0
"""How much less likely than the rarest piece a character without a piece is, as in SentencePiece."""


def text_pieces(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """The pieces that a text may be split into, without tokens of single bytes, and their ids.

    Args:
        processor: A vocabulary.
    """
    return {
        processor.IdToPiece(number): number
        for number in range(processor.GetPieceSize())
        if not (
            processor.IsControl(number)
            or processor.IsUnknown(number)
            or processor.IsByte(number)
            or processor.IsUnused(number)
        )
    }


class SubwordSampler:
    """Samples segmentations; the same seed gives the same one in every process.

    Args:
        processor: A unigram vocabulary with byte fallback.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        self._bytes = [processor.PieceToId(f"<0x{byte:02X}>") for byte in range(256)]
        self._ids = text_pieces(processor)
        self._scores = {piece: processor.GetScore(number) for piece, number in self._ids.items()}
        self._prefixes = {piece[:length] for piece in self._ids for length in range(1, len(piece) + 1)}
        self._unknown_score = min(self._scores.values(), default=0.0) - _UNKNOWN_PENALTY

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """The pieces of a random segmentation, with a probability proportional to that of the vocabulary ** alpha.

        Args:
            text: The text.
            alpha: 0 takes all segmentations with the same probability; a large number takes the most probable one.
            seed: Seed of the random numbers.
        """
        text = self._processor.Normalize(text)
        totals, arriving = self._forward(text, alpha)
        rng = random.Random(seed)
        ids: list[int] = []
        end = len(text)
        while end:
            start = _drawn(arriving[end], totals[end], rng)
            piece = text[start:end]
            number = self._ids.get(piece)
            ids += [number] if number is not None else [self._bytes[byte] for byte in reversed(piece.encode())]
            end = start
        return ids[::-1]

    def _forward(self, text: str, alpha: float) -> tuple[list[float], list[list[tuple[int, float]]]]:
        """For each index of the text, the summed weight of its beginning, and of those that end in each piece.

        Returns:
            Logarithms of the sums, and for each index the start of each piece that ends there, with the logarithm of
            the weight of the segmentations that end in it.
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


def _drawn(arriving: list[tuple[int, float]], total: float, rng: random.Random) -> int:
    """The start of a piece, drawn with the weights of the pieces."""
    draw = rng.random()
    for start, log_weight in arriving:
        draw -= math.exp(log_weight - total)
        if draw <= 0.0:
            return start
    return arriving[-1][0]  # rounding left a rest
