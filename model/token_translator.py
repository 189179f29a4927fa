"""Token ids in, token ids out: a bundle with its back-end, and the preparation of both for requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from model.artifacts.bundle import Bundle
from model.attention import measure_attention
from model.decoding.backend import Backend, ModelToDecode, NativeBackend, SlotBackend, choose_backend
from model.decoding.batch import decode_in_order
from model.decoding.cohort import Cohort
from model.decoding.graph_check import check_graphs
from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.sentence import DecodingRequest
from model.decoding.slots.model import SlotModel
from model.errors import DecodingError, EmptySource, SourceTooLong, UnsupportedPair
from model.languages import closest
from model.process.memory import give_back_freed_memory
from model.process.progress import Progress, no_progress

_MAX_BATCH_TOKENS = 8192
"""Rows times longest source of sentences that decode together, on few threads."""

_MIN_TOKENS_PER_ROW = 32
"""The batch's token budget is at least this times its rows."""

_WARM_UP_TOKENS = 4
"""Tokens of each translation of the warm-up, on back-ends where their number does not matter."""

_SLOT_LENGTHS = (16, 32, 64, 128)
"""Source tokens of the sentences for back-ends with slots: sentences of each length need slots of another size."""


class TokenTranslator:
    """A loaded bundle and its back-end. Methods that run the model belong to one thread; the others may run anywhere.

    Args:
        bundle: The loaded bundle.
        native: Whether the compiled decoder may be used, if it supports this CPU and model.
        slots: Whether sentences decode in slots (:mod:`model.decoding.slots`); None means on GPUs only, if the bundle
            supports it.
        shortlist: Whether sentences choose their tokens from the bundle's vocabulary shortlist, if it has one. Slots
            do not use it.
        isa: The instruction set of the compiled decoder: its name, ``auto``, or None for the value of ``VERSO_ISA``.
        graphs: Whether slots on a GPU may use CUDA graphs.

    Attributes:
        backend: The back-end that decodes, with the reason why it was chosen.
        capabilities: The options that the model supports.
        device: The device of the weights.
        sha256: Digest of the bundle's file.
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
        self.bundle = bundle
        self.manifest = manifest
        self.capabilities = manifest.capabilities
        self.device = str(bundle.device)
        self.sha256 = bundle.sha256
        self._tokenizer = bundle.tokenizer
        model = ModelToDecode(
            bundle.module,
            bundle.tokenizer,
            bundle.policy,
            manifest.architecture,
            manifest.precision,
            manifest.max_target_tokens,
            bundle.device,
            bundle.shortlist if shortlist else None,
        )
        self._graphs_are_checked = False
        self.backend: Backend = choose_backend(model, native=native, slots=slots, isa=isa, graphs=graphs)
        if isinstance(self.backend, NativeBackend):
            bundle.free_network(self.backend.packed)

    def translate_tokens(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodingOptions = DecodingOptions(),  # noqa: B008
        target: str | None = None,
    ) -> list[Hypothesis]:
        """Translate token ids.

        Args:
            sources: Source ids of each sentence, marker and end token included.
            options: How to decode.
            target: The target language, for models that need it as the first token of the translation.

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

    def cohort(self, width: int) -> Cohort:
        """An empty cohort for sentences of this beam width."""
        return self.backend.cohort(width)

    def example_request(self, num_tokens: int, options: DecodingOptions) -> DecodingRequest:
        """A request for a meaningless sentence.

        Args:
            num_tokens: Tokens of the source. The model's limit and the number of its markers take precedence.
            options: How to decode it.
        """
        source, target = self.manifest.directions.example
        # Repeated by id and not as text, because the vocabulary may lack the letter.
        first, *rest = self._tokenizer.encode("a", target, source)
        length = min(num_tokens, self.manifest.max_source_tokens)
        filling = [rest[0] if len(rest) > 1 else first] * max(0, length - 1 - len(rest))
        return DecodingRequest(0, [first, *filling, *rest], options, self._tokenizer.forced_ids(target))

    def warm_up(self, widths: Sequence[int]) -> None:
        """Run every code path a few times, so that the first requests do not wait for one-time preparations.

        Args:
            widths: Beam widths to expect.
        """
        self.check_graphs(widths)
        for part in self.warm_up_parts(widths):
            part()

    def check_graphs(self, widths: Sequence[int]) -> None:
        """Check that the model's CUDA graphs, if any, give correct results, and disable them if they do not.

        If it is not called, the first translation does it.

        Args:
            widths: Beam widths to expect.

        Raises:
            Exception: The model does not decode.
        """
        self._graphs_are_checked = True
        if isinstance(self.backend, SlotBackend):
            check_graphs(self.backend.slots, self.example_request, widths)

    def warm_up_parts(self, widths: Sequence[int]) -> Iterator[Callable[[], object]]:
        """The warm-up in parts of about 0.1 s, for a thread that has other work between them.

        With CUDA graphs, they capture the steps of common sentence lengths: a capture during a request delays all
        others.

        Args:
            widths: Beam widths to expect.
        """
        graphs = self.backend.graphs
        lengths: Sequence[int] = (0,) if graphs is None else _SLOT_LENGTHS if graphs.are_on else _SLOT_LENGTHS[:1]
        for number, length, width in product(self.backend.warm_up_batches, lengths, sorted(set(widths))):
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
        if self.bundle.network.in_memory:
            request = self.example_request(0, DecodingOptions())
            target_ids = [*request.forced_ids, self._tokenizer.end_id]
            yield partial(measure_attention, self.bundle, request.source_ids, target_ids, "")

    def _step_once(self, requests: Sequence[DecodingRequest]) -> None:
        cohort = self.cohort(requests[0].options.width)
        cohort.join([replace(request, key=key) for key, request in enumerate(requests)])
        cohort.step()
        cohort.leave(cohort.keys)

    def drop_graphs(self) -> None:
        """Drop the model's CUDA graphs before it is unloaded. Only the thread that runs the model may call it."""
        if isinstance(self.backend, SlotBackend):
            self.backend.slots.drop()

    def free_memory(self) -> None:
        """Free the memory that all models in slots keep for speed alone. Only the thread that runs them may call it."""
        if isinstance(self.backend, SlotBackend):
            SlotModel.drop_all()
        give_back_freed_memory(self.device)

    def prepare_attention(self) -> None:
        """Rebuild the torch network now, so that a request for attention does not wait. Any thread may call it."""
        self.bundle.network.get()

    def tidy(self) -> None:
        """Free torch's copy of the weights if it has not been used for some time. Any thread may call it."""
        self.bundle.network.tidy()

    def _decode(self, requests: Sequence[DecodingRequest], progress: Progress = no_progress) -> list[Hypothesis]:
        """Decode requests of one width, and return their hypotheses in order.

        Raises:
            DecodingError: The model failed on a sentence.
        """
        if requests and not self._graphs_are_checked:
            self.check_graphs(sorted({1, requests[0].options.width}))
        max_rows = self.backend.max_rows(requests[0].options.width) if requests else 1
        max_tokens = max(_MAX_BATCH_TOKENS, _MIN_TOKENS_PER_ROW * max_rows)
        hypotheses: list[Hypothesis] = []
        for outcome in decode_in_order(
            self.cohort, requests, progress=progress, max_batch_tokens=max_tokens, max_rows=max_rows
        ):
            if outcome.hypothesis is None:
                raise outcome.error or DecodingError("The model gave no hypothesis.")
            hypotheses.append(outcome.hypothesis)
        return hypotheses
