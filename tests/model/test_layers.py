"""Encoder and decoder layers compared with torch's with the same weights; dropout compared with its definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from model.network.layers import DecoderLayer, Dropout, EncoderLayer, FeedForward
from model.network.masks import causal_mask, padding_mask
from tests.model.torch_layers import random_tensor, randomise, small_config, torch_decoder_layer, torch_encoder_layer

SOURCE = (torch.arange(7) < torch.tensor([[7], [4], [1]])).long()  # 1 is a token, 0 is padding
REAL = SOURCE.bool()
MAY_ATTEND = padding_mask(SOURCE, 0)
CAUSAL = causal_mask(5, torch.device("cpu"))

every_norm = pytest.mark.parametrize("norm", ["pre", "post"])
every_activation = pytest.mark.parametrize("activation", ["relu", "silu", "gelu"])


def encoder_layer(**changes: Any) -> EncoderLayer:
    layer = EncoderLayer(small_config(**changes)).eval()
    randomise(layer)
    return layer


def decoder_layer(**changes: Any) -> DecoderLayer:
    layer = DecoderLayer(small_config(**changes)).eval()
    randomise(layer)
    return layer


@every_activation
def test_feed_forward_is_two_linear_layers_around_the_activation(activation: str) -> None:
    feed_forward = FeedForward(small_config(activation=activation))
    randomise(feed_forward)
    x = random_tensor(3, 5, 16)
    wide, narrow = feed_forward.wide, feed_forward.narrow
    hidden = x @ wide.weight.T + wide.bias
    activated = {
        "relu": hidden.clamp(min=0),
        "silu": hidden * hidden.sigmoid(),
        "gelu": hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5)),
    }[activation]
    torch.testing.assert_close(feed_forward(x), activated @ narrow.weight.T + narrow.bias, atol=1e-5, rtol=1e-5)


@every_activation
@every_norm
def test_an_encoder_layer_is_torchs(norm: str, activation: str) -> None:
    ours = encoder_layer(norm=norm, activation=activation)
    x = random_tensor(3, 7, 16)
    theirs = torch_encoder_layer(ours, small_config(norm=norm, activation=activation))
    expected = theirs(x, src_key_padding_mask=~REAL)
    torch.testing.assert_close(ours(x, MAY_ATTEND)[REAL], expected[REAL], atol=1e-5, rtol=1e-5)


@every_activation
@every_norm
def test_a_decoder_layer_is_torchs(norm: str, activation: str) -> None:
    ours = decoder_layer(norm=norm, activation=activation)
    x, memory = random_tensor(3, 5, 16), random_tensor(3, 7, 16, seed=1)
    theirs = torch_decoder_layer(ours, small_config(norm=norm, activation=activation))
    expected = theirs(x, memory, tgt_mask=~CAUSAL, memory_key_padding_mask=~REAL)
    torch.testing.assert_close(ours(x, memory, CAUSAL, MAY_ATTEND), expected, atol=1e-5, rtol=1e-5)


@every_norm
def test_the_epsilon_of_the_norms_is_the_configured_one(norm: str) -> None:
    for layer in (encoder_layer(norm=norm, layer_norm_eps=0.25), decoder_layer(norm=norm, layer_norm_eps=0.25)):
        assert {module.eps for module in layer.modules() if isinstance(module, nn.LayerNorm)} == {0.25}


@every_norm
def test_cached_steps_equal_the_full_layer(norm: str) -> None:
    layer = decoder_layer(norm=norm)
    x, memory = random_tensor(3, 5, 16), random_tensor(3, 7, 16, seed=1)
    at_once = layer(x, memory, CAUSAL, MAY_ATTEND)
    cross_cache = torch.stack(layer.cross_attention.project_memory(memory))
    self_cache = torch.full((2, 3, 4, 5, 4), torch.nan)  # a column that is read before it is written would give NaN
    for column in range(5):
        observed = torch.ones(1, 1, 1, column + 1, dtype=torch.bool)
        with torch.no_grad():
            step = layer.step(x[:, column : column + 1], self_cache, cross_cache, column, observed, MAY_ATTEND)
        torch.testing.assert_close(step[:, 0], at_once[:, column], atol=1e-5, rtol=1e-5)


@every_norm
def test_several_hypotheses_step_independently(norm: str) -> None:
    layer = decoder_layer(norm=norm)
    hypotheses, memory = random_tensor(3, 4, 5, 16), random_tensor(3, 7, 16, seed=1)  # (B, K, T, C)
    cross_cache = torch.stack(layer.cross_attention.project_memory(memory))
    self_cache = torch.zeros(2, 12, 4, 5, 4)
    for column in range(5):
        observed = torch.ones(1, 1, 1, column + 1, dtype=torch.bool)
        with torch.no_grad():
            step = layer.step(hypotheses[:, :, column], self_cache, cross_cache, column, observed, MAY_ATTEND)
        for k in range(4):
            alone = layer(hypotheses[:, k], memory, CAUSAL, MAY_ATTEND)
            torch.testing.assert_close(step[:, k], alone[:, column], atol=1e-5, rtol=1e-5)


@every_norm
def test_returning_weights_does_not_change_the_output_of_a_layer(norm: str) -> None:
    layer = decoder_layer(norm=norm)
    x, memory = random_tensor(3, 5, 16), random_tensor(3, 7, 16, seed=1)
    output, own, across = layer.attend(x, memory, CAUSAL, MAY_ATTEND)
    assert torch.equal(output, layer(x, memory, CAUSAL, MAY_ATTEND))
    inner = layer.self_attention_norm(x) if norm == "pre" else x
    theirs = torch_decoder_layer(layer, small_config(norm=norm))
    _, expected = theirs.self_attn(inner, inner, inner, attn_mask=~CAUSAL, average_attn_weights=False)
    torch.testing.assert_close(own, expected, atol=1e-5, rtol=0)
    after = x + layer.self_attention(inner, CAUSAL)
    after = layer.cross_attention_norm(after) if norm == "pre" else layer.self_attention_norm(after)
    _, expected = theirs.multihead_attn(after, memory, memory, key_padding_mask=~REAL, average_attn_weights=False)
    torch.testing.assert_close(across, expected, atol=1e-5, rtol=0)


@every_norm
def test_an_encoder_layer_returns_torchs_weights(norm: str) -> None:
    layer = encoder_layer(norm=norm)
    x = random_tensor(3, 7, 16)
    inner = layer.self_attention_norm(x) if norm == "pre" else x
    theirs = torch_encoder_layer(layer, small_config(norm=norm))
    _, expected = theirs.self_attn(inner, inner, inner, key_padding_mask=~REAL, average_attn_weights=False)
    torch.testing.assert_close(layer.weights(x, MAY_ATTEND), expected, atol=1e-5, rtol=0)


def test_layers_drop_in_training_and_not_in_evaluation() -> None:
    torch.manual_seed(0)
    layer = encoder_layer(dropout=0.5)
    x = random_tensor(3, 7, 16)
    assert torch.equal(layer(x, MAY_ATTEND), layer(x, MAY_ATTEND))
    layer.train()
    assert not torch.equal(layer(x, MAY_ATTEND), layer(x, MAY_ATTEND))


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5])
def test_dropout_zeroes_its_probability_and_keeps_the_mean(probability: float) -> None:
    torch.manual_seed(0)
    dropout = Dropout(probability)
    dropped = dropout(torch.ones(1001, 333))
    assert float((dropped == 0).float().mean()) == pytest.approx(probability, abs=0.005)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.01)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - round(probability * 256) / 256)])


def test_dropout_is_the_same_for_the_same_seed_and_its_gradient_is_its_mask() -> None:
    dropout = Dropout(0.5)
    x = torch.ones(50, 3, requires_grad=True)
    torch.manual_seed(1)
    first = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    first.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, first.detach())


def test_an_encoder_layer_in_float16_stays_finite() -> None:
    layer = EncoderLayer(small_config()).half()
    x = torch.full((1, 2, 16), 60000.0, dtype=torch.float16)
    with torch.no_grad():
        layer.feed_forward.narrow.bias.fill_(60000.0)
        result = layer(x, torch.ones(1, 1, 2, 2, dtype=torch.bool))
    assert torch.isfinite(result).all()
    assert float(result.max()) == 64512.0, "the nearest float16 below the bound"
