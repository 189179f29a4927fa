"""Decoder layers with a recurrent unit in place of self-attention, as in Marian's student models.

Self-attention keeps a key and a value of every target position so far. The unit keeps one vector, so the memory and the
time of a decoding step do not grow with the translation.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.network.config import ModelConfig
from model.network.layers import BaseDecoderLayer
from model.network.norms import layer_norm


class SSRU(nn.Module):
    """The Simpler Simple Recurrent Unit (Kim et al. 2019, "From Research to Production and Back", ACL D19-5632).

    Of an input x it computes a forget gate f and its next state c, a weighted mean of the previous state and of x::

        f = sigmoid(Wf x + bf)
        c = f * c + (1 - f) * (W x)
        output = relu(c)

    The state is zero at first. It is float32 in every precision, because it is a sum over all positions.

    Args:
        d_model: Width of the vectors in and out, and of the state, C.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.forget = nn.Linear(d_model, d_model)
        self.input = nn.Linear(d_model, d_model, bias=False)
        nn.init.xavier_uniform_(self.forget.weight)
        nn.init.zeros_(self.forget.bias)
        nn.init.xavier_uniform_(self.input.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Read a sequence: (B, T, C) to (B, T, C). Position t of the output depends on the positions 0 to t."""
        forget, candidate = self._gates(x)
        kept, new = forget.unbind(1), candidate.unbind(1)  # T times (B, C)
        states: list[Tensor] = []
        for t in range(len(new)):
            states.append(new[t] if t == 0 else torch.addcmul(new[t], kept[t], states[t - 1]))
        return F.relu(torch.stack(states, dim=1)).to(x.dtype)

    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """Read one more position.

        Args:
            x: The newest position of each row, (..., C).
            state: The states, of the same shape, float32; written in place.

        Returns:
            The output, (..., C).
        """
        forget, candidate = self._gates(x)
        state.copy_(torch.addcmul(candidate, forget, state))
        return F.relu(state).to(x.dtype)

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The forget gate f, and (1 - f) times the projected input; both in float32."""
        forget = torch.sigmoid(self.forget(x).float())
        return forget, (1.0 - forget) * self.input(x).float()


class RecurrentDecoderLayer(BaseDecoderLayer):
    """A recurrent unit over the target so far, cross-attention to the memory, then feed-forward.

    The methods have the arguments of :class:`model.network.layers.DecoderLayer`; those that only self-attention needs
    are not read.
    """

    def _add_target_sublayer(self, config: ModelConfig) -> None:
        self.recurrent = SSRU(config.d_model)
        self.recurrent_norm = layer_norm(config)

    def forward(self, x: Tensor, memory: Tensor, may_attend_target: Tensor, may_attend_memory: Tensor) -> Tensor:
        """Apply the layer to all target positions at once.

        Args:
            x: Target positions, (B, T, C).
            memory: Encoder output, (B, S, C).
            may_attend_target: Not read: a position depends on itself and on earlier ones.
            may_attend_memory: Booleans that broadcast to (B, H, T, S).

        Returns:
            (B, T, C).
        """
        x = self._after_recurrent(x, self.recurrent(self._inner(x)))
        key, value = self.cross_attention.project_memory(memory)
        return self._after_target(x, key, value, may_attend_memory)

    def step(
        self,
        x: Tensor,
        state: Tensor,
        cross_cache: Tensor,
        column: int,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """Apply the layer to one new target position of every hypothesis.

        Args:
            x: The newest position of each hypothesis, (B, K, C).
            state: The states of the recurrent unit, (B * K, C), float32; written in place.
            cross_cache: Projected memory, (2, B, H, S, D).
            column: Not read.
            may_attend_target: Not read.
            may_attend_memory: Booleans that broadcast to (B, H, K, S).

        Returns:
            (B, K, C).
        """
        x = self._after_recurrent(x, self.recurrent.step(self._inner(x), state.view_as(x)))
        return self._after_target(x, cross_cache[0], cross_cache[1], may_attend_memory)

    def step_slots(
        self,
        x: Tensor,
        state: Tensor,
        cross_cache: Tensor,
        columns: Tensor,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """As :meth:`step`, whose shapes are already fixed."""
        return self.step(x, state, cross_cache, 0, may_attend_target, may_attend_memory)

    def attend(
        self, x: Tensor, memory: Tensor, may_attend_target: Tensor, may_attend_memory: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`forward`, with the attention weights.

        Returns:
            The layer's output (B, T, C), its self-attention weights, which have no heads, (B, 0, T, T), and its
            cross-attention weights (B, H, T, S).
        """
        x = self._after_recurrent(x, self.recurrent(self._inner(x)))
        key, value = self.cross_attention.project_memory(memory)
        no_heads = x.new_zeros(x.size(0), 0, x.size(1), x.size(1))
        cross_weights = self._cross_weights(x, key, may_attend_memory)
        return self._after_target(x, key, value, may_attend_memory), no_heads, cross_weights

    def _inner(self, x: Tensor) -> Tensor:
        return self.recurrent_norm(x) if self.pre_norm else x

    def _after_recurrent(self, x: Tensor, mixed: Tensor) -> Tensor:
        if self.residual_post_norm:
            return x + self.dropout(self.recurrent_norm(mixed))
        x = x + self.dropout(mixed)
        return x if self.pre_norm else self.recurrent_norm(x)
