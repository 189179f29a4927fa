"""LibreTranslate's routes at the root, for clients without a configurable path (``VERSO_COMPAT=libretranslate``)."""

from __future__ import annotations

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import MalformedBody
from app.http.compat.libretranslate.paths import PREFIX, SHARED
from app.http.compat.parameters import KEYLESS_BYTES
from app.http.request_body import parse_json

_PATHS = frozenset({"/detect", "/languages", "/frontend/settings", "/health", "/spec", "/suggest", "/translate_file"})
"""Paths whose requests are all of the protocol, but for those to a shared path."""


class LibreTranslateAtRoot:
    """Sends requests at the root that are LibreTranslate's to its routes, by rewriting their path.

    Native routes stay as they are, but for ``/health``. A request to a path of both is LibreTranslate's if its body is
    not JSON, or an object with the field ``q``. Only the beginning of a long body is read before the route checks the
    caller's key.

    Args:
        app: The application inside.
        max_body_bytes: The largest body that any route accepts.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self._peek_bytes = min(max_body_bytes, KEYLESS_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            path = scope["path"].removeprefix(root)
            belongs = path in _PATHS or path.startswith("/download_file/")
            if path in SHARED and scope["method"] == "POST":
                message = await self._read(receive)
                belongs = _is_libretranslate(Headers(scope=scope).get("content-type", ""), message)
                receive = _after(message, receive)
            elif (path, scope["method"]) == ("/", "POST"):
                belongs = True
            if belongs:
                scope["path"] = f"{root}{PREFIX}{path}"
        await self.app(scope, receive, send)

    async def _read(self, receive: Receive) -> Message:
        """One message with the body or the beginning of a long one; or the disconnect of the client."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if not more or len(body) > self._peek_bytes:
                return {"type": "http.request", "body": bytes(body), "more_body": more}


def _is_libretranslate(content_type: str, message: Message) -> bool:
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return True
    body = message.get("body", b"")
    try:
        if message.get("more_body", False):
            content = from_json(body, allow_partial="trailing-strings")
        else:
            content = parse_json(body)
    except (MalformedBody, ValueError):
        return True
    return isinstance(content, dict) and "q" in content


def _after(message: Message, receive: Receive) -> Receive:
    """A ``receive`` that returns a message that was received already, and then the following ones."""
    received = [message]

    async def receive_again() -> Message:
        return received.pop() if received else await receive()

    return receive_again
