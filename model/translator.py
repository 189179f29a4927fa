"""Text in, translation out: a loaded bundle and everything it supports, without HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.jit._fuser import optimized_execution

from model.artifacts.bundle import Bundle, load_bundle
from model.artifacts.data_form import assemble
from model.artifacts.manifest import Manifest
from model.artifacts.script import compile_model
from model.decoding.backend import Backend, ModelToDecode, NativeBackend, SlotBackend, choose_backend
from model.decoding.batch import decode_in_order
from model.decoding.cohort import Cohort
from model.decoding.graph_check import check_graphs
from model.decoding.native.packed import NativeModel
from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from model.decoding.slots.model import SlotModel
from model.errors import (
    ArtifactError,
    DecodingError,
    EmptySource,
    InvalidOptions,
    SourceTooLong,
    TargetTooLong,
    UnsupportedPair,
)
from model.languages import closest
from model.network.config import ModelConfig
from model.network.heads import AttentionHead
from model.network.padding import pad
from model.network.steps import attention_steps
from model.network.transformer import Transformer
from model.process.memory import give_back_freed_memory
from model.process.progress import Progress, no_progress
from model.process.threads import available_threads
from model.text.tokenizer import VersoTokenizer
from model.translation.capabilities import Capabilities
from model.translation.confidence import Evidence
from model.translation.evidence import collect_evidence
from model.translation.options import TranslationOptions
from model.translation.pipeline import TextPipeline
from model.translation.plan import Plan, settle_all
from model.translation.reading import SentenceReader
from model.translation.results import AnswerKey, AttendedSentence, Translation
from model.translation.search_trace import WrittenSearch

_MAX_BATCH_TOKENS = 8192
"""Rows times longest source of sentences that decode together, on few threads."""

_MIN_TOKENS_PER_ROW = 32
"""The batch's token budget is at least this times its rows."""

_WARM_UP_TOKENS = 4
"""Tokens of each answer of the warm-up, where nothing depends on their number."""

_SLOT_LENGTHS = (16, 32, 64, 128)
"""Source tokens of the sentences that slots are warmed up with: each has slots of another size, source and target."""


def _policy(bundle: Bundle, capabilities: Capabilities) -> DecodingPolicy:
    """The model's way of decoding, without single bytes if words with unknown characters are placeholders."""
    policy, tokenizer = bundle.manifest.policy, bundle.tokenizer
    if not capabilities.placeholders or not isinstance(tokenizer, VersoTokenizer):
        return policy
    return replace(policy, forbidden=(*policy.suppressed_ids(tokenizer.never_generated), *tokenizer.byte_ids))


def _drop_torch_weights(bundle: Bundle, packed: NativeModel) -> None:
    """Free torch's copy of the weights; rebuild it from the packed weights on demand.

    It is rebuilt as TorchScript, which computes without Python. Otherwise each of its thousand operations would release
    Python's lock, and might wait for it while another thread is busy with Python.
    """
    precision = packed.precision
    if precision is None:
        return
    config, pad_id = ModelConfig.from_dict(bundle.manifest.architecture), bundle.tokenizer.pad_id

    def make() -> Transformer:
        network = assemble(config, precision, pad_id, lambda name, dtype, shape: packed.weight(name))
        return compile_model(network)

    bundle.network.leave_memory(make)


@contextlib.contextmanager
def _computing() -> Iterator[None]:
    """Without what torch keeps for gradients, and without TorchScript's optimiser, which takes longer than it saves."""
    with torch.inference_mode(), optimized_execution(False):
        yield


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
        steps: The computation of one head, as :func:`model.network.steps.attention_steps` returns it; None unless asked
            for. Rows of kind ``encoder`` are ``source_tokens``, of the others ``decoder_input_tokens``.
        search: The candidates of the search for the translation; None unless requested.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    decoder_input_tokens: list[str]
    translation: str
    encoder: Tensor
    decoder: Tensor
    cross: Tensor
    steps: dict[str, Tensor] | None = None
    search: WrittenSearch | None = None

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """The tokens of the rows and of the columns of ``encoder``, ``decoder`` or ``cross``."""
        rows = self.source_tokens if kind == "encoder" else self.target_tokens
        columns = self.decoder_input_tokens if kind == "decoder" else self.source_tokens
        return rows, columns


class Translator:
    """A loaded bundle. Methods that run the model belong to one thread; the others may run anywhere.

    Args:
        bundle: The loaded bundle.
        native: Whether the compiled decoder may be used, if there is one for this processor and model.
        slots: Whether sentences decode in slots (:mod:`model.decoding.slots`): None means on GPUs only, where the
            bundle has what they need.
        shortlist: Whether sentences choose their tokens from the bundle's vocabulary shortlist, where it has one. In
            slots they do not.
        isa: The instruction set of the compiled decoder: its name, ``auto``, or None for what ``VERSO_ISA`` says.
        graphs: Whether slots on a GPU may have CUDA graphs.

    Attributes:
        backend: What decodes its sentences, and why.
        pipeline: What texts go through before and after.
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
        manifest = bundle.manifest
        self._bundle = bundle
        self._tokenizer = bundle.tokenizer
        self.capabilities = Capabilities.from_dict(manifest.capabilities)
        """The options that the model supports."""
        model = ModelToDecode(
            bundle.module,
            bundle.tokenizer,
            _policy(bundle, self.capabilities),
            manifest.architecture,
            manifest.precision,
            manifest.max_target_tokens,
            bundle.device,
            bundle.shortlist if shortlist else None,
        )
        self._graphs_are_checked = False
        self.backend: Backend = choose_backend(model, native=native, slots=slots, isa=isa, graphs=graphs)
        if isinstance(self.backend, NativeBackend):
            _drop_torch_weights(bundle, self.backend.packed)
        self.pipeline = TextPipeline(
            SentenceReader(bundle.tokenizer, self.capabilities, fold_capitals=manifest.fold_capitals),
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
            num_threads: Processor threads the model may use when called from this thread; None means all there are.
            sha256: The digest the file must have.
            native: Whether the compiled decoder may be used, if there is one for this processor and model.
            shortlist: Whether sentences choose their tokens from the bundle's vocabulary shortlist.
            isa: The instruction set of the compiled decoder: its name, ``auto``, or None for what ``VERSO_ISA`` says.
            graphs: Whether slots on a GPU may have CUDA graphs.

        Raises:
            ArtifactError: The file is missing, damaged, foreign, newer or another one than the digest says, or a
                shortlist is wanted and it has none.
            DeviceError: The device is not there, or cannot run the bundle's precision or the instruction set.
        """
        torch.set_num_threads(num_threads or available_threads())
        bundle = load_bundle(Path(path), device, sha256)
        if shortlist and bundle.shortlist is None:
            raise ArtifactError(f"{path} has no vocabulary shortlist; make one with 'verso shortlist --model {path}'.")
        return cls(bundle, native=native, shortlist=shortlist, isa=isa, graphs=graphs)

    @property
    def bundle(self) -> Bundle:
        """What was loaded: the network, its tokenizer and its manifest."""
        return self._bundle

    @property
    def manifest(self) -> Manifest:
        """The metadata of the bundle."""
        return self._bundle.manifest

    @property
    def device(self) -> str:
        """The device the model is on."""
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
            options: How to decode them, or each of them; the widths of several are equal.
            source: Their language; may be left out where the target decides it.
            target: The language wanted.
            return_alignment: Sets the option of this name.
            return_confidence: Sets the option of this name.
            progress: Sees each sentence finish.

        Returns:
            One translation for each text, in order. Blank texts come back as they are.

        Raises:
            UnsupportedPair: The model does not translate this pair.
            DecodingError: The model failed on a sentence.
        """
        pair = self.resolve_pair(source, target)
        each = [options] * len(texts) if isinstance(options, TranslationOptions) else options
        if return_alignment or return_confidence:
            each = [
                replace(
                    one,
                    return_alignment=one.return_alignment or return_alignment,
                    return_confidence=one.return_confidence or return_confidence,
                )
                for one in each
            ]
        plans = [self.prepare(text, *pair, one) for text, one in zip(texts, each, strict=True)]
        self.decode(plans, progress)
        attended = [(number, one) for number, plan in enumerate(plans) for one in plan.attended]
        attention: list[dict[AnswerKey, Tensor]] = [{} for _ in plans]
        for (number, one), rows in zip(attended, self.align([one for _, one in attended]), strict=True):
            attention[number][one.key] = rows
        return [
            plan.complete(attention[number], self.confidence(plan) if plan.options.return_confidence else None)
            for number, plan in enumerate(plans)
        ]

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
            target: The language wanted, for models that get it as the answer's first token.

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
        return self._decode([DecodingRequest(0, list(source), options, forced_ids) for source in sources])

    def prepare(
        self,
        text: str,
        source: str,
        target: str,
        options: TranslationOptions = TranslationOptions(),  # noqa: B008
    ) -> Plan:
        """Cut a text into sentences the model takes. Runs no model: it may be called from any thread.

        Args:
            text: Any text.
            source: Its language, as :meth:`resolve_pair` gave it.
            target: The language wanted.
            options: How to decode it.
        """
        return self.pipeline.prepare(text, source, target, options)

    def cohort(self, width: int) -> Cohort:
        """An empty cohort for sentences of this beam width."""
        return self.backend.cohort(width)

    def decode(self, plans: Sequence[Plan], progress: Progress = no_progress) -> None:
        """Decode what texts have pending until nothing is.

        Args:
            plans: The texts.
            progress: Sees each sentence finish; those that are decoded a second time are not shown.

        Raises:
            DecodingError: The model failed on a sentence.
        """
        requests = [request for plan in plans for request in plan.pending]
        settle_all(plans, self._decode(requests, progress))
        while retries := [request for plan in plans for request in plan.pending]:
            settle_all(plans, self._decode(retries))

    def align(self, sentences: Sequence[AttendedSentence]) -> list[Tensor]:
        """Attention between sentences and their answers, for :meth:`model.translation.plan.Plan.complete`.

        Args:
            sentences: What is ``attended`` in some texts.

        Returns:
            For each sentence the weights of the last layer, averaged over its heads: a row for each token of the
            answer, a column for each of the source.
        """
        if not sentences:
            return []
        start_id = self._tokenizer.start_id
        weights = self.backend.attention(
            [one.source_ids for one in sentences],
            # Row t chooses token t from the tokens before it: the last one need not be read.
            [[start_id, *one.forced_ids, *one.answer_ids[:-1]] for one in sentences],
        )
        return [
            rows[len(one.forced_ids) :][: len(one.answer_ids)] for one, rows in zip(sentences, weights, strict=True)
        ]

    def confidence(self, plan: Plan, begin: int = 0, end: int | None = None) -> list[Evidence]:
        """What the model says about the translation of sentences of a text.

        Args:
            plan: The text; all its sentences have answers.
            begin: Index of the first sentence.
            end: Index after the last sentence; None for all that follow.

        Returns:
            The evidence of each of these sentences; that of all sentences is for :meth:`Plan.complete`.
        """
        manifest = self.manifest
        return collect_evidence(
            self._bundle.tokenizer,
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
        """All attention weights behind one sentence and its translation.

        Args:
            text: One sentence.
            options: How to translate it, where ``target_text`` is not given.
            source: Its language.
            target: The language of the translation.
            target_text: A translation to look at instead of the model's own.
            steps: A head whose computation is returned step by step, too.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: It holds more than one sentence.
            SourceTooLong: The sentence is longer than the model accepts.
            TargetTooLong: The given translation is.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
            InvalidOptions: A translation is given, and an option is for the search of one.
            UnsupportedPair: The model does not translate this pair.
            UnknownHead: The model does not have the head of ``steps``.
            DecodingError: The model failed.
        """
        if steps is not None:
            steps.check(self._config)  # before anything is decoded
        pair = self.resolve_pair(source, target)
        if target_text is not None and options.steering:
            raise InvalidOptions(
                f"target_text is a whole translation, and {' with '.join(options.steering)} is for one that the model "
                "writes; send one of them."
            )
        plan = self.pipeline.prepare_sentence(text, *pair, replace(options, num_hypotheses=1))
        if target_text is None:
            self.decode([plan])
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
        inputs = [self._tokenizer.start_id, *target_ids[:-1]]
        encoder, decoder, cross = self._attend([sentence.token_ids], [inputs])
        search = None
        if target_text is None:
            weights = zip(plan.attended, self.align(plan.attended), strict=True)
            translation = plan.complete({one.key: rows for one, rows in weights})
            target_text, search = translation.text, translation.search
        return Attention(
            source_tokens=self._tokenizer.pieces(sentence.token_ids),
            target_tokens=self._tokenizer.target_pieces(target_ids),
            decoder_input_tokens=self._tokenizer.target_pieces(inputs),
            translation=target_text,
            encoder=encoder[0],
            decoder=decoder[0],
            cross=cross[0],
            steps=None if steps is None else self._steps(sentence.token_ids, inputs, steps),
            search=search,
        )

    def example_request(self, num_tokens: int, options: DecodingOptions) -> DecodingRequest:
        """A request for a meaningless sentence.

        Args:
            num_tokens: Tokens of its source; fewer if the model takes fewer, more if markers alone are more.
            options: How to decode it.
        """
        source, target = self.manifest.directions.example
        # Not a text: the model may not know the letter.
        first, *rest = self._tokenizer.encode("a", target, source)
        length = min(num_tokens, self.manifest.max_source_tokens)
        filling = [rest[0] if len(rest) > 1 else first] * max(0, length - 1 - len(rest))
        return DecodingRequest(0, [first, *filling, *rest], options, self._tokenizer.forced_ids(target))

    def warm_up(self, widths: Sequence[int]) -> None:
        """Run every path a few times, so that the first callers do not pay for what is prepared once.

        Args:
            widths: Beam widths to expect.
        """
        self.check_graphs(widths)
        for part in self.warm_up_parts(widths):
            part()

    def check_graphs(self, widths: Sequence[int]) -> None:
        """Check that CUDA graphs, if the model has any, give the right results; without them if they do not.

        Otherwise the first translation does it.

        Args:
            widths: Beam widths to expect.

        Raises:
            Exception: The model does not decode.
        """
        self._graphs_are_checked = True
        if isinstance(self.backend, SlotBackend):
            check_graphs(self.backend.slots, self.example_request, widths)

    def warm_up_parts(self, widths: Sequence[int]) -> Iterator[Callable[[], object]]:
        """The warm-up in parts of some 0.1 s, for a thread that has other work to do between them.

        With CUDA graphs, they capture the steps of ordinary sentences: each capture would keep all others waiting.

        Args:
            widths: Beam widths to expect.
        """
        graphs = self.backend.graphs
        lengths: Sequence[int] = (0,) if graphs is None else _SLOT_LENGTHS if graphs.are_on else _SLOT_LENGTHS[:1]
        for number in self.backend.warm_up_batches:
            for length in lengths:
                for width in sorted(set(widths)):
                    for return_scores in (True, False) if graphs is not None and width == 1 else (True,):
                        options = DecodingOptions(
                            decoding="greedy" if width == 1 else "beam",
                            beam_size=width,
                            return_scores=return_scores,
                            max_new_tokens=_WARM_UP_TOKENS if graphs is None else None,
                        )
                        requests = [self.example_request(length, options)] * number
                        if graphs is None:
                            yield partial(self._decode, requests)
                        elif graphs.num_kept < graphs.max_graphs:
                            yield partial(self._step_once, requests)
        if self._bundle.network.in_memory:
            request = self.example_request(0, DecodingOptions())
            yield lambda: self._attend([request.source_ids], [[self._tokenizer.start_id, *request.forced_ids]])

    def _step_once(self, requests: Sequence[DecodingRequest]) -> None:
        cohort = self.cohort(requests[0].options.width)
        cohort.join([replace(request, key=key) for key, request in enumerate(requests)])
        cohort.step()
        cohort.leave(cohort.keys)

    def drop_graphs(self) -> None:
        """Drop the model's CUDA graphs, before it is unloaded. Called by the thread that runs it."""
        if isinstance(self.backend, SlotBackend):
            self.backend.slots.drop()

    def free_memory(self) -> None:
        """Free what is kept for speed alone, of all models in slots. Called by the thread that runs them all."""
        if isinstance(self.backend, SlotBackend):
            SlotModel.drop_all()
        give_back_freed_memory(self.device)

    def prepare_attention(self) -> None:
        """Rebuild the torch network now, so that :meth:`attention` does not wait. Any thread may call it."""
        self._bundle.network.get()

    def tidy(self) -> None:
        """Free memory that has not been needed for some time. Any thread may call it; the service does now and then.

        Where the compiled decoder has the weights, this is torch's copy of them, which attention uses.
        """
        self._bundle.network.tidy()

    def _decode(self, requests: Sequence[DecodingRequest], progress: Progress = no_progress) -> list[Hypothesis]:
        """The answers to requests of one width, in order.

        Raises:
            DecodingError: The model failed on a sentence.
        """
        if requests and not self._graphs_are_checked:
            self.check_graphs(sorted({1, requests[0].options.width}))
        max_rows = self.backend.max_rows(requests[0].options.width) if requests else 1
        max_tokens = max(_MAX_BATCH_TOKENS, _MIN_TOKENS_PER_ROW * max_rows)
        answers: list[Hypothesis] = []
        for outcome in decode_in_order(
            self.cohort, requests, progress=progress, max_batch_tokens=max_tokens, max_rows=max_rows
        ):
            if outcome.hypothesis is None:
                raise outcome.error or DecodingError("The model gave no hypothesis.")
            answers.append(outcome.hypothesis)
        return answers

    def _attend(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Weights of padded pairs: encoder, decoder and cross, batch first, float32 on the CPU."""
        with _computing():
            weights = self._bundle.module.attend(
                pad(sources, self._tokenizer.pad_id).to(self._bundle.device),
                pad(targets, self._tokenizer.pad_id).to(self._bundle.device),
            )
            encoder, decoder, cross = (part.float().cpu() for part in weights)
        return encoder, decoder, cross

    def _steps(self, source: list[int], target: list[int], head: AttentionHead) -> dict[str, Tensor]:
        with _computing():
            return attention_steps(
                self._bundle.module,
                self._config,
                torch.tensor([source], device=self._bundle.device),
                torch.tensor([target], device=self._bundle.device),
                head,
            )

    @property
    def _config(self) -> ModelConfig:
        return ModelConfig.from_dict(self.manifest.architecture)
