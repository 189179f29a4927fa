"""Text to subword ids and back, with the characters every piece covers (SentencePiece, Kudo & Richardson 2018).

A source sentence is encoded as ``<2xx> pieces </s>``: the first token says which language is wanted (Johnson et al.
2017), so one model serves several directions. A target is ``pieces </s>`` behind the start token ``<s>``.
Bytes the vocabulary has no piece for become byte tokens, so that an emoji is copied rather than lost.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import sentencepiece

from model.errors import ArtifactError, ConfigError, DataError

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

Span = tuple[int, int]
"""Characters ``text[start:end]``; (n, n) where a token stands for no character."""


class TextTokenizer(Protocol):
    """What a translator needs of a tokenizer, whichever family's it is."""

    @property
    def pad_id(self) -> int:
        """Fills short sources."""
        ...

    @property
    def start_id(self) -> int:
        """The first input of the decoder."""
        ...

    @property
    def end_id(self) -> int:
        """The closing token."""
        ...

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Tokens that are no part of any translation, unless the decoding policy names others."""
        ...

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Tokens behind the start token that ask for a language."""
        ...

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """A source sentence as ids, markers and end token included."""
        ...

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` each token covers."""
        ...

    def encode_target(self, text: str) -> list[int]:
        """A target sentence as ids: pieces, end token."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target ids; special tokens vanish."""
        ...

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """The text of target ids and the characters of it each token gave."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as people see them."""
        ...

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as people see them."""
        ...


TokenizerKind = Literal["unigram", "char"]
"""What a vocabulary is made of: pieces of words (Kudo 2018), or every character there is."""

Normalisation = Literal["nfkc", "nfc"]
"""What happens to a text before it is cut into pieces.

``nfkc`` is SentencePiece's ``nmt_nfkc``: compatibility characters become their plain forms (``½`` becomes ``1/2``).
``nfc`` only composes letters with their accents, turns every white space into a space and drops invisible characters:
what a text shows is what its pieces show.
"""

NUM_PLACEHOLDERS = 16
BACK_TRANSLATED = "<bt>"
"""Marks a source sentence that a model wrote (tagged back-translation, Caswell et al. 2019)."""

FORMAL, INFORMAL = "<formal>", "<informal>"
TERM_START, TERM_TARGET, TERM_END = "<term>", "<as>", "</term>"
_NUM_RESERVED = 64


@dataclass(frozen=True)
class Symbol:
    """A reserved symbol, where text and symbols stand together.

    Args:
        name: One of :func:`reserved_symbols`.
    """

    name: str


Part = str | Symbol
"""A piece of a sentence: text, or a symbol between texts."""


def placeholder(number: int) -> str:
    """The name of a placeholder symbol.

    Args:
        number: 0 to ``NUM_PLACEHOLDERS - 1``.
    """
    return f"<ph{number}>"


def reserved_symbols() -> tuple[str, ...]:
    """The symbols a vocabulary can hold beside pieces, markers and special tokens: 64, some without a use yet.

    No text is ever cut into them: they are put in by id.
    """
    named = [placeholder(number) for number in range(NUM_PLACEHOLDERS)]
    named += [BACK_TRANSLATED, FORMAL, INFORMAL, TERM_START, TERM_TARGET, TERM_END]
    return (*named, *(f"<spare{number}>" for number in range(_NUM_RESERVED - len(named))))


_MARKER = re.compile(r"<2([a-z]{2,3})>")
_WORD_START = "\u2581"


class Tokenizer:
    """A learned SentencePiece vocabulary with the special tokens of this project.

    Args:
        model_proto: The serialised SentencePiece model.
        target_proto: Another one for targets, where source and target have a vocabulary each.

    Raises:
        ArtifactError: The bytes are no SentencePiece model, or one without our special tokens.
    """

    def __init__(self, model_proto: bytes, target_proto: bytes | None = None) -> None:
        self.model_proto = model_proto
        self.target_proto = target_proto
        self._processor = _load(model_proto)
        self._target = self._processor if target_proto is None else _load(target_proto)
        self._marker_ids = _markers(self._processor)
        self._symbol_ids = _symbols(self._processor)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a SentencePiece model file.

        Raises:
            ArtifactError: The file is missing or no tokenizer of ours.
        """
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise ArtifactError(f"The tokenizer {path} cannot be read: {error.strerror}.") from error

    @property
    def vocab_size(self) -> int:
        """Tokens there are, special ones included; of sources, where targets have a vocabulary of their own."""
        return int(self._processor.GetPieceSize())

    @property
    def target_vocab_size(self) -> int:
        """Tokens a target is made of, special ones included."""
        return int(self._target.GetPieceSize())

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages a source can ask for, in the order of their markers."""
        return tuple(self._marker_ids)

    @property
    def pad_id(self) -> int:
        """Fills short sequences of a batch."""
        return PAD_ID

    @property
    def start_id(self) -> int:
        """The first input of the decoder."""
        return START_ID

    @property
    def end_id(self) -> int:
        """Closes source and target."""
        return END_ID

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Tokens that are no part of a translation: padding, unknown, start and the language markers."""
        return (PAD_ID, UNKNOWN_ID, START_ID, *_markers(self._target).values(), *_symbols(self._target).values())

    @property
    def is_char(self) -> bool:
        """Whether every token of a target is one character or byte."""
        return all(
            self._target.IsControl(token_id)
            or self._target.IsUnknown(token_id)
            or self._target.IsByte(token_id)
            or len(self._target.IdToPiece(token_id)) == 1
            for token_id in range(self._target.GetPieceSize())
        )

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """None: the source's marker asks for the language."""
        return ()

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """A source sentence as ids: marker of the wanted language, pieces, end token.

        Args:
            text: The sentence.
            target: The language wanted.
            source: The sentence's own; this tokenizer does not need to know.
        """
        return [self._marker(target), *self._processor.EncodeAsIds(text), END_ID]

    def encode_sampled(self, text: str, target: str, alpha: float, seed: int) -> list[int]:
        """As :meth:`encode`, cut at random (subword regularisation, Kudo 2018).

        Args:
            text: The sentence.
            target: The language wanted.
            alpha: Sharpens the choice.
            seed: Decides it, below 2**32.
        """
        sentencepiece.set_random_generator_seed(seed)
        pieces = self._processor.Encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1)
        return [self._marker(target), *pieces, END_ID]

    def encode_parts(self, parts: Sequence[Part], target: str) -> list[int]:
        """As :meth:`encode`, of a sentence with symbols in it.

        A text behind a symbol is cut as if a space stood before it, unless it begins with punctuation.

        Args:
            parts: The sentence.
            target: The language wanted.

        Raises:
            ConfigError: The vocabulary was learned without a symbol.
        """
        return [self._marker(target), *self._part_ids(parts), END_ID]

    def encode_target_parts(self, parts: Sequence[Part]) -> list[int]:
        """As :meth:`encode_target`, of a sentence with symbols in it.

        Raises:
            ConfigError: The vocabulary was learned without a symbol, or source and target have a vocabulary each.
        """
        return [*self._part_ids(parts), END_ID]

    def _part_ids(self, parts: Sequence[Part]) -> list[int]:
        ids: list[int] = []
        for part in parts:
            if isinstance(part, Symbol):
                ids.append(self._symbol(part.name))
            elif part.strip():
                begins_word = not ids or part[0].isspace() or part[0].isalnum()
                ids += (self._processor if begins_word else self._unprefixed).EncodeAsIds(part)
        return ids

    @cached_property
    def _unprefixed(self) -> sentencepiece.SentencePieceProcessor:
        """The same vocabulary, which puts no space before a text."""
        # Messages of a protobuf that stand behind each other are merged: this one says add_dummy_prefix = false.
        return load_processor(self.model_proto + b"\x1a\x02\x18\x00")

    def _symbol(self, name: str) -> int:
        try:
            return self._symbol_ids[name]
        except KeyError:
            raise ConfigError(
                f"The vocabulary has no symbol {name!r}; learn one with 'reserve_symbols: true'."
            ) from None

    def tagged(self, ids: Sequence[int], symbol: str) -> list[int]:
        """A source with a reserved symbol behind its language marker.

        Args:
            ids: As :meth:`encode` makes them.
            symbol: One of :func:`reserved_symbols`.

        Raises:
            ConfigError: The vocabulary was learned without it.
        """
        return [ids[0], self._symbol(symbol), *ids[1:]]

    def encode_target(self, text: str) -> list[int]:
        """A target sentence as ids: pieces, end token."""
        return [*self._target.EncodeAsIds(text), END_ID]

    def encode_target_sampled(self, text: str, alpha: float, seed: int) -> list[int]:
        """As :meth:`encode_target`, cut at random (as :meth:`encode_sampled`)."""
        sentencepiece.set_random_generator_seed(seed)
        return [*self._target.Encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1), END_ID]

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` each token covers."""
        ids, spans = _with_offsets(self._processor, text)
        return [self._marker(target), *ids, END_ID], [(0, 0), *spans, (len(text), len(text))]

    def encode_target_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """As :meth:`encode_target`, with the characters of ``text`` each token covers."""
        ids, spans = _with_offsets(self._target, text)
        return [*ids, END_ID], [*spans, (len(text), len(text))]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target ids; special tokens vanish."""
        return str(self._target.DecodeIds(list(ids)))

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """The text of target ids and the characters of it each token gave."""
        mapping = self._target.Decode(list(ids), return_type="offset_mapping")
        return mapping["text"], [without_space(mapping["text"], span) for span in mapping["offsets"]]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each token as people see it: a word's first piece begins with U+2581."""
        return [self._processor.IdToPiece(token_id) for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """The same of target tokens."""
        return [self._target.IdToPiece(token_id) for token_id in ids]

    def _marker(self, target: str) -> int:
        try:
            return self._marker_ids[target]
        except KeyError:
            raise ArtifactError(
                f"The tokenizer has no marker for target language {target!r}; it has {', '.join(self._marker_ids)}."
            ) from None


def load_processor(model_proto: bytes) -> sentencepiece.SentencePieceProcessor:
    """A serialised SentencePiece model, whosever it is.

    Raises:
        ArtifactError: The bytes are none.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_proto)
    except RuntimeError as error:
        raise ArtifactError("The tokenizer is damaged: it cannot be read as a SentencePiece model.") from error
    return processor


def _load(model_proto: bytes) -> sentencepiece.SentencePieceProcessor:
    """A model with our special tokens."""
    processor = load_processor(model_proto)
    specials = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if specials != (PAD_ID, UNKNOWN_ID, START_ID, END_ID):
        raise ArtifactError(
            f"The tokenizer's pad, unknown, start and end ids are {specials}, but this model format needs "
            f"{(PAD_ID, UNKNOWN_ID, START_ID, END_ID)}; learn one with 'python -m model tokenizer'."
        )
    return processor


def _markers(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """The markers of a vocabulary by language, in the order of their ids."""
    found: dict[str, int] = {}
    for token_id in range(processor.GetPieceSize()):
        marker = _MARKER.fullmatch(processor.IdToPiece(token_id)) if processor.IsControl(token_id) else None
        if marker:
            found[marker[1]] = token_id
    return found


def _symbols(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """The reserved symbols of a vocabulary by name."""
    found = {symbol: processor.PieceToId(symbol) for symbol in reserved_symbols()}
    return {symbol: token_id for symbol, token_id in found.items() if processor.IsControl(token_id)}


def _with_offsets(processor: sentencepiece.SentencePieceProcessor, text: str) -> tuple[list[int], list[Span]]:
    mapping = processor.encode_as_offset_mapping(text)
    return mapping["ids"], [without_space(text, span) for span in mapping["offsets"]]


def without_space(text: str, span: Span) -> Span:
    """A span without the space before its word: a piece counts it, people mean the word."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    return start, end


def learn_tokenizer(
    sentences: Iterable[str],
    vocab_size: int,
    languages: Sequence[str],
    *,
    seed: int = 1,
    character_coverage: float = 0.9999,
    kind: TokenizerKind = "unigram",
    normalisation: Normalisation = "nfkc",
    reserve_symbols: bool = False,
    required_characters: str = "",
) -> Tokenizer:
    """Learn a vocabulary shared by all languages, with byte fallback.

    Args:
        sentences: Text of every language, one sentence each.
        vocab_size: Tokens wanted: 256 bytes, four special tokens and the language markers included. Of kind ``char``
            it is the most there may be.
        languages: Codes the model translates to; each gets a marker token.
        seed: Chooses the sentences sampled from a large corpus.
        character_coverage: Share of the characters that get a piece of their own; others become bytes.
        kind: Pieces of words, or characters.
        normalisation: What happens to a text before it is cut.
        required_characters: Get a piece of their own, however rare they are.
        reserve_symbols: Whether the vocabulary gets the symbols of :func:`reserved_symbols`.

    Raises:
        ConfigError: The text is too small for a vocabulary of this size, or a language code is none.
        DataError: There is no text.
    """
    for language in languages:
        if not _MARKER.fullmatch(f"<2{language}>"):
            raise ConfigError(f"{language!r} is no language code; it must be two or three small letters, like 'de'.")
    sink = io.BytesIO()
    iterator = iter(sentence for sentence in sentences if sentence.strip())
    first = next(iterator, None)
    if first is None:
        raise DataError("There is no text to learn a tokenizer from: every line is empty.")

    def all_sentences() -> Iterable[str]:
        yield first
        yield from iterator

    if kind == "char":
        # A space is a character like others, not a part of the letter behind it, and none is put before the first.
        special: dict[str, Any] = {
            "model_type": "char",
            "hard_vocab_limit": False,
            "add_dummy_prefix": False,
            "user_defined_symbols": [_WORD_START],
        }
    else:
        special = {"model_type": "unigram"}
    symbols = [f"<2{language}>" for language in languages] + list(reserved_symbols() if reserve_symbols else ())
    sentencepiece.set_random_generator_seed(seed)
    try:
        with _normalisation_rule(normalisation) as rule:
            sentencepiece.SentencePieceTrainer.Train(
                **special,
                **rule,
                sentence_iterator=iter(all_sentences()),
                model_writer=sink,
                vocab_size=vocab_size,
                character_coverage=character_coverage,
                required_chars=required_characters,
                byte_fallback=True,
                control_symbols=symbols,
                pad_id=PAD_ID,
                unk_id=UNKNOWN_ID,
                bos_id=START_ID,
                eos_id=END_ID,
                split_digits=True,
                minloglevel=2,
            )
    except RuntimeError as error:
        raise ConfigError(
            f"A vocabulary of {vocab_size} cannot be learned from this text: {_advice(str(error))}."
        ) from error
    return Tokenizer(sink.getvalue())


@contextlib.contextmanager
def _normalisation_rule(normalisation: Normalisation) -> Generator[dict[str, Any]]:
    """SentencePiece's option for a normalisation; its own rules are read from a file."""
    if normalisation == "nfkc":
        yield {"normalization_rule_name": "nmt_nfkc"}
        return
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for written, read in sorted(_nfc_rules().items()):
            rules.write(f"{_code_points(written)}\t{_code_points(read)}\n")
        rules.flush()
        yield {"normalization_rule_tsv": rules.name}


def _nfc_rules() -> dict[str, str]:
    """What is replaced by what: letters and accents by the letter that has both, spaces by a space."""
    rules: dict[str, str] = {}
    for code_point in range(0x80, 0x10000):
        composed = chr(code_point)
        if unicodedata.normalize("NFC", composed) != composed:
            rules[composed] = unicodedata.normalize("NFC", composed)
        elif not 0xAC00 <= code_point <= 0xD7A3:  # Hangul would be eleven thousand rules
            decomposed = unicodedata.normalize("NFD", composed)
            # Every way to write it: all accents apart, or the first of them composed already.
            for split in range(len(decomposed) - 1):
                written = unicodedata.normalize("NFC", decomposed[: split + 1]) + decomposed[split + 1 :]
                if written != composed:
                    rules[written] = composed
    for code_point in range(1, 0x10000):
        category = unicodedata.category(chr(code_point))
        if category == "Zs" or chr(code_point) in "\t\n\r\v\f\x85\u2028\u2029":
            rules[chr(code_point)] = " "
        elif category == "Cc" or chr(code_point) in "\u00ad\u200b\u200e\u200f\u2060\ufeff":
            rules[chr(code_point)] = ""
    del rules[" "]
    return rules


def _code_points(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def _advice(message: str) -> str:
    """What SentencePiece's message means to whoever chose the size."""
    if highest := re.search(r"value <= (\d+)", message):
        return f"it allows at most {highest[1]}; lower vocab_size or give more text"
    if lowest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return f"its characters, the bytes and the special tokens alone are {lowest[1]}; raise vocab_size"
    return message.splitlines()[-1].strip()
