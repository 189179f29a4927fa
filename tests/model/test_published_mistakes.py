"""Mistakes of published implementations of the Transformer, inserted one by one: a test detects each.

``docs/transformer.md`` has the list. Every mistake is inserted into this project's code, and the test named with it
must fail, which shows that the test detects the mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.network import attention, layers, masks, transformer
from model.network.embeddings import Embedding, position_table
from model.network.layers import DecoderLayer, Dropout, EncoderLayer
from tests.model import test_attention, test_embeddings, test_layers, test_masks, test_transformer
from tests.model.torch_layers import small_config

Plant = Callable[[pytest.MonkeyPatch], None]
Test = Callable[[], None]


def test_every_sub_layer_has_a_norm_of_its_own() -> None:
    for kind, names in (
        (EncoderLayer, ["self_attention", "feed_forward"]),
        (DecoderLayer, ["self_attention", "cross_attention", "feed_forward"]),
    ):
        layer = kind(small_config())
        own = {id(parameter) for name in names for parameter in getattr(layer, f"{name}_norm").parameters()}
        assert len(own) == 2 * len(names)  # a gain and a bias each


def sines_overwritten(patch: pytest.MonkeyPatch) -> None:
    """``table[:, 0::2] = sin(...)`` and then ``table[:, 0::2] = cos(...)``: the odd columns stay zero."""

    def table(*arguments: Any) -> Tensor:
        mistaken = position_table(*arguments)
        mistaken[:, 0::2], mistaken[:, 1::2] = mistaken[:, 1::2].clone(), 0.0
        return mistaken

    patch.setattr(test_embeddings, "position_table", table)


def denominator_slips(patch: pytest.MonkeyPatch) -> None:
    """``p / (10000 ** (2 * i) / d)`` for ``p / 10000 ** (2 * i / d)``."""

    def table(layout: str, num_positions: int, d_model: int) -> Tensor:
        position = torch.arange(num_positions, dtype=torch.float64).unsqueeze(1)
        angle = position / (10000 ** torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1).float()

    patch.setattr(test_embeddings, "position_table", table)


def fill_discarded(patch: pytest.MonkeyPatch) -> None:
    """``scores.masked_fill(...)`` returns the masked scores; the result is discarded."""

    def weights(query: Tensor, key: Tensor, may_attend: Tensor) -> Tensor:
        scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)
        scores.masked_fill(~may_attend, float("-inf"))
        return scores.softmax(dim=-1)

    for module in (attention, layers, test_attention):
        patch.setattr(module, "attention_weights", weights)


def norm_slips(patch: pytest.MonkeyPatch) -> None:
    """``gain * x - mean / (deviation + eps) + bias`` for ``gain * (x - mean) / (deviation + eps) + bias``."""

    class Slipped(nn.LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
            return self.weight * x - mean / (deviation + self.eps) + self.bias

    patch.setattr(layers, "layer_norm", lambda config: Slipped(config.d_model, config.layer_norm_eps))


def norm_shared(patch: pytest.MonkeyPatch) -> None:
    """One norm is created in the constructor and used for two sub-layers."""
    make = EncoderLayer.__init__

    def mistaken(self: EncoderLayer, *arguments: Any) -> None:
        make(self, *arguments)
        self.feed_forward_norm = self.self_attention_norm

    patch.setattr(EncoderLayer, "__init__", mistaken)


def another_norm_used(patch: pytest.MonkeyPatch) -> None:
    """Three norms are created in the constructor, and the forward pass uses the second one twice."""

    def after_target(self: DecoderLayer, x: Tensor, key: Tensor, value: Tensor, may_attend_memory: Tensor) -> Tensor:
        x = self.cross_attention_norm(x + self.cross_attention(x, key, value, may_attend_memory))
        result: Tensor = self.cross_attention_norm(x + self.feed_forward(x))
        return result

    patch.setattr(DecoderLayer, "_after_target", after_target)


def activation_discarded(patch: pytest.MonkeyPatch) -> None:
    """``relu = F.relu(self.wide(x))``, but the second projection gets another input."""
    patch.setattr(layers.FeedForward, "forward", lambda self, x: self.narrow(self.wide(x)))


def one_position_for_all(patch: pytest.MonkeyPatch) -> None:
    """``table[length]`` for ``table[:length]``: every token of a sequence gets the same position."""

    def forward(self: Embedding, token_ids: Tensor, positions: Tensor) -> Tensor:
        result: Tensor = self.tokens(token_ids) * self.scale + self.positions[positions.max()]
        return result

    patch.setattr(Embedding, "forward", forward)


def projection_without_use(patch: pytest.MonkeyPatch) -> None:
    """Four projections are created for query, key, value and output, but the output uses a fifth."""
    make = EncoderLayer.__init__

    def mistaken(self: EncoderLayer, *arguments: Any) -> None:
        make(self, *arguments)
        self.spare = nn.Linear(8, 8)

    patch.setattr(EncoderLayer, "__init__", mistaken)


def _replace_causal_mask(patch: pytest.MonkeyPatch, mask: Callable[[int, torch.device], Tensor]) -> None:
    for module in (masks, transformer, test_masks):
        patch.setattr(module, "causal_mask", mask)


def padding_mask_for_the_causal_one(patch: pytest.MonkeyPatch) -> None:
    """The target's mask hides only padding: in training every position sees the token to predict."""

    def mask(length: int, device: torch.device) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool, device=device)

    _replace_causal_mask(patch, mask)


def mask_of_another_size(patch: pytest.MonkeyPatch) -> None:
    """A causal mask of the size of the model's width, for any length of the sequence."""

    def mask(_: int, device: torch.device) -> Tensor:
        width = small_config().d_model
        return torch.ones(width, width, dtype=torch.bool, device=device).tril()

    _replace_causal_mask(patch, mask)


def positions_unsliced(patch: pytest.MonkeyPatch) -> None:
    """The whole table is added, for any length of the sequence."""

    def forward(self: Embedding, token_ids: Tensor, positions: Tensor) -> Tensor:
        result: Tensor = self.tokens(token_ids) * self.scale + self.positions
        return result

    patch.setattr(Embedding, "forward", forward)


def dropout_made_inside(patch: pytest.MonkeyPatch) -> None:
    """``nn.Dropout(p)(x)`` in a forward pass: a new module is always in training mode, also in evaluation."""
    patch.setattr(Dropout, "forward", lambda self, x: nn.Dropout(self.threshold / 256)(x))


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (sines_overwritten, test_embeddings.test_positions_are_the_papers_sines_and_cosines),
        (denominator_slips, test_embeddings.test_positions_are_the_papers_sines_and_cosines),
        (fill_discarded, test_attention.test_padding_gets_no_weight),
        (fill_discarded, test_transformer.test_no_position_sees_what_comes_after_it),
        (norm_slips, lambda: test_layers.test_an_encoder_layer_is_torchs("pre", "relu")),
        (norm_slips, lambda: test_layers.test_a_decoder_layer_is_torchs("post", "relu")),
        (norm_shared, test_every_sub_layer_has_a_norm_of_its_own),
        (another_norm_used, lambda: test_layers.test_a_decoder_layer_is_torchs("post", "relu")),
        (activation_discarded, lambda: test_layers.test_an_encoder_layer_is_torchs("pre", "relu")),
        (projection_without_use, lambda: test_transformer.test_every_parameter_learns("pre")),
        (padding_mask_for_the_causal_one, test_masks.test_each_position_sees_itself_and_the_past),
        (padding_mask_for_the_causal_one, test_transformer.test_no_position_sees_what_comes_after_it),
        (mask_of_another_size, test_masks.test_each_position_sees_itself_and_the_past),
        (mask_of_another_size, test_transformer.test_no_position_sees_what_comes_after_it),
        (positions_unsliced, test_embeddings.test_a_token_is_scaled_and_its_place_added),
        (one_position_for_all, test_embeddings.test_a_token_is_scaled_and_its_place_added),
        (dropout_made_inside, test_layers.test_layers_drop_in_training_and_not_in_evaluation),
    ],
)
def test_a_published_mistake_is_caught(plant: Plant, test: Test, monkeypatch: pytest.MonkeyPatch) -> None:
    test()
    plant(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError)):
        test()
