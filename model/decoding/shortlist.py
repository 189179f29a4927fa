"""The target tokens that a sentence can need, by its source tokens; other logits are not computed.

A shortlist is a table: for each source token, the target tokens that are likely translations of it; and the target
tokens that any sentence may need (Jean et al. 2015, arXiv:1412.2007, section 3.3; Mi et al. 2016, arXiv:1605.03209).
Candidates are chosen for each sentence, not for a batch, so an answer does not depend on the other sentences.

:mod:`model.training.shortlist` learns one; ``verso shortlist`` puts it into a bundle.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from model.errors import ArtifactError

Ids = npt.NDArray[np.int32]

SHORTLIST = "shortlist.npz"
"""The name of a shortlist inside a bundle."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Likely target tokens of every source token.

    Args:
        offsets: Index in ``ids`` of the beginning of each source token's list, and the end of the last one,
            (V source + 1,).
        ids: Target tokens, list after list, each in ascending order.
        always: Target tokens that every sentence may need, in ascending order, including the closing token.
        facts: Metadata of its training.
    """

    offsets: Ids
    ids: Ids
    always: Ids
    facts: dict[str, Any] = field(default_factory=dict)

    def candidates(self, source_ids: Sequence[int], required_ids: Sequence[int] = ()) -> Ids:
        """The candidate tokens of a sentence's answer, in ascending order.

        They are ``always``, the lists of its source tokens, and the tokens that it requires.

        Args:
            source_ids: The sentence's tokens, markers included.
            required_ids: Tokens that every hypothesis contains.
        """
        lists = [self.ids[self.offsets[token] : self.offsets[token + 1]] for token in set(source_ids)]
        return np.unique(np.concatenate([self.always, *lists, np.array(required_ids, dtype=np.int32)]))

    def to_bytes(self) -> bytes:
        """The table as a compressed NumPy archive; the same table gives the same bytes."""
        sink = io.BytesIO()
        facts = np.frombuffer(json.dumps(self.facts, sort_keys=True).encode(), dtype=np.uint8)
        # Lists ascend: their differences are small numbers, which compress to half the size.
        steps = np.diff(self.ids, prepend=np.int32(0))
        np.savez_compressed(sink, lengths=np.diff(self.offsets), steps=steps, always=self.always, facts=facts)
        return sink.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, limits: Limits | None = None) -> Shortlist:
        """Read the result of :meth:`to_bytes`.

        Args:
            content: The bytes.
            limits: The bounds of a table, checked before anything is inflated; None for a trusted table.

        Raises:
            ArtifactError: It is damaged, or not a shortlist.
        """
        try:
            _check_sizes(content, limits)
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                lengths, steps, always = (_to_ids(arrays[name], name) for name in ("lengths", "steps", "always"))
                facts = json.loads(arrays["facts"].tobytes())
        # NumPy, zipfile and zlib raise about ten kinds of errors for damaged archives, not all of them documented.
        except Exception as error:
            raise ArtifactError(f"The vocabulary shortlist is damaged ({error}); {_AGAIN}.") from error
        if not isinstance(facts, dict):
            raise ArtifactError(f"The vocabulary shortlist is damaged (facts is not a mapping); {_AGAIN}.")
        if (lengths < 0).any():
            raise ArtifactError(f"The vocabulary shortlist is damaged (a list has a negative length); {_AGAIN}.")
        offsets = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(lengths, dtype=np.int32)])
        return cls(offsets, np.cumsum(steps, dtype=np.int32), always, facts)

    def check(self, source_vocab_size: int, target_vocab_size: int, end_id: int) -> None:
        """Refuse a table that does not fit this model, or with which a sentence could not end.

        Args:
            source_vocab_size: Source tokens of the model.
            target_vocab_size: Target tokens of the model.
            end_id: The closing token.

        Raises:
            ArtifactError: It does not fit; the message has the reason.
        """
        fault = self._fault(source_vocab_size, target_vocab_size, end_id)
        if fault is not None:
            raise ArtifactError(f"The vocabulary shortlist does not fit the model: {fault}; {_AGAIN}.")

    def _fault(self, source_vocab_size: int, target_vocab_size: int, end_id: int) -> str | None:
        if len(self.offsets) != source_vocab_size + 1:
            return f"it has lists for {len(self.offsets) - 1} source tokens and the model has {source_vocab_size}"
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.ids) or (np.diff(self.offsets) < 0).any():
            return "its lists do not follow each other"
        for name, tokens in (("a list", self.ids), ("always", self.always)):
            if len(tokens) and not 0 <= tokens.min() <= tokens.max() < target_vocab_size:
                return f"{name} names a token the model does not have; it has {target_vocab_size}"
        first_of_a_list = np.zeros(len(self.ids) + 1, dtype=bool)
        first_of_a_list[self.offsets] = True
        if (np.diff(self.always) <= 0).any() or (np.diff(self.ids) <= 0)[~first_of_a_list[1:-1]].any():
            return "its tokens do not ascend"
        if end_id not in self.always:
            return f"the closing token {end_id} is not in always"
        return None


_AGAIN = "make it again with 'verso shortlist'"


_MAX_ARRAY_BYTES = 2**29
"""The largest array of a table, uncompressed."""

_MAX_FACTS = 2**20
"""The largest metadata of a table, in bytes."""


@dataclass(frozen=True)
class Limits:
    """The bounds of an untrusted table, checked before it is inflated.

    Args:
        source_vocab_size: Source tokens of the model.
        target_vocab_size: Target tokens of the model.
        max_bytes: The most bytes of all arrays together.
    """

    source_vocab_size: int
    target_vocab_size: int
    max_bytes: int

    def check(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        """Refuse arrays that a table of the model cannot have.

        Args:
            sizes: Elements and bytes of each array.

        Raises:
            ValueError: An array is too large or unknown.
        """
        most = {
            "lengths": self.source_vocab_size,
            "steps": self.source_vocab_size * self.target_vocab_size,
            "always": self.target_vocab_size,
            "facts": _MAX_FACTS,
        }
        for name, (length, _) in sizes.items():
            if length > most.get(name, 0):
                raise ValueError(f"{name} has {length} elements; for this model it may have {most.get(name, 0)}")
        num_bytes = sum(size for _, size in sizes.values())
        if num_bytes > self.max_bytes:
            raise ValueError(f"its arrays are {num_bytes} bytes together; they may be {self.max_bytes}")


def _check_sizes(content: bytes, limits: Limits | None) -> None:
    """Refuse arrays whose size, actual or declared, is too large, before memory is allocated for them.

    Raises:
        ValueError: An array is too large, or its header does not have its size.
        zipfile.BadZipFile: The content is not an archive.
    """
    sizes: dict[str, tuple[int, int]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{member.filename} is compressed in another way")
            with archive.open(member) as array:
                if np.lib.format.read_magic(array) != (1, 0):
                    raise ValueError(f"{member.filename} has a header of another version")
                shape, _, dtype = np.lib.format.read_array_header_1_0(array)
            if member.file_size > _MAX_ARRAY_BYTES or math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} is too large")
            sizes[member.filename.removesuffix(".npy")] = math.prod(shape), member.file_size
    if limits is not None:
        limits.check(sizes)


def _to_ids(array: npt.NDArray[Any], name: str) -> Ids:
    """Convert a row of whole numbers.

    Raises:
        ValueError: The array is not one.
    """
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} is not a row of whole numbers")
    return array.astype(np.int32, copy=False)
