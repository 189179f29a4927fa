"""Encoder and decoder layers: their sub-layers, residual connections and norms.

Pre-norm computes ``x + f(norm(x))``, post-norm ``norm(x + f(x))``, residual-post-norm ``x + norm(f(x))``. Each
sub-layer has a norm of its own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.network.attention import CrossAttention, SelfAttention, attention_weights, merge_heads, mix
from model.network.config import ModelConfig
from model.network.norms import layer_norm


class Dropout(nn.Module):
    """Zero values at random in training and scale the others up (Srivastava et al. 2014).

    Differs from ``nn.Dropout`` in its random numbers: one 64-bit random number decides eight values, so the probability
    is rounded to a 256th. On a CPU, ``nn.Dropout`` draws one random number per value, which takes five times as long as
    the matrix product beside it.

    Args:
        probability: Probability of zeroing a value, rounded to a 256th.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.threshold = min(255, round(probability * 256))

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to ``x``, of any shape; the identity outside training."""
        if not self.training or self.threshold == 0:
            return x
        draws = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        # Without an upper bound all 64 bits are random, so every byte is uniform.
        draws.random_(-(2**63), None)
        # The mask has the type of x, because a product of two different types takes several times as long.
        keep = torch.empty_like(x, requires_grad=False)
        torch.ge(draws.view(torch.uint8)[: x.numel()].view(x.shape), self.threshold, out=keep)
        return x * keep * (256.0 / (256 - self.threshold))


class FeedForward(nn.Module):
    """Two projections with an activation between them, applied per position (Vaswani et al. 2017, section 3.3).

    Args:
        config: Gives ``d_model``, ``d_ff`` and ``activation``.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation: str = config.activation
        self.wide = nn.Linear(config.d_model, config.d_ff)
        self.narrow = nn.Linear(config.d_ff, config.d_model)
        for linear in (self.wide, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map each position of ``x``, (B, T, C), to (B, T, C)."""
        hidden = self.wide(x)
        if self.activation == "relu":
            hidden = F.relu(hidden)
        elif self.activation == "silu":
            hidden = F.silu(hidden)
        else:
            hidden = F.gelu(hidden)
        return self.narrow(hidden)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward.

    Args:
        config: The architecture.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.residual_post_norm = config.norm == "residual-post"
        self.self_attention = SelfAttention(config.d_model, config.num_heads, config.attention_bias)
        self.self_attention_norm = layer_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = layer_norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, may_attend: Tensor) -> Tensor:
        """Apply the layer.

        Args:
            x: Source positions, (B, S, C).
            may_attend: Booleans that broadcast to (B, H, S, S).

        Returns:
            (B, S, C).
        """
        if self.pre_norm:
            x = x + self.dropout(self.self_attention(self.self_attention_norm(x), may_attend))
            x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        elif self.residual_post_norm:
            x = x + self.dropout(self.self_attention_norm(self.self_attention(x, may_attend)))
            x = x + self.dropout(self.feed_forward_norm(self.feed_forward(x)))
        else:
            x = self.self_attention_norm(x + self.dropout(self.self_attention(x, may_attend)))
            x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        if x.dtype == torch.float16:
            # Sums in a deep stack may exceed float16's range (65504); Hugging Face clamps them at the same point.
            x = x.clamp(-64504.0, 64504.0)
        return x

    def weights(self, x: Tensor, may_attend: Tensor) -> Tensor:
        """The self-attention weights this layer uses on ``x``: (B, H, S, S)."""
        query, key, _ = self.self_attention.project(self.self_attention_norm(x) if self.pre_norm else x)
        return attention_weights(query, key, may_attend)


class BaseDecoderLayer(nn.Module):
    """The sub-layers that all decoders have: cross-attention to the memory, then feed-forward.

    The sub-layer before these mixes target positions. A subclass adds it.

    Args:
        config: The architecture.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.residual_post_norm = config.norm == "residual-post"
        self._add_target_sublayer(config)
        self.cross_attention = CrossAttention(config.d_model, config.num_heads, config.attention_bias)
        self.cross_attention_norm = layer_norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = layer_norm(config)
        self.dropout = Dropout(config.dropout)

    def _add_target_sublayer(self, config: ModelConfig) -> None:
        """Set the modules of the first sub-layer."""
        raise NotImplementedError

    def _after_target(self, x: Tensor, key: Tensor, value: Tensor, may_attend_memory: Tensor) -> Tensor:
        """The cross-attention and feed-forward sub-layers: (B, T, C) to (B, T, C)."""
        if self.pre_norm:
            x = x + self.dropout(self.cross_attention(self.cross_attention_norm(x), key, value, may_attend_memory))
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        if self.residual_post_norm:
            mixed = self.cross_attention(x, key, value, may_attend_memory)
            x = x + self.dropout(self.cross_attention_norm(mixed))
            return x + self.dropout(self.feed_forward_norm(self.feed_forward(x)))
        x = self.cross_attention_norm(x + self.dropout(self.cross_attention(x, key, value, may_attend_memory)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))

    def _cross_weights(self, x: Tensor, key: Tensor, may_attend_memory: Tensor) -> Tensor:
        """The cross-attention weights of target positions (B, T, C): (B, H, T, S)."""
        inner = self.cross_attention_norm(x) if self.pre_norm else x
        return attention_weights(self.cross_attention.project_query(inner), key, may_attend_memory)


class DecoderLayer(BaseDecoderLayer):
    """Self-attention over the target so far, cross-attention to the memory, then feed-forward."""

    def _add_target_sublayer(self, config: ModelConfig) -> None:
        self.self_attention = SelfAttention(config.d_model, config.num_heads, config.attention_bias)
        self.self_attention_norm = layer_norm(config)

    def forward(self, x: Tensor, memory: Tensor, may_attend_target: Tensor, may_attend_memory: Tensor) -> Tensor:
        """Apply the layer to all target positions at once.

        Args:
            x: Target positions, (B, T, C).
            memory: Encoder output, (B, S, C).
            may_attend_target: Booleans that broadcast to (B, H, T, T).
            may_attend_memory: Booleans that broadcast to (B, H, T, S).

        Returns:
            (B, T, C).
        """
        inner = self.self_attention_norm(x) if self.pre_norm else x
        x = self._after_self(x, self.self_attention(inner, may_attend_target))
        key, value = self.cross_attention.project_memory(memory)
        return self._after_target(x, key, value, may_attend_memory)

    def step(
        self,
        x: Tensor,
        self_cache: Tensor,
        cross_cache: Tensor,
        column: int,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """Apply the layer to one new target position of every hypothesis.

        Keys and values of the new position are written to ``self_cache``. The K hypotheses of a sentence are K queries
        to the same memory, which is therefore not repeated for a beam.

        Args:
            x: The newest position of each hypothesis, (B, K, C).
            self_cache: Keys and values so far, (2, B * K, H, columns, D); written at ``column``.
            cross_cache: Projected memory, (2, B, H, S, D).
            column: The column this step writes, the same for all rows.
            may_attend_target: Booleans that broadcast to (B * K, H, 1, column + 1).
            may_attend_memory: Booleans that broadcast to (B, H, K, S).

        Returns:
            (B, K, C).
        """
        inner = self.self_attention_norm(x) if self.pre_norm else x
        query, key, value = self.self_attention.project(inner.flatten(0, 1).unsqueeze(1))  # (B * K, H, 1, D)
        self_cache[0, :, :, column] = key.squeeze(2)
        self_cache[1, :, :, column] = value.squeeze(2)
        past = self_cache[:, :, :, : column + 1]
        mixed = merge_heads(mix(query, past[0], past[1], may_attend_target))  # (B * K, 1, C)
        x = self._after_self(x, self.self_attention.output(mixed).view(x.shape))
        return self._after_target(x, cross_cache[0], cross_cache[1], may_attend_memory)

    def step_slots(
        self,
        x: Tensor,
        self_cache: Tensor,
        cross_cache: Tensor,
        columns: Tensor,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """As :meth:`step`, with a column per hypothesis; shapes are fixed and all other inputs are tensors.

        The K hypotheses of a sentence share its cache columns and are K queries to them, as they are to the memory. The
        mask selects the columns of each hypothesis' past, so nothing is copied when one hypothesis continues another.

        Args:
            x: The newest position of each hypothesis, (B, K, C).
            self_cache: Keys and values so far, (2, B, H, columns, D); written at ``columns``.
            cross_cache: Projected memory, (2, B, H, S, D).
            columns: The column that each hypothesis writes, (B, K); they differ within a sentence.
            may_attend_target: Booleans that broadcast to (B, H, K, columns).
            may_attend_memory: Booleans that broadcast to (B, H, K, S).

        Returns:
            (B, K, C).
        """
        inner = self.self_attention_norm(x) if self.pre_norm else x
        query, key, value = self.self_attention.project(inner)  # (B, H, K, D)
        index = columns.unsqueeze(1).unsqueeze(-1).expand_as(key)
        self_cache[0].scatter_(2, index, key)
        self_cache[1].scatter_(2, index, value)
        mixed = merge_heads(mix(query, self_cache[0], self_cache[1], may_attend_target))  # (B, K, C)
        x = self._after_self(x, self.self_attention.output(mixed))
        return self._after_target(x, cross_cache[0], cross_cache[1], may_attend_memory)

    def attend(
        self, x: Tensor, memory: Tensor, may_attend_target: Tensor, may_attend_memory: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`forward`, with the attention weights.

        Returns:
            The layer's output (B, T, C), its self-attention weights (B, H, T, T) and its cross-attention
            weights (B, H, T, S).
        """
        inner = self.self_attention_norm(x) if self.pre_norm else x
        query, key, _ = self.self_attention.project(inner)
        self_weights = attention_weights(query, key, may_attend_target)
        x = self._after_self(x, self.self_attention(inner, may_attend_target))
        memory_key, memory_value = self.cross_attention.project_memory(memory)
        cross_weights = self._cross_weights(x, memory_key, may_attend_memory)
        return self._after_target(x, memory_key, memory_value, may_attend_memory), self_weights, cross_weights

    def _after_self(self, x: Tensor, mixed: Tensor) -> Tensor:
        if self.residual_post_norm:
            return x + self.dropout(self.self_attention_norm(mixed))
        x = x + self.dropout(mixed)
        return x if self.pre_norm else self.self_attention_norm(x)
