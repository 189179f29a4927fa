"""Text in, translation out: a loaded bundle and everything it supports, without HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from model.artifacts.bundle import Bundle, load_bundle
from model.attention import Attention, measure_attention
from model.errors import (
    ArtifactError,
    InvalidOptions,
    TargetTooLong,
    UnsupportedPair,
)
from model.network.config import ModelConfig
from model.network.heads import AttentionHead
from model.process.progress import Progress, no_progress
from model.process.threads import available_threads
from model.token_translator import TokenTranslator
from model.translation.confidence import Evidence
from model.translation.evidence import collect_evidence
from model.translation.options import TranslationOptions
from model.translation.pipeline import TextPipeline
from model.translation.plan import Plan, settle_all
from model.translation.reading import SentenceReader
from model.translation.results import AttendedSentence, Translation


class Translator(TokenTranslator):
    """A loaded bundle, with the arguments of :class:`model.token_translator.TokenTranslator`.

    Methods that run the model belong to one thread; the others may run anywhere.

    Attributes:
        pipeline: Prepares texts for decoding.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        native: bool = True,
        slots: bool | None = None,
        shortlist: bool = False,
        isa: str | None = None,
        graphs: bool = True,
    ) -> None:
        super().__init__(bundle, native=native, slots=slots, shortlist=shortlist, isa=isa, graphs=graphs)
        manifest = bundle.manifest
        self.pipeline = TextPipeline(
            SentenceReader(
                bundle.tokenizer, manifest.capabilities, fold_capitals=manifest.fold_capitals, lexicon=bundle.lexicon
            ),
            manifest.max_source_tokens,
            manifest.max_target_tokens,
            retry_loops=manifest.retry_loops,
            calibration=manifest.calibration,
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
        isa: str | None = None,
        graphs: bool = True,
    ) -> Translator:
        """Load a bundle.

        Args:
            path: The file.
            device: ``cpu`` or ``cuda``.
            num_threads: CPU threads the model may use when called from this thread; None means all that are available.
            sha256: The digest the file must have.
            native: As for the class.
            shortlist: As for the class, but the bundle must have a shortlist.
            isa: As for the class.
            graphs: As for the class.

        Raises:
            ArtifactError: The file is missing, damaged, of another program or a newer release, its digest differs, or
                it lacks the shortlist.
            DeviceError: The device does not exist, or cannot run the bundle's precision or the instruction set.
        """
        torch.set_num_threads(num_threads or available_threads())
        bundle = load_bundle(Path(path), device, sha256)
        if shortlist and bundle.shortlist is None:
            raise ArtifactError(f"{path} has no vocabulary shortlist; make one with 'verso shortlist --model {path}'.")
        return cls(bundle, native=native, shortlist=shortlist, isa=isa, graphs=graphs)

    def resolve_pair(self, source: str | None, target: str | None) -> tuple[str, str]:
        """The pair that a caller's codes mean; codes may be upper case and carry a region (``en-US``).

        Raises:
            UnsupportedPair: No pair matches, or several do.
        """
        pairs = self.manifest.directions.find(source, target)
        if len(pairs) != 1:
            raise UnsupportedPair(source, target, self.manifest.directions)
        return pairs[0]

    def translate(
        self,
        texts: Sequence[str],
        options: TranslationOptions | Sequence[TranslationOptions] = TranslationOptions(),  # noqa: B008  (frozen)
        source: str | None = None,
        target: str | None = None,
        *,
        return_alignment: bool = False,
        return_confidence: bool = False,
        progress: Progress = no_progress,
    ) -> list[Translation]:
        """Translate texts of any length; sentences of all of them share batches.

        Args:
            texts: The texts.
            options: The options of all texts, or those of each text.
            source: Their language; optional if the target determines it.
            target: The target language.
            return_alignment: Sets the option of this name.
            return_confidence: Sets the option of this name.
            progress: Called as each sentence finishes.

        Returns:
            One translation for each text, in order. Blank texts are returned unchanged.

        Raises:
            UnsupportedPair: The model does not translate this pair.
            DecodingError: The model failed on a sentence.
        """
        pair = self.resolve_pair(source, target)
        text_options = [options] * len(texts) if isinstance(options, TranslationOptions) else options
        if return_alignment or return_confidence:
            text_options = [
                replace(
                    text_option,
                    return_alignment=text_option.return_alignment or return_alignment,
                    return_confidence=text_option.return_confidence or return_confidence,
                )
                for text_option in text_options
            ]
        plans = [self.prepare(text, *pair, text_option) for text, text_option in zip(texts, text_options, strict=True)]
        self.decode(plans, progress)
        return self._complete(plans)

    def prepare(
        self,
        text: str,
        source: str,
        target: str,
        options: TranslationOptions = TranslationOptions(),  # noqa: B008
    ) -> Plan:
        """Split a text into sentences that the model accepts. Any thread may call it: it does not run the model.

        Args:
            text: Any text.
            source: Its language, as returned by :meth:`resolve_pair`.
            target: The target language.
            options: How to translate it.
        """
        return self.pipeline.prepare(text, source, target, options)

    def decode(self, plans: Sequence[Plan], progress: Progress = no_progress) -> None:
        """Decode the pending sentences of texts, retries included.

        Args:
            plans: The texts.
            progress: Called as each sentence finishes; retries are not reported.

        Raises:
            DecodingError: The model failed on a sentence.
        """
        requests = [request for plan in plans for request in plan.pending]
        settle_all(plans, self._decode(requests, progress))
        while retries := [request for plan in plans for request in plan.pending]:
            settle_all(plans, self._decode(retries))

    def align(self, sentences: Sequence[AttendedSentence]) -> list[Tensor]:
        """Attention between sentences and their translations, for :meth:`model.translation.plan.Plan.complete`.

        Args:
            sentences: Sentences that plans list as ``attended``.

        Returns:
            For each sentence the weights of the last layer that align its tokens: (tokens of the translation, source
            tokens).
        """
        if not sentences:
            return []
        start_id = self._tokenizer.start_id
        weights = self.backend.attention(
            [sentence.source_ids for sentence in sentences],
            # Row t chooses token t from the tokens before it, so the last token is not an input.
            [[start_id, *sentence.forced_ids, *sentence.answer_ids[:-1]] for sentence in sentences],
        )
        return [
            rows[len(sentence.forced_ids) :][: len(sentence.answer_ids)]
            for sentence, rows in zip(sentences, weights, strict=True)
        ]

    def confidence(self, plan: Plan, begin: int = 0, end: int | None = None) -> list[Evidence]:
        """The evidence for the confidence of sentences of a text.

        Args:
            plan: The text; all its sentences are decoded.
            begin: Index of the first sentence.
            end: Index after the last sentence; None for the end of the text.

        Returns:
            The evidence of each of these sentences; :meth:`Plan.complete` takes that of all sentences.
        """
        manifest = self.manifest
        return collect_evidence(
            self.bundle.tokenizer,
            self.backend.logits,
            plan,
            begin,
            end,
            max_tokens_back=manifest.max_target_tokens if manifest.translates_back else None,
        )

    def attention(
        self,
        text: str,
        options: TranslationOptions = TranslationOptions(),  # noqa: B008
        source: str | None = None,
        target: str | None = None,
        target_text: str | None = None,
        steps: AttentionHead | None = None,
    ) -> Attention:
        """All attention weights between one sentence and its translation.

        Args:
            text: One sentence.
            options: How to translate it, unless ``target_text`` is given.
            source: Its language.
            target: The target language.
            target_text: A translation to use instead of the model's own.
            steps: A head whose computation is also returned step by step.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: It has more than one sentence.
            SourceTooLong: The sentence is longer than the model accepts.
            TargetTooLong: ``target_text`` is longer than the model accepts.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
            InvalidOptions: ``target_text`` is combined with an option that steers the search.
            UnsupportedPair: The model does not translate this pair.
            UnknownHead: The model does not have the head of ``steps``.
            DecodingError: The model failed.
        """
        if steps is not None:
            steps.check(ModelConfig.from_dict(self.manifest.architecture))
        pair = self.resolve_pair(source, target)
        if target_text is not None and options.steering:
            raise InvalidOptions(
                f"target_text is a whole translation, and {' with '.join(options.steering)} is for one that the model "
                "writes; send one of them."
            )
        plan = self.pipeline.prepare_sentence(text, *pair, replace(options, num_hypotheses=1))
        search = None
        if target_text is None:
            self.decode([plan])
            (translation,) = self._complete([plan])
            target_text, search = translation.text, translation.search
            (hypothesis,) = plan.hypotheses
            closing = [self._tokenizer.end_id] if hypothesis.finish_reason == "stop" else []
            target_ids = [*plan.forced_ids, *hypothesis.token_ids, *closing]
        else:
            target_text = target_text.strip()
            folded = self.pipeline.reader.folded(target_text)
            target_ids = [*plan.forced_ids, *self._tokenizer.encode_target(folded)]
        if len(target_ids) > self.manifest.max_target_tokens:
            raise TargetTooLong(len(target_ids), self.manifest.max_target_tokens)
        (sentence,) = plan.sentences
        return measure_attention(self.bundle, sentence.token_ids, target_ids, target_text, steps, search)

    def _complete(self, plans: Sequence[Plan]) -> list[Translation]:
        """The translations of decoded texts, with the alignments and confidences that their options request."""
        attended = [plan.attended for plan in plans]
        rows = iter(self.align([sentence for sentences in attended for sentence in sentences]))
        return [
            plan.complete(
                {sentence.key: next(rows) for sentence in sentences},
                self.confidence(plan) if plan.options.return_confidence else None,
            )
            for plan, sentences in zip(plans, attended, strict=True)
        ]
