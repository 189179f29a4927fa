"""The data-only form of a bundle: weights as safetensors instead of TorchScript; it contains no code.

Both forms are archives with a manifest and vocabulary files in ``extra/``. Where TorchScript has code and pickled
tensors, this form has ``weights.safetensors``; the architecture is :class:`model.network.transformer.Transformer`, set
up as the manifest says. Names, sizes, types, shapes and values are checked before they are used, because the source of
such a file need not be trusted. docs/bundles.md describes the form.
"""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.artifacts.scripted import is_int8_layer
from model.decoding.shortlist import SHORTLIST
from model.errors import ArtifactError
from model.network.config import ModelConfig
from model.network.inference import DTYPES, replace_layers
from model.network.quantised import Int8Linear
from model.network.transformer import Transformer
from model.text import hf_tokenizers
from model.text.lexicon import LEXICON

SUFFIX = ".verso"
"""A file with this suffix is loaded as data or not at all."""

FOLDER = "bundle"
"""The folder that all members of a bundle are in."""

MANIFEST = "manifest.json"

WEIGHTS = f"{FOLDER}/weights.safetensors"

MAX_MANIFEST_BYTES = 16 * 2**20

MAX_FILE_BYTES = 256 * 2**20
"""Largest vocabulary file, shortlist or lexicon; the latter has a smaller bound of its own."""

ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    UnicodeDecodeError,
)
"""What reading a member of a damaged archive raises.

In this order: wrong checksum; wrong offset; cut short; unknown method; encrypted; not of this method; a name that
differs from the one in the list of members, and is not UTF-8.
"""

_FILES = (
    hf_tokenizers.OWN_SPM,
    hf_tokenizers.OWN_TARGET_SPM,
    hf_tokenizers.SOURCE_SPM,
    hf_tokenizers.TARGET_SPM,
    hf_tokenizers.SHARED_SPM,
    hf_tokenizers.VOCABULARY,
    hf_tokenizers.TARGET_VOCABULARY,
    SHORTLIST,
    LEXICON,
)
_MAX_BYTES = {
    f"{FOLDER}/extra/{MANIFEST}": MAX_MANIFEST_BYTES,
    **{f"{FOLDER}/extra/{name}": MAX_FILE_BYTES for name in _FILES},
}
"""Largest size of each member but the weights."""

_ENCRYPTED = 0x1
"""Bit of a member's flags."""


def is_archive(path: Path) -> bool:
    """Whether a file ends as an archive does. ``zipfile.is_zipfile`` raises for one of several disks."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return False


def is_data_form(archive: zipfile.ZipFile) -> bool:
    """Whether an archive has weights as data where a TorchScript archive has code."""
    return WEIGHTS in archive.namelist()


@contextlib.contextmanager
def open_bundle(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a bundle of either form; the members of one in data form are checked before any is read.

    Raises:
        ArtifactError: The file is missing, no archive, or not what its name or its members say.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"There is no bundle at {path}.") from error
    # Unknown versions and encodings are reported by the last two.
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"{path} is no bundle, or was cut short ({error}); restore it from a copy or export it again."
        ) from error
    with archive:
        if is_data_form(archive):
            _check_members(archive, path)
        elif path.suffix == SUFFIX:
            raise ArtifactError(
                f"{path} has the suffix of a data-only bundle but no {WEIGHTS}; nothing of it was run. Get the right "
                f"file, or make one with 'verso convert'."
            )
        yield archive


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse unknown members, and sizes that would not fit into memory.

    Members are stored uncompressed, so together they are no larger than the file.
    """
    names: set[str] = set()
    size = path.stat().st_size
    for member in archive.infolist():
        name = member.filename
        fault = None
        if name != WEIGHTS and name not in _MAX_BYTES:
            fault = "which such a bundle does not have"
        elif name in names:
            fault = "twice"
        elif member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            fault = "compressed; members are stored as they are"
        elif member.flag_bits & _ENCRYPTED:
            fault = "encrypted"
        elif member.file_size > _MAX_BYTES.get(name, size):
            fault = f"of {member.file_size} bytes; it may have {_MAX_BYTES.get(name, size)}"
        if fault is not None:
            raise ArtifactError(f"{path} is no data-only bundle: it has a member {name!r}, {fault}.")
        names.add(name)
    if sum(member.file_size for member in archive.infolist()) > size:
        raise ArtifactError(f"{path} is no data-only bundle: its members are larger than the file.")


def weights_as_bytes(module: Transformer) -> bytes:
    """The weights of a model as safetensors; see :func:`weights_of`.

    An embedding that is equal to the weights of an int8 output is not stored, because it is computed from them when
    the file is read: it would take four times their space.

    Args:
        module: A model on the CPU, scripted or not.
    """
    weights = weights_of(module)
    table = _table_of_output(weights)
    return safetensors.torch.save(
        {
            name: weight
            for name, weight in weights.items()
            if table is None or name not in _TABLES or not torch.equal(weight, table)
        }
    )


_TABLES = ("source_embedding.tokens.weight", "target_embedding.tokens.weight")
"""The weights that may be those of the output; the first one if both are one."""


def _table_of_output(weights: Mapping[str, Tensor]) -> Tensor | None:
    """The embedding that is tied to an int8 output: its weights times their scales, float32; None without one."""
    levels, scales = weights.get("output.weight"), weights.get("output.scales")
    if levels is None or scales is None or levels.dtype != torch.int8 or scales.dtype != torch.float32:
        return None
    if levels.dim() != 2 or scales.shape != levels.shape[:1]:
        return None
    return levels.float() * scales.unsqueeze(1)


def weights_of(module: Transformer) -> dict[str, Tensor]:
    """The weights of a model by their names in this form.

    A tied weight occurs once, under its first name. An int8 layer has ``weight`` (int8), ``scales`` and ``bias``.
    Positions are stored although they could be computed, so that they are equal on every CPU.

    Args:
        module: A model on the CPU, scripted or not.
    """
    weights: dict[str, Tensor] = {}
    addresses: set[int] = set()
    # A part of a scripted model has no named_buffers of its own persistence; all of them are attributes of the model.
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        # Loaded, tied weights are several tensors with one storage.
        if tensor.data_ptr() not in addresses:
            addresses.add(tensor.data_ptr())
            weights[name] = tensor.detach().contiguous()
    for name, part in module.named_modules():
        if is_int8_layer(part):
            weight: Tensor = torch.ops.quantized.linear_unpack(part.packed)[0]
            weights[f"{name}.weight"] = weight.int_repr()
            weights[f"{name}.scales"] = weight.q_per_channel_scales().float()
    return weights


def expand(module: Transformer, config: ModelConfig, precision: str, pad_id: int) -> Transformer:
    """A model in another precision than it was exported in; int8 layers become ordinary ones.

    Args:
        module: The model, on the CPU, scripted or not.
        config: Its architecture.
        precision: One without int8 layers.
        pad_id: The padding token.

    Returns:
        The model, not scripted, on the CPU.

    Raises:
        ArtifactError: The model is not of this architecture.
    """
    weights = weights_of(module)

    def take(name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        weight = weights.get(name)
        if weight is None or tuple(weight.shape) != shape:
            raise ArtifactError(f"The bundle has no weight {name!r} of shape {shape}; export it again.")
        if weight.dtype == torch.int8:
            weight = weight.float() * weights[f"{name.removesuffix('.weight')}.scales"].unsqueeze(1)
        # A copy, so that the other weights can be freed.
        return weight.to(dtype, copy=True)

    return assemble(config, precision, pad_id, take)


def build_model(architecture: Mapping[str, Any], precision: str, pad_id: int, content: bytes) -> Transformer:
    """The model that a manifest describes, with weights from :func:`weights_as_bytes`.

    Args:
        architecture: The fields of :class:`model.network.config.ModelConfig`.
        precision: Of the bundle.
        pad_id: The padding token.
        content: The weights.

    Raises:
        ArtifactError: The weights are damaged, of another architecture or precision, or not finite.
        ConfigError: There is no such architecture.
        DeviceError: The precision is int8, and the processor has no int8 kernels.
    """
    config = ModelConfig.from_dict(architecture)
    weights = _Weights(content)
    if config.encoder_layers + config.decoder_layers > weights.count:
        # Checked before a network is set up, whose size the file determines.
        raise ArtifactError("The bundle's weights have fewer tensors than its architecture has layers.")
    model = assemble(config, precision, pad_id, weights.take)
    weights.expect_no_more()
    return model


Take = Callable[[str, torch.dtype, tuple[int, ...]], Tensor]
"""Gives the weight of a name, which must have a type and a shape."""


def assemble(config: ModelConfig, precision: str, pad_id: int, take: Take) -> Transformer:
    """A model as it is served, of weights.

    Args:
        config: The architecture.
        precision: Of the weights.
        pad_id: The padding token.
        take: Called once for each weight, with its name in this form.

    Raises:
        ArtifactError: The architecture cannot be set up.
        DeviceError: The precision is int8, and the processor has no int8 kernels.
    """
    try:
        with torch.device("meta"), _NothingRandom():
            transformer = Transformer(config, pad_id)
    except (RuntimeError, OverflowError, TypeError) as error:  # numbers that no tensor can have
        raise ArtifactError(f"The bundle's architecture cannot be set up ({error}).") from error

    def stored_layer(name: str, linear: nn.Linear) -> nn.Module:
        if precision != "int8":
            return linear
        rows = linear.out_features
        rounded = take(f"{name}.weight", torch.int8, (rows, linear.in_features))
        scales = take(f"{name}.scales", torch.float32, (rows,))
        return Int8Linear(rounded, scales, take(f"{name}.bias", torch.float32, (rows,)))

    replace_layers(transformer, stored_layer)
    dtype = DTYPES[precision]
    values: dict[int, Tensor] = {}
    for name, empty in [
        *transformer.named_parameters(remove_duplicate=False),
        *transformer.named_buffers(remove_duplicate=False),
    ]:
        if empty.is_meta:
            # Tied weights are one tensor with several names; the first one is stored.
            if id(empty) not in values:
                value = take(name, dtype, tuple(empty.shape))
                values[id(empty)] = (
                    nn.Parameter(value, requires_grad=False) if isinstance(empty, nn.Parameter) else value
                )
            _assign(transformer, name, values[id(empty)])
    return transformer.requires_grad_(False).eval()


_RANDOM = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, Tensor.normal_, Tensor.uniform_)
"""What the layers of a Transformer are initialised with."""


class _NothingRandom(TorchFunctionMode):
    """Skips the random initialisation of parameters.

    On the device ``meta`` it has no effect, but torch would import its compiler for it: 800 modules, 75 MB, 1.5 s.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, or do nothing."""
        named = kwargs or {}
        if func in _RANDOM:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


class _Weights:
    """The tensors of a file, each taken once.

    Args:
        content: The file.

    Raises:
        ArtifactError: It is damaged.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self._left = safetensors.torch.load(content)
        except (safetensors.SafetensorError, ValueError, KeyError, AssertionError, RuntimeError) as error:
            raise ArtifactError(f"The bundle's weights are damaged: {error}; restore it from a copy.") from error
        self._tables = [name for name in _TABLES if name not in self._left]
        self._table = _table_of_output(self._left) if self._tables else None
        self.count = len(self._left)

    def take(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """A tensor that has this type and shape, and finite values.

        Raises:
            ArtifactError: There is no such tensor.
        """
        if name in self._tables and self._table is not None:
            self._left[name] = self._table
        if name not in self._left:
            raise ArtifactError(f"The bundle's weights have no {name!r}; they are of another architecture.")
        weight = self._left.pop(name)
        if weight.dtype != dtype or tuple(weight.shape) != shape:
            raise ArtifactError(
                f"The bundle's weight {name!r} is {_described(weight.dtype, tuple(weight.shape))}; its manifest needs "
                f"{_described(dtype, shape)}."
            )
        if not torch.isfinite(weight).all():
            raise ArtifactError(f"The bundle's weight {name!r} contains NaN or infinity.")
        # A copy has torch's alignment; kernels may add in another order if data is not aligned.
        return weight.clone()

    def expect_no_more(self) -> None:
        """Refuse tensors that nothing needs.

        Raises:
            ArtifactError: There are some.
        """
        if self._left:
            raise ArtifactError(f"The bundle's weights have the unknown {min(self._left)!r}.")


def _described(dtype: torch.dtype, shape: tuple[int, ...]) -> str:
    return f"{str(dtype).removeprefix('torch.')} of shape {shape}"


def _assign(module: nn.Module, name: str, tensor: Tensor) -> None:
    """Put a tensor where a dotted name leads."""
    path, _, last = name.rpartition(".")
    setattr(module.get_submodule(path), last, tensor)
