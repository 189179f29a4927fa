"""What a model is made of: the numbers that travel with its weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from model.errors import ConfigError

Activation = Literal["relu", "silu", "gelu"]
NormPosition = Literal["pre", "post", "residual-post"]
NormGain = Literal["vector", "scalar"]
PositionTable = Literal["interleaved", "halves", "tensor2tensor", "learned"]


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of one Transformer; everything its weights need to make sense.

    Args:
        source_vocab_size: Rows of the source embedding, V.
        target_vocab_size: Rows of the target embedding and of the output projection, V.
        d_model: Width of the vectors between layers, C.
        num_heads: Attention heads, H; divides ``d_model``.
        d_ff: Width inside the feed-forward sub-layer.
        encoder_layers: Layers of the encoder.
        decoder_layers: Layers of the decoder; each is paid for at every generated token.
        dropout: Probability of zeroing a value, in training only.
        activation: Between the two feed-forward projections.
        norm: ``pre`` normalises what enters a sub-layer (Xiong et al. 2020, arXiv:2002.04745) and once more
            after each stack; ``post`` normalises the sum that leaves it (Vaswani et al. 2017); ``residual-post``
            normalises what the sub-layer gives before it is added (Liu et al. 2022, arXiv:2111.09883, section 3.2).
        share_embeddings: Source and target read one embedding table; needs equal vocabularies.
        tie_output: The output projection is the target embedding, transposed (Press & Wolf 2017).
        max_positions: Longest source or target, in tokens, that positions are prepared for.
        positions: How places become vectors (:func:`model.network.embeddings.position_table`); ``learned`` rows are
            weights.
        position_offset: Row of the table that the first token reads; families that number padding start later.
        scale_embedding: Whether token vectors are multiplied by ``sqrt(d_model)``.
        embedding_norm: Whether the sum of token and position is normalised (BART's layernorm_embedding).
        attention_bias: Whether the projections of attention have biases.
        output_bias: Whether the output projection has one.
        decoder_num_heads: Heads of the decoder, where they are not ``num_heads``.
        decoder_d_ff: Feed-forward width of the decoder, where it is not ``d_ff``.
        layer_norm_eps: Added to the variance inside layer normalisation.
        layer_norm_gain: Whether normalisation has a gain and a bias for each column, or one of each for all.

    Raises:
        ConfigError: The numbers describe no possible model.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 256
    num_heads: int = 4
    d_ff: int = 1024
    encoder_layers: int = 6
    decoder_layers: int = 2
    dropout: float = 0.1
    activation: Activation = "relu"
    norm: NormPosition = "pre"
    share_embeddings: bool = True
    tie_output: bool = True
    max_positions: int = 256
    layer_norm_eps: float = 1e-5
    positions: PositionTable = "interleaved"
    position_offset: int = 0
    scale_embedding: bool = True
    embedding_norm: bool = False
    attention_bias: bool = True
    output_bias: bool = True
    decoder_num_heads: int | None = None
    decoder_d_ff: int | None = None
    layer_norm_gain: NormGain = "vector"

    def __post_init__(self) -> None:
        for name in (
            "source_vocab_size",
            "target_vocab_size",
            "d_model",
            "num_heads",
            "d_ff",
            "encoder_layers",
            "decoder_layers",
            "max_positions",
            "decoder_num_heads",
            "decoder_d_ff",
        ):
            value = getattr(self, name)
            if value is None and name.startswith("decoder_") and name != "decoder_layers":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number of at least 1.")
        for name in ("dropout", "layer_norm_eps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigError(f"{name} is {value!r}; it must be a number.")
        if (
            isinstance(self.position_offset, bool)
            or not isinstance(self.position_offset, int)
            or self.position_offset < 0
        ):
            raise ConfigError(f"position_offset is {self.position_offset!r}; it must be a whole number of at least 0.")
        for name in (
            "share_embeddings",
            "tie_output",
            "scale_embedding",
            "embedding_norm",
            "attention_bias",
            "output_bias",
        ):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be true or false.")
        for name, heads in (("num_heads", self.num_heads), ("decoder_num_heads", self.decoder_num_heads)):
            if heads is not None and self.d_model % heads:
                raise ConfigError(
                    f"{name} is {heads}, which does not divide d_model {self.d_model}; "
                    "each head takes an equal share of the width."
                )
        if self.d_model % 2:
            raise ConfigError(f"d_model is {self.d_model}; sines and cosines come in pairs, so it must be even.")
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout is {self.dropout}; it must be at least 0 and below 1.")
        if not 0.0 < self.layer_norm_eps < 1.0:
            raise ConfigError(f"layer_norm_eps is {self.layer_norm_eps}; it must be above 0 and below 1.")
        if self.activation not in ("relu", "silu", "gelu"):
            raise ConfigError(f"activation is {self.activation!r}; it must be 'relu', 'silu' or 'gelu'.")
        if self.positions not in get_args(PositionTable):
            raise ConfigError(
                f"positions is {self.positions!r}; it must be one of {', '.join(get_args(PositionTable))}."
            )
        if self.norm not in get_args(NormPosition):
            raise ConfigError(f"norm is {self.norm!r}; it must be 'pre', 'post' or 'residual-post'.")
        if self.layer_norm_gain not in get_args(NormGain):
            raise ConfigError(f"layer_norm_gain is {self.layer_norm_gain!r}; it must be 'vector' or 'scalar'.")
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ConfigError(
                f"share_embeddings needs one vocabulary, but the source has {self.source_vocab_size} tokens and "
                f"the target {self.target_vocab_size}; set share_embeddings to false."
            )

    @property
    def decoder_stack(self) -> ModelConfig:
        """The same architecture as the decoder's layers see it: with their own heads and width."""
        return replace(self, num_heads=self.decoder_num_heads or self.num_heads, d_ff=self.decoder_d_ff or self.d_ff)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        """Build from the fields by name.

        Raises:
            ConfigError: A field is unknown or missing, or the numbers describe no possible model.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigError(f"Unknown model field {unknown[0]!r}; the fields are {', '.join(sorted(known))}.")
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"The model is not fully described: {error}.") from error
