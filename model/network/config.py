"""The architecture of a model: the configuration stored with its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from model.configuration import Count, Flag, NonNegative, configuration, from_mapping
from model.errors import ConfigError

Activation = Literal["relu", "silu", "gelu"]
NormPosition = Literal["pre", "post", "residual-post"]
NormGain = Literal["vector", "scalar"]
PositionTable = Literal["interleaved", "halves", "tensor2tensor", "learned"]
Decoder = Literal["self_attention", "ssru"]
Start = Literal["token", "zero"]

_REMOVED = "embedding_norm"
"""A field of earlier releases."""


@configuration("The architecture")
class ModelConfig:
    """Architecture of a Transformer: everything needed to use its weights.

    Args:
        source_vocab_size: Rows of the source embedding, V.
        target_vocab_size: Rows of the target embedding and of the output projection, V.
        d_model: Width of the vectors between layers, C.
        num_heads: Attention heads, H; divides ``d_model``.
        d_ff: Width inside the feed-forward sub-layer.
        encoder_layers: Layers of the encoder.
        decoder_layers: Layers of the decoder; each runs for every generated token.
        dropout: Probability of zeroing a value, in training only.
        activation: Activation function between the two feed-forward projections.
        norm: ``pre`` normalises the input of a sub-layer (Xiong et al. 2020, arXiv:2002.04745) and the output of each
            stack; ``post`` normalises the sum after a sub-layer (Vaswani et al. 2017); ``residual-post`` normalises
            the output of a sub-layer before it is added (Liu et al. 2022, arXiv:2111.09883, section 3.2).
        share_embeddings: Whether source and target share one embedding table; needs equal vocabularies.
        tie_output: Whether the output projection is the transposed target embedding (Press & Wolf 2017).
        max_positions: Longest source or target, in tokens; the number of rows of the position table.
        positions: How position vectors are made (:func:`model.network.embeddings.position_table`); ``learned`` rows are
            weights.
        position_offset: Position of the first token; model families that reserve positions for padding start above 0.
        scale_embedding: Whether token vectors are multiplied by ``sqrt(d_model)``.
        attention_bias: Whether the projections of attention have biases.
        output_bias: Whether the output projection has a bias.
        decoder_num_heads: Heads of the decoder; ``num_heads`` if None.
        decoder_d_ff: Feed-forward width of the decoder; ``d_ff`` if None.
        layer_norm_eps: Added to the variance in layer normalisation.
        layer_norm_gain: ``vector`` gives normalisation a gain and a bias for each column, ``scalar`` one of each for
            all columns.
        decoder: How a decoder layer sees the target so far: ``self_attention`` attends to all of it, ``ssru`` reads it
            as a recurrent unit (:mod:`model.network.recurrence`; Marian's ``transformer-decoder-autoreg: rnn`` with
            ``dec-cell: ssru``).
        start: The first input of the decoder: ``token`` is the vector of the start token, ``zero`` a vector of zeros,
            for which the vocabulary needs no token (Marian). The vector of its position is added to either.

    Raises:
        ConfigError: The values do not describe a possible model.
    """

    source_vocab_size: Count
    target_vocab_size: Count
    d_model: Count = 256
    num_heads: Count = 4
    d_ff: Count = 1024
    encoder_layers: Count = 6
    decoder_layers: Count = 2
    dropout: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.1
    activation: Activation = "relu"
    norm: NormPosition = "pre"
    share_embeddings: Flag = True
    tie_output: Flag = True
    max_positions: Count = 256
    layer_norm_eps: Annotated[float, Field(strict=True, gt=0, lt=1)] = 1e-5
    positions: PositionTable = "interleaved"
    position_offset: NonNegative = 0
    scale_embedding: Flag = True
    attention_bias: Flag = True
    output_bias: Flag = True
    decoder_num_heads: Count | None = None
    decoder_d_ff: Count | None = None
    layer_norm_gain: NormGain = "vector"
    decoder: Decoder = "self_attention"
    start: Start = "token"

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        for name, heads in (("num_heads", self.num_heads), ("decoder_num_heads", self.decoder_num_heads)):
            if heads is not None and self.d_model % heads:
                raise ValueError(
                    f"{name} is {heads}, which does not divide d_model {self.d_model}; "
                    "each head takes an equal share of the width."
                )
        if self.d_model % 2:
            raise ValueError(f"d_model is {self.d_model}; sines and cosines come in pairs, so it must be even.")
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"share_embeddings needs one vocabulary, but the source has {self.source_vocab_size} tokens and "
                f"the target {self.target_vocab_size}; set share_embeddings to false."
            )
        return self

    @property
    def decoder_stack(self) -> ModelConfig:
        """The architecture with the heads and the feed-forward width of the decoder's layers."""
        return replace(self, num_heads=self.decoder_num_heads or self.num_heads, d_ff=self.decoder_d_ff or self.d_ff)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """Build from the fields by name.

        Raises:
            ConfigError: A field is unknown or missing, or the values do not describe a possible model.
        """
        values = dict(values)
        if values.pop(_REMOVED, False):  # models of release 0.1.0 have it, and it is false
            raise ConfigError(
                f"The architecture has {_REMOVED}, a norm after the embeddings, which this release does not compute; "
                "use release 0.1.0, or train the model without it."
            )
        return from_mapping(cls, values)
