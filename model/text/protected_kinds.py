"""The kinds of text that are protected by default: URLs, placeholders, tags, paths, emoji and the like.

Each kind has a regular expression, and triggers: every text with a span of this kind contains one of these strings.
Most texts contain no trigger, so most expressions are not run. Every expression takes time linear in the text: a match
starts only at the start of a token, or its length is bounded, and no repetition can be matched in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from model.text.symbols import Span

LINE_BREAKS = "\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
"""The characters that end a line, for use in a character class. No span contains one of them."""

_OPENING = {")": "(", "]": "[", "}": "{"}
_AFTER_ADDRESS = ".,;:!?…'\"*’”“»«)]}"
_DOT_IN_WORD = re.compile(r"\w\.\w")

# The characters of a URL after its beginning. Full-width punctuation ends it: Chinese has no space there.
_URL_BODY = r"""[^\s<>"`|\\“”„»«，。、；：！？（）【】《》]"""
_TOP_LEVEL = "com|org|net|edu|gov|info|io|dev|eu|de|ch|fr|nl|pl|uk"
_EXTENSIONS = (
    "bat|bz2|cc|cfg|conf|cpp|cs|css|csv|doc|docx|env|epub|exe|gif|go|gz|hpp|htm|html|ini|ipynb|java|jpeg|jpg|js|json|"
    "jsx|kt|lock|log|md|mp3|mp4|mov|odt|onnx|pdf|php|png|po|ppt|pptx|properties|ps1|pt|py|pyi|rb|rs|rst|rtf|sh|sql|srt|"
    "svg|swift|tar|toml|ts|tsv|tsx|txt|vtt|wav|webp|whl|xlf|xliff|xls|xlsx|xml|yaml|yml|zip"
)
_PATH_PART = r"[\w.+~@%${}*=-]"
_HAS_EXTENSION = re.compile(rf"\.(?:{_EXTENSIONS})$")

# ICU's message formats contain texts in braces, which contain placeholders in braces.
_ICU_TYPES = "plural|selectordinal|select|number|date|time|duration|spellout|ordinal|list"
_NO_BRACE = rf"[^{{}}{LINE_BREAKS}]"

_PICTOGRAPHS = (
    "\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2b05-\u2b07"
    "\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff"
)
_EMOJI_UNIT = (
    rf"(?:[{_PICTOGRAPHS}]\ufe0f?|[^\w\s\ufe0f\u200d]\ufe0f)"  # a pictograph, or a symbol in its emoji form
    "[\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]{0,12}"  # skin tone; tags that spell flags such as Scotland's
)
_EMOJI_CHARACTER = re.compile(f"[{_PICTOGRAPHS}\U0001f1e6-\U0001f1ff\ufe0f\u20e3]")
_EMOJI = re.compile(rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3|{_EMOJI_UNIT}(?:\u200d{_EMOJI_UNIT})*")


@dataclass(frozen=True)
class Kind:
    """A kind of protected span.

    Args:
        triggers: Strings; a text without any of them has no span of this kind.
        pattern: Matches its spans, and possibly more.
        trim: Returns the end of the span, at most that of the match; the match's start if the match is not a span.
    """

    triggers: tuple[str, ...]
    pattern: re.Pattern[str]
    trim: Callable[[re.Match[str]], int] = re.Match.end

    def find(self, text: str) -> Iterator[Span]:
        """The spans of this kind in a text that has one of the triggers."""
        for match in self.pattern.finditer(text):
            end = self.trim(match)
            if end > match.start():
                yield match.start(), end


def default_spans(text: str) -> Iterator[Span]:
    """Candidates of all kinds, unordered; they may overlap."""
    if not _ANY_TRIGGER.search(text):
        return
    for kind in _KINDS:
        for trigger in kind.triggers:
            if trigger in text:
                yield from kind.find(text)
                break
    if "." in text and _DOT_IN_WORD.search(text):
        for kind in _DOTTED_KINDS:
            yield from kind.find(text)
    if "`" in text:
        yield from _code(text)
    if not text.isascii() and _EMOJI_CHARACTER.search(text):
        yield from (match.span() for match in _EMOJI.finditer(text))


def _without_punctuation(match: re.Match[str]) -> int:
    """The end of an address, without the punctuation of its sentence; a closing bracket stays if it was opened."""
    address = match[0]
    surplus = {closing: address.count(closing) - address.count(opening) for closing, opening in _OPENING.items()}
    end = len(address)
    while end and address[end - 1] in _AFTER_ADDRESS:
        last = address[end - 1]
        if last in surplus:
            if surplus[last] <= 0:
                break
            surplus[last] -= 1
        end -= 1
    return match.start() + end


def _path(match: re.Match[str]) -> int:
    """The end of a path with a root, such as ``/usr/bin``, ``./run`` or ``~/notes``."""
    end = _without_punctuation(match)
    root, *parts = match.string[match.start() : end].split("/")
    names = [part for part in parts if part]
    # A single name may be the second of two words: "red /green". A single name of a path rarely has a capital.
    is_path = bool(names) and (bool(root) or len(names) > 1 or (len(names[0]) > 2 and names[0][0].islower()))
    return end if is_path and any(character.isalpha() for character in names[0]) else match.start()


def _relative_path(match: re.Match[str]) -> int:
    """The end of a path such as ``docs/guide.md`` or ``app/http/``; and/or, km/h and 24/7 are not paths."""
    end = _without_punctuation(match)
    path = match.string[match.start() : end]
    is_folder = path.endswith("/") and path.count("/") > 1
    return end if is_folder or _HAS_EXTENSION.search(path) else match.start()


def _version(match: re.Match[str]) -> int:
    """The end of a version number; dates and numbers with separated thousands are not version numbers."""
    numbers = match["numbers"]
    if numbers and not match["suffix"]:
        parts = numbers.split(".")
        if len(parts[0]) < 4 and all(len(part) == 3 for part in parts[1:]):
            return match.start()
        if len(parts) == 3 and _is_date(*parts):
            return match.start()
    return match.end()


def _is_date(first: str, second: str, third: str) -> bool:
    if len(first) == 4:  # 2024.02.01
        return int(second) <= 12 and int(third) <= 31
    if not (1 <= int(first) <= 31 and 1 <= int(second) <= 12):
        return False
    return len(third) == 4 or (len(third) == 2 and (first[0] == "0" or second[0] == "0" or int(first) > 12))


def _code(text: str) -> Iterator[Span]:
    """Code in backticks: between two equal runs of backticks in a line, and the lines of a fenced block."""
    fence = ""
    fenced: list[Span] = []
    for line in _LINE.finditer(text):
        if line[0].isspace():
            continue
        opening = _FENCE.match(line[0])
        if fence:
            fenced.append(_strip(text, *line.span()))
            if opening and opening["fence"].startswith(fence) and not opening["info"]:
                yield from fenced
                fence, fenced = "", []
        elif opening and "`" not in opening["info"]:
            fence = opening["fence"]
            fenced = [_strip(text, *line.span())]
        elif "`" in line[0]:
            yield from _code_in_line(line[0], line.start())
    for start, end in fenced:  # a block that is not closed is no block
        yield from _code_in_line(text[start:end], start)


def _code_in_line(line: str, offset: int) -> Iterator[Span]:
    runs = [match.span() for match in _BACKTICKS.finditer(line)]
    following: dict[int, list[int]] = {}  # by length: indices of the runs, the next one last
    for index in range(len(runs) - 1, -1, -1):
        start, end = runs[index]
        following.setdefault(end - start, []).append(index)
    index = 0
    while index < len(runs):
        start, end = runs[index]
        same = following[end - start]
        while same and same[-1] <= index:
            same.pop()
        if same:
            index = same[-1]
            yield offset + start, offset + runs[index][1]
        index += 1


def _strip(text: str, start: int, end: int) -> Span:
    line = text[start:end]
    return start + len(line) - len(line.lstrip()), start + len(line.rstrip())


_LINE = re.compile(rf"[^{LINE_BREAKS}]+")
_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_BACKTICKS = re.compile("`+")
# Flags, width, precision and length of a conversion: the middle of %-5.2f and %ld.
_FORMAT_FLAGS = r"[-+0#']{0,5}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?(?:hh|ll|[hlLqjzt])?"
# Before a path: the beginning, whitespace, a bracket, a quotation mark or the like.
_AFTER_SPACE = r"(?<![^\s\"'(\[{=,;|*„“”‚‘’»«])"
_SPACE = rf"[^\S{LINE_BREAKS}]"

_KINDS = (
    # https://example.com/a_(b), git+ssh://host, www.example.com
    Kind(
        ("://", "www."),
        re.compile(rf"(?<![A-Za-z0-9])(?:[A-Za-z][A-Za-z0-9+.-]{{1,15}}://|www\.){_URL_BODY}+"),
        _without_punctuation,
    ),
    Kind(("mailto:", "tel:"), re.compile(rf"\b(?:mailto|tel):{_URL_BODY}+"), _without_punctuation),
    # <https://example.com>, <me@example.com>
    Kind(("<",), re.compile(rf"<(?:[a-z][a-z0-9+.-]{{1,15}}:{_URL_BODY}+|[\w.+-]{{1,64}}@[\w.-]{{1,255}})>")),
    Kind(("@",), re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,63}(?:\.[\w-]{1,63})+")),
    # @user, @user@host.example, @scope/package
    Kind(("@",), re.compile(r"(?<![\w.@/:+-])@[^\W\d]\w*(?:[./@-]\w+)*")),
    Kind(("#",), re.compile(r"(?<![\w&#/])#[^\W\d_]\w*")),
    # ###T01###
    Kind(("##",), re.compile(r"(?<![\w#])#{2,3}[\w.-]{1,100}#{2,3}(?![\w#])")),
    # {{ x }}, {{{x}}}, {% x %}, ${x}, #{x}, %{x}; {name}, {0:.2f}, {}
    Kind(
        ("{",),
        re.compile(
            rf"[$#%]?\{{\{{{_NO_BRACE}{{0,300}}\}}\}}|\{{\{{\{{{_NO_BRACE}{{0,300}}\}}\}}\}}|\{{%{_NO_BRACE}{{0,300}}%\}}"
            rf"|[$#%]\{{{_NO_BRACE}{{0,300}}\}}|\{{{_SPACE}?[^\s{{}}]{{0,100}}{_SPACE}?\}}"
        ),
    ),
    # {count, plural, one {# file} other {# files}}
    Kind(
        ("{",),
        re.compile(
            rf"\{{{_SPACE}*+[\w.]+{_SPACE}*+,{_SPACE}*+(?:{_ICU_TYPES})\b"
            rf"(?:{_NO_BRACE}++|\{{(?:{_NO_BRACE}++|\{{(?:{_NO_BRACE}++|\{{{_NO_BRACE}*+\}})*+\}})*+\}})*+\}}"
        ),
    ),
    # %s, %1$s, %-5.2f, %(x)d, %@, %1, %USER%, %%; %s may be followed by a letter, but "100 %ige" has no placeholder
    Kind(
        ("%",),
        re.compile(
            rf"%(?:(?<!\d%)(?<!\d\s%)(?:\d{{1,2}}\$)?{_FORMAT_FLAGS}(?:[sd@]|[A-Za-z](?![A-Za-z]))"
            rf"|\d{{1,2}}\${_FORMAT_FLAGS}[A-Za-z@]"
            rf"|\([^\s()]{{1,100}}\){_FORMAT_FLAGS}[A-Za-z]"
            r"|(?<!\d%)(?<!\d\s%)(?:[A-Za-z_][\w.-]{0,60}%(?!\w)|L?\d{1,2}(?!\d))"
            r"|[sd@](?![A-Za-z])|(?<!\d\s%)%)"
        ),
    ),
    # <x id="1"/>, </b>, <br>, <!-- -->; attributes have values, so "a <b and c> d" has no tag
    Kind(
        ("<",),
        re.compile(
            rf"</?[A-Za-z][\w:.-]{{0,100}}"
            rf"(?:{_SPACE}+[\w:@.-]{{1,100}}=(?:\"[^\"<{LINE_BREAKS}]{{0,2000}}\"|'[^'<{LINE_BREAKS}]{{0,2000}}'"
            rf"|[^\s\"'<>=`]+))*+{_SPACE}*+/?>|<!--[^{LINE_BREAKS}<>]{{0,2000}}-->"
        ),
    ),
    # \n, \r\n, \t, \u00e4, \" written out
    Kind(
        ("\\",),
        re.compile(r"(?:\\(?:n|[rtabfv0](?![a-z])|\\|[\"']|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}))+"),
    ),
    # :smile:, :+1:; not 12:30:45
    Kind((":",), re.compile(r"(?<![\w:]):(?:(?=[0-9_+-]{0,40}[a-z])[a-z0-9_+-]{1,40}|[+-]1):(?![\w:])")),
    # :-) ;) :D between spaces
    Kind((":", ";"), re.compile(r"(?<!\S)[:;]['^-]?[()DPp/|*](?![^\s.,!?])")),
    # the target of a link in Markdown: ](https://example.com/a_(b)), ](#anchor)
    Kind(("](",), re.compile(r"\]\((?:[^\s()]|\([^\s()]{0,100}\)){1,2000}\)")),
    # **bold** in Markdown
    Kind(("**",), re.compile(r"(?<!\*)\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?!\*)")),
    # /usr/bin, ./run.sh, ../x, ~/notes, $HOME/x, C:/x
    Kind(
        ("/",),
        re.compile(
            rf"{_AFTER_SPACE}(?:~|\.\.?|\$\w+|\$\{{\w+\}}|[A-Za-z]:)?/(?:{_PATH_PART}+/)*{_PATH_PART}*",
        ),
        _path,
    ),
    # docs/guide.md, src/app/
    Kind(("/",), re.compile(rf"{_AFTER_SPACE}[\w.+-]++(?:/{_PATH_PART}+)+/?"), _relative_path),
    # C:\Users\me, \\server\share
    Kind(
        ("\\",),
        re.compile(
            r"(?<![\w\\])(?:[A-Za-z]:|\\\\[\w.-]+)\\(?:[^\s\\<>:\"|?*]+\\)*[^\s\\<>:\"|?*]*",
        ),
        _without_punctuation,
    ),
)

_ANY_TRIGGER = re.compile(rf"[:;@#{{%<\\/`]|\]\(|\*\*|(?<=\w)\.\w|{_EMOJI_CHARACTER.pattern}")
"""Matches somewhere in every text with a span; most texts have no match."""

_DOTTED_KINDS = (
    # example.com, docs.example.org:8080/guide
    Kind(
        (".",),
        re.compile(
            rf"(?<![\w@./:-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{_TOP_LEVEL})(?![\w-])"
            rf"(?::\d{{1,5}})?(?:[/?#]{_URL_BODY}*)?"
        ),
        _without_punctuation,
    ),
    # setup.py, constraints.lock.txt
    Kind((".",), re.compile(rf"(?<![\w.@/\\-])[\w-]++(?:\.[\w-]++)*\.(?:{_EXTENSIONS})(?![\w-])")),
    # 1.2.3, 2.0.0-rc1, 2.0rc1
    Kind(
        (".",),
        re.compile(
            r"(?<![\w.,/-])(?:[vV]\d{1,5}(?:\.\d{1,5}){1,5}|(?P<numbers>\d{1,5}(?:\.\d{1,5}){2,5})|\d{1,5}\.\d{1,5}(?=-?(?:alpha|beta|rc|dev|a|b)[.-]?\d))"
            r"(?P<suffix>[-+.]?(?:alpha|beta|rc|dev|pre|post|a|b)[.-]?\d*|-\d+)?(?![\w]|[.,]\d)"
        ),
        _version,
    ),
)
