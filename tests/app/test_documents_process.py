"""Documents of a process that is killed."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.app.process import running
from tests.hostile.documents import FILES
from tests.waiting import until

pytestmark = pytest.mark.thorough

PARAGRAPHS = [f"number {number} of many." for number in range(60)]


def status_of(client: httpx.Client, id: str) -> dict[str, object]:
    body: dict[str, object] = client.get(f"/documents/{id}").json()
    return body


def num_stored(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "documents" / "documents.sqlite3")) as database:
        number: int = database.execute("SELECT count(*) FROM translations").fetchone()[0]
    return number


def test_a_killed_process_goes_on_where_it_was_and_computes_no_stored_result_again(tmp_path: Path) -> None:
    data = {"VERSO_DATA_DIR": str(tmp_path), "VERSO_CACHE_BYTES": "0"}
    with running(**data, FAKE_STEP_S="0.02") as process, process.new_client() as client:
        process.wait_until_ready()
        response = client.post(
            "/documents",
            files={"file": ("a.txt", "\n\n".join(PARAGRAPHS))},
            data={"source": "en", "target": "de", "decoding": "greedy"},
        )
        id = response.json()["id"]
        until(lambda: status_of(client, id)["sentences"]["done"], lambda: "a finished sentence")  # type: ignore[index]
        process.popen.kill()
        process.wait()
    stored = num_stored(tmp_path)
    assert 0 < stored < len(PARAGRAPHS)
    with running(**data) as process, process.new_client() as client:
        process.wait_until_ready()
        until(lambda: status_of(client, id)["status"] == "done", lambda: "a document that is done")
        assert client.get(f"/documents/{id}/result").text == "\n\n".join(PARAGRAPHS).upper()
        computed = f'verso_sentences_total{{model="fake",outcome="finished"}} {len(PARAGRAPHS) - stored}.0'
        assert computed in client.get("/metrics").text


def test_a_folder_that_another_process_uses_ends_the_start(tmp_path: Path) -> None:
    data = {"VERSO_DATA_DIR": str(tmp_path)}
    with running(**data) as process, process.new_client() as client:
        process.wait_until_ready()
        fields = {"source": "en", "target": "de"}
        assert client.post("/documents", files={"file": ("a.txt", "a")}, data=fields).status_code == 202
        with running(**data) as second:
            assert second.wait() != 0
            assert any("VERSO_DATA_DIR" in line for line in second.lines), second.lines


def test_a_service_answers_while_hostile_files_are_read(tmp_path: Path) -> None:
    by_id = {file.id: file for file in FILES}
    hostile = {
        "a.txt": b" " * 10_000_000,
        "a.srt": by_id["srt: a tag that does not end"].make(1_000_000),
        "a.csv": b'a,"b",c\n' + b'"' * 1_000 + b"x",
        "a.xliff": by_id["xliff: nested units"].make(3_000_000),
        "a.docx": by_id["docx: empty elements"].make(30_000_000),
        "b.docx": by_id["docx: other runs"].make(10_000_000),
    }
    with running(VERSO_DATA_DIR=str(tmp_path)) as process, process.new_client() as client:
        process.wait_until_ready()

        def send(name: str) -> tuple[int, str]:
            fields = {"source": "en", "target": "de"}
            response = client.post("/documents", files={"file": (name, hostile[name])}, data=fields, timeout=300)
            return response.status_code, response.json().get("code", "")

        with ThreadPoolExecutor() as pool:
            answers = [pool.submit(send, name) for name in hostile]
            slowest_s = 0.0
            while not all(answer.done() for answer in answers):
                began = time.monotonic()
                assert client.get("/livez").status_code == 200
                slowest_s = max(slowest_s, time.monotonic() - began)
                time.sleep(0.02)
        refusals = {"document_refused", "document_too_complex"}
        assert all(status == 202 or (status == 422 and code in refusals) for status, code in map(_result, answers))
        assert slowest_s < 5  # the loop was blocked for minutes
        assert process.popen.poll() is None


def _result(answer: Future[tuple[int, str]]) -> tuple[int, str]:
    return answer.result()
