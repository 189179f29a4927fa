"""Files in the view "translate"."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.chromium import Watch
from tests.browser.translating import MARKUP, assert_no_markup, choose, open_options, problem
from tests.browser.views import open_view, shown
from tests.server import Server

TEXT = "I bought a new book.\nWhere is the station?\n"
LONG = "\n".join(f"My brother has {number} books and {number + 1} friends." for number in range(4000))


def files(page: Page) -> Locator:
    """The list of files."""
    return page.get_by_role("list", name="Files").get_by_role("listitem")


def text_file(name: str, text: str = TEXT) -> Any:
    """A file to choose."""
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def choose_files(page: Page, *chosen: Any) -> None:
    """Choose files to translate into German."""
    choose(page, "Translate to", "German")
    page.get_by_label("Files to translate").set_input_files(list(chosen))


def downloaded(page: Page, button: Locator) -> tuple[str, str]:
    """Name and content of the file that a button downloads."""
    with page.expect_download() as download:
        button.click()
    return download.value.suggested_filename, Path(download.value.path()).read_text(encoding="utf-8")


def test_a_chosen_file_is_translated_and_downloaded(page: Page) -> None:
    open_view(page)
    choose_files(page, text_file("letter.txt"))
    expect(files(page)).to_contain_text("Translated")
    name, content = downloaded(page, files(page).get_by_role("button", name="Download"))
    assert name == "letter.de.txt"
    assert content == "Ich habe ein neues Buch gekauft.\nWo ist der Bahnhof?\n"
    files(page).get_by_role("button", name="Remove").click()
    expect(files(page)).to_have_count(0)


def test_the_options_are_used_for_files(page: Page, service: Server) -> None:
    open_view(page)
    open_options(page)
    choose(page, "Glossary", "Terms typed here")
    page.get_by_label("Term", exact=True).fill("book")
    page.get_by_label("Its translation").fill("Werk")
    page.get_by_label("Greedy").check()
    choose_files(page, text_file("letter.txt"))
    expect(files(page)).to_contain_text("Translated")
    requests = [json.loads(line) for line in service.lines if '"/documents"' in line]
    assert requests[-1]["decoding"] == "greedy"
    _, content = downloaded(page, files(page).get_by_role("button", name="Download"))
    assert content.startswith("Ich habe ein neues Werk gekauft.")


def test_files_are_dropped_anywhere_and_listed(page: Page) -> None:
    open_view(page)
    choose(page, "Translate to", "German")
    carried = page.evaluate_handle(
        """([text, name]) => {
      const carried = new DataTransfer();
      carried.items.add(new File([text], "first.md"));
      carried.items.add(new File([text], name));
      return carried;
    }""",
        [TEXT, f"{MARKUP}.txt"],
    )
    # A browser would leave the page for a file that misses the view.
    place = page.locator("footer")
    place.dispatch_event("dragover", {"dataTransfer": carried})
    expect(page.locator(".dropping")).to_have_count(1)
    place.dispatch_event("drop", {"dataTransfer": carried})
    expect(page.locator(".dropping")).to_have_count(0)
    expect(files(page).get_by_text("Translated")).to_have_count(2)
    expect(files(page).first).to_contain_text(f"{MARKUP}.txt")
    assert_no_markup(page)


def test_a_running_file_shows_its_progress_and_what_is_translated_of_a_cancelled_one_is_downloaded(page: Page) -> None:
    open_view(page)
    choose_files(page, text_file("long.txt", LONG))
    expect(files(page)).to_contain_text(re.compile(r"[1-9]\d* of 4000 sentences.*left"))
    expect(files(page).get_by_role("progressbar")).to_be_visible()
    assert 0 < files(page).get_by_role("progressbar").evaluate("(bar) => bar.value") < 1
    files(page).get_by_role("button", name="Cancel").click()
    expect(files(page)).to_contain_text(re.compile(r"Cancelled after \d+ of 4000 sentences"))
    _, content = downloaded(page, files(page).get_by_role("button", name="Download translated part"))
    assert content.startswith("Mein Bruder hat")
    assert content.endswith(LONG.splitlines()[-1])


def test_files_that_are_refused_say_why(page: Page, watch: Watch) -> None:
    watch.expect("status of 4")
    open_view(page)
    choose_files(page, text_file("program.exe"), {**text_file("broken.docx"), "buffer": b"no archive"})
    expect(files(page).filter(has_text="program.exe").get_by_role("alert")).to_contain_text("not supported")
    broken = files(page).filter(has_text="broken.docx")
    expect(broken.get_by_role("alert")).not_to_be_empty()
    expect(broken.get_by_role("button", name="Download")).to_have_count(0)
    broken.get_by_role("button", name="Remove").click()
    expect(files(page)).to_have_count(1)


def test_a_file_that_the_service_has_deleted_says_so(page: Page, watch: Watch) -> None:
    watch.expect("404")
    open_view(page)
    detail = "There is no such document."
    page.route("**/documents/*", lambda route: route.fulfill(**problem(404, "document_not_found", detail)))
    choose_files(page, text_file("letter.txt"))
    expect(files(page).get_by_role("alert")).to_have_text(detail)
    expect(files(page).get_by_role("button", name="Cancel")).to_be_hidden()


def test_a_file_is_asked_about_only_while_it_is_translated_and_the_view_is_shown(page: Page) -> None:
    page.clock.install()
    open_view(page)
    calls: list[str] = []
    gate: list[Route] = []
    status = {"status": "running"}

    def answer(route: Route) -> None:
        calls.append(route.request.url)
        if status["status"] == "held":
            gate.append(route)
        else:
            fulfill(route)

    def fulfill(route: Route) -> None:
        body = {
            "id": "1",
            "filename": "letter.txt",
            "sentences": {"done": 1, "total": 2},
            "seconds_left": 100.0,
            "expires_at": "2030-01-01T00:00:00Z",
            **status,
        }
        route.fulfill(json=body)

    page.route("**/documents/*", answer)
    page.route("**/documents", answer)
    choose_files(page, text_file("letter.txt"))
    expect(files(page)).to_contain_text("1 of 2 sentences, about 2 min left")
    # Ever more seldom, every four seconds at last.
    for _ in range(10):
        with page.expect_response("**/documents/1"):
            page.clock.run_for(4000)
    num_asked = len(calls)
    page.clock.run_for(2000)
    assert len(calls) == num_asked

    # The view is left amid a question.
    status["status"] = "held"
    with page.expect_request("**/documents/1"):
        page.clock.run_for(4000)
    page.get_by_role("link", name="Attention", exact=True).click()
    shown(page, "attention")
    status["status"] = "running"
    with page.expect_response("**/documents/1"):
        fulfill(gate[0])
    num_asked = len(calls)
    page.clock.run_for(60_000)
    assert len(calls) == num_asked

    status["status"] = "done"
    page.get_by_role("link", name="Translate", exact=True).click()
    page.clock.run_for(1000)
    expect(files(page)).to_contain_text("Translated")
    num_asked = len(calls)
    page.clock.run_for(60_000)
    assert len(calls) == num_asked


def test_a_file_says_what_will_be_done_with_it_and_follows_its_language_like_a_typed_text(page: Page) -> None:
    open_view(page)
    expect(page.locator(".files")).to_contain_text("Files are translated as chosen above: Detect language →")
    for name, text, languages in (
        ("english.txt", TEXT, "English → German"),
        ("german.md", "Ich habe ein neues Buch gekauft. Wo ist der Bahnhof?\n", "German → English"),
    ):
        page.get_by_label("Files to translate").set_input_files(text_file(name, text))
        expect(files(page).first).to_contain_text(languages)
        expect(files(page).first.get_by_text("Translated", exact=True)).to_be_visible()


def test_the_language_of_a_word_document_is_known_before_it_is_sent(page: Page, watch: Watch) -> None:
    watch.expect("ERR_FAILED")
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document><w:body><w:t>{TEXT}</w:t></w:body></w:document>")
    docx: Any = {**text_file("letter.docx"), "buffer": package.getvalue()}
    open_view(page)
    page.route("**/documents", lambda route: route.abort())
    with page.expect_request("**/documents"):
        page.get_by_label("Files to translate").set_input_files(docx)
    expect(files(page)).to_contain_text("English → German")


def test_a_file_in_another_language_than_the_stated_one_is_noticed(page: Page) -> None:
    open_view(page)
    choose(page, "Translate from", "German")
    page.get_by_label("Files to translate").set_input_files([text_file("letter.txt")])
    expect(files(page)).to_contain_text("German → English")
    expect(files(page)).to_contain_text("The file looks like English.")


def test_a_file_in_the_target_language_or_without_text_is_not_called_translated(page: Page) -> None:
    open_view(page)
    choose(page, "Translate to", "English")
    page.get_by_label("Files to translate").set_input_files(
        [text_file("letter.txt"), text_file("times.txt", "12:30\n")]
    )
    letter, times = (files(page).filter(has_text=name) for name in ("letter.txt", "times.txt"))
    expect(letter).to_contain_text("Already in English, so nothing was translated")
    expect(letter.get_by_role("button", name="Download")).to_be_hidden()
    expect(times).to_contain_text("Nothing to translate")
    letter.get_by_role("button", name="Translate it into German").click()
    expect(letter).to_contain_text("English → German")
    expect(letter.get_by_text("Translated", exact=True)).to_be_visible()


def test_files_and_their_results_survive_a_reload(page: Page) -> None:
    open_view(page)
    choose_files(page, text_file("letter.txt"))
    expect(files(page)).to_contain_text("Translated")
    page.reload()
    expect(files(page)).to_contain_text("English → German")
    _, content = downloaded(page, files(page).get_by_role("button", name="Download"))
    assert content.startswith("Ich habe ein neues Buch gekauft.")
    files(page).get_by_role("button", name="Remove").click()
    expect(files(page)).to_have_count(0)
    page.reload()
    shown(page, "translate")
    expect(files(page)).to_have_count(0)
