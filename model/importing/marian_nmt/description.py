"""The architecture that a Marian model describes in ``special:model.yml``.

Options that do not change this network, such as those of other cells and of average attention, are not read. Every
other option must have a supported value; an error names the option, its value and what is supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from model.errors import ArtifactError, ConfigError
from model.importing.marian_nmt.flat_yaml import Value, read_flat_yaml
from model.importing.marian_nmt.items import DESCRIPTION, MarianFile
from model.importing.values import shown
from model.network.config import Activation, ModelConfig

MAX_POSITIONS = 512
"""Rows of the position table, which Marian computes for any length."""

_LAYER_NORM_EPS = 1e-6

_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "silu"}
"""Marian's ``gelu`` is ``x * sigmoid(1.702 * x)``, an approximation that :class:`ModelConfig` does not have."""

_REQUIRED: dict[str, tuple[str, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-depth": ("2", ""),
    "transformer-decoder-ffn-depth": ("0", "2", ""),
    # Post-norm. With pre-norm, Marian computes the keys of earlier positions otherwise in decoding than in training.
    "transformer-preprocess": ("", "d"),
    "transformer-postprocess": ("dan", "an"),
    "transformer-postprocess-top": ("", "d"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-no-projection": ("false", ""),
    "transformer-rnn-projection": ("false", ""),
    "transformer-tied-layers": ("[]", ""),
    "transformer-train-position-embeddings": ("false", ""),
    "transformer-train-positions": ("false", ""),
    "transformer-disable-position-embeddings": ("false", ""),
    "transformer-attention-mask": ("default", "none", ""),
    "transformer-pool": ("false", ""),
    "transformer-no-bias": ("false", ""),
    "transformer-no-affine": ("false", ""),
    "layer-normalization": ("false", ""),
    "input-types": ("[]", ""),
    "factors-dim-emb": ("0", ""),
    "lemma-dim-emb": ("0", ""),
    "ulr": ("false", ""),
    "right-left": ("false", ""),
}
"""Supported values of options; an absent option counts as an empty one."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Description:
    """The architecture of a model, and which tensors its embeddings are.

    Args:
        config: The architecture.
        source_embedding: Name of the source embedding.
        target_embedding: Name of the target embedding.
        output: Name of the output projection; one of the embeddings if it is tied.
        guided_layer: Whether the last layer of the decoder is the one that guided alignment trains.
    """

    config: ModelConfig
    source_embedding: str
    target_embedding: str
    output: str
    guided_layer: bool

    @property
    def is_student(self) -> bool:
        """Whether the decoder is recurrent, as in the small models that others train."""
        return self.config.decoder == "ssru"


def read_description(file: MarianFile) -> Description:
    """Read and check the description of a model.

    Args:
        file: The model.

    Raises:
        ArtifactError: It is damaged, describes another kind of network, or does not match the tensors.
    """
    options = _Options(file)
    for key, supported in _REQUIRED.items():
        options.choose(key, supported)
    recurrent = options.choose("transformer-decoder-autoreg", ("rnn", "self-attention", "")) == "rnn"
    if recurrent:
        options.choose("dec-cell", ("ssru",))
    all_tied, source_tied, output_tied = (options.flag(f"tied-embeddings{suffix}") for suffix in ("-all", "-src", ""))
    shared = all_tied or source_tied
    source, target = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    output = target if all_tied or output_tied else _untied_output(file)
    vocab_sizes = options.vocab_sizes()
    width, d_ff, num_layers = options.number("dim-emb"), options.number("transformer-dim-ffn"), file.names
    depths = [options.number(f"{stack}-depth") for stack in ("enc", "dec")]
    if max(depths) > len(num_layers):
        raise options.refusal("enc-depth and dec-depth", shown(depths), f"the file has {len(num_layers)} tensors")
    for name, rows in ((source, vocab_sizes[0]), (target, vocab_sizes[1])):
        _check_embedding(file, name, (rows, width))
    decoder_d_ff = options.number("transformer-decoder-dim-ffn", default=d_ff)
    try:
        config = ModelConfig(
            source_vocab_size=vocab_sizes[0],
            target_vocab_size=vocab_sizes[1],
            d_model=width,
            num_heads=options.number("transformer-heads"),
            d_ff=d_ff,
            encoder_layers=depths[0],
            decoder_layers=depths[1],
            activation=_ACTIVATIONS[options.choose("transformer-ffn-activation", tuple(_ACTIVATIONS))],
            norm="post",
            share_embeddings=shared,
            tie_output=output == target,
            max_positions=MAX_POSITIONS,
            layer_norm_eps=_LAYER_NORM_EPS,
            positions="tensor2tensor",
            output_bias=not options.flag("output-omit-bias"),
            decoder_d_ff=None if decoder_d_ff == d_ff else decoder_d_ff,
            decoder="ssru" if recurrent else "self_attention",
            start="zero",
        )
    except ConfigError as error:
        raise ArtifactError(f"{file.path}: {DESCRIPTION} describes no possible model: {error}") from error
    guided = options.text("transformer-guided-alignment-layer") in ("", "last", str(depths[1]))
    return Description(config, source, target, output, guided)


class _Options:
    """The options of a description.

    Args:
        file: The model.

    Raises:
        ArtifactError: The description is damaged.
    """

    def __init__(self, file: MarianFile) -> None:
        self._path = file.path
        try:
            self._values: dict[str, Value] = dict(read_flat_yaml(file.description()))
        except ValueError as error:
            raise file.damaged(f"{DESCRIPTION} is not YAML: {error}") from error

    def text(self, key: str) -> str:
        """The value of an option; empty if it is absent, a list as ``[]`` or ``[a, b]``."""
        value = self._values.get(key, "")
        return value if isinstance(value, str) else f"[{', '.join(value)}]"

    def choose(self, key: str, supported: tuple[str, ...]) -> str:
        """The value of an option that must be one of several.

        Args:
            key: The option.
            supported: The values; an empty one stands for an absent option.

        Raises:
            ArtifactError: It has another value.
        """
        value = self.text(key)
        if value not in supported:
            named = ", ".join(shown(choice) for choice in supported if choice) or "no value"
            raise self.refusal(key, shown(value), f"{named} can be imported")
        return value

    def flag(self, key: str) -> bool:
        """A boolean; False if it is absent."""
        return self.choose(key, ("true", "false", "")) == "true"

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number above 0.

        Args:
            key: The option.
            default: The value of an absent option, and of 0; None if it is required.

        Raises:
            ArtifactError: It is another value.
        """
        value = self.text(key)
        if default is not None and value in ("", "0"):
            return default
        if _NUMBER.fullmatch(value) is None:
            raise self.refusal(key, shown(value), "it must be a whole number above 0")
        return int(value)

    def vocab_sizes(self) -> tuple[int, int]:
        """Sizes of the source and target vocabulary."""
        sizes = self._values.get("dim-vocabs", [])
        if isinstance(sizes, str) or len(sizes) != 2 or not all(map(_NUMBER.fullmatch, sizes)):
            raise self.refusal("dim-vocabs", shown(sizes), "it must be two sizes: one source and one target")
        return int(sizes[0]), int(sizes[1])

    def refusal(self, key: str, value: str, supported: str) -> ArtifactError:
        """The error for a value that is not supported.

        Args:
            key: The option.
            value: Its value.
            supported: What is supported, as a clause.
        """
        return ArtifactError(f"{self._path}: {DESCRIPTION} has {key} {value}; {supported}.")


def _untied_output(file: MarianFile) -> str:
    for name in ("decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"):
        if name in file.names:
            return name
    raise file.damaged("it has no output projection, decoder_ff_logit_out_W or decoder_ff_logit_out_Wt")


def _check_embedding(file: MarianFile, name: str, shape: tuple[int, int]) -> None:
    """Compare an embedding with the description before memory is allocated for the model."""
    if name not in file.names:
        raise file.damaged(f"it has no {name}, which {DESCRIPTION} makes an embedding")
    if file.shape(name) != shape:
        raise ArtifactError(
            f"{file.path}: {name} has shape {file.shape(name)}, and {DESCRIPTION} makes it {shape} (dim-vocabs and "
            "dim-emb)."
        )
