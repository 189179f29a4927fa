"""The recurrent decoder, the zero start and padding without a token, compared with loops in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from model.artifacts.script import script
from model.network.config import ModelConfig
from model.network.masks import padding_mask
from model.network.padding import NO_PAD_ID, pad
from model.network.quantised import int8_is_supported
from model.network.recurrence import SSRU
from model.network.transformer import Transformer
from tests.model.torch_layers import random_tensor, randomise, small_config

Array = npt.NDArray[np.float32]

MARIAN: dict[str, Any] = {
    "decoder": "ssru",
    "start": "zero",
    "norm": "post",
    "positions": "tensor2tensor",
    "layer_norm_eps": 1e-6,
}
"""The fields of a Marian student."""

SOURCES = [[5, 6, 7, 8, 9, 0], [4, 3, 0], [11, 0]]
TARGETS = [[0, 12, 13, 14, 15], [0, 16, 17], [0, 18, 19, 3]]


def transformer(**changes: Any) -> tuple[Transformer, ModelConfig]:
    config = small_config(**{**MARIAN, **changes})
    network = Transformer(config, NO_PAD_ID).eval().requires_grad_(False)
    randomise(network)
    return network, config


class MarianStudent:
    """The network as Marian computes it, for one sentence, position by position."""

    def __init__(self, network: Transformer, config: ModelConfig) -> None:
        self.weights = {name: value.numpy() for name, value in network.state_dict().items()}
        self.config = config

    def linear(self, name: str, x: Array) -> Array:
        bias = self.weights.get(f"{name}.bias", np.float32(0))
        return np.asarray(x @ self.weights[f"{name}.weight"].T + bias)

    def norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + self.config.layer_norm_eps)
        return np.asarray(self.weights[f"{name}.weight"] * centred / scale + self.weights[f"{name}.bias"])

    def heads(self, x: Array) -> Array:
        return x.reshape(len(x), self.config.num_heads, -1).transpose(1, 0, 2)

    def attend(self, name: str, x: Array, query: Array, key: Array, value: Array) -> Array:
        query, key, value = self.heads(query), self.heads(key), self.heads(value)
        scores = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1]))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        return self.norm(
            f"{name}_norm", x + self.linear(f"{name}.output", mixed.transpose(1, 0, 2).reshape(len(x), -1))
        )

    def feed_forward(self, layer: str, x: Array) -> Array:
        hidden = np.maximum(self.linear(f"{layer}.feed_forward.wide", x), 0)
        return self.norm(f"{layer}.feed_forward_norm", x + self.linear(f"{layer}.feed_forward.narrow", hidden))

    def position(self, index: int) -> Array:
        half = self.config.d_model // 2
        angles = index * np.exp(np.arange(half) * -np.log(10000) / (half - 1))
        return np.concatenate([np.sin(angles), np.cos(angles)])

    def embed(self, side: str, ids: list[int], first: int = 0) -> Array:
        vectors = self.weights[f"{side}_embedding.tokens.weight"][ids] * np.sqrt(self.config.d_model)
        return np.asarray(vectors + [self.position(first + index) for index in range(len(ids))])

    def logits(self, source: list[int], target: list[int]) -> Array:
        """Logits after a zero vector and each token of ``target`` but the first."""
        x = self.embed("source", source)
        for index in range(self.config.encoder_layers):
            layer = f"encoder.{index}"
            query, key, value = np.split(self.linear(f"{layer}.self_attention.query_key_value", x), 3, axis=1)
            x = self.feed_forward(layer, self.attend(f"{layer}.self_attention", x, query, key, value))
        states = [np.zeros((1, self.config.d_model))] * self.config.decoder_layers
        rows = []
        for position, token in enumerate(target):
            y = self.embed("target", [token], position) if position else self.position(0)[None]
            for index in range(self.config.decoder_layers):
                layer = f"decoder.{index}"
                forget = 1 / (1 + np.exp(-self.linear(f"{layer}.recurrent.forget", y)))
                states[index] = forget * states[index] + (1 - forget) * self.linear(f"{layer}.recurrent.input", y)
                y = self.norm(f"{layer}.recurrent_norm", y + np.maximum(states[index], 0))
                query = self.linear(f"{layer}.cross_attention.query", y)
                key, value = np.split(self.linear(f"{layer}.cross_attention.key_value", x), 2, axis=1)
                y = self.feed_forward(layer, self.attend(f"{layer}.cross_attention", y, query, key, value))
            rows.append(self.linear("output", y)[0])
        return np.array(rows)


@torch.inference_mode()
def test_the_unit_is_a_loop_over_positions() -> None:
    unit = SSRU(6)
    randomise(unit)
    x = random_tensor(2, 5, 6)
    forget_weight, input_weight = unit.forget.weight.numpy(), unit.input.weight.numpy()
    state = np.zeros((2, 6))
    for t, output in enumerate(unit(x).unbind(1)):
        forget = 1 / (1 + np.exp(-(x[:, t].numpy() @ forget_weight.T + unit.forget.bias.numpy())))
        state = forget * state + (1 - forget) * (x[:, t].numpy() @ input_weight.T)
        np.testing.assert_allclose(output.numpy(), np.maximum(state, 0), atol=1e-6)


def test_the_unit_can_be_trained() -> None:
    unit = SSRU(4).double()
    randomise(unit)
    # The state is float32, so differences are taken in steps that it can resolve.
    assert torch.autograd.gradcheck(unit, random_tensor(2, 3, 4).double().requires_grad_(), eps=1e-2, atol=1e-2)


@torch.inference_mode()
def test_logits_are_those_of_marians_network() -> None:
    network, config = transformer()
    logits = network(pad(SOURCES, NO_PAD_ID), pad(TARGETS, NO_PAD_ID))
    reference = MarianStudent(network, config)
    for rows, source, target in zip(logits, SOURCES, TARGETS, strict=True):
        np.testing.assert_allclose(rows[: len(target)].numpy(), reference.logits(source, target), atol=1e-4)


@torch.inference_mode()
def test_the_first_input_is_zero_whichever_token_it_is() -> None:
    network, _ = transformer()
    source, target = torch.tensor([SOURCES[0]]), torch.tensor([TARGETS[0]])
    other = target.clone()
    other[:, 0] = 7
    assert torch.equal(network(source, target), network(source, other))


@pytest.mark.parametrize("norm", ["pre", "post", "residual-post"])
@pytest.mark.parametrize("start", ["token", "zero"])
@pytest.mark.parametrize("slots", [False, True])
@torch.inference_mode()
def test_a_step_equals_the_full_pass_at_every_position(norm: str, start: str, slots: bool) -> None:
    network, config = transformer(norm=norm, start=start)
    source, targets = pad(SOURCES, NO_PAD_ID), torch.randint(0, 20, (3, 2, 6))  # (B, K, T)
    cross_cache = network.project_memory(network.encode(source))
    states = torch.zeros(config.decoder_layers, 3 * 2, config.d_model)
    alone = torch.stack([network(source, targets[:, row]) for row in range(2)], dim=1)  # (B, K, T, V)
    step: Any = network.step_slots if slots else network.step
    for position in range(6):
        column = torch.full((3, 2), position) if slots else position
        may_attend = torch.empty(0, dtype=torch.bool)
        positions = torch.full((3, 1), position)
        memory_mask = padding_mask(source, NO_PAD_ID)
        logits = step(targets[:, :, position], positions, states, cross_cache, column, may_attend, memory_mask)
        torch.testing.assert_close(logits, alone[:, :, position], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_every_token_may_occur_where_the_vocabulary_has_no_padding() -> None:
    network, _ = transformer()
    sources = [[0, 3, 1, 0], [0, 0], [1]]
    together = network(pad(sources, NO_PAD_ID), pad(TARGETS, NO_PAD_ID))
    for index, (source, target) in enumerate(zip(sources, TARGETS, strict=True)):
        alone = network(torch.tensor([source]), torch.tensor([target]))
        torch.testing.assert_close(together[index, : len(target)], alone[0], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_a_recurrent_decoder_has_no_heads_of_its_own_and_attends_to_the_source() -> None:
    network, config = transformer()
    encoder, decoder, cross = network.attend(pad(SOURCES, NO_PAD_ID), pad(TARGETS, NO_PAD_ID))
    assert encoder.shape == (3, config.encoder_layers, config.num_heads, 6, 6)
    assert decoder.shape == (3, config.decoder_layers, 0, 5, 5)
    assert cross.shape == (3, config.decoder_layers, config.num_heads, 5, 6)
    torch.testing.assert_close(cross.sum(-1), torch.ones(cross.shape[:-1]))
    assert not cross[1, :, :, :, 3:].any()


def _logits(network: Transformer) -> Tensor:
    logits: Tensor = network(pad(SOURCES, NO_PAD_ID), pad(TARGETS, NO_PAD_ID))
    return logits


@pytest.mark.parametrize(
    ("precision", "bound"),
    [
        ("float32", 1e-5),
        ("bfloat16", 0.1),
        ("float16", 0.02),
        *([("int8", 0.1)] if int8_is_supported() else []),
    ],
)
@torch.inference_mode()
def test_a_scripted_network_computes_the_same_in_every_precision(precision: Any, bound: float) -> None:
    network, _ = transformer()
    scripted = script(network, precision)
    difference = (_logits(scripted).float() - _logits(network)).square().mean().sqrt()
    assert difference < bound * _logits(network).std()
