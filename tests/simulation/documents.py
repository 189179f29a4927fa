"""Documents in a simulation: what stands in for the process that reads files, and clients that wait for a document."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from app.documents.document import DATABASE
from app.documents.file_process import FileProcess
from app.documents.file_worker import answer
from app.documents.service import DocumentService
from app.documents.store import DocumentStore
from app.errors import DocumentTooComplex, NotReady
from app.processes.worker import WorkerProcess
from tests.simulation.app_scenario import CONFIGURED, FileFault, Upload
from tests.simulation.disk import WriteAheadLog
from tests.simulation.ledger import require
from tests.simulation.scenario import FaultDue, Jump, Request, Restart
from tests.simulation.stand_in import BREAKS, FAILS

if TYPE_CHECKING:
    from tests.simulation.app_process import AppProcess
    from tests.simulation.world import World

_T = TypeVar("_T")

FILE_S = (0.01, 0.3)
"""Seconds that reading or writing a file takes."""

AGAIN_S = 0.5
"""Seconds until a client tries again that got no answer."""

SHORT_S = 1.0
"""Deadlines in which a paragraph may fail while others are translated."""

GIVES_UP = ("invalid_key", "key_required")
"""Codes after which a client asks no more: its key has expired or was revoked."""

BRACKET = "boundary-of-the-form"


@dataclass(frozen=True)
class Call(Request):
    """A request about a document.

    Args:
        method: The method.
        path: The path.
        key: The index of the key.
    """

    method: str
    path: str
    key: int


class FilesInThread(FileProcess):
    """Reads and writes files in a simulated thread instead of a process.

    Args:
        process: The simulated process.
    """

    def __init__(self, process: AppProcess) -> None:
        super().__init__(process.threads)
        self._worker = _WorkerInThread(process)


class _WorkerInThread(WorkerProcess):
    def __init__(self, process: AppProcess) -> None:
        super().__init__("app.documents.file_worker", "verso-documents-file", process.threads)
        self._simulated = process

    def _exchange(self, job: Any, unpack: Callable[[Any], _T], is_cancelled: Any) -> _T:
        kernel = self._simulated.world.kernel
        kernel.sleep(kernel.rng.choice(FILE_S))
        faults = self._simulated.disk.file_faults
        if is_cancelled.is_set():
            raise DocumentTooComplex
        if faults:
            raise DocumentTooComplex if faults.pop() == "dies" else NotReady(5.0, "no_process")
        return unpack(answer(*job))

    def _kill(self) -> None:
        pass

    def _end(self) -> None:
        pass


class StoreFaults:
    """Lets calls of a document store fail when faults are due, and closes the stores of a killed process.

    Args:
        service: The documents of a process.
        faults: Names of functions, each with whether it fails after it has acted; those that happened are removed.
        log: The log of their database.
    """

    def __init__(self, service: DocumentService, faults: list[tuple[str, bool]], log: WriteAheadLog) -> None:
        self._faults = faults
        self._log = log
        self._stores: list[DocumentStore] = []
        pool = service._store_thread._thread
        self._submit = pool.submit
        vars(pool)["submit"] = self._watched

    def close(self) -> None:
        """Close all stores."""
        for store in self._stores:
            store.close()

    def _watched(self, function: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        name = getattr(function, "func", function).__name__

        def call() -> Any:
            try:
                return call_or_fail()
            finally:
                for store in self._stores[-1:]:
                    self._log.written(store._database)

        def call_or_fail() -> Any:
            fault = next((fault for fault in self._faults if fault[0] == name), None)
            if fault is not None:
                self._faults.remove(fault)
                if fault[1]:
                    function(*args, **options)
                    raise sqlite3.OperationalError("disk I/O error")
                raise OSError(errno.ENOSPC, "No space left on device")
            result = function(*args, **options)
            if isinstance(result, DocumentStore):
                self._stores.append(result)
            return result

        return self._submit(call)


class DocumentClient:
    """Waits for a document, whatever happens to the processes, and checks what it gets.

    Args:
        world: The world.
        upload: The document.
        id: Its id.
        folder: The folder of the documents.
    """

    def __init__(self, world: World, upload: Upload, id: str, folder: Path) -> None:
        self._world = world
        self._upload = upload
        self._id = id
        self._folder = folder
        self._status = "queued"
        self._num_done = 0
        self._untranslated = 0
        self._was_deleted = False
        self._has_cancelled = False
        whats = [event.what for event in world.scenario.events]
        words = " ".join(sentence for sentences in upload.paragraphs for sentence in sentences)
        self._may_fail = (
            any(isinstance(what, FaultDue | FileFault | Jump | Restart) for what in whats)
            or upload.deadline_s < SHORT_S
            or FAILS in words
            or BREAKS in words
        )
        world.num_open += 1
        self._later(upload.looks_s, self._look)

    def _later(self, seconds: float, ask: Callable[[], None]) -> None:
        self._world.later(seconds, ask)

    def _ask(self, method: str, ending: str, handle: Callable[[int, bytes], None], again: Callable[[], None]) -> None:
        """Send a request; after no answer, or a refusal that does not last, again."""

        def done(response: tuple[int, bytes] | None) -> None:
            code = "" if response is None or response[0] < 400 else json.loads(response[1])["code"]
            if code in GIVES_UP:
                self._end("no key")
            elif response is None or response[0] in (429, 503, 507):
                self._later(AGAIN_S, again)
            else:
                handle(*response)

        path = f"/documents/{self._id}{ending}"
        self._world.call(Call(self._upload.number, 60.0, None, 0.0, 0, method, path, self._upload.key), done)

    def _look(self) -> None:
        self._ask("GET", "", self._seen, self._look)

    def _seen(self, status: int, body: bytes) -> None:
        if status == 404:
            require(self._was_deleted, "an accepted document is lost", self._upload.number, self._status)
            left = [path.name for path in self._folder.iterdir() if path.name.startswith(self._id)]
            require(not left, "a deleted document leaves files", *left)
            self._end("deleted")
            return
        require(status == 200, "a document has no status", self._upload.number, status, body)
        seen = json.loads(body)
        done, total = seen["sentences"]["done"], seen["sentences"]["total"]
        require(done >= self._num_done, "progress goes back", self._upload.number, self._num_done, done)
        require(total is None or done <= total, "more than all is done", self._upload.number, done, total)
        self._num_done, self._status, self._untranslated = done, seen["status"], seen.get("untranslated", 0)
        if self._status in ("queued", "running"):
            if self._upload.then == "cancel" and not self._has_cancelled:
                self._cancel()
            else:
                self._later(self._upload.looks_s, self._look)
        elif self._status == "done":
            num_sentences = sum(map(len, self._upload.paragraphs))
            require(done == total == num_sentences, "sentences of a document", done, total, num_sentences)
            self._ask("GET", "/result", self._loaded, self._look)
        elif self._status == "failed":
            code = seen["problem"]["code"]
            require(self._may_fail or code == "unsupported_pair", "a document failed", self._upload.number, code)
            self._finished()
        else:
            require(self._has_cancelled, "a document was cancelled", self._upload.number)
            self._finished()

    def _loaded(self, status: int, body: bytes) -> None:
        if status == 422:  # its file could not be written again
            self._finished()
            return
        require(status == 200, "a document has no result", self._upload.number, status, body)
        texts = body.decode().split("\n\n")
        require(len(texts) == len(self._upload.paragraphs), "paragraphs of a document", self._upload.number, *texts)
        num_left = 0
        for sentences, text in zip(self._upload.paragraphs, texts, strict=True):
            source = " ".join(sentences)
            rights = [" ".join((name[0] + sentence).upper() for sentence in sentences) for name in CONFIGURED]
            require(text in (source, *rights), "a wrong document", self._upload.number, text, *rights)
            num_left += len(sentences) if text == source else 0
        require(num_left == self._untranslated, "untranslated", self._upload.number, num_left, self._untranslated)
        require(not num_left or self._may_fail, "a document is not translated", self._upload.number)
        self._finished()

    def _cancel(self) -> None:
        is_repeated = self._has_cancelled
        self._has_cancelled = self._was_deleted = True  # deleted if it has ended since it was looked at
        self._ask("DELETE", "", lambda *answer: self._cancelled(is_repeated, *answer), self._cancel)

    def _cancelled(self, is_repeated: bool, status: int, body: bytes) -> None:
        if status == 200 and not is_repeated and json.loads(body)["status"] == "cancelled":
            self._was_deleted = False
        self._look()

    def _finished(self) -> None:
        if self._upload.then == "keep" and not self._has_cancelled:
            self._end(self._status)
        else:
            self._delete()

    def _delete(self) -> None:
        self._was_deleted = True
        self._ask("DELETE", "", lambda *_: self._look(), self._delete)

    def _end(self, how: str) -> None:
        world = self._world
        world.trace.note(world.kernel.now, f"document {how}", self._upload.number)
        world.num_open -= 1
        world.close_if_done()


def check_folder(folder: Path, most: int) -> None:
    """Nothing but the documents is in their folder.

    Args:
        folder: The folder.
        most: Documents that clients have added or may have added.
    """
    if not folder.is_dir():
        return
    names = Counter(path.suffix for path in folder.iterdir() if not path.name.startswith(DATABASE))
    require(names.keys() <= {".source", ".result"}, "files of documents", *names)
    require(all(number <= most for number in names.values()), "too many files of documents", most, *names.items())


def form_of(upload: Upload) -> bytes:
    """The body of an upload."""
    text = "\n\n".join(" ".join(sentences) for sentences in upload.paragraphs)
    parts = [f'name="file"; filename="text.txt"\r\n\r\n{text}', 'name="source"\r\n\r\nen', 'name="target"\r\n\r\nde']
    body = "".join(f"--{BRACKET}\r\nContent-Disposition: form-data; {part}\r\n" for part in parts)
    return f"{body}--{BRACKET}--\r\n".encode()
