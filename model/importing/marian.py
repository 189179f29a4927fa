"""OPUS-MT: two SentencePiece models, one or two vocabularies, post-norm; tokens or the folder name the languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import langcodes

from model.errors import ArtifactError
from model.importing.family import Family, Overrides, architecture, check_differ, known_language
from model.importing.folder import CheckpointFolder
from model.importing.generation import Generation
from model.importing.values import flag, id_of, num_pieces_of, read_ids, shown, special_token
from model.importing.weights import Layout
from model.languages import standard_code
from model.text.hf_tokenizers import SOURCE_SPM, TARGET_SPM, TARGET_VOCABULARY, VOCABULARY

_GROUPS = frozenset(
    "aav afa alg alv apa aqa aql art ath auf aus awd azc bad bai bat ber bih bnt btk cai cau cba ccn ccs cdc cdd cel "  # noqa: SIM905
    "cmc cpe cpf cpp crp csu cus day dmn dra egx esx euq fiu fox gem gme gmq gmw grk hmx hok hyx iir ijo inc ine ira "
    "iro itc jpx kar kdo khi kro map mkh mno mul mun myn nah nai ngf nic nub omq omv oto paa phi plf poz pqe pqw pra "
    "qwe roa sai sal sdv sem sgn sio sit sla smi son sqj ssa syd tai tbq trk tup tut tuw urj wak wen xgn xnd ypk zhx "
    "zle zls zlw znd".split()
)
"""Codes of language families (ISO 639-5) and ``mul``, which OPUS-MT uses for several source or target languages."""

_SPECIALS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}

_LANGUAGE_TOKEN = re.compile(r">>([A-Za-z0-9_\-]+)<<")


def describe_marian(
    folder: CheckpointFolder,
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    overrides: Overrides,
) -> Family:
    """Read the configuration and vocabulary of an OPUS-MT checkpoint.

    Args:
        folder: The checkpoint's folder.
        config: The content of its config.json.
        layout: The roles of its tensors.
        shapes: The shapes of its tensors.
        overrides: The directions to serve.

    Raises:
        ArtifactError: The checkpoint is incomplete or contradicts itself.
    """
    tokenizer_config = folder.json("tokenizer_config.json", optional=True)
    separate = flag(tokenizer_config, "separate_vocabs", default=False)
    source_file, target_file = VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY
    vocabulary = read_ids(folder, source_file)
    target_vocabulary = read_ids(folder, target_file)
    files = {name: folder.bytes(name) for name in (SOURCE_SPM, TARGET_SPM, source_file, target_file)}
    for name in (SOURCE_SPM, TARGET_SPM):
        num_pieces_of(files[name], name)
    _check_size(source_file, vocabulary, layout.source_embedding, shapes)
    _check_size(target_file, target_vocabulary, layout.target_embedding, shapes)
    specials = [special_token(tokenizer_config, f"{role}_token", piece) for role, piece in _SPECIALS.items()]
    unknown_id, source_end_id, pad_id = (id_of(vocabulary, piece, source_file) for piece in specials)
    target_specials = [id_of(target_vocabulary, piece, target_file) for piece in specials]
    target_unknown_id, end_id, target_pad = target_specials
    generation = Generation(folder, config, end_id, len(target_vocabulary))
    keys = ("source_lang", "target_lang")
    source, target = (_language(tokenizer_config.get(key)) for key in keys)
    fields = " and ".join(f"{key} {shown(tokenizer_config.get(key))}" for key in keys)
    pairs, tokens_by_code = directions(
        (source, target), language_tokens(vocabulary), overrides, f"tokenizer_config.json has {fields}"
    )
    return Family(
        config=architecture(config, layout, shapes, folder, norm="post", positions="halves", position_offset=0),
        pad_id=pad_id,
        position_skip=0,
        policy=generation.policy(generation.forbidden or {target_pad}, renormalise=True),
        tokenizer={
            "kind": "marian",
            "pad_id": pad_id,
            "start_id": generation.token("decoder_start_token_id", default=target_pad),
            "end_id": end_id,
            "source_end_id": source_end_id,
            "unknown_id": unknown_id,
            "target_unknown_id": target_unknown_id,
            "special_ids": sorted(target_specials),
            "clean_up": flag(tokenizer_config, "clean_up_tokenization_spaces", default=False),
            "language_tokens": tokens_by_code,
        },
        files=files,
        pairs=pairs,
        notes=generation.notes,
    )


def _check_size(
    file: str, vocabulary: Mapping[str, int], embedding: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse a vocabulary that has another size than its embedding."""
    if len(vocabulary) != shapes[embedding][0]:
        raise ArtifactError(
            f"{file} numbers {len(vocabulary)} pieces and the embedding {embedding} has {shapes[embedding][0]} rows; "
            "they belong to different checkpoints."
        )


def language_tokens(vocabulary: Iterable[str]) -> dict[str, str]:
    """The tokens of a vocabulary that select a target language, and their codes."""
    return {piece: match[1] for piece in vocabulary if (match := _LANGUAGE_TOKEN.fullmatch(piece))}


def directions(
    named: tuple[str | None, str | None] | None, tokens: Mapping[str, str], overrides: Overrides, unnamed: str
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """The directions of a model with or without language tokens, and the token that selects each target language.

    Args:
        named: The source and target language that the folder names; None where it names none.
        tokens: From :func:`language_tokens`.
        overrides: The directions to serve.
        unnamed: Why a folder may name no languages, as a clause.

    Raises:
        ArtifactError: The folder names no direction, or has no token for one that is requested.
    """
    by_code: dict[str, str] = {}
    for token, code in tokens.items():
        # Of two tokens for one language, such as >>zho<< and >>cmn<<, the second keeps its own spelling.
        by_code.setdefault(standard_code(code) if standard_code(code) not in by_code else code, token)
    if overrides.languages:
        raise ArtifactError("--languages is for models that translate each language into each; use --pair here.")
    source, target = named or (None, None)
    # A model with a named target and language tokens (opus-mt-en-zh) also translates without a token.
    targets_in_order = [*([] if target is None or target in by_code else [target]), *by_code]
    if overrides.pairs:
        pairs = overrides.pairs
        if by_code:
            pairs = tuple((source, known_language(target, targets_in_order)) for source, target in pairs)
        elif len({target for _, target in pairs}) > 1:
            raise ArtifactError("--pair names several targets, but the model's vocabulary has no >>language<< tokens.")
        check_differ(pairs)
        targets = {target for _, target in pairs}
        return tuple(dict.fromkeys(pairs)), {code: token for code, token in by_code.items() if code in targets}
    if source is None or not targets_in_order:
        raise ArtifactError(
            f"The folder does not say which languages the model translates ({unnamed}); name them, for instance with "
            "--pair fr-en --pair es-en."
        )
    pairs = tuple((source, code) for code in targets_in_order if code != source)
    if not pairs:
        raise ArtifactError(
            f"The folder names the source {source} and the model has no other target; name the languages, for instance "
            "with --pair fr-en."
        )
    return pairs, by_code


def _language(code: object) -> str | None:
    """A language code in BCP 47 form; None for groups such as ``roa`` and for strings that are not language codes."""
    if not isinstance(code, str) or code.strip().lower() in _GROUPS:
        return None
    standard = standard_code(code)
    return standard if langcodes.tag_is_valid(standard) else None
