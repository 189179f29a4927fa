"""Text in, translation out: one loaded bundle and everything that can be asked of it, without HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from model.artifacts.bundle import Bundle, Manifest, load_bundle
from model.decoding.batch import Progress, decode_in_order
from model.decoding.cohort import Cohort
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.packed import make_native_model
from model.decoding.options import DecodingOptions, FinishReason, Hypothesis
from model.decoding.repetition_guard import guarded, is_empty, is_suspect, loops
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import make_slot_model
from model.errors import (
    ArtifactError,
    DecodingError,
    EmptySource,
    SeveralSentences,
    SourceTooLong,
    TargetTooLong,
    UnsupportedPair,
)
from model.languages import closest, plain_code
from model.network.config import ModelConfig
from model.network.padding import pad
from model.process.threads import available_threads
from model.text.case_folding import in_capitals, in_small_letters, is_in_capitals, spans_in_capitals
from model.text.segmentation import Segment, join_text, split_text
from model.text.tokenizer import Span

_ALIGN_BATCH = 16
"""Sentences whose attention is computed at once for alignments."""


@dataclass(frozen=True)
class PreparedSegment:
    """One unit of a text: a sentence, or a part of a long one.

    Args:
        start: Where it begins in the text, in characters.
        end: Where it ends.
        token_ids: Its tokens, language marker and end token included, ready for a cohort.
        in_capitals: Whether it stood in capitals, was read in small letters, and its answer is to be in capitals.
    """

    start: int
    end: int
    token_ids: list[int]
    in_capitals: bool = False


@dataclass(frozen=True)
class PreparedText:
    """A text cut into units the model takes.

    Args:
        text: The text.
        source: Its language.
        target: The language wanted.
        segments: Its units in order; none for a blank text.
        num_markers: Tokens of each unit that stand for no text: language and end.
        forced_ids: Tokens each unit's answer is made to begin with.
    """

    text: str
    source: str
    target: str
    segments: tuple[PreparedSegment, ...]
    num_markers: int = 0
    forced_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class AlignmentLink:
    """A piece of the translation and the piece of the source the model looked at most while choosing it.

    Args:
        source: Characters ``text[start:end]`` of the source text.
        target: Characters of the translation.
        weight: The attention weight, 0 to 1: mean over the heads of the last decoder layer.
    """

    source: Span
    target: Span
    weight: float


@dataclass(frozen=True)
class Alternative:
    """Another hypothesis for the same text.

    Args:
        text: The translation.
        score: Its score, where scores were asked for.
        finish_reason: As in :class:`Translation`.
    """

    text: str
    score: float | None
    finish_reason: FinishReason


@dataclass(frozen=True)
class Translation:
    """A translated text.

    Args:
        text: The translation, with the line breaks, indentation and blank lines of the source.
        source: Language of the source.
        target: Language of the translation.
        finish_reason: ``length`` if any sentence was cut at ``max_new_tokens``, else ``stop``.
        score: Mean of the sentences' scores weighted by their tokens; None unless asked for.
        alternatives: Hypothesis k joins the sentences' k-th.
        alignment: Links in the order of the translation; None unless asked for.
        num_source_tokens: Tokens of all sentences, markers not counted.
        num_target_tokens: Tokens of the best hypotheses.
    """

    text: str
    source: str
    target: str
    finish_reason: FinishReason
    score: float | None
    alternatives: tuple[Alternative, ...]
    alignment: tuple[AlignmentLink, ...] | None
    num_source_tokens: int
    num_target_tokens: int


@dataclass(frozen=True)
class Attention:
    """All attention weights behind one sentence and its translation, on the CPU in float32.

    Row t of ``decoder`` and ``cross`` is where the model looked when it chose ``target_tokens[t]``.

    Args:
        source_tokens: Labels of the S source positions, language marker and end token included.
        target_tokens: Labels of the T rows: the tokens chosen, the closing one included.
        decoder_input_tokens: Labels of the T columns of ``decoder``: the start token, then all but the last choice.
        translation: The translation as text.
        encoder: (L, H, S, S).
        decoder: (L, H, T, T).
        cross: (L, H, T, S).
    """

    source_tokens: list[str]
    target_tokens: list[str]
    decoder_input_tokens: list[str]
    translation: str
    encoder: Tensor
    decoder: Tensor
    cross: Tensor

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """The tokens of the rows and of the columns of ``encoder``, ``decoder`` or ``cross``."""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        columns = self.decoder_input_tokens if kind == "decoder" else self.source_tokens
        return rows, columns


class Translator:
    """A loaded bundle. Methods that run the model belong to one thread; the others may run anywhere.

    Args:
        bundle: The loaded bundle.
        native: Whether the compiled decoder may be used, where there is one for this processor and model.
        slots: Whether sentences decode in slots (:mod:`model.decoding.slots`): None means on GPUs only, where the
            bundle has what they need.
        shortlist: Whether sentences choose their tokens from the bundle's vocabulary shortlist, where it has one. In
            slots they do not.
    """

    def __init__(
        self, bundle: Bundle, *, native: bool = True, slots: bool | None = None, shortlist: bool = False
    ) -> None:
        self._bundle = bundle
        self._shortlist = bundle.shortlist if shortlist else None
        self._tokenizer = bundle.tokenizer
        self._policy = bundle.manifest.policy
        on_cpu = bundle.device.type == "cpu" and bundle.manifest.precision in ("float32", "int8")
        self._native = (
            make_native_model(bundle.module, ModelConfig.from_dict(bundle.manifest.architecture), self._shortlist)
            if native and on_cpu and not slots
            else None
        )
        self._slots = (
            None
            if slots is False
            else make_slot_model(
                bundle.module,
                bundle.tokenizer,
                bundle.manifest.max_target_tokens,
                bundle.device,
                self._policy,
                force=slots is True,
            )
        )

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: str = "cpu",
        num_threads: int | None = None,
        sha256: str | None = None,
        *,
        native: bool = True,
        shortlist: bool = False,
    ) -> Translator:
        """Load a bundle.

        Args:
            path: The file.
            device: ``cpu`` or ``cuda``.
            num_threads: Processor threads the model may use when called from this thread; None means all there are.
            sha256: The digest the file must have.
            native: Whether the compiled decoder may be used, where there is one for this processor and model.
            shortlist: Whether sentences choose their tokens from the bundle's vocabulary shortlist.

        Raises:
            ArtifactError: The file is missing, damaged, foreign, newer or another one than the digest says, or a
                shortlist is wanted and it has none.
            DeviceError: The device is not there, or cannot run the bundle's precision.
        """
        torch.set_num_threads(num_threads or available_threads())
        bundle = load_bundle(Path(path), device, sha256)
        if shortlist and bundle.shortlist is None:
            raise ArtifactError(
                f"{path} has no vocabulary shortlist; make one with 'python -m model shortlist --model {path}'."
            )
        return cls(bundle, native=native, shortlist=shortlist)

    @property
    def manifest(self) -> Manifest:
        """What the bundle says about itself."""
        return self._bundle.manifest

    @property
    def device(self) -> str:
        """Where the model lives."""
        return str(self._bundle.device)

    @property
    def sha256(self) -> str:
        """Digest of the bundle's file."""
        return self._bundle.sha256

    def resolve_pair(self, source: str | None, target: str | None) -> tuple[str, str]:
        """The one pair a caller means; codes may be upper case and carry a region (``en-US``).

        Raises:
            UnsupportedPair: No pair fits, or more than one does.
        """
        fitting = self.manifest.directions.find(source, target)
        if len(fitting) != 1:
            raise UnsupportedPair(source, target, self.manifest.directions)
        return fitting[0]

    def translate(
        self,
        texts: Sequence[str],
        options: DecodingOptions = DecodingOptions(),  # noqa: B008  (frozen)
        source: str | None = None,
        target: str | None = None,
        *,
        return_alignment: bool = False,
        progress: Progress = lambda outcomes, total: outcomes,
    ) -> list[Translation]:
        """Translate texts of any length; sentences of all of them share batches.

        Args:
            texts: The texts.
            options: How to decode.
            source: Their language; may be left out where the target decides it.
            target: The language wanted.
            return_alignment: Whether translations carry their alignment.
            progress: Sees each sentence finish.

        Returns:
            One translation for each text, in order. Blank texts come back as they are.

        Raises:
            UnsupportedPair: The model does not translate this pair.
            DecodingError: The model failed on a sentence.
        """
        pair = self.resolve_pair(source, target)
        prepared = [self.prepare(text, *pair) for text in texts]
        sentences = [(text, segment) for text in prepared for segment in text.segments]

        def decode(
            chosen: Sequence[tuple[PreparedText, PreparedSegment]], options: DecodingOptions, progress: Progress
        ) -> list[Hypothesis]:
            sources = [segment.token_ids for _, segment in chosen]
            return self._decode(sources, [text.forced_ids for text, _ in chosen], options, progress)

        hypotheses = decode(sentences, options, progress)
        bad = [place for place, one in enumerate(sentences) if self.is_to_retry(*one, hypotheses[place], options)]
        second = decode([sentences[place] for place in bad], guarded(options), lambda outcomes, total: outcomes)
        for place, hypothesis in zip(bad, second, strict=True):
            hypotheses[place] = hypothesis
        by_sentence = iter(hypotheses)
        translations: list[Translation] = []
        for text in prepared:
            own = [next(by_sentence) for _ in text.segments]
            weights = self.align(text, own) if return_alignment else None
            translations.append(self.complete(text, own, weights))
        return translations

    def translate_tokens(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodingOptions = DecodingOptions(),  # noqa: B008
        target: str | None = None,
    ) -> list[Hypothesis]:
        """The same below the tokenizer: source ids, marker and end token included, in; target ids out.

        Args:
            sources: Token ids.
            options: How to decode.
            target: The language wanted, for models that are told it by the answer's first token.

        Raises:
            EmptySource: A source has no ids.
            SourceTooLong: A source is longer than the model accepts.
            DecodingError: The model failed on a sentence.
        """
        for source in sources:
            if not source:
                raise EmptySource
            if len(source) > self.manifest.max_source_tokens:
                raise SourceTooLong(len(source), self.manifest.max_source_tokens)
        forced_ids: tuple[int, ...] = ()
        if target is not None:
            code = closest(target, self.manifest.directions.targets)
            if code is None:
                raise UnsupportedPair(None, target, self.manifest.directions)
            forced_ids = self._tokenizer.forced_ids(code)
        return self._decode(
            [list(source) for source in sources],
            [forced_ids] * len(sources),
            options,
            lambda outcomes, total: outcomes,
        )

    def prepare(self, text: str, source: str, target: str) -> PreparedText:
        """Cut a text into sentences the model takes. Runs no model: it may be called from any thread.

        Args:
            text: Any text.
            source: Its language, as :meth:`resolve_pair` gave it.
            target: The language wanted.
        """
        encoded: dict[str, list[int]] = {}

        def fits(part: str) -> bool:
            ids = self._tokenizer.encode(self._as_read(part), target, source)
            if len(ids) > self.manifest.max_source_tokens:
                return False
            encoded[part] = ids  # what fits is what will be decoded, mostly
            return True

        segments: list[PreparedSegment] = []
        for segment in split_text(text, plain_code(source), fits):
            part = text[segment.start : segment.end]
            # Numbers, rules and emoji on their own say the same in every language.
            if any(character.isalpha() for character in part):
                if part not in encoded:
                    encoded[part] = self._tokenizer.encode(self._as_read(part), target, source)
                segments.append(PreparedSegment(segment.start, segment.end, encoded[part], self._folds(part)))
        num_markers = len(self._tokenizer.encode("", target, source))
        forced_ids = self._tokenizer.forced_ids(target)
        return PreparedText(text, source, target, tuple(segments), num_markers, forced_ids)

    def is_to_retry(
        self, prepared: PreparedText, segment: PreparedSegment, hypothesis: Hypothesis, options: DecodingOptions
    ) -> bool:
        """Whether a sentence is to be decoded once more with a guard: its answer loops or is empty. Runs no model.

        Args:
            prepared: The text.
            segment: The sentence.
            hypothesis: Its answer.
            options: How it was decoded.
        """
        return self._is_bad(prepared.text[segment.start : segment.end], hypothesis, options)

    def complete(
        self, prepared: PreparedText, hypotheses: Sequence[Hypothesis], weights: Sequence[Tensor] | None = None
    ) -> Translation:
        """Join the sentences' answers to one. Runs no model.

        Args:
            prepared: The text.
            hypotheses: One answer for each of its segments.
            weights: From :meth:`align`, where links are wanted.
        """
        segments = [Segment(segment.start, segment.end) for segment in prepared.segments]

        def join(chosen: Sequence[Hypothesis]) -> Alternative:
            answers = [self._tokenizer.decode(hypothesis.token_ids) for hypothesis in chosen]
            text = join_text(
                prepared.text,
                segments,
                [
                    in_capitals(answer) if segment.in_capitals else answer
                    for segment, answer in zip(prepared.segments, answers, strict=True)
                ],
            )
            cut = any(hypothesis.finish_reason == "length" for hypothesis in chosen)
            return Alternative(text, _mean_score(chosen), "length" if cut else "stop")

        best = join(hypotheses)
        num_alternatives = min((len(hypothesis.alternatives) for hypothesis in hypotheses), default=0)
        return Translation(
            text=best.text,
            source=prepared.source,
            target=prepared.target,
            finish_reason=best.finish_reason,
            score=best.score,
            alternatives=tuple(
                join([hypothesis.alternatives[rank] for hypothesis in hypotheses]) for rank in range(num_alternatives)
            ),
            alignment=None if weights is None else self._links(prepared, hypotheses, weights),
            num_source_tokens=sum(len(segment.token_ids) - prepared.num_markers for segment in prepared.segments),
            num_target_tokens=sum(len(hypothesis.token_ids) for hypothesis in hypotheses),
        )

    def cohort(self, width: int) -> Cohort:
        """An empty cohort for sentences of this beam width."""
        longest = self.manifest.max_target_tokens
        if self._slots is not None:
            return SlotCohort(self._slots, width)
        if self._native is not None:
            return NativeCohort(self._native, self._tokenizer, width, longest, self._policy)
        state = TorchState(self._bundle.module, width, self._tokenizer.pad_id, self._bundle.device)
        return TorchCohort(state, self._tokenizer, width, longest, self._bundle.device, self._policy, self._shortlist)

    def align(self, prepared: PreparedText, hypotheses: Sequence[Hypothesis]) -> list[Tensor]:
        """Attention between each segment and its answer: rows are answer tokens, columns source tokens, (T, S)."""
        weights: list[Tensor] = []
        for begin in range(0, len(hypotheses), _ALIGN_BATCH):
            sources = [segment.token_ids for segment in prepared.segments[begin : begin + _ALIGN_BATCH]]
            answers = [hypothesis.token_ids for hypothesis in hypotheses[begin : begin + _ALIGN_BATCH]]
            # Row t chooses token t from the tokens before it: the last one need not be read.
            beginning = [self._tokenizer.start_id, *prepared.forced_ids]
            _, _, cross = self._attend(sources, [[*beginning, *ids[:-1]] for ids in answers])
            for row, source, answer in zip(cross, sources, answers, strict=True):
                first = len(beginning) - 1
                weights.append(row[-1].mean(dim=0)[first : first + len(answer), : len(source)])
        return weights

    def attention(
        self,
        text: str,
        options: DecodingOptions = DecodingOptions(),  # noqa: B008
        source: str | None = None,
        target: str | None = None,
        target_text: str | None = None,
    ) -> Attention:
        """All attention weights behind one sentence and its translation.

        Args:
            text: One sentence.
            options: How to translate it, where ``target_text`` is not given.
            source: Its language.
            target: The language of the translation.
            target_text: A translation to look at instead of the model's own.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: It holds more than one sentence.
            SourceTooLong: The sentence is longer than the model accepts.
            TargetTooLong: The given translation is.
            UnsupportedPair: The model does not translate this pair.
            DecodingError: The model failed.
        """
        pair = self.resolve_pair(source, target)
        stripped = text.strip()
        if not stripped:
            raise EmptySource
        sentences = split_text(stripped, plain_code(pair[0]), lambda part: True)
        if len(sentences) > 1:
            raise SeveralSentences(len(sentences))
        source_ids = self._tokenizer.encode(self._as_read(stripped), pair[1], pair[0])
        forced_ids = self._tokenizer.forced_ids(pair[1])
        if len(source_ids) > self.manifest.max_source_tokens:
            raise SourceTooLong(len(source_ids), self.manifest.max_source_tokens)
        if target_text is None:
            options = replace(options, num_hypotheses=1)
            (hypothesis,) = self.translate_tokens([source_ids], options, pair[1])
            if self._is_bad(stripped, hypothesis, options):
                (hypothesis,) = self.translate_tokens([source_ids], guarded(options), pair[1])
            closing = [self._tokenizer.end_id] if hypothesis.finish_reason == "stop" else []
            target_ids = [*forced_ids, *hypothesis.token_ids, *closing]
        else:
            target_ids = [*forced_ids, *self._tokenizer.encode_target(self._as_read(target_text.strip()))]
        if len(target_ids) > self.manifest.max_target_tokens:
            raise TargetTooLong(len(target_ids), self.manifest.max_target_tokens)
        inputs = [self._tokenizer.start_id, *target_ids[:-1]]
        encoder, decoder, cross = self._attend([source_ids], [inputs])
        translation = self._tokenizer.decode(target_ids) if target_text is None else target_text.strip()
        return Attention(
            source_tokens=self._tokenizer.pieces(source_ids),
            target_tokens=self._tokenizer.target_pieces(target_ids),
            decoder_input_tokens=self._tokenizer.target_pieces(inputs),
            translation=in_capitals(translation) if self._folds(stripped) and target_text is None else translation,
            encoder=encoder[0],
            decoder=decoder[0],
            cross=cross[0],
        )

    def warm_up(self, widths: Sequence[int]) -> None:
        """Run every path a few times, so that the first callers do not pay for what torch prepares once.

        Args:
            widths: Beam widths to expect.
        """
        directions = self.manifest.directions
        source, target = directions.pairs[0] if directions.pairs else directions.any_to_any[:2]
        prepared = self.prepare("a", source, target)
        ids, forced_ids = prepared.segments[0].token_ids, prepared.forced_ids
        for width in sorted(set(widths)):
            options = DecodingOptions(
                decoding="greedy" if width == 1 else "beam",
                beam_size=width,
                return_scores=True,
                # In slots, every size and length that is common has a graph of its own to be captured.
                max_new_tokens=4 if self._slots is None else None,
            )
            for number in (1, 2, 8) if self._slots is None else (1, 2, 4, 8, 16, 32):
                self._decode([ids] * number, [forced_ids] * number, options, lambda outcomes, total: outcomes)
        for _ in range(2):
            self._attend([ids], [[self._tokenizer.start_id, *forced_ids]])

    def _is_bad(self, part: str, hypothesis: Hypothesis, options: DecodingOptions) -> bool:
        if not self.manifest.retry_loops or options.no_repeat_ngram_size or not is_suspect(hypothesis.token_ids):
            return False
        answer = self._tokenizer.decode(hypothesis.token_ids)
        return loops(answer, part) or is_empty(answer, part)

    def _folds(self, part: str) -> bool:
        """Whether a sentence is read in small letters and answered in capitals."""
        return self.manifest.fold_capitals and is_in_capitals(part)

    def _as_read(self, part: str) -> str:
        """A sentence as the model gets to see it."""
        return in_small_letters(part) if self._folds(part) else part

    def _decode(
        self,
        sources: list[list[int]],
        forced_ids: list[tuple[int, ...]],
        options: DecodingOptions,
        progress: Progress,
    ) -> list[Hypothesis]:
        answers: list[Hypothesis] = []
        # Weights are read once for all rows. With the compiled decoder, more sentences would drive each other's keys
        # and values out of the caches; the rows of a beam share them.
        max_rows = 96 if self._native is not None and options.width == 1 else 256
        outcomes = decode_in_order(
            self.cohort, sources, options, forced_ids=forced_ids, progress=progress, max_rows=max_rows
        )
        for outcome in outcomes:
            if outcome.hypothesis is None:
                raise outcome.error or DecodingError("The model gave no hypothesis.")
            answers.append(outcome.hypothesis)
        return answers

    def _attend(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Weights of padded pairs: encoder, decoder and cross, batch first, float32 on the CPU."""
        with torch.inference_mode():
            weights = self._bundle.module.attend(
                pad(sources, self._tokenizer.pad_id).to(self._bundle.device),
                pad(targets, self._tokenizer.pad_id).to(self._bundle.device),
            )
            encoder, decoder, cross = (part.float().cpu() for part in weights)
        return encoder, decoder, cross

    def _links(
        self, prepared: PreparedText, hypotheses: Sequence[Hypothesis], weights: Sequence[Tensor]
    ) -> tuple[AlignmentLink, ...]:
        links: list[AlignmentLink] = []
        target_at = source_at = 0  # where in translation and source the text before this segment ends
        for segment, hypothesis, rows in zip(prepared.segments, hypotheses, weights, strict=True):
            target_at += segment.start - source_at
            _, source_spans = self._tokenizer.encode_with_offsets(
                self._as_read(prepared.text[segment.start : segment.end]), prepared.target, prepared.source
            )
            answer, target_spans = self._tokenizer.decode_with_offsets(hypothesis.token_ids)
            if segment.in_capitals:
                answer, target_spans = in_capitals(answer), spans_in_capitals(answer, target_spans)
            visible = [column for column, (start, end) in enumerate(source_spans) if end > start]
            for row, (start, end) in zip(rows, target_spans, strict=True):
                if end == start or not visible:
                    continue
                weight, place = row[visible].max(dim=0)
                span = source_spans[visible[int(place)]]
                links.append(
                    AlignmentLink(
                        (segment.start + span[0], segment.start + span[1]),
                        (target_at + start, target_at + end),
                        round(float(weight), 4),
                    )
                )
            target_at += len(answer)
            source_at = segment.end
        return tuple(links)


def _mean_score(hypotheses: Sequence[Hypothesis]) -> float | None:
    """Scores weighted by tokens; the closing token counts, so that an empty answer weighs something."""
    weighted = [
        (hypothesis.score, len(hypothesis.token_ids) + 1) for hypothesis in hypotheses if hypothesis.score is not None
    ]
    if not weighted:
        return None
    return sum(score * weight for score, weight in weighted) / sum(weight for _, weight in weighted)
