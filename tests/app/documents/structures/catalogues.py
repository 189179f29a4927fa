"""Structures of catalogues, tables and other files of strings."""

from __future__ import annotations

from tests.app.documents.structures.structures import Structures

_HEADER = '<?xml version="1.0"?>\n'


def _po(source: str, target: str) -> str:
    return f"msgid {source}\nmsgstr {target}\n"


def _xliff_1(unit: str, language: str = '⟪ target-language="de"⟫') -> str:
    return f'<xliff version="1.2"><file{language}><body>{unit}</body></file></xliff>'


def _xliff_2(segment: str) -> str:
    unit = f'<unit id="1"><segment⟪ state="translated"⟫>{segment}</segment></unit>'
    return f'<xliff version="2.0"⟪ trgLang="de"⟫><file>{unit}</file></xliff>'


def _qt(message: str, language: str = '⟪ language="de"⟫') -> str:
    return f'<!DOCTYPE TS>\n<TS version="2.1"{language}><context><message>{message}</message></context></TS>'


def _resource(text: str) -> str:
    return f"{_HEADER}<resources>{text}</resources>"


def _plist(text: str) -> str:
    return f"<plist><dict><key>n</key><dict>{text}</dict></dict></plist>"


CATALOGUES = (
    Structures(
        "`.po`, `.pot`",
        ".po",
        {
            "messages without translation": _po('"Good morning"', '"⟪GOOD MORNING⟫"'),
            "fuzzy messages": "⟦#, fuzzy\n⟧" + _po('"One"', '"⟦x⟧⟪ONE⟫"'),
            "plural forms": 'msgid "a song"\nmsgid_plural "songs"\nmsgstr[0] "⟪A SONG⟫"\nmsgstr[1] "⟪SONGS⟫"\n',
        },
        {
            "translations": _po('"Open"', '"Auf damit"'),
            "contexts, comments": '# A note\n#: a.c:1\nmsgctxt "menu"\n' + _po('"Open"', '"⟪OPEN⟫"'),
            "obsolete messages": _po('"One"', '"⟪ONE⟫"') + '\n#~ msgid "gone"\n#~ msgstr "weg"\n',
            "line breaks of other messages": _po('""\n"a "\n"b"', '""\n"c "\n"d"') + "\n" + _po('"One"', '"⟪ONE⟫"'),
            "placeholders": _po('"Hi %s, {name}"', '"⟪HI %s, {name}⟫"'),
        },
        {"files without messages": "Hello\n"},
        has_marked_text=True,
    ),
    Structures(
        "`.xliff`, `.xlf` (1.2)",
        ".xliff",
        {
            "units without target": _xliff_1(
                '<trans-unit id="1"><source>Good</source>⟪<target state="translated">GOOD</target>⟫</trans-unit>'
            ),
            "targets whose state says so": _xliff_1(
                "<trans-unit><source>Good</source>"
                '<target state="⟦needs-translation⟧⟪translated⟫">⟦x⟧⟪GOOD⟫</target></trans-unit>'
            ),
            "segments of `seg-source`": _xliff_1(
                '<trans-unit><source>a</source><seg-source><mrk mtype="seg" mid="0">Good.</mrk></seg-source>'
                '⟪<target state="translated"><mrk mtype="seg" mid="0">GOOD.</mrk></target>⟫</trans-unit>'
            ),
        },
        {
            "other targets": _xliff_1("<trans-unit><source>Good</source><target>Gut</target></trans-unit>", ""),
            '`translate="no"`': _xliff_1('<trans-unit translate="no"><source>Good</source></trans-unit>', ""),
            "inline elements": _xliff_1(
                '<trans-unit><source>A <g id="1">big</g> <x id="2"/></source>'
                '⟪<target state="translated">A <g id="1">BIG</g> <x id="2"/></target>⟫</trans-unit>'
            ),
            "notes": _xliff_1(
                "<trans-unit><source>Good</source>"
                '⟪<target state="translated">GOOD</target>⟫<note>It\'s</note></trans-unit>'
            ),
        },
        {"XML that is not well-formed": "<xliff><file></xliff>"},
        has_marked_text=True,
    ),
    Structures(
        "`.xliff`, `.xlf` (2.x)",
        ".xlf",
        {"segments without target": _xliff_2("<source>Good</source>⟪<target>GOOD</target>⟫")},
        {
            "inline elements": _xliff_2(
                '<source>A <pc id="1">big</pc><ph id="2"/></source>⟪<target>A <pc id="1">BIG</pc><ph id="2"/></target>⟫'
            )
        },
        has_marked_text=True,
    ),
    Structures(
        "`.ts` (Qt)",
        ".ts",
        {
            "messages without translation": _qt("<source>Good</source><translation>⟪GOOD⟫</translation>"),
            "`unfinished` messages": _qt(
                '<source>Good</source><translation⟦ type="unfinished"⟧>⟦x⟧⟪GOOD⟫</translation>'
            ),
        },
        {
            "finished and vanished translations": _qt(
                "<source>Door</source><translation>Tür</translation></message><message>"
                '<source>Old</source><translation type="vanished">Alt</translation>',
                "",
            ),
            "accelerators": _qt("<source>&amp;File</source><translation>⟪&amp;FILE⟫</translation>"),
        },
        {"other XML": "<a/>"},
        has_marked_text=True,
    ),
    Structures(
        "`.xcstrings` (Xcode)",
        ".xcstrings",
        {
            "strings without a localization": (
                '{"sourceLanguage": "en",\n"strings": {"Good": {⟪\n  "localizations" : {\n    "de" : {\n'
                '      "stringUnit" : {\n        "state" : "translated",\n'
                '        "value" : "GOOD"\n      }\n    }\n  }\n⟫}}}'
            )
        },
        {
            "localizations": (
                '{"sourceLanguage": "en", "strings": {"Good": {"localizations": {"de": {"stringUnit": {"state": '
                '"translated", "value": "Gut"}}}}}}'
            ),
            "`shouldTranslate: false`": '{"sourceLanguage": "en", "strings": {"Good": {"shouldTranslate": false}}}',
        },
        {"other JSON": "[]"},
        has_marked_text=True,
    ),
    Structures(
        "`.xml` (Android)",
        ".xml",
        {
            "`<string>`": _resource('<string name="a">‹Good morning›</string>'),
            "`<plurals>`": _resource('<plurals name="p"><item quantity="one">%d ‹song›</item></plurals>'),
            "`<string-array>`": _resource('<string-array name="l"><item>‹One›</item></string-array>'),
        },
        {
            '`translatable="false"`': _resource('<string name="a" translatable="false">No way</string>'),
            "references": _resource('<string name="a">@string/other</string>'),
            "`xliff:g`, tags": _resource(
                '<string name="a" xmlns:xliff="x">‹Hi› <xliff:g id="n">%1$s</xliff:g> ‹and› <b>‹you›</b></string>'
            ),
            "backslashes, quotation marks, CDATA": _resource(
                '<string name="a">‹It›\\\'‹s›\\n\\"‹x›\\"</string><string name=\'b\'><![CDATA[<b>‹Door›</b>]]></string>'
            ),
            "other resources": _resource(
                '<integer name="i">4</integer><style name="s"><item name="t">no way</item></style>'
            ),
        },
        {"other XML": "<a/>", "entities": '<!DOCTYPE a [<!ENTITY b "c">]><resources/>'},
        has_marked_text=True,
    ),
    Structures(
        "`.resx`, `.resw`",
        ".resx",
        {"values of strings": '<root><data name="Hi"><value>‹Good morning›</value></data></root>'},
        {
            "other resources": '<root><data name="i" type="System.Drawing"><value>no way</value></data></root>',
            "comments": '<root><data name="Hi"><value>‹Yes›</value><comment>a note</comment></data></root>',
        },
        {"other XML": "<a/>"},
        has_marked_text=True,
    ),
    Structures(
        "`.strings`",
        ".strings",
        {"values": '"a" = "‹Good morning›";\nkey = "‹Yes›";\n'},
        {
            "keys, comments": '/* a note */\n"a b" = "‹Yes›";\n// more\n',
            "backslashes": '"a" = "‹Good› \\"‹x›\\"\\n%@";\n',
        },
        has_marked_text=True,
    ),
    Structures(
        "`.stringsdict`",
        ".stringsdict",
        {"plural forms": _plist("<key>one</key><string>%d ‹song›</string>")},
        {
            "formats and types": _plist(
                "<key>NSStringLocalizedFormatKey</key><string>%#@x@</string>"
                "<key>NSStringFormatSpecTypeKey</key><string>NSStringPluralRuleType</string>"
            )
        },
        {"other XML": "<a/>"},
        has_marked_text=True,
    ),
    Structures(
        "`.properties`",
        ".properties",
        {"values": "hi=‹Good morning›\nb : ‹It is›\n", "values on several lines": "a = ‹One ›⟦\\\n  ⟧‹two›\n"},
        {"keys, comments": "# a note\na.b c = ‹Door›\n! more\n", "escapes": "a = ‹Caf›\\u00⟦e9⟧⟪c9⟫\\n{0}\n"},
        has_marked_text=True,
    ),
    Structures(
        "`.php`",
        ".php",
        {
            "strings that are values of the returned array": (
                "<?php\nreturn ['a' => '‹Good›', 'n' => array('b' => \"‹Yes›\")];\n"
            )
        },
        {
            "keys, comments": "<?php // a note\nreturn ['some key' => '‹Good›'];\n",
            "strings with variables": "<?php\nreturn ['a' => \"x $var\"];\n",
            "plural forms": "<?php\nreturn ['a' => '{0} ‹None›|[1,*] ‹Some›'];\n",
        },
        {"other code than arrays of strings": "<?php\nreturn ['a' => f('b')];\n"},
        has_marked_text=True,
    ),
    Structures(
        "`.json`, `.arb`",
        ".json",
        {
            "strings that are values": '{"a": "‹Good morning›", "b": ["‹One›", {"c": "‹Two›"}]}',
            "of messages of browser extensions only `message`": (
                '{"a": {"message": "‹Good›", "description": "a note"}}'
            ),
            "branches of ICU messages": '{"a": "{n, plural, one {# ‹cat›} other {# ‹cats›}}"}',
        },
        {
            "names, numbers, layout": '{\n  "some name" :"‹Yes›" , "n": 1.50, "e": null\n}\n',
            "values under names with `@` or `$`": '{"@a": {"description": "a note"}, "$schema": "a note"}',
            "values for programs": '{"a": "menu.file", "b": "en-GB", "d": "margin: 0 auto; color: red"}',
            "escapes": '{"a": "‹Good› \\"‹x›\\"\\n{{name}}"}',
        },
        {"files that are not valid JSON": '{"a": }'},
        has_marked_text=True,
    ),
    Structures(
        "`.yaml`, `.yml`",
        ".yml",
        {
            "strings that are values": "a: ‹Good morning›\nb:\n  - ‹One›\n",
            "blocks": "a: |\n  ‹Line one›\n\n  ‹two›\nb: >-\n  ‹more›\n",
            "the language at the top": "⟦en⟧⟪de⟫:\n  a: ‹Good›\n",
        },
        {
            "names, comments": "some name: ‹Good› # a note\n",
            "other values": "a: true\nb: 2020-01-01\nc: 1.5\n",
            "quotation marks": "a: \"‹Good› \\\"‹x›\\\"\"\nb: '‹It›''‹s›'\n",
            "anchors": "a: &x ‹Yes sir›\nb: *x\n",
        },
        {"files that are not valid YAML": "a: ["},
        has_marked_text=True,
    ),
    Structures(
        "`.csv`, `.tsv`",
        ".csv",
        {"cells with words": "‹Word›,‹Its meaning›\n‹dog›,‹a small animal›\n"},
        {
            "separators, `sep=;`": "sep=;\n‹Name›;‹Text›\n‹A b›;‹Good night›\n",
            "quotation marks, line ends": '‹a›,"‹He said› ""‹no›"", ‹yes›"\r\n',
            "numbers, formulas": "‹a b›,12\n=SUM(A1),@SUM(A1)\n",
            "columns of codes, identifiers": "id,country,code,status\n17,‹Egypt›,EG,ACTIVE\n18,‹Germany›,DE,CLOSED\n",
        },
        has_marked_text=True,
    ),
)
