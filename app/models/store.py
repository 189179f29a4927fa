"""Loading and unloading models, at the start and while the service runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from app.engine.bridge import EngineBridge, on_own_thread
from app.engine.capacity import BudgetFinder
from app.engine.engine import Dropped
from app.errors import (
    BundleRefused,
    InferenceFailed,
    ModelAlreadyLoaded,
    NotReady,
    ServiceError,
    SettingsError,
    UnknownModel,
)
from app.models.bundles import BundleSource, StoredBundle
from app.models.registry import LoadedModel, Registry
from app.models.residency import Residency
from app.settings import ENV_PREFIX
from app.telemetry.metrics import Metrics
from app.threads import SYSTEM, Threads
from model.errors import ModelError
from model.languages import LanguagePairs
from model.process.memory import give_back_freed_memory

if TYPE_CHECKING:
    from model.translator import Translator

logger = logging.getLogger("app.models")

_T = TypeVar("_T")

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
        metrics: The metrics to update.
        max_bytes: Most memory of models, which are then loaded on their first use; None if all stay in memory.
        clock: A monotonic clock, in seconds.
        threads: Where the threads that load come from.
    """

    def __init__(
        self,
        bundles: BundleSource,
        registry: Registry[LoadedModel],
        bridge: EngineBridge,
        budgets: BudgetFinder,
        warm_up_widths: Sequence[int],
        changed: Callable[[], None],
        metrics: Metrics,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        threads: Threads = SYSTEM,
    ) -> None:
        self._bundles = bundles
        self._registry = registry
        self._bridge = bridge
        self._budgets = budgets
        self._warm_up_widths = warm_up_widths
        self._changed = changed
        self._clock = clock
        self._threads = threads
        self._loading = asyncio.Lock()
        self._residency: Residency | None = None
        if max_bytes is not None:
            self._residency = Residency(max_bytes, self._loading, self._load, self._release, metrics, clock)

    async def load_configured(self, num_threads: int) -> None:
        """Load the configured bundles. No model serves before all are warmed up and the budget is determined.

        With a bound of memory only the first is loaded, and the others on their first use.

        Args:
            num_threads: Number of CPU threads of the engine.

        Raises:
            Exception: The error of a bundle that cannot be loaded.
            Dropped: The engine was stopped.
        """
        if self._residency is not None:
            await self._load_first(self._residency, num_threads)
            return

        def load() -> list[Translator]:
            translators = list(self._bundles.load_configured())
            for translator in translators:
                self._warm_up_on_cpu(translator)
            give_back_freed_memory()
            return translators

        async with self._loading:
            translators = await self._on_thread(load)
            await self._measure(translators, num_threads)
            for translator in translators:
                self._add(LoadedModel(translator))

    async def _load_first(self, residency: Residency, num_threads: int) -> None:
        """Load the first configured bundle, and describe the others by their manifests."""
        async with self._loading:
            bundles = await self._on_thread(self._bundles.describe_configured)
            for bundle in bundles:
                _check_size(bundle, residency.max_bytes)
            models = [LoadedModel(None, bundle=bundle) for bundle in bundles]
            models[0].loaded = await self._on_thread(partial(self._load_warm, bundles[0]))
            await self._measure([models[0].translator], num_threads)
            for model in models[1:]:
                self._bridge.budget = self._budgets.with_model(self._bridge.budget, model)
            for model in models:
                self._registry.add(model)
            residency.add(models[0])
            self._changed()
        fields = {
            "models": len(models),
            "pairs": self._registry.pairs.describe(),
            "bytes": sum(bundle.num_bytes for bundle in bundles),
            "max_bytes": residency.max_bytes,
        }
        logger.info("models are loaded on their first use", extra={"fields": fields})

    async def _measure(self, translators: Sequence[Translator], num_threads: int) -> None:
        """Determine the budget with models, and warm up those on a GPU."""
        await self._bridge.call(lambda: _use_threads(num_threads))
        on_gpu = [translator for translator in translators if translator.device != "cpu"]
        for translator in on_gpu:
            await self._on_engine(partial(translator.check_graphs, self._warm_up_widths))
        # Measured on the engine's thread, which will run the models.
        self._bridge.budget = await self._bridge.call(lambda: self._budgets.find(translators))
        for translator in on_gpu:
            await self._warm_up_on_gpu(translator)

    async def use(
        self, models: Collection[LoadedModel], timeout: asyncio.Timeout, models_in_use: contextlib.ExitStack
    ) -> None:
        """As :meth:`app.models.residency.Residency.use`; nothing is to be done if all models stay in memory.

        Args:
            models: The models of a request.
            timeout: Its deadline.
            models_in_use: Closed when it has ended.

        Raises:
            ServiceError: The models cannot be in memory in time.
            Dropped: The engine was stopped.
        """
        if self._residency is not None:
            await self._residency.use(models, timeout, models_in_use)

    def close(self) -> None:
        """End the loads of models that wait or run."""
        if self._residency is not None:
            self._residency.close()

    async def load(self, file: str, sha256: str | None) -> LoadedModel:
        """Load another bundle, warm it up and serve it. Concurrent loads run one after the other.

        Args:
            file: As for :meth:`app.models.bundles.BundleFiles.describe`.
            sha256: The digest it must have, or None.

        Raises:
            BundleNotFound: The bundle does not exist.
            BundleOutside: The bundle is outside the allowed folders.
            BundleRefused: The bundle cannot be served.
            ModelAlreadyLoaded: A model with its name is loaded.
            Dropped: The engine was stopped.
        """
        began = self._clock()
        async with self._loading:
            try:
                bundle = await self._on_thread(lambda: self._bundles.describe(file, sha256))
                if bundle.manifest.name in self._registry.names:
                    raise ModelAlreadyLoaded(bundle.manifest.name)
                if self._residency is not None:
                    _check_size(bundle, self._residency.max_bytes)
                    await self._residency.make_room(bundle.num_bytes)
                model = LoadedModel(await self._load(bundle))
            except (ServiceError, Dropped):
                raise
            except (ModelError, SettingsError) as error:
                raise BundleRefused(str(error)) from error
            except Exception as error:
                logger.exception("a bundle could not be loaded", extra={"fields": {"file": file, "reason": str(error)}})
                raise BundleRefused("The bundle could not be loaded or run; the log has the reason.") from error
            self._bridge.budget = self._budgets.with_model(self._bridge.budget, model)
            if self._residency is not None:
                model.bundle = bundle
                self._residency.add(model)
            self._add(model, file=file, duration_ms=round((self._clock() - began) * 1000))
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
        began = self._clock()
        model = self._registry.remove(name)
        if model is None:
            raise UnknownModel(name, self._registry.names)
        self._changed()
        logger.info("unloading", extra={"fields": {"model": name, "requests": len(model.requests)}})
        finished = await model.requests.finish(timeout_s, NotReady(1.0, "unloaded"))
        await model.requests.wait_idle()
        if model.digest is not None:
            self._bridge.forget(model.digest)
        if self._residency is not None:
            await self._residency.remove(model)
        else:
            await self._release(model)
        duration_s = self._clock() - began
        fields = {"model": name, "duration_ms": round(duration_s * 1000), "requests_given_up": not finished}
        logger.info("unloaded", extra={"fields": fields})
        return duration_s

    async def _load(self, bundle: StoredBundle) -> Translator:
        """Load a bundle and warm it up while other models decode."""
        translator = await self._on_thread(partial(self._load_warm, bundle))
        if translator.device != "cpu":
            await self._on_engine(partial(translator.check_graphs, self._warm_up_widths))
            await self._warm_up_on_gpu(translator)
        return translator

    def _load_warm(self, bundle: StoredBundle) -> Translator:
        translator = self._bundles.load(bundle)
        self._warm_up_on_cpu(translator)
        give_back_freed_memory()
        return translator

    async def _release(self, model: LoadedModel) -> None:
        """Release the memory of a model that no request uses."""
        device, translator = model.device, model.translator
        model.loaded = None
        with contextlib.suppress(InferenceFailed):  # it is in the log
            await self._bridge.call(translator.drop_graphs)
        del translator  # the last references are the engine's, which it drops in its next turn
        await self._bridge.call(lambda: None)
        with contextlib.suppress(NotReady, InferenceFailed):  # without a thread, memory goes back with the next model
            if device == "cpu":
                await self._on_thread(give_back_freed_memory)
            else:
                await self._bridge.call(lambda: give_back_freed_memory(device))

    async def _on_thread(self, run: Callable[[], _T]) -> _T:
        return await on_own_thread(run, _THREAD, self._threads)

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


def _check_size(bundle: StoredBundle, max_bytes: int) -> None:
    """Refuse a bundle that does not fit into memory alone.

    Raises:
        SettingsError: It does not.
    """
    if bundle.num_bytes > max_bytes:
        raise SettingsError(
            f"{ENV_PREFIX}MODEL_MEMORY is {max_bytes}, and {bundle.manifest.name} takes {bundle.num_bytes} bytes: "
            "raise the bound, or leave the model out"
        )


def _use_threads(num_threads: int) -> None:
    """Set the number of torch's threads for the calling thread; loading on another thread does not change it."""
    import torch

    torch.set_num_threads(num_threads)
