"""What a page must offer to everybody: the rules of axe, and the stops of the Tab key."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from playwright.sync_api import Page

from tests.server import ROOT

AXE = ROOT / "scripts" / "page" / "node_modules" / "axe-core" / "axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
"""WCAG 2.2, levels A and AA, in axe's words."""

RUN = """async (levels) => {
  const { violations } = await axe.run(document, { runOnly: { type: "tag", values: levels } });
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => ({ id, help, target: target.join(" "), why: failureSummary })));
}"""

FOCUSED = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  window.reached.add(element);
  const style = getComputedStyle(element);
  return {
    name: element.getAttribute("aria-label") || element.textContent.trim() || element.id || element.tagName,
    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
  };
}"""

# The Tab key stops at one radio button of a group, the arrow keys reach the others.
UNREACHED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
  .filter((element) => element.tabIndex >= 0 && !element.disabled && element.type !== "radio")
  .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !window.reached.has(element))
  .map((element) => element.outerHTML.slice(0, 120))"""

MAX_STOPS = 200


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


def in_each_scheme(page: Page) -> Iterator[str]:
    """Show the page in light, then in dark colours, as the system's theme does; gives their names."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        yield scheme


def violations(page: Page) -> list[str]:
    """The page's violations of WCAG, a line for each element.

    The script is evaluated by the debugger: the page's policy, which forbids foreign scripts, stays in force.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_axe())
    result: list[dict[str, Any]] = page.evaluate(RUN, LEVELS)
    return [f"{item['id']}: {item['help']}: {item['target']}: {' '.join(item['why'].split())}" for item in result]


def assert_accessible(page: Page, path: str) -> None:
    """Fail if the page violates WCAG as it is now; ``where`` says in which state it is."""
    result = violations(page)
    assert not result, f"{path}: " + "\n".join(result)


def tab_stops(page: Page) -> list[str]:
    """Names of the elements that the Tab key reaches, from the top of the page to its end.

    Raises:
        AssertionError: An element that has the focus does not show it, the focus does not leave the page, or a control
            is not reached.
    """
    page.evaluate("() => { window.reached = new Set(); document.activeElement?.blur(); scrollTo(0, 0); }")
    names: list[str] = []
    while len(names) < MAX_STOPS:
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None:
            unreached = page.evaluate(UNREACHED)
            assert not unreached, "\n".join(unreached)
            return names
        assert focused["outlined"], f"{focused['name']} does not show that it has the focus"
        names.append(focused["name"])
    raise AssertionError(f"the focus stays in the page: {names}")
