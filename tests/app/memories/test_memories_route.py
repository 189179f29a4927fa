"""``/memories``, and translation memories in ``/translate`` and ``/documents``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.http.event_stream import NDJSON
from tests.app.accounts.keyed import bearer, make_key, serving
from tests.app.memories.test_tmx import HEAD, TAIL, tu

pytestmark = pytest.mark.anyio

EN_DE = {"source": "en", "target": "de"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with serving() as client:
        yield client


async def memory_of(client: httpx.AsyncClient, *pairs: tuple[str, str], **headers: str) -> str:
    created = await client.post("/memories", json={"name": "Manuals", "source": "en"}, headers=headers)
    assert created.status_code == 201, created.text
    memory = str(created.json()["id"])
    if pairs:
        await add(client, memory, *pairs, **headers)
    return memory


async def add(client: httpx.AsyncClient, memory: str, *pairs: tuple[str, str], **headers: str) -> dict[str, Any]:
    units = [{"source": source, "target": target} for source, target in pairs]
    response = await client.post(f"/memories/{memory}/units", json={"units": units, **EN_DE}, headers=headers)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def translated(client: httpx.AsyncClient, text: str | list[str], **fields: Any) -> list[dict[str, Any]]:
    response = await client.post("/translate", json={"text": text, **EN_DE, **fields})
    assert response.status_code == 200, response.text
    return list(response.json()["translations"])


async def test_a_stored_sentence_comes_back_as_it_is_stored(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("Close the lid.", "Deckel – zu!"))
    (entry,) = await translated(client, "One more. Close  the lid. Last one.", memory=memory)
    assert entry["text"] == "ONE MORE. Deckel – zu! LAST ONE."
    (use,) = entry["memory"]
    assert (use["source"], use["status"], use["score"], use["memory"]) == ([10, 25], "exact", 1.0, memory)
    assert (use["stored_source"], use["stored_target"]) == ("Close the lid.", "Deckel – zu!")


async def test_a_text_that_is_stored_as_a_whole_needs_no_model(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("Close it. Open it.", "Auf und zu."))
    entries = await translated(client, ["  Close it. Open it.\n", "", "Other."], memory=[memory])
    assert [entry["text"] for entry in entries] == ["  Auf und zu.\n", "", "OTHER."]
    assert [entry["model"] is None for entry in entries] == [True, False, False]
    assert [len(entry["memory"]) for entry in entries] == [1, 0, 0]
    assert entries[0]["memory"][0]["source"] == [2, 20]


async def test_a_similar_sentence_is_offered(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("Close the lid of the box.", "Schließen Sie die Schachtel."))
    (entry,) = await translated(client, "Close the lid of the bag.", memory=memory)
    assert entry["text"] == "CLOSE THE LID OF THE BAG."
    (use,) = entry["memory"]
    assert (use["status"], use["stored_target"]) == ("offered", "Schließen Sie die Schachtel.")
    assert 0.8 < use["score"] < 1
    assert (await translated(client, "Close the lid of the bag.", memory=memory, memory_threshold=1.0))[0][
        "memory"
    ] == []


async def test_above_a_threshold_a_similar_sentence_steers_the_translation(client: httpx.AsyncClient) -> None:
    memory = await memory_of(
        client,
        ("Close the lid of the box.", "Deckel der BOX schließen."),
        ("Turn the key 3 times to the left.", "Schlüssel 3 Mal links."),
        ("Nothing is known about it.", "Unbekannt."),
    )
    text = "Close the lid of the bag. Turn the key 45 times to the left. Nothing is written about it."
    (entry,) = await translated(client, text, memory=memory, memory_threshold=0.7)
    assert entry["text"] == "Deckel der BAG schließen. Schlüssel 45 Mal links. NOTHING IS WRITTEN ABOUT IT."
    assert [use["status"] for use in entry["memory"]] == ["steered", "steered", "offered"]
    (entry,) = await translated(client, text, memory=memory)
    assert entry["text"] == text.upper()
    assert [use["status"] for use in entry["memory"]] == ["offered"] * 3
    body = {"text": text, **EN_DE, "memory": memory, "memory_threshold": 0.7}
    stream = await client.post("/translate", json=body, headers={"accept": NDJSON})
    events = list(map(json.loads, stream.text.splitlines()))
    assert [event["translation"] for event in events if event["event"] == "sentence"] == [
        "Deckel der BAG schließen.",
        "Schlüssel 45 Mal links.",
        "NOTHING IS WRITTEN ABOUT IT.",
    ]


async def test_without_a_memory_nothing_changes(client: httpx.AsyncClient) -> None:
    await memory_of(client, ("Close the lid.", "Zu!"))
    (entry,) = await translated(client, "Close the lid.")
    assert entry["text"] == "CLOSE THE LID."
    assert "memory" not in entry


async def test_details_of_a_text_with_a_stored_sentence_are_consistent(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("See {name} there.", "Dort."))
    (entry,) = await translated(
        client,
        "A {x} is here. See {name} there. Done {y}.",
        memory=memory,
        return_alignment=True,
        return_confidence=True,
        num_hypotheses=2,
        beam_size=2,
        return_scores=True,
    )
    text = entry["text"]
    assert " Dort. " in text
    assert [text[slice(*span["target"])] for span in entry["integrity"]["spans"]] == ["{x}", "{y}"]
    link = next(link for link in entry["alignment"] if link["source"] == [15, 32])
    assert text[slice(*link["target"])] == "Dort."


async def test_markup_inside_a_sentence_is_kept_and_around_it_is_no_obstacle(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("Close the lid.", "Deckel zu."))
    (entry,) = await translated(
        client, "<p><b>Close the lid.</b></p><p>Close <i>the</i> lid.</p>", format="html", memory=memory
    )
    assert entry["text"] == "<p><b>Deckel zu.</b></p><p>CLOSE <i>THE</i> LID.</p>"
    assert [use["source"] for use in entry["memory"]] == [[6, 20]]


async def test_a_stream_has_stored_sentences_in_order(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("Two.", "Zwei."), ("Three.", "Drei."))
    body = {"text": ["One. Two.", "Two. Three."], **EN_DE, "memory": memory}
    response = await client.post("/translate", json=body, headers={"accept": NDJSON})
    events = list(map(json.loads, response.text.splitlines()))
    sentences = [(event["text"], event["translation"]) for event in events if event["event"] == "sentence"]
    assert sorted(sentences) == [(0, "ONE."), (0, "Zwei."), (1, "Drei."), (1, "Zwei.")]
    assert sentences.index((0, "ONE.")) < sentences.index((0, "Zwei."))
    assert events[-1]["event"] == "done"


async def test_a_document_is_translated_with_a_memory(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, ("Close the lid.", "Deckel zu."))
    files = {"file": ("a.txt", "One. Close the lid.\n\nTwo.")}
    added = await client.post("/documents", data={**EN_DE, "memory": memory}, files=files)
    assert added.status_code == 202, added.text
    path = f"/documents/{added.json()['id']}"
    while (document := (await client.get(path)).json())["status"] in ("queued", "running"):
        await asyncio.sleep(0.02)
    assert document["memory"] == {"exact": 1, "steered": 0, "offered": 0}
    assert (await client.get(f"{path}/result")).text == "ONE. Deckel zu.\n\nTWO."
    refused = await client.post("/documents", data={**EN_DE, "memory": "nowhere"}, files=files)
    assert refused.json()["code"] == "memory_not_found"


async def test_corrections_need_no_memory_before(client: httpx.AsyncClient) -> None:
    assert (await translated(client, "Hello.", memory="corrections"))[0]["memory"] == []
    added = await add(client, "corrections", ("Hello.", "Hallo."))
    assert added["added"] == 1
    assert (await translated(client, "Hello.", memory="corrections"))[0]["text"] == "Hallo."
    (listed,) = (await client.get("/memories")).json()["memories"]
    assert (listed["id"], listed["corrections"], listed["targets"]) == (added["memory"], True, {"de": 1})
    body = {"units": [{"source": "a", "target": "b"}], "target": "de"}
    refused = await client.post("/memories/corrections/units", json=body)
    assert refused.json()["errors"][0]["field"] == "source"


async def test_units_are_listed_deleted_and_looked_up(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client, *((f"Line number {n}.", f"Zeile {n}.") for n in range(3)))
    page = (await client.get(f"/memories/{memory}/units", params={"limit": 2})).json()
    rest = (await client.get(f"/memories/{memory}/units", params={"limit": 2, "after": page["next"]})).json()
    assert [unit["target"] for unit in page["units"] + rest["units"]] == ["Zeile 0.", "Zeile 1.", "Zeile 2."]
    assert rest["next"] is None
    look_up = {"text": "Line number 1.", **EN_DE, "limit": 2}
    found = (await client.post("/memories/matches", json=look_up)).json()["matches"]
    assert [match["score"] == 1.0 for match in found] == [True, False]
    deleted = await client.delete(f"/memories/{memory}/units/{found[0]['unit']}")
    assert deleted.json()["source"] == "Line number 1."
    assert (await client.delete(f"/memories/{memory}/units/{found[0]['unit']}")).status_code == 404
    assert (await client.get(f"/memories/{memory}")).json()["units"] == 2


async def test_a_tmx_file_is_imported_and_exported(client: httpx.AsyncClient) -> None:
    memory = await memory_of(client)
    content = HEAD + tu("Hello.", "Hallo.") + tu("Nothing.", "") + TAIL
    path = f"/memories/{memory}/tmx"
    imported = await client.post(path, content=content.encode())
    assert imported.json() == {"memory": memory, "added": 1, "replaced": 0, "unchanged": 0, "skipped": 1}
    exported = await client.get(path)
    assert "<seg>Hallo.</seg>" in exported.text
    assert exported.headers["content-disposition"].endswith("Manuals.tmx")
    again = await client.post(path, content=exported.content)
    assert again.json()["unchanged"] == 1
    refused = await client.post(path, content=b"<tmx><body>")
    assert (refused.status_code, refused.json()["code"]) == (422, "memory_file_refused")


async def test_a_key_sees_and_erases_only_its_own_memories(tmp_path: Path) -> None:
    keys = tmp_path / "keys.sqlite"
    one, other = bearer(make_key(keys)), bearer(make_key(keys))
    async with serving(keys_db=keys, data_dir=tmp_path / "data") as client:
        mine = await memory_of(client, ("Hello.", "Hallo."), **one)
        theirs = await memory_of(client, ("Hello.", "Servus."), **other)
        body = {"text": "Hello.", **EN_DE}
        for url, field in (("/translate", {"memory": mine}), ("/memories/matches", {"memory": mine})):
            refused = await client.post(url, json={**body, **field}, headers=other)
            assert (refused.status_code, refused.json()["code"]) == (404, "memory_not_found")
        (match,) = (await client.post("/memories/matches", json=body, headers=other)).json()["matches"]
        assert match["target"] == "Servus."
        assert (await client.delete("/memories", headers=one)).json() == {"deleted": 1}
        assert (await client.get("/memories", headers=one)).json() == {"memories": []}
        assert (await client.get(f"/memories/{theirs}", headers=other)).json()["units"] == 1


async def test_a_wrong_request_names_its_field(client: httpx.AsyncClient) -> None:
    for url, body, field in (
        ("/memories", {"name": " ", "source": "en"}, "name"),
        ("/memories", {"name": "x", "source": "e"}, "source"),
        ("/memories/x/units", {"units": [{"source": "a", "target": ""}], "target": "de"}, "units[0].target"),
        ("/translate", {"text": "x", **EN_DE, "memory": []}, "memory"),
        ("/translate", {"text": "x", **EN_DE, "memory": ["a"] * 6}, "memory"),
        ("/translate", {"text": "x", **EN_DE, "memory": "a", "memory_threshold": 0.1}, "memory_threshold"),
    ):
        response = await client.post(url, json=body)
        assert response.status_code == 422, response.text
        assert response.json()["errors"][0]["field"] == field
