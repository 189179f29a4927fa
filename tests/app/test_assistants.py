"""Tools for AI assistants, called by the client of the protocol's SDK, over HTTP and over standard input and output."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from app.main import create_app
from app.settings import Settings
from tests.app.accounts.keyed import make_key
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.wire import exchange, fake_app, listening, request
from tests.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_file_processes")]


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    async with listening(fake_app(mcp="on", data_dir=tmp_path)) as port:
        yield port


@asynccontextmanager
async def assistant(port: int, key: str | None = None) -> AsyncIterator[Client]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)) as client,
    ):
        yield client


def count(app: FastAPI, outcome: str) -> float:
    labels = {"model": "fake", "outcome": outcome}
    return app.state.metrics.registry.get_sample_value("verso_sentences_total", labels) or 0.0


def requests(app: FastAPI, route: str, status: str) -> float:
    labels = {"route": route, "method": "POST", "status": status}
    return app.state.metrics.registry.get_sample_value("verso_requests_total", labels) or 0.0


def said(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def answer(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, said(result)
    assert result.structured_content is not None
    return result.structured_content


async def test_an_assistant_is_told_the_tools_and_their_arguments(port: int) -> None:
    async with assistant(port) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [
        "translate",
        "translate_document",
        "detect_language",
        "list_languages",
        "look_up_term",
        "look_up_translation",
    ]
    for tool in tools.values():
        assert tool.description
    schema = tools["translate"].input_schema
    assert schema["required"] == ["texts", "target"]
    assert "ctx" not in schema["properties"]


async def test_an_assistant_translates_texts_with_terms(port: int) -> None:
    async with assistant(port) as client:
        result = await answer(client, "translate", texts=["good morning", "%s files"], source="en", target="de")
        assert result == {"translations": ["GOOD MORNING", "%s FILES"], "sources": ["en", "en"], "untranslated": 0}
        result = await answer(
            client, "translate", texts=["a house"], source="en", target="de", glossary={"house": "Bau"}
        )
    assert "Bau" in result["translations"][0]


async def test_the_form_of_address_that_an_assistant_chooses_reaches_the_model(port: int) -> None:
    async with assistant(port) as client:
        refused = await client.call_tool("translate", {"texts": ["hi"], "target": "de", "formality": "more"})
        assert refused.is_error, "the service has other words for it"
        for formality in ("formal", "informal"):
            result = await client.call_tool(
                "translate", {"texts": ["hi"], "source": "en", "target": "de", "formality": formality}
            )
            assert "this model supports forms of address in no language" in said(result)


async def test_an_assistant_is_told_which_of_several_texts_was_not_translated(port: int) -> None:
    texts = ["<b>good morning</b>", "<b>good morning"]
    async with assistant(port) as client:
        result = await client.call_tool("translate", {"texts": texts, "source": "en", "target": "de", "format": "xml"})
    assert result.is_error
    assert "Text 2 was not translated: The markup cannot be read" in said(result)


async def test_an_assistant_translates_a_document_and_leaves_none_behind(port: int) -> None:
    content = base64.b64encode(b"good morning\n").decode()
    async with assistant(port) as client:
        result = await answer(client, "translate_document", filename="a.txt", content=content, source="en", target="de")
        assert base64.b64decode(result["content"]) == b"GOOD MORNING\n"
        refused = await client.call_tool("translate_document", {"filename": "a.txt", "content": "?", "target": "de"})
    assert refused.is_error
    assert "base64" in said(refused)


async def test_an_assistant_detects_and_lists_languages(port: int) -> None:
    async with assistant(port) as client:
        assert (await answer(client, "detect_language", text="Guten Morgen, wie geht es Ihnen?"))["language"] == "de"
        assert await answer(client, "detect_language", text="12:30") == {"language": None, "confidence": 0}
        languages = (await answer(client, "list_languages"))["result"]
    assert languages == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["de", "en"]},
    ]


async def test_an_assistant_looks_stored_translations_up_and_uses_them(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as http:
        units = [{"source": "Close the lid.", "target": "Deckel zu."}]
        stored = await http.post("/memories/corrections/units", json={"units": units, "source": "en", "target": "de"})
        assert stored.status_code == 200, stored.text
    pair = {"source": "en", "target": "de"}
    async with assistant(port) as client:
        found = (await answer(client, "look_up_translation", text="Close the lids.", **pair))["result"]
        used = await answer(client, "translate", texts=["Close the lid."], memory="corrections", **pair)
    assert [match["target"] for match in found] == used["translations"] == ["Deckel zu."]


async def test_an_assistant_looks_terms_up_in_the_stored_glossaries(port: int) -> None:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as http:
        form = {"name": "shop", "source_lang": "en", "target_lang": "de", "entries_format": "tsv"}
        stored = await http.post(
            "/v2/glossaries",
            headers={"Authorization": "DeepL-Auth-Key any"},
            json={**form, "entries": "cart\tWarenkorb\nshopping cart\tEinkauf\n"},
        )
        assert stored.status_code == 201, stored.text
        glossary_id = stored.json()["glossary_id"]
    async with assistant(port) as client:
        found = (await answer(client, "look_up_term", term="CART", source="en", target="de"))["result"]
        nothing = (await answer(client, "look_up_term", term="cart", source="de", target="en"))["result"]
        used = await answer(client, "translate", texts=["my cart"], source="en", target="de", glossary=glossary_id)
    assert [(term["source"], term["target"]) for term in found] == [("cart", "Warenkorb"), ("shopping cart", "Einkauf")]
    assert found[0]["glossary"] == "shop"
    assert nothing == []
    assert "Warenkorb" in used["translations"][0]


async def test_an_error_of_the_service_reaches_the_assistant_in_its_words(port: int) -> None:
    async with assistant(port) as client:
        refused = await client.call_tool("translate", {"texts": ["hello"], "source": "en", "target": "fr"})
    assert refused.is_error
    assert "fr" in said(refused)
    assert "de" in said(refused), "it names the targets that exist"


async def test_an_assistant_needs_a_key_where_all_need_one(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    key, other = make_key(path, "translate"), make_key(path, "documents")
    async with listening(fake_app(mcp="on", keys_db=path)) as port:
        (refused,) = await exchange(port, request("POST", "/mcp", "Host: localhost", body=b"{"))
        assert refused.status == 401
        async with assistant(port, key) as client:
            assert (await answer(client, "translate", texts=["hi"], source="en", target="de"))["translations"] == ["HI"]
        async with assistant(port, other) as client:
            result = await client.call_tool("translate", {"texts": ["hi"], "source": "en", "target": "de"})
    assert result.is_error
    assert "scope" in said(result)


async def test_a_sentence_whose_assistant_left_is_not_decoded() -> None:
    translator = FakeTranslator()
    app = create_app(Settings(**BUDGET, mcp="on"), FakeBundles(translator))
    translator.step_gate.clear()
    async with listening(app) as port:
        async with assistant(port) as client:
            call = asyncio.create_task(client.call_tool("translate", {"texts": ["hi"], "source": "en", "target": "de"}))
            await eventually(translator.stepping.is_set)
            call.cancel()
        await eventually(lambda: requests(app, "/translate", "499") == 1)
        translator.step_gate.set()
        await eventually(lambda: count(app, "cancelled") == 1)
    assert count(app, "finished") == 0


async def test_a_service_without_the_setting_has_no_route_for_assistants() -> None:
    async with listening(fake_app()) as port:
        (refused,) = await exchange(port, request("POST", "/mcp", "Host: localhost", body=b"{}"))
    assert refused.status == 404


async def test_an_assistant_on_this_machine_translates_files_through_a_service(port: int, tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("good morning\n")
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from app.commands.main import main; main()", "mcp", "--server", f"http://127.0.0.1:{port}"],
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    async with Client(stdio_client(command)) as client:
        arguments = {"path": str(letter), "source": "en", "target": "de"}
        result = await client.call_tool("translate_file", arguments)
        assert said(result) == str(tmp_path / "letter.de.txt")
        again = await client.call_tool("translate_file", arguments)
    assert (tmp_path / "letter.de.txt").read_text() == "GOOD MORNING\n"
    assert again.is_error
    assert "overwritten" in said(again)
