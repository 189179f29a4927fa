"""Four published Transformers as architectures; each preset sets only the fields that define it.

``model: {preset: post-norm}`` in a training configuration sets the fields below; other keys beside ``preset`` override
them. docs/decisions/0012 explains the differences from the publications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.errors import ConfigError

_BASE: dict[str, Any] = {
    "d_model": 512,
    "num_heads": 8,
    "d_ff": 2048,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "dropout": 0.1,
    # In all four, source embedding, target embedding and output projection are separate tables.
    "share_embeddings": False,
    "tie_output": False,
}
"""The base shape of Vaswani et al. 2017, table 3."""

PRESETS: dict[str, dict[str, Any]] = {
    "pre-norm-scalar": {**_BASE, "norm": "pre", "layer_norm_gain": "scalar", "attention_bias": False},
    "pre-norm": {**_BASE, "norm": "pre"},
    "post-norm": {**_BASE, "norm": "post", "d_ff": 1024, "dropout": 0.2},
    "res-post-norm": {
        **_BASE,
        "norm": "residual-post",
        "attention_bias": False,
        "d_model": 128,
        "num_heads": 4,
        "d_ff": 128,
        "encoder_layers": 1,
        "decoder_layers": 1,
    },
}
"""Fields of :class:`model.network.config.ModelConfig` by preset; the tokenizer decides the vocabulary sizes."""

ABOUT: dict[str, str] = {
    "pre-norm-scalar": "x + f(norm(x)); one scalar gain and bias a norm; attention without biases",
    "pre-norm": "x + f(norm(x)); the base shape: d_model 512, 8 heads, 6 + 6 layers, d_ff 2048",
    "post-norm": "norm(x + f(x)), Add & Norm; made for a vocabulary of each language's own",
    "res-post-norm": "x + norm(f(x)); feed-forward as wide as the model; attention without biases",
}
"""A one-line description of each preset."""

_FEED_FORWARD_AS_WIDE_AS_MODEL = ("res-post-norm",)


def expand_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Architecture fields with ``preset`` replaced by its fields.

    Args:
        values: Fields of :class:`model.network.config.ModelConfig`, and optionally ``preset``.

    Returns:
        Fields without ``preset``; the other keys take precedence.

    Raises:
        ConfigError: There is no such preset.
    """
    overrides = dict(values)
    if "preset" not in overrides:
        return overrides
    name = overrides.pop("preset")
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"preset is {name!r}; it must be one of {', '.join(PRESETS)}.")
    fields = {**PRESETS[name], **overrides}
    if name in _FEED_FORWARD_AS_WIDE_AS_MODEL and "d_ff" not in overrides:
        fields["d_ff"] = fields["d_model"]
    return fields
