"""The computation of one attention head, step by step: every intermediate result of its sub-layer.

The steps are computed by the layers that translate, scripted or not and in any precision, so they are the numbers of
the running model. The layers themselves do not return them, as decoding does not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from model.network.attention import attention_scores, merge_heads
from model.network.config import ModelConfig
from model.network.heads import AttentionHead
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.masks import causal_mask, padding_mask
from model.network.recurrence import RecurrentDecoderLayer
from model.network.transformer import Transformer


def attention_steps(
    network: Transformer, config: ModelConfig, source: Tensor, target: Tensor, head: AttentionHead
) -> dict[str, Tensor]:
    """Compute one head step by step.

    T counts the positions that attend, S those that are attended to.

    - ``embedding``: Token embeddings of the attending side after scaling, (T, C).
    - ``position``: The position embeddings, which are added to them, (T, C).
    - ``input``: The input of the sub-layer, (T, C). In layer 0 of the encoder, and of the decoder's self-attention, it
      is the sum of these two.
    - ``normed``: ``input`` after the norm, (T, C); only pre-norm.
    - ``query``, ``key``, ``value``: (T, D), (S, D), (S, D).
    - ``scores``: Products of queries and keys, divided by the square root of D, (T, S).
    - ``masked``: ``scores`` with minus infinity where a position must not be attended to, (T, S).
    - ``weights``: The softmax of each row of ``masked``, (T, S).
    - ``mixed``: Sums of the values by these weights, (T, D).
    - ``output``: The ``mixed`` of all heads, side by side, after the output projection, (T, C).
    - ``normed_output``: ``output`` after the norm, (T, C); only residual-post-norm.
    - ``residual``: ``input`` plus ``normed_output``, or else plus ``output``, (T, C).
    - ``result``: The output of the sub-layer, (T, C): ``residual``, in post-norm models after the norm.
    - ``feed_forward``: Output of the feed-forward block that reads ``result``, before it is added, (T, C); not for kind
      ``decoder``, where cross-attention comes first.

    Args:
        network: The network, scripted or not.
        config: Its architecture.
        source: Source token ids, (1, S).
        target: Target token ids, (1, T), the start token first.
        head: Which head.

    Returns:
        The steps that the architecture has, by name, in this order; float32 on the CPU.

    Raises:
        UnknownHead: The architecture does not have this head.
    """
    head.check(config)
    steps = _batched_steps(network, config, source, target, head)
    return {name: step[0].float().cpu() for name, step in steps.items()}


def _batched_steps(
    network: Transformer, config: ModelConfig, source: Tensor, target: Tensor, head: AttentionHead
) -> dict[str, Tensor]:
    """As :func:`attention_steps`, batch first and where the network computes."""
    in_encoder = head.kind == "encoder"
    token_ids = source if in_encoder else target
    embedding = network.source_embedding if in_encoder else network.target_embedding
    steps = {
        "embedding": embedding.tokens(token_ids) * embedding.scale,
        "position": embedding.positions[: token_ids.size(1)].unsqueeze(0),
    }
    if config.start == "zero" and not in_encoder:
        steps["embedding"][:, 0] = 0
    x = steps["embedding"] + steps["position"]  # (1, T, C)

    may_attend_source = padding_mask(source, network.pad_id)
    # Scripted lists of modules have no indices.
    layer: EncoderLayer | DecoderLayer
    if in_encoder:
        encoder = cast("list[EncoderLayer]", list(network.encoder.children()))
        for before in encoder[: head.layer]:
            x = before(x, may_attend_source)
        layer = encoder[head.layer]
        steps |= _self_attention(layer, config, x, may_attend_source, head.head)
    else:
        decoder = cast("list[DecoderLayer]", list(network.decoder.children()))
        memory = network.encode(source)
        may_attend_target = causal_mask(target.size(1), target.device)
        for below in decoder[: head.layer]:
            x = below(x, memory, may_attend_target, may_attend_source)
        layer = decoder[head.layer]
        if head.kind == "decoder":
            steps |= _self_attention(layer, config, x, may_attend_target, head.head)
        else:
            x = _target_sublayer(layer, config, x, may_attend_target)
            steps |= _cross_attention(layer, config, x, memory, may_attend_source, head.head)
    if head.kind != "decoder":
        result = steps["result"]
        inner = layer.feed_forward_norm(result) if config.norm == "pre" else result
        steps["feed_forward"] = layer.feed_forward(inner)
    return steps


def _target_sublayer(layer: DecoderLayer, config: ModelConfig, x: Tensor, may_attend: Tensor) -> Tensor:
    """The output of a decoder layer's first sub-layer, (B, T, C)."""
    if config.decoder == "self_attention":
        return _self_attention(layer, config, x, may_attend, head=0)["result"]
    recurrent = cast("RecurrentDecoderLayer", layer)
    mixed = recurrent.recurrent(recurrent.recurrent_norm(x) if config.norm == "pre" else x)
    if config.norm == "residual-post":
        return x + cast("Tensor", recurrent.recurrent_norm(mixed))
    return cast("Tensor", recurrent.recurrent_norm(x + mixed)) if config.norm == "post" else x + mixed


def _self_attention(
    layer: EncoderLayer | DecoderLayer, config: ModelConfig, x: Tensor, may_attend: Tensor, head: int
) -> dict[str, Tensor]:
    attention = layer.self_attention
    return _sublayer(config, layer.self_attention_norm, attention.project, attention.output, x, may_attend, head)


def _cross_attention(
    layer: DecoderLayer, config: ModelConfig, x: Tensor, memory: Tensor, may_attend: Tensor, head: int
) -> dict[str, Tensor]:
    attention = layer.cross_attention

    def project(inner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return attention.project_query(inner), *attention.project_memory(memory)

    return _sublayer(config, layer.cross_attention_norm, project, attention.output, x, may_attend, head)


def _sublayer(
    config: ModelConfig,
    norm: nn.Module,
    project: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]],
    output: nn.Module,
    x: Tensor,
    may_attend: Tensor,
    head: int,
) -> dict[str, Tensor]:
    """The steps of an attention sub-layer, batch first; see :mod:`model.network.layers` for the three norms.

    Args:
        config: The architecture, which has the position of the norm.
        norm: The sub-layer's norm.
        project: Returns query, key and value of all heads, each (B, H, positions, D).
        output: The output projection.
        x: The input of the sub-layer, (B, T, C).
        may_attend: Booleans that broadcast to (B, H, T, S).
        head: The head whose steps are returned.
    """
    normed = norm(x) if config.norm == "pre" else x
    query, key, value = project(normed)
    scores = attention_scores(query, key)
    masked = scores.masked_fill(~may_attend, float("-inf"))
    weights = masked.softmax(dim=-1)
    mixed = weights @ value  # (B, H, T, D)
    projected = output(merge_heads(mixed))
    added = norm(projected) if config.norm == "residual-post" else projected
    residual = x + added
    of_heads = {
        "query": query,
        "key": key,
        "value": value,
        "scores": scores,
        "masked": masked,
        "weights": weights,
        "mixed": mixed,
    }
    return {
        "input": x,
        **({"normed": normed} if config.norm == "pre" else {}),
        **{name: step[:, head] for name, step in of_heads.items()},
        "output": projected,
        **({"normed_output": added} if config.norm == "residual-post" else {}),
        "residual": residual,
        "result": norm(residual) if config.norm == "post" else residual,
    }
