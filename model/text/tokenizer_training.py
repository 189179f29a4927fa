"""Learn a SentencePiece vocabulary with the special tokens of this project."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import tempfile
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Literal

import sentencepiece

from model.errors import ConfigError, DataError
from model.text.pieces import WORD_START
from model.text.symbols import reserved_symbols
from model.text.tokenizer import (
    END_ID,
    MARKER,
    PAD_ID,
    START_ID,
    UNKNOWN_ID,
    VersoTokenizer,
)

TokenizerKind = Literal["unigram", "char"]
"""The units of a vocabulary: pieces of words (Kudo 2018), or characters."""

Normalisation = Literal["nfkc", "nfc"]
"""The normalisation of a text before it is split into pieces.

``nfkc`` is SentencePiece's ``nmt_nfkc``, which replaces compatibility characters by their plain forms (``½`` becomes
``1/2``). ``nfc`` only composes letters with their accents, turns whitespace into spaces and drops invisible
characters, so visible characters stay as they are.
"""

_COMMON_OPTIONS: dict[str, Any] = {
    "byte_fallback": True,
    "pad_id": PAD_ID,
    "unk_id": UNKNOWN_ID,
    "bos_id": START_ID,
    "eos_id": END_ID,
    "split_digits": True,
    "minloglevel": 2,
}
"""The options of SentencePiece that all vocabularies share."""


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
) -> VersoTokenizer:
    """Learn a vocabulary shared by all languages, with byte fallback.

    Args:
        sentences: Sentences of all languages.
        vocab_size: Number of tokens, including 256 bytes, four special tokens and the language markers. For kind
            ``char`` it is an upper bound.
        languages: Codes of the target languages; each gets a marker token.
        seed: Seed for sampling sentences from a large corpus.
        character_coverage: Share of the characters that get their own piece; the others are encoded as bytes.
        kind: Pieces of words, or characters.
        normalisation: The normalisation of texts before they are split.
        reserve_symbols: Whether the vocabulary contains the symbols of :func:`reserved_symbols`.
        required_characters: Characters that get their own piece, however rare they are.

    Raises:
        ConfigError: The text is too small for a vocabulary of this size, or a language code is invalid.
        DataError: There is no text.
    """
    markers = _markers(languages)
    texts = (sentence for sentence in sentences if sentence.strip())
    first_text = next(texts, None)
    if first_text is None:
        raise DataError("There is no text to learn a tokenizer from: every line is empty.")
    sink = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        with _normalisation_rule(normalisation) as rule:
            sentencepiece.SentencePieceTrainer.Train(
                **_model_options(kind),
                **rule,
                sentence_iterator=itertools.chain([first_text], texts),
                model_writer=sink,
                vocab_size=vocab_size,
                character_coverage=character_coverage,
                required_chars=required_characters,
                control_symbols=[*markers, *(reserved_symbols() if reserve_symbols else ())],
                **_COMMON_OPTIONS,
            )
    except RuntimeError as error:
        raise ConfigError(
            f"A vocabulary of {vocab_size} cannot be learned from this text: {_advice(str(error))}."
        ) from error
    proto = sink.getvalue()
    if rules := rule.get("normalization_rule_tsv"):
        # SentencePiece records the random name of the temporary file. Replaced, the same text gives the same bytes.
        proto = proto.replace(rules.encode(), normalisation.encode().ljust(len(rules.encode()), b"-"))
    return VersoTokenizer(proto)


def _markers(languages: Sequence[str]) -> list[str]:
    """The marker tokens of target languages."""
    markers = [f"<2{language}>" for language in languages]
    for language, marker in zip(languages, markers, strict=True):
        if not MARKER.fullmatch(marker):
            raise ConfigError(
                f"{language!r} is not a language code; it must be two or three lower-case letters, such as 'de'."
            )
    return markers


def _model_options(kind: TokenizerKind) -> dict[str, Any]:
    """The options of SentencePiece that differ between the kinds of vocabularies."""
    if kind == "unigram":
        return {"model_type": "unigram"}
    return {
        "model_type": "char",
        "hard_vocab_limit": False,
        # A space is a separate token, not part of the next letter, and none is inserted at the start.
        "add_dummy_prefix": False,
        "user_defined_symbols": [WORD_START],
    }


@contextlib.contextmanager
def _normalisation_rule(normalisation: Normalisation) -> Generator[dict[str, Any]]:
    """The options of SentencePiece for a normalisation. SentencePiece reads custom rules from a file."""
    if normalisation == "nfkc":
        yield {"normalization_rule_name": "nmt_nfkc"}
        return
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for spelling, normalised in sorted(_nfc_rules().items()):
            rules.write(f"{_code_points(spelling)}\t{_code_points(normalised)}\n")
        rules.flush()
        yield {"normalization_rule_tsv": rules.name}


def _nfc_rules() -> dict[str, str]:
    """Replacements of the normalisation ``nfc``: decomposed letters by composed letters, whitespace by spaces."""
    rules: dict[str, str] = {}
    for code_point in range(0x80, 0x10000):
        composed = chr(code_point)
        if unicodedata.normalize("NFC", composed) != composed:
            rules[composed] = unicodedata.normalize("NFC", composed)
        elif not 0xAC00 <= code_point <= 0xD7A3:  # without Hangul, which would need eleven thousand rules
            decomposed = unicodedata.normalize("NFD", composed)
            # All spellings: with all accents decomposed, or with the first ones composed already.
            for split in range(len(decomposed) - 1):
                spelling = unicodedata.normalize("NFC", decomposed[: split + 1]) + decomposed[split + 1 :]
                if spelling != composed:
                    rules[spelling] = composed
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
    """Advice on the vocabulary size, derived from a message of SentencePiece."""
    if highest := re.search(r"value <= (\d+)", message):
        return f"it allows at most {highest[1]}; lower vocab_size or give more text"
    if lowest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return f"its characters, the bytes and the special tokens alone are {lowest[1]}; raise vocab_size"
    return message.splitlines()[-1].strip()
