"""A power cut: what is on the disk when the memory of the machine is lost.

The service writes to a file system in a file. What the kernel has not yet written to that file, a power cut would lose:
so a copy of the file, taken while nothing is written, is what the next start would find. Mounting the copy lets ext4
repair itself first, as it does after a power cut.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from app.accounts.store import KeyStore
from tests.app.process import Process, running
from tests.faults.machine import on_ext4, require_mounts
from tests.server import ROOT
from tests.waiting import until

pytestmark = pytest.mark.faults

FIELDS = {"source": "en", "target": "de"}
DOCUMENT = "\n\n".join(f"paragraph number {number}" for number in range(20))

FOUND = """
import json, sys
from contextlib import closing
from pathlib import Path
from app.accounts.usage import UsageStore
from app.documents.store import DocumentStore
from app.glossaries.store import GlossaryStore
folder = Path(sys.argv[1])
with closing(UsageStore(folder / "keys.sqlite")) as usage:
    counted = [[one.requests, one.characters] for one in usage.all()]
documents = {}
with closing(DocumentStore(folder / "documents")) as store:
    for id in sys.argv[2:]:
        document = store.get(id)
        if document is not None:
            result = store.result(id).decode() if document.status == "done" else None
            documents[id] = [document.status, store.source(id).decode(), result]
with closing(GlossaryStore(folder)) as store:
    glossaries = len(store.all())
print(json.dumps({"counted": counted, "documents": documents, "glossaries": glossaries}))
"""
"""Prints the contents of the service's stores in a folder."""


def cut(process: Process, image: Path, copy: Path) -> None:
    """Copy the disk as it is at one moment."""
    process.popen.send_signal(signal.SIGSTOP)
    try:
        content = image.read_bytes()
        while (again := image.read_bytes()) != content:  # the kernel was writing
            content = again
    finally:
        process.popen.send_signal(signal.SIGCONT)
    copy.write_bytes(content)


def found_on(copy: Path, folder: Path, ids: list[str]) -> Mapping[str, object]:
    """What the next start finds on a copy of the disk."""
    command = [*on_ext4(copy, folder), sys.executable, "-c", FOUND, str(folder), *ids]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    body: Mapping[str, object] = json.loads(ran.stdout)
    return body


def test_after_a_power_cut_every_answer_is_counted_once_and_every_document_is_there(tmp_path: Path) -> None:
    require_mounts()
    folder, image, product = tmp_path / "disk", tmp_path / "image", tmp_path / "made"
    folder.mkdir()
    with closing(KeyStore(product)) as store:
        token = store.create("k", ("translate", "documents"), time.time())[1].text
    keys = folder / "keys.sqlite"
    prepare = ["sh", "-c", f'cp {product} {keys} && sync -f {folder} && exec "$0" "$@"']
    settings = {"VERSO_KEYS_DB": str(keys), "VERSO_DATA_DIR": str(folder)}
    cuts: list[tuple[Path, int, list[str], list[str], int]] = []
    with running([*on_ext4(image, folder), *prepare], **settings) as process, process.new_client() as client:
        process.wait_until_ready()
        client.headers["Authorization"] = f"Bearer {token}"
        added: list[str] = []
        completed: list[str] = []
        num_answers = num_glossaries = 0

        def remember() -> None:
            copy = tmp_path / f"cut {len(cuts)}"
            cut(process, image, copy)
            cuts.append((copy, num_answers, list(added), list(completed), num_glossaries))

        for number in range(3):
            for _ in range(3):
                client.post("/translate", json={"text": "ten signs.", **FIELDS}).raise_for_status()
                num_answers += 1
            remember()
            response = client.post("/documents", files={"file": ("a.txt", DOCUMENT)}, data=FIELDS)
            added.append(response.raise_for_status().json()["id"])
            remember()
            until(lambda: is_done(client, added[-1]), lambda: "a document that is done")
            completed.append(added[-1])
            glossary = {"name": str(number), "source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
            deepl = {"Authorization": f"DeepL-Auth-Key {token}"}
            client.post("/v2/glossaries", json={**glossary, "entries": "cat\tKatze"}, headers=deepl).raise_for_status()
            num_glossaries = number + 1
            remember()
    for copy, num_answers, added, completed, num_glossaries in cuts:
        finished = found_on(copy, folder, added)
        num_characters = 10 * num_answers + len(added) * sum(map(len, DOCUMENT.split("\n\n")))
        num_requests = num_answers + len(added)
        assert finished["counted"] == ([[num_requests, num_characters]] if num_requests else [])
        assert finished["glossaries"] == num_glossaries
        documents = finished["documents"]
        assert isinstance(documents, dict) and list(documents) == added
        for id, (status, source, result) in documents.items():
            assert source == DOCUMENT
            assert status == "done" or id not in completed
            assert result == (DOCUMENT.upper() if status == "done" else None)


def is_done(client: httpx.Client, id: str) -> bool:
    return bool(client.get(f"/documents/{id}").json()["status"] == "done")
