"""Loading and unloading models, at the start and while the service runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.engine.bridge import EngineBridge, on_own_thread
from app.engine.capacity import BudgetFinder
from app.errors import BundleRefused, ModelAlreadyLoaded, NotReady, ServiceError, UnknownModel
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
    """Brings models into the registry and out of it. Belongs to the event loop; the work is done on other threads.

    Args:
        bundles: Loads translators.
        registry: Of the loaded models.
        bridge: To the engine that runs them.
        budgets: Finds how much may decode at once.
        warm_up_widths: Beam widths to prepare a model for, before it serves.
        changed: Called when a model has been loaded or begins to be unloaded.
    """

    def __init__(
        self,
        bundles: BundleSource,
        registry: Registry,
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
        """Load what the settings name; nothing serves before all of it is warm and the budget is found.

        Args:
            num_threads: Processor threads of the engine.

        Raises:
            Exception: Whatever a bundle was refused with.
            Dropped: The engine was stopped meanwhile.
        """

        def load() -> list[Translator]:
            translators = list(self._bundles.load_configured())
            for translator in translators:
                translator.warm_up(self._warm_up_widths)
            give_back_freed_memory()
            return translators

        async with self._loading:
            translators = await on_own_thread(load, _THREAD)
            await self._bridge.call(lambda: _use_threads(num_threads))
            # On the engine's thread, whose threads and memory it is measured with.
            self._bridge.budget = await self._bridge.call(lambda: self._budgets.find(translators))
            for translator in translators:
                self._add(LoadedModel(translator))

    async def load(self, file: str, sha256: str | None) -> LoadedModel:
        """Load one more bundle, and serve it once it is warm. Concurrent loads run one after the other.

        Args:
            file: As for :meth:`app.models.bundles.BundleSource.load`.
            sha256: The digest it must have, where one is wanted.

        Raises:
            BundleNotFound: It is not there.
            BundleOutside: It is where no bundle may be loaded from.
            BundleRefused: It cannot be served.
            ModelAlreadyLoaded: A model of its name is.
        """

        def load() -> Translator:
            translator = self._bundles.load(file, sha256)
            translator.warm_up(self._warm_up_widths)
            give_back_freed_memory()
            return translator

        began = time.perf_counter()
        async with self._loading:
            try:
                name = await on_own_thread(lambda: self._bundles.name_of(file), _THREAD)
                if name in self._registry.names:
                    raise ModelAlreadyLoaded(name)
                model = LoadedModel(await on_own_thread(load, _THREAD))
            except ServiceError:
                raise
            except ModelError as error:
                raise BundleRefused(str(error)) from error
            except Exception as error:
                logger.exception("a bundle could not be loaded", extra={"fields": {"file": file, "reason": str(error)}})
                raise BundleRefused("It could not be loaded or not be run; the log has the reason.") from error
            self._bridge.budget = self._budgets.with_model(self._bridge.budget, model.translator)
            self._add(model, file=file, duration_ms=round((time.perf_counter() - began) * 1000))
        return model

    async def unload(self, name: str, timeout_s: float) -> float:
        """Unload a model: new requests no longer find it, those that use it finish first.

        Args:
            name: Its name.
            timeout_s: How long they may take; those left are refused.

        Returns:
            Seconds it took.

        Raises:
            UnknownModel: It is not loaded.
        """
        began = time.perf_counter()
        model = self._registry.remove(name)
        if model is None:
            raise UnknownModel(name, self._registry.names)
        self._changed()
        logger.info("unloading", extra={"fields": {"model": name, "requests": len(model.requests)}})
        finished = await model.requests.finish(timeout_s, NotReady(1.0, "unloaded"))
        await model.requests.ended()
        self._bridge.forget(model.translator.sha256)
        device = model.device
        del model  # nothing refers to it any more once the engine has taken its next turn
        await self._bridge.call(lambda: None)
        await on_own_thread(lambda: give_back_freed_memory(device), _THREAD)
        duration_s = time.perf_counter() - began
        fields = {"model": name, "duration_ms": round(duration_s * 1000), "requests_given_up": not finished}
        logger.info("unloaded", extra={"fields": fields})
        return duration_s

    def _add(self, model: LoadedModel, **fields: object) -> None:
        shadowed = self._registry.add(model)
        self._changed()
        known = {"model": model.name, "pairs": model.manifest.directions.describe(), "device": model.device}
        logger.info("loaded", extra={"fields": {**known, **fields}})
        if shadowed != LanguagePairs():
            logger.info(
                "pairs of this model are never used: a model loaded before has them",
                extra={"fields": {"model": model.name, "pairs": shadowed.describe()}},
            )


def _use_threads(num_threads: int) -> None:
    """Set the engine thread's number of threads, which loading a bundle on another thread does not change."""
    import torch

    torch.set_num_threads(num_threads)
