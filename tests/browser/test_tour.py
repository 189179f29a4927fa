"""The tour: every number is the running model's, the arithmetic adds up, and the user's sentence drives it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from model.training.loop import train
from model.training.settings import TrainingSettings
from tests.browser.accessibility import assert_accessible, in_each_scheme
from tests.browser.chromium import Watch, installed, watched_page
from tests.browser.translating import problem
from tests.browser.views import wait_for
from tests.server import Server, served
from tests.toy import write_toy

SENTENCE = "I bought a new book."
OTHER = "Where is the station?"
CHAPTERS = ("subwords", "positions", "head", "heads", "residual", "masks", "output", "beam")
KINDS = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}
ROUNDED = 0.0006
"""Numbers are shown with three decimals."""


def open_chapter(page: Page, name: str, sentence: str = SENTENCE) -> Locator:
    """Open a chapter with a sentence, and wait until it shows all that it asks the service for."""
    page.goto(f"/#/tour/{name}?source=en&target=de&text={quote(sentence)}")
    return ready(page)


def ready(page: Page) -> Locator:
    """Wait until the chapter shows all that it asks the service for."""
    article = page.locator("article.chapter")
    wait_for(page, "article.chapter .stage", busy="article.chapter [aria-busy=true]")
    expect(article.locator(".stage").first).to_be_attached()
    expect(article.locator("[aria-busy=true]")).to_have_count(0)
    return article


def sentence_field(page: Page) -> Locator:
    """The field with the sentence."""
    return page.get_by_role("textbox", name="Your sentence")


def number(text: str) -> float:
    """The number that a text ends with."""
    if text.endswith("−∞"):
        return -math.inf
    match = re.search(r"(−?)([\d.]+)(?: %)?$", text.strip())
    assert match, text
    return float(match[2]) * (-1 if match[1] else 1)


def rows(article: Locator, caption: str | re.Pattern[str]) -> list[list[str]]:
    """The cells of a table's rows, without the head."""
    table = article.locator("table").filter(has=article.page.locator("caption", has_text=caption))
    expect(table).to_have_count(1)
    result: list[list[str]] = table.evaluate(
        "(e) => [...e.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    return result


def steps_of(service: Server, kind: str, layer: int = 0, head: int = 0, sentence: str = SENTENCE) -> dict[str, Any]:
    """What the service says about a head: tokens and steps."""
    body = {"text": sentence, "source": "en", "target": "de", "kinds": [kind], "layers": [layer], "heads": [head]}
    answer = service.client.post("/attention", json=body | {"steps": {"kind": kind, "layer": layer, "head": head}})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def translation_of(service: Server, **fields: Any) -> dict[str, Any]:
    """The service's translation with its search."""
    beam = {"num_hypotheses": fields.get("beam_size", 4), "return_scores": True, "return_search": True}
    body = {"text": SENTENCE, "source": "en", "target": "de", **beam, **fields}
    result: dict[str, Any] = service.client.post("/translate", json=body).json()["translations"][0]
    return result


def choose(article: Locator, picker: str, token: int) -> None:
    """Choose the token at an index."""
    article.get_by_role("group", name=picker).get_by_role("radio").nth(token).check()


def test_the_subwords_are_those_of_the_model_and_markers_are_explained(page: Page, service: Server) -> None:
    article = open_chapter(page, "subwords")
    answer = steps_of(service, "cross")
    assert (
        article.get_by_role("list", name="Source tokens").get_by_role("listitem").all_text_contents()
        == answer["source_tokens"]
    )
    assert (
        article.get_by_role("list", name="Target tokens").get_by_role("listitem").all_text_contents()
        == answer["target_tokens"]
    )
    meanings = {token: meaning for _, token, meaning in rows(article, "Types of tokens")}
    assert meanings["<2de>"] == "a marker: the language German"
    assert meanings["</s>"] == "a marker: the end of the sentence"
    assert meanings["▁book"] == "begins a word"


def test_another_sentence_changes_what_every_chapter_shows(page: Page, service: Server) -> None:
    article = open_chapter(page, "subwords")
    field = sentence_field(page)
    assert field.input_value() == SENTENCE
    field.fill(OTHER)
    field.press("Enter")
    expect(article.get_by_role("list", name="Source tokens")).to_contain_text("▁station")
    answer = steps_of(service, "encoder", sentence=OTHER)
    assert (
        article.get_by_role("list", name="Source tokens").get_by_role("listitem").all_text_contents()
        == answer["source_tokens"]
    )
    page.get_by_role("link", name="3. One head").click()
    shown = rows(ready(page), "Weights of")
    assert [row[0] for row in shown[:-1]] == answer["source_tokens"]
    assert [number(row[4]) for row in shown[:-1]] == pytest.approx(answer["steps"]["weights"][1], abs=ROUNDED)


def test_the_vector_of_a_token_is_its_embedding_plus_its_position(page: Page, service: Server) -> None:
    article = open_chapter(page, "positions")
    steps = steps_of(service, "encoder")["steps"]
    choose(article, "Token", 3)
    table = {row[0]: [number(cell) for cell in row[1:]] for row in rows(article, "The first numbers of")}
    for name in ("embedding", "position"):
        assert table[name] == pytest.approx(steps[name][3][:6], abs=ROUNDED)
    assert table["by the formula"] == table["position"]
    assert table["sum"] == pytest.approx(steps["input"][3][:6], abs=ROUNDED)


def test_the_arrow_keys_and_the_pointer_read_numbers_off_a_heat_map(page: Page, service: Server) -> None:
    article = open_chapter(page, "positions")
    figure = article.locator("figure", has_text="Embedding + position")
    answer = steps_of(service, "encoder")
    canvas = figure.get_by_role("img")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        canvas.press(key)
    headers = figure.locator("output")
    expect(headers).to_contain_text("▁bought, column 1: ")
    assert number(headers.inner_text()) == pytest.approx(answer["steps"]["input"][2][1], abs=ROUNDED)
    box = canvas.bounding_box()
    assert box
    canvas.hover(position={"x": box["width"] - 4, "y": box["height"] - 4})
    expect(headers).to_contain_text("</s>, column 255: ")
    assert number(headers.inner_text()) == pytest.approx(answer["steps"]["input"][-1][255], abs=ROUNDED)


@pytest.mark.sampled(2)  # another test looks at cross-attention
@pytest.mark.parametrize(("kind", "layer", "head"), [("encoder", 3, 2), ("decoder", 1, 1), ("cross", 1, 3)])
def test_the_numbers_of_a_head_are_the_models_and_add_up(
    page: Page, service: Server, kind: str, layer: int, head: int
) -> None:
    article = open_chapter(page, "head")
    article.get_by_role("combobox", name="Attention").select_option(label=KINDS[kind])
    article.get_by_role("combobox", name="Layer").select_option(str(layer))
    article.get_by_role("combobox", name="Head").select_option(str(head))
    ready(page)
    answer = steps_of(service, kind, layer, head)
    steps, query, key = answer["steps"], 3, 1
    choose(article, "Query", query)
    choose(article, "Key", key)

    q, k, products = (
        [number(cell) for cell in row[1:] if cell not in ("…", "")] for row in rows(article, "times k of")
    )
    assert q == pytest.approx(steps["query"][query][:4], abs=ROUNDED)
    assert k == pytest.approx(steps["key"][key][:4], abs=ROUNDED)
    assert products[:4] == pytest.approx([first * other for first, other in zip(q, k, strict=True)], abs=0.01)
    assert sum(products[:5]) == pytest.approx(products[5], abs=5 * ROUNDED)

    *weights, total = rows(article, "Weights of")
    masked = [-math.inf if score is None else score for score in steps["masked"][query]]
    assert number(weights[key][1]) == products[5]
    for row in weights:
        assert number(row[1]) / math.sqrt(64) == pytest.approx(number(row[2]), abs=ROUNDED)
    assert [number(row[2]) for row in weights] == pytest.approx(steps["scores"][query], abs=ROUNDED)
    assert [number(row[3]) for row in weights] == pytest.approx(masked, abs=ROUNDED)
    powers = [math.exp(number(row[3])) for row in weights]
    softmax = [power / sum(powers) for power in powers]
    assert [number(row[4]) for row in weights] == pytest.approx(softmax, abs=2 * ROUNDED)
    assert [number(row[4]) for row in weights] == pytest.approx(steps["weights"][query], abs=ROUNDED)
    assert total[4] == "1.000"
    assert ("hidden: −∞" in [row[3] for row in weights]) == (kind == "decoder")

    *parts, mixed = rows(article, "Weight × value")
    for column in (0, 1):
        assert number(mixed[2 + column]) == pytest.approx(steps["mixed"][query][column], abs=ROUNDED)
        assert sum(number(part[2 + column]) for part in parts) == pytest.approx(
            number(mixed[2 + column]), abs=5 * ROUNDED
        )
        for part in parts[:3]:
            weight, value, product = (number(text) for text in re.split(" [×=] ", part[2 + column]))
            assert weight == number(part[1])
            assert weight * value == pytest.approx(product, abs=0.003)
    assert sum(number(part[1]) for part in parts) == pytest.approx(1, abs=5 * ROUNDED)


def test_every_head_has_a_picture_and_opens_its_computation(page: Page, service: Server) -> None:
    article = open_chapter(page, "heads")
    heads = article.locator(".heads button")
    for kind, layers in (("encoder", 6), ("cross", 2)):
        article.get_by_role("combobox", name="Attention").select_option(label=KINDS[kind])
        expect(heads).to_have_count(layers * 4)
    weights = steps_of(service, "cross", 1, 2)["steps"]["weights"]
    darkest = (
        heads.nth(6)
        .locator("canvas")
        .evaluate(
            """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const light = Array.from({ length: data.length / 4 }, (_, i) => data[4 * i] + data[4 * i + 1]);
          return light.indexOf(Math.min(...light));
        }"""
        )
    )
    flat = [weight for row in weights for weight in row]
    assert flat[darkest] == pytest.approx(max(flat), abs=0.02)
    heads.nth(6).click()
    expect(article.get_by_role("heading", name="3. One head")).to_be_focused()
    chosen = [article.get_by_role("combobox", name=name).input_value() for name in ("Attention", "Layer", "Head")]
    assert chosen == ["cross", "1", "2"]


def test_input_and_output_of_a_sub_layer_add_up_and_the_norm_is_recomputed(page: Page, service: Server) -> None:
    article = open_chapter(page, "residual")
    steps = steps_of(service, "encoder")["steps"]
    choose(article, "Token", 2)
    table = {row[0]: [number(cell) for cell in row[1:]] for row in rows(article, "The first 4 of 256 columns")}
    for name, step in (("input x", "input"), ("output f", "output"), ("sum", "residual")):
        assert table[name] == pytest.approx(steps[step][2][:4], abs=ROUNDED)
    assert [x + f for x, f in zip(table["input x"], table["output f"], strict=True)] == pytest.approx(
        table["sum"], abs=0.002
    )

    expect(article.locator(".prose")).to_contain_text("This model is pre-norm")
    before, standard, after = ([number(cell) for cell in row[1:]] for row in rows(article, "Mean and variance"))
    for shown, step in ((before, "input"), (after, "normed")):
        vector = steps[step][2]
        mean = sum(vector) / len(vector)
        variance = sum((value - mean) ** 2 for value in vector) / len(vector)
        assert shown == pytest.approx([mean, variance, *vector[:2]], abs=ROUNDED)
    assert standard[:2] == [0, 1]
    assert standard[2] == pytest.approx((before[2] - before[0]) / math.sqrt(before[1]), abs=0.003)


def test_the_causal_mask_hides_later_tokens_of_the_sentence(page: Page, service: Server) -> None:
    article = open_chapter(page, "masks")
    article.get_by_role("combobox", name="Head").select_option("2")
    ready(page)
    answer = steps_of(service, "decoder", 0, 2)
    shown = rows(article, "Scores after the mask")
    assert [row[0] for row in shown] == answer["decoder_input_tokens"]
    for index, (row, scores) in enumerate(zip(shown, answer["steps"]["scores"], strict=True)):
        assert [number(cell) for cell in row[1 : index + 2]] == pytest.approx(scores[: index + 1], abs=0.006)
        assert set(row[index + 2 :]) <= {"−∞"}
    padding = rows(article, "A batch of your sentence")
    assert padding[0][1:] == answer["source_tokens"]
    assert padding[3][1:] == ["yes"] * 4 + ["no"] * 4


def test_the_next_tokens_have_the_probabilities_of_the_search(page: Page, service: Server) -> None:
    article = open_chapter(page, "output")
    search = translation_of(service)["search"]
    shown = rows(article, "Candidates for the first token")
    first = search[0]["hypotheses"]
    assert [row[0].removesuffix(" in the answer") for row in shown[:-1]] == [candidate["token"] for candidate in first]
    assert [number(row[1]) for row in shown[:-1]] == pytest.approx([item["log_prob"] for item in first], abs=ROUNDED)
    assert number(shown[0][2]) / 100 == pytest.approx(math.exp(first[0]["log_prob"]), abs=ROUNDED)
    assert shown[-1][0] == f"the other {12_000 - len(first):,} tokens"
    choose(article, "Token of the answer", 2)
    second = [
        hypothesis for hypothesis in search[2]["hypotheses"] if hypothesis["parent"] == search[1]["hypotheses"][0]["id"]
    ]
    parent = search[1]["hypotheses"][0]["log_prob"]
    shown = rows(article, "Candidates after")
    assert [number(row[1]) for row in shown[:-1]] == pytest.approx(
        [item["log_prob"] - parent for item in second], abs=ROUNDED
    )


def test_the_beam_is_stepped_through_with_the_keyboard(page: Page, service: Server) -> None:
    article = open_chapter(page, "beam")
    search = translation_of(service)["search"]
    slider = article.get_by_role("slider", name="Step")
    slider.focus()
    fates = set()
    for step, result in enumerate(search, start=1):
        shown = rows(article, f"Candidates of step {step},")
        assert [row[2] for row in shown] == [candidate["token"] for candidate in result["hypotheses"]]
        assert [number(row[4]) for row in shown] == pytest.approx(
            [hypothesis["log_prob"] for hypothesis in result["hypotheses"]], abs=ROUNDED
        )
        for row, candidate in zip(shown, result["hypotheses"], strict=True):
            assert row[5].startswith(
                "finished" if candidate["finished"] else "kept" if candidate["kept"] else "dropped"
            )
            fates.add(row[5].split(";")[0])
        slider.press("ArrowRight")
    assert {"kept", "dropped", "finished"} <= fates
    article.get_by_role("button", name="Step back").click()
    rows(article, f"Candidates of step {len(search) - 1},")


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(4, "1"), (2, "0")])
def test_the_scores_of_finished_hypotheses_are_those_of_the_service(
    page: Page, service: Server, beam_size: int, length_penalty: str
) -> None:
    article = open_chapter(page, "beam")
    article.get_by_role("combobox", name="Beam size").select_option(str(beam_size))
    article.get_by_role("combobox", name="Length penalty").select_option(length_penalty)
    ready(page)
    translation = translation_of(service, beam_size=beam_size, length_penalty=float(length_penalty))
    expected = [translation, *translation["alternatives"]]
    shown = rows(article, "Finished hypotheses")
    assert [row[0] for row in shown] == [item["text"] for item in expected]
    for row, item in zip(shown, expected, strict=True):
        assert number(row[3]) == pytest.approx(item["score"], abs=ROUNDED)
        assert number(row[1]) / int(row[2]) ** float(length_penalty) == pytest.approx(number(row[3]), abs=2 * ROUNDED)
    expect(article.locator(".answer")).to_have_text(translation["text"])


def test_the_keyboard_turns_the_pages_and_the_address_names_them(page: Page) -> None:
    open_chapter(page, "subwords")
    for index, (_, name) in enumerate(pairwise(CHAPTERS), start=2):
        page.locator("a[rel=next]").focus()
        page.keyboard.press("Enter")
        expect(page.locator("article h2")).to_be_focused()
        expect(page.locator("article h2")).to_have_text(re.compile(f"^{index}\\."))
        assert page.url.endswith(f"#/tour/{name}")
        expect(page.locator(".contents a[aria-current=step]")).to_have_attribute("href", f"#/tour/{name}")
    page.go_back()
    expect(page.locator("article h2")).to_have_text(re.compile(r"^7\."))
    page.locator("a[rel=prev]").click()
    expect(page.locator("article h2")).to_have_text(re.compile(r"^6\."))


def test_without_a_text_the_tour_has_an_example_in_the_language_of_the_model(page: Page) -> None:
    page.goto("/#/tour?source=de&target=en")
    ready(page)
    expect(sentence_field(page)).to_have_value("Ich habe ein neues Buch gekauft.")


def test_a_refusal_is_shown_and_the_next_sentence_works(page: Page, watch: Watch) -> None:
    watch.expect("422")
    article = open_chapter(page, "subwords")
    field = sentence_field(page)
    field.fill("This is one sentence. This is another sentence.")
    field.press("Enter")
    expect(article.get_by_role("alert")).to_contain_text("sentence")
    field.fill(OTHER)
    field.press("Enter")
    expect(article.get_by_role("list", name="Source tokens")).to_contain_text("▁station")
    expect(article.get_by_role("alert")).to_have_count(0)


def test_the_same_sentence_is_asked_for_again_after_a_problem(page: Page, watch: Watch) -> None:
    watch.expect("429")
    page.route("**/attention", lambda route: route.fulfill(**problem(429, "queue_full", "The queue is full.")))
    article = open_chapter(page, "subwords")
    expect(article.get_by_role("alert")).to_have_text("The queue is full.")
    page.unroute("**/attention")
    sentence_field(page).press("Enter")
    expect(article.get_by_role("list", name="Source tokens")).to_contain_text("▁book")


def test_markup_in_the_sentence_does_nothing(page: Page) -> None:
    for name in CHAPTERS:
        open_chapter(page, name, "A <img src=x onerror=alert(1)> book.")
        expect(page.locator("article img")).to_have_count(0)
    assert "<img src=x onerror=alert(1)>" in sentence_field(page).input_value()


def test_the_chapters_meet_wcag(page: Page, screenshot: Callable[[str], None]) -> None:
    for name in CHAPTERS:
        open_chapter(page, name)
        # All chapters have their colours from the same variables.
        for scheme in in_each_scheme(page) if name in ("head", "masks", "beam") else ["light"]:
            screenshot(f"tour-{name}-{scheme}")
            assert_accessible(page, f"{name}, {scheme}")
        page.emulate_media(color_scheme="light")


def test_every_chapter_fits_into_320_pixels(page: Page, screenshot: Callable[[str], None]) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    for name in CHAPTERS:
        open_chapter(page, name)
        screenshot(f"tour-{name}-narrow")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320, name


@pytest.fixture(scope="module")
def other_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A post-norm model of another size, with learned positions, that has hardly learned anything."""
    folder = tmp_path_factory.mktemp("other")
    settings = TrainingSettings.load(write_toy(folder))
    shape = {"norm": "post", "positions": "learned", "encoder_layers": 2, "num_heads": 4}
    settings = replace(
        settings, model={**settings.model, **shape}, max_steps=4, warmup_steps=1, cooldown_steps=1, evaluate_every=4
    )
    checkpoint = train(settings, folder, folder / "run", show_progress=False, report=lambda line: None)
    bundle = folder / "other.pt"
    export_bundle(load_checkpoint(checkpoint), "float32", bundle, report=lambda line: None)
    with served(bundle) as running:
        yield running


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="Chromium is not installed")
def test_the_tour_is_about_the_model_that_runs(browser: Browser, other_service: Server) -> None:
    watch = Watch(str(other_service.client.base_url).rstrip("/"))
    with watched_page(browser, watch) as page:
        for name in CHAPTERS:
            open_chapter(page, name, "old cat likes dog.")
            expect(page.get_by_role("alert")).to_have_count(0)
        article = open_chapter(page, "positions", "old cat likes dog.")
        expect(article.locator(".prose")).to_contain_text("they were learned in training")
        article = open_chapter(page, "residual", "old cat likes dog.")
        expect(article.locator(".prose")).to_contain_text("This model is post-norm")
        steps = steps_of(other_service, "encoder", sentence="old cat likes dog.")["steps"]
        assert next(row[0] for row in rows(article, "Mean and variance")) == "before: sum"
        table = {row[0]: [number(cell) for cell in row[1:]] for row in rows(article, "The first 4 of 32 columns")}
        assert table["sum"] == pytest.approx(steps["residual"][1][:4], abs=ROUNDED)
        article = open_chapter(page, "heads", "old cat likes dog.")
        expect(article.locator(".heads button")).to_have_count(8)
    assert not watch.unexpected(), "\n".join(watch.unexpected())
