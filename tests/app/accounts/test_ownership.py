"""Documents and glossaries belong to the key that created them; older ones have no owner."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.accounts.usage import UsageStore
from app.documents.document import DATABASE, Document
from app.documents.store import DocumentStore
from app.errors import GlossaryNotFound
from app.glossaries.store import FILE_NAME, Dictionary, GlossaryStore
from model.text.glossary import GlossaryTerm
from tests.app.accounts.keyed import bearer, make_key, serving, used

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]

FIELDS = {"source": "en", "target": "de", "decoding": "greedy"}
TERMS = {"source_lang": "en", "target_lang": "de", "entries": "cat\tKatze", "entries_format": "tsv"}


def deepl_key(token: str) -> dict[str, str]:
    return {"authorization": f"DeepL-Auth-Key {token}"}


async def done(client: httpx.AsyncClient, id: str, headers: dict[str, str]) -> dict[str, Any]:
    while True:
        await asyncio.sleep(0.01)
        body: dict[str, Any] = (await client.get(f"/documents/{id}", headers=headers)).json()
        if body["status"] not in ("queued", "running"):
            return body


async def add(client: httpx.AsyncClient, headers: dict[str, str], text: str = "hello") -> httpx.Response:
    return await client.post("/documents", files={"file": ("a.txt", text.encode())}, data=FIELDS, headers=headers)


async def test_a_document_belongs_to_its_key_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    mine, others = bearer(make_key(path)), bearer(make_key(path))
    async with serving(keys_db=path, data_dir=tmp_path / "data") as client:
        id = (await add(client, mine)).json()["id"]
        assert (await done(client, id, mine))["status"] == "done"
        assert used(path) == (5, 1)
        for method, url in (("GET", ""), ("GET", "/result"), ("GET", "/result?partial=true"), ("DELETE", "")):
            refused = await client.request(method, f"/documents/{id}{url}", headers=others)
            assert (refused.status_code, refused.json()["code"]) == (404, "document_not_found")
            assert (await client.request(method, f"/documents/{id}{url}")).status_code == 401
        assert [item["id"] for item in (await client.get("/documents", headers=mine)).json()["documents"]] == [id]
        assert (await client.get("/documents", headers=others)).json()["documents"] == []
        assert (await client.get("/documents", params={"after": id}, headers=others)).status_code == 404
        assert (await client.get(f"/documents/{id}/result", headers=mine)).text == "HELLO"
        assert (await client.delete(f"/documents/{id}", headers=mine)).status_code == 200


async def test_documents_are_listed_in_pages_with_the_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path))
    async with serving(keys_db=path, data_dir=tmp_path / "data") as client:
        assert (await client.get("/documents", headers=headers)).json() == {"documents": [], "next": None}
        ids = [(await add(client, headers)).json()["id"] for _ in range(3)]
        await asyncio.gather(*(done(client, id, headers) for id in ids))
        first = (await client.get("/documents?limit=2", headers=headers)).json()
        assert [(item["id"], item["filename"], item["status"]) for item in first["documents"]] == [
            (ids[2], "a.txt", "done"),
            (ids[1], "a.txt", "done"),
        ]
        rest = (await client.get("/documents", params={"limit": 2, "after": first["next"]}, headers=headers)).json()
        assert ([item["id"] for item in rest["documents"]], rest["next"]) == (ids[:1], None)
        assert (await client.get("/documents?after=none", headers=headers)).status_code == 404


async def test_a_document_beyond_the_quota_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path, characters_per_month=7))
    async with serving(keys_db=path, max_documents=1) as client:
        refused = await add(client, headers, "too many characters")
        assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
        assert (await add(client, headers)).status_code == 202  # it has room, and characters are left
        assert used(path) == (5, 1)


async def test_a_repeated_request_is_answered_with_the_same_document_and_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    token = make_key(path)
    headers = {name: bearer(token, idempotency_key=name) for name in ("one", "two")}
    async with serving(keys_db=path, max_documents_per_key=2) as client:
        first, again = await asyncio.gather(*(add(client, headers["one"]) for _ in range(2)))
        assert (first.status_code, again.status_code) == (202, 202)
        id = first.json()["id"]
        assert again.json()["id"] == id
        assert (await add(client, headers["one"], "changed")).json()["code"] == "invalid_idempotency_key"
        assert (await add(client, bearer(token), "another")).json()["id"] != id
        repeated = await add(client, headers["one"])  # although there is no room for a new one
        assert (repeated.status_code, repeated.json()["id"]) == (202, id)
        assert (await add(client, headers["two"])).json()["code"] == "documents_full"
        assert used(path) == (12, 2)


async def test_a_request_of_another_key_with_the_same_id_has_a_document_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    mine, others = (bearer(make_key(path), idempotency_key="same") for _ in range(2))
    async with serving(keys_db=path) as client:
        ids = [(await add(client, headers)).json()["id"] for headers in (mine, others)]
        assert ids[0] != ids[1]
        body = {"source_lang": "EN", "target_lang": "DE"}
        file = {"file": ("a.txt", b"hello")}
        key = {**deepl_key(mine["authorization"].split()[1]), "idempotency-key": "deepl"}
        added = [(await client.post("/v2/document", files=file, data=body, headers=key)).json() for _ in range(2)]
        assert added[0] == added[1]


async def test_a_document_that_cannot_be_counted_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = tmp_path / "keys.sqlite", tmp_path / "data" / "documents"
    headers = bearer(make_key(path), idempotency_key="one")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with serving(keys_db=path, data_dir=tmp_path / "data", max_documents=1) as client:
        with monkeypatch.context() as patched:
            patched.setattr(UsageStore, "settle_all", full)
            refused = await add(client, headers)
            assert (refused.status_code, refused.json()["code"]) == (503, "accounts_unavailable")
        assert not [file for file in folder.iterdir() if file.suffix == ".source"]
        added = await add(client, headers)  # there is room
        assert added.status_code == 202
        with monkeypatch.context() as patched:
            patched.setattr(UsageStore, "settle_all", full)
            assert (await add(client, headers)).status_code == 503
        assert (await done(client, added.json()["id"], headers))["status"] == "done"  # it was counted before
        assert used(path) == (5, 1)


async def test_documents_of_the_compatible_protocols_belong_to_their_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    mine, others = make_key(path), make_key(path)
    async with serving(keys_db=path) as client:
        file = {"file": ("a.txt", b"hello")}
        data = {"target_lang": "DE", "source_lang": "EN"}
        added = await client.post("/v2/document", files=file, data=data, headers=deepl_key(mine))
        body = added.json()
        url, key = f"/v2/document/{body['document_id']}", {"document_key": body["document_key"]}
        assert (await client.post(url, json=key, headers=deepl_key(others))).status_code == 404
        assert (await client.post(f"{url}/result", json=key, headers=deepl_key(others))).status_code == 404
        assert (await client.post(url, json=key, headers=deepl_key(mine))).status_code == 200
        libre = {"source": "en", "target": "de", "api_key": mine}
        translated = await client.post("/libretranslate/translate_file", files=file, data=libre)
        assert translated.status_code == 200, translated.text
        # The address is itself the permission, as clients open it without a key.
        assert (await client.get(translated.json()["translatedFileUrl"])).text == "HELLO"
        id = translated.json()["translatedFileUrl"].rpartition("/")[2].partition(".")[0]
        assert (await client.get(f"/documents/{id}", headers=bearer(mine))).status_code == 200
        assert (await client.get(f"/documents/{id}", headers=bearer(others))).status_code == 404


async def test_a_glossary_belongs_to_its_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    mine, others = make_key(path), make_key(path)
    async with serving(keys_db=path, data_dir=tmp_path / "data") as client:
        response = await client.post("/v2/glossaries", json={"name": "Animals", **TERMS}, headers=deepl_key(mine))
        id = response.json()["glossary_id"]
        for url in ("/v2/glossaries", "/v3/glossaries"):
            assert len((await client.get(url, headers=deepl_key(mine))).json()["glossaries"]) == 1
            assert (await client.get(url, headers=deepl_key(others))).json()["glossaries"] == []
            assert (await client.get(f"{url}/{id}", headers=deepl_key(others))).status_code == 404
            assert (await client.delete(f"{url}/{id}", headers=deepl_key(others))).status_code == 404
        changed = await client.patch(f"/v3/glossaries/{id}", json={"name": "x"}, headers=deepl_key(others))
        replaced = await client.put(f"/v3/glossaries/{id}/dictionaries", json=TERMS, headers=deepl_key(others))
        assert (changed.status_code, replaced.status_code) == (404, 404)
        request = {"text": "a cat", "source": "en", "target": "de", "glossary": id}
        refused = await client.post("/translate", json=request, headers=bearer(others))
        assert (refused.status_code, refused.json()["code"]) == (404, "glossary_not_found")
        assert (await client.post("/translate", json=request, headers=bearer(mine))).status_code != 404
        assert (await client.delete(f"/v3/glossaries/{id}", headers=deepl_key(mine))).status_code == 204


def test_a_file_of_glossaries_without_owners_is_opened_and_belongs_to_nobody(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as old, old:
        old.executescript(
            "CREATE TABLE glossaries (id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL);"
            "CREATE TABLE dictionaries (position INTEGER PRIMARY KEY, glossary TEXT NOT NULL "
            "REFERENCES glossaries (id) ON DELETE CASCADE, source TEXT NOT NULL, target TEXT NOT NULL, "
            "num_terms INTEGER NOT NULL, num_characters INTEGER NOT NULL, terms TEXT NOT NULL, "
            "UNIQUE (glossary, source, target));"
            "INSERT INTO glossaries VALUES ('1', 'Old', '2026-01-31T08:15:00.123Z');"
            "INSERT INTO dictionaries VALUES (1, '1', 'en', 'de', 1, 9, 'cat\tKatze');"
        )
    store = GlossaryStore(tmp_path)
    assert [item.name for item in store.all()] == ["Old"]
    assert [item.name for item in store.owned_by("").all()] == ["Old"]
    assert store.owned_by("key").all() == []
    assert store.dictionary("1", "en", "de").terms == (GlossaryTerm("cat", "Katze"),)
    with pytest.raises(GlossaryNotFound):
        store.owned_by("key").get("1")
    store.close()
    again = GlossaryStore(tmp_path)  # the second time there is nothing to add
    new = again.owned_by("key").create("New", [Dictionary("en", "de", (GlossaryTerm("dog", "Hund"),))])
    assert again.owned_by("key").all() == [new]
    assert len(again.all()) == 2
    again.close()


def test_a_folder_of_documents_without_owners_is_opened_and_they_belong_to_nobody(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as old, old:
        old.executescript(
            "CREATE TABLE documents (id TEXT PRIMARY KEY, filename TEXT NOT NULL, source TEXT NOT NULL, "
            "target TEXT NOT NULL, options TEXT NOT NULL, status TEXT NOT NULL, num_characters INTEGER NOT NULL, "
            "created_at REAL NOT NULL, expires_at REAL NOT NULL, num_done INTEGER NOT NULL, num_sentences INTEGER, "
            "num_left INTEGER NOT NULL, problem TEXT);"
            "CREATE TABLE translations (document TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE, "
            "unit INTEGER NOT NULL, text TEXT, PRIMARY KEY (document, unit)) WITHOUT ROWID;"
            "INSERT INTO documents VALUES ('1', 'a.txt', 'en', 'de', '{}', 'done', 5, 0, 9, 1, 1, 0, NULL);"
        )
    for _ in range(2):
        store = DocumentStore(tmp_path)
        expected = Document("1", "a.txt", "en", "de", "{}", "done", 5, 0.0, 9.0, num_done=1, num_sentences=1)
        assert store.get("1") == expected
        assert expected.owner == ""
        store.close()
