"""Kinds of protected spans: emoji, smileys, tags of posts, signs between texts, and labels."""

from __future__ import annotations

import re

from model.text.spans.kind import LINE_END, LINE_START, SPACE, Kind

_PICTOGRAPHS = (
    "\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2b05-\u2b07"
    "\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff"
)
_EMOJI_UNIT = (
    rf"(?:[{_PICTOGRAPHS}]\ufe0f?|[^\w\s\ufe0f\u200d]\ufe0f)"  # a pictograph, or a symbol in its emoji form
    "[\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]{0,12}"  # skin tone; tags that spell flags such as Scotland's
)
# Faces and gestures stand between clauses; other emoji may stand for a word.
_FACES = (
    "\U0001f600-\U0001f644\U0001f64c\U0001f64f"
    "\U0001f910-\U0001f917\U0001f920-\U0001f92f\U0001f970-\U0001f97a\U0001fae0-\U0001fae8"
)
_ICONS = "\u2190-\u21ff\u2300-\u23ff\u2500-\u25ff\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff\ue000-\uf8ff"
_BULLETS = (
    "\u2705\u274c\u274e\u2611\u2713\u2714\u2716-\u2718\u26a0\u27a1\u25b6\u25aa\u25ab\u2139\u26aa\u26ab\u2b1b\u2b1c"
    "\U0001f449\U0001f534\U0001f535\U0001f538\U0001f539\U0001f7e0-\U0001f7eb"
)
_BETWEEN_SPACES = (
    r"-{1,3}>|={1,2}>|<-{1,2}>?|[=!<>]=|&&|::"
    r"|[<>=+/|\u2190-\u21ff\u203a\u25b8\u25b6\u25ba\u2022\u00b7\u2023\u21d2\u2248\u2260\u2264\u2265]"
)
_NBSP = "[ \u00a0]"
_LABELS = (
    "WARNING|NOTE|ERROR|URGENT|ATTENTION|CAUTION|DANGER|IMPORTANT|TIP|HINT|NOTICE|EXAMPLE|QUESTION|ANSWER|ALERT|FREE|SALE|NEW|"
    "UPDATE|REMINDER|SUMMARY|RESULT|REQUIRED|OPTIONAL|SUBJECT|ADDRESS|PRICE|DATE|TIME|PHONE|STEP|FAILED|SUCCESS|DONE|HELP|STOP|"
    "ACHTUNG|WARNUNG|HINWEIS|FEHLER|WICHTIG|GEFAHR|VORSICHT|TIPP|EILT|DRINGEND|FRAGE|ANTWORT|BEISPIEL|NEU|BETREFF|ADRESSE|"
    "PREIS|DATUM|UHRZEIT|TELEFON|SCHRITT|ERGEBNIS|ERINNERUNG|ZUSAMMENFASSUNG|HILFE|GRATIS|ANGEBOT|STOPP"
)
LABELS = frozenset(_LABELS.split("|"))
"""Words in capitals that a sentence may begin with, before a colon, and that are translated."""

_BEFORE_NUMERAL = (
    "(?<=room )|(?<=hall )|(?<=part )|(?<=chapter )|(?<=type )"
    "|(?<=class )|(?<=level )|(?<=phase )|(?<=volume )|(?<=war )"
)


def _not_in_quotes(match: re.Match[str]) -> int:
    """The end of a sign between spaces; a quotation mark of French style is none."""
    start = match.start()
    is_quote = match[0] == "\u00bb" and "\u00ab" in match.string[max(0, start - 200) : start]
    return start if is_quote else match.end()


# The rows are as compact as those of a table.
# fmt: off
KINDS = (
    Kind("line break written out",
        r"(?:\\[nrNt]|<br ?/?>)+",
        ("\\n", "\\r", "\\N", "\\t", "<br"),
        (r"Line one⟦\n⟧Line two", r"Come in⟦\N⟧my friend", r"One.⟦\r\n⟧Two", r"⟦\n\n⟧", r"two⟦\t⟧end", "One⟦<br>⟧Two"),
        (r"C:\me", r"\s"),
        role="boundary", used_by="C, PHP, Java, JSON, catalogues; ASS subtitles"),
    Kind("escaped character",
        r"(?:\\(?:[abfv0](?![a-z])|\\|[\"']|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|h(?![a-z])|[A-Za-z]{1,3}\[\d{1,4}\]))+",
        ("\\",),
        (r"\"", r"\u00e4", r"\N[1]", r"a ⟦\"⟧word⟦\"⟧ b"),
        (r"either\or, a \ b",),
        used_by="C, JavaScript, Java properties, Android, RPG Maker"),
    Kind("reference of a note",
        r"(?<=[^\W\d_]{3})(?:[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,3}|\[\d{1,3}\](?!\w))",
        tuple("\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079["),
        ("house⟦¹⟧ is old⟦²⟧", "Wert⟦[1]⟧ ist"),
        ("m²", "km²", "x[1]", "[1]")),
    Kind("rule or leader",
        r"\|{4,}|-{3,}(?!>)|={3,}(?!>)|_{3,}|\.{4,}(?=[ \u00a0]*\S)|\u2026{2,}(?=[ \u00a0]*\S)|\u00b7{3,}"
        r"|(?:\. ){3,}\.|~{4,}|\*{4,}|\+{4,}|[\u2500-\u257f]{2,}|\u2014{2,}|\u2013{3,}",
        ("||||", "---", "===", "___", "...", "……", "···", ". . .", "~~~~", "****", "++++", "──", "━━", "══", "——",
         "–––"),
        ("⟦-----⟧Original Message⟦-----⟧", "Red ⟦........⟧ 5", "Red ⟦_________⟧ 5", "⟦======⟧ Title ⟦======⟧",
         "one ⟦||||⟧ many"),
        ("yes -- no", "Wait... what?", "Stop....", "-->"),
        role="boundary", used_by="mail quotations, tables of contents, logs, Polyglot"),
    Kind("ellipsis",
        rf"(?<!\.)(?:\.{{3}}(?!\.)|\u2026)(?={_NBSP}{{0,20}}[^\W\d_]|{_NBSP}{{1,20}}[\"'\u201e\u201c\u2018\u00ab\u00bb]?\w)",
        ("...", "\u2026"),
        ("Loading⟦...⟧  please wait", "One⟦...⟧ two⟦...⟧ three...", "Well⟦\u2026⟧ I do not"),
        ("Stop...", "Wait...?", "1...10", "(...)"),
        role="boundary", used_by="status lines, subtitles, chats"),
    Kind("sign between texts",
        rf"(?<=\S{_NBSP})(?:{_BETWEEN_SPACES}|\u00bb)(?={_NBSP}\S)"
        r"|(?<=[a-zäöüß])[>\u2192\u203a](?=[A-ZÄÖÜ])",
        tuple(
            "<>=+/|&:\u00bb\u203a\u25b8\u25b6\u25ba\u2022\u00b7\u2023\u21d2\u2248\u2260\u2264\u2265\u2190\u2191\u2192\u2193\u2194"
        ),
        ("File ⟦>⟧ Open ⟦>⟧ Recent", "Edit ⟦→⟧ Paste", "Go ⟦->⟧ left", "red ⟦+⟧ blue ⟦=⟧ green", "Home ⟦»⟧ Products",
         "File⟦>⟧Save As"),
        ("a>b", "« Bonjour » dit-il", "a - b", "Tom & Jerry"),
        role="boundary", trim=_not_in_quotes, used_by="paths of menus, breadcrumbs, equations, cells"),
    Kind("bar between forms",
        r"(?<=[^\s|])\|{1,2}(?=[^\s|])|(?<=[^\s|])\|{1,2}(?= \S)(?<!\w \|)",
        ("|",),
        ("There is one book⟦|⟧There are many books", "⟦{0}⟧ none⟦|⟧⟦{1}⟧ one"),
        ("a | b", "||"),
        role="boundary", used_by="Laravel, Vue I18n, Symfony"),
    Kind("label before a colon",
        rf"(?:{LINE_START}|(?<=[.!?] ))(?:{_LABELS})(?: \d{{1,3}})?(:)(?=\s)",
        (":",),
        ("WARNING⟦:⟧ Do not touch.", "ACHTUNG⟦:⟧ heiß", "It is new. NOTE⟦:⟧ hot"),
        ("Note: this", "ANNA: Come"),
        role="boundary", parts=True),
    Kind("speaker",
        rf"{LINE_START}(?:[-–] ?)?(?!(?:{_LABELS}):)[A-ZÄÖÜ][A-ZÄÖÜ.'’-]+"
        rf"(?: (?:\d{{1,3}}|\([A-Z.]{{1,9}}\)))?:(?={SPACE})",
        (":",),
        ("⟦ANNA:⟧ Come here!", "⟦MAN 1:⟧ Stop."),
        ("Anna: Come", "WARNING: Do", "A: yes", "10: ten"),
        role="edge", used_by="subtitles"),
    Kind("dash of a dialogue",
        rf"{LINE_START}[-\u2013\u2014](?=[^\W\d_]{{2}})",
        re.compile(r"[-\u2013\u2014](?<!\w.)[^\W\d_]"),
        ("⟦-⟧Hello.",),
        ("-5 degrees", "a-b"),
        role="edge", used_by="subtitles"),
    Kind("letter behind a name",
        rf"{LINE_START}[^\W\d_]{{2,30}} ([A-Z]){LINE_END}",
        re.compile(r"[A-Z](?!\w)(?<= .)"),
        ("Type ⟦A⟧", "Halle ⟦B⟧"),
        ("Here I am", "So do I."),
        role="end", parts=True),
    Kind("letter as a name",
        rf"(?<=[a-zäöüß] )(?<!\band )(?<!\bor )(?<!\bals )(?<!\bund )(?<!\bthan )[B-HJ-NP-Z](?![\w.'\u2019&/-])"
        r"|(?<=[a-z] )A(?=[,;:.!?)]|$| [a-z])(?!\.[A-Z])|(?<=[a-z]{2} )[a-z]\)(?!\w)"
        rf"|(?i:{_BEFORE_NUMERAL})I(?=[,;:.!?)]|$)",
        re.compile(r"[A-Z](?!\w)(?<= .)|\)(?<= [a-z]\))"),
        ("Point ⟦A⟧ to point ⟦B⟧", "Hall ⟦A⟧, room ⟦I⟧", "Vitamin ⟦C⟧ is", "See point ⟦a)⟧."),
        ("Tom and I.", "A cat", "Once Upon A Time", "J. R. Smith", "I am")),
    Kind("dash of two hyphens",
        r"(?<=[^\W\d_])--(?=[^\W\d_])",
        ("--",),
        ("Wait⟦--⟧what?", "red⟦--⟧blue"),
        ("yes -- no", "---", "--force", "a-b")),
    Kind("check mark or bullet",
        rf"(?:[{_BULLETS}]\ufe0f?){{1,4}}(?={_NBSP}{{0,2}}[A-ZÄÖÜ0-9])",
        re.compile(f"[{_BULLETS}]"),
        ("⟦✅⟧ Done ⟦❌⟧ Not done", "⟦👉⟧ Hier klicken ⟦⚠️⟧ Achtung"),
        ("done ✅", "with ✅ or ❌ now"),
        role="boundary"),
    Kind("face",
        rf"[{_FACES}][\ufe0f\U0001f3fb-\U0001f3ff]?(?!\u200d)",
        re.compile(f"[{_FACES}]"),
        ("😀", "🙏🏽", "thanks ⟦🤗⟧ bye"),
        ("🍰", "a"),
        role="boundary"),
    Kind("emoji",
        rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3|{_EMOJI_UNIT}(?:\u200d{_EMOJI_UNIT})*",
        re.compile(f"[{_PICTOGRAPHS}\U0001f1e6-\U0001f1ff\ufe0f\u20e3]"),
        ("We have eaten the cake ⟦🍰⟧", "👍🏽", "👨‍👩‍👧‍👦", "👩🏽‍🚀", "🏳️‍🌈", "🇩🇪", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "1️⃣", "❤️", "™️"),
        ("1", "a"),
        role="edge"),
    Kind("arrow of hyphens",
        r"(?<!\S)(?:<-{1,3}|-{1,3}>)(?!\S)",
        ("<-", "->"),
        ("⟦<-⟧ back", "next ⟦-->⟧"),
        ("a<-b", "<->"),
        role="edge"),
    Kind("arrow or icon",
        rf"[{_ICONS}]+|(?<={_NBSP})[\u00bb\u203a](?={SPACE}*{LINE_END})|{LINE_START}[\u00ab\u2039](?={_NBSP})",
        re.compile(f"[{_ICONS}]|[\u00bb\u203a](?<={_NBSP}.)|[\u00ab\u2039]{_NBSP}"),
        ("Save ⟦▾⟧", "⟦←⟧ Back", "⟦\uf015⟧ Home", "Read more ⟦»⟧", "⟦«⟧ Back"),
        ("a-b", "«Hello», she", "»Hallo«"),
        role="edge", used_by="buttons, icon fonts"),
    Kind("short code",
        r"(?<![\w:]):(?:(?=[0-9_+-]{0,40}[a-z])[a-z0-9_+-]{1,40}|[+-]1):(?![\w:])",
        (":",),
        (":smile:", ":man_in_suit:", "ready ⟦:blobcat:⟧"),
        ("12:30:45", "a:b:c"),
        role="edge", used_by="Slack, Discord, GitHub, Mastodon"),
    Kind("smiley",
        r"(?<!\S)(?:>?[:;=8][\u2019'^o-]?(?:[()DPpOo|/\\*$3\]\[]|\){2,5}|\({2,5})|[xX]D+|<3+"
        r"|\^_*\^|-_+-|-\.-+|\._\.|[oO][_.][oO]|[tT]_[tT]|>[_.]<|;_;|\\o/|¯\\_\(ツ\)_/¯)(?![^\s.,!?])",
        (":", ";", "=", "8)", "<3", "^", "xD", "XD", "-_", "-.-", "._.", "_T", "_t",
         "_<", ".<", "_;", ".o", ".O", "_o", "_O", "\\o/", "¯"),
        (":-)", ":'(", ";)", "Bis bald ⟦:)⟧", "<3", "xD", "^^", "thanks ⟦:))⟧", "⟦-.-⟧", "o.O", "T_T", ">_<"),
        ("a note:(one) or (two;)", "I <3you", "12:3"),
        role="boundary"),
    Kind("tag of a post",
        r"(?<![\w&#/])#(?:[^\W\d_]\w*|[0-9A-Fa-f]{6}(?!\w))",
        ("#",),
        ("#tag", "#Überschrift", "ready ⟦#GoodBread⟧ ⟦#morning⟧"),
        ("#1, No. #42", "C#"),
        role="end", used_by="Mastodon, X, Instagram; colours of CSS"),
)
"""Signs, in the order of preference where two kinds match the same characters."""
# fmt: on
