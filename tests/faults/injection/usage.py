"""Usage of keys, by requests that are counted."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import httpx

from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from app.errors import SettingsError
from tests.app.accounts.keyed import bearer, serving
from tests.faults.injection.scenario import (
    History,
    Refused,
    Scenario,
    Trial,
    check_databases,
    check_names,
    check_start_error,
)

FILE = "keys.sqlite"
TEXT = "ten signs."
FIELDS = {"source": "en", "target": "de", "decoding": "greedy"}


class Requests(Scenario):
    """Requests with keys: one without a bound, one with a quota, and one that repeats its requests."""

    name = "usage"
    store = "usage (SQLite, write-ahead log)"

    def prepare(self, scratch: Path) -> None:
        """Create the keys in a file that each run copies."""
        self._file = scratch / FILE
        with closing(KeyStore(self._file)) as store:
            self._tokens = {
                kind: store.create(kind, ("translate",), time.time(), characters_per_month=quota)[1]
                for kind, quota in (("plain", None), ("quota", 100_000), ("repeated", None))
            }
        asyncio.run(self._warm_up(scratch))

    async def _warm_up(self, scratch: Path) -> None:
        copy = scratch / "warm.sqlite"
        copy.write_bytes(self._file.read_bytes())
        async with serving(keys_db=copy) as client:
            (await self._send(client, "plain")).raise_for_status()

    def seed(self, folder: Path) -> None:
        """The keys."""
        (folder / FILE).write_bytes(self._file.read_bytes())

    def run(self, folder: Path, trial: Trial) -> None:
        """Send requests."""
        # A step is the kind of its key and a number.
        asyncio.run(self._run(folder, trial))

    async def _run(self, folder: Path, trial: Trial) -> None:
        steps = ["plain 1", "repeated 1", "quota 1", "repeated 2", "quota 2", "plain 2"]
        try:
            async with serving(keys_db=folder / FILE) as client:
                for step in steps:
                    await self._attempt(client, trial, step)
                trial.heal()
                for step in ("plain 3", "quota 3", "repeated 3"):
                    await self._attempt(client, trial, step)
        except SettingsError as error:
            check_start_error(error)

    async def _attempt(self, client: httpx.AsyncClient, trial: Trial, step: str) -> None:
        trial.begin(step)
        response = await self._send(client, step)
        trial.end(step, lambda: counted(response))

    async def _send(self, client: httpx.AsyncClient, step: str) -> httpx.Response:
        kind, _, _ = step.partition(" ")
        again = {"idempotency_key": step.replace(" ", "-")} if kind == "repeated" else {}
        headers = bearer(self._tokens[kind].text, **again)
        return await client.post("/translate", json={"text": TEXT, **FIELDS}, headers=headers)

    def check(self, folder: Path, history: History) -> None:
        """Every answer is counted once; a repeated request, too; one whose answer was lost may be counted.

        So may the requests that were refused last: what was written and could not be synced is undone by the next
        write, and there is none if the disk fails until the process ends.
        """
        asyncio.run(self._repeat(folder, history))
        used = self._used(folder)
        unanswered = {step for step in history.tried if step not in history.accepted and step not in history.refused}
        refused_last = set(takewhile(lambda step: step not in history.accepted, reversed(history.tried)))
        for kind in ("plain", "quota"):
            tried = [step for step in history.tried if step.startswith(kind)]
            accepted = [step for step in tried if step in history.accepted]
            unknown = [step for step in tried if step in unanswered or step in refused_last]
            assert len(accepted) <= used[kind] <= len(accepted) + len(unknown), (kind, used, history)
        repeated = [step for step in history.tried if step.startswith("repeated")]
        assert used["repeated"] == len(repeated), (used, history)
        check_databases(folder)
        check_names(folder, {FILE})

    async def _repeat(self, folder: Path, history: History) -> None:
        """Repeat what was not answered, and one request that was."""
        async with serving(keys_db=folder / FILE) as client:
            for step in history.tried:
                if step.startswith("repeated"):
                    counted(await self._send(client, step))

    def _used(self, folder: Path) -> dict[str, int]:
        kinds = {token.id: kind for kind, token in self._tokens.items()}
        with closing(UsageStore(folder / FILE)) as store:
            usage = store.all()
        assert all(item.characters == item.requests * len(TEXT) for item in usage), usage
        used = dict.fromkeys(kinds.values(), 0)
        for item in usage:
            used[kinds[item.key]] += item.requests
        return used


def counted(response: httpx.Response) -> str:
    """The translation in an answer.

    Raises:
        Refused: The file of the usage cannot be used.
    """
    body = response.json()
    if response.status_code == 503 and body["code"] == "accounts_unavailable":
        raise Refused(body["code"])
    assert response.status_code == 200, response.text
    text: str = body["translations"][0]["text"]
    assert text == TEXT.upper()
    return text
