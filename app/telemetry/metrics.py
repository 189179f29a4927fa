"""Prometheus metrics. Each application has its own registry, so that tests are independent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from app.telemetry.gpu_metrics import GpuCollector

if TYPE_CHECKING:
    from model.translator import Translator

Ending = Literal["finished", "cancelled", "expired", "failed"]
"""How a sentence left the engine; the metric's label is called ``outcome``."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


class Metrics:
    """The service's metrics; each method records an event."""

    content_type = CONTENT_TYPE_LATEST
    """Content type of :meth:`render`'s text."""

    def __init__(self) -> None:
        """Start at zero."""
        self.registry = CollectorRegistry()
        self.elsewhere: Callable[[], Awaitable[Mapping[str, bytes]]] | None = None
        """Returns the metrics of other processes that serve with this one, by process; None if there are none."""
        self.num_sentences = 0
        """Sentences that are queued or decode."""
        self._gpus = GpuCollector()
        self.registry.register(self._gpus)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        requests = counter("verso_requests", "Requests answered.", ["route", "method", "status"])
        request_seconds = histogram(
            "verso_request_seconds", "Seconds from request to answer.", ["route"], buckets=_SECONDS
        )
        # Looking labels up takes as long as counting. Their number is bounded by those of routes, methods and statuses.
        self._requests_of = cache(requests.labels)
        self._seconds_of = cache(request_seconds.labels)
        self._refusals = counter(
            "verso_refusals", "Requests refused or failed, by the code of their problem.", ["reason"]
        )
        self._ready = gauge("verso_ready", "1 while requests are accepted.")
        self._models = gauge("verso_models", "Models that are served.")
        self._models_in_memory = gauge("verso_models_in_memory", "Models that are in memory.")
        self._model_bytes = gauge("verso_model_bytes", "Estimated memory of the models in memory, in bytes.")
        self._model_loads = counter(
            "verso_model_loads", "Models that were loaded on a use, with VERSO_MODEL_MEMORY, by outcome.", ["outcome"]
        )
        for outcome in ("loaded", "failed"):
            self._model_loads.labels(outcome)
        self._model_load_seconds = histogram(
            "verso_model_load_seconds", "Seconds to load a model on a use, after the wait for room.", buckets=_SECONDS
        )
        self._model_evictions = counter("verso_model_evictions", "Models that were evicted to make room for another.")
        self._queue = gauge("verso_queue_sentences", "Sentences in the queue.")
        queue_of_priority = gauge(
            "verso_queue_priority_sentences", "Sentences in the queue, by the priority of their caller.", ["priority"]
        )
        self._queue_of_priority = cache(queue_of_priority.labels)
        self._running = gauge("verso_running_sentences", "Sentences that decode.")
        self._max_rows = gauge("verso_max_batch_rows", "Rows that may decode together.")
        self._max_tokens = gauge(
            "verso_max_batch_tokens",
            "Source tokens, and possible target tokens, that may decode together, with padding.",
        )
        self._cache_hits = counter("verso_cache_hits", "Sentences answered from the cache.")
        self._cache_misses = counter("verso_cache_misses", "Sentences that were not in the cache.")
        self._cache_entries = gauge("verso_cache_entries", "Sentences in the cache.")
        self._cache_bytes = gauge("verso_cache_bytes", "Estimated memory of the cache, in bytes.")
        self._coalesced = counter(
            "verso_coalesced_sentences", "Sentences answered together with an equal one that was already in the engine."
        )
        self._losses = counter(
            "verso_replica_losses",
            "Calls of an engine replica that ended before its answer, with Ray Serve; another replica was called.",
        )
        self._wait = histogram("verso_queue_wait_seconds", "Seconds a sentence was queued.", buckets=_SECONDS)
        sentences = counter("verso_sentences", "Sentences, by model and by outcome.", ["model", "outcome"])
        self._sentences_of = cache(sentences.labels)
        self._restarts = counter("verso_engine_restarts", "Restarts of the engine's thread after an error.", ["reason"])
        self._restarts.labels("died")  # 0 from the start, so that the first one is an increase
        self._steps = counter(
            "verso_decode_steps", "Calls of a model's back-end; each computes one or more tokens of every row."
        )
        self._step_seconds = histogram(
            "verso_decode_step_seconds",
            "Seconds of one call of a model's back-end, as verso_decode_steps counts them.",
            buckets=_STEP_SECONDS,
        )
        self._rows = histogram(
            "verso_batch_rows",
            "Rows with a sentence in one call of a model's back-end; a GPU also computes empty rows.",
            buckets=_ROWS,
        )
        self._padding = histogram(
            "verso_padding_share", "Share of padding among the source tokens encoded together.", buckets=_SHARES
        )
        self._source_tokens = counter("verso_source_tokens", "Source tokens encoded.")
        self._target_tokens = counter("verso_target_tokens", "Target tokens of finished sentences.")

    def watch_gpus(self, translators: Callable[[], Sequence[Translator]]) -> None:
        """Add metrics of the GPUs that models are on.

        Args:
            translators: Returns the loaded models.
        """
        self._gpus.translators = translators

    def request_finished(self, route: str, method: str, status: int, duration_s: float) -> None:
        """A request was answered, or its client left."""
        self._requests_of(route, method, str(status)).inc()
        self._seconds_of(route).observe(duration_s)

    def refused(self, reason: str) -> None:
        """A request was refused or failed; the reason is the problem's code."""
        self._refusals.labels(reason).inc()

    def ready_changed(self, ready: bool) -> None:
        """The service began or stopped to accept requests."""
        self._ready.set(1 if ready else 0)

    def models_changed(self, num_models: int) -> None:
        """The number of served models changed."""
        self._models.set(num_models)

    def memory_changed(self, num_models: int, num_bytes: int) -> None:
        """The models in memory changed."""
        self._models_in_memory.set(num_models)
        self._model_bytes.set(num_bytes)

    def model_loaded(self, duration_s: float) -> None:
        """A model was loaded on a use."""
        self._model_loads.labels("loaded").inc()
        self._model_load_seconds.observe(duration_s)

    def model_load_failed(self) -> None:
        """A model could not be loaded on a use."""
        self._model_loads.labels("failed").inc()

    def model_evicted(self) -> None:
        """A model was evicted."""
        self._model_evictions.inc()

    def load_changed(self, num_waiting: Mapping[str, int], num_running: int) -> None:
        """The numbers of queued sentences, by priority, and of decoding sentences changed."""
        self._queue.set(sum(num_waiting.values()))
        for priority, number in num_waiting.items():
            self._queue_of_priority(priority).set(number)
        self._running.set(num_running)
        self.num_sentences = sum(num_waiting.values()) + num_running

    def budget_changed(self, max_rows: int, max_tokens: int) -> None:
        """The budget of decoding changed."""
        self._max_rows.set(max_rows)
        self._max_tokens.set(max_tokens)

    def cache_queried(self, num_hits: int, num_misses: int) -> None:
        """Sentences were looked up in the cache."""
        if num_hits:
            self._cache_hits.inc(num_hits)
        if num_misses:
            self._cache_misses.inc(num_misses)

    def cache_changed(self, num_entries: int, num_bytes: int) -> None:
        """The content of the cache changed."""
        self._cache_entries.set(num_entries)
        self._cache_bytes.set(num_bytes)

    def coalesced(self, num_sentences: int) -> None:
        """Sentences wait for the outcome of an equal sentence."""
        self._coalesced.inc(num_sentences)

    def replica_lost(self) -> None:
        """An engine replica ended before it had answered a call."""
        self._losses.inc()

    def joined(self, lengths: list[int], waits_s: list[float]) -> None:
        """Sentences of these lengths joined a cohort together, after these times in the queue."""
        for wait_s in waits_s:
            self._wait.observe(wait_s)
        real = sum(lengths)
        self._source_tokens.inc(real)
        self._padding.observe(1.0 - real / (len(lengths) * max(lengths)))

    def engine_restarted(self) -> None:
        """The engine's thread has started again after an error."""
        self._restarts.labels("died").inc()

    def stepped(self, num_rows: int, duration_s: float) -> None:
        """A back-end computed one or more steps of the sentences in ``num_rows`` rows."""
        self._steps.inc()
        self._rows.observe(num_rows)
        self._step_seconds.observe(duration_s)

    def sentence_left(self, model: str, ending: Ending, num_target_tokens: int = 0) -> None:
        """A sentence left the engine."""
        self._sentences_of(model, ending).inc()
        self._target_tokens.inc(num_target_tokens)

    def render(self) -> bytes:
        """The metrics of this process in Prometheus' text format."""
        return generate_latest(self.registry)

    async def render_all(self) -> bytes:
        """The metrics of this process and of those that serve with it, with the label ``process``."""
        if self.elsewhere is None:
            # The driver of a GPU may hang, and the event loop may not.
            return await asyncio.to_thread(self.render) if self._gpus.in_use else self.render()
        # Imported here: only needed for several processes.
        from app.telemetry.joined_metrics import join_pages

        # On a thread: pages of Prometheus' text are parsed, which takes 5 ms for each process.
        return await asyncio.to_thread(join_pages, {"ingress": self.render(), **await self.elsewhere()})
