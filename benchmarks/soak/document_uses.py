"""The uses of a soak that send documents."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import random
import zipfile
from typing import Any

import httpx

from benchmarks.soak.users import DEEPL, DEEPL_PAIR, PAIR, Item, Refused, Service, User
from benchmarks.soak.uses import DOCUMENT_PATIENCE_S, call_tool, digest

LOOK_S = 0.25
"""Interval at which a client asks whether a document is done, in seconds."""


async def document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A document is sent, waited for, fetched and deleted."""
    translated = await send_document(service, user, item)
    path = f"/documents/{translated['id']}"
    result = await service.send(user, "GET", f"{path}/result")
    await service.send(user, "DELETE", path)
    return [translated["status"], content_of(item["name"], result.content)]


async def send_document(service: Service, user: User, item: Item, **fields: str) -> dict[str, Any]:
    """Send a document and wait until it has ended; returns its description.

    Args:
        service: The service.
        user: The sender.
        item: The file, its characters, and its fields if it has some.
        fields: Further fields of the form.
    """
    data = {**PAIR, **item.get("fields", {}), **fields}
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": data}
    id = (await service.send(user, "POST", "/documents", 202, **form)).json()["id"]
    user.received_characters(item["characters"])
    while True:
        description: dict[str, Any] = (await service.send(user, "GET", f"/documents/{id}")).json()
        if description["status"] not in ("queued", "running"):
            return description
        await asyncio.sleep(LOOK_S)


async def assistant_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A document as an assistant sends it: its result is in the answer, and nothing is left behind."""
    content = base64.b64encode(item["content"]).decode()
    result = await call_tool(service, user, "translate_document", filename=item["name"], content=content, **PAIR)
    user.received_characters(item["characters"])
    return [result["filename"], content_of(item["name"], base64.b64decode(result["content"]))]


async def cancelled_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """A document is sent, cancelled and deleted."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": PAIR}
    id = (await service.send(user, "POST", "/documents", 202, **form)).json()["id"]
    user.received_characters(item["characters"])
    await asyncio.sleep(rng.uniform(0.0, 1.0))
    await service.send(user, "DELETE", f"/documents/{id}")
    with contextlib.suppress(Refused):  # it was done, and the first request has deleted it
        await service.send(user, "DELETE", f"/documents/{id}")
    answer = await service.send(user, "GET", f"/documents/{id}", 404)
    return None if answer.json()["code"] == "document_not_found" else answer.text


async def deepl_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """DeepL's ``/v2/document``: a document is deleted when it is fetched."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": DEEPL_PAIR}
    created = (await service.send(user, "POST", "/v2/document", scheme=DEEPL, **form)).json()
    user.received_characters(item["characters"])
    path, key = f"/v2/document/{created['document_id']}", {"document_key": created["document_key"]}
    while True:
        status = (await service.send(user, "POST", path, scheme=DEEPL, json=key)).json()
        if status["status"] not in ("queued", "translating"):
            break
        await asyncio.sleep(LOOK_S)
    result = await service.send(user, "POST", f"{path}/result", scheme=DEEPL, json=key)
    return [status["status"], status["billed_characters"], content_of(item["name"], result.content)]


async def libretranslate_document(service: Service, user: User, item: Item, rng: random.Random) -> object:
    """LibreTranslate's ``/translate_file``: the client waits; the file is fetched without a key."""
    form: dict[str, Any] = {"files": {"file": (item["name"], item["content"])}, "data": PAIR}
    answer = await service.send(user, "POST", "/libretranslate/translate_file", timeout=DOCUMENT_PATIENCE_S, **form)
    url = answer.json()["translatedFileUrl"]
    user.received_characters(item["characters"])
    result = await service.send(User("anybody"), "GET", httpx.URL(url).path)
    await service.send(user, "DELETE", f"/documents/{url.rpartition('/')[2].partition('.')[0]}")
    return content_of(item["name"], result.content)


def content_of(name: str, content: bytes) -> str:
    """What is in a file; an archive may have times in it."""
    if not name.endswith(".docx"):
        return content.decode()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return digest(b"".join(name.encode() + archive.read(name) for name in archive.namelist()))
