"""The wrong requests of a soak, with the right refusal of each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from benchmarks.soak.users import DEEPL, PAIR, Service, User


@dataclass(frozen=True)
class Wrong:
    """A wrong request.

    Args:
        user: Name of the sender; empty for a caller without a key.
        method: The method of HTTP.
        path: The path.
        request: Further arguments of httpx.
        status: The right status.
        code: The right code of the problem; empty if the protocol has none.
        scheme: How the key is sent.
    """

    user: str
    method: str
    path: str
    request: dict[str, Any]
    status: int
    code: str
    scheme: str = "Bearer"


_TEXT = {"text": "Hello.", **PAIR}

WRONG = [
    Wrong("", "POST", "/translate", {"json": _TEXT}, 401, "key_required"),
    Wrong("expired", "POST", "/translate", {"json": _TEXT}, 401, "invalid_key"),
    Wrong("revoked", "POST", "/translate", {"json": _TEXT}, 401, "invalid_key"),
    Wrong("reader", "POST", "/translate", {"json": _TEXT}, 403, "scope_missing"),
    Wrong("nightly", "POST", "/attention", {"json": _TEXT}, 403, "scope_missing"),
    Wrong("shop", "POST", "/translate", {"json": {**_TEXT, "beam_size": 0}}, 422, "invalid_request"),
    Wrong("shop", "POST", "/translate", {"json": {**_TEXT, "target": "tlh"}}, 422, "unsupported_pair"),
    Wrong("shop", "POST", "/translate", {"json": {**_TEXT, "text": []}}, 422, "invalid_request"),
    Wrong("shop", "POST", "/translate", {"json": {**_TEXT, "memory": "0123"}}, 404, "memory_not_found"),
    Wrong("shop", "POST", "/translate", {"json": {**_TEXT, "glossary": "0123"}}, 404, "glossary_not_found"),
    Wrong("reader", "POST", "/memories", {"json": {"name": "a", "source": "en"}}, 403, "scope_missing"),
    Wrong("shop", "POST", "/attention", {"content": b"{"}, 415, "unsupported_media_type"),
    Wrong(
        "shop",
        "POST",
        "/attention",
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        400,
        "malformed_body",
    ),
    Wrong("shop", "GET", "/documents/0123", {}, 404, "document_not_found"),
    Wrong(
        "shop", "POST", "/documents", {"files": {"file": ("a.exe", b"MZ")}, "data": PAIR}, 415, "unsupported_document"
    ),
    Wrong("shop", "POST", "/libretranslate/translate", {"json": {"q": "Hello."}}, 400, ""),
    Wrong("", "POST", "/libretranslate/translate", {"json": {"q": "Hello.", **PAIR}}, 400, ""),
    Wrong("shop", "POST", "/v2/translate", {"json": {"text": ["Hello."]}}, 400, "", DEEPL),
    Wrong("revoked", "POST", "/v2/translate", {"json": {"text": ["Hello."], "target_lang": "DE"}}, 403, "", DEEPL),
    Wrong("", "POST", "/mcp", {"json": {}}, 401, "key_required"),
    Wrong("shop", "GET", "/documents/0123/sentences", {}, 404, "document_not_found"),
    Wrong("shop", "GET", "/no/such/path", {}, 404, "not_found"),
]


async def wrong_request(service: Service, user: User, item: Wrong, rng: random.Random) -> object:
    """A request that is refused and not counted."""
    sender = service.users[item.user] if item.user else User("a caller without a key")
    answer = await service.send(sender, item.method, item.path, item.status, item.scheme, **dict(item.request))
    return answer.json().get("code", "") if item.code else ""


async def expected_code(service: Service, user: User, item: Wrong, rng: random.Random) -> object:
    """The right code of a wrong request."""
    return item.code
