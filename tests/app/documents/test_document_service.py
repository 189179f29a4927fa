"""Documents as jobs, with a translator that needs no model."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.documents import job, worker
from app.documents.document import DATABASE, KEPT_S, MAX_ATTEMPTS, Document, Sender
from app.documents.file_process import FileProcess, UnitList
from app.documents.service import DocumentService
from app.documents.store import DocumentStore
from app.engine.caller import Caller, Priority
from app.engine.fair_queue import BULK_SHARE
from app.engine.watchdog import Watchdog
from app.errors import (
    DeadlineUnreachable,
    DocumentNotDone,
    DocumentNotFound,
    DocumentRefused,
    DocumentsFull,
    DocumentTooComplex,
    DocumentTooLarge,
    QuotaExceeded,
    SettingsError,
    StorageFull,
    UnsupportedDocument,
)
from app.serving.request import TranslationRequest
from app.serving.text_job import TranslateResult
from app.settings import Settings
from model.errors import UnsupportedFormality, UnsupportedPair
from model.text.glossary import GlossaryTerm
from model.translation.options import TranslationOptions
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, WordDetector, held_translator
from tests.app.observed import ObservedService
from tests.faults.test_engine_hangs import HangingTranslator
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("idle_file_processes")

PATIENCE_S = 30.0
GREEDY = TranslationOptions(decoding="greedy")
PARAGRAPHS = [f"This is the paragraph number {number}." for number in range(40)]
TEXT = "\n\n".join(PARAGRAPHS).encode()


@dataclass
class Bench:
    """A document service, the translation service behind it, and a clock."""

    documents: DocumentService
    service: ObservedService
    now: float = 1_000_000.0
    tick_s: float = 0.0

    def clock(self) -> float:
        self.now += self.tick_s
        return self.now

    async def add(self, content: bytes = TEXT, filename: str = "a.txt", **fields: Any) -> Document:
        asked: dict[str, Any] = {"source": "en", "target": "de", "options": GREEDY, **fields}
        return await self.documents.add(content, filename, **asked)

    async def ended(self, document: Document) -> Document:
        while (found := await self.documents.get(document.id)).is_active:
            await asyncio.sleep(0.002)
        return found

    async def text(self, document: Document, partial: bool = False) -> str:
        return (await self.documents.result(document.id, partial)).content.decode()


def is_idle(documents: DocumentService) -> bool:
    """Whether no task works on documents. No public interface says it: only an idle service costs nothing."""
    return documents._open is None or documents._open.worker.is_idle


@asynccontextmanager
async def open_bench(translator: FakeTranslator | None = None, **settings: Any) -> AsyncIterator[Bench]:
    translator = translator or FakeTranslator()
    configured = Settings(**{**BUDGET, **settings})
    service = ObservedService(configured, FakeBundles(translator), WordDetector())
    await service.start()
    await service.wait_loaded()
    bench = Bench(DocumentService(configured, service, lambda: bench.clock()), service)
    await bench.documents.start()
    try:
        yield bench
    finally:
        translator.step_gate.set()
        await bench.documents.stop()
        await service.stop()


def hold_after_the_first_batch(monkeypatch: pytest.MonkeyPatch, translator: FakeTranslator) -> threading.Event:
    """Let no step begin once translations have been stored; returns the event of that."""
    event = threading.Event()
    store = DocumentStore.add_translations

    def store_and_hold(*arguments: Any, **options: Any) -> None:
        store(*arguments, **options)
        if not event.is_set():
            translator.step_gate.clear()
            event.set()

    monkeypatch.setattr(DocumentStore, "add_translations", store_and_hold)
    return event


def beginnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The documents in the order in which they are begun, and gone on with."""
    order: list[str] = []
    begin = DocumentStore.begin

    def note(store: DocumentStore, id: str, num_sentences: int) -> int:
        order.append(id)
        return begin(store, id, num_sentences)

    monkeypatch.setattr(DocumentStore, "begin", note)
    return order


async def test_a_document_is_translated_and_its_progress_is_in_sentences() -> None:
    async with open_bench() as bench:
        added = await bench.add()
        assert (added.status, added.num_done, added.num_sentences) == ("queued", 0, None)
        assert (added.source, added.target, added.expires_at) == ("en", "de", bench.now + KEPT_S)
        document = await bench.ended(added)
        assert (document.status, document.num_done, document.num_sentences) == ("done", 40, 40)
        result = await bench.documents.result(added.id)
        assert (result.filename, result.media_type) == ("a.de.txt", "text/plain")
        assert result.content == TEXT.upper()


async def test_documents_are_translated_one_after_the_other() -> None:
    translator = held_translator()
    async with open_bench(translator) as bench:
        first, second = await bench.add(b"the first"), await bench.add(b"the second")
        await eventually(translator.stepping.is_set)
        assert (await bench.documents.get(first.id)).status == "running"
        assert (await bench.documents.get(second.id)).status == "queued"
        translator.step_gate.set()
        await bench.ended(second)
        assert await bench.text(first) == "THE FIRST"
        assert await bench.text(second) == "THE SECOND"


@pytest.mark.parametrize(
    ("senders", "order"),
    [
        ([Sender("a")] * 4 + [Sender("b"), Sender("c")], [0, 4, 5, 1, 2, 3]),
        ([Sender("a", Priority.BULK), Sender("b", Priority.BULK), Sender("c")], [0, 2, 1]),
        ([Sender()] * 3, [0, 1, 2]),
    ],
    ids=["an owner with many", "less urgent ones", "of nobody"],
)
async def test_documents_do_not_wait_for_all_of_another_owner(
    senders: Sequence[Sender], order: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started_ids = beginnings(monkeypatch)

    translator = held_translator()
    async with open_bench(translator) as bench:
        added = []
        for sender in senders:
            added.append(await bench.add(b"text", sender=sender))
            bench.now += 1
        translator.step_gate.set()
        for document in added:
            assert (await bench.ended(document)).status == "done"
        assert started_ids == [added[index].id for index in order]


async def test_a_long_document_lets_those_of_others_go_first_and_then_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TURN_S", 0.0)
    order = beginnings(monkeypatch)

    translator = held_translator()
    async with open_bench(translator) as bench:
        bench.tick_s = 0.001
        long, following = [await bench.add(content, sender=Sender("a")) for content in (TEXT, b"second")]
        other = await bench.add(b"other", sender=Sender("b"))
        translator.step_gate.set()
        assert (await bench.ended(following)).status == "done"
        # Three batches, and one; each waits for the other after a batch, also if only its result is to be written.
        assert order == [long.id, other.id, long.id, other.id, long.id, following.id]
        assert (await bench.text(long), await bench.text(other)) == (TEXT.decode().upper(), "OTHER")
        assert sum(translator.log.joins) == len(PARAGRAPHS) + 2  # nothing was translated twice


async def test_a_partial_result_has_what_is_translated_and_the_rest_as_in_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = held_translator()
    async with open_bench(translator) as bench:
        document = await bench.add()
        await eventually(translator.stepping.is_set)
        with pytest.raises(DocumentNotDone):
            await bench.documents.result(document.id)
        assert await bench.text(document, partial=True) == TEXT.decode()
        gate = hold_after_the_first_batch(monkeypatch, translator)
        translator.step_gate.set()
        await eventually(gate.is_set)
        num_done = (await bench.documents.get(document.id)).num_done
        assert num_done == job.BATCH_SENTENCES
        paragraphs = (await bench.text(document, partial=True)).split("\n\n")
        assert paragraphs == [paragraph.upper() for paragraph in PARAGRAPHS[:num_done]] + PARAGRAPHS[num_done:]


async def test_a_cancelled_document_keeps_its_partial_result_until_it_is_deleted() -> None:
    translator = held_translator()
    async with open_bench(translator) as bench:
        document, waiting = await bench.add(), await bench.add(b"another")
        await eventually(translator.stepping.is_set)
        assert (await bench.documents.cancel(document.id)).status == "cancelled"
        assert (await bench.documents.cancel(waiting.id)).status == "cancelled"
        await eventually(lambda: not bench.service.num_requests)
        assert await bench.text(document, partial=True) == TEXT.decode()
        assert (await bench.documents.cancel(document.id)).status == "cancelled"
        with pytest.raises(DocumentNotFound):
            await bench.documents.get(document.id)
        translator.step_gate.set()
        following = await bench.ended(await bench.add(b"one more"))
        assert following.status == "done"


async def test_a_document_that_is_cancelled_before_it_begins_is_not_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    async with open_bench(translator) as bench:
        next_active = DocumentStore.next_active

        def cancel_what_is_next(store: DocumentStore) -> Document | None:
            document = next_active(store)
            if document is not None:
                store.end(document.id, "cancelled", bench.now + KEPT_S)
            return document

        monkeypatch.setattr(DocumentStore, "next_active", cancel_what_is_next)
        document = await bench.add(b"one")
        await bench.ended(document)
        await bench.ended(await bench.add(b"two"))  # which is cancelled as well, after the first has been passed over
        assert translator.log.joins == []


async def test_a_broken_store_does_not_end_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Document | None:
        raise RuntimeError("a bug")

    async with open_bench() as bench:
        with monkeypatch.context() as patched:
            patched.setattr(DocumentStore, "next_active", broken)
            first = await bench.add(b"one")
            await eventually(lambda: is_idle(bench.documents))
        await bench.ended(await bench.add(b"two"))
        assert (await bench.ended(first)).status == "done"


async def test_a_document_waits_for_a_disk_that_fails_and_is_not_failed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store, failures = DocumentStore.add_translations, iter(range(3))

    def failing(*arguments: Any, **options: Any) -> None:
        if next(failures, None) is not None:
            raise sqlite3.OperationalError("disk I/O error")
        store(*arguments, **options)

    monkeypatch.setattr(worker, "RETRY_S", 0.01)
    monkeypatch.setattr(DocumentStore, "add_translations", failing)

    async with open_bench() as bench:
        assert (await bench.ended(await bench.add(b"one"))).status == "done"
        assert next(failures, None) is None


async def test_a_document_waits_for_a_process_and_is_not_failed_without_one(
    monkeypatch: pytest.MonkeyPatch, idle_file_processes: list[subprocess.Popen[bytes]]
) -> None:
    while idle_file_processes:
        idle_file_processes.pop().communicate()
    failures, popen = iter(range(3)), subprocess.Popen

    def start(*arguments: Any, **options: Any) -> Any:
        if next(failures, None) is not None:
            raise BlockingIOError("Resource temporarily unavailable")
        return popen(*arguments, **options)

    monkeypatch.setattr(worker, "RETRY_S", 0.01)
    async with open_bench() as bench:
        document = await bench.add(b"one")  # its file is read before
        monkeypatch.setattr(subprocess, "Popen", start)
        assert (await bench.ended(document)).status == "done"
        assert next(failures, None) is None


async def test_a_document_whose_reading_ended_the_service_is_failed_and_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = held_translator()
    async with open_bench(translator, data_dir=tmp_path) as bench:
        waiting = await bench.add(b"the first")
        await eventually(translator.stepping.is_set)
        document = await bench.add(b"the second")
    with closing(sqlite3.connect(tmp_path / "documents" / DATABASE)) as database, database:
        # As a process leaves it that has ended while it read the file.
        database.execute("UPDATE documents SET marked_by = 'a run before' WHERE id = ?", (document.id,))
    async with open_bench(data_dir=tmp_path) as bench:
        assert (await bench.ended(waiting)).status == "done"
        with monkeypatch.context() as patched:
            patched.setattr(FileProcess, "read", lambda *_: pytest.fail("it is read"))
            failed = await bench.ended(document)
    assert failed.status == "failed" and failed.problem is not None
    assert (failed.problem["code"], failed.problem["status"]) == ("document_too_complex", 422)


async def test_a_document_that_is_stopped_while_it_is_being_marked_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marking = threading.Event()
    mark = DocumentStore.mark

    def mark_slowly(store: DocumentStore, id: str) -> bool:
        is_marked = mark(store, id)
        marking.set()
        time.sleep(0.5)  # the service stops meanwhile
        return is_marked

    with monkeypatch.context() as patched:
        patched.setattr(DocumentStore, "mark", mark_slowly)
        async with open_bench(data_dir=tmp_path) as bench:
            document = await bench.add(b"one")
            await eventually(marking.is_set)
    async with open_bench(data_dir=tmp_path) as bench:
        assert (await bench.ended(document)).status == "done"


async def test_a_document_whose_process_ends_is_failed_while_others_are_translated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = FileProcess.read

    async def read_or_end(files: FileProcess, format: Any, content: bytes, language: str | None = None) -> UnitList:
        if content == b"bad" and language is not None:  # in the background
            raise DocumentTooComplex
        return await read(files, format, content, language)

    monkeypatch.setattr(FileProcess, "read", read_or_end)

    async with open_bench() as bench:
        bad, good = await bench.add(b"bad"), await bench.add(b"good")
        assert (await bench.ended(good)).status == "done"
        assert (await bench.ended(bad)).status == "failed"


async def test_no_terms_are_looked_for_in_a_document_that_is_refused_to_its_sender() -> None:
    calls: list[Sequence[str]] = []

    async def terms(texts: Sequence[str]) -> tuple[GlossaryTerm, ...]:
        calls.append(texts)
        return ()

    async def refuse(characters: int) -> None:
        raise QuotaExceeded(characters, 7, 7, 60.0)

    async with open_bench() as bench:
        with pytest.raises(QuotaExceeded):
            await bench.add(b"A house.", terms=terms, sender=Sender("a", admit=refuse))
        assert calls == []


async def test_a_document_is_refused_before_those_in_work_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with open_bench(translator) as bench:
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=30_000))
        first = await bench.add(b"a " * 2_000)  # 4,000 bytes: itself, its result, its translations
        with pytest.raises(StorageFull):
            await bench.add(b"b " * 2_000)
        translator.step_gate.set()
        await bench.ended(first)
        await bench.add(b"b " * 2_000)


async def test_a_document_is_deleted_a_day_after_it_is_done() -> None:
    async with open_bench() as bench:
        document = await bench.ended(await bench.add())
        bench.now += KEPT_S - 1
        assert (await bench.documents.get(document.id)).status == "done"
        bench.now += 1
        with pytest.raises(DocumentNotFound):
            await bench.documents.get(document.id)
        with pytest.raises(DocumentNotFound):
            await bench.documents.result(document.id)


async def test_a_document_in_work_does_not_expire() -> None:
    translator = held_translator()
    async with open_bench(translator) as bench:
        document = await bench.add(b"slow")
        await eventually(translator.stepping.is_set)
        bench.now += 2 * KEPT_S
        assert (await bench.documents.get(document.id)).status == "running"
        translator.step_gate.set()
        finished = await bench.ended(document)
        assert (finished.status, finished.expires_at) == ("done", bench.now + KEPT_S)


async def test_the_number_of_documents_is_bounded() -> None:
    async with open_bench(max_documents=2) as bench:
        first = await bench.ended(await bench.add(b"one"))
        await bench.ended(await bench.add(b"two"))
        with pytest.raises(DocumentsFull) as refused:
            await bench.add(b"three")
        assert refused.value.retry_after_s == KEPT_S
        await bench.documents.cancel(first.id)
        await bench.add(b"three")


async def test_the_documents_of_one_key_are_bounded() -> None:
    async with open_bench(max_documents=10) as bench:
        for _ in range(2):
            first = await bench.ended(await bench.add(b"one", sender=Sender("a")))
        with pytest.raises(DocumentsFull, match="limit of 2 stored documents of this key"):
            await bench.add(b"two", sender=Sender("a"))
        await bench.add(b"two", sender=Sender("b"))
        await bench.documents.cancel(first.id)
        await bench.add(b"two", sender=Sender("a"))
    async with open_bench(max_documents=4, max_documents_per_key=1) as bench:
        await bench.add(b"one", sender=Sender("a"))
        with pytest.raises(DocumentsFull, match="limit of 1 stored document"):
            await bench.add(b"two", sender=Sender("a"))


async def test_what_cannot_be_translated_is_refused_at_once() -> None:
    async with open_bench(max_document_bytes=1_000) as bench:
        refusals: list[tuple[type[Exception], dict[str, Any]]] = [
            (UnsupportedDocument, {"filename": "a.exe"}),
            (UnsupportedDocument, {"filename": "txt"}),
            (DocumentTooLarge, {"content": b"a" * 1_001}),
            (DocumentRefused, {"content": b"\xff\xfe\xff"}),
            (UnsupportedPair, {"target": "fr"}),
            (UnsupportedFormality, {"options": replace(GREEDY, formality="formal")}),
        ]
        for kind, fields in refusals:
            with pytest.raises(kind):
                await bench.add(**{"content": b"text", **fields})


async def test_a_detected_language_is_that_of_the_beginning() -> None:
    async with open_bench() as bench:
        document = await bench.ended(await bench.add(b"the cat", source="auto"))
        assert (document.source, await bench.text(document)) == ("en", "THE CAT")


async def test_a_document_in_the_target_language_comes_back_unchanged() -> None:
    async with open_bench() as bench:
        document = await bench.ended(await bench.add(b"der Hund", source="auto", target="de"))
        assert (document.status, await bench.text(document)) == ("done", "der Hund")
        assert document.was_in_target
        assert not (await bench.ended(await bench.add(b"12", source="auto", target="de"))).was_in_target
        assert not (await bench.ended(await bench.add(b"the cat", source="auto"))).was_in_target


async def test_sentences_that_fail_stay_as_they_are_and_are_counted() -> None:
    async with open_bench() as bench:
        document = await bench.ended(await bench.add(b"fine\n\nnan\n\nalso fine"))
        assert (document.status, document.num_done, document.num_left) == ("done", 3, 1)
        assert await bench.text(document) == "FINE\n\nnan\n\nALSO FINE"


async def test_a_message_that_comes_back_unchanged_keeps_its_state_and_is_counted() -> None:
    async with open_bench() as bench:
        text = '#, fuzzy\nmsgid "CATS"\nmsgstr "x"\n\nmsgid "the dog"\nmsgstr ""\n\nmsgid "{name}"\nmsgstr ""\n'
        document = await bench.ended(await bench.add(text.encode(), filename="a.po"))
        assert (document.status, document.num_left) == ("done", 1)
        written = text.replace('"the dog"\nmsgstr ""', '"the dog"\nmsgstr "THE DOG"')
        assert await bench.text(document) == written.replace('"{name}"\nmsgstr ""', '"{name}"\nmsgstr "{name}"')


async def test_translations_into_another_language_than_the_target_are_refused() -> None:
    async with open_bench() as bench:
        text = 'msgid ""\nmsgstr "Language: fr\\n"\n\nmsgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n'
        with pytest.raises(DocumentRefused, match="French"):
            await bench.add(text.encode(), filename="a.po")


async def test_a_document_whose_name_has_no_ending_keeps_its_name() -> None:
    async with open_bench() as bench:
        document = await bench.ended(await bench.add(b'"hi" = "the cat";', filename="Localizable"))
        assert (await bench.documents.result(document.id)).filename == "Localizable.de"


async def test_a_document_of_which_nothing_can_be_translated_fails_with_a_problem() -> None:
    async with open_bench() as bench:
        document = await bench.ended(await bench.add(b"nan"))
        assert document.status == "failed"
        assert document.problem is not None
        assert (document.problem["code"], document.problem["status"]) == ("decoding_failed", 500)


async def test_a_document_that_is_refused_for_its_deadline_tries_again_or_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First as if there were too much load, then as if a batch were too large."""
    refusals: list[float | None] = [0.001, None]
    sizes: list[int] = []
    translate = ObservedService.translate

    async def refusing(self: ObservedService, request: TranslationRequest) -> TranslateResult:
        sizes.append(len(request.texts))
        assert request.caller == Caller("the key", Priority.BULK)
        if len(request.texts) == 3 and refusals:
            raise DeadlineUnreachable(99.0, 30.0, 3, refusals.pop(0))
        return await translate(self, request)

    async with open_bench() as bench:
        document = await bench.add(b"one\n\ntwo\n\nthree", sender=Sender("the key"))
        monkeypatch.setattr(ObservedService, "translate", refusing)
        document = await bench.ended(document)
        assert await bench.text(document) == "ONE\n\nTWO\n\nTHREE"
        assert sizes == [3, 3, 1, 1, 1]


async def test_an_interactive_request_goes_first() -> None:
    translator = held_translator()
    async with open_bench(translator, max_batch_rows=1, max_beam_size=1, max_hypotheses=1) as bench:

        async def ask(text: str) -> None:
            await bench.service.translate(TranslationRequest([text], "en", "de", GREEDY))

        first = asyncio.create_task(ask("first"))
        await eventually(translator.stepping.is_set)
        document = await bench.add(b"document one. document two.")
        await eventually(lambda: bench.service.engine.num_waiting)
        second = asyncio.create_task(ask("second"))
        await eventually(lambda: bench.service.engine.num_waiting > 1)
        translator.step_gate.set()
        await asyncio.gather(first, second)
        assert (await bench.documents.get(document.id)).num_done == 0
        assert (await bench.ended(document)).status == "done"


async def test_a_document_has_its_share_beside_callers_that_ask_again_and_again() -> None:
    units = [f"unit {number}" for number in range(40)]

    async with open_bench(FakeTranslator(step_s=0.0005)) as bench:
        num_answered = 0

        async def keep_asking(caller: Caller) -> None:
            nonlocal num_answered
            while True:
                text = [f"text {num_answered} of {caller.id}"]
                await bench.service.translate(TranslationRequest(text, "en", "de", GREEDY, caller))
                num_answered += 1

        callers = [asyncio.create_task(keep_asking(Caller(name))) for name in "ab"]
        document = await bench.ended(await bench.add("\n\n".join(units).encode()))
        for one in callers:
            one.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        assert document.status == "done"
        assert len(units) > BULK_SHARE * num_answered


async def test_seconds_left_follow_from_the_speed_so_far() -> None:
    translator = FakeTranslator(step_s=0.0005)
    async with open_bench(translator) as bench:
        document = await bench.add()
        seen = []
        while (found := await bench.documents.get(document.id)).is_active:
            seen.append(found)
            await asyncio.sleep(0.002)
        known = [one for one in seen if one.seconds_left is not None]
        assert known
        assert all(0 <= (one.seconds_left or 0) < PATIENCE_S and one.num_done for one in known)
        assert all(one.seconds_left is None for one in seen if not one.num_done)
        assert (await bench.documents.get(document.id)).seconds_left is None


async def test_a_restarted_service_goes_on_and_translates_no_stored_unit_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = FakeTranslator()
    held = hold_after_the_first_batch(monkeypatch, translator)
    async with open_bench(translator, data_dir=tmp_path) as bench:
        document = await bench.add()
        await eventually(held.is_set)
        await bench.documents.stop()  # while the second batch decodes
    num_done = job.BATCH_SENTENCES
    second = FakeTranslator()
    async with open_bench(second, data_dir=tmp_path) as bench:
        done = await bench.ended(document)
        assert (done.status, done.num_done) == ("done", 40)
        assert await bench.text(done) == TEXT.decode().upper()
        assert sum(second.log.joins) == 40 - num_done


async def end_by_a_hang(bench: Bench, translator: HangingTranslator) -> None:
    """Wait until the engine has given up, with which the process ends."""
    await bench.service.engine_given_up()
    await eventually(lambda: is_idle(bench.documents))
    translator.release.set()  # its thread must end with the test


@pytest.mark.parametrize(("content", "expected"), [(b"one\n\nhang\n\nthree", "ONE\n\nhang\n\nTHREE"), (b"hang", None)])
async def test_a_text_at_which_the_process_ends_each_time_is_given_up(
    content: bytes, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.serving.service._WATCH_S", 0.01)
    document = None
    for _ in range(MAX_ATTEMPTS + 1):
        translator = HangingTranslator()
        with monkeypatch.context() as patched:
            patched.setattr(Watchdog, "hangs", lambda *_, translator=translator: translator.num_hanging > 0)
            async with open_bench(translator, data_dir=tmp_path) as bench:
                document = document or await bench.add(content)
                await end_by_a_hang(bench, translator)
    assert document is not None
    async with open_bench(data_dir=tmp_path) as bench:
        ended = await bench.ended(document)
        assert ended.num_left == 1
        if expected is None:
            assert ended.problem is not None and ended.problem["code"] == "document_too_complex"
        else:
            assert (ended.status, await bench.text(ended)) == ("done", expected)


async def test_stops_of_the_service_are_no_reason_to_give_a_text_up(tmp_path: Path) -> None:
    document = None
    for _ in range(MAX_ATTEMPTS + 2):
        translator = held_translator()
        async with open_bench(translator, data_dir=tmp_path) as bench:
            document = document or await bench.add(b"one")
            await eventually(translator.stepping.is_set)
            await bench.documents.stop()
    assert document is not None
    async with open_bench(data_dir=tmp_path) as bench:
        ended = await bench.ended(document)
        assert (ended.status, ended.num_left, await bench.text(ended)) == ("done", 0, "ONE")


async def test_without_a_data_folder_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async with open_bench() as bench:
        await bench.ended(await bench.add(b"secret"))
        assert list(tmp_path.glob("verso-documents-*/*.source"))
    assert not list(tmp_path.iterdir())


async def test_a_data_folder_belongs_to_one_process(tmp_path: Path) -> None:
    async with open_bench(data_dir=tmp_path) as bench:
        await bench.ended(await bench.add(b"one"))
        with pytest.raises(SettingsError, match="VERSO_DATA_DIR"):
            async with open_bench(data_dir=tmp_path):
                pass


async def test_files_of_a_process_that_was_killed_while_it_stored_them_are_deleted(tmp_path: Path) -> None:
    async with open_bench(data_dir=tmp_path) as bench:
        document = await bench.ended(await bench.add(b"one"))
    folder = tmp_path / "documents"
    for name in ("f" * 32 + ".source", "f" * 32 + ".part"):
        (folder / name).write_bytes(b"left")
    async with open_bench(data_dir=tmp_path) as bench:
        assert await bench.text(document) == "ONE"
        assert {path.stem for path in folder.iterdir() if not path.name.startswith(DATABASE)} == {document.id}


def test_a_document_that_was_cancelled_or_deleted_gets_no_result(tmp_path: Path) -> None:
    """An error may come after the disk has written that it is cancelled: it is then translated to its end."""
    with closing(DocumentStore(tmp_path)) as store:
        for id, then in (("a" * 32, "cancel"), ("b" * 32, "delete")):
            store.add(Document(id, "a.txt", "en", "de", "{}", "queued", 10, 0.0, KEPT_S), b"One.")
            store.end(id, "cancelled", KEPT_S)
            if then == "delete":
                store.remove(id)
            store.finish(id, b"EINS.", KEPT_S)
    assert not list(tmp_path.glob("*.result"))


async def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    async with open_bench() as bench:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageFull):
            await bench.add(b"one")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Users\\me\\letter.txt", "letter.txt"),
        ("a\u202etxt.exe.txt", "atxt.exe.txt"),
        ("a\r\nSet-Cookie: x.txt", "aSet-Cookie: x.txt"),
        ("x" * 500 + ".txt", "x" * 196 + ".txt"),
    ],
)
async def test_names_of_files_are_shown_without_folders_and_control_signs(
    given: str, shown: str, tmp_path: Path
) -> None:
    async with open_bench(data_dir=tmp_path) as bench:
        document = await bench.ended(await bench.add(b"one", filename=given))
        assert document.filename == shown
        assert {path.parent for path in tmp_path.rglob("*.source")} == {tmp_path / "documents"}


async def test_a_draining_service_leaves_the_document_for_the_next_start(tmp_path: Path) -> None:
    translator = FakeTranslator(step_s=0.002)
    async with open_bench(translator, data_dir=tmp_path) as bench:
        document = await bench.add()
        await eventually(translator.stepping.is_set)
        await bench.service.drain(10.0)
        await eventually(lambda: is_idle(bench.documents))
        assert (await bench.documents.get(document.id)).status == "running"
    async with open_bench(data_dir=tmp_path) as bench:
        assert (await bench.ended(document)).status == "done"
