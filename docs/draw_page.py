"""Draws docs/images/page-*.png, pictures of the page with the shipped model.

``python -m docs.draw_page``, with NAMES for some of them, from the root of the repository. Needs
Chromium (CONTRIBUTING.md). The pictures have a palette of few colours, so that they are small.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, expect

from app.settings import AUTO
from tests.browser.chromium import Watch, chromium, watched_page
from tests.browser.views import SENTENCE, open_view
from tests.server import served

IMAGES = Path(__file__).with_name("images")
TEXT = f"{SENTENCE} The train to Berlin leaves in ten minutes."

FILE = """# My garden

We bought an old house in the spring. It has a *large* garden, and we want to plant
[roses](https://example.com) there. The neighbours are friendly.

- Water the plants every morning.
- Run `make install` to install the program.
- Do not forget {name}.

My little brother has forgotten his keys.
"""

DESKTOP = (1280, 800)
PHONE = (390, 844)
NUM_COLOURS = 128
MAX_BYTES = 100_000


@dataclass(frozen=True)
class Picture:
    """A picture of the page.

    Args:
        name: Name of the file, without its ending.
        arrange: Brings the page into the state that is pictured.
        viewport: Width and height in CSS pixels.
        theme: The theme of the system.
        scale: Pixels for each CSS pixel.
    """

    name: str
    arrange: Callable[[Page], None]
    viewport: tuple[int, int] = DESKTOP
    theme: Literal["light", "dark"] = "light"
    scale: float = 1.0


def translate(page: Page) -> None:
    """A translated text, its words linked and unsure ones underlined."""
    open_view(page, "translate", text=TEXT)
    expect(page.locator(".linked-details .confidence")).to_be_visible()


def hover(page: Page) -> None:
    """A word of the translation under the mouse, with its counterparts."""
    translate(page)
    page.get_by_role("region", name="Translation", exact=True).get_by_text("Bruder", exact=True).hover()


def explorer(page: Page) -> None:
    """The heads of a sentence, one of them enlarged."""
    open_view(page, "attention", text=SENTENCE)
    page.get_by_role("heading", name="Layers and heads").evaluate("element => element.scrollIntoView()")


def tour(page: Page) -> None:
    """The chapter that computes one head."""
    open_view(page, "tour", text=SENTENCE)
    page.get_by_role("link", name="3. One head, step by step").click()
    heading = page.get_by_role("heading", name="2. Divide by √D, mask, softmax")
    heading.evaluate("element => element.scrollIntoView()")


def edit(page: Page) -> None:
    """A file sentence by sentence: two sentences confirmed, one edited."""
    open_view(page, "translate")
    page.get_by_label("Translate to").select_option(label="German")
    file: FilePayload = {"name": "garden.md", "mimeType": "text/markdown", "buffer": FILE.encode()}
    page.get_by_label("Files to translate").set_input_files(file)
    page.get_by_role("button", name="Edit translation").click()
    fields = page.locator(".edit-list textarea")
    fields.nth(0).press("Control+Enter")
    fields.nth(1).fill("Im Frühling haben wir ein altes Haus gekauft.")
    fields.nth(1).press("Control+Enter")
    fields.nth(3).fill("Die Nachbarn sind sehr freundlich.")
    expect(page.get_by_text("2 of 8 confirmed")).to_be_visible()
    expect(page.get_by_text("Saved")).to_be_visible()


PICTURES = [
    Picture("page-translate", translate),
    Picture("page-edit", edit),
    Picture("page-hover", hover),
    Picture("page-explorer", explorer),
    Picture("page-tour", tour),
    Picture("page-dark", hover, theme="dark"),
    Picture("page-phone", translate, viewport=PHONE),
]


def draw(browser: Browser, address: str, picture: Picture) -> bytes:
    """A picture as a PNG file with a palette.

    Raises:
        SystemExit: The page did something wrong meanwhile, or the picture is too large.
    """
    watch = Watch(address)
    with watched_page(
        browser, watch, viewport=picture.viewport, colour_scheme=picture.theme, device_scale_factor=picture.scale
    ) as page:
        picture.arrange(page)
        screenshot = page.screenshot(animations="disabled", caret="hide")
    file = io.BytesIO()
    with Image.open(io.BytesIO(screenshot)) as image:
        reduced = image.convert("RGB").quantize(NUM_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        reduced.save(file, "png", optimize=True)
    if watch.problems:
        raise SystemExit(f"{picture.name}: {watch.problems}")
    if file.tell() > MAX_BYTES:
        raise SystemExit(f"{picture.name} takes {file.tell()} bytes, more than {MAX_BYTES}.")
    return file.getvalue()


def main(names: list[str]) -> None:
    """Write the named pictures, or all."""
    if unknown := set(names) - {picture.name for picture in PICTURES}:
        raise SystemExit(f"There is no picture {', '.join(sorted(unknown))}.")
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(AUTO), VERSO_DATA_DIR=folder) as server,
        chromium() as browser,
    ):
        address = str(server.client.base_url).rstrip("/")
        for picture in PICTURES:
            if not names or picture.name in names:
                (IMAGES / f"{picture.name}.png").write_bytes(draw(browser, address, picture))


if __name__ == "__main__":
    main(sys.argv[1:])
