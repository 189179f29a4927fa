"""What each family's configuration means: its architecture, its tokenizer, its way of decoding, its languages."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import langcodes
import sentencepiece

from model.config import Activation, ModelConfig
from model.decoding.options import MAX_BEAM_SIZE
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError, ConfigError
from model.hf_tokenizers import (
    SHARED_SPM,
    SOURCE_SPM,
    TARGET_SPM,
    TARGET_VOCABULARY,
    VOCABULARY,
)
from model.importing.folder import CheckpointFolder
from model.importing.weights import Layout
from model.languages import closest, standard_code

_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

_GROUPS = frozenset(
    "aav afa alg alv apa aqa aql art ath auf aus awd azc bad bai bat ber bih bnt btk cai cau cba ccn ccs cdc cdd cel "  # noqa: SIM905
    "cmc cpe cpf cpp crp csu cus day dmn dra egx esx euq fiu fox gem gme gmq gmw grk hmx hok hyx iir ijo inc ine ira "
    "iro itc jpx kar kdo khi kro map mkh mno mul mun myn nah nai ngf nic nub omq omv oto paa phi plf poz pqe pqw pra "
    "qwe roa sai sal sdv sem sgn sio sit sla smi son sqj ssa syd tai tbq trk tup tut tuw urj wak wen xgn xnd ypk zhx "
    "zle zls zlw znd".split()
)
"""Codes of language families (ISO 639-5), and ``mul``: OPUS-MT names multilingual sides by them."""

_M2M100_LANGUAGES = (  # noqa: SIM905
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
).split()
_WMT21_LANGUAGES = "en ha is ja cs ru zh de".split()  # noqa: SIM905
"""Languages in the order of their tokens, which stand behind the vocabulary and in no file."""

_SPECIALS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}

_MOST_POSITIONS = 65_536
"""Longest position table made; families have 512 and 1024 places."""

_NLLB_SPECIALS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
"""Ids that NLLB's vocabulary has by definition."""

_NLLB_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_DIGITS = re.compile(r"[0-9]{1,9}")

_MOST_NAMED = 30
"""Languages listed in a message."""

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
    kind = config.get("model_type")
    if isinstance(kind, str) and kind in _FAMILIES:
        return
    architectures = config.get("architectures")
    named = f" ({_shown(architectures)})" if architectures else ""
    raise ArtifactError(
        f"{folder.path / 'config.json'} has model_type {_shown(kind)}{named}; 'marian' (OPUS-MT) and 'm2m_100' "
        "(M2M100, NLLB-200) can be imported."
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
    source_file = target_file = VOCABULARY
    if _flag(habits, "separate_vocabs", default=False):
        target_file = TARGET_VOCABULARY
    vocabulary = _vocabulary(folder, source_file)
    target_vocabulary = _vocabulary(folder, target_file)
    files = {name: folder.bytes(name) for name in (SOURCE_SPM, TARGET_SPM, source_file, target_file)}
    for name in (SOURCE_SPM, TARGET_SPM):
        _num_pieces(files[name], name)
    for name, ids, embedding in (
        (source_file, vocabulary, layout.source_embedding),
        (target_file, target_vocabulary, layout.target_embedding),
    ):
        if len(ids) != shapes[embedding][0]:
            raise ArtifactError(
                f"{name} numbers {len(ids)} pieces and the embedding {embedding} has {shapes[embedding][0]} rows; they "
                "belong to different checkpoints."
            )
    specials = [_token(habits, f"{role}_token", piece) for role, piece in _SPECIALS.items()]
    unknown_id, source_end_id, pad_id = (_id_of(vocabulary, piece, source_file) for piece in specials)
    target_specials = [_id_of(target_vocabulary, piece, target_file) for piece in specials]
    target_unknown_id, end_id, target_pad = target_specials
    generation = _Generation(folder, config, end_id, len(target_vocabulary))
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
        config=_architecture(config, layout, shapes, folder, norm="post", positions="halves", position_offset=0),
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
            "clean_up": _flag(habits, "clean_up_tokenization_spaces", default=False),
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
    source, target = (_language(habits.get(key)) for key in ("source_lang", "target_lang"))
    # A model that names one target and has tokens too (opus-mt-en-zh) translates without a token as well.
    targets_in_order = [*([] if target is None or target in by_code else [target]), *by_code]
    if wishes.pairs:
        pairs = wishes.pairs
        if by_code:
            pairs = tuple((source, _known(target, targets_in_order)) for source, target in pairs)
        elif len({target for _, target in pairs}) > 1:
            raise ArtifactError("--pair names several targets, but the model's vocabulary has no >>language<< tokens.")
        _check_differ(pairs)
        targets = {target for _, target in pairs}
        return tuple(dict.fromkeys(pairs)), {code: token for code, token in by_code.items() if code in targets}
    if source is None or not targets_in_order:
        found = " and ".join(f"{key} {_shown(habits.get(key))}" for key in ("source_lang", "target_lang"))
        raise ArtifactError(
            f"Which languages the model translates is not in its folder (tokenizer_config.json has {found}); name "
            "them, for instance with --pair fr-en --pair es-en."
        )
    pairs = tuple((source, code) for code in targets_in_order if code != source)
    if not pairs:
        raise ArtifactError(
            f"tokenizer_config.json has source_lang {source} and the model translates to nothing else; name the "
            "languages, for instance with --pair fr-en."
        )
    return pairs, by_code


def _language(code: object) -> str | None:
    """A side's one language as BCP 47 writes it; None for groups such as ``roa`` and what is no language."""
    if not isinstance(code, str) or code.strip().lower() in _GROUPS:
        return None
    standard = standard_code(code)
    return standard if langcodes.tag_is_valid(standard) else None


def _check_differ(pairs: Iterable[tuple[str, str]]) -> None:
    for source, target in pairs:
        if source == target:
            raise ArtifactError(f"--pair asks for {source} to {target}; name two languages.")


def _known(code: str, codes: Iterable[str]) -> str:
    """The model's own spelling of a language somebody asks for."""
    codes = tuple(codes)
    own = closest(code, codes)
    if own is None:
        named, more = ", ".join(sorted(codes)[:_MOST_NAMED]), len(codes) - _MOST_NAMED
        raise ArtifactError(
            f"The model has no language {code!r}; it has {named}{f' and {more} more' if more > 0 else ''}."
        )
    return own


def _m2m100(
    folder: CheckpointFolder,
    config: dict[str, Any],
    layout: Layout,
    shapes: Mapping[str, tuple[int, ...]],
    wishes: Wishes,
) -> Family:
    habits = folder.json("tokenizer_config.json", optional=True)
    files = {SHARED_SPM: folder.bytes(SHARED_SPM)}
    num_pieces = _num_pieces(files[SHARED_SPM], SHARED_SPM)
    pad_id, end_id = (_whole(config, key, default) for key, default in (("pad_token_id", 1), ("eos_token_id", 2)))
    rows = shapes[layout.target_embedding][0]
    generation = _Generation(folder, config, end_id, rows)
    tokenizer: dict[str, Any] = {
        "pad_id": pad_id,
        "start_id": generation.token("decoder_start_token_id", default=end_id),
        "end_id": end_id,
        "clean_up": _flag(habits, "clean_up_tokenization_spaces", default=False),
    }
    if folder.has(VOCABULARY):
        files[VOCABULARY] = folder.bytes(VOCABULARY)
        vocabulary = _vocabulary(folder, VOCABULARY)
        codes = _WMT21_LANGUAGES if habits.get("language_codes") == "wmt21" else _M2M100_LANGUAGES
        tokens = {code: len(vocabulary) + place for place, code in enumerate(codes)}
        tokenizer["kind"] = "m2m_100"
        fixed = {
            role: _id_of(vocabulary, _token(habits, f"{role}_token", piece), VOCABULARY)
            for role, piece in (*_SPECIALS.items(), ("bos", "<s>"))
        }
        counted = f"{VOCABULARY} and the language tokens behind it need"
        needed = len(vocabulary) + len(tokens)
        masks: set[int] = set()
    else:
        added = _added_tokens(folder)
        tokens = _nllb_tokens(folder, added, num_pieces)
        tokenizer["kind"] = "nllb"
        tokenizer["legacy_behaviour"] = _flag(habits, "legacy_behaviour", default=False)
        tokenizer["language_tokens"] = tokens
        fixed = _NLLB_SPECIALS
        counted = f"{SHARED_SPM} and the language tokens need"
        needed = max(num_pieces, *tokens.values()) + 1
        masks = {added[token] for token in ("<mask>",) if token in added}
    for role, found in (("pad", pad_id), ("eos", end_id)):
        if fixed[role] != found:
            raise ArtifactError(
                f"config.json has {role}_token_id {found} and the vocabulary has that token at {fixed[role]}; they "
                "belong to different checkpoints."
            )
    tokenizer["unknown_id"] = fixed["unk"]
    if needed > rows:
        raise ArtifactError(
            f"{counted} {needed} rows and the embedding {layout.target_embedding} has {rows}; they belong to "
            "different checkpoints."
        )
    by_code = _public_codes(tokens)
    tokenizer["language_ids"] = by_code
    tokenizer["special_ids"] = sorted({*fixed.values(), *masks, *tokens.values()})
    pairs, languages = _m2m100_directions(by_code, wishes)
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
        pairs=pairs,
        languages=languages,
        notes=generation.notes,
    )


def _m2m100_directions(
    by_code: Mapping[str, int], wishes: Wishes
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Pairs, and languages each of which goes into each other."""
    pairs = tuple(dict.fromkeys((_known(source, by_code), _known(target, by_code)) for source, target in wishes.pairs))
    languages = tuple(dict.fromkeys(_known(code, by_code) for code in wishes.languages))
    if len(languages) == 1:
        raise ArtifactError(f"--languages names {languages[0]} alone; translating takes at least two.")
    _check_differ(pairs)
    return pairs, languages if pairs or languages else tuple(by_code)


def _public_codes(tokens: Mapping[str, int]) -> dict[str, int]:
    """Language tokens by the code callers use: ``en`` for ``eng_Latn``."""
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
        names = [_content(entry) for entry in listed] if isinstance(listed, list) else []
        # They follow each other behind the pieces, which are shifted by one.
        tokens = {
            name: num_pieces + 1 + place for place, name in enumerate(names) if name and _NLLB_LANGUAGE.fullmatch(name)
        }
    if not tokens:
        raise ArtifactError(
            f"{folder.path} names no language tokens: it needs the tokenizer.json, tokenizer_config.json or "
            "special_tokens_map.json that belongs to the checkpoint (or vocab.json, if it is M2M100)."
        )
    for token, token_id in tokens.items():
        if token_id <= num_pieces:
            raise ArtifactError(
                f"The language token {token} has id {token_id}, and ids to {num_pieces} are those of the pieces of "
                f"{SHARED_SPM}; they belong to different checkpoints."
            )
    return tokens


def _added_tokens(folder: CheckpointFolder) -> dict[str, int]:
    """Tokens put behind a vocabulary, from whichever file lists them with their ids."""
    name = "tokenizer_config.json"
    decoder = folder.json(name, optional=True).get("added_tokens_decoder")
    entries: list[tuple[Any, Any]]
    if isinstance(decoder, dict):
        entries = [
            (_content(entry), int(number) if _DIGITS.fullmatch(number) else number) for number, entry in decoder.items()
        ]
    elif folder.has("tokenizer.json"):
        name = "tokenizer.json"
        listed = folder.json(name).get("added_tokens")
        entries = [
            (_content(entry), entry.get("id") if isinstance(entry, dict) else None)
            for entry in (listed if isinstance(listed, list) else [])
        ]
    else:
        name = "added_tokens.json"
        entries = list(folder.json(name, optional=True).items())
    for token, token_id in entries:
        if not isinstance(token, str) or type(token_id) is not int or token_id < 0:
            raise ArtifactError(
                f"{folder.path / name} gives the added token {_shown(token)} the id {_shown(token_id)}; it must be a "
                "whole number from 0."
            )
    tokens = dict(entries)
    if len(set(tokens.values())) != len(tokens):
        raise ArtifactError(f"{folder.path / name} gives one id to several added tokens; download it again.")
    return tokens


def _content(entry: object) -> str | None:
    """A token's text; files write it plainly or as an object."""
    text = entry.get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else None


def _vocabulary(folder: CheckpointFolder, name: str) -> dict[str, int]:
    """A vocabulary file's pieces and ids, each whole number from 0 once."""
    ids = folder.json(name)
    pieces: dict[int, str] = {}
    for piece, token_id in ids.items():
        if type(token_id) is not int or token_id < 0:
            raise ArtifactError(
                f"{folder.path / name} gives piece {_shown(piece)} the id {_shown(token_id)}; ids must be whole "
                "numbers from 0. Download it again."
            )
        if token_id in pieces:
            raise ArtifactError(
                f"{folder.path / name} gives id {token_id} to {_shown(pieces[token_id])} and to {_shown(piece)}; each "
                "piece must have its own. Download it again."
            )
        pieces[token_id] = piece
    hole = next((number for number in range(len(pieces)) if number not in pieces), None)
    if hole is not None:
        raise ArtifactError(
            f"{folder.path / name} has no piece for id {hole} and one for id {max(pieces)}; it is cut short. Download "
            "it again."
        )
    return ids


def _num_pieces(spm: bytes, name: str) -> int:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(spm)
    except RuntimeError as error:
        raise ArtifactError(f"{name} is damaged: it is no SentencePiece model; download it again.") from error
    return len(processor)


_FAMILIES = {"marian": _marian, "m2m_100": _m2m100}


class _Generation:
    """generation_config.json, or what older checkpoints wrote of it into config.json.

    Args:
        folder: The checkpoint's.
        config: Its config.json, which holds for all where there is no generation_config.json.
        end_id: The vocabulary's end token.
        num_tokens: Of the target vocabulary, V.

    Raises:
        ArtifactError: A value is of another type, out of bounds, or contradicts the vocabulary.
    """

    def __init__(self, folder: CheckpointFolder, config: dict[str, Any], end_id: int, num_tokens: int) -> None:
        self._file = "generation_config.json" if folder.has("generation_config.json") else "config.json"
        self._values = folder.json(self._file)
        self._config = config
        self._num_tokens = num_tokens
        for name in ("eos_token_id", "forced_eos_token_id"):
            if (found := self.token(name, default=end_id)) != end_id:
                raise ArtifactError(
                    f"{self._file} has {name} {found} and the vocabulary's end token is {end_id}; they belong to "
                    "different checkpoints."
                )
        self.force_end = self._values.get("forced_eos_token_id") is not None
        self.length_penalty = _number(self._values, "length_penalty", 1.0, self._file)
        if not 0.0 <= self.length_penalty <= 10.0:
            raise ArtifactError(f"{self._file} has length_penalty {self.length_penalty}; it must be 0 to 10.")
        self.beam_size = _whole(self._values, "num_beams", 1, self._file)
        if not 1 <= self.beam_size <= MAX_BEAM_SIZE:
            raise ArtifactError(f"{self._file} has num_beams {self.beam_size}; it must be 1 to {MAX_BEAM_SIZE}.")
        notes: list[str] = []
        never = self._values.get("early_stopping") == "never"
        self.early_stopping = not never and self.flag("early_stopping", default=False)
        if never:
            notes.append("early_stopping 'never' is not known here; searches end when nothing better can be expected")
        words = self._list("bad_words_ids")
        if not all(isinstance(word, list) for word in words):
            raise ArtifactError(f"{self._file} has bad_words_ids {_shown(words)}; it must be a list of lists of ids.")
        self.forbidden = {self._id("bad_words_ids", word[0], self._file) for word in words if len(word) == 1}
        for token_id in self._list("suppress_tokens"):
            self.forbidden.add(self._id("suppress_tokens", token_id, self._file))
        if any(len(word) != 1 for word in words):
            notes.append("bad_words_ids of more than one token are not taken over")
        for name in ("no_repeat_ngram_size", "repetition_penalty", "min_length", "num_beam_groups"):
            if self._values.get(name) not in (None, 0, 1, 1.0):
                notes.append(f"{name} {_shown(self._values[name])} is not taken over as a default")
        self.notes = tuple(notes)

    def flag(self, name: str, *, default: bool) -> bool:
        """A yes or no."""
        return _flag(self._values, name, default=default, file=self._file)

    def token(self, name: str, *, default: int) -> int:
        """A token's id; a list of one is that one."""
        file, value = self._file, self._values.get(name)
        if value is None and name != "forced_eos_token_id":
            file, value = "config.json", self._config.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        return default if value is None else self._id(name, value, file)

    def _id(self, name: str, value: object, file: str) -> int:
        if type(value) is not int or not 0 <= value < self._num_tokens:
            raise ArtifactError(
                f"{file} has {name} {_shown(value)}; it must be one token's id, 0 to {self._num_tokens - 1}."
            )
        return value

    def _list(self, name: str) -> list[Any]:
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ArtifactError(f"{self._file} has {name} {_shown(value)}; it must be a list.")
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
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ArtifactError(
            f"config.json has activation_function {_shown(activation)}; the importer knows "
            f"{', '.join(sorted(_ACTIVATIONS))}."
        )
    source_rows, target_rows = (shapes[name][0] for name in (layout.source_embedding, layout.target_embedding))
    vocab_size = _whole(config, "vocab_size", source_rows)
    if source_rows != vocab_size:
        raise ArtifactError(
            f"The embedding {layout.source_embedding} has {source_rows} rows and config.json's vocab_size is "
            f"{vocab_size}; they belong to different checkpoints."
        )
    heads, d_ff = (
        [_whole(config, f"{stack}_{name}") for stack in ("encoder", "decoder")]
        for name in ("attention_heads", "ffn_dim")
    )
    max_positions = _whole(config, "max_position_embeddings")
    if max_positions > _MOST_POSITIONS:
        raise ArtifactError(
            f"config.json has max_position_embeddings {max_positions}; at most {_MOST_POSITIONS} can be imported."
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
            dropout=_number(config, "dropout", 0.1),
            activation=_ACTIVATIONS[activation],
            share_embeddings=layout.share_embeddings,
            tie_output=layout.tie_output,
            max_positions=max_positions,
            scale_embedding=_flag(config, "scale_embedding", default=not marian, file="config.json"),
            output_bias=layout.output_bias is not None,
            decoder_num_heads=heads[1] if heads[1] != heads[0] else None,
            decoder_d_ff=d_ff[1] if d_ff[1] != d_ff[0] else None,
            **family,
        )
    except ConfigError as error:
        raise ArtifactError(f"{folder.path / 'config.json'} describes no possible model: {error}") from error


def _whole(values: Mapping[str, Any], name: str, default: int | None = None, file: str = "config.json") -> int:
    value = values.get(name)
    if value is None:
        value = default
    if value is None:
        raise ArtifactError(f"{file} has no {name}; it is cut short, or of another architecture.")
    if type(value) is not int:
        raise ArtifactError(f"{file} has {name} {_shown(value)}; it must be a whole number.")
    return value


def _number(values: Mapping[str, Any], name: str, default: float, file: str = "config.json") -> float:
    value = values.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not abs(value) < math.inf or abs(value) > 1e9:
        raise ArtifactError(f"{file} has {name} {_shown(value)}; it must be a number.")
    return float(value)


def _flag(values: Mapping[str, Any], name: str, *, default: bool, file: str = "tokenizer_config.json") -> bool:
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ArtifactError(f"{file} has {name} {_shown(value)}; it must be true or false.")
    return value


def _token(habits: Mapping[str, Any], role: str, default: str) -> str:
    """A special token's text."""
    entry = habits.get(role)
    text = default if entry is None else _content(entry)
    if text is None:
        raise ArtifactError(f"tokenizer_config.json has {role} {_shown(entry)}; it must be a token's text.")
    return text


def _id_of(vocabulary: Mapping[str, int], piece: str, name: str) -> int:
    if piece not in vocabulary:
        raise ArtifactError(f"{name} has no {_shown(piece)}; it is cut short, or of another tokenizer.")
    return vocabulary[piece]


def _shown(value: object) -> str:
    """A value as JSON writes it, short enough for a message."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 100 else f"{text[:97]}..."
