"""Kinds of protected spans: tags and the signs of Markdown, LaTeX, reStructuredText and MediaWiki in plain text."""

from __future__ import annotations

import re

from model.text.spans.kind import LINE_BREAKS, LINE_END, LINE_START, SPACE, Kind

_NOT_QUOTE = rf"[^\"<{LINE_BREAKS}]{{0,2000}}"
_VALUE = (
    rf"\\\"{_NOT_QUOTE}\\\"|\\'[^'<{LINE_BREAKS}]{{0,2000}}\\'|\"\"{_NOT_QUOTE}\"\"|\"{_NOT_QUOTE}\"|'[^'<{LINE_BREAKS}]{{0,2000}}'"
    r"|[^\s\"'<>=`\\]+"
)
# Commands with a text: all others are spans with their arguments.
_LATEX_TEXTS = (
    "text[a-z]{2,6}|emph|underline|(?:sub){0,2}section|chapter|part|title|author|caption|footnote|paragraph|item"
)
# Commands that would otherwise begin with an escape such as \n, and those without an argument.
_LATEX_WORDS = (
    "newpage|newline|noindent|nabla|neq|times|theta|tau|to|textwidth|tableofcontents|begin|beta|bar|bigskip|frac|forall|"
    "alpha|approx|array|vec|varphi|rightarrow|Rightarrow|rho|item|infty|int|sum|prod|pi|pm|mu|sigma|lambda|delta|gamma|"
    "epsilon|omega|phi|psi|cdot|cdots|ldots|dots|leq|geq|partial|maketitle|clearpage|pagebreak|medskip|smallskip|hline|"
    "centering|LaTeX|TeX|left|right|quad|qquad|sqrt|in|notin|subset|cup|cap"
)
_CODE_DIRECTIVES = "code-block|code|sourcecode|image|figure|include|literalinclude|math|raw|toctree|highlight"

_SWITCHES = (
    "disabled|checked|hidden|required|readonly|selected|multiple|autoplay|controls|loop|muted|async|defer|open|"
    "autofocus|novalidate"
)
_FIELDS = "param|parameter|arg|argument|key|keyword|type|raises?|exception|var|ivar|cvar|vartype"

_MAX_ELEMENT = 2_000


def _closed(match: re.Match[str]) -> int:
    """The end of a start tag whose end tag follows within a bounded length."""
    end = match.end()
    return end if f"</{match['name']}>" in match.string[end : end + _MAX_ELEMENT] else match.start()


# The rows are as compact as those of a table.
# fmt: off
KINDS = (
    Kind("tag",
        rf"</?[A-Za-z][\w:.-]{{0,100}}(?:{SPACE}+(?:[\w:@.-]{{1,100}}=(?:{_VALUE})|(?:{_SWITCHES})(?=[\s/>])))*+{SPACE}*+\\?/?>"
        rf"|</?[A-Za-z]{{1,20}}=[^<>\s]{{1,100}}>|</?\d{{1,3}}{SPACE}?/?>|<v(?:\.\w{{1,20}})?{SPACE}[^<>{LINE_BREAKS}]{{1,60}}>|<\d\d:[\d:.]{{2,12}}>|<!--[^{LINE_BREAKS}<>]{{0,2000}}-->",
        ("<",),
        ('<x id="1"/>', "<a href='x' title=\"y > z\">", "<ns:tag ns:a=1>",
         '<input type="text" required>', "<hr hidden>", "<!-- note -->", "⟦<1>⟧terms⟦</1>⟧ of",
         "⟦<0/>⟧ is", "⟦<v Anna>⟧Hello", "⟦<00:01.500>⟧Hello",
         r"⟦<a href=\"https://example.com\">⟧the rules⟦</a>⟧ first",
         '⟦<div class=""info-box"" id=""p1"">⟧The device⟦</div>⟧', "⟦<color=#ff0000>⟧Red⟦</color>⟧ now"),
        ("a < b and c > d, a <b and c> d, x << 2, I <3 you, 1 <2",),
        used_by="HTML and XML in plain text, i18next, Lingui, Unity, WebVTT; quotes as in JSON, PHP and CSV"),
    Kind("tag that is closed",
        rf"<(?P<name>[A-Za-z][\w:.-]{{0,40}}){SPACE}[^<>{LINE_BREAKS}]{{1,300}}>",
        ("</",),
        ("⟦<cfif x EQ 1>⟧Good morning⟦</cfif>⟧", "⟦<button disabled>⟧Save⟦</button>⟧"),
        ("a <b and c> d", "<T extends X>"),
        trim=_closed, used_by="HTML, ColdFusion"),
    Kind("target of a link",
        r"\]\((?:[^\s()]|\([^\s()]{0,100}\)){1,2000}\)",
        ("](",),
        ("[text⟦](https://example.com/a_(b))⟧",),
        ("[i](j 'k')", "n](o p)"),
        used_by="Markdown"),
    Kind("bold or struck",
        r"(?<!\*)\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?!\*)|(?<![~\w])~~(?=[^\s~])|(?<=[^\s~])~~(?![~\w])",
        ("**", "~~"),
        ("⟦**⟧Start it⟦**⟧ (now)", "⟦~~⟧old⟦~~⟧ new"),
        ("a ** b *** c", "~ 5"),
        used_by="Markdown"),
    Kind("emphasis with underscores",
        rf"(?<![\w\\/])(_{{1,2}})(?=[^\W_])[^_{LINE_BREAKS}]{{0,300}}[^\s_](\1)(?!\w)",
        ("_",),
        ("This is ⟦_⟧very⟦_⟧ important", "⟦_⟧Good morning⟦_⟧ and ⟦__⟧good night⟦__⟧"),
        ("snake_case", "a _ b _ c", "_private", "user_name and _x"),
        parts=True, used_by="Markdown, Slack"),
    Kind("attributes of a heading",
        rf"\{{[#.:][^{{}}{LINE_BREAKS}]{{1,200}}\}}",
        ("{#", "{.", "{:"),
        ("Heading ⟦{#custom-id}⟧", "Image ⟦{.wide .left}⟧"),
        ("{ # }",),
        role="end", used_by="Markdown dialects"),
    Kind("formula",
        rf"\$\$(?=[^\s$])[^${LINE_BREAKS}]{{1,500}}\$\$"
        rf"|(?<![\w$\\])\$(?=[^\s$])(?=[^$`{LINE_BREAKS}]{{0,200}}[\\^_=+<>{{}}])(?!\d[\d.,]*\s)[^$`{LINE_BREAKS}]{{0,200}}[^\s$`](?<!%\d)\$(?![\w${{])"
        rf"|(?<![\w$\\])\$[A-Za-z]\$(?![\w$])"
        rf"|\\\((?!\w{{1,60}}\))(?:(?!\\\))[^{LINE_BREAKS}]){{1,300}}\\\)|\\\[(?:(?!\\\])[^{LINE_BREAKS}]){{1,300}}\\\]",
        ("$", "\\(", "\\["),
        ("The formula ⟦$E = mc^2$⟧ is", "Let ⟦$a = b$⟧ and ⟦$c = d$⟧.", "⟦$x$⟧ is", r"\(a^2\)", r"\[x + y\]",
         "$$x = 1$$"),
        ("$5 and $10", "$5 = 4 € and 6$", "US$ 5 and US$ 6", "$name und a = 1 und [[${x}]]"),
        used_by="LaTeX, Markdown, Jupyter"),
    Kind("command of LaTeX with a text",
        rf"(\\(?:{_LATEX_TEXTS})\*?\{{)[^{{}}{LINE_BREAKS}]{{1,500}}(\}})",
        ("\\",),
        (r"⟦\textbf{⟧Bold⟦}⟧ text", r"⟦\section{⟧The house⟦}⟧"),
        (r"\cite{smith2020}",),
        parts=True, used_by="LaTeX"),
    Kind("command of LaTeX",
        rf"\\(?!(?:{_LATEX_TEXTS})\*?\{{)(?:[A-Za-z]{{2,30}}\*?(?:\[[^\[\]{LINE_BREAKS}]{{0,100}}\])?(?:\{{[^{{}}{LINE_BREAKS}]{{0,200}}\}})++"
        rf"|(?:{_LATEX_WORDS})(?![A-Za-z]))",
        ("\\",),
        (r"and ⟦\cite{smith2020}⟧.", r"\newpage", r"\frac{a}{b}", r"\begin{table}", r"\alpha"),
        (r"\nmy friend", r"C:\Users"),
        used_by="LaTeX"),
    Kind("bold or italics of a wiki",
        r"(?<![\w'])'{2,3}(?=[^\s'])|(?<=[^\s'])'{2,3}(?![\w'])",
        ("''",),
        ("⟦'''⟧Berlin⟦'''⟧ is the ⟦''⟧capital⟦''⟧ of",),
        ("can''t", "it's"),
        used_by="MediaWiki"),
    Kind("sign of a section",
        rf"{LINE_START}(={{2,6}})[^={LINE_BREAKS}]{{1,300}}(={{2,6}}){LINE_END}",
        ("==",),
        ("⟦==⟧ History ⟦==⟧", "⟦===⟧Early years⟦===⟧"),
        ("a == b",),
        role="edge", parts=True, used_by="MediaWiki"),
    Kind("directive",
        rf"{LINE_START}{SPACE}{{0,40}}(\.\. (?:(?:{_CODE_DIRECTIVES})::[^{LINE_BREAKS}]*[^\s]"
        rf"|(?:\|[\w -]{{1,60}}\| )?[\w:-]{{1,60}}::"
        rf"|_[^:{LINE_BREAKS}]{{1,100}}:)|:(?:(?:{_FIELDS})(?: [\w.*-]{{1,60}}){{1,2}}|[\w-]{{1,40}}):)"
        rf"(?={SPACE}|{LINE_END})",
        (".. ", ":"),
        ("⟦.. note::⟧ The door", "⟦.. code-block:: python⟧", "⟦.. _my-label:⟧",
         "⟦:param name:⟧ The name", "⟦:raises ValueError:⟧ If"),
        ("... and so", "a.. b"),
        role="edge", parts=True, used_by="reStructuredText"),
    Kind("role",
        r"(?<![\w:`]):(?:[\w+.-]{1,40}:){1,4}(?=`)",
        (":`",),
        ("see ⟦:py:func:⟧⟦`len`⟧ and", "⟦:rst:role:⟧⟦`external`⟧"),
        ("so: `x`", "::`x`"),
        used_by="reStructuredText"),
    Kind("marker of an admonition",
        rf"{LINE_START}(?::{{3,6}}(?:{SPACE}?\{{?[a-z][\w-]{{0,30}}\}}?)?|[!?]{{3}}\+?{SPACE}[a-z][\w -]{{0,30}})"
        rf"(?={SPACE}|{LINE_END})|\[![A-Z]{{3,12}}\][+-]?",
        (":::", "!!! ", "??? ", "[!"),
        ("⟦:::note⟧\nThe door", "⟦:::⟧", '⟦!!! warning⟧ "Careful"', "> ⟦[!NOTE]⟧"),
        ("What??? no", "::before"),
        role="edge", used_by="Docusaurus, VuePress, MkDocs, MyST, GitHub, Obsidian"),
)
"""Tags and signs of markup."""
# fmt: on
