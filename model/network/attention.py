"""Scaled dot-product attention over several heads: self-attention and cross-attention.

The two kinds differ in where keys and values come from. This decides what can be cached between decoding steps: the
cache of self-attention grows by one column per step, that of cross-attention is computed once per sentence. Both have
the same three parts (project, mix, output), which training, decoding and the display of weights share.
"""

from __future__ import annotations

import math

from torch import Tensor, nn


def mix(query: Tensor, key: Tensor, value: Tensor, may_attend: Tensor) -> Tensor:
    """Mix values by scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

    Written out instead of calling ``F.scaled_dot_product_attention``, whose CPU kernel takes seven times as long on
    sentences of a dozen tokens in bfloat16 training, and twice as long in float32 (docs/decisions/0003).

    Args:
        query: Queries, (B, H, T, D).
        key: Keys, (B, H, S, D).
        value: Values, (B, H, S, D).
        may_attend: Booleans that broadcast to (B, H, T, S). A row without any True gives NaN.

    Returns:
        Mixed values, (B, H, T, D).
    """
    return attention_weights(query, key, may_attend) @ value


def attention_weights(query: Tensor, key: Tensor, may_attend: Tensor) -> Tensor:
    """The weights that :func:`mix` uses. Each row sums to 1; positions that are masked out get 0.

    Args:
        query: Queries, (B, H, T, D).
        key: Keys, (B, H, S, D).
        may_attend: Booleans that broadcast to (B, H, T, S).

    Returns:
        Weights, (B, H, T, S).
    """
    return attention_scores(query, key).masked_fill(~may_attend, float("-inf")).softmax(dim=-1)


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Products of queries and keys, divided by the square root of D.

    Args:
        query: Queries, (B, H, T, D).
        key: Keys, (B, H, S, D).

    Returns:
        Scores, (B, H, T, S).
    """
    return (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, C) to (B, H, T, D)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, D) to (B, T, C)."""
    return x.transpose(1, 2).flatten(start_dim=2)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself (Vaswani et al. 2017, section 3.2.2).

    Args:
        d_model: Width of the vectors in and out, C.
        num_heads: Independent heads, H; divides ``d_model``.
        bias: Whether projections have biases.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        # The weights of query, key and value are stacked, as in nn.MultiheadAttention: one product instead of three.
        self.query_key_value = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)
        _xavier(self.query_key_value, parts=3)
        _xavier(self.output, parts=1)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of every position.

        Args:
            x: (B, T, C).

        Returns:
            Three tensors, each (B, H, T, D).
        """
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)
        return (
            split_heads(query, self.num_heads),
            split_heads(key, self.num_heads),
            split_heads(value, self.num_heads),
        )

    def forward(self, x: Tensor, may_attend: Tensor) -> Tensor:
        """Mix, for each position of ``x``, the positions it may attend to.

        Args:
            x: (B, T, C).
            may_attend: Booleans that broadcast to (B, H, T, T).

        Returns:
            Mixed vectors, (B, T, C).
        """
        query, key, value = self.project(x)
        return self.output(merge_heads(mix(query, key, value, may_attend)))


class CrossAttention(nn.Module):
    """Attention of the target to the memory, the encoder's output (Vaswani et al. 2017, section 3.2.3).

    Args:
        d_model: Width of the vectors in and out, C.
        num_heads: Independent heads, H; divides ``d_model``.
        bias: Whether projections have biases.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key_value = nn.Linear(d_model, 2 * d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)
        _xavier(self.query, parts=1)
        _xavier(self.key_value, parts=2)
        _xavier(self.output, parts=1)

    def project_query(self, x: Tensor) -> Tensor:
        """Queries of the target positions: (B, T, C) to (B, H, T, D)."""
        return split_heads(self.query(x), self.num_heads)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory: (B, S, C) to two tensors (B, H, S, D). Computed once per sentence."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return split_heads(key, self.num_heads), split_heads(value, self.num_heads)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, may_attend: Tensor) -> Tensor:
        """Mix, for each position of ``x``, the positions of the memory it may attend to.

        Args:
            x: Target positions, (B, T, C).
            key: Projected memory, (B, H, S, D).
            value: Projected memory, (B, H, S, D).
            may_attend: Booleans that broadcast to (B, H, T, S).

        Returns:
            Mixed vectors, (B, T, C).
        """
        return self.output(merge_heads(mix(self.project_query(x), key, value, may_attend)))


def _xavier(linear: nn.Linear, parts: int) -> None:
    """Xavier-initialise each of the square projections stacked in ``linear`` separately (Glorot & Bengio 2010)."""
    for part in linear.weight.chunk(parts):
        nn.init.xavier_uniform_(part)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
