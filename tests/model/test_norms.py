"""The position and the parameters of norms: each kind compared with torch's parts with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.artifacts.manifest import Precision
from model.artifacts.script import script
from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.masks import causal_mask, padding_mask
from model.network.norms import ScalarLayerNorm
from model.network.quantised import int8_is_supported
from model.network.transformer import Transformer
from tests.model.torch_layers import copy_attention, randomise, small_config, torch_logits

PAD = 0
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [4, 3, 2, PAD, PAD, PAD]])
TARGET = torch.tensor([[1, 12, 13, 14, 15], [1, 16, 17, PAD, PAD]])

KINDS: dict[str, dict[str, Any]] = {
    "scalar gain, no biases": {"norm": "pre", "layer_norm_gain": "scalar", "attention_bias": False},
    "scalar gain, post": {"norm": "post", "layer_norm_gain": "scalar"},
    "residual-post": {"norm": "residual-post"},
    "residual-post, scalar gain, no biases": {
        "norm": "residual-post",
        "layer_norm_gain": "scalar",
        "attention_bias": False,
    },
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def transformer(**changes: Any) -> tuple[Transformer, ModelConfig]:
    config = small_config(**changes)
    model = Transformer(config, PAD).eval()
    randomise(model)
    return model, config


def with_vector_gains(scalar: Transformer, **changes: Any) -> tuple[Transformer, ModelConfig]:
    """The same model with a gain for each column and, if it has no biases, biases of zero."""
    config = small_config(**{**changes, "layer_norm_gain": "vector", "attention_bias": True})
    model = Transformer(config, PAD).eval()
    weights = scalar.state_dict()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name].expand_as(parameter) if name in weights else torch.zeros_like(parameter))
    return model, config


def test_a_scalar_norm_is_torchs_with_equal_gains() -> None:
    norm = ScalarLayerNorm(16, eps=0.25)
    randomise(norm)
    x = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0))
    expected = F.layer_norm(x, (16,), norm.weight.expand(16), norm.bias.expand(16), 0.25)
    torch.testing.assert_close(norm(x), expected)
    assert [tuple(parameter.shape) for parameter in norm.parameters()] == [(1,), (1,)]


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_a_model_with_scalar_gains_and_no_biases_is_torchs(norm: str) -> None:
    changes = {"norm": norm, "layer_norm_gain": "scalar", "attention_bias": False}
    ours, _ = transformer(**changes)
    spelled_out, config = with_vector_gains(ours, **changes)
    expected = torch_logits(spelled_out, config, SOURCE, TARGET)
    real = TARGET != PAD
    torch.testing.assert_close(ours(SOURCE, TARGET)[real], expected[real], atol=1e-5, rtol=1e-5)


def torch_attention(layer: Any, config: ModelConfig) -> nn.MultiheadAttention:
    model = nn.MultiheadAttention(config.d_model, config.num_heads, batch_first=True).eval()
    copy_attention(model, layer)
    return model


def torch_norm(norm: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(norm, nn.LayerNorm)
    return F.layer_norm(x, (x.size(-1),), norm.weight, norm.bias, norm.eps)


def residual_post_encoder(layer: EncoderLayer, config: ModelConfig, x: Tensor, pad: Tensor) -> Tensor:
    """``x + norm(f(x))``, composed of torch's layers."""
    mixed, _ = torch_attention(layer.self_attention, config)(x, x, x, key_padding_mask=pad, need_weights=False)
    x = x + torch_norm(layer.self_attention_norm, mixed)
    wide, narrow = layer.feed_forward.wide, layer.feed_forward.narrow
    hidden = F.linear(F.relu(F.linear(x, wide.weight, wide.bias)), narrow.weight, narrow.bias)
    return x + torch_norm(layer.feed_forward_norm, hidden)


def residual_post_decoder(layer: DecoderLayer, config: ModelConfig, x: Tensor, memory: Tensor, pad: Tensor) -> Tensor:
    future = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
    mixed, _ = torch_attention(layer.self_attention, config)(x, x, x, attn_mask=future, need_weights=False)
    x = x + torch_norm(layer.self_attention_norm, mixed)
    across = torch_attention(layer.cross_attention, config)
    mixed, _ = across(x, memory, memory, key_padding_mask=pad, need_weights=False)
    x = x + torch_norm(layer.cross_attention_norm, mixed)
    wide, narrow = layer.feed_forward.wide, layer.feed_forward.narrow
    hidden = F.linear(F.relu(F.linear(x, wide.weight, wide.bias)), narrow.weight, narrow.bias)
    return x + torch_norm(layer.feed_forward_norm, hidden)


def test_residual_post_layers_are_composed_of_torchs_parts() -> None:
    config = small_config(norm="residual-post")
    encoder, decoder = EncoderLayer(config).eval(), DecoderLayer(config).eval()
    randomise(encoder)
    randomise(decoder, seed=1)
    generator = torch.Generator().manual_seed(2)
    memory, x = torch.randn(2, 6, 16, generator=generator), torch.randn(2, 5, 16, generator=generator)
    pad = SOURCE == PAD
    may_attend = padding_mask(SOURCE, PAD)
    actual, expected = encoder(memory, may_attend), residual_post_encoder(encoder, config, memory, pad)
    torch.testing.assert_close(actual[~pad], expected[~pad], atol=1e-5, rtol=1e-5)
    actual = decoder(x, memory, causal_mask(5, x.device), may_attend)
    torch.testing.assert_close(actual, residual_post_decoder(decoder, config, x, memory, pad), atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_a_residual_post_model_equals_torchs_parts_without_norms_after_the_stacks() -> None:
    ours, config = transformer(norm="residual-post")
    pad = SOURCE == PAD
    x = ours.source_embedding(SOURCE, torch.arange(6))
    for layer in ours.encoder:
        assert isinstance(layer, EncoderLayer)
        x = residual_post_encoder(layer, config, x, pad)
    y = ours.target_embedding(TARGET, torch.arange(5))
    for decoder_layer in ours.decoder:
        assert isinstance(decoder_layer, DecoderLayer)
        y = residual_post_decoder(decoder_layer, config, y, x, pad)
    real = TARGET != PAD
    torch.testing.assert_close(ours(SOURCE, TARGET)[real], ours.output(y)[real], atol=1e-5, rtol=1e-5)


@every_kind
@torch.inference_mode()
def test_a_cached_step_equals_the_full_pass(kind: str) -> None:
    ours, config = transformer(**KINDS[kind])
    cross_cache = ours.project_memory(ours.encode(SOURCE))
    at_once = ours(SOURCE, TARGET)
    cache = torch.full((config.decoder_layers, 2, 2, config.num_heads, 5, 4), torch.nan)
    for column in range(5):
        observed = torch.ones(1, 1, 1, column + 1, dtype=torch.bool)
        step = ours.step(
            TARGET[:, column : column + 1],
            torch.tensor(column),
            cache,
            cross_cache,
            column,
            observed,
            padding_mask(SOURCE, PAD),
        )
        torch.testing.assert_close(step[:, 0], at_once[:, column], atol=1e-5, rtol=1e-5)


@every_kind
@torch.inference_mode()
def test_a_step_in_slots_equals_the_full_pass(kind: str) -> None:
    ours, config = transformer(**KINDS[kind])
    cross_cache = ours.project_memory(ours.encode(SOURCE))
    at_once = ours(SOURCE, TARGET)
    # Masked values may be anything finite: they are multiplied by a weight of zero.
    cache = torch.full((config.decoder_layers, 2, 2, config.num_heads, 7, 4), 1e4)
    for column in range(5):
        observed = (torch.arange(7) <= column).view(1, 1, 1, 7)
        columns = torch.full((2, 1), column)
        step = ours.step_slots(
            TARGET[:, column : column + 1], columns, cache, cross_cache, columns, observed, padding_mask(SOURCE, PAD)
        )
        torch.testing.assert_close(step[:, 0], at_once[:, column], atol=1e-5, rtol=1e-5)


@every_kind
@torch.inference_mode()
def test_the_scripted_model_equals_the_eager_one(kind: str) -> None:
    ours, config = transformer(**KINDS[kind])
    module = script(ours, "float32")
    torch.testing.assert_close(module.forward(SOURCE, TARGET), ours(SOURCE, TARGET), atol=1e-5, rtol=1e-5)
    for first, other in zip(module.attend(SOURCE, TARGET), ours.attend(SOURCE, TARGET), strict=True):
        torch.testing.assert_close(first, other, atol=1e-5, rtol=0)
    caches = [torch.zeros(config.decoder_layers, 2, 2, config.num_heads, 1, 4) for _ in range(2)]
    stepped = [
        model.step(
            TARGET[:, :1],
            torch.tensor(0),
            cache,
            model.project_memory(model.encode(SOURCE)),
            0,
            torch.ones(1, 1, 1, 1, dtype=torch.bool),
            padding_mask(SOURCE, PAD),
        )
        for model, cache in zip((module, ours), caches, strict=True)
    ]
    torch.testing.assert_close(stepped[0], stepped[1], atol=1e-5, rtol=1e-5)


@pytest.mark.sampled(4)
@every_kind
@pytest.mark.parametrize("precision", ["float16", "bfloat16", *(["int8"] if int8_is_supported() else [])])
@torch.inference_mode()
def test_a_lower_precision_is_close(kind: str, precision: Precision) -> None:
    ours, _ = transformer(**KINDS[kind])
    logits = script(ours, precision).forward(SOURCE, TARGET).float()
    expected = ours(SOURCE, TARGET)
    real = TARGET != PAD
    assert float((logits - expected)[real].norm() / expected[real].norm()) < 0.05


@every_kind
def test_every_parameter_learns(kind: str) -> None:
    model, _ = transformer(**KINDS[kind], share_embeddings=False, tie_output=False)
    model(SOURCE, TARGET).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@every_kind
@torch.inference_mode()
def test_the_weights_of_every_layer_are_returned(kind: str) -> None:
    ours, config = transformer(**KINDS[kind])
    encoder, decoder, cross = ours.attend(SOURCE, TARGET)
    assert encoder.shape == (2, config.encoder_layers, config.num_heads, 6, 6)
    assert decoder.shape == (2, config.decoder_layers, config.num_heads, 5, 5)
    assert cross.shape == (2, config.decoder_layers, config.num_heads, 5, 6)
    for weights in (encoder, decoder, cross):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


@every_kind
@torch.inference_mode()
def test_returning_the_weights_uses_the_same_computation(kind: str) -> None:
    ours, _ = transformer(**KINDS[kind])
    layer = ours.decoder[1]
    assert isinstance(layer, DecoderLayer)
    memory, x = ours.encode(SOURCE), torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(3))
    masks = causal_mask(5, x.device), padding_mask(SOURCE, PAD)
    assert torch.equal(layer.attend(x, memory, *masks)[0], layer(x, memory, *masks))
