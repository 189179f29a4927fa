"""Architectures: impossible ones are refused with the field named, the others round-trip through JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from model.errors import ConfigError
from model.network.config import ModelConfig
from tests.model.torch_layers import small_config

COUNTS = (
    "source_vocab_size",
    "target_vocab_size",
    "d_model",
    "num_heads",
    "d_ff",
    "encoder_layers",
    "decoder_layers",
    "max_positions",
)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -4, 2.5, "8", True, None], ids=repr)
def test_a_count_must_be_a_positive_integer(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} is {value!r}; it must be a whole number of at least 1"):
        small_config(**{name: value})


@pytest.mark.parametrize(
    ("wrong", "output"),
    [
        ({"num_heads": 3}, "num_heads is 3, which does not divide d_model 16"),
        ({"d_model": 15, "num_heads": 5}, "d_model is 15; .* must be even"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be a number of at least 0 and below 1"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps is 0.0; it must be a number above 0 and below 1"),
        ({"activation": "tanh"}, "activation is 'tanh'; it must be 'relu', 'silu' or 'gelu'"),
        ({"norm": "middle"}, "norm is 'middle'; it must be 'pre', 'post' or 'residual-post'"),
        ({"layer_norm_gain": "matrix"}, "layer_norm_gain is 'matrix'; it must be 'vector' or 'scalar'"),
        ({"tie_output": 1}, "tie_output is 1; it must be true or false"),
        ({"positions": "rotary"}, "positions is 'rotary'; it must be 'interleaved', .* or 'learned'"),
        ({"decoder": "lstm"}, "decoder is 'lstm'; it must be 'self_attention' or 'ssru'"),
        ({"start": "end"}, "start is 'end'; it must be 'token' or 'zero'"),
        ({"position_offset": -1}, "position_offset is -1; it must be a whole number of at least 0"),
        ({"target_vocab_size": 30}, "the source has 20 tokens and the target 30; set share_embeddings to false"),
    ],
    ids=str,
)
def test_an_impossible_architecture_is_refused_with_the_field_named(wrong: dict[str, Any], output: str) -> None:
    with pytest.raises(ConfigError, match=output):
        small_config(**wrong)


def test_vocabularies_may_differ_if_nothing_is_shared() -> None:
    assert small_config(target_vocab_size=30, share_embeddings=False).target_vocab_size == 30


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"norm": "post"},
        {"norm": "residual-post", "layer_norm_gain": "scalar"},
        {"activation": "silu", "dropout": 0},
    ],
    ids=str,
)
def test_an_architecture_round_trips_through_json(change: dict[str, Any]) -> None:
    config = small_config(**change)
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_every_field_is_documented() -> None:
    assert [
        field.name for field in dataclasses.fields(ModelConfig) if f" {field.name}: " not in str(ModelConfig.__doc__)
    ] == []


def test_a_model_of_an_earlier_release_has_no_embedding_norm() -> None:
    values = small_config().to_dict()
    assert ModelConfig.from_dict({**values, "embedding_norm": False}) == small_config()
    with pytest.raises(ConfigError, match="has embedding_norm, a norm after the embeddings"):
        ModelConfig.from_dict({**values, "embedding_norm": True})
