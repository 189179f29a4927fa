"""Bad input to every route of DeepL's protocol is refused with its error, and with nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.app.deepl_requests import ask, message
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ROUTES = [
    ("POST", "/v2/translate"),
    ("GET", "/v2/languages"),
    ("POST", "/v2/languages"),
    ("GET", "/v2/usage"),
    ("GET", "/v2/glossary-language-pairs"),
    ("POST", "/v2/glossaries"),
    ("GET", "/v2/glossaries"),
    ("GET", "/v2/glossaries/1"),
    ("GET", "/v2/glossaries/1/entries"),
    ("DELETE", "/v2/glossaries/1"),
    ("POST", "/v3/glossaries"),
    ("GET", "/v3/glossaries"),
    ("GET", "/v3/glossaries/1"),
    ("PATCH", "/v3/glossaries/1"),
    ("DELETE", "/v3/glossaries/1"),
    ("GET", "/v3/glossaries/1/entries"),
    ("PUT", "/v3/glossaries/1/dictionaries"),
    ("DELETE", "/v3/glossaries/1/dictionaries"),
    ("POST", "/v2/document"),
    ("POST", "/v2/document/1"),
    ("POST", "/v2/document/1/result"),
]
MALFORMED = [
    (b"{", JSON),
    (b"[]", JSON),
    (b'{"text": "\\ud800"}', JSON),
    (b'{"text": "\xff"}', JSON),
    (b'{"text": NaN}', JSON),
    (b"text=\xff", FORM),
    (b"text=%FF", FORM),
    (b"&".join([b"a=b"] * 2000), FORM),
    (b"--x\r\n", {"Content-Type": "multipart/form-data; boundary=x"}),
    (b"text", {"Content-Type": "text/plain"}),
]


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    app = rote_app(RoteService())
    yield app
    app.state.glossaries.close()


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_malformed_bodies_are_refused(client: httpx.AsyncClient, method: str, path: str) -> None:
    for content, headers in MALFORMED:
        message(await ask(client, method, path, content=content, headers=headers), 400)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_huge_bodies_are_refused(client: httpx.AsyncClient, method: str, path: str) -> None:
    for headers in (JSON, FORM):
        size = 10_300_000 if path == "/v2/document" else 2_000_001
        message(await ask(client, method, path, content=b"a" * size, headers=headers), 413)


VALID: dict[str, Any] = {"text": "a", "target_lang": "DE"}
WRONG = [
    {"text": 1},
    {"text": []},
    {"text": [1]},
    {"text": {"a": "b"}},
    {"text": "a\0b"},
    {"target_lang": None},
    {"target_lang": "XX"},
    {"target_lang": "FR"},
    {"target_lang": ["DE", "EN"]},
    {"target_lang": "d" * 1000},
    {"source_lang": "XX"},
    {"source_lang": 1},
    {"formality": "rude"},
    {"split_sentences": "2"},
    {"split_sentences": 7},
    {"tag_handling": "json"},
    {"tag_handling_version": "v3"},
    {"preserve_formatting": "perhaps"},
    {"ignore_tags": ["a b"]},
    {"ignore_tags": [1]},
    {"ignore_tags": ["x"] * 101},
    {"show_billed_characters": []},
    {"model_type": "huge"},
    {"context": 1},
    {"glossary_id": "unknown"},
    {"glossary_ids": [1]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_wrong_parameters_are_named(client: httpx.AsyncClient, wrong: dict[str, Any]) -> None:
    response = await ask(client, "POST", "/v2/translate", json={**VALID, **wrong})
    assert next(iter(wrong)).removesuffix("_id") in message(response, 400) or wrong == {"glossary_id": "unknown"}


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("target_lang", "Value for 'target_lang' not supported."),
        ("source_lang", "Value for 'source_lang' not supported."),
    ],
)
async def test_unknown_languages_are_refused_in_the_words_that_clients_look_for(
    client: httpx.AsyncClient, parameter: str, words: str
) -> None:
    for code in ("XX", "FR", "é", "-", "😀", "auto" if parameter == "target_lang" else "12"):
        response = await ask(client, "POST", "/v2/translate", json={**VALID, parameter: code})
        assert message(response, 400) == words


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CODES = st.sampled_from(["EN", "DE", "en-US", "de", "ZH-HANS"]) | st.text(max_size=10)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("source_lang", "target_lang"), CODES | VALUES),
        **dict.fromkeys(("text", "name", "entries"), st.text(max_size=20) | VALUES),
        **dict.fromkeys(("formality", "tag_handling", "ignore_tags", "glossary_id", "glossary_ids"), VALUES),
        "entries_format": st.sampled_from(["tsv", "csv"]) | VALUES,
        "type": st.sampled_from(["source", "target"]) | VALUES,
        "dictionaries": st.lists(
            st.dictionaries(st.sampled_from(["source_lang", "target_lang", "entries"]), CODES | VALUES), max_size=2
        )
        | VALUES,
    },
)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(route=st.sampled_from(ROUTES), body=BODIES, as_form=st.booleans())
async def test_whatever_is_sent_is_answered_or_refused_in_the_form_of_the_protocol(
    app: FastAPI, route: tuple[str, str], body: dict[str, Any], as_form: bool
) -> None:
    received: dict[str, Any] = {"content": json.dumps(body), "headers": JSON}
    if as_form:
        received = {
            "data": {name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
        }
    async with client_of(app) as client:
        response = await ask(client, *route, **received)
    if response.status_code >= 300:
        assert response.status_code < 500
        message(response, response.status_code)
