"""Reading a checkpoint's folder: JSON files, vocabulary files, and tensors by their names.

The content of the folder is not trusted: every value read from JSON is checked, and pickles are read without running
code.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.artifacts.data_form import is_archive
from model.errors import ArtifactError

_SAFETENSORS = "model.safetensors"
_PICKLE = "pytorch_model.bin"

_DESCRIPTIONS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "target_vocab.json",
    "source.spm",
    "target.spm",
    "sentencepiece.bpe.model",
    "README.md",
)

Read = Callable[[str], Tensor]
"""Returns a tensor by its name in the checkpoint."""


def needed_files(names: Collection[str]) -> tuple[list[str], list[str]]:
    """Of all the files of a checkpoint, those that an import reads.

    Args:
        names: All files.

    Returns:
        The small files that describe the checkpoint, and the files of its weights: safetensors if there are any, else
        pickles; none if there are neither.
    """
    descriptions = [name for name in _DESCRIPTIONS if name in names]
    for single_file in (_SAFETENSORS, _PICKLE):
        if single_file in names:
            return descriptions, [single_file]
        if f"{single_file}.index.json" in names:
            stem, suffix = single_file.split(".")
            parts = [name for name in sorted(names) if re.fullmatch(rf"{stem}-[\w-]+\.{suffix}", name)]
            return [*descriptions, f"{single_file}.index.json"], parts
    return descriptions, []


class CheckpointFolder:
    """A downloaded checkpoint.

    Args:
        path: The folder.

    Raises:
        ArtifactError: The folder does not exist, or is a file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            problem = "is a file, not a folder" if path.exists() else "is not there"
            raise ArtifactError(f"{path} {problem}; give the folder that contains the checkpoint's config.json.")
        self.path = path

    def json(self, name: str, *, optional: bool = False) -> dict[str, Any]:
        """Read a JSON object.

        Args:
            name: The file.
            optional: Whether a missing file counts as an empty object.

        Raises:
            ArtifactError: The file is missing or is not a JSON object.
        """
        if optional and not (self.path / name).is_file():
            return {}
        try:
            values = json.loads(self.bytes(name))
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{self.path / name} is not JSON ({error}); download it again.") from error
        if not isinstance(values, dict):
            raise ArtifactError(f"{self.path / name} contains no JSON object; download it again.")
        return values

    def has(self, name: str) -> bool:
        """Whether the file exists."""
        return (self.path / name).is_file()

    def bytes(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            ArtifactError: It is missing or cannot be read.
        """
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError as error:
            raise ArtifactError(f"{self.path} has no {name}; download the whole checkpoint.") from error
        except OSError as error:
            raise ArtifactError(f"{self.path / name} cannot be read: {error.strerror}.") from error

    def licence(self) -> str | None:
        """The licence named in the front matter of README.md, or None."""
        if not self.has("README.md"):
            return None
        text = self.bytes("README.md").decode("utf-8", errors="replace")
        if not text.startswith("---"):
            return None
        try:
            front = yaml.safe_load(text.split("---")[1])
        except (yaml.YAMLError, ValueError, RecursionError):
            return None  # the licence is optional, so a damaged front matter is ignored
        licence = front.get("license") if isinstance(front, dict) else None
        several = licence if isinstance(licence, list) else [licence]
        return ", ".join(entry for entry in several if isinstance(entry, str)) or None


class Tensors:
    """The weights of a checkpoint.

    Args:
        folder: The folder with ``model.safetensors`` or ``pytorch_model.bin``, in one file or in several.

    Raises:
        ArtifactError: There are no weights, or they are damaged, or a pickle contains code.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self._files: dict[str, Path] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Shape of each tensor, by name."""
        self._loaded: dict[Path, dict[str, Tensor]] = {}  # content of pickles that cannot be mapped into memory
        for path in _weight_files(folder):
            with self._reading_part(path) as (names, read):
                for name in names:
                    self._files[name] = path
                    self.shapes[name] = tuple(read(name).shape)

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor with this name."""
        return name in self._files

    @contextmanager
    def reading(self) -> Iterator[Read]:
        """Give a function that reads tensors while the context is open; closing it releases the files' memory."""
        with ExitStack() as stack:
            readers: dict[Path, Read] = {}

            def read(name: str) -> Tensor:
                path = self._files[name]
                if path not in readers:
                    readers[path] = stack.enter_context(self._reading_part(path))[1]
                return readers[path](name)

            yield read

    @contextmanager
    def _reading_part(self, path: Path) -> Iterator[tuple[Sequence[str], Read]]:
        if path.suffix == ".safetensors":
            try:
                weights = safe_open(path, framework="pt", device="cpu")
            except (SafetensorError, OSError) as error:
                raise ArtifactError(f"{path} is damaged ({_first_line(error)}); download it again.") from error
            with weights as archive:
                yield list(archive.keys()), archive.get_tensor
            return
        tensors = self._loaded.get(path)
        if tensors is None:
            mapped = is_archive(path)
            tensors = _read_pickle(path, mapped=mapped)
            if not mapped:
                self._loaded[path] = tensors
        yield list(tensors), tensors.__getitem__


def _weight_files(folder: CheckpointFolder) -> list[Path]:
    for name in (_SAFETENSORS, _PICKLE):
        if folder.has(name):
            return [folder.path / name]
        if folder.has(f"{name}.index.json"):
            parts = folder.json(f"{name}.index.json").get("weight_map")
            if not isinstance(parts, dict) or not parts:
                raise ArtifactError(f"{folder.path / name}.index.json has no weight_map; download it again.")
            names = sorted({str(part) for part in parts.values()})
            for part in names:
                if Path(part).name != part or not folder.has(part):
                    raise ArtifactError(f"{folder.path} has no {part}, which {name}.index.json names; download it.")
            return [folder.path / part for part in names]
    raise ArtifactError(
        f"{folder.path} contains no weights: neither {_SAFETENSORS} nor {_PICKLE} is there. "
        "(Checkpoints of TensorFlow and Flax are not read.)"
    )


def _read_pickle(path: Path, *, mapped: bool) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of old formats, which it can read
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        if re.search(r"GLOBAL|reduce for|Can only (create|build)", str(error)) is None:
            raise ArtifactError(
                f"{path} is damaged, or no file of PyTorch weights; nothing of it was run. Download it again, or ask "
                "for a model.safetensors."
            ) from error
        named = re.search(r"GLOBAL (\S+)", str(error))
        kind = f"more than tensors ({named[1]})" if named else "more than tensors"
        raise ArtifactError(
            f"{path} is refused: it contains {kind}, and reading that would run code of its author. None was run. Ask "
            "for a model.safetensors, or for a file saved with torch.save(model.state_dict())."
        ) from error
    except Exception as error:  # torch.load raises errors of many libraries, such as zlib's and struct's
        kind = f"{type(error).__name__}: {_first_line(error)}"
        raise ArtifactError(f"{path} is damaged ({kind}); download it again.") from error
    if not isinstance(content, dict) or not content:
        kind = "nothing" if isinstance(content, dict) else f"a {type(content).__name__}"
        raise ArtifactError(
            f"{path} contains {kind} where names and tensors should be; ask for a file saved with "
            "torch.save(model.state_dict())."
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or not _is_plain(value):
            kind = str(value.layout) if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise ArtifactError(
                f"{path} contains {kind} under {str(name)[:60]!r} where a tensor should be; ask for a file saved with "
                "torch.save(model.state_dict())."
            )
    return content


def _is_plain(value: Tensor) -> bool:
    """Whether a tensor is dense, in memory, and not quantised."""
    return value.layout is torch.strided and value.device.type == "cpu" and not value.is_quantized


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
