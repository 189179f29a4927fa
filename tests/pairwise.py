"""Few combinations of the values of several parameters, instead of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations in which each pair of values of two parameters occurs; the same ones in every run."""

    def pairs(indices: Sequence[int]) -> set[tuple[tuple[int, int], ...]]:
        return set(combinations(enumerate(indices), 2))

    candidates = list(product(*(range(len(values)) for values in parameters)))
    missing = set().union(*map(pairs, candidates))
    chosen = []
    while missing:
        best = max(candidates, key=lambda indices: len(pairs(indices) & missing))
        missing -= pairs(best)
        chosen.append(tuple(values[index] for values, index in zip(parameters, best, strict=True)))
    return chosen
