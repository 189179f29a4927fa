"""The tokenizers of imported models, with exactly the ids and texts of transformers' own (4.57, the slow ones).

One deliberate difference: special tokens are never read out of a text. Where a text holds ``</s>`` or ``__fr__``,
those are characters that somebody wrote, while transformers would take them for the end or a change of language.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from model.errors import ArtifactError
from model.text.tokenizer import Span, TextTokenizer, Tokenizer, load_processor, without_space

SOURCE_SPM = "source.spm"
TARGET_SPM = "target.spm"
VOCABULARY = "vocab.json"
TARGET_VOCABULARY = "target_vocab.json"
SHARED_SPM = "sentencepiece.bpe.model"
OWN_SPM = "tokenizer.model"
OWN_TARGET_SPM = "target-tokenizer.model"

_WORD_START = "\u2581"

_CLEAN_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""What loses its spaces where tokenizer_config.json asks for clean_up_tokenization_spaces, in transformers' order."""


class _HuggingFaceTokenizer(ABC):
    """What the families have in common.

    Args:
        facts: The manifest's ``tokenizer``: ids of special tokens, languages, habits.
        source_spm: Cuts sources into pieces.
        target_spm: Cuts targets into pieces and joins pieces to text.
    """

    def __init__(self, facts: Mapping[str, Any], source_spm: bytes, target_spm: bytes) -> None:
        self.pad_id = int(facts["pad_id"])
        self.start_id = int(facts["start_id"])
        self.end_id = int(facts["end_id"])
        self._unknown_id = int(facts["unknown_id"])
        self._special_ids = frozenset(int(token_id) for token_id in facts["special_ids"])
        self._clean_up = bool(facts.get("clean_up", False))
        self._source_spm = load_processor(source_spm)
        self._target_spm = self._source_spm if target_spm is source_spm else load_processor(target_spm)

    @property
    def never_generated(self) -> tuple[int, ...]:
        """None by themselves: which tokens a family forbids stands in its decoding policy."""
        return ()

    @abstractmethod
    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Tokens behind the start token that ask for a language."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as people see them."""

    @abstractmethod
    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as people see them."""

    @abstractmethod
    def _source_ids(self, pieces: Sequence[str]) -> list[int]: ...

    @abstractmethod
    def _target_ids(self, pieces: Sequence[str]) -> list[int]: ...

    @abstractmethod
    def _leading(self, text: str, target: str, source: str | None) -> tuple[list[int], str]:
        """Tokens before the text's own, and the text without what stood for them in it."""

    def _trailing(self, source: str | None) -> list[int]:
        return [self.end_id]

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """A source sentence as ids, with all its family puts around it."""
        leading, rest = self._leading(text, target, source)
        pieces = self._source_spm.EncodeAsPieces(rest)
        return [*leading, *self._source_ids(pieces), *self._trailing(source)]

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` each token covers."""
        leading, rest = self._leading(text, target, source)
        shift = len(text) - len(rest)
        mapping = self._source_spm.encode_as_offset_mapping(rest)
        trailing = self._trailing(source)
        spans = [(start + shift, end + shift) for start, end in (without_space(rest, s) for s in mapping["offsets"])]
        return (
            [*leading, *self._source_ids(mapping["pieces"]), *trailing],
            [*[(0, 0)] * len(leading), *spans, *[(len(text), len(text))] * len(trailing)],
        )

    def encode_target(self, text: str) -> list[int]:
        """A target sentence as ids: pieces, end token."""
        return [*self._target_ids(self._target_spm.EncodeAsPieces(text)), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target ids; special tokens vanish."""
        return self.decode_with_offsets(ids)[0]

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """The text of target ids and the characters of it each token gave."""
        ids = list(ids)
        spoken = [place for place, token_id in enumerate(ids) if token_id not in self._special_ids]
        text, spans = self._join(self.target_pieces(ids[place] for place in spoken))
        text, spans = _stripped(text, spans)
        if self._clean_up:
            text, spans = _cleaned_up(text, spans)
        all_spans = [(0, 0)] * len(ids)
        for place, span in zip(spoken, spans, strict=True):
            all_spans[place] = without_space(text, span)
        return text, all_spans

    def _join(self, pieces: Sequence[str]) -> tuple[str, list[Span]]:
        mapping = self._target_spm.Decode(list(pieces), return_type="offset_mapping")
        return mapping["text"], list(mapping["offsets"])


class MarianTokenizer(_HuggingFaceTokenizer):
    """OPUS-MT: two SentencePiece models that cut, vocabularies of their own that number.

    A multilingual model is told the target language by a first source token such as ``>>fra<<``. A text that begins
    with one itself is taken at its word, as transformers does.

    Args:
        facts: The manifest's ``tokenizer``; ``language_tokens`` maps codes to tokens, where there are any.
        files: The vocabulary files by name.
    """

    kind = "marian"

    def __init__(self, facts: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(facts, files[SOURCE_SPM], files[TARGET_SPM])
        self._language_tokens: dict[str, str] = dict(facts.get("language_tokens", {}))
        self._source_end_id = int(facts["source_end_id"])
        self._target_unknown_id = int(facts["target_unknown_id"])
        self._ids = read_vocabulary(files[VOCABULARY], VOCABULARY)
        self._target_ids_by_piece = (
            read_vocabulary(files[TARGET_VOCABULARY], TARGET_VOCABULARY) if TARGET_VOCABULARY in files else self._ids
        )
        self._source_pieces = {token_id: piece for piece, token_id in self._ids.items()}
        self._target_pieces = {token_id: piece for piece, token_id in self._target_ids_by_piece.items()}

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """None: the source asks for the language."""
        return ()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as people see them."""
        return [self._source_pieces.get(token_id, "<unk>") for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as people see them."""
        return [self._target_pieces.get(token_id, "<unk>") for token_id in ids]

    def _source_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._ids.get(piece, self._unknown_id) for piece in pieces]

    def _target_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._target_ids_by_piece.get(piece, self._target_unknown_id) for piece in pieces]

    def _trailing(self, source: str | None) -> list[int]:
        return [self._source_end_id]

    def _leading(self, text: str, target: str, source: str | None) -> tuple[list[int], str]:
        if text.startswith(">>") and (end := text.find("<<")) >= 0:
            return [self._ids.get(text[: end + 2], self._unknown_id)], text[end + 2 :]
        token = self._language_tokens.get(target)
        return ([] if token is None else [self._ids[token]]), text

    def _join(self, pieces: Sequence[str]) -> tuple[str, list[Span]]:
        text, spans = super()._join(pieces)
        # A piece that only the source's model knows keeps its mark.
        return text.replace(_WORD_START, " "), spans


class M2M100Tokenizer(_HuggingFaceTokenizer):
    """M2M100: one SentencePiece model that cuts, a vocabulary that numbers, and language tokens behind it.

    Args:
        facts: The manifest's ``tokenizer``; ``language_ids`` maps codes to tokens.
        files: The vocabulary files by name.
    """

    kind = "m2m_100"

    def __init__(self, facts: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(facts, files[SHARED_SPM], files[SHARED_SPM])
        self._language_ids: dict[str, int] = dict(facts["language_ids"])
        self._languages = {token_id: f"__{code}__" for code, token_id in self._language_ids.items()}
        self._ids = self._numbers(files)
        self._pieces = {token_id: piece for piece, token_id in self._ids.items()}

    def _numbers(self, files: Mapping[str, bytes]) -> dict[str, int]:
        return read_vocabulary(files[VOCABULARY], VOCABULARY)

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """The language token every answer begins with."""
        return (self._language_ids[target],)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Tokens as people see them."""
        return [self._languages.get(token_id) or self._piece(token_id) for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Tokens as people see them."""
        return self.pieces(ids)

    def _piece(self, token_id: int) -> str:
        return self._pieces.get(token_id, "<unk>")

    def _source_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._ids.get(piece, self._unknown_id) for piece in pieces]

    def _target_ids(self, pieces: Sequence[str]) -> list[int]:
        return self._source_ids(pieces)

    def _leading(self, text: str, target: str, source: str | None) -> tuple[list[int], str]:
        return [self._source_language(source)], text

    def _source_language(self, source: str | None) -> int:
        if source is None:
            raise ArtifactError("This model must be told the language of the source.")
        return self._language_ids[source]


class NllbTokenizer(M2M100Tokenizer):
    """NLLB-200: SentencePiece's own numbers, shifted by one, with the language tokens behind them.

    Args:
        facts: The manifest's ``tokenizer``; ``legacy_behaviour`` puts the source language behind the text.
        files: The vocabulary files by name.
    """

    kind = "nllb"

    def __init__(self, facts: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(facts, files)
        self._legacy = bool(facts.get("legacy_behaviour", False))
        self._languages = {token_id: str(code) for code, token_id in facts["language_tokens"].items()}
        self._specials = {self.pad_id: "<pad>", self.end_id: "</s>", self._unknown_id: "<unk>", 0: "<s>"}

    def _numbers(self, files: Mapping[str, bytes]) -> dict[str, int]:
        return {}  # SentencePiece's own are asked

    def _piece(self, token_id: int) -> str:
        if token_id in self._specials:
            return self._specials[token_id]
        return str(self._source_spm.IdToPiece(token_id - 1)) if token_id <= len(self._source_spm) else "<unk>"

    def _source_ids(self, pieces: Sequence[str]) -> list[int]:
        ids = (self._source_spm.PieceToId(piece) for piece in pieces)
        return [token_id + 1 if token_id else self._unknown_id for token_id in ids]

    def _leading(self, text: str, target: str, source: str | None) -> tuple[list[int], str]:
        return ([] if self._legacy else [self._source_language(source)]), text

    def _trailing(self, source: str | None) -> list[int]:
        return [self.end_id, self._source_language(source)] if self._legacy else [self.end_id]

    def _join(self, pieces: Sequence[str]) -> tuple[str, list[Span]]:
        spans: list[Span] = []
        at = 0
        for piece in pieces:
            spans.append((at, at + len(piece)))
            at += len(piece)
        return "".join(pieces).replace(_WORD_START, " "), spans


_KINDS: dict[str, type[MarianTokenizer | M2M100Tokenizer]] = {
    kind.kind: kind for kind in (MarianTokenizer, M2M100Tokenizer, NllbTokenizer)
}


def own_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """The vocabulary files of one of our own tokenizers by name, as :func:`restore_tokenizer` reads them."""
    files = {OWN_SPM: tokenizer.model_proto}
    if tokenizer.target_proto is not None:
        files[OWN_TARGET_SPM] = tokenizer.target_proto
    return files


def restore_tokenizer(facts: Mapping[str, Any], files: Mapping[str, bytes]) -> TextTokenizer:
    """The tokenizer a manifest describes.

    Args:
        facts: The manifest's ``tokenizer``; empty for one of our own.
        files: The vocabulary files by name.

    Raises:
        ArtifactError: A file is missing or damaged, or the kind is unknown.
    """
    try:
        if not facts:
            return Tokenizer(files[OWN_SPM], files.get(OWN_TARGET_SPM))
        if facts["kind"] not in _KINDS:
            raise ArtifactError(
                f"The bundle's tokenizer is of the unknown kind {facts['kind']!r}; this release reads "
                f"{', '.join(_KINDS)}: upgrade Verso."
            )
        return _KINDS[facts["kind"]](facts, files)
    except KeyError as error:
        raise ArtifactError(
            f"The bundle's tokenizer is incomplete: it has no {error}; make the bundle again."
        ) from error


def read_vocabulary(content: bytes, name: str) -> dict[str, int]:
    """A vocabulary file: pieces to ids.

    Raises:
        ArtifactError: It is no JSON object of whole numbers.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{name} is no JSON: {error}.") from error
    if not isinstance(values, dict) or not all(type(value) is int and value >= 0 for value in values.values()):
        raise ArtifactError(f"{name} is no vocabulary: it must map pieces to whole numbers.")
    return values


def _stripped(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """Text without white space at its ends, and the spans in it."""
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    return text, [(min(max(0, start - lead), len(text)), min(max(0, end - lead), len(text))) for start, end in spans]


def _cleaned_up(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """Text without the spaces of :data:`_CLEAN_UP`, and the spans in it."""
    kept = list(range(len(text)))  # where each remaining character stood
    for pattern in _CLEAN_UP:
        place = text.find(pattern)
        while place >= 0:
            text = text[:place] + pattern.strip() + text[place + len(pattern) :]
            del kept[place]
            if pattern.endswith(" "):
                del kept[place + len(pattern) - 2]
            place = text.find(pattern, place + len(pattern.strip()))
    remaining = set(kept)
    new_place = [0, *itertools.accumulate(int(old in remaining) for old in range(max(kept, default=-1) + 1))]
    last = len(new_place) - 1
    return text, [(new_place[min(start, last)], new_place[min(end, last)]) for start, end in spans]
