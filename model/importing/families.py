"""What each family's configuration means: its architecture, its tokenizer, its way of decoding, its languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sentencepiece

from model.config import Activation, ModelConfig
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError, ConfigError
from model.hf_tokenizers import (
    SHARED_SPM,
    SOURCE_SPM,
    TARGET_SPM,
    TARGET_VOCABULARY,
    VOCABULARY,
    read_vocabulary,
)
from model.importing.folder import CheckpointFolder
from model.importing.weights import Layout
from model.languages import standard_code

_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

_GROUPS = frozenset(
    "aav afa alg alv apa aqa aql art ath auf aus awd azc bad bai bat ber bih bnt btk cai cau cba ccn ccs cdc cdd cel "
    "cmc cpe cpf cpp crp csu cus day dmn dra egx esx euq fiu fox gem gme gmq gmw grk hmx hok hyx iir ijo inc ine ira "
    "iro itc jpx kar kdo khi kro map mkh mno mul mun myn nah nai ngf nic nub omq omv oto paa phi plf poz pqe pqw pra "
    "qwe roa sai sal sdv sem sgn sio sit sla smi son sqj ssa syd tai tbq trk tup tut tuw urj wak wen xgn xnd ypk zhx "
    "zle zls zlw znd".split()
)
"""Codes of language families (ISO 639-5), and ``mul``: OPUS-MT names multilingual sides by them."""

_M2M100_LANGUAGES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
).split()
_WMT21_LANGUAGES = "en ha is ja cs ru zh de".split()
"""Languages in the order of their tokens, which stand behind the vocabulary and in no file."""

_SPECIALS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}

_LANGUAGE_TOKEN = re.compile(r">>([A-Za-z0-9_\-]+)<<")


@dataclass(frozen=True)
class Wishes:
    """What whoever imports may decide.

    Args:
        pairs: Directions to serve, such as ``en-de``; all there are by default.
        languages: Languages to serve, of a model that translates each into each.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """What a checkpoint turned out to be.

    Args:
        config: Its architecture.
        pad_id: Fills short sources.
        position_skip: Rows of a stored position table before the first one used.
        policy: Its way of decoding.
        tokenizer: The manifest's ``tokenizer``.
        files: Its vocabulary files, for the bundle.
        pairs: Directions it translates, one by one.
        languages: Languages each of which it translates into each other.
        notes: What was in the folder and is not taken over, for people.
    """

    config: ModelConfig
    pad_id: int
    position_skip: int
    policy: DecodingPolicy
    tokenizer: dict[str, Any]
    files: dict[str, bytes]
    pairs: tuple[tuple[str, str], ...] = ()
    languages: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def check_family(folder: CheckpointFolder) -> None:
    """Refuse what is of no family known here, before anything else is looked at.

    Raises:
        ArtifactError: config.json is missing, damaged, or of another family.
    """
    config = folder.json("config.json")
    if config.get("model_type") in _FAMILIES:
        return
    architectures = config.get("architectures")
    named = f" ({', '.join(map(str, architectures))})" if isinstance(architectures, list) else ""
    raise ArtifactError(
        f"{folder.path / 'config.json'} has model_type {config.get('model_type')!r}{named}; 'marian' (OPUS-MT) and "
        "'m2m_100' (M2M100, NLLB-200) can be imported."
    )


def describe(folder: CheckpointFolder, layout: Layout, shapes: Mapping[str, tuple[int, ...]], wishes: Wishes) -> Family:
    """Read a checkpoint's configuration and vocabulary.

    Args:
        folder: The checkpoint's.
        layout: Which of its tensors are which.
        shapes: Their shapes.
        wishes: What to serve of it.

    Raises:
        ArtifactError: It is incomplete, or contradicts itself.
    """
    config = folder.json("config.json")
    return _FAMILIES[config["model_type"]](folder, config, layout, shapes, wishes)


def _marian(
    folder: CheckpointFolder,
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    wishes: Wishes,
) -> Family:
    habits = folder.json("tokenizer_config.json", optional=True)
    vocabulary = read_vocabulary(folder.bytes(VOCABULARY), VOCABULARY)
    files = {name: folder.bytes(name) for name in (SOURCE_SPM, TARGET_SPM, VOCABULARY)}
    target_vocabulary = vocabulary
    if habits.get("separate_vocabs"):
        files[TARGET_VOCABULARY] = folder.bytes(TARGET_VOCABULARY)
        target_vocabulary = read_vocabulary(files[TARGET_VOCABULARY], TARGET_VOCABULARY)
    for name, ids, embedding in (
        (VOCABULARY, vocabulary, layout.source_embedding),
        (TARGET_VOCABULARY if habits.get("separate_vocabs") else VOCABULARY, target_vocabulary, layout.target_embedding),
    ):
        rows = shapes[embedding][0]
        if max(ids.values(), default=-1) + 1 != rows:
            raise ArtifactError(
                f"{name} numbers {max(ids.values(), default=-1) + 1} pieces and the embedding {embedding} has {rows} "
                "rows; they belong to different checkpoints."
            )
    specials = [_token(habits, f"{role}_token", piece) for role, piece in _SPECIALS.items()]
    unknown_id, source_end_id, pad_id = (_id_of(vocabulary, piece, VOCABULARY) for piece in specials)
    target_specials = [_id_of(target_vocabulary, piece, "the target vocabulary") for piece in specials]
    target_unknown_id, end_id, target_pad = target_specials
    generation = _Generation(folder, config, end_id)
    policy = DecodingPolicy(
        scoring="hf",
        length_penalty=generation.length_penalty,
        early_stopping=generation.early_stopping,
        beam_size=generation.beam_size,
        forbidden=tuple(sorted(generation.forbidden or {target_pad})),
        renormalise=generation.flag("renormalize_logits", default=True),
        force_end=generation.force_end,
    )
    tokens = {piece: match[1] for piece in vocabulary if (match := _LANGUAGE_TOKEN.fullmatch(piece))}
    pairs, language_tokens = _marian_pairs(habits, tokens, wishes)
    return Family(
        config=_architecture(
            config, layout, shapes, folder, norm="post", positions="halves", position_offset=0
        ),
        pad_id=pad_id,
        position_skip=0,
        policy=policy,
        tokenizer={
            "kind": "marian",
            "pad_id": pad_id,
            "start_id": generation.token("decoder_start_token_id", default=target_pad),
            "end_id": end_id,
            "source_end_id": source_end_id,
            "unknown_id": unknown_id,
            "target_unknown_id": target_unknown_id,
            "special_ids": sorted(target_specials),
            "clean_up": bool(habits.get("clean_up_tokenization_spaces", False)),
            "language_tokens": language_tokens,
        },
        files=files,
        pairs=pairs,
        notes=generation.notes,
    )


def _marian_pairs(
    habits: Mapping[str, Any], tokens: Mapping[str, str], wishes: Wishes
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """The directions of an OPUS-MT model, and the source token that asks for each target."""
    by_code: dict[str, str] = {}
    for token, code in tokens.items():
        # Of two tokens for one language, such as >>zho<< and >>cmn<<, the second keeps its own spelling.
        by_code.setdefault(standard_code(code) if standard_code(code) not in by_code else code, token)
    if wishes.languages:
        raise ArtifactError("--languages is for models that translate each language into each; use --pair here.")
    if wishes.pairs:
        if by_code:
            for _, target in wishes.pairs:
                if target not in by_code:
                    raise ArtifactError(
                        f"--pair asks for target {target!r}; the model has {', '.join(sorted(by_code))}."
                    )
        elif len({target for _, target in wishes.pairs}) > 1:
            raise ArtifactError("--pair names several targets, but the model's vocabulary has no >>language<< tokens.")
        targets = {target for _, target in wishes.pairs}
        return wishes.pairs, {code: token for code, token in by_code.items() if code in targets}
    source, target = (str(habits.get(key) or "") for key in ("source_lang", "target_lang"))
    if not source or source in _GROUPS or (not by_code and (not target or target in _GROUPS)):
        side = f"source_lang is {source!r} and target_lang {target!r}"
        raise ArtifactError(
            f"Which languages the model translates is not in its folder (tokenizer_config.json: {side}); name them, "
            "for instance with --pair fr-en --pair es-en."
        )
    source = standard_code(source)
    targets_in_order = list(by_code) if by_code else [standard_code(target)]
    return tuple((source, code) for code in targets_in_order if code != source), by_code


def _m2m100(
    folder: CheckpointFolder,
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    wishes: Wishes,
) -> Family:
    habits = folder.json("tokenizer_config.json", optional=True)
    files = {SHARED_SPM: folder.bytes(SHARED_SPM)}
    pad_id, end_id = (_whole(config, key, default) for key, default in (("pad_token_id", 1), ("eos_token_id", 2)))
    generation = _Generation(folder, config, end_id)
    rows = shapes[layout.target_embedding][0]
    tokenizer: dict[str, Any] = {
        "pad_id": pad_id,
        "start_id": generation.token("decoder_start_token_id", default=end_id),
        "end_id": end_id,
        "unknown_id": 3,
        "clean_up": bool(habits.get("clean_up_tokenization_spaces", False)),
    }
    if folder.has(VOCABULARY):
        files[VOCABULARY] = folder.bytes(VOCABULARY)
        vocabulary = read_vocabulary(files[VOCABULARY], VOCABULARY)
        codes = _WMT21_LANGUAGES if habits.get("language_codes") == "wmt21" else _M2M100_LANGUAGES
        tokens = {code: len(vocabulary) + place for place, code in enumerate(codes)}
        tokenizer["kind"] = "m2m_100"
        tokenizer["unknown_id"] = _id_of(vocabulary, _token(habits, "unk_token", "<unk>"), VOCABULARY)
        specials = {vocabulary.get(piece, end_id) for piece in ("<s>", "</s>", "<pad>", "<unk>")}
        counted = f"{VOCABULARY} and the language tokens behind it need"
        needed = max(max(vocabulary.values(), default=-1), *tokens.values()) + 1
    else:
        tokens = _nllb_tokens(folder, files[SHARED_SPM])
        tokenizer["kind"] = "nllb"
        tokenizer["legacy_behaviour"] = bool(habits.get("legacy_behaviour", False))
        tokenizer["language_tokens"] = tokens
        specials = {0, pad_id, end_id, 3, *_added_specials(folder)}
        counted = f"{SHARED_SPM} and the language tokens need"
        needed = max(_num_pieces(files[SHARED_SPM]), *tokens.values()) + 1
    if needed > rows:
        raise ArtifactError(
            f"{counted} {needed} rows and the embedding {layout.target_embedding} has {rows}; they belong to "
            "different checkpoints."
        )
    by_code = _public_codes(tokens)
    tokenizer["language_ids"] = by_code
    tokenizer["special_ids"] = sorted(specials | set(tokens.values()))
    languages = _chosen_languages(by_code, wishes)
    return Family(
        config=_architecture(
            config,
            layout,
            shapes,
            folder,
            norm="pre",
            positions="tensor2tensor",
            position_offset=pad_id + 1,
        ),
        pad_id=pad_id,
        position_skip=pad_id + 1,
        policy=DecodingPolicy(
            scoring="hf",
            length_penalty=generation.length_penalty,
            early_stopping=generation.early_stopping,
            beam_size=generation.beam_size,
            # Padding is no text, and as an input it would have no place.
            forbidden=tuple(sorted({*generation.forbidden, pad_id})),
            renormalise=generation.flag("renormalize_logits", default=False),
            force_end=generation.force_end,
        ),
        tokenizer=tokenizer,
        files=files,
        pairs=wishes.pairs,
        languages=() if wishes.pairs else languages,
        notes=generation.notes,
    )


def _chosen_languages(by_code: Mapping[str, int], wishes: Wishes) -> tuple[str, ...]:
    for code in [*wishes.languages, *(code for pair in wishes.pairs for code in pair)]:
        if code not in by_code:
            raise ArtifactError(f"The model has no language {code!r}; it has {', '.join(sorted(by_code))}.")
    return wishes.languages or tuple(by_code)


def _public_codes(tokens: Mapping[str, int]) -> dict[str, int]:
    """Language tokens by the code callers use: ``en`` for ``eng_Latn``."""
    by_code: dict[str, int] = {}
    for token, token_id in tokens.items():
        code = standard_code(token)
        by_code[token if code in by_code else code] = token_id
    return by_code


def _nllb_tokens(folder: CheckpointFolder, spm: bytes) -> dict[str, int]:
    """NLLB's language tokens, such as ``eng_Latn``, and their ids."""
    added = _added_tokens(folder)
    tokens = {token: token_id for token, token_id in added.items() if re.fullmatch(r"[a-z]{3}_[A-Z][a-z]{3}", token)}
    if not tokens:
        listed = folder.json("special_tokens_map.json", optional=True).get("additional_special_tokens")
        listed = listed or folder.json("tokenizer_config.json", optional=True).get("additional_special_tokens") or []
        names = [entry["content"] if isinstance(entry, dict) else str(entry) for entry in listed]
        tokens = {name: _num_pieces(spm) + 1 + place for place, name in enumerate(names)}
    if not tokens:
        raise ArtifactError(
            f"{folder.path} names no language tokens: it needs the tokenizer.json, tokenizer_config.json or "
            "special_tokens_map.json that belongs to the checkpoint (or vocab.json, if it is M2M100)."
        )
    return tokens


def _added_specials(folder: CheckpointFolder) -> Iterable[int]:
    return (token_id for token, token_id in _added_tokens(folder).items() if token == "<mask>")


def _added_tokens(folder: CheckpointFolder) -> dict[str, int]:
    """Tokens put behind a vocabulary, from whichever file lists them with their ids."""
    decoder = folder.json("tokenizer_config.json", optional=True).get("added_tokens_decoder")
    if isinstance(decoder, dict):
        return {str(entry["content"]): int(token_id) for token_id, entry in decoder.items()}
    listed = folder.json("tokenizer.json", optional=True).get("added_tokens")
    if isinstance(listed, list):
        return {str(entry["content"]): int(entry["id"]) for entry in listed}
    return {str(token): int(token_id) for token, token_id in folder.json("added_tokens.json", optional=True).items()}


def _num_pieces(spm: bytes) -> int:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(spm)
    except RuntimeError as error:
        raise ArtifactError(f"{SHARED_SPM} is damaged: it is no SentencePiece model; download it again.") from error
    return len(processor)


_FAMILIES = {"marian": _marian, "m2m_100": _m2m100}


class _Generation:
    """generation_config.json, or what older checkpoints wrote of it into config.json."""

    def __init__(self, folder: CheckpointFolder, config: dict[str, Any], end_id: int) -> None:
        self._values = {**config, **folder.json("generation_config.json", optional=True)}
        notes: list[str] = []
        if self.token("eos_token_id", default=end_id) != end_id:
            raise ArtifactError(
                f"eos_token_id is {self._values['eos_token_id']} and the vocabulary's end token is {end_id}; "
                "they belong to different checkpoints."
            )
        self.length_penalty = float(self._values.get("length_penalty") or 0.0) if self._given("length_penalty") else 1.0
        self.early_stopping = self._values.get("early_stopping") is True
        if self._values.get("early_stopping") == "never":
            notes.append("early_stopping 'never' is not known here; searches end when nothing better can be expected")
        self.beam_size = int(self._values.get("num_beams") or 1)
        self.force_end = self._given("forced_eos_token_id")
        if self.force_end and self.token("forced_eos_token_id", default=end_id) != end_id:
            raise ArtifactError(f"forced_eos_token_id is {self._values['forced_eos_token_id']}; it must be {end_id}.")
        bad_words: Sequence[Any] = self._values.get("bad_words_ids") or []
        self.forbidden = {int(words[0]) for words in bad_words if isinstance(words, list) and len(words) == 1}
        self.forbidden.update(int(token_id) for token_id in self._values.get("suppress_tokens") or [])
        if any(not isinstance(words, list) or len(words) != 1 for words in bad_words):
            notes.append("bad_words_ids of more than one token are not taken over")
        for name in ("no_repeat_ngram_size", "repetition_penalty", "min_length", "num_beam_groups"):
            if self._values.get(name) not in (None, 0, 1, 1.0):
                notes.append(f"{name} {self._values[name]!r} is not taken over as a default")
        self.notes = tuple(notes)

    def _given(self, name: str) -> bool:
        return self._values.get(name) is not None

    def flag(self, name: str, *, default: bool) -> bool:
        """A yes or no."""
        return bool(self._values[name]) if self._given(name) else default

    def token(self, name: str, *, default: int) -> int:
        """A token's id; a list of one is that one."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if type(value) is not int:
            raise ArtifactError(f"{name} is {value!r}; it must be one token's id.")
        return value


def _architecture(
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    folder: CheckpointFolder,
    **family: Any,
) -> ModelConfig:
    """The fields both families' config.json share."""
    # Their classes differ in what an absent key means.
    marian = config["model_type"] == "marian"
    activation = config.get("activation_function", "gelu" if marian else "relu")
    if activation not in _ACTIVATIONS:
        raise ArtifactError(
            f"activation_function is {activation!r}; the importer knows {', '.join(sorted(_ACTIVATIONS))}."
        )
    source_rows, target_rows = (shapes[name][0] for name in (layout.source_embedding, layout.target_embedding))
    vocab_size = _whole(config, "vocab_size", source_rows)
    if source_rows != vocab_size:
        raise ArtifactError(
            f"The embedding {layout.source_embedding} has {source_rows} rows and config.json's vocab_size is {vocab_size}."
        )
    heads, d_ff = (
        [_whole(config, f"{stack}_{name}") for stack in ("encoder", "decoder")] for name in ("attention_heads", "ffn_dim")
    )
    try:
        return ModelConfig(
            source_vocab_size=source_rows,
            target_vocab_size=target_rows,
            d_model=_whole(config, "d_model"),
            num_heads=heads[0],
            d_ff=d_ff[0],
            encoder_layers=_whole(config, "encoder_layers"),
            decoder_layers=_whole(config, "decoder_layers"),
            dropout=float(config.get("dropout", 0.1)),
            activation=_ACTIVATIONS[activation],
            share_embeddings=layout.share_embeddings,
            tie_output=layout.tie_output,
            max_positions=_whole(config, "max_position_embeddings"),
            scale_embedding=bool(config.get("scale_embedding", not marian)),
            output_bias=layout.output_bias is not None,
            decoder_num_heads=heads[1] if heads[1] != heads[0] else None,
            decoder_d_ff=d_ff[1] if d_ff[1] != d_ff[0] else None,
            **family,
        )
    except ConfigError as error:
        raise ArtifactError(f"{folder.path / 'config.json'} describes no possible model: {error}") from error


def _whole(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name, default)
    if type(value) is not int:
        raise ArtifactError(f"config.json has {name} {json.dumps(value)}; it must be a whole number.")
    return value


def _token(habits: Mapping[str, Any], role: str, default: str) -> str:
    """A special token's text; files write it plainly or as an object."""
    token = habits.get(role) or default
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _id_of(vocabulary: Mapping[str, int], piece: str, name: str) -> int:
    if piece not in vocabulary:
        raise ArtifactError(f"{name} has no {piece}; it is cut short, or of another tokenizer.")
    return vocabulary[piece]
