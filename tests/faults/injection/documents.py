"""Documents: accepted, translated, edited, downloaded and deleted, with a key that counts them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import httpx

from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from app.documents import worker
from app.documents.document import DATABASE
from app.documents.file_worker import answer
from app.errors import SettingsError
from app.processes.worker import WorkerProcess
from tests.app.accounts.keyed import bearer, serving
from tests.faults.injection.scenario import (
    History,
    Refused,
    Scenario,
    Trial,
    check_databases,
    check_names,
    check_start_error,
    emptied,
)
from tests.faults.injection.shim import Shim

_T = TypeVar("_T")

FILE = "keys.sqlite"
FIELDS = {"source": "en", "target": "de", "decoding": "greedy"}
PARAGRAPHS = [f"This is paragraph {number}." for number in range(20)]  # two batches
TEXT = "\n\n".join(PARAGRAPHS)
EDIT = "EIN ANDERER SATZ."
FAULTS = {(507, "storage_full"), (503, "storage_unavailable"), (503, "accounts_unavailable")}

RETRY_S = 0.002
"""Seconds until the service tries a document again: it has no reason to wait here."""


def _exchange(process: WorkerProcess, job: Any, unpack: Callable[[Any], _T], is_cancelled: threading.Event) -> _T:
    """In the place of :meth:`WorkerProcess._exchange`: a run starts no process for its files."""
    return unpack(answer(*job))


def accepted(response: httpx.Response) -> Any:
    """The body of an answer.

    Raises:
        Refused: The disk is the reason why it is an error.
    """
    body = response.json() if "json" in response.headers["content-type"] else response.text
    if isinstance(body, dict) and (response.status_code, body.get("code")) in FAULTS:
        raise Refused(str(body["code"]))
    assert response.status_code in (200, 202), response.text
    return body


class Documents(Scenario):
    """Three documents: one is edited and deleted, one is deleted while it is active, and one is kept."""

    name = "documents"
    store = "documents (SQLite, write-ahead log; files)"

    def prepare(self, scratch: Path) -> None:
        """Create the key, and let files be read in this process."""
        vars(worker)["RETRY_S"] = RETRY_S
        setattr(WorkerProcess, "_exchange", _exchange)  # noqa: B010  (mypy)
        self._file = scratch / FILE
        with closing(KeyStore(self._file)) as store:
            self._headers = bearer(store.create("k", ("documents",), time.time())[1].text)
        self._warm_up(emptied(scratch / "warm"))

    def _warm_up(self, folder: Path) -> None:
        """Use and check the documents once, so that what is imported where it is used is imported before the forks."""
        self.seed(folder)
        trial = Trial(Shim(), folder.with_name("warm-notes"))
        self.run(folder, trial)
        self.check(folder, trial.history)

    def seed(self, folder: Path) -> None:
        """The key."""
        (folder / FILE).write_bytes(self._file.read_bytes())

    def run(self, folder: Path, trial: Trial) -> None:
        """Send the documents, and use them."""
        asyncio.run(self._run(folder, trial))

    async def _run(self, folder: Path, trial: Trial) -> None:
        try:
            async with serving(keys_db=folder / FILE, data_dir=folder / "data") as client:
                client.headers.update(self._headers)
                await self._use(client, trial)
        except SettingsError as error:
            check_start_error(error)

    async def _use(self, client: httpx.AsyncClient, trial: Trial) -> None:
        first = await self._add(client, trial, "add 1")
        if first is not None:
            await self._use_first(client, trial, first)
        second = await self._add(client, trial, "add 2")
        if second is not None:
            await self._send(client, trial, "cancel 2", "DELETE", second)
        if first is not None:
            await self._send(client, trial, "delete 1", "DELETE", first)
        trial.heal()
        third = await self._add(client, trial, "add 3")
        if third is not None:
            assert (await ended(client, third, trial))["status"] == "done"

    async def _use_first(self, client: httpx.AsyncClient, trial: Trial, id: str) -> None:
        assert (await ended(client, id, trial))["status"] == "done"
        await self._send(client, trial, "result 1", "GET", f"{id}/result")
        changes = {"sentences": [{"number": 1, "translation": EDIT}, {"number": 2, "confirmed": True}]}
        await self._send(client, trial, "edit 1", "PATCH", f"{id}/sentences", json=changes)
        await self._send(client, trial, "result 1 again", "GET", f"{id}/result")

    async def _add(self, client: httpx.AsyncClient, trial: Trial, step: str) -> str | None:
        headers = {"Idempotency-Key": step.replace(" ", "-")}
        return await self._send(client, trial, step, "POST", "", headers=headers, **form())

    async def _send(
        self, client: httpx.AsyncClient, trial: Trial, step: str, method: str, path: str, **fields: Any
    ) -> str | None:
        """Send a request; returns the id or the text of its answer."""
        begun: list[httpx.Response] = []

        def read() -> str:
            body = accepted(begun[0])
            return str(body.get("id", "")) if isinstance(body, dict) else str(body)

        trial.begin(step)
        begun.append(await client.request(method, f"/documents/{path}".rstrip("/"), **fields))
        return trial.end(step, read)

    def check(self, folder: Path, history: History) -> None:
        """Accepted documents are translated, edits are there, deleted documents are not, and all are counted once."""
        ids = {step: history.accepted[step] for step in history.accepted if step.startswith("add")}
        asyncio.run(self._check(folder, history, ids))
        kept = {f"{id}.{ending}" for id in self._kept for ending in ("source", "result")}
        check_names(folder / "data" / "documents", {DATABASE, *kept})
        check_names(folder / "data", {"documents"})
        check_databases(folder)

    async def _check(self, folder: Path, history: History, ids: dict[str, str]) -> None:
        async with serving(keys_db=folder / FILE, data_dir=folder / "data") as client:
            client.headers.update(self._headers)
            for step in [step for step in history.tried if step.startswith("add")]:
                # A repetition of the request gets the same document, or adds it once.
                response = await client.post(
                    "/documents", headers={"Idempotency-Key": step.replace(" ", "-")}, **form()
                )
                number = step[-1]
                is_deleted = f"delete {number}" in history.tried or f"cancel {number}" in history.tried
                added = accepted(response)["id"]
                assert is_deleted or step not in ids or added == ids[step], f"{step} is doubled"
            for step, id in ids.items():
                await self._check_document(client, history, step[-1], id)
            listed = accepted(await client.get("/documents"))["documents"]
            self._kept = [document["id"] for document in listed]
            for id in self._kept:
                document = await ended(client, id)
                assert document["status"] in ("done", "cancelled") or has_interrupted_file(document), document
        with closing(UsageStore(folder / FILE)) as store:
            usage = [(item.requests, item.characters) for item in store.all()]
        num_added = sum(step.startswith("add") for step in history.tried)
        assert usage == ([(num_added, num_added * sum(map(len, PARAGRAPHS)))] if num_added else []), usage

    async def _check_document(self, client: httpx.AsyncClient, history: History, number: str, id: str) -> None:
        delete = next((step for step in (f"delete {number}", f"cancel {number}") if step in history.tried), None)
        response = await client.get(f"/documents/{id}")
        if response.status_code == 404:
            assert delete is not None, f"document {number} is lost"
            return
        document = await ended(client, id)
        if delete is not None and delete in history.accepted:
            assert delete.startswith("cancel") and document["status"] in ("cancelled", "done"), document
        if document["status"] == "cancelled":
            assert delete is not None
            return
        if has_interrupted_file(document):
            assert f"result {number}" not in history.accepted
            return
        assert document["status"] == "done", document
        text = accepted(await client.get(f"/documents/{id}/result"))
        machine, edited = TEXT.upper(), TEXT.upper().replace(PARAGRAPHS[1].upper(), EDIT)
        may_be = {machine, edited} if number == "1" and "edit 1" in history.tried else {machine}
        if number == "1" and "edit 1" in history.accepted:
            may_be = {edited}
        assert text in may_be, text


def has_interrupted_file(document: dict[str, Any]) -> bool:
    """Whether a document has failed because the service ended while its file was read or written, as documented."""
    return bool(document["status"] == "failed" and document["problem"]["code"] == "document_too_complex")


def form() -> dict[str, Any]:
    """The form that adds a document."""
    return {"files": {"file": ("a.txt", TEXT)}, "data": FIELDS}


async def ended(client: httpx.AsyncClient, id: str, trial: Trial | None = None) -> dict[str, Any]:
    """A document that is no longer active; the disk works again after some time."""
    while True:
        response = await client.get(f"/documents/{id}")
        body: dict[str, Any] = response.json()
        if response.status_code == 200 and body["status"] not in ("queued", "running"):
            return body
        assert response.status_code == 200 or (response.status_code, body["code"]) in FAULTS, body
        if trial is not None:
            trial.heal_after_patience()
        await asyncio.sleep(0.01)
