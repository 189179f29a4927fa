"""``/v2/glossaries`` and ``/v3/glossaries``, and the use of a stored glossary in both translation routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.glossaries import store as store_module
from model.text.glossary import GlossaryTerm
from tests.app.deepl_requests import ask, message, texts, translate
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

NOWHERE = "96ab91fd-e715-41a1-adeb-5d701f84a483"
ONE: dict[str, Any] = {"name": "Animals", "source_lang": "EN", "target_lang": "DE", "entries": "cat\tKater\ndog\tHund"}
DE_EN = {"source_lang": "de", "target_lang": "en", "entries": "Kater\tcat", "entries_format": "tsv"}
EN_DE = {"source_lang": "en", "target_lang": "de", "entries": "cat,Kater", "entries_format": "csv"}


@pytest.fixture
async def client(service: RoteService) -> AsyncIterator[httpx.AsyncClient]:
    app = rote_app(service)
    async with client_of(app) as client:
        yield client
    app.state.glossaries.close()


async def created(client: httpx.AsyncClient, **fields: Any) -> str:
    response = await ask(client, "POST", "/v2/glossaries", json={**ONE, **fields})
    assert response.status_code == 201, response.text
    return str(response.json()["glossary_id"])


async def created_multilingual(client: httpx.AsyncClient, *dictionaries: dict[str, str]) -> str:
    response = await ask(client, "POST", "/v3/glossaries", json={"name": "Both", "dictionaries": dictionaries})
    assert response.status_code == 201, response.text
    return str(response.json()["glossary_id"])


@pytest.mark.parametrize("form", ["json", "data"])
async def test_a_glossary_is_created_listed_read_and_deleted(client: httpx.AsyncClient, form: str) -> None:
    body = (await ask(client, "POST", "/v2/glossaries", **{form: ONE})).json()
    expected = {"name": "Animals", "ready": True, "source_lang": "en", "target_lang": "de", "entry_count": 2}
    assert expected.items() <= body.items()
    path = f"/v2/glossaries/{body['glossary_id']}"
    assert (await ask(client, "GET", path)).json() == body
    assert (await ask(client, "GET", "/v2/glossaries")).json() == {"glossaries": [body]}
    entries = await ask(client, "GET", f"{path}/entries", headers={"Accept": "text/tab-separated-values"})
    assert entries.text == ONE["entries"]
    assert entries.headers["content-type"].startswith("text/tab-separated-values")
    deleted = await ask(client, "DELETE", path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert deleted.headers["x-trace-id"]
    assert NOWHERE not in message(await ask(client, "GET", path), 404)
    assert (await ask(client, "GET", "/v2/glossaries")).json() == {"glossaries": []}


async def test_glossaries_of_several_pairs_are_changed_pair_by_pair(client: httpx.AsyncClient) -> None:
    path = f"/v3/glossaries/{await created_multilingual(client, DE_EN, EN_DE)}"
    body = (await ask(client, "GET", path)).json()
    assert body["dictionaries"] == [
        {"source_lang": "de", "target_lang": "en", "entry_count": 1},
        {"source_lang": "en", "target_lang": "de", "entry_count": 1},
    ]
    more = {"name": "More", "dictionaries": [{**EN_DE, "entries": "dog,Hund\ncat,Katze"}]}
    changed = (await ask(client, "PATCH", path, json=more)).json()
    assert changed["name"] == "More"
    assert [dictionary["entry_count"] for dictionary in changed["dictionaries"]] == [1, 2]
    languages = {"source_lang": "EN-US", "target_lang": "DE"}
    entries = (await ask(client, "GET", f"{path}/entries", params=languages)).json()
    assert entries == {
        "dictionaries": [
            {
                "source_lang": "en",
                "target_lang": "de",
                "entries": "dog\tHund\ncat\tKatze",
                "entries_format": "tsv",
            }
        ]
    }
    replaced = await ask(client, "PUT", f"{path}/dictionaries", json=EN_DE)
    assert replaced.json() == {"source_lang": "en", "target_lang": "de", "entry_count": 1}
    assert (await ask(client, "DELETE", f"{path}/dictionaries", params=languages)).status_code == 204
    (remaining,) = (await ask(client, "GET", "/v3/glossaries")).json()["glossaries"]
    assert remaining["dictionaries"] == [{"source_lang": "de", "target_lang": "en", "entry_count": 1}]
    assert (await ask(client, "DELETE", path)).status_code == 204


async def test_version_2_knows_glossaries_of_one_pair_only(client: httpx.AsyncClient) -> None:
    several = await created_multilingual(client, DE_EN, EN_DE)
    item = await created_multilingual(client, DE_EN)
    listed = (await ask(client, "GET", "/v2/glossaries")).json()["glossaries"]
    assert [glossary["glossary_id"] for glossary in listed] == [item]
    assert "2 dictionaries" in message(await ask(client, "GET", f"/v2/glossaries/{several}"), 400)
    assert message(await ask(client, "GET", f"/v2/glossaries/{several}/entries"), 400)
    assert (await ask(client, "DELETE", f"/v2/glossaries/{several}")).status_code == 204


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"target_lang": "XX"}, "Unsupported glossary source and target language pair"),
        ({"target_lang": "EN"}, "Unsupported glossary source and target language pair"),
        ({"entries": "cat\tKater\ncat\tKatze"}, "Line 2 of the entries has the same source as an earlier one: 'cat'"),
        ({"entries": ""}, "no entries"),
        ({"entries": "cat"}, "Line 1"),
        ({"entries": ["cat"]}, "entries: must be a string"),
        ({"entries_format": "xls"}, "entries_format: must be"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name: must be a name"),
        ({"name": None}, "name: is required"),
        ({"source_lang": 7}, "source_lang: must be a string"),
    ],
)
async def test_a_wrong_glossary_is_refused_with_the_reason(
    client: httpx.AsyncClient, fields: dict[str, Any], part: str
) -> None:
    assert part in message(await ask(client, "POST", "/v2/glossaries", json={**ONE, **fields}), 400)
    assert (await ask(client, "GET", "/v3/glossaries")).json() == {"glossaries": []}


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"dictionaries": []}, "dictionaries: must have at least 1"),
        ({"dictionaries": [EN_DE, {**EN_DE, "source_lang": "EN-GB"}]}, "en-de twice"),
        ({"dictionaries": [{**EN_DE, "entries": 1}]}, "dictionaries[0].entries: must be a string"),
        ({"dictionaries": "cat"}, "dictionaries: must be a list"),
        ({"name": 1}, "name: must be a string"),
    ],
)
async def test_wrong_dictionaries_are_refused_with_the_reason(
    client: httpx.AsyncClient, fields: dict[str, Any], part: str
) -> None:
    body = {"name": "Both", "dictionaries": [EN_DE], **fields}
    assert part in message(await ask(client, "POST", "/v3/glossaries", json=body), 400)
    path = f"/v3/glossaries/{await created_multilingual(client, EN_DE)}"
    if fields != {"dictionaries": []}:
        assert part in message(await ask(client, "PATCH", path, json=fields), 400)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/glossaries/{id}"),
        ("DELETE", "/v2/glossaries/{id}"),
        ("GET", "/v2/glossaries/{id}/entries"),
        ("GET", "/v3/glossaries/{id}"),
        ("PATCH", "/v3/glossaries/{id}"),
        ("DELETE", "/v3/glossaries/{id}"),
        ("GET", "/v3/glossaries/{id}/entries"),
        ("PUT", "/v3/glossaries/{id}/dictionaries"),
        ("DELETE", "/v3/glossaries/{id}/dictionaries"),
    ],
)
async def test_there_is_no_unknown_glossary(client: httpx.AsyncClient, method: str, path: str) -> None:
    languages = {"source_lang": "en", "target_lang": "de"}
    arguments: dict[str, Any] = {"json": EN_DE} if method == "PUT" else {"params": languages}
    for glossary_id in (NOWHERE, "invalid_glossary_id"):
        assert glossary_id in message(await ask(client, method, path.format(id=glossary_id), **arguments), 404)
    await created(client)
    assert message(await ask(client, method, path.format(id=NOWHERE), **arguments), 404)


async def test_a_full_store_is_an_exceeded_quota(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_GLOSSARIES", 1)
    await created(client)
    assert "1 glossaries" in message(await ask(client, "POST", "/v2/glossaries", json=ONE), 456)


async def test_a_translation_uses_the_terms_that_its_texts_hold(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    glossary_id = await created(client)
    assert texts(await translate(client, text="A dog.", source_lang="EN", glossary_id=glossary_id)) == ["A DOG."]
    assert service.calls[0]["options"].glossary == (GlossaryTerm("dog", "Hund"),)


async def test_of_several_glossaries_the_first_counts(client: httpx.AsyncClient, service: RoteService) -> None:
    first, second = await created(client), await created(client, entries="dog\tKöter\ncow\tKuh")
    for ids in ([first, second], f"{first},{second}"):
        service.calls.clear()
        await translate(client, text="A dog, a cow.", source_lang="EN", glossary_ids=ids)
        assert service.calls[0]["options"].glossary == (GlossaryTerm("dog", "Hund"), GlossaryTerm("cow", "Kuh"))


async def test_a_text_that_is_a_term_is_its_translation(client: httpx.AsyncClient, service: RoteService) -> None:
    glossary_id = await created(client)
    translations = await translate(client, text=["dog", "A dog.", " cat\n"], source_lang="EN", glossary_id=glossary_id)
    assert texts(translations) == ["Hund", "A DOG.", " Kater\n"]
    assert [call["texts"] for call in service.calls] == [["A dog."]]
    assert texts(await translate(client, text="cat", source_lang="EN", glossary_id=glossary_id)) == ["Kater"]
    assert len(service.calls) == 1


async def test_a_glossary_needs_a_source_language_and_the_pair(client: httpx.AsyncClient) -> None:
    glossary_id = await created(client)
    assert "source_lang" in message(await translate(client, text="a", glossary_id=glossary_id), 400)
    fields = {"source_lang": "DE", "target_lang": "EN-US", "glossary_id": glossary_id}
    assert "en-de" in message(await translate(client, text="a", **fields), 400)
    unknown = await translate(client, text="a", source_lang="EN", glossary_id=NOWHERE)
    assert NOWHERE in message(unknown, 404)
    many = await translate(client, text="a", source_lang="EN", glossary_ids=[glossary_id] * 6)
    assert "glossary_ids: must have at most 5" in message(many, 400)


async def native(client: httpx.AsyncClient, path: str = "/translate", **fields: Any) -> httpx.Response:
    body: dict[str, Any] = {"text": "A dog.", "source": "en", "target": "de", **fields}
    return await client.post(path, json=body)


@pytest.mark.parametrize("path", ["/translate", "/attention"])
async def test_verso_s_own_routes_take_the_id_of_a_stored_glossary(
    client: httpx.AsyncClient, service: RoteService, path: str
) -> None:
    glossary_id = await created(client)
    assert (await native(client, path, glossary=glossary_id)).status_code == 200
    assert service.calls[0]["options"].glossary == (GlossaryTerm("dog", "Hund"),)


async def test_the_languages_may_be_left_out_if_the_glossary_has_one_pair(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    item, several = await created(client), await created_multilingual(client, DE_EN, EN_DE)
    assert (await native(client, glossary=item, source=None, target=None)).status_code == 200
    refused = await native(client, glossary=several, source=None, target=None)
    assert (refused.status_code, refused.json()["code"]) == (422, "glossary_pair_missing")
    assert (await native(client, glossary=several)).status_code == 200


async def test_a_wrong_id_of_a_glossary_is_a_problem(client: httpx.AsyncClient) -> None:
    refused = await native(client, glossary=NOWHERE)
    assert (refused.status_code, refused.json()["code"]) == (404, "glossary_not_found")
    refused = await native(client, glossary=await created(client), source="auto")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_glossary")
