"""What Marian computes, written in numpy from the formulas of ``src/models/transformer.h``: one sentence at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.model.importing.marian_nmt.files import Shape, Tensors

Array = NDArray[np.float64]


def logits(tensors: Tensors, shape: Shape, source: list[int], target: list[int]) -> tuple[Array, Array]:
    """Logits of the token after each prefix of a target, and the weights of the last cross-attention.

    Args:
        tensors: Weights under Marian's names.
        shape: The options.
        source: Source tokens, the end token included.
        target: Target tokens; T of them give T + 1 rows.

    Returns:
        (T + 1, V) and (H, T + 1, S).
    """
    model = _Formulas(tensors, shape)
    memory = model.encode(source)
    return model.decode(memory, target)


class _Formulas:
    def __init__(self, tensors: Tensors, shape: Shape) -> None:
        self._tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self._shape = shape

    def encode(self, source: list[int]) -> Array:
        table = self._tensors["Wemb" if self._shape.shared else "encoder_Wemb"]
        x: Array = table[source] * np.sqrt(self._shape.width) + self._positions(len(source))
        for layer in range(1, self._shape.encoder + 1):
            x = self._attend(f"encoder_l{layer}_self", x, None, causal=False)[0]
            x = self._feed_forward(f"encoder_l{layer}_ffn", x)
        return x

    def decode(self, memory: Array, target: list[int]) -> tuple[Array, Array]:
        width = self._shape.width
        table = self._tensors["Wemb" if self._shape.shared else "decoder_Wemb"]
        embedded = np.concatenate([np.zeros((1, width)), table[target] * np.sqrt(width)])
        x = embedded + self._positions(len(embedded))
        weights = np.zeros(0)
        for layer in range(1, self._shape.decoder + 1):
            prefix = f"decoder_l{layer}"
            if self._shape.recurrent:
                x = self._recur(f"{prefix}_rnn", x)
            else:
                x = self._attend(f"{prefix}_self", x, None, causal=True)[0]
            x, weights = self._attend(f"{prefix}_context", x, memory, causal=False)
            x = self._feed_forward(f"{prefix}_ffn", x)
        tied = self._shape.tied in ("tied-embeddings-all", "tied-embeddings")
        output = table if tied else self._tensors["decoder_ff_logit_out_Wt"]
        return x @ output.T + self._tensors["decoder_ff_logit_out_b"][0], weights

    def _positions(self, number: int) -> Array:
        half = self._shape.width // 2
        angles = np.outer(np.arange(number), np.exp(-np.arange(half) * np.log(10000) / (half - 1)))
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def _norm(self, prefix: str, x: Array) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-6)
        scale, bias = (self._tensors[f"{prefix}_ln_{part}"][0] for part in ("scale", "bias"))
        return np.asarray(scale * scaled + bias)

    def _product(self, prefix: str, letter: str, x: Array) -> Array:
        return np.asarray(x @ self._tensors[f"{prefix}_W{letter}"] + self._tensors[f"{prefix}_b{letter}"][0])

    def _heads(self, x: Array) -> Array:
        return x.reshape(len(x), self._shape.heads, -1).transpose(1, 0, 2)

    def _attend(self, prefix: str, x: Array, memory: Array | None, *, causal: bool) -> tuple[Array, Array]:
        context = x if memory is None else memory
        query, key, value = (
            self._heads(self._product(prefix, letter, of)) for letter, of in (("q", x), ("k", context), ("v", context))
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(self._shape.width / self._shape.heads)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(len(x), -1)
        return self._norm(f"{prefix}_Wo", self._product(prefix, "o", mixed) + x), weights

    def _recur(self, prefix: str, x: Array) -> Array:
        gate = 1 / (1 + np.exp(-self._product(prefix, "f", x)))
        new = x @ self._tensors[f"{prefix}_W"]
        state, states = np.zeros(x.shape[1]), []
        for forget, candidate in zip(gate, new, strict=True):
            state = forget * state + (1 - forget) * candidate
            states.append(np.maximum(state, 0))
        return self._norm(f"{prefix}_ffn", np.array(states) + x)

    def _feed_forward(self, prefix: str, x: Array) -> Array:
        inner = self._product(prefix, "1", x)
        inner = np.maximum(inner, 0) if self._shape.activation == "relu" else inner / (1 + np.exp(-inner))
        return self._norm(f"{prefix}_ffn", self._product(prefix, "2", inner) + x)
