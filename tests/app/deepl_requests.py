"""Requests as DeepL's clients send them, and a check that every error has the form that they read."""

from __future__ import annotations

import re
from typing import Any

import httpx

AUTH = {"Authorization": "DeepL-Auth-Key any"}


async def ask(client: httpx.AsyncClient, method: str, path: str, **arguments: Any) -> httpx.Response:
    """Send a request with a key."""
    headers = {**AUTH, **arguments.pop("headers", {})}
    return await client.request(method, path, headers=headers, **arguments)


async def translate(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    """Send a translation request in JSON; into German unless the fields say otherwise."""
    return await ask(client, "POST", "/v2/translate", json={"target_lang": "DE", **fields})


def texts(response: httpx.Response) -> list[str]:
    """The translations of an answer."""
    assert response.status_code == 200, response.text
    return [translation["text"] for translation in response.json()["translations"]]


def message(response: httpx.Response, status: int) -> str:
    """The message of an error: the only field, a string, beside the id of the request in a header."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert re.fullmatch("[0-9a-f]{32}", response.headers["x-trace-id"])
    body = response.json()
    assert list(body) == ["message"]
    assert isinstance(body["message"], str) and body["message"]
    return str(body["message"])
