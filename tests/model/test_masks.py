"""Masks, compared with hand-written ones."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from model.network.masks import causal_mask, padding_mask
from model.network.padding import pad

CPU = torch.device("cpu")


def test_tokens_may_be_attended_to_and_padding_may_not() -> None:
    assert padding_mask(torch.tensor([[5, 6, 0], [7, 0, 0]]), 0).tolist() == [
        [[[True, True, False]]],
        [[[True, False, False]]],
    ]


def test_the_padding_token_is_that_of_the_vocabulary() -> None:
    assert padding_mask(torch.tensor([[0, 9]]), 9).tolist() == [[[[True, False]]]]


def test_each_position_sees_itself_and_the_past() -> None:
    assert causal_mask(3, CPU).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_two_masks_broadcast_to_heads_and_queries() -> None:
    both = padding_mask(torch.tensor([[5, 6, 0], [7, 0, 0]]), 0) & causal_mask(3, CPU)
    assert both.shape == (2, 1, 3, 3)
    assert both[1, 0].tolist() == [[True, False, False]] * 3


@given(st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=5))
def test_padded_rows_and_their_mask_give_the_original_rows(rows: list[list[int]]) -> None:
    padded = pad(rows, 0)
    assert padded.shape == (len(rows), max(map(len, rows)))
    assert padded.dtype == torch.int64
    mask = padding_mask(padded, 0)[:, 0, 0]
    assert [row[real].tolist() for row, real in zip(padded, mask, strict=True)] == rows
