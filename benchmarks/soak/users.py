"""The users of a soak: their keys, the usage that they count, and the connections they share."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from app.accounts.keys import Scope
from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from app.documents.store import DocumentStore
from app.engine.caller import Priority
from app.memories.store import CORRECTIONS, MemoryBounds, MemoryStore

ALL_SCOPES: tuple[Scope, ...] = ("translate", "attention", "documents")

IDEMPOTENCY_KEY = "Idempotency-Key"
DEEPL = "DeepL-Auth-Key"
"""The scheme of DeepL's keys in the header ``Authorization``."""

PAIR = {"source": "en", "target": "de"}
DEEPL_PAIR = {"source_lang": "EN", "target_lang": "DE"}

Item: TypeAlias = Any
"""The input of a use: the fields of a request, a file, texts."""

BUSY = (0, 429, 503, 504)
"""Statuses of a busy service; 0 if it did not answer."""

ATTEMPTS = 30
"""Times that a request is sent until it is answered."""


@dataclass(eq=False)
class User:
    """A caller with a key.

    Args:
        name: The name of the key.
        token: The key; empty for none.
        key_id: Its public part.
        characters: Characters of the texts for which this user got an answer.
        requests: Answered requests that count.
        corrections: The sentences that this user has corrected, and how. A copy of a user has corrected none.
        correcting: A lock for each sentence, held while it is corrected.
    """

    name: str
    token: str = ""
    key_id: str = ""
    characters: int = 0
    requests: int = 0
    corrections: dict[str, str] = field(default_factory=dict, init=False)
    correcting: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock), init=False)

    def received(self, *texts: str) -> None:
        """Note an answer that counts, with the texts that were translated for it."""
        self.received_characters(sum(map(len, texts)))

    def received_characters(self, characters: int) -> None:
        """Note an answer that counts."""
        self.characters += characters
        self.requests += 1


def make_users(path: Path) -> dict[str, User]:
    """Make a file of keys; returns the users by the names of their keys.

    Args:
        path: The file to make.
    """
    store, now = KeyStore(path), time.time()
    users: dict[str, User] = {}

    def make(name: str, scopes: Sequence[Scope] = ALL_SCOPES, **limits: Any) -> str:
        key, token = store.create(name, tuple(scopes), now, **limits)
        users[name] = User(name, token.text, key.id)
        return key.id

    make("shop")
    make("office")
    make("editor")
    make("nightly", ["translate"], priority=Priority.BULK)
    make("reader", ["attention"])
    make("few requests", ["translate"], requests_per_minute=30)
    make("few sentences", ["translate"], concurrent_sentences=2)
    make("few characters", ["translate"], characters_per_month=5_000)
    make("expired", expires_at=now - 1.0)
    store.revoke(make("revoked"), now)
    store.close()
    return users


def usage_errors(path: Path, users: Sequence[User]) -> list[str]:
    """What the file has counted otherwise than the users, and reservations that were left behind.

    Args:
        path: The file of keys.
        users: The users.
    """
    store = UsageStore(path)
    characters: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    for usage in store.all():
        characters[usage.key] += usage.characters
        requests[usage.key] += usage.requests
    store.close()
    errors = [
        f"{user.name}: {characters[user.key_id]} characters and {requests[user.key_id]} requests were counted, "
        f"{user.characters} and {user.requests} were answered"
        for user in users
        if (characters[user.key_id], requests[user.key_id]) != (user.characters, user.requests)
    ]
    connection = sqlite3.connect(path)
    (reserved,) = connection.execute("SELECT count(*) FROM charges WHERE NOT settled").fetchone()
    connection.close()
    return errors + ([f"{reserved} reservations were left behind"] if reserved else [])


def storage_errors(folder: Path, users: Sequence[User]) -> list[str]:
    """Corrections that are stored otherwise than they were answered, and what was deleted and is still stored.

    Args:
        folder: The folder for data of the service, which has ended.
        users: The users.
    """
    memories = MemoryStore(folder, MemoryBounds(0, 0, 0))
    errors: list[str] = []
    for user in users:
        stored: dict[str, str] = {}
        for memory in memories.all(user.key_id):
            if memory.purpose != CORRECTIONS:
                errors.append(f"{user.name}: a memory of {memory.num_units} units was left behind")
                continue
            units = memories.units(user.key_id, memory.id, limit=memory.num_units)
            stored |= {unit.source: unit.target for unit in units}
        errors += [
            f"{user.name}: the correction of {text!r} is {stored.get(text)!r}, and {correction!r} was answered"
            for text, correction in user.corrections.items()
            if stored.get(text) != correction
        ]
    memories.close()
    documents = DocumentStore(folder / "documents")
    if number := documents.count():
        errors.append(f"{number} documents were left behind")
    documents.close()
    return errors


class Refused(Exception):
    """A request was refused, or got no answer.

    Args:
        status: The status; 0 if there was no answer.
        about: The answer, or why there was none.
    """

    def __init__(self, status: int, about: str) -> None:
        super().__init__(f"{status} {about[:300]}")
        self.status = status
        self.about = about


@dataclass(eq=False)
class Service:
    """A running service, as its users reach it.

    Args:
        client: Persistent connections to it.
        users: The users by name.
        statuses: How often each status was answered.
    """

    client: httpx.AsyncClient
    users: dict[str, User]
    statuses: Counter[int] = field(default_factory=Counter)

    async def send(
        self, user: User, method: str, path: str, expected: int = 200, scheme: str = "Bearer", **request: Any
    ) -> httpx.Response:
        """Send a request with a user's key.

        Args:
            user: The user.
            method: The method of HTTP.
            path: The path.
            expected: The status that is no error.
            scheme: How the key is sent in the header ``Authorization``.
            request: Further arguments of httpx.

        Raises:
            Refused: Another status was answered, or none.
        """
        headers = {"Authorization": f"{scheme} {user.token}"} if user.token else {}
        try:
            answer = await self.client.request(method, path, headers=headers | request.pop("headers", {}), **request)
        except httpx.HTTPError as error:
            self.statuses[0] += 1
            raise Refused(0, f"no answer: {error!r}") from error
        self.statuses[answer.status_code] += 1
        if answer.status_code != expected:
            raise Refused(answer.status_code, answer.text)
        return answer

    async def send_until_answered(self, user: User, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request that has an id of its client, again and again while the service is busy.

        The answer shows that it was counted: an earlier attempt may have been counted without an answer.

        Args:
            user: The user.
            method: The method of HTTP.
            path: The path.
            request: Further arguments of httpx.

        Raises:
            Refused: It is wrong, or was never answered.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return await self.send(user, method, path, **request)
            except Refused as refused:
                if refused.status not in BUSY:
                    raise
            await asyncio.sleep(1.0)
        return await self.send(user, method, path, **request)
