"""Loading and unloading models, at the start and while the service runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.engine.bridge import EngineBridge, on_own_thread
from app.engine.capacity import BudgetFinder
from app.engine.engine import Dropped
from app.errors import (
    BundleRefused,
    InferenceFailed,
    ModelAlreadyLoaded,
    NotReady,
    ServiceError,
    UnknownModel,
)
from app.models.bundles import BundleSource
from app.models.registry import LoadedModel, Registry
from model.errors import ModelError
from model.languages import LanguagePairs
from model.process.memory import give_back_freed_memory

if TYPE_CHECKING:
    from model.translator import Translator

logger = logging.getLogger("app.models")

_THREAD = "verso-loader"


class ModelStore:
    """Loads models into the registry and unloads them. Belongs to the event loop; other threads do the work.

    On a GPU, everything that captures, synchronises or frees memory runs on the engine's thread, in small parts between
    the steps of other models: a capture fails if another thread synchronises meanwhile.

    Args:
        bundles: Loads translators.
        registry: The loaded models.
        bridge: The engine that runs them.
        budgets: Determines the budget of decoding.
        warm_up_widths: Beam widths for which a model is warmed up before it serves.
        changed: Called when a model has been loaded and when unloading begins.
    """

    def __init__(
        self,
        bundles: BundleSource,
        registry: Registry[LoadedModel],
        bridge: EngineBridge,
        budgets: BudgetFinder,
        warm_up_widths: Sequence[int],
        changed: Callable[[], None],
    ) -> None:
        self._bundles = bundles
        self._registry = registry
        self._bridge = bridge
        self._budgets = budgets
        self._warm_up_widths = warm_up_widths
        self._changed = changed
        self._loading = asyncio.Lock()

    async def load_configured(self, num_threads: int) -> None:
        """Load the configured bundles. No model serves before all are warmed up and the budget is determined.

        Args:
            num_threads: Number of CPU threads of the engine.

        Raises:
            Exception: The error of a bundle that cannot be loaded.
            Dropped: The engine was stopped.
        """

        def load() -> list[Translator]:
            translators = list(self._bundles.load_configured())
            for translator in translators:
                self._warm_up_on_cpu(translator)
            give_back_freed_memory()
            return translators

        async with self._loading:
            translators = await on_own_thread(load, _THREAD)
            await self._bridge.call(lambda: _use_threads(num_threads))
            on_gpu = [translator for translator in translators if translator.device != "cpu"]
            for translator in on_gpu:
                await self._on_engine(partial(translator.check_graphs, self._warm_up_widths))
            # Measured on the engine's thread, which will run the models.
            self._bridge.budget = await self._bridge.call(lambda: self._budgets.find(translators))
            for translator in on_gpu:
                await self._warm_up_on_gpu(translator)
            for translator in translators:
                self._add(LoadedModel(translator))

    async def load(self, file: str, sha256: str | None) -> LoadedModel:
        """Load another bundle, warm it up and serve it. Concurrent loads run one after the other.

        Args:
            file: As for :meth:`app.models.bundles.BundleSource.load`.
            sha256: The digest it must have, or None.

        Raises:
            BundleNotFound: The bundle does not exist.
            BundleOutside: The bundle is outside the allowed folders.
            BundleRefused: The bundle cannot be served.
            ModelAlreadyLoaded: A model with its name is loaded.
            Dropped: The engine was stopped.
        """

        def load() -> Translator:
            translator = self._bundles.load(file, sha256)
            self._warm_up_on_cpu(translator)
            give_back_freed_memory()
            return translator

        began = time.perf_counter()
        async with self._loading:
            try:
                name = await on_own_thread(lambda: self._bundles.name_of(file), _THREAD)
                if name in self._registry.names:
                    raise ModelAlreadyLoaded(name)
                model = LoadedModel(await on_own_thread(load, _THREAD))
                if model.device != "cpu":
                    await self._on_engine(partial(model.translator.check_graphs, self._warm_up_widths))
                    await self._warm_up_on_gpu(model.translator)
            except (ServiceError, Dropped):
                raise
            except ModelError as error:
                raise BundleRefused(str(error)) from error
            except Exception as error:
                logger.exception("a bundle could not be loaded", extra={"fields": {"file": file, "reason": str(error)}})
                raise BundleRefused("The bundle could not be loaded or run; the log has the reason.") from error
            self._bridge.budget = self._budgets.with_model(self._bridge.budget, model.translator)
            self._add(model, file=file, duration_ms=round((time.perf_counter() - began) * 1000))
        return model

    async def unload(self, name: str, timeout_s: float) -> float:
        """Unload a model: it gets no new requests, and is removed when those that use it have finished.

        Args:
            name: Its name.
            timeout_s: Seconds that they may take; the remaining requests are refused.

        Returns:
            The duration in seconds.

        Raises:
            UnknownModel: No model with this name is loaded.
        """
        began = time.perf_counter()
        model = self._registry.remove(name)
        if model is None:
            raise UnknownModel(name, self._registry.names)
        self._changed()
        logger.info("unloading", extra={"fields": {"model": name, "requests": len(model.requests)}})
        finished = await model.requests.finish(timeout_s, NotReady(1.0, "unloaded"))
        await model.requests.wait_idle()
        self._bridge.forget(model.translator.sha256)
        device = model.device
        with contextlib.suppress(InferenceFailed):  # it is in the log
            await self._bridge.call(model.translator.drop_graphs)
        del model  # the last references are the engine's, which it drops in its next turn
        await self._bridge.call(lambda: None)
        with contextlib.suppress(NotReady, InferenceFailed):  # without a thread, memory goes back with the next model
            if device == "cpu":
                await on_own_thread(give_back_freed_memory, _THREAD)
            else:
                await self._bridge.call(lambda: give_back_freed_memory(device))
        duration_s = time.perf_counter() - began
        fields = {"model": name, "duration_ms": round(duration_s * 1000), "requests_given_up": not finished}
        logger.info("unloaded", extra={"fields": fields})
        return duration_s

    def _warm_up_on_cpu(self, translator: Translator) -> None:
        if translator.device == "cpu":
            translator.warm_up(self._warm_up_widths)

    async def _warm_up_on_gpu(self, translator: Translator) -> None:
        for part in translator.warm_up_parts(self._warm_up_widths):
            await self._on_engine(part)

    async def _on_engine(self, work: Callable[[], object]) -> None:
        """Run a function on the engine's thread; its own error is raised."""
        failures: list[Exception] = []

        def attempt() -> None:
            try:
                work()
            except Exception as error:
                failures.append(error)
                raise

        try:
            await self._bridge.call(attempt)
        except InferenceFailed:
            if failures:
                raise failures.pop() from None
            raise

    def _add(self, model: LoadedModel, **fields: object) -> None:
        shadowed = self._registry.add(model)
        self._changed()
        log_fields = {"model": model.name, "pairs": model.manifest.directions.describe(), "device": model.device}
        logger.info("loaded", extra={"fields": {**log_fields, **fields}})
        if shadowed != LanguagePairs():
            logger.info(
                "pairs of this model are never used: an earlier model serves them",
                extra={"fields": {"model": model.name, "pairs": shadowed.describe()}},
            )


def _use_threads(num_threads: int) -> None:
    """Set the number of torch's threads for the calling thread; loading on another thread does not change it."""
    import torch

    torch.set_num_threads(num_threads)
