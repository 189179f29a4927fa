"""The application: settings in, an ASGI application out."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from app.errors import ServiceError
from app.metrics import Metrics
from app.middleware import DisconnectWatcher, RequestRecorder, RootPath
from app.openapi import install_openapi
from app.problems import answer_known_error, answer_routing_error
from app.routes import attention, docs, health, metrics, models, translate
from app.service import TranslationService
from app.settings import Settings
from model.errors import ModelError

if TYPE_CHECKING:
    from model.translator import Translator

logger = logging.getLogger("app.main")

_DESCRIPTION = """\
Translates texts with a Transformer that was trained from scratch, and shows what it looks at while it does.

Every error is an RFC 9457 problem with a stable `code`. Send `X-Request-ID` to find a request in the logs again;
it is returned, or made where there is none. Neither texts nor translations are ever logged.
"""

_TAGS = [
    {"name": "translation", "description": "Texts in, translations out."},
    {"name": "attention", "description": "The weights behind a translation."},
    {"name": "operation", "description": "For load balancers and monitoring."},
]


def create_app(settings: Settings, load: Callable[[], Translator] | None = None) -> FastAPI:
    """The service as an ASGI application.

    The model is loaded in the background once the application starts; until then ``/readyz`` says no.

    Args:
        settings: Everything that can be configured.
        load: Gives the loaded translator; called once, on the thread that owns the model. Unless given, it is the
            bundle the settings name.

    Returns:
        The application; ``app.state`` holds its ``settings``, ``metrics`` and ``service``.
    """
    app_metrics = Metrics()
    service = TranslationService(settings, app_metrics, load or (lambda: load_translator(settings)))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="Verso",
        summary="A self-hosted translation service.",
        description=_DESCRIPTION,
        version=_version(),
        openapi_tags=_TAGS,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: answer_routing_error,
            ServiceError: answer_known_error,
            ModelError: answer_known_error,
        },
    )
    app.state.settings = settings
    app.state.metrics = app_metrics
    app.state.service = service
    for module in (translate, attention, models, health, metrics, docs):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=docs.STATIC), name="static")
    install_openapi(app, settings)
    # The one added last is the outermost.
    app.add_middleware(DisconnectWatcher)
    app.add_middleware(RootPath, root_path=settings.root_path)
    app.add_middleware(RequestRecorder, metrics=app_metrics, is_draining=lambda: app.state.service.state == "draining")
    return app


def load_translator(settings: Settings) -> Translator:
    """Load the translator the settings name, building its bundle from the shipped weights where they say ``auto``.

    Args:
        settings: Names model, device, number of threads and, where wanted, the bundle's checksum.

    Raises:
        ArtifactError: The bundle is missing, damaged, foreign, or has another checksum.
        DeviceError: The device is not there or cannot run the bundle's precision.
    """
    # Here and not above: importing torch takes seconds, which neither --help nor a wrong setting should cost.
    from model.bundle import resolve_device
    from model.export import build_pretrained
    from model.translator import Translator

    device = resolve_device(settings.device)
    if settings.model == "auto":
        path = build_pretrained(device, settings.cache_dir, report=logger.info)
    else:
        path = Path(settings.model)
    return Translator.load(path, device=device, num_threads=settings.threads, sha256=settings.model_sha256)


def _version() -> str:
    """The version installed, or 0 where the source is run without being installed."""
    try:
        return importlib.metadata.version("verso")
    except importlib.metadata.PackageNotFoundError:
        return "0"
