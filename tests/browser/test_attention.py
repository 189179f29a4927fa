"""The attention explorer: its numbers are those of the service, by mouse, keyboard and touch, and as files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chromium import Watch, watched_page
from tests.browser.views import open_view
from tests.server import Server

SENTENCE = "We are going to the cinema tonight."
LONG = f"I bought {', '.join(['a new book'] * 22)}."
MARKUP = "I bought <img src=x onerror=alert(1)> a book."
SVG = "{http://www.w3.org/2000/svg}"


def opened(page: Page, text: str = SENTENCE) -> Locator:
    """The view with the weights of the first sentence of a text."""
    view = open_view(page, "attention", text=text)
    expect(view.locator(".attention-translation b")).not_to_be_empty()
    return view


def answered(service: Server, text: str = SENTENCE, **fields: Any) -> dict[str, Any]:
    """The service's own answer in JSON."""
    kinds = ["encoder", "decoder", "cross"]
    response = service.client.post(
        "/attention", json={"text": text, "source": "en", "target": "de", "kinds": kinds, **fields}
    )
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def searched(service: Server, **fields: Any) -> dict[str, Any]:
    """The service's own translation with its search."""
    answer = service.translate(text=SENTENCE, source="en", return_search=True, **fields)
    translation: dict[str, Any] = answer["translations"][0]
    return translation


def signed(value: float, digits: int) -> str:
    """A number as the page writes it."""
    return f"{value:.{digits}f}".replace("-", "−")


def choose(view: Locator, name: str) -> None:
    """Choose a map with the mouse."""
    view.get_by_role("gridcell", name=name).click()


def table(view: Locator) -> list[list[float]]:
    """The numbers of the opened table, the sum of each row last."""
    rows: list[list[str]] = view.locator(".map-panel tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent))"
    )
    return [[float(number) for number in row] for row in rows]


@pytest.mark.sampled(2)  # other tests look at weights of cross-attention
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_the_grid_and_the_table_show_every_head_and_the_mean_of_each_layer(
    page: Page, service: Server, kind: str, screenshot: Callable[[str], None]
) -> None:
    weights = np.array(answered(service)[kind]["weights"])
    num_layers, num_heads = weights.shape[:2]
    view = opened(page)
    view.get_by_label(kind.capitalize(), exact=True).check()
    expect(view.get_by_role("gridcell")).to_have_count(num_layers * (num_heads + 1))
    view.locator(".map-panel summary").click()
    expect(view.locator(".map-panel td").last).to_have_text(re.compile(r"^1\.0|^0\.99999"))
    for layer in range(num_layers):
        for head in [None, *range(num_heads)] if layer == num_layers - 1 else [0, num_heads - 1]:
            choose(view, f"layer {layer}, {'mean of the heads' if head is None else f'head {head}'}")
            expected = weights[layer].mean(axis=0) if head is None else weights[layer, head]
            shown = np.array(table(view))
            np.testing.assert_allclose(shown[:, :-1], expected, atol=2e-7)
            np.testing.assert_allclose(shown[:, -1], 1, atol=1e-5)
    screenshot(f"attention-{kind}")


def test_the_pointer_and_the_arrow_keys_show_the_exact_weight_and_its_tokens(page: Page, service: Server) -> None:
    answer = answered(service)
    weights = answer["cross"]["weights"][1][2]
    view = opened(page)
    choose(view, "layer 1, head 2")
    cells, readout = view.locator(".heat-cells"), view.locator(".heat-readout")
    box = cells.bounding_box()
    assert box is not None
    height, width = box["height"] / len(weights), box["width"] / len(weights[0])

    def expect_weight(row: int, column: int) -> None:
        tokens = f"{answer['target_tokens'][row]} attends to {answer['source_tokens'][column]}"
        expect(readout).to_have_text(f"{tokens}: {weights[row][column]:.7f}")
        expect(view.locator(".heat-rows .here")).to_have_text(answer["target_tokens"][row])
        expect(view.locator(".heat-columns .here")).to_have_text(answer["source_tokens"][column])

    cells.hover(position={"x": 3.5 * width, "y": 2.5 * height})
    expect_weight(2, 3)
    page.mouse.move(0, 0)
    expect(readout).to_contain_text("Point at a weight")
    cells.focus()
    for key in ["ArrowRight", "ArrowRight", "ArrowDown"]:
        cells.press(key)
    expect_weight(1, 1)  # the first key shows the first weight
    expect(page.locator("#announcements")).to_contain_text(f"{weights[1][1]:.7f}")
    cells.press("End")
    cells.press("PageDown")
    expect_weight(len(weights) - 1, len(weights[0]) - 1)
    cells.press("Escape")
    expect(view.locator(".here")).to_have_count(0)


def test_a_tap_shows_the_exact_weight(browser: Browser, watch: Watch, service: Server) -> None:
    answer = answered(service)
    weights = np.array(answer["cross"]["weights"])[1].mean(axis=0)
    with watched_page(browser, watch, viewport=(360, 740), has_touch=True) as page:
        view = opened(page)
        cells = view.locator(".heat-cells")
        box = cells.bounding_box()
        assert box is not None
        cells.tap(position={"x": box["width"] * 1.5 / weights.shape[1], "y": box["height"] * 0.5 / weights.shape[0]})
        shown = view.locator(".heat-readout output").inner_text()
        assert float(shown) == pytest.approx(weights[0, 1], abs=2e-7)
        view.get_by_role("gridcell", name="layer 0, head 3").tap()
        expect(view.locator("#map-title")).to_have_text("Cross attention, layer 0, head 3")
    assert not watch.unexpected()


def test_arrow_keys_move_through_the_grid_and_choose(page: Page) -> None:
    view = opened(page)
    chosen = view.locator("[role=gridcell][aria-selected=true]")
    expect(chosen).to_have_attribute("aria-label", "layer 1, mean of the heads")
    chosen.focus()
    for key in ["ArrowUp", "ArrowRight", "ArrowRight", "ArrowUp"]:
        page.keyboard.press(key)
    expect(view.locator("#map-title")).to_have_text("Cross attention, layer 0, head 1")
    expect(chosen).to_be_focused()
    page.keyboard.press("End")
    expect(view.locator("#map-title")).to_have_text("Cross attention, layer 0, head 3")


def weights_of(view: Locator, label: str) -> list[float]:
    """The numbers of the tokens that a step shows."""
    return [float(text) for text in view.get_by_label(label).locator("li:visible .chip-weight").all_inner_texts()]


def test_each_step_of_decoding_shades_the_source_and_what_was_written(page: Page, service: Server) -> None:
    answer = answered(service)
    cross, decoder = (np.array(answer[kind]["weights"]) for kind in ("cross", "decoder"))
    view = opened(page)
    slider = view.get_by_role("slider")

    def expect_step(step: int, layer: int, head: slice | int) -> None:
        expect(view.locator(".stepper label")).to_have_text(f"Step {step + 1} of {len(answer['target_tokens'])}")
        expect(view.locator(".next-token b")).to_have_text(answer["target_tokens"][step])
        looks, wrote = "Source tokens and their weights", "Tokens read by the decoder and their weights"
        source, own = (
            cross[layer, head].reshape(-1, *cross.shape[2:]),
            decoder[layer, head].reshape(-1, *decoder.shape[2:]),
        )
        np.testing.assert_allclose(weights_of(view, looks), source.mean(axis=0)[step], atol=6e-4)
        np.testing.assert_allclose(weights_of(view, wrote), own.mean(axis=0)[step, : step + 1], atol=6e-4)
        tokens = view.get_by_label(wrote).locator("li:visible > :first-child").all_inner_texts()
        assert tokens == answer["decoder_input_tokens"][: step + 1]

    expect_step(0, 1, slice(None))
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    expect_step(2, 1, slice(None))
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^Step 3 of \d+: writes "))
    choose(view, "layer 0, head 1")
    expect_step(2, 0, 1)
    view.get_by_label("Encoder", exact=True).check()
    choose(view, "layer 5, head 3")
    view.get_by_role("button", name="Step forward").click()
    expect_step(3, 0, 1)
    view.get_by_role("button", name="Step back").click()
    expect_step(2, 0, 1)


def test_decoding_plays_to_its_end_and_pauses(page: Page) -> None:
    page.clock.install()
    view = opened(page)
    label, play = view.locator(".stepper label"), view.get_by_role("button", name=re.compile("Play|Pause"))
    play.click()
    expect(play).to_have_text("Pause")
    page.clock.run_for(2_000)
    expect(label).to_contain_text("Step 3 of")
    play.click()
    page.clock.run_for(5_000)
    expect(label).to_contain_text("Step 3 of")
    play.click()
    page.clock.run_for(60_000)
    expect(label).to_have_text(re.compile(r"Step (\d+) of \1$"))
    expect(play).to_have_text("Play")


def test_the_search_is_a_tree_of_what_was_kept_and_on_demand_of_what_was_dropped(
    page: Page, service: Server, screenshot: Callable[[str], None]
) -> None:
    translation = searched(service)
    candidates = [candidate for step in translation["search"] for candidate in step["hypotheses"]]
    view = opened(page)
    nodes = view.get_by_role("treeitem")
    expect(nodes).to_have_count(sum(candidate["kept"] for candidate in candidates))
    view.get_by_label("Show dropped hypotheses").check()
    expect(nodes).to_have_count(len(candidates))
    shown = view.locator(".beam-box").evaluate_all("(nodes) => nodes.map((node) => node.getAttribute('aria-label'))")
    sums = sorted(
        float(match.replace("−", "-")) for label in shown for match in re.findall(r"(−?[\d.]+) log-probability", label)
    )
    np.testing.assert_allclose(sums, sorted(candidate["log_prob"] for candidate in candidates), atol=6e-3)
    best = view.locator(".beam-box.best.finished")
    expect(best).to_have_attribute("aria-label", re.compile(f"hypothesis: {re.escape(translation['text'])}$"))
    expect(view.locator(".beam-box.finished")).to_have_count(sum(candidate["finished"] for candidate in candidates))
    assert len({str(node.bounding_box()) for node in nodes.all()}) == len(candidates)
    screenshot("attention-search")


def test_a_hypothesis_tells_its_numbers_to_the_pointer_and_the_keyboard(page: Page, service: Server) -> None:
    first, second = searched(service)["search"][0]["hypotheses"][:2]
    view = opened(page)
    detail = view.locator(".beam-detail")
    view.get_by_role("treeitem", name=f"{second['token']} {signed(second['log_prob'], 2)}").hover()
    expect(detail).to_contain_text(signed(second["log_prob"], 4))
    view.get_by_role("treeitem", name=f"{first['token']} {signed(first['log_prob'], 2)}").focus()
    expect(detail).to_contain_text(signed(first["log_prob"], 4))
    expect(detail).to_contain_text(f"{np.exp(first['log_prob']) * 100:.1f} %")
    page.keyboard.press("ArrowRight")
    expect(view.get_by_role("treeitem", selected=True)).to_have_attribute("aria-level", "2")
    expect(view.locator(".beam-box:focus")).to_have_attribute("aria-label", re.compile("; step 1; "))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(view.locator(".beam-box:focus")).to_have_attribute("aria-label", re.compile("; step 0; "))


def test_the_search_is_a_table_too_and_greedy_search_is_one_line(page: Page, service: Server) -> None:
    view = opened(page)
    view.get_by_text("The search as a table").click()
    search = searched(service)["search"]
    expect(view.locator(".beam tbody tr")).to_have_count(sum(len(step["hypotheses"]) for step in search))
    view.get_by_role("combobox", name="Decoding").select_option("greedy")
    steps = len(searched(service, decoding="greedy")["search"])
    expect(view.locator(".beam tbody tr")).to_have_count(steps)
    expect(view.locator(".beam-box.best")).to_have_count(steps)


def test_a_translation_of_ones_own_is_looked_at_instead(page: Page, service: Server) -> None:
    own = "Heute Abend gehen wir ins Kino."
    answer = answered(service, target_text=own)
    view = opened(page)
    view.get_by_label("Your own translation").fill(own)
    view.get_by_label("Your own translation").press("Enter")
    expect(view.locator(".attention-translation b")).to_have_text(own)
    assert view.locator(".heat-rows span").all_inner_texts() == answer["target_tokens"]
    expect(view.locator(".beam")).to_contain_text("There is no search for your own translation")
    expect(view.get_by_role("treeitem")).to_have_count(0)


def saved(page: Page, view: Locator, button: str) -> tuple[str, bytes]:
    """Name and content of the file that a button downloads."""
    with page.expect_download() as download:
        view.get_by_role("button", name=button, exact=True).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_a_map_is_downloaded_as_svg_and_as_png_with_its_labels(page: Page, service: Server, tmp_path: Path) -> None:
    answer = answered(service, MARKUP)
    view = opened(page, MARKUP)
    choose(view, "layer 1, head 0")
    name, content = saved(page, view, "SVG")
    assert name == "i-bought-img-src-x-cross-attention-layer-1-head-0.svg"
    picture = ElementTree.fromstring(content)
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    for token in answer["source_tokens"] + answer["target_tokens"]:
        assert token in texts
    cells = picture.find(f"{SVG}g")
    assert cells is not None
    weights = np.array(answer["cross"]["weights"])[1, 0]
    assert len(cells) == weights.size
    dark = page.evaluate("async (weight) => { const { colourOf, css } = await import('/page/colours.js');"
                         " return css(colourOf(weight, false)); }", float(weights[0, 1]))  # fmt: skip
    assert cells[1].get("fill") == dark
    name, content = saved(page, view, "PNG")
    assert name == "i-bought-img-src-x-cross-attention-layer-1-head-0.png"
    width, height = (float(picture.get(side) or 0) for side in ("width", "height"))
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    size = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    assert size == (int(width * 2), int(height * 2))
    assert len(content) > 5_000  # it is not empty
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_the_arrays_are_downloaded_as_the_service_sent_them(page: Page, service: Server) -> None:
    view = opened(page)
    name, content = saved(page, view, "npz")
    assert name == "we-are-going-to-the-attention.npz"
    answer = answered(service)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for kind in ("encoder", "decoder", "cross"):
            np.testing.assert_allclose(arrays[kind], answer[kind]["weights"], atol=1e-7)
        assert arrays["source_tokens"].tolist() == answer["source_tokens"]
        assert str(arrays["translation"]) == answer["translation"]


def test_a_hundred_tokens_need_no_element_for_each_weight_and_stay_within_the_page(
    page: Page, service: Server, screenshot: Callable[[str], None]
) -> None:
    answer = answered(service, LONG, kinds=["cross"])
    num_tokens = len(answer["source_tokens"])
    assert 85 <= num_tokens <= 100
    page.set_viewport_size({"width": 360, "height": 740})
    view = opened(page, LONG)
    expect(view.locator(".heat-columns span")).to_have_count(num_tokens)
    cells = view.locator(".heat-cells")
    cells.press("Home")
    cells.press("End")
    cells.press("PageDown")
    expect(view.locator(".heat-columns .here")).to_be_in_viewport()
    expect(view.locator(".heat-rows .here")).to_be_in_viewport()
    screenshot("attention-long-narrow")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert page.evaluate("() => document.querySelectorAll('.attention-maps *').length") < 1000
    view.locator(".map-panel summary").click()
    row = view.locator(".map-panel tbody tr").last
    row.scroll_into_view_if_needed()
    expect(row.locator("td")).to_have_count(num_tokens + 1)


def test_each_sentence_of_the_text_can_be_chosen(page: Page) -> None:
    view = opened(page, "Where is the station? I bought a new book.")
    chooser = view.get_by_label("Sentence of your text")
    expect(chooser.locator("option")).to_have_text(["1 of 2: Where is the station?", "2 of 2: I bought a new book."])
    chooser.select_option(label="2 of 2: I bought a new book.")
    expect(view.locator(".attention-translation b")).to_have_text("Ich habe ein neues Buch gekauft.")
    view.get_by_label("One sentence").fill(SENTENCE)
    view.get_by_role("button", name="Show attention").click()
    expect(chooser.locator("option:checked")).to_have_text("Another sentence")


def test_several_sentences_are_refused_with_a_way_out(page: Page, watch: Watch) -> None:
    watch.expect("422")
    view = opened(page)
    sentence = view.get_by_label("One sentence")
    sentence.fill("I bought a book. It was red.")
    sentence.press("Enter")
    expect(view.get_by_role("alert")).to_contain_text("attention is defined for one")
    expect(view.locator(".attention-results")).to_be_hidden()
    view.get_by_role("button", name="Use the first sentence: I bought a book.").click()
    expect(view.locator(".attention-translation")).to_be_visible()
    expect(view.get_by_role("alert")).to_be_empty()
    expect(sentence).to_have_value("I bought a book.")
    expect(sentence).to_be_focused()


def test_a_sentence_that_is_too_long_and_one_in_the_target_language_are_refused_kindly(
    page: Page, watch: Watch
) -> None:
    watch.expect("422")
    view = opened(page)
    sentence = view.get_by_label("One sentence")
    sentence.fill("word " * 200)
    view.get_by_role("button", name="Show attention").click()
    expect(view.get_by_role("alert")).to_contain_text("this model accepts 120")
    view.get_by_label("From").select_option("auto")
    sentence.fill("Ich habe ein neues Buch gekauft.")
    view.get_by_role("button", name="Show attention").click()
    expect(view.get_by_role("alert")).to_contain_text("The text seems to be 'de'")
    view.get_by_role("button", name="German to English").click()
    expect(view.locator(".attention-translation b")).to_have_text("I bought a new book.")


def test_the_sentence_is_the_first_of_the_text_or_an_example(page: Page) -> None:
    view = opened(page, "Where is the station? I am late.")
    sentence = view.get_by_label("One sentence")
    expect(sentence).to_have_value("Where is the station?")
    # One that was chosen stays until there is another text; a beam is as wide as the model allows.
    sentence.fill(SENTENCE)
    sentence.press("Enter")
    expect(view.locator(".heat-rows span").first).to_have_text("▁Wir")
    page.goto("/#/attention?source=en&target=de&beamSize=999&text=I+bought+a+new+book.")
    expect(sentence).to_have_value("I bought a new book.")
    expect(view.locator(".attention-translation b")).to_have_text("Ich habe ein neues Buch gekauft.")
    expect(view.get_by_label("Beam width")).to_have_value("16")
    page.goto("about:blank")
    open_view(page, "attention")
    expect(view.locator(".attention-translation b")).not_to_be_empty()
    expect(sentence).not_to_have_value("")


def test_markup_in_a_sentence_and_its_translation_is_text(page: Page) -> None:
    view = opened(page, MARKUP)
    own = view.get_by_label("Your own translation")
    own.fill("<img src=x onerror=alert(1)>")
    own.press("Enter")
    expect(view.locator(".attention-translation b")).to_have_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img").count() == 0
