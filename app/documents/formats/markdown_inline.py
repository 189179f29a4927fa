"""What is inside a paragraph of Markdown, as nodes, and nodes as Markdown.

markdown-it does not say where in the file an inline element is, so it is not used for these.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from app.documents.formats.codes import is_code
from app.documents.formats.document_file import unescaped
from app.documents.formats.inline import Group, Node, Point, shown_text
from app.documents.formats.markdown_emphasis import outline, tidied, with_stars, without
from app.serving.detection import has_letters

# Everything is bounded, so that odd files take no longer than others.
_NAMED = r"""[\w:-]{1,100}=(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|[^\s{}"'=]{1,300})"""
_ATTRIBUTES = (
    rf"\{{:?[ \t]{{0,9}}(?:[#.][\w:.-]{{1,100}}|{_NAMED})"
    rf"(?:[ \t]{{1,9}}(?:[#.]?[\w:.-]{{1,100}}|{_NAMED})){{0,20}}[ \t]{{0,9}}\}}"
)
_DESTINATION = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.){0,500}\)){0,2000}\)|\[[^\[\]]{0,1000}\](?!\()"
_INLINE = re.compile(
    rf"""
    (?P<role>\{{[\w:.+-]{{1,50}}\}}`)(?P<title>[^`<>]{{1,300}}[^`<>\s])(?P<end>\s<[^`<>\s]{{1,300}}>`)(?!`)
    |(?P<kept>(?:\{{[\w:.+-]{{1,50}}\}})?(?P<ticks>(?<!`)`+)(?!`).{{1,2000}}?(?<!`)(?P=ticks)(?!`)
        |<(?P<verbatim>kbd|samp|var|code|tt)\b[^<>]{{0,300}}>[^<>]{{0,300}}</(?P=verbatim)>
        |<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>|<[\w.+-]+@[\w.-]+>
        |\$\$[^$]{{1,500}}\$\$  # formulas
        |(?<![\w$\\])\$(?:(?=\d)[^\s$]{{1,100}}|(?![\s\d$])(?:[^$\\]|\\.){{1,300}})(?<!\s)\$(?![\w$])
        |\\\((?=[^\n\\]{{0,100}}(?:[=^_<>+{{}}]|\\[a-z])|[^\n\\]{{1,2}}\\\))(?:[^\n\\]|\\(?!\))){{1,300}}\\\)
        |(?<![\w\\:/])\\[A-Za-z]{{2,30}}\*?(?:\[[^\[\]\n]{{0,200}}\]|\{{[^{{}}\n]{{0,300}}\}}){{0,5}}  # LaTeX
        |!?\[\[[^\[\]|\n]{{1,300}}\]\](?![(\[])|!\[\[[^\[\]\n]{{1,300}}\]\]  # [[page]], ![[file|100]]
        |\{{\{{(?![<%])(?:[^{{}}]|\{{[^{{}}]{{0,100}}\}}){{0,300}}\}}\}}  # {{{{ value }}}}
        |(?<![{{\w])\{{(?:'[^'\n]{{0,100}}'|"[^"\n]{{0,100}}"  # expressions of JSX
            |(?=[^{{}}\n]{{1,200}}(?:[ ](?:[*/+?<>-]|[=!]==?|&&|\|\||=>)[ ]|\w\())[^{{}}\n]{{1,300}})\}}(?!\}})
        |(?<!\{{)\+\+[\w+"-]{{1,60}}\+\+(?!\}})|:[\w+-]{{1,60}}:(?=\{{))  # ++ctrl+c++, :icon:{{ .large }}
    |(?P<hidden>!\[(?:[^\[\]\\]|\\.){{0,1000}}\](?:{_DESTINATION})?
        |\[\^[^\[\]\s]+\]|\A\[[ xX]\](?=\s)|\[-?@[^\[\]\n]{{1,300}}\](?!\(|\[(?!-?@))
        |\{{\{{[<%](?:[^{{}}]|\{{[^{{}}]{{0,100}}\}}){{0,500}}[>%]\}}\}}|\{{%(?:[^%{{]|%(?!\}})|\{{(?!%)){{0,500}}%\}}
        |\{{/\*.{{0,2000}}?\*/\}}|(?<=\s)\^[A-Za-z0-9-]{{1,60}}\Z)
    |(?P<attributes>{_ATTRIBUTES})
    |(?P<spelled>\\[!-/:-@\[-`{{-~]|&(?:\#[0-9]{{1,7}}|\#[xX][0-9a-fA-F]{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});)
    |(?P<tag></?[A-Za-z][^<>]{{0,2000}}>|<!--.{{0,2000}}?-->)
    |(?P<hard>(?:(?<!\ )\ {{2,}}+|\\)\n)
    |\[\[(?P<target>[^\[\]|\n]{{1,300}})\|(?P<label>[^\[\]\n]{{1,300}})\]\]
    |(?P<opening>\[)
    |(?P<closing>\](?P<destination>(?:{_DESTINATION})(?:{_ATTRIBUTES})?|{_ATTRIBUTES})?)
    |(?P<url>https?://(?:[^\s<>()\[\]"'`|*_]|_(?=\w)){{1,2000}})
    |(?P<mark>\*+|_+|~~|==(?![=\s])|(?<![=\s])==(?!=))
    """,
    re.VERBOSE | re.DOTALL,
)
_CAPTION = re.compile(
    r"""(?:\A!\[|[\s](?:title|caption|alt|summary|label)=(?=")|\s(?="[^"]*"\)[^"]*\Z))"?"""
    r"""([^\[\]\\|\n`<>{}"\ufdd0]{1,300}+)(?=[]|"])"""
)
"""What an image shows instead, the title of a link, or an attribute that readers see, in the source of one."""
_CAPTION_NUMBER = re.compile("\ufdd0([0-9]{1,6})\ufdd0")
_NOT_IN_CAPTION = re.compile(r"[\[\]|\"<>\n]")
_SPECIAL = re.compile(r"[\\`\[\]<$]|\*(?=\S)|(?<=\S)\*|(?<!\w)_|_(?!\w)|~(?=~)|=(?==)|&(?=#?\w+;)|\{(?=[{%:#.\w])")
_DASH = "\u2013"
"""The dash that languages have in place of the longer one (U+2014)."""

_VERBATIM_TAG = re.compile(r"</?(?:kbd|samp|var|code|tt)\b[^<>]*>")
_TAG_NAME = re.compile(r"</?([A-Za-z][\w.:-]*)")
_VOID = ("br", "img", "hr", "input", "wbr", "source", "col")
_MAX_SHOWN = 100
_MAX_DEPTH = 50
_LONGEST_LABEL = 1000


class _Open(NamedTuple):
    """An inline element that is not closed yet.

    Args:
        sign: What opened it.
        inside: What is in it.
    """

    sign: str
    inside: list[Node]


class _Spelled(str):
    """A character that is written as an escape or a reference."""

    def __new__(cls, character: str, written: str) -> _Spelled:
        spelled = super().__new__(cls, character)
        spelled.written = written
        return spelled

    written: str


class InlineContent:
    """The content of a paragraph.

    Args:
        source: Its Markdown.
        is_defined: Whether a label is that of a link definition.
    """

    def __init__(self, source: str, is_defined: Callable[[str], bool]) -> None:
        self._is_defined = is_defined
        self.captions: list[str] = []
        """Texts beside its sentences: what images show instead, titles of links, attributes that readers see."""
        self.nodes = self._read(source)
        """Its nodes."""
        texts = list(_texts(self.nodes))
        self._spellings: dict[str, list[str]] = {_sign(text): [] for text in texts if isinstance(text, _Spelled)}
        for text in texts if self._spellings else ():
            for character in text:
                if _sign(character) in self._spellings:
                    self._spellings[_sign(character)].append(text.written if isinstance(text, _Spelled) else character)

    def write(self, nodes: Sequence[Node]) -> str:
        """Other content with the same elements as Markdown, with as few changed signs as possible.

        A character that the source writes as an escape or a reference is written so again. Others are escaped only if
        they would be signs. Emphasis that Markdown cannot express is left out.

        Args:
            nodes: The other content.
        """
        tidy = tidied(nodes)
        spaced = without(tidy, lambda group: not any(map(str.isalnum, shown_text(group.children))))
        for intended in (tidy, with_stars(tidy), spaced):
            for is_escaped in (False, True):
                text = self._written(intended, is_escaped)
                if outline(InlineContent(text, self._is_defined).nodes) == outline(intended):
                    return self._with_captions(text)
        return self._with_captions(self._written(without(tidy, lambda group: True), is_escaped=True))

    def _without_captions(self, source: str) -> str:
        """The source of an element with numbers instead of its captions."""

        def number(match: re.Match[str]) -> str:
            if not has_letters(match[1]) or is_code(match[1]) or unescaped(match[1]) != match[1]:
                return match[0]
            self.captions.append(match[1])
            return f"{match[0][: -len(match[1])]}\ufdd0{len(self.captions) - 1}\ufdd0"

        return _CAPTION.sub(number, source) if "![" in source or '"' in source else source

    def _with_captions(self, text: str) -> str:
        captions = dict(enumerate(self.captions))
        return _CAPTION_NUMBER.sub(lambda number: caption_source(captions.get(int(number[1]), number[0])), text)

    def _written(self, nodes: Sequence[Node], is_escaped: bool) -> str:
        spellings = {character: deque(spelled) for character, spelled in self._spellings.items()}

        def character(match: re.Match[str]) -> str:
            spelled = spellings.get(_sign(match[0]))
            if spelled and len(written := spelled.popleft()) > 1:
                return written
            return f"\\{match[0]}" if is_escaped and _SPECIAL.match(match.string, match.start()) else match[0]

        signs = "".join(re.escape(sign) + _DASH * (sign == "\u2014") for sign in spellings)
        patterns = [f"[{signs}]"] * bool(signs) + [_SPECIAL.pattern] * is_escaped
        pattern = re.compile("|".join(patterns)) if patterns else None

        def parts(nodes: Sequence[Node]) -> Iterator[str]:
            present = [node for node in nodes if node != ""]
            for node, following in zip_longest(present, present[1:]):
                if isinstance(node, str):
                    text = pattern.sub(character, node) if pattern else node
                    begins_image = is_escaped and text.endswith("!") and _begins_label(following)
                    yield f"{text[:-1]}\\!" if begins_image else text
                elif isinstance(node, Group):
                    inside = "".join(parts(node.children))
                    yield from (node.source[0], inside)
                    yield node.source[-1] if node.source[1] == f"][{inside}]" else node.source[1]
                else:
                    yield node.source

        return "".join(parts(nodes))

    def _read(self, content: str) -> list[Node]:
        stack = [_Open("", [])]
        done = 0
        matches = list(_INLINE.finditer(content))
        links = self._links(content, matches)
        for match in matches:
            is_adjacent = done == match.start()
            if not is_adjacent:
                stack[-1].inside.append(content[done : match.start()].replace("\n", " "))
            done = match.end()
            inside = stack[-1].inside
            if match["kept"]:
                shown = _VERBATIM_TAG.sub("", match[0]).strip("`<>").strip() if match[0][0] in "`<" else match[0]
                inside.append(Point(match[0], shown if len(shown) <= _MAX_SHOWN else ""))
            elif match["hidden"]:
                inside.append(Point(self._without_captions(match[0])))
            elif match["role"]:
                inside.append(Group((match["role"], match["end"]), (match["title"].replace("\n", " "),)))
            elif match["tag"]:
                _tag(stack, self._without_captions(match[0]))
            elif match["attributes"]:
                _add_attributes(inside, match[0], is_adjacent)
            elif match["spelled"]:
                shown = match[0][1] if match[0][0] == "\\" else unescaped(match[0])
                inside.append(_Spelled(shown, match[0]) if len(shown) == 1 else match[0])
            elif match["hard"]:
                inside.append(Point(match[0], is_break=True))
            elif match["label"]:
                inside.append(Group((f"[[{match['target']}|", "]]"), (match["label"],)))
            elif match["closing"] and match.start() in links:
                _close_link(stack, links[match.start()])
            elif match["mark"] and len(stack) <= _MAX_DEPTH:
                _mark(stack, match)
            elif match["opening"] and match.start() in links:
                stack.append(_Open("[", []))
            else:
                inside.append(match[0])
        stack[-1].inside.append(content[done:].replace("\n", " "))
        _revert(stack, 1)
        return stack[0].inside

    def _links(self, content: str, matches: Sequence[re.Match[str]]) -> dict[int, tuple[str, ...]]:
        """The ends of links by the indices of their brackets; no link is inside another.

        An end that names no definition has two forms: the second one is for a link whose text stays as it is.
        """
        links: dict[int, tuple[str, ...]] = {}
        openings: list[re.Match[str]] = []
        for match in matches:
            if match["opening"]:
                openings.append(match)
            elif match["closing"] and openings:
                opening = openings.pop()
                label = content[opening.end() : match.start()] if match.start() < opening.end() + _LONGEST_LABEL else ""
                destination = match["destination"] or ""
                if label and destination in ("", "[]") and self._is_defined(label):
                    ends: tuple[str, ...] = f"][{' '.join(label.split())}]", match[0]
                elif destination[:1] in ("(", "{") or (destination and self._is_defined(destination[1:-1])):
                    ends = (self._without_captions(match[0]),)
                else:
                    continue
                links[opening.start()] = links[match.start()] = ends
                openings.clear()
        return links


def caption_source(text: str) -> str:
    """A caption as it stands between brackets or quotation marks.

    Args:
        text: The caption.
    """
    return _NOT_IN_CAPTION.sub(lambda sign: f"&#{ord(sign[0])};" if sign[0] != "\n" else " ", text)


def _close_link(stack: list[_Open], ends: tuple[str, ...]) -> None:
    depth = _index_of(stack, "[")
    _revert(stack, depth + 1)
    inside = stack.pop().inside
    if not inside:  # the page shows the title of what it leads to
        stack[-1].inside.append(Point(f"[{ends[0]}", ends[0]))
    else:
        stack[-1].inside.append(Group(("[", *ends), tuple(inside)))


def _sign(character: str) -> str:
    """A character, or the longer dash for a dash: a reference to one stands for that of the translation."""
    return "\u2014" if character == _DASH else character


def _texts(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, Group):
            yield from _texts(node.children)


def _add_attributes(inside: list[Node], attributes: str, is_adjacent: bool) -> None:
    """An attribute list belongs to the element that it touches."""
    last = inside[-1] if inside and is_adjacent else None
    if isinstance(last, Point):
        inside[-1] = replace(last, source=last.source + attributes)
    elif isinstance(last, Group):
        inside[-1] = Group((last.source[0], last.source[1] + attributes), last.children)
    else:
        inside.append(Point(attributes))


def _tag(stack: list[_Open], tag: str) -> None:
    """A tag of HTML; two that belong together are around what is between them."""
    name = _TAG_NAME.match(tag)
    if name and tag[1] == "/":
        opening = f"<{name[1]}"
        depth = next((index for index in range(len(stack) - 1, 0, -1) if _name_of(stack[index].sign) == opening), 0)
        if depth:
            _revert(stack, depth + 1)
            sign, inside = stack.pop()
            stack[-1].inside.append(Group((sign, tag), tuple(inside)) if inside else Point(sign + tag))
            return
    elif name and not tag.endswith("/>") and name[1].lower() not in _VOID and len(stack) <= _MAX_DEPTH:
        stack.append(_Open(tag, []))
        return
    stack[-1].inside.append(Point(tag, is_break=bool(name) and _name_of(tag) == "<br"))


def _name_of(tag: str) -> str:
    name = _TAG_NAME.match(tag)
    return f"<{name[1]}" if name else ""


def _index_of(stack: Sequence[_Open], sign: str) -> int:
    """The innermost index at which an element with a sign is open, or 0. Emphasis does not leave its link."""
    for index in range(len(stack) - 1, 0, -1):
        if stack[index].sign[0] == sign:
            return index
        if stack[index].sign == "[":
            return 0
    return 0


def _revert(stack: list[_Open], depth: int) -> None:
    """Make text of what was opened and is not closed."""
    for one in stack[depth:]:
        stack[depth - 1].inside.extend([Point(one.sign) if one.sign[0] == "<" else one.sign, *one.inside])
    del stack[depth:]


def _mark(stack: list[_Open], match: re.Match[str]) -> None:
    """Open or close emphasis, as the specification of CommonMark says ("left-flanking", "right-flanking")."""
    run, text = match[0], match.string
    before, behind = (text[match.start() - 1] if match.start() else " "), text[match.end() : match.end() + 1] or " "
    opens = not behind.isspace() and (not _is_punctuation(behind) or before.isspace() or _is_punctuation(before))
    closes = not before.isspace() and (not _is_punctuation(before) or behind.isspace() or _is_punctuation(behind))
    if run[0] == "_" and opens and closes:
        opens, closes = _is_punctuation(before), _is_punctuation(behind)
    if len(run) > 3:
        opens = closes = False
    if closes:
        run = _closed(stack, run)
    if run and opens:
        stack.append(_Open(run, []))
    elif run:
        stack[-1].inside.append(run)


def _closed(stack: list[_Open], run: str) -> str:
    """Close emphasis with a run of signs; returns those that close nothing."""
    while run and (depth := _index_of(stack, run[0])):
        _revert(stack, depth + 1)
        sign, inside = stack.pop()
        used = min(2, len(sign), len(run))
        group = Group((run[:used], run[:used]), tuple(inside))
        if sign[used:]:
            stack.append(_Open(sign[used:], [group]))
        else:
            stack[-1].inside.append(group)
        run = run[used:]
    return run


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _begins_label(node: Node | None) -> bool:
    """Whether the source of an element begins with a label in brackets, as a link does, and an image after ``!``."""
    source = node.source[0] if isinstance(node, Group) else node.source if isinstance(node, Point) else ""
    return str(source).startswith("[")
