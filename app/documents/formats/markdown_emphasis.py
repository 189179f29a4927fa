"""Changes of the inline content of Markdown before it is written: what Markdown cannot express is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.documents.formats.inline import Group, Node, Point

_MARKS = "*_~="


def _is_emphasis(node: Group) -> bool:
    return node.source[0][0] in _MARKS


def tidied(nodes: Sequence[Node]) -> list[Node]:
    """Content without elements around nothing, and without spaces at their inner edges.

    Args:
        nodes: The content.
    """
    tidy: list[Node] = []
    for node in nodes:
        if not isinstance(node, Group):
            is_in_break = tidy and isinstance(tidy[-1], Point) and tidy[-1].source.isspace()
            if isinstance(node, Point) and node.source.isspace() and tidy and isinstance(tidy[-1], str):
                tidy[-1] = tidy[-1].rstrip()  # a break in which it would be
            tidy.append(node.lstrip() if is_in_break and isinstance(node, str) else node)
            continue
        inside = tidied(node.children)
        if all(isinstance(child, str) and not child.strip() for child in inside):
            tidy += inside if _is_emphasis(node) else _around_nearest_word(tidy, node)
            continue
        first, last = inside[0], inside[-1]
        if isinstance(first, str):
            tidy.append(first[: len(first) - len(first.lstrip())])
            inside[0] = first.lstrip()
        if isinstance(last, str):
            inside[-1] = str(inside[-1]).rstrip()
        tidy.append(Group(node.source, tuple(inside)))
        if isinstance(last, str):
            tidy.append(last[len(last.rstrip()) :])
    return tidy


def _around_nearest_word(before: list[Node], link: Group) -> list[Node]:
    """A link without words, with the last word before it, which is taken from there."""
    last = before[-1] if before else None
    if not isinstance(last, str) or not last.strip():
        return [link]
    words = last.rstrip()
    rest, space, word = words.rpartition(" ")
    before[-1] = rest + space
    return [Group(link.source, (word,)), last[len(words) :]]


def without(nodes: Sequence[Node], is_dropped: Callable[[Group], bool]) -> list[Node]:
    """Content without some of its emphasis.

    Args:
        nodes: The content.
        is_dropped: Whether emphasis is left out.
    """
    rest: list[Node] = []
    for node in nodes:
        if isinstance(node, Group):
            inside = without(node.children, is_dropped)
            is_kept = not (_is_emphasis(node) and is_dropped(node))
            rest += [Group(node.source, tuple(inside))] if is_kept else inside
        else:
            rest.append(node)
    return rest


def with_stars(nodes: Sequence[Node]) -> list[Node]:
    """Content with asterisks instead of underscores, which mark no part of a word.

    Args:
        nodes: The content.
    """
    return [
        Group(
            tuple(sign.replace("_", "*") for sign in node.source) if _is_emphasis(node) else node.source,
            tuple(with_stars(node.children)),
        )
        if isinstance(node, Group)
        else node
        for node in nodes
    ]


def outline(nodes: Sequence[Node]) -> list[object]:
    """Content in a form in which equal content is equal.

    Args:
        nodes: The content.
    """
    outline: list[object] = []
    texts: list[str] = []

    def add(nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, str):
                texts.append(node)
                continue
            outline.extend(("".join(texts), node.source[:2] if isinstance(node, Group) else node.source))
            texts.clear()
            if isinstance(node, Group):
                add(node.children)
                outline.extend(("".join(texts), "end"))
                texts.clear()

    add(nodes)
    return [*outline, "".join(texts)]
