"""Documents of a process that is killed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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
        "a.txt": b" " * 3_000_000,
        "a.srt": by_id["srt: a tag that does not end"].make(300_000),
        "a.csv": b'a,"b",c\n' + b'"' * 1_000 + b"x",
        "a.xliff": by_id["xliff: nested units"].make(400_000),
        "a.docx": by_id["docx: empty elements"].make(2_000_000),
        "b.docx": by_id["docx: other runs"].make(200_000),
    }
    with running(VERSO_DATA_DIR=str(tmp_path)) as process, process.new_client() as client:
        process.wait_until_ready()
        # An answer that waits for the largest file takes half of the time. Others use the machine: the least of three.
        assert any(share_of_the_slowest_answer(client, hostile) < 0.3 for _ in range(3))
        assert process.popen.poll() is None


def share_of_the_slowest_answer(client: httpx.Client, files: Mapping[str, bytes]) -> float:
    """What share of the time in which files are sent and read the slowest answer to another request takes."""

    def send(name: str) -> tuple[int, str]:
        fields = {"source": "en", "target": "de"}
        response = client.post("/documents", files={"file": (name, files[name])}, data=fields, timeout=300)
        return response.status_code, response.json().get("code", "")

    with ThreadPoolExecutor() as pool:
        began = time.monotonic()
        answers = [pool.submit(send, name) for name in files]
        slowest_s = 0.0
        while not all(answer.done() for answer in answers):
            start = time.monotonic()
            assert client.get("/livez").status_code == 200
            slowest_s = max(slowest_s, time.monotonic() - start)
            time.sleep(0.01)
        total_s = time.monotonic() - began
    refusals = {"document_refused", "document_too_complex"}
    for answer in answers:
        status, code = answer.result()
        assert status == 202 or (status == 422 and code in refusals)
    return slowest_s / total_s
