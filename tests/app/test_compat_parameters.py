"""Parameters of compatible protocols in all forms that clients send."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.errors import ServiceError, problem_for
from app.http.compat.parameters import read_parameters
from app.http.form_body import read_form

pytestmark = pytest.mark.anyio

MAX_BYTES = 10_000


class Wanted(BaseModel):
    q: str | list[str]
    number: int = 0


async def answer(request: Request) -> Response:
    try:
        parameters = await read_parameters(request, MAX_BYTES)
        if "check" in parameters.values:
            return JSONResponse(parameters.as_model(Wanted).model_dump())
    except ServiceError as error:
        return JSONResponse({"code": problem_for(error).code, "detail": str(error)})
    files = {name: [file.name, file.content.decode()] for name, file in parameters.files.items()}
    return JSONResponse({**parameters.values, **files})


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


async def ask(client: httpx.AsyncClient, method: str = "POST", **arguments: Any) -> Any:
    return (await client.request(method, "/", **arguments)).json()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_json_forms_multipart_and_queries_give_the_same_fields(client: httpx.AsyncClient, method: str) -> None:
    fields = {"q": "Schöne Grüße & mehr + 😀", "target": "de"}
    for form in ({"json": fields}, {"data": fields}, {"params": fields}, {"files": {"x": (None, "y")}, "data": fields}):
        result = await ask(client, method, **form)
        assert {name: result[name] for name in fields} == fields


async def test_repeated_fields_are_lists_and_the_body_replaces_the_query(client: httpx.AsyncClient) -> None:
    result = await ask(client, params={"a": ["1", "2"], "b": "1"}, data={"b": ["3", "4"], "c": ""})
    assert result == {"a": ["1", "2"], "b": ["3", "4"], "c": ""}


async def test_an_uploaded_file_is_read(client: httpx.AsyncClient) -> None:
    result = await ask(client, files={"file": ("a ä.txt", b"Hello")}, data={"target": "de"})
    assert result == {"file": ["a ä.txt", "Hello"], "target": "de"}


@pytest.mark.parametrize(
    ("request_parts", "code"),
    [
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, "unsupported_media_type"),
        ({"content": b"x"}, "unsupported_media_type"),
        ({"content": b"[1]", "headers": {"content-type": "application/json"}}, "malformed_body"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, "malformed_body"),
        ({"content": b"q=%ff", "headers": {"content-type": "application/x-www-form-urlencoded"}}, "malformed_body"),
        (
            {"content": "q=ä".encode(), "headers": {"content-type": "application/x-www-form-urlencoded"}},
            "malformed_body",
        ),
        ({"data": {"q": "x" * MAX_BYTES}}, "body_too_large"),
        ({"data": {"q": ["x"] * 1_001}}, "malformed_body"),
        ({"params": {"q": ["x"] * 1_001}}, "malformed_body"),
        (
            {"content": b"a=1--", "headers": {"content-type": "multipart/form-data"}},
            "malformed_body",
        ),
        (
            {
                "content": b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nabc',
                "headers": {"content-type": "multipart/form-data; boundary=x"},
            },
            "malformed_body",
        ),
        (
            {
                "content": b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--\r\n',
                "headers": {"content-type": "multipart/form-data; boundary=x"},
            },
            "malformed_body",
        ),
        ({"files": [("a", ("a", b"1")), ("b", ("b", b"1"))]}, "malformed_body"),
        ({"params": {"check": "1", "number": "x"}, "data": {"q": "a"}}, "invalid_request"),
        ({"params": {"check": "1"}, "json": {"number": 1}}, "invalid_request"),
    ],
)
async def test_what_cannot_be_read_is_refused(
    client: httpx.AsyncClient, request_parts: dict[str, Any], code: str
) -> None:
    result = await ask(client, **request_parts)
    assert result["code"] == code, result


async def test_fields_are_checked_against_a_model(client: httpx.AsyncClient) -> None:
    assert await ask(client, data={"check": "1", "q": ["a", "b"], "number": "3"}) == {"q": ["a", "b"], "number": 3}


async def test_an_upload_needs_no_room_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    content = b"x" * 2_000_000
    received = httpx.Request("POST", "http://a", files={"file": ("a.txt", content)})
    request = Request({"type": "http", "headers": [(b"content-type", received.headers["content-type"].encode())]})

    async def body() -> AsyncIterator[bytes]:
        yield received.read()

    assert (await read_form(request, body(), 1, 1)).files["file"].content == content
