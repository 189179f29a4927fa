"""Disks that are full, read-only or fail, under a service that stores documents, glossaries, keys and logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from tests.app.process import Process, running
from tests.faults.machine import Disk, memory_bytes, on_disk_of, on_ext4, require_mounts
from tests.server import ROOT, free_port
from tests.waiting import until

pytestmark = pytest.mark.faults

FIELDS = {"source": "en", "target": "de"}
TEXT = {"text": "good morning", **FIELDS}
GLOSSARY = {"name": "g", "source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
DEEPL = {"Authorization": "DeepL-Auth-Key any"}


@pytest.fixture(autouse=True)
def _mounts() -> None:
    require_mounts()


def add_document(client: httpx.Client, text: str = "hello") -> httpx.Response:
    return client.post("/documents", files={"file": ("a.txt", text)}, data={**FIELDS, "decoding": "greedy"})


def add_glossary(client: httpx.Client) -> httpx.Response:
    entries = "\n".join(f"{'s' * 150}{number}\t{'t' * 150}" for number in range(500))
    return client.post("/v2/glossaries", json={**GLOSSARY, "entries": entries}, headers=DEEPL)


def status_of(client: httpx.Client, sent: httpx.Response) -> Any:
    return client.get(f"/documents/{sent.json()['id']}").json()


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def is_done(client: httpx.Client, sent: httpx.Response) -> bool:
    return bool(status_of(client, sent)["status"] == "done")


def finish_document(client: httpx.Client) -> httpx.Response:
    """Add a document, and wait until it is done."""
    received = add_document(client)
    assert received.status_code == 202, received.text
    until(lambda: is_done(client, received), lambda: "a document")
    return received


def no_trace(process: Process) -> bool:
    """Whether nothing unexpected was logged."""
    return not any("unexpected error" in line or "Traceback" in line for line in process.lines)


@pytest.mark.parametrize("used_before", [False, True])
def test_with_a_full_disk_texts_are_translated_and_documents_and_glossaries_refused(
    tmp_path: Path, used_before: bool
) -> None:
    with running(on_disk_of(tmp_path), VERSO_DATA_DIR=str(tmp_path)) as process, process.new_client() as client:
        process.wait_until_ready()
        if used_before:
            finish_document(client)
            assert add_glossary(client).status_code == 201
        disk = Disk(process, tmp_path)
        disk.fill()
        assert client.post("/translate", json=TEXT).status_code == 200
        assert code_of(add_document(client)) == (507, "storage_full")
        assert add_glossary(client).status_code == 456  # DeepL's: a quota is used up
        if used_before:  # else there is not even room for their table
            assert len(client.get("/v2/glossaries", headers=DEEPL).json()["glossaries"]) == 1
        assert client.post("/translate", json=TEXT).status_code == 200

        disk.free()
        finish_document(client)
        assert add_glossary(client).status_code == 201
        assert no_trace(process)


def test_a_document_in_work_waits_for_room_on_the_disk_and_goes_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    with (
        running(on_disk_of(data), VERSO_DATA_DIR=str(data), FAKE_STEP_GATE=str(gate)) as process,
        process.new_client() as client,
    ):
        process.wait_until_ready()
        paragraphs = [f"paragraph number {number}" for number in range(100)]
        received = add_document(client, "\n\n".join(paragraphs))
        until((gate / "reached").exists, lambda: "a running sentence")
        disk = Disk(process, data)
        disk.fill()
        (gate / "open").touch()
        until(lambda: process.logged("documents wait for the disk"), lambda: "a log line")
        assert status_of(client, received)["status"] == "running"
        disk.free()
        until(lambda: is_done(client, received), lambda: "a document")
        result = client.get(f"/documents/{received.json()['id']}/result").text
        assert result == "\n\n".join(paragraphs).upper()


def test_documents_in_the_temporary_folder_are_refused_before_it_is_full(tmp_path: Path) -> None:
    page = f"<!-- {'x' * 200_000} --><p>hello</p>"

    def add(client: httpx.Client) -> httpx.Response:
        return client.post("/documents", files={"file": ("a.html", page)}, data={**FIELDS, "decoding": "greedy"})

    with running(on_disk_of(tmp_path, "2m"), TMPDIR=str(tmp_path)) as process, process.new_client() as client:
        process.wait_until_ready()
        messages: list[httpx.Response] = []
        while (answer := add(client)).status_code == 202:
            messages.append(answer)
        assert code_of(answer) == (507, "storage_full")
        assert 2 <= len(messages) <= 5  # each keeps its file and the result
        until(lambda: all(is_done(client, item) for item in messages), lambda: "the documents")
        disk = os.statvfs(Disk(process, tmp_path).path)
        assert disk.f_bavail * disk.f_frsize > 50_000
        for item in messages:
            client.delete(f"/documents/{item.json()['id']}").raise_for_status()
        assert add(client).status_code == 202
        assert no_trace(process)


def test_with_a_read_only_disk_texts_are_translated_and_documents_and_glossaries_refused(tmp_path: Path) -> None:
    with running(on_disk_of(tmp_path), VERSO_DATA_DIR=str(tmp_path)) as process, process.new_client() as client:
        process.wait_until_ready()
        disk = Disk(process, tmp_path)
        disk.remount("ro")
        assert client.post("/translate", json=TEXT).status_code == 200
        refused = add_document(client)
        assert code_of(refused) == (503, "storage_unavailable") and "retry-after" in refused.headers
        assert add_glossary(client).status_code == 504  # for 503, which makes some clients of DeepL give up
        assert client.get("/v2/glossaries", headers=DEEPL).status_code == 200
        disk.remount("rw")
        finish_document(client)
        assert add_glossary(client).status_code == 201
        assert no_trace(process)


def test_a_disk_that_fails_under_open_files_is_answered_with_503_and_texts_are_translated(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    image = tmp_path / "image"
    with running(on_ext4(image, folder), VERSO_DATA_DIR=str(folder)) as process, process.new_client() as client:
        process.wait_until_ready()
        finish_document(client)
        assert add_glossary(client).status_code == 201
        disk = Disk(process, folder)
        disk.remount("abort")  # what ext4 does after an error of the device
        assert code_of(add_document(client)) == (503, "storage_unavailable")
        assert add_glossary(client).status_code == 504  # for 503, which makes some clients of DeepL give up
        assert client.post("/translate", json=TEXT).status_code == 200
        assert no_trace(process)


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_start_with_documents_on_such_a_disk_is_orderly(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with running(VERSO_DATA_DIR=str(folder)) as process, process.new_client() as client:
        process.wait_until_ready()
        received = finish_document(client)
    moved = tmp_path / "moved"
    folder.rename(moved)
    folder.mkdir()
    fill = "(cat /dev/zero > filler; true)" if fault == "full" else f"mount -o remount,ro {folder}"
    prepare = ["sh", "-c", f'cd {folder} && cp -r {moved}/. . && {fill} && cd {ROOT} && exec "$0" "$@"']
    with running([*on_disk_of(folder), *prepare], VERSO_DATA_DIR=str(folder)) as process:
        if fault == "read-only":
            assert process.wait() != 0
            assert any("VERSO_DATA_DIR" in line for line in process.lines), process.lines
            return
        with process.new_client() as client:
            process.wait_until_ready()
            assert client.post("/translate", json=TEXT).status_code == 200
            assert client.get(f"/documents/{received.json()['id']}/result").text == "HELLO"
            assert code_of(add_document(client)) == (507, "storage_full")


def test_an_answer_that_cannot_be_counted_is_not_given_and_counting_goes_on_with_room(tmp_path: Path) -> None:
    folder, product = tmp_path / "disk", tmp_path / "made"
    folder.mkdir()
    with closing(KeyStore(product)) as store:
        token = store.create("k", ("translate",), time.time())[1].text
    keys = folder / "keys.sqlite"
    copy = ["sh", "-c", f'cp {product} {keys} && exec "$0" "$@"']
    with (
        running([*on_disk_of(folder, "300k"), *copy], VERSO_KEYS_DB=str(keys)) as process,
        process.new_client() as client,
    ):
        process.wait_until_ready()
        client.headers["Authorization"] = f"Bearer {token}"
        disk = Disk(process, folder)
        disk.fill()
        # The journal that is there already takes some more entries.
        answers = [client.post("/translate", json={**TEXT, "text": f"text {number}"}) for number in range(100)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert refused and {code_of(answer) for answer in refused} == {(503, "accounts_unavailable")}
        assert client.get("/models").status_code == 200  # it needs a key, and counts nothing
        disk.free()
        answers.append(client.post("/translate", json=TEXT))
        assert answers[-1].status_code == 200
        assert no_trace(process)
        copied = tmp_path / "copied"
        for ending in ("", "-wal"):
            Path(f"{copied}{ending}").write_bytes(Path(f"{disk.path / keys.name}{ending}").read_bytes())
    with closing(UsageStore(copied)) as usage:
        assert sum(item.requests for item in usage.all()) == sum(answer.status_code == 200 for answer in answers)


def test_a_service_whose_log_is_on_a_full_disk_answers_logs_again_later_and_ends_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    port = str(free_port())
    redirected = [*on_disk_of(tmp_path), "sh", "-c", f'exec "$0" "$@" 2>>{log}']
    with running(redirected, VERSO_PORT=port) as process:
        disk = Disk(process, tmp_path)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            until(lambda: "ready" in text_of(disk.path / "log"), lambda: "a service that is ready")
            disk.fill()
            for _ in range(200):
                assert client.post("/translate", json=TEXT).status_code == 200
            before = memory_bytes(process)
            for _ in range(1000):
                assert client.get("/nowhere").status_code == 404
            assert memory_bytes(process) - before < 10_000_000
            disk.free()
            size = len(text_of(disk.path / "log"))
            until(
                lambda: client.get("/nowhere").status_code and len(text_of(disk.path / "log")) > size,
                lambda: "further lines of the log",
            )
        disk.fill()
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


@pytest.mark.parametrize("name", ["toy.pt", "toy.verso"])
@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_an_export_to_such_a_disk_ends_with_one_line_and_leaves_no_file(
    tmp_path: Path, toy_checkpoint: Path, name: str, fault: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "model", "export", "--checkpoint", str(toy_checkpoint), "--out", str(out / name)]
    wrap = on_disk_of(out, "64k" if fault == "full" else "1m,ro")
    script = f'"$0" "$@"; code=$?; ls -A {out} >&2; exit $code'
    ran = subprocess.run(
        [*wrap, "sh", "-c", script, *command, "--precision", "float32"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith(f"error: The bundle {out / name} could not be written: ")
