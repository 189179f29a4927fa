"""The application: settings in, an ASGI application out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.accounts.rates import RequestRates
from app.documents.service import DocumentService
from app.errors import ServiceError, SettingsError
from app.glossaries.store import GlossaryStore, OwnerBounds
from app.http.access import AccountHeaders
from app.http.compat import deepl, libretranslate
from app.http.middleware import BodyBudget, DisconnectWatcher, RequestRecorder, RootPath
from app.http.openapi import describe_on_request
from app.http.origins import ANY, LOOPBACK, OriginGuard, is_loopback
from app.http.pictures import Pictures
from app.http.problems import answer_known_error, answer_routing_error
from app.http.route_table import Application, RouteTable
from app.http.routes import (
    admin,
    attention,
    detect,
    docs,
    documents,
    health,
    memories,
    metrics,
    models,
    page,
    sentences,
    translate,
)
from app.http.stored_terms import TermSearches
from app.memories.service import MemoryService
from app.models.bundles import BundleFiles, BundleSource
from app.serving.backend import TranslationBackend
from app.serving.service import TranslationService
from app.settings import NO_PROXIES, Settings
from app.storage import check_data_folder
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracing
from app.version import installed_version
from model.errors import ModelError

if TYPE_CHECKING:
    from app.accounts.service import Accounts
    from app.assistants.route import AssistantRoute

_DESCRIPTION = """\
Translates texts with a Transformer that was trained from scratch, and shows its attention.

Every error is an RFC 9457 problem with a stable `code`; routes in the protocol of another service have its errors.
Every answer has an `X-Request-ID`, the client's or a new one, which identifies the request in the logs. Texts and
translations are never logged.
"""

_TAGS = [
    {"name": "translation", "description": "Translation of texts."},
    {"name": "documents", "description": "Translation of documents, in the background."},
    {"name": "translation memories", "description": "Stored translations of sentences."},
    {"name": "attention", "description": "Attention weights of translations."},
    {"name": "LibreTranslate", "description": "LibreTranslate's protocol and errors, for its clients."},
    {"name": "DeepL", "description": "DeepL's protocol and errors, for its clients."},
    {"name": "operation", "description": "For load balancers and monitoring."},
]

_ADMIN_TAG = {"name": "administration", "description": "For the operator, with the admin token."}


def create_app(
    settings: Settings,
    bundles: BundleSource | None = None,
    connect: Callable[[Metrics], TranslationBackend[Any]] | None = None,
) -> Application:
    """The service as an ASGI application.

    The models are loaded in the background once the application has started; until then ``/readyz`` answers 503.

    Args:
        settings: The configuration.
        bundles: Loads the translators; by default from the files that the settings name.
        connect: Makes a service whose models run in other processes, from the metrics of this process. By default they
            run in this process; only then can requests load and unload models.

    Returns:
        The application; ``app.state`` has its ``settings``, ``metrics``, ``service``, ``documents`` and ``accounts``.

    Raises:
        SettingsError: Traces are configured and OpenTelemetry is not installed, or the keys' database or the folder for
            documents cannot be used.
    """
    is_local = connect is None
    has_admin = is_local and (settings.admin_token is not None or settings.keys_db is not None)
    at_root = settings.compat == "libretranslate"
    app = _application(has_admin)
    _set_state(app, settings, bundles, connect)
    if has_admin:
        app.state.admin_guesses = RequestRates(time.monotonic)
    native = (translate, attention, detect, documents, sentences, memories, models, health, metrics, docs, page)
    native_routers = [module.router for module in native]
    for router in (*native_routers, libretranslate.router, deepl.router, *([admin.router] if has_admin else ())):
        app.include_router(router)
    if settings.mcp == "on":
        app.state.assistants = _assistants(app, settings)
        app.router.routes.append(app.state.assistants.route)
    app.mount("/page", page.page_files(), name="page")
    app.mount("/static", StaticFiles(directory=docs.STATIC), name="static")
    describe_on_request(app, settings, [libretranslate.describe_shared_paths] if at_root else [])
    app.middleware_stack = _with_middleware(RouteTable(app.routed(), native_routers), app, settings, is_local)
    return app


def _application(has_admin: bool) -> Application:
    """The application without routes.

    Args:
        has_admin: Whether it will have the routes of the operator.
    """
    return Application(
        title="Verso",
        summary="A self-hosted translation service.",
        description=_DESCRIPTION,
        version=installed_version(),
        servers=[{"url": "."}],  # relative to the document, so that it is right behind any proxy
        openapi_tags=[*_TAGS, _ADMIN_TAG] if has_admin else _TAGS,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=_lifespan,
        exception_handlers={
            HTTPException: answer_routing_error,
            ServiceError: answer_known_error,
            ModelError: answer_known_error,
        },
    )


def _set_state(
    app: Application,
    settings: Settings,
    bundles: BundleSource | None,
    connect: Callable[[Metrics], TranslationBackend[Any]] | None,
) -> None:
    """Make what routes and middleware share, as :func:`create_app` describes its arguments and errors."""
    state = app.state
    state.settings = settings
    state.metrics = Metrics()
    state.tracing = None if settings.otlp_endpoint is None else Tracing(settings.otlp_endpoint, installed_version())
    if connect is None:
        state.service = TranslationService(settings, state.metrics, bundles or BundleFiles(settings))
    else:
        state.service = connect(state.metrics)
    if settings.data_dir is not None:
        check_data_folder(settings.data_dir, make=True)
    bounds = OwnerBounds(settings.max_glossaries_per_key, settings.max_glossary_characters_per_key)
    state.glossaries = GlossaryStore(settings.data_dir, bounds)
    state.term_searches = TermSearches(settings.deadline_s)
    state.memories = MemoryService(settings)
    state.documents = DocumentService(settings, state.service, memory_of=state.memories.chosen)
    state.pictures = Pictures()
    state.accounts = _accounts(settings)
    state.deepl = deepl.DeepLState()
    state.error_shapes = {
        libretranslate.PREFIX: libretranslate.error_shape,
        **dict.fromkeys(deepl.PREFIXES, deepl.error_answer),
    }


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    async with AsyncExitStack() as stops:  # a part that fails to start or stop does not keep the others from stopping
        if state.accounts is not None:
            stops.callback(state.accounts.close)
        if state.tracing is not None:
            stops.push_async_callback(asyncio.to_thread, state.tracing.close)
        stops.callback(state.glossaries.close)
        stops.callback(state.term_searches.close)
        stops.push_async_callback(state.memories.close)
        stops.push_async_callback(state.pictures.close)
        await state.service.start()
        stops.push_async_callback(state.service.stop)
        await state.documents.start()
        stops.push_async_callback(state.documents.stop)
        if state.settings.mcp == "on":
            await stops.enter_async_context(state.assistants.running())
        yield


def _with_middleware(stack: ASGIApp, app: Application, settings: Settings, is_local: bool) -> ASGIApp:
    """The routes inside the middleware.

    Args:
        stack: The routes.
        app: The application, with its state.
        settings: The configuration.
        is_local: Whether the service listens at ``VERSO_HOST``; with Ray Serve it does not.
    """
    # From the innermost to the outermost.
    stack = DisconnectWatcher(stack)
    if app.state.accounts is not None:
        stack = AccountHeaders(stack)
    if settings.compat == "libretranslate":
        stack = libretranslate.LibreTranslateAtRoot(stack, settings.max_body_bytes)
    stack = BodyBudget(stack, settings.max_received_bytes)  # outside of all that reads bodies
    stack = OriginGuard(stack, _hosts(settings, is_local), settings.origins)
    if settings.root_path:
        stack = RootPath(stack, settings.root_path)
    if settings.origins:
        stack = CORSMiddleware(
            stack,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Retry-After", "X-Request-ID", "RateLimit", "RateLimit-Policy"],
        )
    state = app.state
    stack = RequestRecorder(stack, state.metrics, lambda: state.service.state == "draining", state.tracing)
    if settings.trusted_proxies != NO_PROXIES:
        stack = ProxyHeadersMiddleware(stack, settings.trusted_proxies)  # type: ignore[arg-type, assignment]
    return stack


def _hosts(settings: Settings, is_local: bool) -> tuple[str, ...]:
    """The hosts whose requests are answered."""
    if settings.hosts:
        return settings.hosts
    return (LOOPBACK,) if is_local and is_loopback(settings.host.lower()) else (ANY,)


def _assistants(app: Application, settings: Settings) -> AssistantRoute:
    """The tools for assistants.

    Raises:
        SettingsError: The packages they need are not installed.
    """
    try:
        # Imported here: a service without them starts without the protocol's packages.
        from app.assistants.route import AssistantRoute
    except ImportError as error:
        raise SettingsError(
            f"VERSO_MCP is 'on', which needs the extra mcp ({error.name} is missing): "
            "pip install 'verso-translate[mcp]'"
        ) from error
    return AssistantRoute(app, settings)


def _accounts(settings: Settings) -> Accounts | None:
    """The accounts; None if neither keys nor limits by address are configured.

    Raises:
        SettingsError: The database of the keys cannot be used.
    """
    if settings.keys_db is None and settings.address_requests_per_minute is None:
        return None
    # Imported here: a service without accounts starts without SQLite.
    from app.accounts.service import Accounts

    return Accounts(
        settings.keys_db,
        allows_anonymous=settings.anonymous == "on",
        address_requests_per_minute=settings.address_requests_per_minute,
        longest_request_s=settings.deadline_s,
    )
