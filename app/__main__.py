"""``python -m app``: read the settings, serve, and leave in good order.

On SIGTERM or SIGINT readiness goes false and new requests are refused while the socket still listens, so that a
load balancer reads the refusal instead of running into a closed port; running requests finish, within
``VERSO_DRAIN_TIMEOUT_S``; then the process ends with exit code 0. A second signal ends it at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from app.errors import SettingsError
from app.serving.service import TranslationService
from app.settings import ENV_PREFIX, Settings, load_settings
from app.telemetry.logs import configure_logging
from model.process.allocator import share_freed_memory

if TYPE_CHECKING:
    from app.models.bundles import BundleSource

logger = logging.getLogger("app")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_LAST_BYTES_S = 5
"""Seconds that clients get, after the last translation is done, to take their answers off our hands."""


class DrainingServer(uvicorn.Server):
    """uvicorn, with another way to end: drain first, close the port afterwards, and exit with 0.

    Args:
        config: How to serve.
        service: Drained on the first signal; a failure to load it ends the server.
        drain_timeout_s: How long running requests may take to finish.
    """

    def __init__(self, config: uvicorn.Config, service: TranslationService, drain_timeout_s: float) -> None:
        super().__init__(config)
        self.service = service
        self.drain_timeout_s = drain_timeout_s
        self._tasks: list[asyncio.Task[None]] = []
        self._draining = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals over while serving; unlike uvicorn's own, this does not raise them again at the end."""
        loop = asyncio.get_running_loop()

        def on_signal(number: int, _: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._stop, signal.Signals(number).name)

        before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and watch the model load."""
        await super().startup(sockets)
        self._tasks.append(asyncio.create_task(self._watch_load()))

    def _stop(self, signal_name: str) -> None:
        if self._draining:
            logger.warning("ending at once", extra={"fields": {"signal": signal_name}})
            self.force_exit = self.should_exit = True
            return
        self._draining = True
        self._tasks.append(asyncio.create_task(self._drain(signal_name)))

    async def _drain(self, signal_name: str) -> None:
        fields = {"signal": signal_name, "timeout_s": self.drain_timeout_s}
        logger.info("draining: new requests are refused", extra={"fields": fields})
        if await self.service.drain(self.drain_timeout_s):
            logger.info("drained: every request was answered")
        else:
            requests = list(self.server_state.tasks)
            logger.warning(
                "running requests are given up: the time to drain is over",
                extra={"fields": {"requests": len(requests)}},
            )
            for request in requests:
                request.cancel()
        self.should_exit = True

    async def _watch_load(self) -> None:
        await self.service.wait_loaded()
        if self.service.state == "failed":
            self.should_exit = True
        elif self.service.state == "ready":
            logger.info("ready", extra={"fields": {"models": [model.name for model in self.service.models]}})


def main(
    arguments: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    bundles: BundleSource | None = None,
) -> int:
    """Serve until told to stop.

    Args:
        arguments: Command line, without the program's name; that of the process unless given.
        environ: Environment the settings are read from; that of the process unless given.
        bundles: Gives translators instead of the files the settings name.

    Returns:
        The exit code: 0 after an orderly end, 1 when the process could not start.
    """
    _parser().parse_args(arguments)
    for number in _SIGNALS:
        signal.signal(number, _leave)  # until the server is up there is nothing to drain
    try:
        settings = load_settings(os.environ if environ is None else environ)
        listener = _listen(settings.host, settings.port)
    except (SettingsError, OSError) as error:
        return _cannot_start(error)
    with listener:
        return _serve(settings, listener, bundles)


def _serve(settings: Settings, listener: socket.socket, bundles: BundleSource | None) -> int:
    # Here and not above: --help and a wrong setting answer without waiting for FastAPI.
    from app.main import create_app

    configure_logging(settings.log_level)
    share_freed_memory()
    app = create_app(settings, bundles)
    service: TranslationService = app.state.service
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=_LAST_BYTES_S,
    )
    server = DrainingServer(config, service, settings.drain_timeout_s)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    logger.info("listening, and loading the models", extra={"fields": {"address": address, "pid": os.getpid()}})
    server.run(sockets=[listener])
    if service.failure is not None:
        return _cannot_start(service.failure)
    logger.info("stopped")
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        OSError: The address is taken, not ours, or not allowed; the message names it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(f"cannot listen on host {host!r} ({error.strerror}); set {ENV_PREFIX}HOST.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # so that whoever connects before the server runs waits for it, and is not refused
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {host}, port {port} ({error.strerror}); set {ENV_PREFIX}HOST or {ENV_PREFIX}PORT."
        ) from error
    return listener


def _cannot_start(error: BaseException) -> int:
    """Say on one line of stderr why there is no service, and give the exit code for it."""
    logger.debug("cannot start", exc_info=error)
    reason = " ".join(str(error).split()) or type(error).__name__
    print(f"verso: cannot start: {reason}", file=sys.stderr, flush=True)
    return 1


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(0)


def _parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog="python -m app",
        description=(
            "Serve translations over HTTP: POST /translate and /attention, GET /models, /livez, /readyz, /metrics, "
            "and /docs, where everything can be tried in a browser."
        ),
        epilog=_settings_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _settings_help() -> str:
    """Every setting with its default and its sentence."""
    lines = ["settings, read from the environment:"]
    for name, setting in Settings.model_fields.items():
        default = "not set" if setting.default is None else str(setting.default)
        lines.append(f"  {ENV_PREFIX}{name.upper()}  (default: {default})")
        sentence = " ".join((setting.description or "").split())
        lines.extend(textwrap.wrap(sentence, width=96, initial_indent="      ", subsequent_indent="      "))
    lines += ["", "for example:", f"  {ENV_PREFIX}PORT=9000 {ENV_PREFIX}DEVICE=cpu python -m app"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
