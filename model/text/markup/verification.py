"""The check that a translated document has the markup of its source."""

from __future__ import annotations

from collections import Counter

from model.errors import InvalidMarkup, MarkupNotKept
from model.text.markup.items import ElementRules, Item, Role, Syntax, items_of

_NEVER_NESTED = ("a", "nobr")
"""Elements that end where another one of their name begins."""


def verify(items: list[Item], with_attributes: str, translated: str, syntax: Syntax, rules: ElementRules) -> None:
    """Check that a translated document has every tag of its source exactly once, and the same structure.

    Args:
        items: The items of the document.
        with_attributes: The document with its attributes translated and its texts not.
        translated: The document with both translated.
        syntax: How they are read.
        rules: Which elements are translated.

    Raises:
        MarkupNotKept: It does not.
    """
    try:
        if any(item.attributes for item in items):
            source, items = items, items_of(with_attributes, syntax, rules)
            if [(item.role, item.name) for item in source] != [(item.role, item.name) for item in items]:
                raise MarkupNotKept("An attribute of the translated document ends its tag.")
        if translated != with_attributes:
            after = items_of(translated, syntax, rules)
            _compare_sources(items, after)
            # In XML, what separates texts depends on the texts; that it is well-formed is known by now.
            if syntax != "xml":
                if _blocks(items) != _blocks(after):
                    raise MarkupNotKept("The blocks of the translated document are not in the order of its source.")
                if syntax == "html":
                    _compare_trees(with_attributes, translated, items)
    except InvalidMarkup as error:
        raise MarkupNotKept(f"The translated document cannot be read: {error}") from error


def _compare_sources(before: list[Item], after: list[Item]) -> None:
    """Check that every tag, comment and other kept source occurs equally often."""
    counts = Counter(item.source for item in before if item.role is not Role.TEXT)
    counts.subtract(Counter(item.source for item in after if item.role is not Role.TEXT))
    changed = next((source for source, count in counts.items() if count), None)
    if changed is not None:
        number = "less" if counts[changed] > 0 else "more"
        raise MarkupNotKept(f"The translated document has {changed[:100]!r} {number} often than its source.")


def _blocks(items: list[Item]) -> list[str]:
    return [item.source for item in items if item.role is Role.BOUNDARY]


def _compare_trees(before: str, after: str, items: list[Item]) -> None:
    """Check that the standard's parser builds the same elements from both documents.

    Where inline elements overlap or are not closed, it repeats them, depending on the text. Then both documents only
    need an element of each name.
    """
    from turbohtml import Element, parse

    trees = [
        Counter(node.tag for node in parse(document, positions=False).descendants if isinstance(node, Element))
        for document in (before, after)
    ]
    is_regular = _is_regular(items)
    for name in {item.name for item in items if item.role is Role.OPENING or _opens_block(item)}:
        num_before, num_after = trees[0][name], trees[1][name]
        if bool(num_before) != bool(num_after) or (is_regular and num_before != num_after):
            raise MarkupNotKept(f"The translated document has {num_after} elements {name!r}, its source {num_before}.")


def _opens_block(item: Item) -> bool:
    return item.role is Role.BOUNDARY and bool(item.name) and not item.source.startswith("</")


def _is_regular(items: list[Item]) -> bool:
    """Whether all inline elements are closed in the text in which they begin, and none overlap.

    ``</p>`` without an opening tag also creates an element, except before all text.
    """
    inside: list[str] = []
    num_open_paragraphs = 0
    for item in items:
        if item.role is Role.BOUNDARY and item.name == "p":
            num_open_paragraphs += 1 if _opens_block(item) else -1
            if num_open_paragraphs < 0:
                return False
        if item.role is Role.OPENING:
            if item.name in _NEVER_NESTED and item.name in inside:
                return False
            inside.append(item.name)
        elif (item.role is Role.CLOSING and (not inside or inside.pop() != item.name)) or (
            item.role is Role.BOUNDARY and inside
        ):
            return False
    return not inside
