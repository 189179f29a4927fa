"""``/docs``: the page, which loads nothing from other hosts."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import pytest

from app.http.routes.docs import STATIC
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

ASSET = re.compile(r"""(?:src|href)="([^"]+)\"""")


@pytest.mark.parametrize(("root_path", "path"), [("", "/docs"), ("/verso", "/verso/docs"), ("/verso", "/docs")])
async def test_every_asset_of_the_page_is_served_by_this_process(root_path: str, path: str) -> None:
    async with client_of(rote_app(RoteService(), root_path=root_path)) as client:
        page = await client.get(path)
        assert page.status_code == 200
        assets = ASSET.findall(page.text)
        assert {"static/docs.css", "static/docs-theme.js", "./"} <= set(assets)
        for asset in assets:
            address = urljoin(str(page.url), asset)
            assert address.startswith("http://localhost/")
            assert (await client.get(address)).status_code == 200, asset


async def test_the_content_security_policy_allows_no_other_host() -> None:
    async with client_of(rote_app(RoteService())) as client:
        policy = (await client.get("/docs")).headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "http" not in policy and "*" not in policy


def test_the_page_and_its_script_name_no_other_host() -> None:
    for name in ("docs.html", "docs.css", "docs.js", "docs-theme.js"):
        assert "//" not in re.sub(r"^\s*//.*$", "", (STATIC / name).read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_page_does_not_use_the_online_validator() -> None:
    assert "validatorUrl: null" in (STATIC / "docs.js").read_text(encoding="utf-8")


def test_the_vendored_files_contain_their_licence() -> None:
    vendored: Path = STATIC / "swagger-ui"
    assert "Apache License" in (vendored / "LICENSE").read_text(encoding="utf-8")
    assert (vendored / "NOTICE").is_file() and (vendored / "swagger-ui-bundle.js.LICENSE.txt").is_file()
