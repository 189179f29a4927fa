"""A Marian checkpoint as ONNX graphs, for libraries that run graphs: everything but the loop over the tokens.

Exports by optimum compute one step's logits and leave search, the order of the caches and a copy of the encoder's keys
for each row of the beam to Python. These graphs contain them, so that the libraries lose as little as possible:

    encoder   sources -> keys and values of each decoder layer's attention to the source, computed once
    greedy    tokens, caches -> most probable tokens, caches
    beam      tokens, rows they come from, log probabilities, caches -> the same for the best rows, caches

All rows of a beam attend to one copy of the source. Queries, keys and values are one product. An answer has a fixed
length, so its end and padding are excluded; a search that may end would do more.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.rivals.graph_search import BEAM_SIZE, EXCLUDED, past_names, source_names


@dataclass(frozen=True)
class Graph:
    """A graph before it is exported.

    Args:
        module: What it computes.
        arguments: Example arguments.
        inputs: The names of its arguments, each with the names of its axes of variable length.
        outputs: The same for its results.
    """

    module: nn.Module
    arguments: tuple[Tensor, ...]
    inputs: dict[str, dict[int, str]]
    outputs: dict[str, dict[int, str]]


def make_graphs(checkpoint: Path) -> dict[str, Graph]:
    """The graphs of a checkpoint: ``encoder``, ``greedy`` and ``beam``.

    Args:
        checkpoint: A folder with a Marian model of transformers.
    """
    from transformers import MarianMTModel

    model: Any = MarianMTModel.from_pretrained(checkpoint).eval().requires_grad_(False)
    heads, layers = model.config.decoder_attention_heads, model.config.decoder_layers
    rows, length = 2 * BEAM_SIZE, 3
    ids, may_attend = torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.bool)
    tokens, position = torch.ones(rows, dtype=torch.int64), torch.tensor([length])
    encoder = EncoderGraph(model)
    source = tuple(encoder(ids, may_attend))
    past = (torch.zeros(rows, heads, length, model.config.d_model // heads),) * (2 * layers)
    of_source = {name: {0: "sentences", 1: "source_length"} for name in ("ids", "may_attend")}
    of_encoded = {name: {0: "sentences", 2: "source_length"} for name in source_names(layers)}
    of_past = {name: {0: "rows", 2: "length"} for name in past_names(layers)}
    of_new = {f"new_{name}": {0: "rows", 2: "new_length"} for name in past_names(layers)}
    of_rows = {name: {0: "rows"} for name in ("tokens", "parents", "scores")}
    of_token = {"tokens": of_rows["tokens"]}
    states: dict[str, dict[int, str]] = {"position": {}, "may_attend": of_source["may_attend"]} | of_encoded | of_past
    return {
        "encoder": Graph(encoder, (ids, may_attend), of_source, of_encoded),
        "greedy": Graph(
            GreedyGraph(model),
            (tokens[:2], position, may_attend, *source, *(cache[:2] for cache in past)),
            of_token | states,
            _new(of_token) | of_new,
        ),
        "beam": Graph(
            BeamGraph(model),
            (tokens, torch.arange(rows), torch.zeros(rows), position, may_attend, *source, *past),
            of_rows | states,
            _new(of_rows) | of_new,
        ),
    }


def _new(names: dict[str, dict[int, str]]) -> dict[str, dict[int, str]]:
    return {f"new_{name}": axes for name, axes in names.items()}


def export_graphs(checkpoint: Path, out: Path) -> None:
    """Write the graphs as ``encoder.onnx``, ``greedy.onnx`` and ``beam.onnx``.

    Args:
        checkpoint: A folder with a Marian model of transformers.
        out: The folder to create.
    """
    out.mkdir()
    for name, graph in make_graphs(checkpoint).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing is deprecated, but needs no other package
            torch.onnx.export(
                graph.module.eval(),
                graph.arguments,
                str(out / f"{name}.onnx"),
                input_names=list(graph.inputs),
                output_names=list(graph.outputs),
                dynamic_axes={name: axes for name, axes in (graph.inputs | graph.outputs).items() if axes},
                opset_version=17,
                dynamo=False,
            )


def _join(*parts: nn.Linear) -> nn.Linear:
    """One linear layer with the outputs of several."""
    linear = nn.Linear(parts[0].in_features, sum(part.out_features for part in parts))
    linear.weight = nn.Parameter(torch.cat([part.weight for part in parts]), requires_grad=False)
    linear.bias = nn.Parameter(torch.cat([part.bias for part in parts]), requires_grad=False)
    return linear


def _scaled(linear: nn.Linear, factor: float) -> nn.Linear:
    scaled = nn.Linear(linear.in_features, linear.out_features)
    scaled.weight = nn.Parameter(linear.weight * factor, requires_grad=False)
    scaled.bias = nn.Parameter(linear.bias * factor, requires_grad=False)
    return scaled


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of scaled queries, all (B, H, T or S, D); gives (B, T, C)."""
    scores = queries @ keys.transpose(2, 3)
    weights = (scores if mask is None else scores + mask).softmax(dim=-1)
    return (weights @ values).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Attention of a layer to itself, with one product for queries, keys and values.

    Args:
        attention: The module of transformers.
    """

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.heads, self.head_dim = attention.num_heads, attention.head_dim
        queries = _scaled(attention.q_proj, self.head_dim**-0.5)
        self.project = _join(queries, attention.k_proj, attention.v_proj)
        self.output = attention.out_proj

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, H, T, D)."""
        parts = self.project(x).view(x.size(0), x.size(1), 3, self.heads, self.head_dim)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(0)
        return queries, keys, values

    def mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """The attention's output, (B, T, C)."""
        return self.output(attend(queries, keys, values, mask))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """The feed-forward part of a layer, with its norm.

    Args:
        layer: The layer of transformers.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.wide, self.narrow, self.norm = layer.fc1, layer.fc2, layer.final_layer_norm

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.norm(x + self.narrow(functional.silu(self.wide(x))))
        return mixed


def _mask(may_attend: Tensor) -> Tensor:
    """Zero or the excluding number for each position of the source, (B, 1, 1, S)."""
    return ((~may_attend).to(torch.float32) * EXCLUDED)[:, None, None, :]


class EncoderGraph(nn.Module):
    """The encoder, and keys and values of each decoder layer's attention to its output.

    Args:
        model: The Marian model of transformers.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        encoder = model.model.encoder
        self.tokens, self.positions = encoder.embed_tokens, encoder.embed_positions.weight
        self.scale = model.config.d_model**0.5
        self.attentions = nn.ModuleList(SelfAttention(layer.self_attn) for layer in encoder.layers)
        self.norms = nn.ModuleList(layer.self_attn_layer_norm for layer in encoder.layers)
        self.feeds = nn.ModuleList(FeedForward(layer) for layer in encoder.layers)
        across = [layer.encoder_attn for layer in model.model.decoder.layers]
        self.heads, self.head_dim = across[0].num_heads, across[0].head_dim
        self.across = nn.ModuleList(_join(attention.k_proj, attention.v_proj) for attention in across)

    def forward(self, ids: Tensor, may_attend: Tensor) -> list[Tensor]:
        mask = _mask(may_attend)
        x = self.tokens(ids) * self.scale + self.positions[: ids.size(1)]
        attention: Any  # mypy treats members of a ModuleList as plain Modules
        for attention, norm, feed in zip(self.attentions, self.norms, self.feeds, strict=True):
            x = feed(norm(x + attention.mix(*attention.split(x), mask)))
        keys_and_values = []
        for project in self.across:
            parts = project(x).view(x.size(0), x.size(1), 2, self.heads, self.head_dim)
            keys_and_values += [parts[:, :, 0].transpose(1, 2), parts[:, :, 1].transpose(1, 2)]  # each (B, H, S, D)
        return keys_and_values


class StepGraph(nn.Module):
    """One step of the decoder.

    Args:
        model: The Marian model of transformers.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        decoder, config = model.model.decoder, model.config
        self.tokens, self.positions = decoder.embed_tokens, decoder.embed_positions.weight
        self.scale = config.d_model**0.5
        layers = decoder.layers
        self.attentions = nn.ModuleList(SelfAttention(layer.self_attn) for layer in layers)
        self.norms = nn.ModuleList(layer.self_attn_layer_norm for layer in layers)
        across = [layer.encoder_attn for layer in layers]
        self.heads, self.head_dim = across[0].num_heads, across[0].head_dim
        self.queries = nn.ModuleList(_scaled(attention.q_proj, self.head_dim**-0.5) for attention in across)
        self.outputs = nn.ModuleList(attention.out_proj for attention in across)
        self.across_norms = nn.ModuleList(layer.encoder_attn_layer_norm for layer in layers)
        self.feeds = nn.ModuleList(FeedForward(layer) for layer in layers)
        self.output = nn.Linear(config.d_model, config.vocab_size)
        self.output.weight = model.lm_head.weight
        bias = model.final_logits_bias[0].clone()
        bias[[config.eos_token_id, config.pad_token_id]] = EXCLUDED
        self.output.bias = nn.Parameter(bias, requires_grad=False)

    def logits(
        self, tokens: Tensor, position: Tensor, may_attend: Tensor, source: list[Tensor], past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits (R, V), and the caches with the new position."""
        mask = _mask(may_attend)
        num_sentences = source[0].size(0)
        x = self.tokens(tokens)[:, None] * self.scale + self.positions.index_select(0, position)  # (R, 1, C)
        new: list[Tensor] = []
        attention: Any
        for number, attention in enumerate(self.attentions):
            queries, keys, values = attention.split(x)
            keys, values = torch.cat([past[2 * number], keys], 2), torch.cat([past[2 * number + 1], values], 2)
            new += [keys, values]
            x = self.norms[number](x + attention.mix(queries, keys, values, None))
            # The rows of a sentence are positions of one query, (B, H, K, D).
            queries = self.queries[number](x).view(num_sentences, -1, self.heads, self.head_dim).transpose(1, 2)
            mixed = attend(queries, source[2 * number], source[2 * number + 1], mask)  # (B, K, C)
            mixed = mixed.view(-1, 1, self.heads * self.head_dim)
            x = self.feeds[number](self.across_norms[number](x + self.outputs[number](mixed)))
        return self.output(x)[:, 0], new


class GreedyGraph(StepGraph):
    """A step that takes the most probable token."""

    def forward(self, tokens: Tensor, position: Tensor, may_attend: Tensor, *states: Tensor) -> list[Tensor]:
        half = len(states) // 2
        logits, new = self.logits(tokens, position, may_attend, list(states[:half]), list(states[half:]))
        return [logits.argmax(dim=-1), *new]


class BeamGraph(StepGraph):
    """A step that takes the most probable rows of each sentence's beam."""

    def forward(
        self, tokens: Tensor, parents: Tensor, scores: Tensor, position: Tensor, may_attend: Tensor, *states: Tensor
    ) -> list[Tensor]:
        half = len(states) // 2
        past = [cache.index_select(0, parents) for cache in states[half:]]
        logits, new = self.logits(tokens, position, may_attend, list(states[:half]), past)
        vocab_size = logits.size(-1)
        candidates = (logits.log_softmax(dim=-1) + scores[:, None]).view(-1, BEAM_SIZE * vocab_size)
        best, indices = candidates.topk(BEAM_SIZE, dim=-1)  # (B, K)
        first_rows = torch.arange(0, tokens.size(0), BEAM_SIZE)[:, None]
        return [
            (indices % vocab_size).view(-1),
            (torch.div(indices, vocab_size, rounding_mode="floor") + first_rows).view(-1),
            best.view(-1),
            *new,
        ]
