"""Embeddings: the paper's sines and cosines, and the scale of the input of the first layer."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from model.network.config import ModelConfig
from model.network.embeddings import Embedding, position_table


def embedding_of(vocab_size: int, d_model: int, max_positions: int, **more: Any) -> Embedding:
    return Embedding(ModelConfig(vocab_size, vocab_size, d_model, max_positions=max_positions, **more), vocab_size)


def test_positions_are_the_papers_sines_and_cosines() -> None:
    table = position_table("interleaved", 512, 8)
    assert table.shape == (512, 8)
    assert table.dtype == torch.float32
    for position in range(0, 512, 37):
        for column in range(8):
            angle = position / 10000 ** ((column - column % 2) / 8)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(table[position, column]) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("layout", "steps"), [("halves", 4.0), ("tensor2tensor", 3.0)])
def test_other_families_put_sines_before_cosines(layout: Any, steps: float) -> None:
    table = position_table(layout, 40, 8, offset=2)
    for row in (0, 1, 39):
        for column in range(4):
            angle = (row + 2) / 10000 ** (column / steps)
            assert float(table[row, column]) == pytest.approx(math.sin(angle), abs=1e-5)
            assert float(table[row, column + 4]) == pytest.approx(math.cos(angle), abs=1e-5)


def test_learned_positions_are_parameters() -> None:
    embedding = embedding_of(10, 16, 5, positions="learned")
    assert set(dict(embedding.named_parameters())) == {"tokens.weight", "positions"}


def test_an_unscaled_embedding_equals_the_hand_computed_one() -> None:
    embedding = embedding_of(10, 16, 5, scale_embedding=False)
    summed = embedding.tokens.weight[3] + embedding.positions[1]
    result = embedding(torch.tensor([[3]]), torch.tensor([1]))[0, 0]
    torch.testing.assert_close(result, summed)


def test_a_token_is_scaled_and_its_place_added() -> None:
    embedding = embedding_of(10, 16, 5)
    result = embedding(torch.tensor([[3, 7]]), torch.tensor([0, 4]))
    torch.testing.assert_close(result[0, 0], embedding.tokens.weight[3] * 4.0 + position_table("interleaved", 5, 16)[0])
    torch.testing.assert_close(result[0, 1], embedding.tokens.weight[7] * 4.0 + position_table("interleaved", 5, 16)[4])


def test_every_row_may_have_its_own_position() -> None:
    embedding = embedding_of(10, 16, 5)
    token_ids = torch.tensor([[3, 4], [5, 6]])
    together = embedding(token_ids, torch.tensor([[2], [4]]))
    for row, position in enumerate((2, 4)):
        alone = embedding(token_ids[row : row + 1], torch.tensor([position, position]))
        assert torch.equal(together[row], alone[0])


def test_the_position_table_is_not_stored() -> None:
    assert list(embedding_of(10, 16, 5).state_dict()) == ["tokens.weight"]
