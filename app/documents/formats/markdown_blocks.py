"""Blocks of Markdown dialects that CommonMark does not know, as a rule of the library markdown-it.

The rule consumes the lines that are markers, and their bodies are parsed as other blocks are. Text of a marker becomes
a token: ``inline`` for Markdown, ``title`` for text between quotation marks. There is one rule for all dialects, as
the plugins of mdit-py-plugins need the names of the containers, read the bodies of some as code, and move footnotes.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock

_ARGUMENTS = r"(?:\[[^\[\]\n]{0,300}\]|\{[^{}\n]{0,300}\})*+"
_SHORTCODE = r"\{\{[<%](?:(?![>%]\}\})[^\n]){0,1000}+[>%]\}\}"
_TAG = r"\{%(?:(?!%\})[^\n]){0,1000}+%\}"
_LINE = re.compile(
    rf"""
    # :::tip Title, :::tip[Title], ::: {{.callout-note}}, :::{{figure}} house.png; those of directives are in _DIRECTIVE
    :{{3,}}+[ \t]*(?!\{{[\w:-]+\}})[\w.:/-]*+(?:\{{[^{{}}\n]*\}})?
        (?:(?:\[(?P<label>[^\[\]\n]+)\]|[ \t]+(?P<name>[^\s={{}}][^={{}}\n]*))?(?:\{{[^{{}}\n]*\}})?|[ \t].*=.*)
    |\[![\w-]+(?:\|[^\[\]\n]*)?\][-+]?(?:[ \t]+(?P<alert>\S.*))?  # [!NOTE], [!tip]- Title
    |/{{3,}}[ \t]*(?:[\w-]+[ \t]*(?:\|[ \t]*(?P<block>\S.*))?)?  # /// note | Title
    |\([\w./:+ -]+\)=  # (target)=
    |\{{(?::|[ \t]*[\#.]|[ \t]*[\w-]+=)[^{{}}\n]*\}}  # {{: #id}}
    |\[\[?_?(?:TOC|toc)_?\]?\]
    |\\[A-Za-z]+\*?{_ARGUMENTS}  # \newpage
    |(?:(?:{_SHORTCODE}|{_TAG})[ \t]*)++
    |;?-+8<-+[ \t].*|<<<[ \t].*  # --8<-- "file", <<< @/file
    |\+\+\+(?:[ \t]*\{{.*\}})?
    |\{{(?=[^\n]{{1,300}}?(?:=>|\w\())[^\n]+\}}  # {{items.map(item => <b>{{item}}</b>)}}
    |%%
    """,
    re.VERBOSE,
)
_INDENTED = re.compile(r'(?:(?:!!!|\?\?\?\+?)[ \t]+[\w -]+?|===[!+]?)(?:[ \t]+"(?P<title>[^"\n]*)")?')
_PREFIXED = re.compile(r"(?:(?:\[\^|\*\[)[^\[\]\n]+\]:|:(?:[\w+-][\w +.-]{0,60}:)?(?=[ \t]))[ \t]*+")
_TERM = re.compile(r"(?:[^\W\d_]|[*_`\[]\S)[^\n]{0,80}+\Z")
_DEFINITION = re.compile(r":[ \t]+\S")
_MAX_TERMS = 5
_STRONG_LINE = re.compile(r"\*\*[^*\n]+\*\*:?|__[^_\n]+__:?")
_DIRECTIVE = re.compile(
    r"(?P<fence>`{3,}+|~{3,}+|:{3,}+)[ \t]*\{?(?P<name>mermaid|(?<=\{)[\w:-]+)\}?(?:[ \t]+(?P<argument>\S[^`\n]*))?"
)
_OPTION = re.compile(r":(?P<name>[\w-]+):(?:[ \t]+(?P<value>\S.*))?")
_ATTRIBUTE = re.compile(r"(?<![\w-])(?:title|caption|alt|summary|label)=\"([^\"\n{}<>]+)\"")
_READ_OPTIONS = ("alt", "caption", "title")
_HAS_TITLE = re.compile(
    "admonition|attention|caution|danger|error|hint|important|note|tip|warning|seealso|callout|card|details|dropdown"
    "|grid-item-card|rubric|sidebar|tab-item|topic"
)
_PROSE = re.compile(
    f"{_HAS_TITLE.pattern}|aside|deprecated|epigraph|figure|grid|grid-item|margin|tab-set|versionadded|versionchanged"
)
"""Directives with Markdown in them; other fences hold code."""
_CODE = re.compile("code.*|math|toctree|eval-rst|mermaid|raw|literalinclude|include|image|bibliography|auto.*|contents")
"""Directives without Markdown in them, in any fence."""

_ELEMENT = re.compile(
    r"<(?P<name>[A-Z][\w.]*+|[a-z][\w-]*+(?=[^<>\n]{0,300}[ ](?:className=|markdown[ =>])))"
    r"(?:[^<>{}\n]|\{[^{}\n]*+\})*+(?<!/)>"
)
"""A component of MDX, or an element with Markdown in it."""
_MAX_CLOSINGS = 20
_EXPRESSION = re.compile(r"\{(?![{%:#.<])")
_MAX_EXPRESSION = 100

_RAW_NAMES = (
    "highlight|raw|code|codeblock|code-toggle|code_block|comment|javascript|katex|latex|math|mermaid|plantuml|schema"
    "|verbatim"
)
_RAW = re.compile(
    rf"(?P<dollars>\$\$)|(?P<bracket>\\\[)[ \t]*$|(?P<comment>%%)[ \t]*$|\\begin\{{(?P<begin>[^{{}}\n]+)\}}"
    rf"|\{{%-?[ \t]*(?P<tag>{_RAW_NAMES})\b|(?P<open>\{{\{{[<%])(?!.*[>%]\}}\}})"
    rf"|\{{\{{[<%][ \t]*(?P<code>{_RAW_NAMES})\b"
)
_RAW_ENDS = re.compile(
    r"(?P<dollars>\$\$)|(?P<bracket>\\\])|(?P<comment>%%)|\\end\{(?P<begin>[^{}\n]+)\}"
    r"|\{%-?[ \t]*end(?P<tag>[\w-]+)|(?P<open>[>%]\}\})|\{\{[<%][ \t]*/[ \t]*(?P<code>[\w-]+)"
)
_MODULE = re.compile(
    r"""import[ ]+(?:[^'"\n]{0,300}[ ]from[ ]+)?['"]|import[ ]+\{[^}\n]*$|export[ ]+[{*]
    |export[ ]+default[ ]+[\w.({\[]+;?$
    |export[ ]+(?:const|let|var|function|class|async|default[ ]+(?:function|class|async))[ ]+[\w{\[]""",
    re.VERBOSE,
)
_INDENT = 4


def dialect_parser() -> MarkdownIt:
    """A parser of blocks: CommonMark, tables, and the blocks of dialects. It does not parse paragraphs."""
    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    ends = ["paragraph", "reference", "blockquote", "list", "table"]
    parser.block.ruler.before("table", "dialect", _dialect, {"alt": ends})
    return parser


def _dialect(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The rule."""
    line = _content(state, start)
    if not silent and _begins_terms(state, start, end):
        _push(state, "inline", start, line)
        state.line = start + 1
        return True
    if not line or line[0] not in "!$%(*+-/:;<=?[\\_`{~ie" or state.is_code_block(start):
        return False
    if _ends_of_raw(state, start, line):
        if not silent:
            _keep_raw(state, start, end, line)
        return True
    if directive := _DIRECTIVE.fullmatch(line.rstrip()):
        is_known = directive["fence"][0] == ":" or _PROSE.fullmatch(directive["name"])
        if is_known and not silent:
            _read_directive(state, start, end, directive)
        return bool(is_known)  # other fences are code
    if not silent and (element := _ELEMENT.fullmatch(line.rstrip())) and _read_element(state, start, end, element):
        return True
    if not silent and _EXPRESSION.match(line) and _keep_expression(state, start, end):
        return True
    if _MODULE.match(line) and not state.blkIndent:  # begins a block; it does not end a paragraph
        return not silent and _keep_module(state, start, end)
    if not silent and _STRONG_LINE.fullmatch(line.rstrip()):  # as a title; it does not end a paragraph
        _push(state, "inline", start, line)
        state.line = start + 1
        return True
    marker = _LINE.fullmatch(line.rstrip()) or _INDENTED.fullmatch(line.rstrip())
    prefix = None if marker else _PREFIXED.match(line)
    if (marker or prefix) and not silent:
        if prefix:
            _read_prefixed(state, start, end, prefix.end())
        elif marker:
            _read_marker(state, start, end, marker)
    return bool(marker or prefix)


def _begins_terms(state: StateBlock, start: int, end: int) -> bool:
    """Whether a line and at least one below it are terms of one definition."""
    for number in range(start, min(start + _MAX_TERMS + 1, end)):
        line = _content(state, number)
        if not _TERM.match(line):
            return number > start + 1 and bool(_DEFINITION.match(line))
    return False


def _content(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _push(state: StateBlock, kind: str, line: int, content: str | None) -> None:
    if content:
        token = state.push(kind, "", 0)
        token.map = [line, line + 1]
        token.content = content.strip()
        token.children = []


def _push_attributes(state: StateBlock, line: int) -> None:
    for title in _ATTRIBUTE.findall(_content(state, line)):
        _push(state, "title", line, title)


def _key(match: re.Match[str]) -> tuple[str, str]:
    kind = match.lastgroup or ""
    return kind, match[kind] if kind in ("begin", "tag", "code") else ""


def _ends_of_raw(state: StateBlock, start: int, line: str) -> bool:
    """Whether a block that is kept begins in a line, and ends somewhere."""
    opening = _RAW.match(line)
    if not opening:
        return False
    if "ends" not in state.env:  # once for each file, so that openings without an end cost nothing
        lines = enumerate(state.src.split("\n"))
        state.env["ends"] = {_key(end): number for number, text in lines for end in _RAW_ENDS.finditer(text)}
    key, rest = _key(opening), line[opening.end() :]
    if (closing := _end_in(rest, key)) >= 0:
        return (
            not any(map(str.isalpha, rest[closing:])) or rest[closing:].strip()[0] in "({"
        )  # else it is in a paragraph
    return bool(state.env["ends"].get(key, -1) > start)


def _end_in(text: str, key: tuple[str, str]) -> int:
    """Index behind the end of a block that is kept, or -1."""
    return next((end.end() for end in _RAW_ENDS.finditer(text) if _key(end) == key), -1)


def _keep_raw(state: StateBlock, start: int, end: int, line: str) -> None:
    opening = _RAW.match(line)
    assert opening
    key = _key(opening)
    following = start + 1
    if _end_in(line[opening.end() :], key) < 0:
        while following < end and (state.isEmpty(following) or state.sCount[following] >= state.blkIndent):
            following += 1
            if _end_in(_content(state, following - 1), key) >= 0:
                break
    for number in range(start, following if key[0] == "open" else start + 1):
        _push_attributes(state, number)
    state.line = following


def _keep_module(state: StateBlock, start: int, end: int) -> bool:
    state.line = next((line for line in range(start, end) if state.isEmpty(line)), end)
    return True


def _keep_expression(state: StateBlock, start: int, end: int) -> bool:
    """An expression of JSX over several lines; False if it does not end."""
    depth = 0
    for line in range(start, min(end, start + _MAX_EXPRESSION)):
        content = _content(state, line)
        depth += content.count("{") - content.count("}")
        if depth <= 0:
            state.line = line + 1
            return line > start
    return False


def _read_marker(state: StateBlock, start: int, end: int, marker: re.Match[str]) -> None:
    groups = marker.groupdict()
    _push(state, "title", start, groups.get("title"))
    for name in ("label", "name", "alert", "block"):
        _push(state, "inline", start, groups.get(name))
    _push_attributes(state, start)
    state.line = start + 1
    if marker.re is _INDENTED:
        following, indent = start + 1, state.blkIndent + _INDENT
        while following < end and (state.isEmpty(following) or state.sCount[following] >= indent):
            following += 1
        _read_body(state, start + 1, following, indent)


def _read_element(state: StateBlock, start: int, end: int, element: re.Match[str]) -> bool:
    """An element with Markdown in it, whose body may be indented; False if it does not end."""
    if "closings" not in state.env:
        state.env["closings"] = {}
        for number, text in enumerate(state.src.split("\n")):
            if (closing := text.strip(" \t>\r")).startswith("</"):
                state.env["closings"].setdefault(closing, []).append(number)
    lines = state.env["closings"].get(f"</{element['name']}", [])
    candidates = lines[bisect_right(lines, start) :][:_MAX_CLOSINGS]
    close = next((line for line in candidates if line < end and state.sCount[line] == state.sCount[start]), -1)
    body = [line for line in range(start + 1, close) if not state.isEmpty(line)]
    if close < 0:
        return False
    _push_attributes(state, start)
    if body:
        _read_body(state, start + 1, close, min(state.sCount[line] for line in body))
    state.line = close + 1
    return True


def _read_prefixed(state: StateBlock, start: int, end: int, width: int) -> None:
    """A footnote or a definition: text behind its sign, and what is indented below."""
    old = state.bMarks[start], state.tShift[start], state.sCount[start]
    state.bMarks[start] += state.tShift[start] + width
    state.tShift[start], state.sCount[start] = 0, state.blkIndent + 2
    _read_body(state, start, end, state.blkIndent + 2)
    state.bMarks[start], state.tShift[start], state.sCount[start] = old
    state.line = max(state.line, start + 1)


def _read_directive(state: StateBlock, start: int, end: int, directive: re.Match[str]) -> None:
    """The first lines of a directive of MyST; for a fence of backticks, all of it."""
    if _HAS_TITLE.fullmatch(directive["name"]):
        _push(state, "inline", start, directive["argument"])
    body = start + 1
    if body < end and _content(state, body).rstrip() == "---":  # options in YAML
        body = next((line + 1 for line in range(body + 1, end) if _content(state, line).rstrip() == "---"), body)
    while body < end and (option := _OPTION.fullmatch(_content(state, body).rstrip())):
        if option["name"] in _READ_OPTIONS:
            _push(state, "inline", body, option["value"])
        body += 1
    state.line = body
    fence, is_code = directive["fence"], _CODE.fullmatch(directive["name"])
    if fence[0] == ":" and not is_code:
        return
    closing = re.compile(rf"{fence}{fence[0]}*+[ \t]*")
    close = body
    while close < end and not closing.fullmatch(_content(state, close)):
        close += 1
    if not is_code:
        _read_body(state, body, close, state.blkIndent)
    state.line = min(close + 1, end)


def _read_body(state: StateBlock, start: int, end: int, indent: int) -> None:
    """Parse the blocks of some lines."""
    old = state.blkIndent, state.lineMax, state.parentType
    state.blkIndent, state.lineMax = indent, end
    state.level += 1
    state.line = start
    state.md.block.tokenize(state, start, end)
    state.level -= 1
    state.blkIndent, state.lineMax, state.parentType = old
