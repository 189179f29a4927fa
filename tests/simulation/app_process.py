"""A process that is the whole application: callers send HTTP requests with keys, the operator loads models."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from starlette.datastructures import State
from starlette.types import Message

from app.accounts.service import Accounts
from app.documents.service import DocumentService
from app.errors import ServiceError
from app.http.route_table import Application, RouteTable
from app.main import _set_state, _with_middleware, create_app
from app.models.bundles import StoredBundle
from app.serving.service import TranslationService
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.errors import ArtifactError
from tests.app.fakes import BUDGET, NUM_BYTES, FakeBundles, FakeTranslator, WordDetector
from tests.simulation.app_scenario import (
    CONFIGURED,
    KEYS,
    MODELS,
    NO_KEY,
    SLACK_S,
    AppScenario,
    DiskFault,
    DocumentFault,
    FileFault,
    Load,
    LoadFault,
    Post,
    Revoke,
    Unload,
    Upload,
)
from tests.simulation.disk import Disk, time_of_day
from tests.simulation.documents import BRACKET, Call, DocumentClient, FilesInThread, StoreFaults, form_of
from tests.simulation.ledger import EngineLedger, require
from tests.simulation.process import Attempt, Process, samples_of, settings_of
from tests.simulation.scenario import What
from tests.simulation.stand_in import FAILS, model_named
from tests.simulation.world import World

LOAD_S = 0.2
"""Seconds that loading a model takes."""

STARTS_S = 2.0
"""Seconds in which a process has loaded its models, unless threads are busy."""

CLIENT_LEFT = "499"
"""The status of a request in the metrics whose client left before the answer."""

STORAGE = ("storage_full", "storage_unavailable")

_NDJSON = "application/x-ndjson"


class SimulatedBundles(FakeBundles):
    """Bundles of stand-ins, which take time to load and sometimes fail.

    Args:
        process: Loads them.
    """

    def __init__(self, process: AppProcess) -> None:
        models = {f"{name}.pt": process.models[name] for name in MODELS}
        super().__init__(*(process.models[name] for name in CONFIGURED), files=dict(models))
        self._process = process

    def load_configured(self) -> list[FakeTranslator]:
        """See :class:`app.models.bundles.BundleSource`."""
        self._process.world.kernel.sleep(LOAD_S)
        return super().load_configured()

    def load(self, bundle: StoredBundle) -> FakeTranslator:
        """See :class:`app.models.bundles.BundleSource`."""
        self._process.world.kernel.sleep(LOAD_S)
        if self._process.num_load_faults:
            self._process.num_load_faults -= 1
            raise ArtifactError("The bundle is damaged.")
        return super().load(bundle)


class AppProcess(Process):
    """A process with the whole application, without a socket.

    Args:
        world: The world.
        disk: What outlasts the process.
    """

    admission_s = SLACK_S

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(world)
        scenario, clock = world.scenario, world.kernel.clock
        assert isinstance(scenario, AppScenario)
        self.disk = disk
        self.num_load_faults = 0
        self.models = {name: model_named(name, *pairs) for name, pairs in MODELS.items()}
        for model in self.models.values():
            model.machine = self.machine
        has_documents = any(isinstance(event.what, Upload) for event in scenario.events)
        self.accepts = False
        self._has_documents = has_documents
        self.settings = _settings(scenario, disk.folder if has_documents else None)
        bundles = SimulatedBundles(self)
        self.app, table = _application()
        state = self.app.state = State()

        def connect(metrics: Metrics) -> TranslationService:
            return TranslationService(self.settings, metrics, bundles, clock, WordDetector(), self.threads)

        _set_state(self.app, self.settings, None, connect)
        self.metrics, self.service = state.metrics, state.service
        state.documents = DocumentService(
            self.settings,
            self.service,
            clock=lambda: time_of_day(clock()),
            threads=self.threads,
            make_files=lambda: FilesInThread(self),
            make_id=lambda: f"{world.kernel.rng.getrandbits(128):032x}",
        )
        self._store = StoreFaults(state.documents, disk.document_faults, disk.documents_log)
        self.accounts = state.accounts = Accounts(
            disk.path,
            longest_request_s=scenario.deadline_s,
            clock=lambda: time_of_day(clock()),
            steady_clock=clock,
            threads=self.threads,
        )
        assert self.accounts._usage is not None
        disk.attach(self.accounts._usage)
        self.app.middleware_stack = _with_middleware(table, self.app, self.settings, True)
        self.engine = self.service._engine
        self.shared = self.service._bridge._shared
        self.ledger = EngineLedger(self.engine, self.machine, world.trace)
        self.ledger.watch_shared(self.shared)
        self._statuses = Counter[str]()  # of requests
        self._codes = Counter[str]()  # of problems
        self._has_file_faults = any(isinstance(event.what, FileFault) for event in scenario.events)
        self._began = clock()
        self._unloads = any(isinstance(event.what, Unload) for event in scenario.events)
        self._models_change = self._unloads or scenario.max_models is not None
        self._left: dict[Attempt, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def leave(self, attempt: Attempt) -> None:
        """The server notices that a client has left."""
        attempt.has_left = True

        def notice() -> None:
            if attempt in self._left:
                self._left[attempt].set()

        self.loop.call_soon_threadsafe(notice)

    def happen(self, what: What) -> None:
        """See :class:`tests.simulation.process.Process`."""
        if isinstance(what, Load):
            self._operate(lambda: self.service.load_model(f"{what.name}.pt", None))
        elif isinstance(what, Unload):
            self._operate(lambda: self._unload(what.name))
        elif isinstance(what, LoadFault):
            self.num_load_faults += 1
        elif isinstance(what, Revoke):
            self.disk.revoke(what.key, time_of_day(self.world.kernel.now))
        elif isinstance(what, DiskFault):
            self.disk.faults.append((what.method, what.after_commit))
        elif isinstance(what, DocumentFault):
            self.disk.document_faults.append((what.method, what.after))
        elif isinstance(what, FileFault):
            self.disk.file_faults.append(what.kind)

    def check(self) -> None:
        """See :class:`tests.simulation.process.Process`."""
        super().check()
        for key, running in self.accounts.running._running.items():
            bound = KEYS[self.disk.ids.index(key)].concurrent_sentences
            require(bound is None or running <= bound, "too many sentences of a key", key, running)
        residency = self.service._store._residency
        if residency is not None:
            loaded = sum(model.num_bytes for model in residency._resident)
            require(loaded <= residency.max_bytes, "models exceed their memory", loaded)
            require(all(model.in_memory for model in residency._num_uses), "a model in use is not in memory")

    @property
    def num_requests(self) -> int:
        """See :class:`tests.simulation.process.Process`; one document is translated at a time."""
        return super().num_requests + int(self._has_documents)

    def check_metrics(self) -> None:
        """See :class:`tests.simulation.process.Process`."""
        super().check_metrics()
        requests, refusals = Counter[str](), Counter[str]()
        for (name, *labels), value in samples_of(self.metrics).items():
            if name == "verso_requests_total":
                requests[labels[-1]] += round(value)
            elif name == "verso_refusals_total":
                refusals[labels[0]] = round(value)
        require(requests == self._statuses, "requests counted", requests, self._statuses)
        # A stream that breaks off has a code and the status 200; a client that left may miss its refusal.
        num_others = self._statuses["200"] + self._statuses[CLIENT_LEFT]
        require(not self._codes - refusals, "refusals counted", refusals, self._codes)
        require((refusals - self._codes).total() <= num_others, "more refusals than requests", refusals, self._codes)

    def killed(self, cuts_power: bool) -> contextlib.AbstractContextManager[None]:
        """See :class:`tests.simulation.process.Process`."""
        return self.disk.as_left(self.world.kernel.rng if cuts_power else None)

    def close(self) -> None:
        """See :class:`tests.simulation.process.Process`."""
        for store in (self.accounts._keys, self.accounts._usage):
            if store is not None:
                store.close()
        self._store.close()

    def _operate(self, work: Callable[[], Any]) -> None:
        """Run a request of the operator, which may be refused."""

        async def run() -> None:
            with contextlib.suppress(ServiceError):
                await work()

        def begin() -> None:
            task = self.loop.create_task(run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.loop.call_soon_threadsafe(begin)

    async def _unload(self, name: str) -> None:
        await self.service.unload_model(name)
        if name not in self.service._registry.names:
            used = [sentence.key for sentence in self.engine._state.unanswered.values() if sentence.model_name == name]
            require(not used, "sentences of a model that is not loaded", name, *used)

    async def _live(self) -> None:
        async with self.app.router.lifespan_context(self.app):
            self.accepts = True
            ends = (self.stopping.wait(), self.service.engine_given_up(), self._not_loaded())
            waits = [asyncio.create_task(end) for end in ends]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()
            has_given_up = self.engine.has_given_up
            await self.service.drain(self.settings.drain_timeout_s)
            while self.attempts or self._tasks:
                await asyncio.sleep(0.01)
            self.accepts = False
        require(not self.accounts.running._running, "sentences of keys stay", self.accounts.running._running)
        self.world.ended(self, has_given_up)

    async def _not_loaded(self) -> object:
        """Wait until its models cannot be loaded, which ends a process."""
        await self.service.wait_loaded()
        return None if self.service.failure is not None else await self.stopping.wait()

    async def _answer(self, attempt: Attempt) -> str:
        post = attempt.request
        assert isinstance(post, Post | Upload | Call)
        if isinstance(post, Upload):
            self.disk.num_documents += 1
            scope, content = _form_scope(self._scope(post, "POST", "/documents")), form_of(post)
        elif isinstance(post, Call):
            scope, content = self._scope(post, post.method, post.path), b""
        else:
            scope, content = self._scope(post, "POST", "/translate"), _body(post)
        parts: list[Message] = []
        is_read = False
        left = self._left[attempt] = asyncio.Event()

        async def receive() -> Message:
            nonlocal is_read
            if not is_read:
                is_read = True
                return {"type": "http.request", "body": content}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            parts.append(message)
            if post.reads_s and message["type"] == "http.response.body":
                await asyncio.sleep(post.reads_s)

        try:
            await self.app(scope, receive, send)
        finally:
            del self._left[attempt]
            if not isinstance(post, Call) and (self.world.kernel.is_over or not parts):
                self._note_unknown(post, attempt)
        if not self.world.kernel.is_over:
            status = str(parts[0]["status"]) if parts else CLIENT_LEFT
            self._statuses[status] += 1
            if status not in ("200", "202", CLIENT_LEFT):
                self._codes[json.loads(parts[1]["body"])["code"]] += 1
        if not parts:
            return "left"
        if isinstance(post, Call):
            attempt.response = parts[0]["status"], b"".join(part.get("body", b"") for part in parts)
            return "called"
        return self._checked(post, attempt, parts)

    def _note_unknown(self, post: Post | Upload, attempt: Attempt) -> None:
        if post.key == NO_KEY:
            return
        self.disk.unknown(post.key, _id(post, attempt), post.num_characters)
        fails = any(self._may_have(code, attempt) for code in ("inference_failed", "decoding_failed"))
        if isinstance(post, Post) and fails and len(post.texts) > 1:  # each text may have failed
            self.disk.unknown(post.key, _id(post, attempt), 0)

    def _checked(self, post: Post | Upload, attempt: Attempt, parts: list[Message]) -> str:
        """The kind of an answer, which is right."""
        status: int = parts[0]["status"]
        body = b"".join(part.get("body", b"") for part in parts)
        if status == 202:
            assert isinstance(post, Upload)
            id: str = json.loads(body)["id"]
            self.disk.answered(post.key, _id(post, attempt), post.num_characters)
            DocumentClient(self.world, post, id, self.disk.folder / "documents")
            return "accepted"
        if status != 200:
            code: str = json.loads(body)["code"]
            if code == "accounts_unavailable" or (code in STORAGE and self.disk.num_faults):  # both may have failed
                self._note_unknown(post, attempt)
            require(self._may_have(code, attempt), "a refusal without reason", post.number, status, body.decode())
            return "expired" if code == "deadline_exceeded" else code
        assert isinstance(post, Post)
        if post.streams:
            return self._check_stream(post, attempt, body)
        answer = json.loads(body)
        num_characters = 0
        for sentences, entry in zip(post.texts, answer["translations"], strict=True):
            if self._check_entry(attempt, sentences, entry):
                num_characters += len(" ".join(sentences))
        self.disk.answered(post.key, _id(post, attempt), num_characters)
        return "answered"

    def _check_entry(self, attempt: Attempt, sentences: tuple[str, ...], entry: dict[str, Any]) -> bool:
        """Whether an entry is a translation, which is right; otherwise it has an error with a reason."""
        if "error" in entry:
            require(self._may_have(entry["error"]["code"], attempt), "a text failed without reason", entry)
            return False
        right = translated(sentences, entry["model"], (entry.get("via") or {}).get("model"))
        require(entry["text"] == right, "a wrong translation", attempt.request.number, entry["text"], right)
        return True

    def _check_stream(self, post: Post, attempt: Attempt, body: bytes) -> str:
        """A stream has each sentence once and in order, and each text, unless it breaks off with an error."""
        self.disk.answered(post.key, _id(post, attempt), post.num_characters)
        events = [json.loads(line) for line in body.splitlines()]
        is_done = bool(events) and events[-1]["event"] == "done"
        next_sentence = dict.fromkeys(range(len(post.texts)), 0)
        texts: list[int] = []
        for event in events:
            if event["event"] == "sentence":
                require(event["sentence"] == next_sentence[event["text"]], "sentences of a stream", post.number, event)
                next_sentence[event["text"]] += 1
            elif event["event"] == "translation":
                self._check_entry(attempt, post.texts[event["text"]], event["translation"])
                texts.append(event["text"])
            elif event["event"] == "error":
                require(self._may_have(event["code"], attempt), "a stream failed without reason", post.number, event)
                if event.get("text") is not None:
                    texts.append(event["text"])
                elif event["code"] == "deadline_exceeded":
                    return "late stream"
        require(len(set(texts)) == len(texts), "a text is streamed twice", post.number, *texts)
        if is_done:
            require(len(texts) == len(post.texts), "a stream lacks texts", post.number, *texts)
            return "answered"
        if events and events[-1]["event"] == "error":
            return "broken stream"
        require(attempt.has_left, "a stream broke off", post.number)
        return "left"

    def _may_have(self, code: str, attempt: Attempt) -> bool:
        """Whether a request may have been refused with a code."""
        post = attempt.request
        assert isinstance(post, Post | Upload)
        words = " ".join(" ".join(sentences) for sentences in (post.texts if isinstance(post, Post) else ()))
        limits = KEYS[post.key] if post.key != NO_KEY else None
        match code:
            case "queue_full" | "deadline_unreachable" | "deadline_exceeded":
                return limits is not None
            case "not_ready":
                is_loading = attempt.began < max(self._began, self.world.jumped_at) + STARTS_S
                if isinstance(post, Upload) and self._has_file_faults:
                    return True
                return is_loading or self.service.state != "ready" or self._models_change
            case "limit_exceeded":
                return limits is not None
            case "key_required":
                return limits is None
            case "invalid_key":
                return limits is not None and (limits.expires_s is not None or post.key in self.disk.revoked)
            case "rate_limited":
                return limits is not None and limits.requests_per_minute is not None
            case "quota_exceeded":
                return limits is not None and limits.characters_per_month is not None
            case "concurrency_exceeded":
                return limits is not None and limits.concurrent_sentences is not None
            case "accounts_unavailable":
                return self.disk.num_faults > 0
            case "inference_failed":
                return bool(self.ledger.failed) or self.machine.num_faults["death"] > 0
            case "decoding_failed":
                return FAILS in words
            case "unsupported_pair":
                return self._unloads or (isinstance(post, Post) and post.pair == "de-en")
            case "storage_full" | "storage_unavailable" | "document_too_complex":
                return isinstance(post, Upload)
        return False

    def _scope(self, post: Post | Upload | Call, method: str, path: str) -> dict[str, Any]:
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        if post.key != NO_KEY:
            headers.append((b"authorization", f"Bearer {self.disk.tokens[post.key]}".encode()))
        if not isinstance(post, Call) and post.is_idempotent:
            headers.append((b"idempotency-key", f"request-{post.number}".encode()))
        if isinstance(post, Post) and post.streams:
            headers.append((b"accept", _NDJSON.encode()))
        return {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 5000),
            "server": ("localhost", 80),
            "state": {},
        }


def _settings(scenario: AppScenario, folder: Path | None) -> Settings:
    memory = None if scenario.max_models is None else scenario.max_models * NUM_BYTES
    return settings_of(scenario, scenario.deadline_s, folder, memory)


def _form_scope(scope: dict[str, Any]) -> dict[str, Any]:
    headers = [header for header in scope["headers"] if header[0] != b"content-type"]
    return {**scope, "headers": [*headers, (b"content-type", f"multipart/form-data; boundary={BRACKET}".encode())]}


def _body(post: Post) -> bytes:
    source, _, target = post.pair.partition("-")
    texts = [" ".join(sentences) for sentences in post.texts]
    search: dict[str, Any] = {"decoding": "greedy"} if post.beam_size == 1 else {"beam_size": post.beam_size}
    return json.dumps({"text": texts, "source": source, "target": target, **search}).encode()


def _id(post: Post | Upload, attempt: Attempt) -> str:
    """What identifies a request for the accounts: attempts with an ``Idempotency-Key`` are one request."""
    return str(post.number) if post.is_idempotent else f"{post.number}/{attempt.number}"


def translated(sentences: tuple[str, ...], model: str, first: str | None = None) -> str:
    """The translation of a text by a model, after that of the first of two legs, if there is one."""
    letters = model[0] if first is None else model[0] + first[0]
    return " ".join((letters + sentence).upper() for sentence in sentences)


@cache
def _application() -> tuple[Application, RouteTable]:
    """The application and its routes, which all simulations of this process share; making them takes 30 ms."""
    app = create_app(Settings(**BUDGET), FakeBundles())
    stack: Any = app.middleware_stack
    while not isinstance(stack, RouteTable):
        stack = stack.app
    return app, stack
