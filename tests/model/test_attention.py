"""Attention compared with torch's with the same weights, including padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from model.network.attention import CrossAttention, SelfAttention, attention_weights, mix, split_heads
from model.network.masks import causal_mask, padding_mask
from tests.model.torch_layers import copy_attention, random_tensor, randomise

LENGTHS = torch.tensor([7, 4, 1])
SOURCE = (torch.arange(7) < LENGTHS.unsqueeze(1)).long()  # (B, S): 1 is a token, 0 is padding
REAL = SOURCE.bool()
MAY_ATTEND = padding_mask(SOURCE, 0)


def pair(kind: type[SelfAttention] | type[CrossAttention]) -> tuple[SelfAttention | CrossAttention, nn.Module]:
    """Our attention with random weights, and torch's with the same weights."""
    ours, theirs = kind(16, 4), nn.MultiheadAttention(16, 4, batch_first=True)
    randomise(ours)
    copy_attention(theirs, ours)
    return ours, theirs


def test_a_boolean_mask_is_an_additive_mask_of_minus_infinity() -> None:
    query, key = random_tensor(3, 4, 7, 4), random_tensor(3, 4, 7, 4, seed=1)
    may_attend = MAY_ATTEND & causal_mask(7, torch.device("cpu"))
    additive = torch.zeros(may_attend.shape).masked_fill(~may_attend, float("-inf"))
    scores = (query / 4**0.5) @ key.transpose(-2, -1)
    assert torch.equal(attention_weights(query, key, may_attend), (scores + additive).softmax(dim=-1))


def test_a_head_is_a_contiguous_share_of_the_width() -> None:
    x = random_tensor(3, 5, 16)
    assert torch.equal(split_heads(x, 4)[:, 1], x[:, :, 4:8])


def test_attention_is_torchs_scaled_dot_product_attention() -> None:
    query, key, value = random_tensor(3, 4, 6, 8), random_tensor(3, 4, 7, 8, seed=1), random_tensor(3, 4, 7, 8, seed=2)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=MAY_ATTEND)
    torch.testing.assert_close(mix(query, key, value, MAY_ATTEND), expected, atol=1e-5, rtol=0)


def test_padding_gets_no_weight() -> None:
    weights = attention_weights(random_tensor(3, 4, 6, 8), random_tensor(3, 4, 7, 8, seed=1), MAY_ATTEND)
    assert (weights.masked_select(~MAY_ATTEND) == 0).all()
    assert (weights.masked_select(MAY_ATTEND) > 0).all()


def test_large_scores_do_not_overflow() -> None:
    weights = attention_weights(random_tensor(3, 4, 6, 8) * 1e4, random_tensor(3, 4, 7, 8, seed=1) * 1e4, MAY_ATTEND)
    assert weights.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_torchs(causal: bool) -> None:
    ours, theirs = pair(SelfAttention)
    assert isinstance(ours, SelfAttention)
    x = random_tensor(3, 7, 16)
    past = causal_mask(7, torch.device("cpu")) if causal else torch.ones(7, 7, dtype=torch.bool)
    expected, weights = theirs(x, x, x, key_padding_mask=~REAL, attn_mask=~past, average_attn_weights=False)
    may_attend = MAY_ATTEND & past
    torch.testing.assert_close(ours(x, may_attend), expected, atol=1e-5, rtol=0)
    query, key, _ = ours.project(x)
    torch.testing.assert_close(attention_weights(query, key, may_attend), weights, atol=1e-5, rtol=0)


def test_cross_attention_is_torchs() -> None:
    ours, theirs = pair(CrossAttention)
    assert isinstance(ours, CrossAttention)
    x, memory = random_tensor(3, 5, 16), random_tensor(3, 7, 16, seed=1)
    expected, weights = theirs(x, memory, memory, key_padding_mask=~REAL, average_attn_weights=False)
    key, value = ours.project_memory(memory)
    torch.testing.assert_close(ours(x, key, value, MAY_ATTEND), expected, atol=1e-5, rtol=0)
    actual = attention_weights(ours.project_query(x), key, MAY_ATTEND)
    torch.testing.assert_close(actual, weights, atol=1e-5, rtol=0)


def test_gradients_are_torchs() -> None:
    ours, theirs = pair(SelfAttention)
    mine, other = random_tensor(3, 7, 16).requires_grad_(), random_tensor(3, 7, 16).requires_grad_()
    ours(mine, MAY_ATTEND).square().sum().backward()
    theirs(other, other, other, key_padding_mask=~REAL)[0].square().sum().backward()
    assert mine.grad is not None and other.grad is not None
    torch.testing.assert_close(mine.grad, other.grad, atol=1e-4, rtol=1e-4)


def test_each_stacked_projection_is_initialised_within_its_own_xavier_bound() -> None:
    torch.manual_seed(0)
    for attention in (SelfAttention(64, 4), CrossAttention(64, 4)):
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):
                assert not parameter.any()
            else:
                # sqrt(6 / (64 + 64)); the bound of one stacked matrix would be smaller.
                assert 0.95 * 0.2165 < float(parameter.detach().abs().max()) <= 0.2166
