"""The vocabularies of a Marian model: SentencePiece models whose ids count, or ``vocab.yml`` beside two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.errors import ArtifactError
from model.importing.folder import CheckpointFolder
from model.importing.marian_nmt.flat_yaml import read_flat_yaml
from model.importing.marian_nmt.sentencepiece_model import without_user_symbols
from model.importing.values import id_of, num_pieces_of, shown
from model.network.padding import NO_PAD_ID
from model.text.hf_tokenizers import SOURCE_SPM, TARGET_SPM, TARGET_VOCABULARY, VOCABULARY
from model.text.piece_tokenizer import PieceTokenizer
from model.text.pieces import load_processor

_YML = "vocab.yml"
_SIDES = (("srcvocab", "trgvocab"), ("source", "target"), ("src", "trg"))
"""Beginnings or parts of the names of two vocabularies."""

_END, _UNKNOWN = "</s>", "<unk>"
_MAX_YML_BYTES = 2**25
_MAX_ID_DIGITS = 9


@dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of a model.

    Args:
        tokenizer: The manifest's ``tokenizer``, without language tokens.
        files: The files for the bundle.
        unknown_id: The unknown token of translations.
        sizes: Number of tokens of sources and of targets.
        source_tokens: Ids of the tokens of sources, where a file lists them; else empty.
    """

    tokenizer: dict[str, Any]
    files: dict[str, bytes]
    unknown_id: int
    sizes: tuple[int, int]
    source_tokens: Mapping[str, int]


def read_vocabulary_files(
    folder: CheckpointFolder, stated: tuple[str, ...], pair: tuple[str, str] | None
) -> Vocabulary:
    """Read the vocabularies of a folder.

    Args:
        folder: The folder.
        stated: Their names in the model's decoder.yml; empty if there is none.
        pair: The languages, which may be in the names of the files.

    Raises:
        ArtifactError: There are none, or several and no order of them, or they are damaged.
    """
    source, target = _find(folder.path, stated, pair)
    if source.endswith(".yml"):
        return _numbered(folder, source, target)
    return _sentencepiece(folder, source, target)


def _find(folder: Path, stated: tuple[str, ...], pair: tuple[str, str] | None) -> tuple[str, str]:
    """The file names of the source and the target vocabulary; equal if there is one for both."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    if len(stated) == 2 and set(stated) <= set(names):
        return stated[0], stated[1]
    candidates = [name for name in names if name.endswith(_YML)]
    candidates = candidates or [name for name in names if name.endswith(".spm")]
    if len(candidates) == 1:
        return candidates[0], candidates[0]
    sides = (*_SIDES, *([(f".{pair[0]}.", f".{pair[1]}.")] if pair else []))
    for first, second in sides:
        sources, targets = ([name for name in candidates if part in name] for part in (first, second))
        if len(sources) == len(targets) == 1 and sources != targets:
            return sources[0], targets[0]
    if not candidates:
        raise ArtifactError(
            f"{folder} has no vocabulary: neither a SentencePiece model (*.spm) nor a {_YML}. Download the whole "
            "model; vocabularies of other kinds (BPE, factors) cannot be imported."
        )
    raise ArtifactError(
        f"{folder} has the vocabularies {shown(candidates)}, and none is named as the source's; keep one, or call them "
        "srcvocab.spm and trgvocab.spm."
    )


def _sentencepiece(folder: CheckpointFolder, source: str, target: str) -> Vocabulary:
    """One or two SentencePiece models, whose piece ids are the token ids of the model."""
    files = {SOURCE_SPM: _escaped(folder, source)}
    if target != source:
        files[TARGET_SPM] = _escaped(folder, target)
    processors = [load_processor(content) for content in files.values()]
    special_ids = {(processor.eos_id(), processor.unk_id()) for processor in processors}
    if len(special_ids) > 1:
        raise ArtifactError(
            f"{folder.path}: {source} and {target} have the end and unknown tokens {shown(sorted(special_ids))}; they "
            "must be equal."
        )
    end_id, unknown_id = special_ids.pop()
    if min(end_id, unknown_id) < 0:
        raise ArtifactError(f"{folder.path / source} has no token for the end or for unknown text; it needs both.")
    tokenizer = {"kind": PieceTokenizer.kind, "pad_id": NO_PAD_ID, "start_id": end_id, "end_id": end_id}
    sizes = len(processors[0]), len(processors[-1])
    return Vocabulary(tokenizer, files, unknown_id, sizes, {})


def _escaped(folder: CheckpointFolder, name: str) -> bytes:
    content = folder.bytes(name)
    num_pieces_of(content, name)
    try:
        return without_user_symbols(content)
    except ValueError as error:
        raise ArtifactError(f"{folder.path / name} is damaged: {error}; download it again.") from error


def _numbered(folder: CheckpointFolder, source: str, target: str) -> Vocabulary:
    """``vocab.yml`` gives the ids of the pieces of ``source.spm`` and ``target.spm``, whose own ids do not count."""
    files = {name: folder.bytes(name) for name in (SOURCE_SPM, TARGET_SPM)}
    for name, content in files.items():
        num_pieces_of(content, name)
    tokens = _read_yml(folder, source)
    target_tokens = tokens if target == source else _read_yml(folder, target)
    files[VOCABULARY] = json.dumps(tokens, ensure_ascii=False).encode()
    if target != source:
        files[TARGET_VOCABULARY] = json.dumps(target_tokens, ensure_ascii=False).encode()
    source_end_id, source_unknown_id = (id_of(tokens, piece, source) for piece in (_END, _UNKNOWN))
    end_id, unknown_id = (id_of(target_tokens, piece, target) for piece in (_END, _UNKNOWN))
    tokenizer = {
        "kind": "marian",
        "pad_id": NO_PAD_ID,
        "start_id": end_id,
        "end_id": end_id,
        "source_end_id": source_end_id,
        "unknown_id": source_unknown_id,
        "target_unknown_id": unknown_id,
        "special_ids": sorted({end_id, unknown_id}),
    }
    return Vocabulary(tokenizer, files, unknown_id, (len(tokens), len(target_tokens)), tokens)


def _read_yml(folder: CheckpointFolder, name: str) -> dict[str, int]:
    """The ids of a vocabulary; they must be the whole numbers from 0, each used once."""
    path, content = folder.path / name, folder.bytes(name)
    if len(content) > _MAX_YML_BYTES:
        raise ArtifactError(f"{path} has {len(content)} bytes; the limit for a vocabulary is {_MAX_YML_BYTES}.")
    ids: dict[str, int] = {}
    try:
        for piece, number in read_flat_yaml(content):
            if (
                not isinstance(number, str)
                or not (number.isascii() and number.isdigit())
                or len(number) > _MAX_ID_DIGITS
            ):
                raise ValueError(f"the id of {shown(piece)} is {shown(number)}, which is no whole number")
            ids[piece] = int(number)
    except ValueError as error:
        raise ArtifactError(f"{path} is not a vocabulary: {error}. Download it again.") from error
    if set(ids.values()) != set(range(len(ids))):
        raise ArtifactError(f"{path} does not number its {len(ids)} pieces from 0 without gaps; download it again.")
    return ids
