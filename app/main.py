"""The application: settings in, an ASGI application out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.accounts.rates import RequestRates
from app.documents.service import DocumentService
from app.errors import ServiceError
from app.glossaries.store import GlossaryStore, OwnerBounds
from app.http.access import AccountHeaders
from app.http.compat import deepl, libretranslate
from app.http.middleware import BodyBudget, DisconnectWatcher, RequestRecorder, RootPath
from app.http.openapi import describe_on_request
from app.http.origins import ANY, LOOPBACK, OriginGuard, is_loopback
from app.http.problems import answer_known_error, answer_routing_error
from app.http.route_table import Application, RouteTable
from app.http.routes import admin, attention, docs, documents, health, metrics, models, page, translate
from app.http.stored_terms import TermSearches
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

_DESCRIPTION = """\
Translates texts with a Transformer that was trained from scratch, and shows its attention.

Every error is an RFC 9457 problem with a stable `code`; routes in the protocol of another service have errors of their
own. Every answer has an `X-Request-ID`: the one sent, or a new one; it identifies the request in the logs. Neither
texts nor translations are ever logged.
"""

_TAGS = [
    {"name": "translation", "description": "Texts in, translations out."},
    {"name": "documents", "description": "Files in, translated files out, in the background."},
    {"name": "attention", "description": "The weights behind a translation."},
    {"name": "LibreTranslate", "description": "The protocol of LibreTranslate, for its clients; errors are its own."},
    {"name": "DeepL", "description": "The protocol of DeepL, for its clients; errors are its own."},
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
        bundles: Loads the translators; from the files the settings name unless given.
        connect: Gives a service whose models run in other processes, from the metrics of this one. Unless given, they
            run in this process. Other models cannot be loaded into that service by a request.

    Returns:
        The application; ``app.state`` holds its ``settings``, ``metrics``, ``service``, ``documents`` and ``accounts``.

    Raises:
        SettingsError: Traces are configured and OpenTelemetry is not installed, or the keys' database or the folder for
            documents cannot be used.
    """
    app_metrics = Metrics()
    tracing = None if settings.otlp_endpoint is None else Tracing(settings.otlp_endpoint, installed_version())
    service: TranslationBackend[Any]
    if connect is None:
        service = TranslationService(settings, app_metrics, bundles or BundleFiles(settings))
    else:
        service = connect(app_metrics)
    if settings.data_dir is not None:
        check_data_folder(settings.data_dir, make=True)
    glossaries = GlossaryStore(
        settings.data_dir, OwnerBounds(settings.max_glossaries_per_key, settings.max_glossary_characters_per_key)
    )
    term_searches = TermSearches(settings.deadline_s)
    document_service = DocumentService(settings, service)
    accounts = _accounts(settings)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stops:  # what fails to start or to stop does not keep the others from stopping
            if accounts is not None:
                stops.callback(accounts.close)
            if tracing is not None:
                stops.push_async_callback(asyncio.to_thread, tracing.close)
            stops.callback(glossaries.close)
            stops.callback(term_searches.close)
            await service.start()
            stops.push_async_callback(service.stop)
            await document_service.start()
            stops.push_async_callback(document_service.stop)
            yield

    has_admin = connect is None and (settings.admin_token is not None or settings.keys_db is not None)
    app = Application(
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
        lifespan=lifespan,
        exception_handlers={
            HTTPException: answer_routing_error,
            ServiceError: answer_known_error,
            ModelError: answer_known_error,
        },
    )
    app.state.settings = settings
    app.state.metrics = app_metrics
    app.state.accounts = accounts
    if has_admin:
        app.state.admin_guesses = RequestRates(time.monotonic)
    app.state.service = service
    app.state.glossaries = glossaries
    app.state.term_searches = term_searches
    app.state.deepl = deepl.DeepLState()
    app.state.error_shapes = {
        libretranslate.PREFIX: libretranslate.error_shape,
        **dict.fromkeys(deepl.PREFIXES, deepl.error_answer),
    }
    app.state.documents = document_service
    native_routers = [one.router for one in (translate, attention, documents, models, health, metrics, docs, page)]
    for router in (*native_routers, libretranslate.router, deepl.router, *([admin.router] if has_admin else ())):
        app.include_router(router)
    app.mount("/page", page.page_files(), name="page")
    app.mount("/static", StaticFiles(directory=docs.STATIC), name="static")
    at_root = settings.compat == "libretranslate"
    describe_on_request(app, settings, [libretranslate.describe_shared_path] if at_root else [])
    # From the innermost to the outermost.
    stack: ASGIApp = RouteTable(app.routed(), native_routers)
    stack = DisconnectWatcher(stack)
    if accounts is not None:
        stack = AccountHeaders(stack)
    if at_root:
        stack = libretranslate.LibreTranslateAtRoot(stack, settings.max_body_bytes)
    stack = BodyBudget(stack, settings.max_received_bytes)  # around all that reads bodies
    stack = OriginGuard(stack, _hosts(settings, is_local=connect is None), settings.origins)
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
    stack = RequestRecorder(stack, app_metrics, lambda: app.state.service.state == "draining", tracing)
    if settings.trusted_proxies != NO_PROXIES:
        stack = ProxyHeadersMiddleware(stack, settings.trusted_proxies)  # type: ignore[arg-type, assignment]
    app.middleware_stack = stack
    return app


def _hosts(settings: Settings, is_local: bool) -> tuple[str, ...]:
    """The hosts that are answered for.

    Args:
        settings: The configuration.
        is_local: Whether the service listens at ``VERSO_HOST``; with Ray Serve it does not.
    """
    if settings.hosts:
        return settings.hosts
    return (LOOPBACK,) if is_local and is_loopback(settings.host.lower()) else (ANY,)


def _accounts(settings: Settings) -> Accounts | None:
    """The accounts, or None if neither keys nor limits by address are on.

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
