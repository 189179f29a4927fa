"""Every extractor of scripts/data on files of a few lines: which pairs or sentences it takes out of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polib
import pytest
from pysword.books import BibleStructure

from model.errors import DataError
from scripts.data import align, cleaning, text
from scripts.data.align import block
from scripts.data.table import EXTRACTORS
from tests.data.archives import tar_gz, zipped

Content = str | bytes


@dataclass(frozen=True)
class Case:
    """Files by name, the arguments of an extractor (a name that is a path is one), and what comes out."""

    files: dict[str, Content]
    arguments: tuple[str | int, ...]
    expected: Sequence[object]


def _mo() -> bytes:
    catalogue = polib.POFile()
    catalogue.append(polib.POEntry(msgid="One line.\nAnother line.", msgstr="Eine Zeile.\nNoch eine Zeile."))
    catalogue.append(polib.POEntry(msgctxt="menu", msgid="Open", msgstr="Öffnen"))
    catalogue.metadata = {"Content-Type": "text/plain; charset=utf-8"}
    return catalogue.to_binary()


def _sword_module() -> bytes:
    """A module of the SWORD project that has only Psalm 117, the shortest chapter."""
    first, _ = BibleStructure("kjv").ref_to_indicies(["Psalms"], [117])["ot"]
    verses = ["Lobet den HERRN, (alle Heiden)!", "Seine Gnade waltet über uns."]
    table, text = b"\0" * 6 * first, b""
    for verse in verses:
        table += struct.pack("<IH", len(text), len(verse.encode()))
        text += verse.encode()
    conf = (
        "[Tiny]\nDescription=Psalm\nDataPath=./modules/texts/rawtext/tiny/\nModDrv=RawText\nEncoding=UTF-8\nLang=de\n"
    )
    folder = "modules/texts/rawtext/tiny"
    files = {"ot": text, "ot.vss": table, "nt": b"", "nt.vss": b""}
    return zipped({"mods.d/tiny.conf": conf} | {f"{folder}/{name}": content for name, content in files.items()})


_PO = """
msgid ""
msgstr "Content-Type: text/plain"

#, fuzzy
msgid "A guess."
msgstr "Geraten."

#: a.c:3
msgid "Read **this** <b>"
"[page](a.html)</b>."
msgstr "Lies **diese** <b>[Seite](a.html)</b>."
"""

_HELP_EN = """<page xmlns="http://projectmallard.org/1.0/"><info><license>
<link href="https://creativecommons.org/licenses/by-sa/3.0/"/></license></info>
<title>Open files</title><section><p>Choose <guiseq><gui>File</gui><gui>Open</gui></guiseq> &link;.</p></section></page>
"""

CASES: dict[str, Case] = {
    "android": Case(
        {
            "app/values/strings.xml": '<string name="a">It\\\'s &lt;b>late&lt;/b>.</string>'
            '<plurals name="n"><item quantity="other">Days</item></plurals><string name="b">Only English</string>',
            "app/values-de/strings.xml": '<!-- x --><string name="a">Es ist &lt;b>spät&lt;/b>.</string>'
            '<plurals name="n"><item quantity="other">Tage</item></plurals>',
        },
        (".",),
        [("It's late.", "Es ist spät."), ("Days", "Tage")],
    ),
    "firefox": Case(
        {
            "en/a/menu.ftl": "open = Open\n    .title = Open { -brand-short-name }\n# comment\nsave = Save\n  as\n",
            "de/b/menu.ftl": "open = Öffnen\n    .title = { -brand-short-name } öffnen\nsave = Speichern\n  unter\n",
            "en/x.properties": "key=A page",
            "de/x.properties": "key = Eine Seite",
        },
        ("en", "de"),
        [
            ("Open", "Öffnen"), ("Open Firefox", "Firefox öffnen"), ("Save as", "Speichern unter"),
            ("A page", "Eine Seite"),
        ],
    ),
    "fluent": Case(
        {
            "en/a.ftl": "-term = Mozilla\ntitle = About { -brand-name-mozilla-vpn }\n  .label = x\nonly = English\n",
            "de/a.ftl": "-term = Mozilla\ntitle = Über { -brand-name-mozilla-vpn }\n",
        },
        ("en", "de"),
        [("About Mozilla Vpn", "Über Mozilla Vpn")],
    ),
    "javascript_strings": Case(
        {
            "en.js": 'const messages = {\n  "a.b": "Don\'\'t <b>say</b> \\"no\\".",\n  c: "Yes",\n};',
            "de.js": 'const messages = {\n  "a.b": "Sag nicht \\"nein\\".",\n};',
        },
        ("en.js", "de.js"),
        [("Don't say \"no\".", 'Sag nicht "nein".')],
    ),
    "mo": Case(
        {"de.mo": _mo()},
        ("de.mo",),
        [("One line.", "Eine Zeile."), ("Another line.", "Noch eine Zeile."), ("Open", "Öffnen")],
    ),
    "po_of_game": Case(
        {"de.po": 'msgid "Hi, friend."\nmsgstr "Hallo, Freund."\n\nmsgid "I have &gold."\nmsgstr "Ich habe &gold."\n'},
        ("de.po",),
        [("Hi, friend.", "Hallo, Freund.")],
    ),
    "po_of_program": Case({"de.po": _PO}, ("de.po",), [("Read this page.", "Lies diese Seite.")]),
    "strings": Case(
        {
            "en.yml": "en:\n  page:\n    title: The **title**\n    link: See <a1/>\n",
            "de.yml": "de:\n  page:\n    title: Der Titel\n    link: Siehe <a1/>\n",
        },
        ("en.yml", "de.yml"),
        [("The title", "Der Titel")],
    ),
    "sibling_strings": Case(
        {
            "a/en-1f.json": '{"x": {"y": "See [docs](http://a)."}}',
            "a/de-2e.json": '{"x": {"y": "Siehe [Doku](http://a)."}, "z": "Nur Deutsch"}',
            "b/de-2e.json": "{}",
        },
        (".", "en-*.json", "de-*.json"),
        [("See docs.", "Siehe Doku.")],
    ),
    "strings_with_languages": Case(
        {"a.json": '{"news": [{"text": {"en": "A <b>text</b>.", "de": "Ein Text."}}, {"t": "One", "t_de": "Eins"}]}'},
        ("a.json",),
        [("A text.", "Ein Text."), ("One", "Eins")],
    ),
    "sibling_pages": Case(
        {
            "a/terms_en.html": "<ul><li>First point<li>Second <i>point</i></ul>",
            "a/terms_de.html": "<ul><li>Erster Punkt<li>Zweiter <i>Punkt</i></ul>",
            "a/news_de.html": "<p>Nur Deutsch</p>",
        },
        (".", "{}_en.html", "*_de.html"),
        [("First point", "Erster Punkt"), ("Second point", "Zweiter Punkt")],
    ),
    "aligned": Case({"a.en": "One\n\nBefore. <sep> Two\n", "a.de": "Eins\n\nZwei\n"}, ("a.en", "a.de", "<sep>"),
                    [("One", "Eins"), ("", ""), ("Two", "Zwei")]),
    "aligned_in_tar": Case(
        {"a.tar.gz": tar_gz({"d/t.src": "One\nTwo\n", "d/t.pe": "Eins\nZwei\n", "d/t.mt": "x\n"})},
        ("a.tar.gz", "/t.src", "/t.pe"),
        [("One", "Eins"), ("Two", "Zwei")],
    ),
    "bible": Case(
        {
            "bsb.txt": "### Psalms\n[117:1] Praise the LORD!\n[117:2] Great is His love.\n[118:1] Give thanks.\n",
            "menge.zip": _sword_module(),
        },
        ("bsb.txt", "menge.zip"),
        [("Praise the LORD!", "Lobet den HERRN, !"), ("Great is His love.", "Seine Gnade waltet über uns.")],
    ),
    "chat": Case(
        {
            "train.json": json.dumps({"1": [
                {"speaker": "agent", "source": "How can I help?", "target": "Wie kann ich helfen?"},
                {"speaker": "customer", "source": "Zwei Karten.", "target": "Two tickets."},
            ]})
        },
        ("train.json",),
        [("How can I help?", "Wie kann ich helfen?"), ("Two tickets.", "Zwei Karten.")],
    ),
    "conllu": Case(
        {
            "en.conllu": "# sent_id = n1\n# text = A dog.\n1\tA\n\n# sent_id = n2\n# x = y\n# text = A cat.\n",
            "de.conllu": "# sent_id = n2\n# text = Eine Katze.\n",
        },
        ("en.conllu", "de.conllu"),
        [("A cat.", "Eine Katze.")],
    ),
    "manythings": Case(
        {"deu-eng.zip": zipped({"deu.txt": "Hi.\tHallo!\tCC-BY 2.0\nno translation\n"})},
        ("deu-eng.zip",),
        [("Hi.", "Hallo!")],
    ),
    "storybooks": Case(
        {
            "en/0001_a.md": "# A\n##\nOne  dog.\n##\nTwo dogs.\n##\nLicense: [CC-BY]\n",
            "de/0001_b.md": "# B\n##\nEin Hund.\n##\nZwei Hunde.\n##\nLicense: [CC-BY]\n",
            "en/0002_a.md": "# A\n##\nFree\n##\nLicense: [CC-BY-NC]\n",
            "de/0002_a.md": "# A\n##\nFrei\n##\nLicense: [CC-BY-NC]\n",
        },
        ("en", "de"),
        [("One dog.", "Ein Hund."), ("Two dogs.", "Zwei Hunde.")],
    ),
    "xquad": Case(
        {
            f"{language}.json": json.dumps({"data": [{"paragraphs": [
                {"context": context, "qas": [{"id": "1", "question": question}]}
            ]}]})
            for language, context, question in (("en", "A text.", "What?"), ("de", "Ein Text.", "Was?"))
        },
        ("en.json", "de.json"),
        [("A text.", "Ein Text."), ("What?", "Was?")],
    ),
    "freebsd_manual": Case(
        {
            "en/a.xml": '<chapter id="X"><para>&os; reads <filename>a</filename>, see &man.ls.1;.</para>'
            "<screen>no text</screen><para>Unknown &thing; here.</para></chapter>",
            "de/a.xml": '<chapter id="x"><para>&os; liest <filename>a</filename>, siehe &man.ls.1;.</para>'
            "<para>Unbekanntes &thing; hier.</para></chapter>",
        },
        ("en", "de"),
        [("FreeBSD reads a, see ls(1).", "FreeBSD liest a, siehe ls(1).")],
    ),
    "gnome_help": Case(
        {
            "C/m/a.page": _HELP_EN,
            "de/m/a.page": _HELP_EN.replace("Open files", "Dateien öffnen").replace("Choose", "Wählen Sie")
            .replace(">File<", ">Datei<").replace(">Open<", ">Öffnen<"),
            "C/gfdl/a.page": _HELP_EN + "<!-- GFDL -->",
            "de/gfdl/a.page": _HELP_EN,
        },
        ("C", "de"),
        [("Open files", "Dateien öffnen"), ("Choose File – Open .", "Wählen Sie Datei – Öffnen .")],
    ),
    "html_book": Case(
        {
            "en/a.html": '<h1>A title</h1><div class="para">A text of <b>words</b>.</div><pre>code</pre>',
            "de/a.html": '<h1>Ein Titel</h1><div class="para">Ein Text aus <b>Worten</b>.</div><pre>Code</pre>',
        },
        ("en", "de"),
        [("A title", "Ein Titel"), ("A text of words.", "Ein Text aus Worten.")],
    ),
    "markdown": Case(
        {
            "en/a.md": "---\ntitle: x\n---\n# Head\n\nSee [the page](b.md) with **stress**.\n- item one\n\n"
            "```\ncode\n```\n| A cell | Other |\n|---|---|\n",
            "de/a.md": "---\ntitle: y\n---\n# Kopf\n\nSiehe [die Seite](b.md) mit **Betonung**.\n- Punkt eins\n\n"
            "| Eine Zelle | Anderes |\n|---|---|\n",
            "en/mt.md": "Text.",
            "de/mt.md": "---\nms.translationtype: MT\n---\nText.",
        },
        ("en", "de"),
        [
            ("Head", "Kopf"), ("See the page with stress.", "Siehe die Seite mit Betonung."),
            ("item one", "Punkt eins"), ("A cell", "Eine Zelle"), ("Other", "Anderes"),
        ],
    ),
    "markdown_by_name": Case(
        {
            "en/x/a.md": "A text.", "de/y/A.md": "Ein Text.", "en/index.md": "Index.", "de/index.md": "Register.",
            "en/b.md": "Two.", "de/1/b.md": "Zwei.", "de/2/b.md": "Zwo.",
        },
        ("en", "de"),
        [("A text.", "Ein Text.")],
    ),
    "markdown_with_code": Case(
        {"en/a.md": "Call `f` twice.\n\n```\nf()\n```\n", "de/a.md": "Rufe `f` zweimal auf.\n"},
        ("en", "de"),
        [("Call f twice.", "Rufe f zweimal auf.")],
    ),
    "office_help": Case(
        {
            "en/a.html": '<p class="x" id="par_id1">Press <b>OK</b>.</p><p id="par_id2">Only here.</p><p>No id.</p>',
            "de/a.html": '<h2 id="hd_id3">Titel</h2><p id="par_id1"><b>OK</b> drücken.</p>',
        },
        ("en", "de"),
        [("Press OK.", "OK drücken.")],
    ),
    "php_manual": Case(
        {
            "en/a.xml": "<title>A title</title><para>Returns <function>f</function>.</para><para>Plain text.</para>",
            "de/a.xml": "<title>Ein Titel</title><para>Gibt <function>f</function>.</para><para>Nur Text.</para>",
        },
        ("en", "de"),
        [("A title", "Ein Titel"), ("", ""), ("Plain text.", "Nur Text.")],
    ),
    "articles": Case({"f/b.txt": "Vier.\n", "f/a.txt": "Eins.\n\nZwei.\nDrei.\n"}, ("f", 2, 1), ["Zwei.", "Drei."]),
    "column": Case(
        {"a.tsv": "x\tHe said , `` yes '' . It is n't .\nshort\n"},
        (1, "a.tsv"),
        ['He said, "yes". It isn\'t.'],
    ),
    "dialogues": Case(
        {
            "a.json": json.dumps([{"turns": [{"utterance": "Hello. A table?"}]}, {"utterances": [{"text": "Yes"}]}]),
            "b.json": '{"schema": 1}',
        },
        ("a.json", "b.json"),
        ["Hello.", "A table?", "Yes"],
    ),
    "novels": Case(
        {
            "n/a.xml": '<bibl type="firstEdition"><date>1871</date></bibl><body><p>Sie saß in dem Theile des Hauses -- '
            "»und [1] schwieg!« Er redete vom Cölibatsgesetz.</p></body>",
            "n/b.xml": '<bibl type="firstEdition"><date>1820</date></bibl><body><p>Er saß zu Hause.</p></body>',
            "new.de": "In dem Teile des Hauses saß er. Sie schwieg, und er saß.\n" * 9,
        },
        ("n", "new.de"),
        ['Sie saß in dem Teile des Hauses – "und schwieg!"'],
    ),
    "lines": Case({"a.txt": "One  line\nTwo\n"}, ("a.txt",), ["One line", "Two"]),
    "manythings_sources": Case({"fra.txt": "Hi.\tSalut!\tx\n"}, ("fra.txt",), ["Hi."]),
}  # fmt: skip


def test_every_extractor_has_a_case() -> None:
    assert CASES.keys() == EXTRACTORS.keys()


@pytest.mark.parametrize("name", CASES)
def test_an_extractor_takes_the_text_out_of_files(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for path, content in case.files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    arguments = [tmp_path / str(value) if (tmp_path / str(value)).exists() else value for value in case.arguments]
    assert list(EXTRACTORS[name](*arguments)) == list(case.expected)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("aligned", {"a": "1\n2\n", "b": "1\n"}),
        ("strings", {"a.json": "{", "b.json": "{}"}),
    ],
)
def test_a_damaged_source_is_named(name: str, files: dict[str, Content], tmp_path: Path) -> None:
    for path, content in files.items():
        (tmp_path / path).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=str(tmp_path)):
        list(EXTRACTORS[name](*(tmp_path / path for path in files)))


def test_texts_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_FILE_BYTES", 100)
    (tmp_path / "a.txt").write_bytes(b"a" * 101)
    (tmp_path / "a.zip").write_bytes(zipped({"a.txt": b"a" * 101}))
    (tmp_path / "a.tar.gz").write_bytes(tar_gz({"a.src": "a" * 101}))
    for name, arguments in (("lines", ["a.txt"]), ("manythings", ["a.zip"]), ("aligned_in_tar", ["a.tar.gz"])):
        more = [".src", ".pe"] if name == "aligned_in_tar" else []
        with pytest.raises(DataError, match="101 bytes"):
            list(EXTRACTORS[name](*(tmp_path / argument for argument in arguments), *more))


# Alignment


def test_paragraphs_without_a_partner_are_skipped() -> None:
    source = [block("p", "First paragraph, number 1."), block("p", "Number 2 has no translation at all here."),
              block("p", "The third has number 3.")]  # fmt: skip
    target = [block("p", "Erster Absatz, Nummer 1."), block("p", "Der dritte hat Nummer 3.")]
    assert align.align(source, target) == [
        ("First paragraph, number 1.", "Erster Absatz, Nummer 1."),
        ("The third has number 3.", "Der dritte hat Nummer 3."),
    ]


def test_documents_that_are_too_long_and_have_another_structure_are_left_out() -> None:
    assert align.align([block("p", "Text.")] * 1000, [block("li", "Text.")] * 1000) == []


# Cleaning


def _cleaner(evaluation: set[str] = frozenset()) -> cleaning.Cleaner:  # type: ignore[assignment]
    speaks: Callable[[str, str], bool] = lambda text, language: ("und" in text) == (language == "de")  # noqa: E731
    return cleaning.Cleaner(evaluation, speaks)


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("A cat and a dog.", "Eine Katze und ein Hund."), None),
        (("A <b> and a dog.", "Eine <b> und ein Hund."), cleaning.Reason.FORM),
        (("A cat.", "Eine Katze und."), cleaning.Reason.FORM),
        (("2 cats and a dog.", "3 Katzen und ein Hund."), cleaning.Reason.UNLIKE),
        (("A cat and a dog?", "Eine Katze und ein Hund."), cleaning.Reason.UNLIKE),
        (("A test and no more.", "Ein Test und nicht mehr."), cleaning.Reason.EVALUATION),
        (("A cat and a dog.", "A cat, with a dog."), cleaning.Reason.LANGUAGE),
        (("A CAT and a dog!", "Eine Katze und ein Hund!"), cleaning.Reason.REPEATED),
    ],
)
def test_pairs_are_left_out_for_a_reason(pair: tuple[str, str], reason: cleaning.Reason | None) -> None:
    cleaner = _cleaner({"atestandnomore"})
    if reason is cleaning.Reason.REPEATED:
        cleaner.known.add_pair(("A cat and a dog.", "Eine Katze und ein Hund."))
    assert list(cleaner.pairs([pair], 3)) == ([pair] if reason is None else [])
    assert dict(cleaner.left_out) == ({} if reason is None else {reason: 1})


def test_paragraphs_are_split_where_their_sentences_pair_off() -> None:
    source = "Here is Mr. Smith and his dog. There are 2 cats and a cow."
    target = "Hier ist Mr. Smith und sein Hund. Dort sind 2 Katzen und eine Kuh."
    assert len(list(_cleaner().pairs([(source, target)], 3))) == 2
    joined = target.replace("Hund. Dort", "Hund, dort")
    assert list(_cleaner().pairs([(source, joined)], 3)) == [(source, joined)]
    assert list(_cleaner().pairs([(source, joined)], 3, whole=False)) == []


def test_short_phrases_are_left_out_and_short_sentences_stay() -> None:
    raw = [("A cat and dog.", "Eine Katze und Hund."), ("A bird and cow", "Ein Vogel und Kuh")]
    assert list(_cleaner().pairs(raw, 3, min_words_of_phrases=5)) == raw[:1]


def test_sentences_of_one_language_are_whole_and_occur_once() -> None:
    raw = ["Hunde und Katzen spielen.", "und weiter geht es.", "Ohne Punkt und Komma", "Hunde und  Katzen spielen!"]
    assert list(_cleaner().sentences(raw, "de", 3)) == raw[:1]


def test_a_sentence_of_a_pair_is_known_where_sentences_follow() -> None:
    cleaner = _cleaner()
    cleaner.known.add_pair(("Dogs and cats play.", "Hunde und Katzen spielen."))
    assert list(cleaner.sentences(["Hunde und Katzen spielen."], "de", 3)) == []


def test_the_language_of_long_sentences_is_detected() -> None:
    pytest.importorskip("py3langid")
    speaks = cleaning.language_detector()
    assert speaks("This sentence is surely long enough to be English.", "en")
    assert not speaks("Dieser Satz ist sicherlich lang genug und deutsch.", "en")
    assert speaks("Hallo!", "en")
