"""Hosts that are answered for, and pages of other sites."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.http.origins import ANY, LOOPBACK
from app.main import _hosts
from app.settings import Settings
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

BODY = {"text": "a", "source": "en", "target": "de"}
OTHER = "https://app.example"


async def ask(
    headers: dict[str, str], method: str = "POST", path: str = "/translate", **settings: Any
) -> httpx.Response:
    async with client_of(rote_app(RoteService(), **settings)) as client:
        return await client.request(method, path, headers=headers, json=BODY if method == "POST" else None)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1:80", "127.3.2.1", "[::1]:8000", "a.localhost"]
)
async def test_a_service_on_loopback_answers_for_this_machine(host: str) -> None:
    assert (await ask({"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "192.168.1.5:8000", "localhost.attacker.example", "[::2]", "", "["]
)
@pytest.mark.parametrize("path", ["/translate", "/livez", "/", "/v2/usage", "/libretranslate/languages"])
async def test_a_service_on_loopback_answers_for_no_other_name(host: str, path: str) -> None:
    refused = await ask({"host": host}, "GET" if path != "/translate" else "POST", path)
    assert refused.status_code == 403
    if not path.startswith(("/v2", "/libre")):
        assert refused.json()["code"] == "host_refused"
    assert "VERSO_ALLOWED_HOSTS" in refused.text


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        ("*", "attacker.example", 200),
        ("verso.example", "verso.example:443", 200),
        ("Verso.Example, 10.0.0.5", "verso.example", 200),
        ("verso.example, 10.0.0.5", "10.0.0.5:8000", 200),
        ("*.internal", "a.b.internal", 200),
        ("*.internal", "internal", 403),
        ("*.internal", "ainternal", 403),
        ("verso.example", "localhost", 403),
        ("[2001:db8::1]", "[2001:db8::1]:8000", 200),
    ],
)
async def test_an_operator_names_the_hosts(allowed: str, host: str, status: int) -> None:
    assert (await ask({"host": host}, allowed_hosts=allowed)).status_code == status


@pytest.mark.parametrize(
    ("host", "is_local", "hosts"),
    [
        ("127.0.0.1", True, (LOOPBACK,)),
        ("localhost", True, (LOOPBACK,)),
        ("::1", True, (LOOPBACK,)),
        ("0.0.0.0", True, (ANY,)),
        ("192.168.1.5", True, (ANY,)),
        ("127.0.0.1", False, (ANY,)),
    ],
)
def test_unless_hosts_are_named_the_address_that_is_listened_at_decides(
    host: str, is_local: bool, hosts: tuple[str, ...]
) -> None:
    assert _hosts(Settings(host=host), is_local) == hosts


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin", "origin": "http://localhost"},
        {"sec-fetch-site": "same-origin", "origin": "https://verso.example"},  # behind a proxy that changes Host
        {"sec-fetch-site": "same-origin", "origin": "null"},
        {"sec-fetch-site": "none"},
        {"origin": "http://localhost:8000", "host": "localhost:8000"},
        {"origin": "http://localhost", "host": "localhost:80"},
        {"origin": "https://localhost", "host": "localhost:443"},
        {"origin": "https://LocalHost", "host": "localhost"},
    ],
)
async def test_other_clients_and_the_services_own_page_are_answered(headers: dict[str, str]) -> None:
    assert (await ask(headers)).status_code == 200


CROSS_SITE = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site", "origin": OTHER},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:3000"},
    {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
    {"origin": OTHER},
    {"origin": "null"},
    {"origin": "http://localhost:3000", "host": "localhost:8000"},
    {"origin": "http://[", "host": "localhost"},
    {"origin": "http://localhost:99999", "host": "localhost"},
]


@pytest.mark.parametrize("headers", CROSS_SITE)
@pytest.mark.parametrize(
    "path",
    [
        *("/translate", "/attention", "/documents", "/libretranslate/translate", "/libretranslate/translate_file"),
        *("/v2/translate", "/v2/document", "/v2/glossaries", "/v3/glossaries"),
    ],
)
async def test_a_page_of_another_site_translates_and_changes_nothing(headers: dict[str, str], path: str) -> None:
    service = RoteService()
    async with client_of(rote_app(service)) as client:
        refused = await client.post(path, headers={**headers, "authorization": "DeepL-Auth-Key any"}, json=BODY)
    assert refused.status_code == 403 and "VERSO_CORS_ORIGINS" in refused.text
    assert service.calls == []


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH"])
async def test_other_methods_are_refused_likewise(method: str) -> None:
    assert (await ask({"origin": OTHER}, method, "/documents/a")).json()["code"] == "cross_site_refused"


@pytest.mark.parametrize("path", ["/", "/docs", "/livez", "/models"])
async def test_links_of_other_sites_lead_to_the_page(path: str) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert (await ask(headers, "GET", path)).status_code == 200


@pytest.mark.parametrize("origins", [OTHER, f"https://b.example, {OTHER.upper()}", "*"])
@pytest.mark.parametrize("path", ["/translate", "/libretranslate/translate"])
async def test_configured_sites_may_use_the_service_from_a_browser(origins: str, path: str) -> None:
    body = {**BODY, "q": "a"} if path != "/translate" else BODY
    async with client_of(rote_app(RoteService(), cors_origins=origins)) as client:
        preflight = await client.options(
            path,
            headers={
                "origin": OTHER,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization, content-type",
            },
        )
        answered = await client.post(path, headers={"origin": OTHER, "sec-fetch-site": "cross-site"}, json=body)
        refused = await client.post(path, headers={"origin": "https://evil.example"}, json=body)
    expected = "*" if origins == "*" else OTHER
    assert preflight.status_code == 200 and "POST" in preflight.headers["access-control-allow-methods"]
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    assert preflight.headers["access-control-allow-origin"] == expected
    assert (answered.status_code, answered.headers["access-control-allow-origin"]) == (200, expected)
    assert "X-Request-ID" in answered.headers["access-control-expose-headers"]
    assert refused.status_code == (200 if origins == "*" else 403)


async def test_without_configured_sites_no_answer_may_be_read_by_a_page_of_another_one() -> None:
    for method, path in (("POST", "/translate"), ("GET", "/models"), ("OPTIONS", "/translate"), ("GET", "/docs")):
        answer = await ask({"origin": OTHER, "access-control-request-method": "POST"}, method, path)
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("value", ["http://a", "a b", "a/b", "", ",", "a:80"])
def test_hosts_are_names_and_addresses(value: str) -> None:
    with pytest.raises(ValueError, match="names and addresses"):
        Settings(allowed_hosts=value)


@pytest.mark.parametrize("value", ["a.example", "https://a.example/", "https://", "", "https://a,b"])
def test_origins_have_a_scheme_and_no_path(value: str) -> None:
    with pytest.raises(ValueError, match="origins such as"):
        Settings(cors_origins=value)


async def test_the_refusal_is_in_the_form_of_the_protocol() -> None:
    for path, member in (("/v2/translate", "message"), ("/libretranslate/translate", "error")):
        refused = await ask({"origin": OTHER}, path=path)
        assert "another" not in refused.text and member in json.loads(refused.content)
