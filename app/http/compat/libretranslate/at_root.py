"""LibreTranslate's routes at the root, for clients that take no path (``VERSO_COMPAT=libretranslate``)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import MalformedBody
from app.http.compat.libretranslate.paths import PREFIX, SHARED
from app.http.request_body import parse_json

_PATHS = frozenset({"/detect", "/languages", "/frontend/settings", "/health", "/spec", "/suggest", "/translate_file"})
"""Paths that no native route has."""


class LibreTranslateAtRoot:
    """Sends requests at the root that are LibreTranslate's to its routes, by rewriting their path.

    Native routes stay as they are. ``POST /translate`` is LibreTranslate's if its body is no JSON, or an object with
    the field ``q``.

    Args:
        app: The application inside.
        max_body_bytes: The largest body that is read here. The one who answers a larger one refuses it; that is the
            native route if it is declared to be JSON.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            path = scope["path"].removeprefix(root)
            belongs = path in _PATHS or path.startswith("/download_file/")
            if path == SHARED and scope["method"] == "POST":
                message = await self._read(receive)
                belongs = self._is_theirs(Headers(scope=scope).get("content-type", ""), message.get("body", b""))
                receive = _after(message, receive)
            elif (path, scope["method"]) in (("/", "POST"), (SHARED, "OPTIONS")):
                belongs = True
            if belongs:
                scope["path"] = f"{root}{PREFIX}{path}"
        await self.app(scope, receive, send)

    async def _read(self, receive: Receive) -> Message:
        """One message with the body, or with the beginning of one that is too large; or that the client has left."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if not more or len(body) > self.max_body_bytes:
                return {"type": "http.request", "body": bytes(body), "more_body": more}

    def _is_theirs(self, content_type: str, body: bytes) -> bool:
        if content_type.partition(";")[0].strip().lower() != "application/json":
            return True
        if len(body) > self.max_body_bytes:
            return False
        try:
            content = parse_json(body)
        except MalformedBody:
            return True
        return isinstance(content, dict) and "q" in content


def _after(message: Message, receive: Receive) -> Receive:
    """A ``receive`` that gives a message that has been received already, and then the next ones."""
    received = [message]

    async def receive_again() -> Message:
        return received.pop() if received else await receive()

    return receive_again
