"""Corrections: confirmed sentences of documents, and what all protocols answer afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.accounts.keyed import bearer, make_key, serving
from tests.app.deepl_requests import ask, texts

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]

EN_DE = {"source": "en", "target": "de"}


async def translated_document(
    client: httpx.AsyncClient, content: bytes, filename: str = "a.txt", **fields: str
) -> dict[str, Any]:
    """The description of a document that is done."""
    added = await client.post("/documents", data={**EN_DE, **fields}, files={"file": (filename, content)})
    assert added.status_code == 202, added.text
    while (document := (await client.get(f"/documents/{added.json()['id']}")).json())["status"] != "done":
        assert document["status"] in ("queued", "running"), document
        await asyncio.sleep(0.01)
    return dict(document)


async def change(client: httpx.AsyncClient, document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Change the first sentence of a document."""
    path = f"/documents/{document['id']}/sentences"
    changed = await client.patch(path, json={"sentences": [{"number": 0, **fields}]})
    assert changed.status_code == 200, changed.text
    return dict(changed.json())


async def stored(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    """All units of all memories."""
    units: list[tuple[str, str]] = []
    for memory in (await client.get("/memories")).json()["memories"]:
        page = (await client.get(f"/memories/{memory['id']}/units")).json()
        units += [(unit["source"], unit["target"]) for unit in page["units"]]
    return units


async def test_a_confirmed_sentence_of_a_document_is_stored_without_markers() -> None:
    async with serving(suggestions="on") as client:
        document = await translated_document(client, b"<p>Press <code>Ctrl+C</code> <b>now</b>.</p>", "a.html")
        changed = await change(client, document, translation="Jetzt {2}bitte{/2} {1}.", confirmed=True)
        assert changed["remembered"] == 1
        assert await stored(client) == [("Press Ctrl+C now.", "Jetzt bitte Ctrl+C.")]


async def test_only_what_is_confirmed_is_stored_and_it_stays() -> None:
    async with serving(suggestions="on") as client:
        document = await translated_document(client, b"Hello.")
        assert (await change(client, document, translation="Hallo."))["remembered"] == 0
        assert await stored(client) == []
        await change(client, document, confirmed=True)
        await change(client, document, translation="Na.")
        assert await stored(client) == [("Hello.", "Hallo.")]
        assert (await change(client, document, confirmed=True))["remembered"] == 1
        assert await stored(client) == [("Hello.", "Na.")]


async def test_nothing_is_stored_unless_the_operator_wants_it() -> None:
    async with serving() as client:
        document = await translated_document(client, b"Hello.")
        assert "remembered" not in await change(client, document, confirmed=True)
        assert await stored(client) == []
        assert "corrections" not in (await client.get("/models")).json()


async def test_a_full_memory_does_not_keep_a_document_from_being_edited() -> None:
    async with serving(suggestions="on", max_memory_bytes_per_key=1_000) as client:
        document = await translated_document(client, b"Hello. " + b"x" * 1_000)
        units = [{"source": "a", "target": "b" * 990}]
        await client.post("/memories/corrections/units", json={"units": units, **EN_DE})
        changed = await change(client, document, translation="Hallo, hallo.", confirmed=True)
        assert (changed["remembered"], changed["confirmed"]) == (0, 1)


async def test_corrections_of_one_key_are_not_those_of_another(tmp_path: Path) -> None:
    keys = tmp_path / "keys.sqlite"
    one, other = make_key(keys), make_key(keys)
    async with serving(suggestions="on", keys_db=keys) as client:
        client.headers.update(bearer(one))
        await change(client, await translated_document(client, b"Hello."), translation="Moin.", confirmed=True)
        for key, expected in ((one, "Moin."), (other, "HELLO.")):
            client.headers.update(bearer(key))
            document = await translated_document(client, b"Hello.", memory="corrections")
            assert (await client.get(f"/documents/{document['id']}/result")).text == expected


async def test_a_confirmed_sentence_comes_back_after_a_restart_on_all_protocols_and_in_a_document(
    tmp_path: Path,
) -> None:
    async with serving(suggestions="on", data_dir=tmp_path) as client:
        document = await translated_document(client, b"Close the lid. Open it.")
        await change(client, document, translation="Deckel zu!", confirmed=True)
    async with serving(suggestions="on", data_dir=tmp_path) as client:
        assert (await client.get("/models")).json()["corrections"] is True
        text, expected = "Sit down. Close the lid.", "SIT DOWN. Deckel zu!"
        native = await client.post("/translate", json={"text": text, **EN_DE, "memory": "corrections"})
        (entry,) = native.json()["translations"]
        assert (entry["text"], [use["status"] for use in entry["memory"]]) == (expected, ["exact"])

        for fields in ({}, {"translation_memory_id": entry["memory"][0]["memory"]}):
            deepl = await ask(
                client,
                "POST",
                "/v2/translate",
                json={"text": [text], "source_lang": "EN", "target_lang": "DE", **fields},
            )
            assert texts(deepl) == [expected]
        libre = await client.post("/libretranslate/translate", json={"q": text, **EN_DE})
        assert libre.json()["translatedText"] == expected

        again = await translated_document(client, text.encode(), memory="corrections")
        assert again["memory"] == {"exact": 1, "steered": 0, "offered": 0}
        assert (await client.get(f"/documents/{again['id']}/result")).text == expected
