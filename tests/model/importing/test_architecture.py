"""One Transformer for several families."""

from __future__ import annotations

from model.network.config import ModelConfig
from model.network.transformer import Transformer


def test_attention_without_biases_has_none() -> None:
    config = ModelConfig(20, 20, d_model=16, num_heads=2, d_ff=24, attention_bias=False, output_bias=False)
    names = [name for name, _ in Transformer(config, 0).named_parameters()]
    assert not [name for name in names if "attention" in name and "norm" not in name and name.endswith("bias")]
    assert "output.bias" not in names
    assert [name for name in names if name.endswith("feed_forward.wide.bias")]
