"""M2M100 and NLLB-200: one SentencePiece model, pre-norm, a language token before each source and each answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.errors import ArtifactError
from model.importing.family import Family, Overrides, architecture, check_differ, known_language
from model.importing.folder import CheckpointFolder
from model.importing.generation import Generation
from model.importing.values import (
    content_of,
    flag,
    id_of,
    num_pieces_of,
    read_ids,
    shown,
    special_token,
    whole_number,
)
from model.importing.weights import Layout
from model.languages import standard_code
from model.text.hf_tokenizers import SHARED_SPM, VOCABULARY

_M2M100_LANGUAGES = (  # noqa: SIM905
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
).split()
_WMT21_LANGUAGES = "en ha is ja cs ru zh de".split()  # noqa: SIM905
"""Languages in the order of their tokens, which follow the vocabulary and are not listed in any file."""

_SPECIALS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>", "bos": "<s>"}

_NLLB_SPECIALS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
"""Ids of special tokens, the same in every NLLB vocabulary."""

_NLLB_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_DIGITS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class _Vocabulary:
    """The vocabulary of a checkpoint.

    Args:
        metadata: Its part of the manifest's ``tokenizer``.
        special_ids: Ids of the special tokens by role: ``pad``, ``eos``, ``bos``, ``unk``.
        language_tokens: Ids of the language tokens by code.
        num_rows: Number of embedding rows it needs.
        counted: What these rows are for, in messages.
        mask_ids: Ids of mask tokens.
    """

    metadata: dict[str, Any]
    special_ids: dict[str, int]
    language_tokens: dict[str, int]
    num_rows: int
    counted: str
    mask_ids: tuple[int, ...] = ()


def describe_m2m100(
    folder: CheckpointFolder,
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    overrides: Overrides,
) -> Family:
    """Read the configuration and vocabulary of an M2M100 or NLLB checkpoint.

    Args:
        folder: The checkpoint's folder.
        config: The content of its config.json.
        layout: The roles of its tensors.
        shapes: The shapes of its tensors.
        overrides: The directions or languages to serve.

    Raises:
        ArtifactError: The checkpoint is incomplete or contradicts itself.
    """
    tokenizer_config = folder.json("tokenizer_config.json", optional=True)
    files = {SHARED_SPM: folder.bytes(SHARED_SPM)}
    num_pieces = num_pieces_of(files[SHARED_SPM], SHARED_SPM)
    pad_id, end_id = (whole_number(config, key, default) for key, default in (("pad_token_id", 1), ("eos_token_id", 2)))
    generation = Generation(folder, config, end_id, shapes[layout.target_embedding][0])
    start_id = generation.token("decoder_start_token_id", default=end_id)
    clean_up = flag(tokenizer_config, "clean_up_tokenization_spaces", default=False)
    if folder.has(VOCABULARY):
        files[VOCABULARY] = folder.bytes(VOCABULARY)
        vocabulary = _m2m100_vocabulary(folder, tokenizer_config)
    else:
        vocabulary = _nllb_vocabulary(folder, tokenizer_config, num_pieces)
    _check_vocabulary(vocabulary, pad_id, end_id, layout, shapes)
    by_code = _public_codes(vocabulary.language_tokens)
    pairs, languages = _directions(by_code, overrides)
    return Family(
        config=architecture(
            config, layout, shapes, folder, norm="pre", positions="tensor2tensor", position_offset=pad_id + 1
        ),
        pad_id=pad_id,
        position_skip=pad_id + 1,
        # The padding token is not part of a text, and it has no position when it is an input.
        policy=generation.policy({*generation.forbidden, pad_id}, renormalise=False),
        tokenizer={
            "pad_id": pad_id,
            "start_id": start_id,
            "end_id": end_id,
            "clean_up": clean_up,
            **vocabulary.metadata,
            "unknown_id": vocabulary.special_ids["unk"],
            "language_ids": by_code,
            "special_ids": sorted(
                {*vocabulary.special_ids.values(), *vocabulary.mask_ids, *vocabulary.language_tokens.values()}
            ),
        },
        files=files,
        pairs=pairs,
        languages=languages,
        notes=generation.notes,
    )


def _m2m100_vocabulary(folder: CheckpointFolder, tokenizer_config: Mapping[str, Any]) -> _Vocabulary:
    """M2M100's vocabulary: vocab.json, followed by the language tokens in a fixed order."""
    vocabulary = read_ids(folder, VOCABULARY)
    codes = _WMT21_LANGUAGES if tokenizer_config.get("language_codes") == "wmt21" else _M2M100_LANGUAGES
    tokens = {code: len(vocabulary) + index for index, code in enumerate(codes)}
    special_ids = {
        role: id_of(vocabulary, special_token(tokenizer_config, f"{role}_token", piece), VOCABULARY)
        for role, piece in _SPECIALS.items()
    }
    counted = f"{VOCABULARY} and the language tokens after it need"
    return _Vocabulary({"kind": "m2m_100"}, special_ids, tokens, len(vocabulary) + len(tokens), counted)


def _nllb_vocabulary(folder: CheckpointFolder, tokenizer_config: Mapping[str, Any], num_pieces: int) -> _Vocabulary:
    """NLLB's vocabulary: the SentencePiece model's pieces, and language tokens named by the folder."""
    added = _added_tokens(folder)
    tokens = _nllb_tokens(folder, added, num_pieces)
    metadata = {
        "kind": "nllb",
        "legacy_behaviour": flag(tokenizer_config, "legacy_behaviour", default=False),
        "language_tokens": tokens,
    }
    num_rows = max(num_pieces, *tokens.values()) + 1
    counted = f"{SHARED_SPM} and the language tokens need"
    mask_ids = tuple(added[token] for token in ("<mask>",) if token in added)
    return _Vocabulary(metadata, _NLLB_SPECIALS, tokens, num_rows, counted, mask_ids)


def _check_vocabulary(
    vocabulary: _Vocabulary, pad_id: int, end_id: int, layout: Layout, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Compare a vocabulary with config.json and with the embedding.

    Raises:
        ArtifactError: They contradict each other.
    """
    for role, token_id in (("pad", pad_id), ("eos", end_id)):
        if vocabulary.special_ids[role] != token_id:
            raise ArtifactError(
                f"config.json has {role}_token_id {token_id} and the vocabulary has that token at "
                f"{vocabulary.special_ids[role]}; they belong to different checkpoints."
            )
    rows = shapes[layout.target_embedding][0]
    if vocabulary.num_rows > rows:
        raise ArtifactError(
            f"{vocabulary.counted} {vocabulary.num_rows} rows and the embedding {layout.target_embedding} has {rows}; "
            "they belong to different checkpoints."
        )


def _directions(
    by_code: Mapping[str, int], overrides: Overrides
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The pairs to serve, and the languages to serve in all combinations."""
    pairs = tuple(
        dict.fromkeys(
            (known_language(source, by_code), known_language(target, by_code)) for source, target in overrides.pairs
        )
    )
    languages = tuple(dict.fromkeys(known_language(code, by_code) for code in overrides.languages))
    if len(languages) == 1:
        raise ArtifactError(f"--languages names {languages[0]} alone; a model needs at least two.")
    check_differ(pairs)
    return pairs, languages if pairs or languages else tuple(by_code)


def _public_codes(tokens: Mapping[str, int]) -> dict[str, int]:
    """Ids of language tokens by public code, such as ``en`` for ``eng_Latn``."""
    by_code: dict[str, int] = {}
    for token, token_id in tokens.items():
        code = standard_code(token)
        by_code[token if code in by_code else code] = token_id
    return by_code


def _nllb_tokens(folder: CheckpointFolder, added: Mapping[str, int], num_pieces: int) -> dict[str, int]:
    """NLLB's language tokens, such as ``eng_Latn``, and their ids."""
    tokens = {token: token_id for token, token_id in added.items() if _NLLB_LANGUAGE.fullmatch(token)}
    if not tokens:
        listed: Any = []
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            listed = listed or folder.json(name, optional=True).get("additional_special_tokens") or []
        names = [content_of(entry) for entry in listed] if isinstance(listed, list) else []
        # Their ids follow those of the pieces, which are shifted by one.
        tokens = {
            name: num_pieces + 1 + index for index, name in enumerate(names) if name and _NLLB_LANGUAGE.fullmatch(name)
        }
    if not tokens:
        raise ArtifactError(
            f"{folder.path} names no language tokens: it needs the tokenizer.json, tokenizer_config.json or "
            "special_tokens_map.json that belongs to the checkpoint (or vocab.json, if it is M2M100)."
        )
    for token, token_id in tokens.items():
        if token_id <= num_pieces:
            raise ArtifactError(
                f"The language token {token} has id {token_id}, and ids up to {num_pieces} are those of the pieces of "
                f"{SHARED_SPM}; they belong to different checkpoints."
            )
    return tokens


def _added_tokens(folder: CheckpointFolder) -> dict[str, int]:
    """Tokens added to a vocabulary, with their ids, from the first file that lists them."""
    name = "tokenizer_config.json"
    decoder = folder.json(name, optional=True).get("added_tokens_decoder")
    entries: list[tuple[Any, Any]]
    if isinstance(decoder, dict):
        entries = [
            (content_of(entry), int(number) if _DIGITS.fullmatch(number) else number)
            for number, entry in decoder.items()
        ]
    elif folder.has("tokenizer.json"):
        name = "tokenizer.json"
        listed = folder.json(name).get("added_tokens")
        entries = [
            (content_of(entry), entry.get("id") if isinstance(entry, dict) else None)
            for entry in (listed if isinstance(listed, list) else [])
        ]
    else:
        name = "added_tokens.json"
        entries = list(folder.json(name, optional=True).items())
    for token, token_id in entries:
        if not isinstance(token, str) or type(token_id) is not int or token_id < 0:
            raise ArtifactError(
                f"{folder.path / name} gives the added token {shown(token)} the id {shown(token_id)}; it must be a "
                "whole number from 0."
            )
    tokens = dict(entries)
    if len(set(tokens.values())) != len(tokens):
        raise ArtifactError(f"{folder.path / name} gives one id to several added tokens; download it again.")
    return tokens
