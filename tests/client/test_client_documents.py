"""Documents: upload, waiting with a progress bar, result, cancellation."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.formparsers import MultiPartParser
from starlette.requests import Request

from tests.client.driving import Driver, Script, problem
from verso_client import (
    ConnectionFailed,
    Document,
    DocumentFailed,
    DocumentSentence,
    ProblemError,
    SentenceEdit,
    TimedOut,
)


def state(status: str, finished: int = 0, total: int | None = None, **more: Any) -> httpx.Response:
    sentences = {"done": finished, "total": total}
    body = {"id": "d/1", "status": status, "filename": "a.txt", "sentences": sentences}
    return httpx.Response(
        202 if status == "queued" else 200,
        json=body | {"seconds_left": None, "expires_at": "2030-01-01T00:00:00Z"} | more,
    )


async def form_of(request: httpx.Request) -> dict[str, Any]:
    """The fields of a form, as the service's own parser reads them."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.content, "more_body": False}

    headers = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    parsed = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    form = await MultiPartParser(parsed.headers, parsed.stream()).parse()
    try:
        file: Any = form["file"]
        return {**form, "file": (file.filename, await file.read())}
    finally:
        await form.close()


@pytest.mark.anyio
async def test_a_file_and_its_options_are_fields_of_a_form(tmp_path: Path) -> None:
    (tmp_path / "a letter.md").write_bytes(b"# Hello\n")
    server = Script([state("queued"), state("queued")])
    sync = Driver("sync")
    terms = [{"source": "house", "target": "Gebäude"}]
    sync.run(
        server,
        lambda client: client.upload_document(
            tmp_path / "a letter.md", target="de", beam_size=2, early_stopping=True, glossary=terms, protect=["x+"]
        ),
    )
    assert await form_of(server.requests[0]) == {
        "file": ("a letter.md", b"# Hello\n"),
        "target": "de",
        "beam_size": "2",
        "early_stopping": "true",
        "glossary": '[{"source": "house", "target": "Gebäude"}]',
        "protect": '["x+"]',
    }
    sync.run(server, lambda client: client.upload_document(b"Hello", "größe.txt", protect="none"))
    assert await form_of(server.requests[1]) == {"file": ("größe.txt", b"Hello"), "protect": "none"}


def test_a_document_becomes_a_dataclass(driver: Driver) -> None:
    result = driver.run(Script([state("running", 2, 9, seconds_left=3)]), lambda client: client.document("d/1"))
    assert isinstance(result, Document)
    assert (result.sentences.done, result.sentences.total, result.seconds_left) == (2, 9, 3.0)
    assert not result.is_finished


def test_an_id_cannot_lead_to_another_path(driver: Driver) -> None:
    server = Script([state("queued"), state("queued")])
    driver.run(server, lambda client: client.document("../models"))
    assert server.requests[0].url.raw_path == b"/documents/..%2Fmodels"


def test_bytes_need_a_name_and_a_file_must_exist(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="filename"):
        driver.run(Script([]), lambda client: client.upload_document(b"Hello"))
    with pytest.raises(FileNotFoundError):
        driver.run(Script([]), lambda client: client.upload_document(tmp_path / "missing.txt"))


def test_a_document_is_uploaded_awaited_and_fetched(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"Hello.\n")
    server = Script(
        [
            state("queued"),
            state("queued"),
            state("running", 0, 4, seconds_left=30.0),
            state("running", 2, 4, seconds_left=400.0),
            state("done", 4, 4),
            httpx.Response(200, content=b"Hallo.\n"),
        ]
    )
    samples: list[tuple[str, int]] = []
    result = driver.run(
        server,
        lambda client: client.translate_document(
            tmp_path / "a.txt", target="de", progress=lambda item: samples.append((item.status, item.sentences.done))
        ),
    )
    assert result == b"Hallo.\n"
    assert samples == [("queued", 0), ("running", 0), ("running", 2), ("done", 4)]
    assert driver.slept == [0.5, 3.0, 5.0]
    paths = [f"{request.method} {request.url.raw_path.decode()}" for request in server.requests]
    assert paths == ["POST /documents", *["GET /documents/d%2F1"] * 4, "GET /documents/d%2F1/result"]


def test_a_partial_result_is_asked_for(driver: Driver) -> None:
    server = Script([httpx.Response(200, content=b"Hallo"), problem(409, "document_not_done")])
    assert driver.run(server, lambda client: client.document_result("d1", partial=True)) == b"Hallo"
    assert server.requests[0].url.query == b"partial=true"
    with pytest.raises(ProblemError) as caught:
        driver.run(server, lambda client: client.document_result("d1"))
    assert caught.value.code == "document_not_done"
    assert server.requests[1].url.query == b""


def test_a_document_that_failed_says_why(driver: Driver) -> None:
    failed = state("failed", problem={"title": "No", "status": 422, "code": "document_refused", "detail": "macros"})
    with pytest.raises(DocumentFailed, match="macros") as caught:
        driver.run(Script([failed]), lambda client: client.wait_for_document("d/1"))
    assert (caught.value.code, caught.value.status, caught.value.document_id) == ("document_refused", 422, "d/1")


@pytest.mark.parametrize("status", ["cancelled", "failed", "a status of a later version"])
def test_a_document_that_ended_otherwise_is_not_waited_for(status: str, driver: Driver) -> None:
    with pytest.raises(DocumentFailed) as caught:
        driver.run(Script([state(status)]), lambda client: client.wait_for_document("d/1"))
    assert caught.value.code == f"document_{status}"


def test_waiting_has_an_end_and_the_document_does_not(driver: Driver) -> None:
    server = Script([state("running", 1, 9, seconds_left=900.0)] * 4)
    with pytest.raises(TimedOut, match="the service continues"):
        driver.run(server, lambda client: client.wait_for_document("d/1", timeout_s=12.0))
    assert [request.method for request in server.requests] == ["GET"] * 4


def test_a_question_that_fails_while_waiting_is_repeated(driver: Driver) -> None:
    server = Script([state("running"), httpx.ReadTimeout("slow"), problem(503, "not_ready"), state("done")])
    assert driver.run(server, lambda client: client.wait_for_document("d/1")).status == "done"


def test_a_cancellation_is_not_repeated_as_the_second_one_deletes(driver: Driver) -> None:
    server = Script([state("cancelled", 2, 9)])
    assert driver.run(server, lambda client: client.cancel_document("d/1")).status == "cancelled"
    assert server.requests[0].method == "DELETE"
    server = Script([httpx.ReadError("reset")])
    with pytest.raises(ConnectionFailed):
        driver.run(server, lambda client: client.cancel_document("d/1"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_shows_status_and_sentences(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    server = Script([state("queued"), state("running", 3, 9), state("done", 9, 9)])
    driver.run(server, lambda client: client.wait_for_document("d/1"))
    text = shown.getvalue()
    assert "a.txt: queued" in text
    assert "3/9" in text
    assert "a.txt: done: 100%" in text


def test_there_is_no_bar_without_tqdm_or_where_nobody_looks(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = io.StringIO()
    monkeypatch.setattr("sys.stderr", hidden)
    driver.run(Script([state("done", 9, 9)]), lambda client: client.wait_for_document("d/1"))
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    driver.run(Script([state("done", 9, 9)]), lambda client: client.wait_for_document("d/1", progress=False))
    monkeypatch.setitem(sys.modules, "tqdm", None)
    driver.run(Script([state("done", 9, 9)]), lambda client: client.wait_for_document("d/1"))
    assert hidden.getvalue() + terminal.getvalue() == ""


SENTENCE = {
    "number": 1,
    "text": 0,
    "source": "Hello {1}world{/1}.",
    "translation": "Hallo {1}Welt{/1}.",
    "edited": True,
    "confirmed": False,
    "machine_translation": "Tag {1}Welt{/1}.",
    "markers": {"1": ""},
}
COUNTS = {"total": 2, "edited": 1, "confirmed": 0, "expires_at": "2030-01-01T00:00:00Z"}


def test_sentences_of_a_document_are_read_in_pages(driver: Driver) -> None:
    page = {**COUNTS, "filename": "a.md", "source": "en", "target": "de", "sentences": [SENTENCE], "next": 1}
    server = Script([httpx.Response(200, json=page)] * 2)
    result = driver.run(server, lambda client: client.document_sentences("d/1"))
    assert result.sentences == (DocumentSentence(**SENTENCE),)  # type: ignore[arg-type]
    assert (result.next, result.total, result.sentences[0].markers) == (1, 2, {"1": ""})
    driver.run(server, lambda client: client.document_sentences("d/1", after=1, limit=5, only_unconfirmed=True))
    assert [request.url.raw_path for request in server.requests] == [
        b"/documents/d%2F1/sentences",
        b"/documents/d%2F1/sentences?after=1&limit=5&unconfirmed=true",
    ]


def test_only_what_an_edit_changes_is_sent(driver: Driver) -> None:
    server = Script([httpx.Response(200, json={**COUNTS, "sentences": [SENTENCE]})])
    edits = [SentenceEdit(1, "Hallo {1}Welt{/1}."), SentenceEdit(0, confirmed=True)]
    result = driver.run(server, lambda client: client.edit_document("d1", edits))
    assert (result.edited, result.sentences[0].translation) == (1, "Hallo {1}Welt{/1}.")
    (request,) = server.requests
    assert (request.method, request.url.path) == ("PATCH", "/documents/d1/sentences")
    assert json.loads(request.content) == {
        "sentences": [{"number": 1, "translation": "Hallo {1}Welt{/1}."}, {"number": 0, "confirmed": True}]
    }
