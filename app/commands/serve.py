"""The command ``serve``, which ``python -m app`` runs too: read the settings, serve, and end in an orderly way."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from app.commands.draining_server import SIGNALS, DrainingServer
from app.errors import SettingsError
from app.settings import ENV_PREFIX, Settings, load_settings
from app.telemetry.logs import configure_logging
from model.process.allocator import share_freed_memory

if TYPE_CHECKING:
    from app.models.bundles import BundleSource
    from app.serving.service import TranslationService

logger = logging.getLogger("app")

_LAST_BYTES_S = 5
"""Seconds clients have to read their answers after the last translation is done."""


def _settings_help() -> str:
    """Every setting with its default and its sentence."""
    lines = ["settings, read from the environment:"]
    for name, setting in Settings.model_fields.items():
        default = "not set" if setting.default is None else str(setting.default)
        lines.append(f"  {ENV_PREFIX}{name.upper()}  (default: {default})")
        sentence = " ".join((setting.description or "").split())
        lines.extend(textwrap.wrap(sentence, width=96, initial_indent="      ", subsequent_indent="      "))
    lines += ["", "for example:", f"  {ENV_PREFIX}PORT=9000 {ENV_PREFIX}DEVICE=cpu verso serve"]
    return "\n".join(lines)


EPILOG = _settings_help()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command; it has no options, as everything is a setting."""
    parser.description = (
        "Serve translations over HTTP: POST /translate and /attention, GET /models, /livez, /readyz, /metrics, "
        "and /docs, where everything can be tried in a browser."
    )


def run(_: argparse.Namespace) -> int:
    """Serve."""
    return serve(os.environ)


def main(
    arguments: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    bundles: BundleSource | None = None,
) -> int:
    """``python -m app``.

    Args:
        arguments: Command line, without the program's name; that of the process unless given.
        environ: Environment the settings are read from; that of the process unless given.
        bundles: Gives translators instead of the files the settings name.

    Returns:
        The exit code, as :func:`serve` gives it.
    """
    parser = argparse.ArgumentParser(
        prog="python -m app",
        epilog=EPILOG.replace("verso serve", "python -m app"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.parse_args(arguments)
    return serve(os.environ if environ is None else environ, bundles)


def serve(environ: Mapping[str, str], bundles: BundleSource | None = None) -> int:
    """Serve until told to stop.

    Args:
        environ: Environment the settings are read from.
        bundles: Gives translators instead of the files the settings name.

    Returns:
        The exit code: 0 after an orderly end, 1 if the process could not start or its engine has given up.
    """
    for number in SIGNALS:
        signal.signal(number, _leave)  # until the server is up there is nothing to drain
    try:
        settings = load_settings(environ)
        listener = _listen(settings.host, settings.port)
    except (SettingsError, OSError) as error:
        return _cannot_start(error)
    with listener:
        return _serve(settings, listener, bundles)


def _serve(settings: Settings, listener: socket.socket, bundles: BundleSource | None) -> int:
    # Here and not above: --help and a wrong setting answer without waiting for FastAPI.
    from app.http.connections import expect_progress, server_config
    from app.main import create_app

    configure_logging(settings.log_level)
    share_freed_memory()
    try:
        app = create_app(settings, bundles)
    except SettingsError as error:  # the database of the keys, the folder for documents, or traces
        return _cannot_start(error)
    service: TranslationService = app.state.service
    expect_progress(listener, settings.client_timeout_s)
    config = server_config(app, settings, "on", _LAST_BYTES_S)
    server = DrainingServer(config, service, settings.drain_timeout_s, prepare=app.openapi)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    logger.info("listening, and loading the models", extra={"fields": {"address": address, "pid": os.getpid()}})
    server.run(sockets=[listener])
    if service.failure is not None:
        return _cannot_start(service.failure)
    has_given_up = service.state == "failed"
    if has_given_up:
        print("verso: ended: the engine has stopped working; the log has the reason", file=sys.stderr, flush=True)
    else:
        logger.info("stopped")
    if any(thread.daemon for thread in threading.enumerate()):
        # A model is being loaded, or a step hangs. The interpreter would end the thread in C++ code, which aborts.
        logging.shutdown()
        os._exit(int(has_given_up))
    return int(has_given_up)


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
        listener.listen()  # so that a client that connects before the server runs waits for it, and is not refused
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
