"""Models that are loaded on their first use, and stay in memory while there is room (docs/decisions/0050).

A request waits until all its models are in memory, within its deadline. One model is loaded at a time, on a thread of
its own, for the request that has waited longest; every request whose models are in memory goes on meanwhile. To make
room, the model whose last use is longest ago is evicted, once no request uses it. If all are in use, the one whose last
use is longest ago gets no new requests until there is room, so that a busy model cannot keep another one out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.engine.engine import Dropped
from app.errors import LimitExceeded, NotReady
from app.models.registry import LoadedModel
from app.telemetry.metrics import Metrics
from model.errors import ArtifactError

if TYPE_CHECKING:
    from app.models.bundles import StoredBundle
    from model.translator import Translator

logger = logging.getLogger("app.models")

RETRY_S = 30.0
"""Seconds after which a bundle that could not be loaded is tried again."""

_FIRST_ESTIMATE_S = 2.0


@dataclass(eq=False)
class _Waiter:
    """A request that waits for models.

    Args:
        models: The models.
        ready: Done when they are in memory and count as used.
    """

    models: Collection[LoadedModel]
    ready: asyncio.Future[None]


class Residency:
    """Decides which models are in memory. Belongs to the event loop.

    Args:
        max_bytes: Most memory of models, as their bundles estimate it.
        loading: Held by everything that loads a model.
        load: Loads a bundle.
        release: Releases the memory of a model.
        metrics: The metrics to update.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        max_bytes: int,
        loading: asyncio.Lock,
        load: Callable[[StoredBundle], Awaitable[Translator]],
        release: Callable[[LoadedModel], Awaitable[None]],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_bytes = max_bytes
        self._loading = loading
        self._load_bundle = load
        self._release = release
        self._metrics = metrics
        self._clock = clock
        self._resident: dict[LoadedModel, None] = {}  # in the order of their last use
        self._num_uses: Counter[LoadedModel] = Counter()
        self._leaving: LoadedModel | None = None  # gets no new requests
        self._waiters: deque[_Waiter] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._retry_at: dict[LoadedModel, float] = {}
        self._changes = asyncio.Event()  # a model is no longer in use, or a request no longer waits
        self._load_s = _FIRST_ESTIMATE_S

    async def use(
        self, models: Collection[LoadedModel], timeout: asyncio.Timeout, models_in_use: contextlib.ExitStack
    ) -> None:
        """Load the models of a request that are not in memory, and keep all of them there until the stack is closed.

        Args:
            models: The models.
            timeout: The request's deadline.
            models_in_use: Closed when the request has ended.

        Raises:
            LimitExceeded: The models do not fit into memory together.
            NotReady: They were not loaded by the deadline, or one cannot be loaded.
            Dropped: The engine was stopped.
        """
        if self._are_ready(models):
            self._begin_use(models)
        else:
            await self._wait_for(models, timeout)
        models_in_use.callback(self._end_use, models)

    async def make_room(
        self, num_bytes: int, kept: Collection[LoadedModel] = (), wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Evict models until there is room for another one. The caller has the lock of loads.

        Args:
            num_bytes: The memory that it takes.
            kept: Models that stay.
            wanted: Whether there is still a need for room.
        """
        try:
            while wanted() and sum(model.num_bytes for model in self._resident) + num_bytes > self.max_bytes:
                candidates = [model for model in self._resident if model not in kept]
                victim = next((model for model in candidates if not self._num_uses[model]), None)
                if victim is None:
                    self._leaving = self._leaving or candidates[0]
                    self._changes.clear()
                    await self._changes.wait()
                    continue
                del self._resident[victim]
                self._metrics.model_evicted()
                logger.info("evicting", extra={"fields": {"model": victim.name, "bytes": victim.num_bytes}})
                await self._release(victim)
                self._update_metrics()
        finally:
            self._leaving = None

    def add(self, model: LoadedModel) -> None:
        """Count a model that was loaded."""
        model.digest = model.translator.sha256
        self._resident[model] = None
        self._update_metrics()

    async def remove(self, model: LoadedModel) -> None:
        """Release a model that no request uses and none will use."""
        self._changes.set()
        async with self._loading:
            if model in self._resident:
                del self._resident[model]
                await self._release(model)
        self._retry_at.pop(model, None)
        self._update_metrics()

    def close(self) -> None:
        """End the load that runs."""
        if self._worker is not None:
            self._worker.cancel()

    def _are_ready(self, models: Collection[LoadedModel]) -> bool:
        return all(model.in_memory and model is not self._leaving for model in models)

    def _begin_use(self, models: Collection[LoadedModel]) -> None:
        for model in models:
            self._resident[model] = self._resident.pop(model)  # the last one was used last
            self._num_uses[model] += 1

    def _end_use(self, models: Collection[LoadedModel]) -> None:
        for model in models:
            self._num_uses[model] -= 1
            if not self._num_uses[model]:
                del self._num_uses[model]
                self._changes.set()

    async def _wait_for(self, models: Collection[LoadedModel], timeout: asyncio.Timeout) -> None:
        """Wait until models are in memory and count as used. A load that has begun goes on if the request ends."""
        num_bytes = sum(model.num_bytes for model in models)
        if num_bytes > self.max_bytes:
            raise LimitExceeded("texts", num_bytes, self.max_bytes, "bytes of the models that they need")
        retry_s = max(self._retry_at.get(model, 0.0) for model in models) - self._clock()
        if retry_s > 0:
            raise NotReady(retry_s, "load_failed")
        waiter = _Waiter(models, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            await waiter.ready
        except asyncio.CancelledError:
            if not waiter.ready.cancelled() and waiter.ready.exception() is None:
                self._end_use(models)
            self._changes.set()
            if timeout.expired():
                waiting = {model for other in self._waiters for model in other.models if not model.in_memory}
                raise NotReady(max(1.0, self._load_s * len(waiting)), "model_loading") from None
            raise

    async def _work(self) -> None:
        """Load models until no request waits."""
        while self._waiters:
            waiter = self._waiters[0]
            missing = [model for model in waiter.models if not model.in_memory]
            if missing and not waiter.ready.done():
                await self._load(missing[0], waiter.models)
            elif self._leaving in waiter.models:
                async with self._loading:  # the model leaves for one that an operator loads
                    pass
            for other in list(self._waiters):
                if not other.ready.done() and self._are_ready(other.models):
                    self._begin_use(other.models)
                    other.ready.set_result(None)
                if other.ready.done():
                    self._waiters.remove(other)

    def _waiting_for(self, model: LoadedModel) -> list[_Waiter]:
        return [waiter for waiter in self._waiters if model in waiter.models and not waiter.ready.done()]

    async def _load(self, model: LoadedModel, kept: Collection[LoadedModel]) -> None:
        """Load a model; an error is that of all requests that wait for it."""
        try:
            async with self._loading:
                await self.make_room(model.num_bytes, kept, lambda: bool(self._waiting_for(model)))
                if self._waiting_for(model):
                    await self._load_now(model)
        except (NotReady, Dropped) as error:
            failure: Exception = error
        except Exception:
            logger.exception("a model could not be loaded", extra={"fields": {"model": model.name}})
            self._retry_at[model] = self._clock() + RETRY_S
            self._metrics.model_load_failed()
            failure = NotReady(RETRY_S, "load_failed")
        else:
            return
        for waiter in self._waiting_for(model):
            waiter.ready.set_exception(failure)

    async def _load_now(self, model: LoadedModel) -> None:
        began = self._clock()
        assert model.bundle is not None
        translator = await self._load_bundle(model.bundle)
        manifest = translator.manifest
        is_same = (manifest.name, manifest.directions) == (model.name, model.manifest.directions)
        if not is_same or translator.sha256 != (model.digest or translator.sha256):
            raise ArtifactError(f"The bundle of {model.name} was replaced while the service ran; restart the service.")
        model.loaded = translator
        self.add(model)
        self._load_s = self._clock() - began
        self._metrics.model_loaded(self._load_s)
        fields = {"model": model.name, "bytes": model.num_bytes, "duration_ms": round(self._load_s * 1000)}
        logger.info("loaded on its first use", extra={"fields": fields})

    def _update_metrics(self) -> None:
        self._metrics.memory_changed(len(self._resident), sum(model.num_bytes for model in self._resident))
