"""``/``: the web page, as it is served; ``tests/browser`` uses it."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest

from app.http.routes.page import PAGE
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

ASSET = re.compile(r"""(?:src|href)="([^"#]+)\"""")


@pytest.mark.parametrize(("root_path", "path"), [("", "/"), ("/verso", "/verso/"), ("/verso", "/")])
async def test_every_file_of_the_page_is_served_by_this_process(root_path: str, path: str) -> None:
    async with client_of(rote_app(RoteService(), root_path=root_path)) as client:
        page = await client.get(path)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assets = set(ASSET.findall(page.text))
        assert {"page/main.js", "page/page.css", "docs"} <= assets
        for asset in assets:
            address = urljoin(str(page.url), asset)
            assert address.startswith("http://localhost/")
            assert (await client.get(address)).status_code == 200, asset


async def test_the_page_is_found_without_a_slash_behind_a_proxy() -> None:
    async with client_of(rote_app(RoteService(), root_path="/verso")) as client:
        assert (await client.get("/verso")).headers["location"] == "/verso/"


async def test_the_content_security_policy_allows_no_other_host_and_no_inline_script() -> None:
    async with client_of(rote_app(RoteService())) as client:
        response = await client.get("/")
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "http" not in policy and "*" not in policy and "unsafe" not in policy
    assert "set-cookie" not in response.headers
    assert response.headers["referrer-policy"] == "no-referrer"


async def test_files_of_the_page_are_compressed_and_always_checked_for_a_newer_version() -> None:
    async with client_of(rote_app(RoteService())) as client:
        response = await client.get("/page/main.js", headers={"accept-encoding": "gzip"})
        again = await client.get("/page/main.js", headers={"if-none-match": response.headers["etag"]})
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["cache-control"] == again.headers["cache-control"] == "no-cache"
    assert again.status_code == 304


@pytest.mark.parametrize("name", ["nothing.js", "../limits.py", "%2e%2e/routes/page.py"])
@pytest.mark.parametrize("folder", ["page", "static"])
async def test_only_files_of_the_pages_are_served_as_such(folder: str, name: str) -> None:
    async with client_of(rote_app(RoteService())) as client:
        response = await client.get(f"/{folder}/{name}")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


def test_the_page_names_no_other_host() -> None:
    for path in PAGE.rglob("*.*"):
        if path.suffix in {".html", ".css", ".js", ".svg"}:
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"(?:https?:)?//[a-z]", text), path
