"""How much memory a bundle takes when it is loaded, estimated from its file and its manifest."""

from __future__ import annotations

from model.artifacts.manifest import Manifest

_PIECE_BYTES = 300
"""Measured memory of a piece of a vocabulary: its text, and its entries in the tables of the tokenizer."""

_TABLE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def loaded_bytes(file_bytes: int, manifest: Manifest, device: str) -> int:
    """The memory of a loaded bundle. Measured on CPUs (docs/settings.md), it was within 6 % of this.

    Args:
        file_bytes: The size of its file, whose weights are not compressed.
        manifest: Its manifest, with the precision of the file.
        device: The device that it is loaded onto.
    """
    architecture = manifest.architecture
    sizes = [int(architecture.get(f"{side}_vocab_size", 0)) for side in ("source", "target")]
    num_pieces = sizes[0] if architecture.get("share_embeddings") else sum(sizes)
    num_bytes = file_bytes + _PIECE_BYTES * num_pieces
    if device != "cpu":
        return num_bytes + file_bytes if manifest.precision == "int8" else num_bytes  # expanded to 16 bits
    if architecture.get("tie_output"):  # the file has the table once, and the decoder has it packed as well
        num_bytes += sizes[1] * int(architecture.get("d_model", 0)) * _TABLE_BYTES.get(manifest.precision, 0)
    return num_bytes
