"""The page of a service with keys."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from app.settings import AUTO
from tests.app.accounts.keyed import make_key, used
from tests.browser.chromium import Watch, watched_page
from tests.browser.translating import translation
from tests.browser.views import open_view
from tests.server import served


def test_the_page_loads_without_a_key_asks_for_one_and_then_works(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    token = make_key(path)
    with served(Path(AUTO), VERSO_KEYS_DB=str(path)) as service:
        watch = Watch(str(service.client.base_url).rstrip("/"))
        watch.expect(r"401 \(Unauthorized\)")
        with watched_page(browser, watch) as page:
            page.goto("/")
            dialog = page.get_by_role("dialog", name="This service needs a key")
            expect(dialog).to_contain_text("This service needs a key")
            expect(dialog).to_contain_text("Whoever runs this service has given you a key")
            dialog.get_by_label("API key").fill("vk_wrong")
            dialog.get_by_role("button", name="Use the key").click()
            expect(dialog).to_contain_text("The service does not know this key.")
            expect(dialog).not_to_contain_text("Authorization")
            dialog.get_by_label("API key").fill(token)
            dialog.get_by_role("button", name="Use the key").click()
            expect(page.get_by_label("Text to translate")).to_be_visible()
            open_view(page, text="Where is the station?")
            expect(translation(page)).to_contain_text("Bahnhof")
        assert not watch.unexpected(), "\n".join(watch.unexpected())
    assert used(path)[0] >= len("Where is the station?")
