"""torch's layers with the weights of this project's layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from model.network.attention import CrossAttention, SelfAttention
from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.transformer import Transformer

ACTIVATIONS: dict[str, Any] = {"relu": nn.functional.relu, "silu": nn.functional.silu, "gelu": nn.functional.gelu}


def small_config(**changes: Any) -> ModelConfig:
    """A small architecture, no dropout."""
    values: dict[str, Any] = {
        "source_vocab_size": 20,
        "target_vocab_size": 20,
        "d_model": 16,
        "num_heads": 4,
        "d_ff": 24,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "dropout": 0.0,
        "max_positions": 40,
    }
    return ModelConfig(**{**values, **changes})


def randomise(module: nn.Module, seed: int = 0) -> None:
    """Random weights, biases and norms, all different from their initial values."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)


def copy_linear(target: Any, source: nn.Linear) -> None:
    target.weight.copy_(source.weight)
    target.bias.copy_(source.bias)


def copy_attention(target: nn.MultiheadAttention, source: SelfAttention | CrossAttention) -> None:
    with torch.no_grad():
        if isinstance(source, SelfAttention):
            target.in_proj_weight.copy_(source.query_key_value.weight)
            target.in_proj_bias.copy_(source.query_key_value.bias)
        else:
            target.in_proj_weight.copy_(torch.cat([source.query.weight, source.key_value.weight]))
            target.in_proj_bias.copy_(torch.cat([source.query.bias, source.key_value.bias]))
        copy_linear(target.out_proj, source.output)


def torch_arguments(config: ModelConfig) -> dict[str, Any]:
    """The arguments of torch's layers for an architecture."""
    return {
        "d_model": config.d_model,
        "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "activation": ACTIVATIONS[config.activation],
        "batch_first": True,
        "norm_first": config.norm == "pre",
    }


def torch_encoder_layer(layer: EncoderLayer, config: ModelConfig) -> nn.TransformerEncoderLayer:
    other = nn.TransformerEncoderLayer(**torch_arguments(config)).eval()
    with torch.no_grad():
        copy_attention(other.self_attn, layer.self_attention)
        copy_linear(other.linear1, layer.feed_forward.wide)
        copy_linear(other.linear2, layer.feed_forward.narrow)
        copy_linear(other.norm1, layer.self_attention_norm)  # type: ignore[arg-type]
        copy_linear(other.norm2, layer.feed_forward_norm)  # type: ignore[arg-type]
    return other


def torch_decoder_layer(layer: DecoderLayer, config: ModelConfig) -> nn.TransformerDecoderLayer:
    other = nn.TransformerDecoderLayer(**torch_arguments(config)).eval()
    with torch.no_grad():
        copy_attention(other.self_attn, layer.self_attention)
        copy_attention(other.multihead_attn, layer.cross_attention)
        copy_linear(other.linear1, layer.feed_forward.wide)
        copy_linear(other.linear2, layer.feed_forward.narrow)
        copy_linear(other.norm1, layer.self_attention_norm)  # type: ignore[arg-type]
        copy_linear(other.norm2, layer.cross_attention_norm)  # type: ignore[arg-type]
        copy_linear(other.norm3, layer.feed_forward_norm)  # type: ignore[arg-type]
    return other


def torch_logits(ours: Transformer, config: ModelConfig, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The logits of nn.Transformer's parts with the same weights."""
    pad = source == ours.pad_id
    x = ours.source_embedding(source, torch.arange(source.size(1)))
    for layer in ours.encoder:
        assert isinstance(layer, EncoderLayer)
        x = torch_encoder_layer(layer, config)(x, src_key_padding_mask=pad)
    memory = ours.encoder_norm(x)
    y = ours.target_embedding(target, torch.arange(target.size(1)))
    future = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
    for layer in ours.decoder:
        assert isinstance(layer, DecoderLayer)
        y = torch_decoder_layer(layer, config)(y, memory, tgt_mask=future, memory_key_padding_mask=pad)
    return ours.output(ours.decoder_norm(y))  # type: ignore[no-any-return]


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    """Normally distributed numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
