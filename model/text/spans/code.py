"""Kinds of protected spans: code, commands, identifiers, codes of products, date patterns, and values that are keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.text.accelerators import LABEL_WITH_KEY
from model.text.spans.kind import AFTER_SPACE, LINE_BREAKS, LINE_START, SPACE, Kind
from model.text.symbols import Span

_LINE = re.compile(rf"[^{LINE_BREAKS}]+")
_FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_BACKTICKS = re.compile("`+")


_FRONT_MATTER = re.compile(
    r"---[ \t]*+\r?\n(?=[a-z#])"
    r"(?:(?!---|\.\.\.)(?:[\w\"'][^\r\n:]*+:(?=\s)|[- \t#\]}]|(?=\r?\n))[^\r\n]*+\r?\n)++"
    r"(?:---|\.\.\.)(?=[ \t]*+(?:\r?\n|\Z))"
    r"|\+\+\+[ \t]*+\r?\n(?=[a-z#\[])(?:(?!\+\+\+)[^\n]*+\n)++\+\+\+(?=[ \t]*+(?:\r?\n|\Z))"
)
"""Metadata in YAML or TOML: each line has a key, belongs to the value of the line before, or is a comment."""


def _front_matter(text: str) -> Iterator[Span]:
    """The lines of the metadata at the beginning of a text for a program that makes a site of it."""
    if block := _FRONT_MATTER.match(text):
        for line in _LINE.finditer(text, 0, block.end()):
            start, end = _strip(text, *line.span())
            if start < end:
                yield start, end


def code_in_backticks(text: str) -> Iterator[Span]:
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


_TOOLS = (
    "npm|npx|yarn|pnpm|pip3?|pipx|git|docker|docker-compose|kubectl|helm|apt|apt-get|brew|cargo|rustup|conda|composer|"
    "gem|bundle|rails|dotnet|gradle|mvn|systemctl|terraform|ansible|poetry|uv|python3?|node|php|sudo|chmod|mkdir|curl|wget|ssh"
)
_ACTIONS = (
    "install|uninstall|add|remove|run|start|stop|build|test|init|create|update|upgrade|publish|ci|exec|up|down|pull|push|"
    "commit|clone|checkout|branch|merge|rebase|status|log|diff|fetch|stash|tag|apply|get|delete|describe|logs|ps|images|"
    "new|serve|sync|restart|enable|disable|require|list|search|show|config|login"
)
# What follows the action of a command: options, paths, names with a sign inside, and the remote of git.
_ARGUMENT = (
    r"(?:--?[A-Za-z][\w-]*(?:=\S*\w)?|(?=[^\s,;!?]{0,200}[\w@][./_@=:-]\w)[^\s,;!?]*[\w/]"
    r"|origin(?: (?:main|master|develop)\b)?|-[A-Za-z]\b)"
)

# Values of one word: the part of a key, of an identifier, or of a class of CSS.
_WORDS_IN_CAPITALS = (
    "YES|NO|ON|OFF|NEW|OLD|END|ALL|AND|OR|TOP|OUT|IN|UP|ADD|BUY|RUN|SET|GET|NOT|DAY|ART|CAR|SUN|MON|TUE|WED|THU|FRI|SAT|"
    "JA|AUS|AN|AUF|ZU|TAG|ALT|NEU|UND|VON|BIS|DER|DIE|DAS|EIN|AB|THE|FOR|ONE|TWO|SIX|TEN|RED|BIG|HOT|DRY|WET|BAD|GO|BY|TO|"
    "OF|AT|IT|IS|WE|ME|MY|HE|BE|DO|SO|IF|AS|WHO|HOW|WHY|YOU|HER|HIM|HIS|ROT|TUR|MO|SA|SO|DI|MI|FR"
)
_DATE_TOKEN = r"(?:[yYJ]{2,4}|M{1,4}|D{1,2}|d{1,4}|T{2}|H{1,2}|h{1,2}|m{1,2}|s{1,2}|S{1,3}|E{1,4}|a|A|Z|z|XXX|tt)"
_NUMBERED = (
    "sections?|sect|chapters?|figures?|fig|tables?|version|release|step|part|appendix|article|clause|exercise|equation|python|ios|android|"
    "abschnitte?s?|kapitels?|abbildung|abb|tabelle|tab|schritt|anhang|artikel|ziffer|absatz|nummer|nr|punkt|aufgabe|gleichung|bild"
)
_MEDIA_TYPES = "application|text|image|audio|video|font|multipart|model|message"
_DOT_IN_WORD = re.compile(r"\.(?<=\w\.)\w")


_LITERAL = re.compile(
    rf"(?P<indent>{SPACE}*)(?:\.\. (?:code-block|code|sourcecode|math|raw|toctree|parsed-literal|doctest)::"
    rf"|[^\s.:][^{LINE_BREAKS}]*::\Z)"
)


def _literal_blocks(text: str) -> Iterator[Span]:
    """The lines of literal blocks of reStructuredText, which are indented further than the line that announces them."""
    indent: int | None = None
    for line in _LINE.finditer(text):
        start, end = _strip(text, *line.span())
        if start >= end:
            continue
        if indent is not None and start - line.start() > indent:
            yield start, end
            continue
        announces = _LITERAL.match(line[0].rstrip())
        indent = len(announces["indent"]) if announces else None


def _date_pattern(match: re.Match[str]) -> int:
    """The end of a pattern such as ``dd.MM.yyyy``; one with a space has a year, the name of a month, or a time."""
    has_token = re.search("[yYJ]{2}|MM|dd|DD|TT|HH|hh|mm|ss|[Yyi]", match[0])
    has_space = " " in match[0] and not re.search("[yYJ]{4}|MMM|[Hh]:?mm|:i", match[0])
    return match.start() if has_space or not has_token else match.end()


# The rows are as compact as those of a table.
# fmt: off
KINDS = (
    Kind("object of JSON",
        rf"\{{{SPACE}{{0,4}}\"[^\"{LINE_BREAKS}]{{1,100}}\"{SPACE}{{0,4}}:(?:[^{{}}{LINE_BREAKS}]|\{{[^{{}}{LINE_BREAKS}]{{0,500}}\}}){{0,2000}}\}}",
        ('{"', '{ "'),
        ('{"name": "red house"}', '{"a": {"b": 1}}'),
        ('{"quoted"}',)),
    Kind("list of JSON",
        rf"\[{SPACE}?\"[^\"{LINE_BREAKS}]{{0,200}}\"(?:, ?\"[^\"{LINE_BREAKS}]{{0,200}}\"){{0,100}}{SPACE}?\]",
        ('["', '[ "'),
        ('["red house", "blue car"]',),
        ('[a "quoted" word]', '["quoted" word]')),
    Kind("statement of SQL",
        rf"\b(?:SELECT{SPACE}[^;{LINE_BREAKS}]{{1,300}}{SPACE}FROM|INSERT{SPACE}INTO|DELETE{SPACE}FROM|(?:CREATE|ALTER|DROP){SPACE}TABLE|UPDATE{SPACE}\w+{SPACE}SET){SPACE}"
        rf"[^;{LINE_BREAKS}]{{0,1000}}[^\s;]",
        ("SELECT ", "INSERT ", "DELETE ", " TABLE ", "UPDATE "),
        ("⟦SELECT * FROM users WHERE id = 1⟧;", "⟦DROP TABLE users⟧;"),
        ("SELECT A COLOUR", "UPDATE: new")),
    Kind("command",
        rf"{AFTER_SPACE}(?:sudo )?(?:{_TOOLS}) (?:(?:{_ACTIONS})(?![\w-])|(?={_ARGUMENT}))"
        rf"(?: ?{_ARGUMENT}(?=[\s,.;:!?)]|$)){{0,12}}",
        ("pip ", "python ", *(f"{tool} " for tool in _TOOLS.replace("?", "").split("|"))),
        ("Run ⟦npm install⟧ and then ⟦git push origin main⟧.", "⟦docker run -it ubuntu:22.04⟧",
         "⟦pip install -r requirements.txt⟧ first"),
        ("git is a tool", "node one", "the gem shines", "php and python are"),
        trim=lambda match: match.start() if match[0].endswith(" ") else match.end()),
    Kind("option",
        rf"{AFTER_SPACE}(?:--[A-Za-z][\w-]*(?:=(?:\"[^\"{LINE_BREAKS}]{{0,100}}\"|[^\s,;]*\w))?|-[A-Za-z](?![\w-]))",
        re.compile(r"-(?<!\w-)[A-Za-z-]"),
        ("Use ⟦--force⟧ or ⟦-v⟧ for", "⟦--output=a.txt⟧,", "⟦--dry-run⟧"),
        ("Haupt- und", "yes -- no", "-5 degrees", "-Hello", "a-b")),
    Kind("call of a function",
        rf"(?<![\w.$])[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_]\w*)*\(\)(?!\w)"
        rf"|(?<![\w.$])(?:[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)++|[a-z]+[A-Z]\w*|[A-Za-z]+_\w+|[a-z]\w*(?=\([\"']))"
        rf"\([^(){LINE_BREAKS}]{{0,200}}\)",
        re.compile(r"\((?<=[\w$]\()"),
        ("function ⟦getUserName()⟧ to", "Call ⟦foo.bar(baz)⟧ and", "⟦Array::map(x, y)⟧", "print_r($x)",
         'print("hello")'),
        ("file(s)", "Kund(inn)en", "Lehrer(in)", "(see)", "foo (bar)")),
    Kind("assignment",
        rf"(?<![\w=<>!.-])[A-Za-z_][\w.-]{{0,60}}=(?:\"[^\"{LINE_BREAKS}]{{0,200}}\"|'[^'{LINE_BREAKS}]{{0,200}}'|[\w./%:-]*\w)(?![\w=])",
        ("=",),
        ('Add ⟦class="red"⟧ to', "⟦x=5⟧ and", "E=mc2"),
        ("a = b", "a == b", "=")),
    Kind("equation",
        r"(?<![\w'.-])[A-Za-z][\d²³]?(?:(?: [-+*/^=<>≤≥≈·×] |[-+*/^=<>≤≥≈·×])"
        r"(?:[A-Za-z][\d²³]?|\d{1,9}(?:[.,]\d{1,9})?)(?![\w%])){1,12}",
        ("=", "<", ">", "≤", "≥", "≈"),
        ("⟦a + b = c⟧", "Set ⟦x = 5⟧ and ⟦y < 10⟧.", "⟦a² + b² = c²⟧"),
        ("key = value", "a - b", "A > Open"),
        trim=lambda match: match.end() if re.search("[=<>≤≥≈]", match[0]) else match.start()),
    Kind("combination of keys",
        r"(?<![\w-])(?:Ctrl|Strg|Control|Alt|AltGr|Shift|Umschalt|Cmd|Command|Option|Win|Super|Meta|Fn)"
        r"(?: ?\+ ?|-)(?:\w{1,12}\+){0,3}\w{1,12}(?![\w-])",
        ("+", "Ctrl-", "Strg-", "Cmd-", "Alt-"),
        ("Use ⟦Ctrl + C⟧ to", "Press ⟦Ctrl+Shift+Esc⟧.", "Alt+F4", "Strg-C"),
        ("Option and", "Alt - Neu", "Shift work")),
    Kind("identifier with capitals inside",
        r"(?<![\w.@/-])[a-z]+(?:[A-Z][a-z0-9]+)+(?![\w-])",
        re.compile("[A-Z](?<=[a-z][A-Z])[a-z0-9]"),
        ("The value ⟦userName⟧ is", "getElementById", "iPhone"),
        ("McDonald", "LehrerInnen", "kW, dB, pH", "eMail-Adresse")),
    Kind("name with dots",
        r"(?<![\w.@/-])[A-Za-z_]\w+(?:\.\w{2,60}){2,8}(?![\w-]|\.\w)",
        _DOT_IN_WORD,
        ("see ⟦menu.file.open⟧ now",),
        ("z.B. hier, d.h. so", "J.R.R. Tolkien", "a.m. and p.m.")),
    Kind("programming language or framework",
        r"(?<![\w.+#-])(?:[CFJ]#|C\+\+(?:\d\d)?|\.NET|Notepad\+\+)(?![\w#+])",
        ("#", "++", ".NET"),
        ("⟦C#⟧, ⟦C++⟧, ⟦.NET⟧",),
        ("#1", "a++", "C+")),
    Kind("code of letters and digits",
        r"(?<![\w.,/@#$%&-])(?:(?:[A-Z]{1,5}|[a-z]{1,3})\d{1,6}[A-Za-z]{0,3}\d{0,4}(?:\.\d{1,2})?|[A-Z]{1,10}\d{0,4}(?:-[A-Z0-9]{1,8}){1,5}"
        r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\d{0,63}[a-f])(?=[a-f]{0,63}\d)[0-9a-f]{7,64}"
        r"|(?=[A-Za-z]{0,20}\d)(?=\d{0,20}[A-Za-z])[A-Za-z0-9]{16,128})(?![\w@-]|[./:]\w)",
        re.compile(r"[0-9](?:(?<=[A-Za-z].)|(?<=[A-Za-z]-.)|-?[A-Za-z])"),
        ("⟦A4⟧, ⟦H1N1⟧, ⟦B12⟧, ⟦COVID-19⟧", "Model ⟦XJ-900S⟧ is", "a VW ⟦T6.1⟧ with", "commit ⟦a3f5c9d⟧",
         "550e8400-e29b-41d4-a716-446655440000",
         "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
        ("5kg, 20th, 90s, 10am, 3D", "COVID-19-Pandemie", "U-Bahn", "E-Mail", "12345678", "A4-Papier"),
        trim=lambda match: match.end() if any(map(str.isdigit, match[0])) else match.start()),
    Kind("number with an exponent",
        r"(?<![\w.,])\d{1,9}(?:[.,]\d{1,9})?[eE][-+]?\d{1,3}(?![\w-]|[.,]\d)",
        re.compile(r"[0-9][eE](?<=[0-9].)[-+0-9]"),
        ("⟦1e-5⟧ and ⟦3.2e4⟧", "6.02E+23"),
        ("3e", "1e-5-x", "0xe5")),
    Kind("number of a section",
        rf"(?<!\w)(?i:{_NUMBERED})\.?{SPACE}(\d{{1,3}}(?:\.\d{{1,3}}){{1,5}})(?!\w|[.,]\d|{SPACE}?[%€$])",
        re.compile(r"[0-9]\.[0-9]"),
        ("See section ⟦4.5⟧.", "Abb. ⟦2.10⟧ und Kapitel ⟦3.2⟧", "Python ⟦3.10⟧ is"),
        ("about 4.5 points", "Nummer 4.5 %", "Section 4"),
        parts=True),
    Kind("number of a paragraph of law",
        r"(?<![\w.,(])\d{1,5}[a-z]?(?:\((?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,5})\)){1,8}(?![\w(])",
        re.compile(r"\((?<=[0-9a-z]\()[0-9A-Za-z]"),
        ("paragraph ⟦521(a)(2)(B)⟧ of", "⟦401(k)(2)(A)(ii)⟧", "Rule ⟦12(b)(6)⟧ and"),
        ("f(x)", "5(five)", "10 (a)", "see(1)")),
    Kind("number of a heading",
        rf"{LINE_START}\d{{1,3}}(?:\.\d{{1,3}}){{1,5}}\.?(?={SPACE}+[A-ZÄÖÜ])",
        re.compile(r"\d\.\d"),
        ("⟦1.2⟧ The house", "⟦2.10.3⟧ New features"),
        ("1.2 million", "See 1.2 The house"),
        role="edge"),
    Kind("number with hyphens",
        r"(?<![\w.,-])\d{1,5}(?:-\d{1,7}){3,6}(?:-[\dXx])?(?![\w-])",
        re.compile(r"-(?<=[0-9]-)[0-9]"),
        ("ISBN ⟦978-3-16-148410-0⟧",),
        ("10-12 Uhr", "2024-05-01", "1-2-3")),
    Kind("pattern of dates and times",
        rf"(?<![\w/.:-]){_DATE_TOKEN}(?:(?:[-/.:]|\.? (?=[A-Za-z]{{2}})|, (?=[A-Za-z]{{2}}|d[ .])|'T'|T(?=HH))"
        rf"{_DATE_TOKEN})"
        r"{1,7}(?:(?<=mm|ss) [aA])?(?![\w/])"
        r"|(?<![\w/.:-])(?:(?:[dj][-/.][mn][-/.][Yy]|[Yy][-/.][mn][-/.][dj]|[mn]/[dj]/[Yy])"
        r"(?: [HGhg]:i(?::s)?)?|[HGhg]:i(?::s)?)(?![\w/])",
        re.compile("[-/.:](?<=[yYJMdDTHhmsnjGg].)[yYJMdDTHhmsnij]|yyyy|YYYY|MMM"),
        ("Use the format ⟦YYYY-MM-DD⟧.", "dd/mm/yyyy", "HH:mm", "DD.MM.YYYY", "d MMM yyyy", "yyyy-MM-dd'T'HH:mm:ss",
         "EEEE, d MMMM yyyy",
         "Y-m-d", "H:i:s", "TT.MM.JJJJ"),
        ("5 mm a day", "20 mm", "km/h", "m/s", "s/he", "z.B.", "and/or"),
        trim=_date_pattern, used_by="Moment, Java, .NET, Unicode, PHP, forms for readers"),
    Kind("type of media",
        rf"(?<![\w/.])(?:{_MEDIA_TYPES})/(?:[a-z*][\w.+-]*\w|\*)(?![\w/])",
        ("/",),
        ("type ⟦application/json⟧ is", "text/html", "image/svg+xml", "application/vnd.ms-excel"),
        ("text/Bild", "image / text", "video/Audio")),
    Kind("value that is a key",
        r"\A(?![A-ZÄÖÜ]\w*[:_]in(?:nen)?\Z|" + LABEL_WITH_KEY + r"\Z)(?:"
        r"[A-Za-z_$][\w$]*(?:(?:\.|[.:]{1,2}(?=[\w-]{2}))[\w$-]{1,60}){1,8}|(?:--|[.?]|::)[A-Za-z_][\w.:/+-]*|[a-z]+(?:[A-Z][a-z0-9]*)+"
        r"|(?!\w+-(?:in|out|up|off|on|down|only|time|free)\Z)[a-z][a-z0-9]+(?:-[a-z0-9]+){1,8}"
        r"|\w*[^\W_]_\w+|[a-z]{2,3}[-_](?:[A-Z][a-z]{3}(?:[-_](?:[A-Z]{2}|\d{3}))?|[A-Z]{2}|\d{3})"
        rf"|(?!(?:{_WORDS_IN_CAPITALS})\Z)[A-Z]{{2,3}}"
        r"|(?P<block>[a-z]{2,20}) (?P=block)-[\w-]+(?: [a-z][a-z0-9-]*)*"
        rf"|nplurals=\d[^{LINE_BREAKS}]{{0,500}}\S)\Z",
        re.compile(r"\A[\w:.$?/+-]{2,300}\Z|\A(?P<block>[a-z]{2,20}) (?P=block)-|\Anplurals="),
        ("home.title", "dark-mode", "fa-home", "en-GB", "zh-Hant-TW", "EG", "--primary-color", "?attr/title",
         "name.common", "btn btn-primary", "user_id",
         "nplurals=2; plural=(n != 1);"),
        ("Save", "YES", "e.g.", "Hello.", "OK then", "E-Mail", "e-mail", "sign-in", "Read-only", "12:30", "rot",
         "Kolleg:innen", "E_xit"),
        used_by="values of JSON, cells of CSV and whole texts"),
)
"""Code and identifiers."""
# fmt: on

LITERAL_BLOCK = Kind(
    "line of a literal block",
    "",
    ("::",),
    ("⟦.. code-block:: python⟧\n\n   ⟦print(1)⟧\n\nThe door", "Example::\n\n  ⟦put it so⟧"),
    ("a::b", "See:\n  this"),
    role="boundary",
    finder=_literal_blocks,
    used_by="reStructuredText",
)

FRONT_MATTER = Kind(
    "front matter",
    "",
    re.compile(r"\A(?:---|\+\+\+)[ \t]*+\r?\n[a-z#\[]"),
    (
        "⟦---⟧\n⟦title: My house⟧\n⟦tags: [a, b]⟧\n⟦---⟧\nIt is red.",
        "⟦---⟧\n⟦# of the page⟧\n⟦hero:⟧\n  ⟦- text: The red house⟧\n\n⟦...⟧\nIt is red.",
        '⟦+++⟧\n⟦title = "My house"⟧\n⟦+++⟧\nIt is red.',
    ),
    ("---\nA house\n---", "---\na house: red\nIt is old.\n---", "A\n---\nb: c\n---", "---\na: b\n"),
    role="boundary",
    finder=_front_matter,
    used_by="Markdown, Hugo, Jekyll, Docusaurus",
)

IN_BACKTICKS = Kind(
    "code in backticks or a fence",
    "",
    ("`",),
    ("`x = 1`", "``a ` b``", "⟦```python⟧\n⟦x = 1⟧\n⟦```⟧"),
    ("a ` b",),
    finder=code_in_backticks,
    used_by="Markdown, chats",
)
