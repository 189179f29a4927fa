"""Our attention and layers against torch's with the same weights, padding included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from model.attention import CrossAttention, SelfAttention, attention_weights, merge_heads, mix, split_heads
from model.layers import DecoderLayer, Dropout, EncoderLayer
from model.masks import causal_mask, padding_mask
from tests.model.torch_layers import (
    copy_attention,
    randomise,
    small_config,
    torch_decoder_layer,
    torch_encoder_layer,
)

LENGTHS = torch.tensor([7, 4, 1])
SOURCE = (torch.arange(7) < LENGTHS.unsqueeze(1)).long()  # 1 is a token, 0 is padding
REAL = SOURCE.bool()


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_heads_are_split_and_merged_without_loss() -> None:
    x = random(3, 5, 16)
    assert split_heads(x, 4).shape == (3, 4, 5, 4)
    assert torch.equal(merge_heads(split_heads(x, 4)), x)


def test_mixing_is_scaled_dot_product_attention() -> None:
    query, key, value = random(3, 4, 6, 8), random(3, 4, 7, 8), random(3, 4, 7, 8)
    may_attend = padding_mask(SOURCE, 0)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=may_attend)
    torch.testing.assert_close(mix(query, key, value, may_attend), expected, atol=1e-5, rtol=0)


def test_weights_sum_to_one_and_padding_gets_none() -> None:
    weights = attention_weights(random(3, 4, 6, 8), random(3, 4, 7, 8), padding_mask(SOURCE, 0))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 6))
    assert (weights.masked_select(~REAL.view(3, 1, 1, 7)) == 0).all()


def test_masks_by_hand() -> None:
    assert padding_mask(torch.tensor([[5, 6, 0]]), 0).tolist() == [[[[True, True, False]]]]
    assert causal_mask(3, torch.device("cpu")).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_self_attention_is_torchs() -> None:
    ours, theirs = SelfAttention(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    randomise(ours)
    copy_attention(theirs, ours)
    x = random(3, 7, 16)
    expected, weights = theirs(x, x, x, key_padding_mask=~REAL, average_attn_weights=False)
    found = ours(x, padding_mask(SOURCE, 0))
    torch.testing.assert_close(found[REAL], expected[REAL], atol=1e-5, rtol=0)
    query, key, _ = ours.project(x)
    torch.testing.assert_close(attention_weights(query, key, padding_mask(SOURCE, 0)), weights, atol=1e-5, rtol=0)


def test_cross_attention_is_torchs() -> None:
    ours, theirs = CrossAttention(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    randomise(ours)
    copy_attention(theirs, ours)
    x, memory = random(3, 5, 16), random(3, 7, 16)
    expected, _ = theirs(x, memory, memory, key_padding_mask=~REAL)
    found = ours(x, *ours.project_memory(memory), padding_mask(SOURCE, 0))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_an_encoder_layer_is_torchs(norm: Any, activation: Any) -> None:
    config = small_config(norm=norm, activation=activation)
    ours = EncoderLayer(config).eval()
    randomise(ours)
    x = random(3, 7, 16)
    expected = torch_encoder_layer(ours, config)(x, src_key_padding_mask=~REAL)
    found = ours(x, padding_mask(SOURCE, 0))
    torch.testing.assert_close(found[REAL], expected[REAL], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_decoder_layer_is_torchs(norm: Any, activation: Any) -> None:
    config = small_config(norm=norm, activation=activation)
    ours = DecoderLayer(config).eval()
    randomise(ours)
    x, memory = random(3, 5, 16), random(3, 7, 16)
    causal = causal_mask(5, torch.device("cpu"))
    expected = torch_decoder_layer(ours, config)(x, memory, tgt_mask=~causal, memory_key_padding_mask=~REAL)
    found = ours(x, memory, causal, padding_mask(SOURCE, 0))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_dropout_zeroes_the_share_it_says_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.25)
    x = torch.ones(1001, 333)
    dropped = dropout(x)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.005)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.01)
    assert dropped.unique().tolist() == pytest.approx([0.0, 256 / 192])
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_dropout_is_the_same_for_the_same_seed_and_has_a_gradient() -> None:
    dropout = Dropout(0.5)
    x = torch.ones(50, 3, requires_grad=True)
    torch.manual_seed(1)
    first = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    first.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, first.detach())
