"""A file of each format with all that is usual in it; what a translation into capitals changes is marked."""

from __future__ import annotations

from tests.app.documents.structures.structures import Structures

EXAMPLES: dict[str, str] = {
    ".xml": """\
<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:x"><!-- kept -->
    <string name='a' >‹Don›\\'‹t go›\\n%1$s \\"‹x›\\" &amp; <b>‹bold›</b></string>
    <string name="b" translatable="false">No</string>
    <string name="c">"‹It's  quoted›"</string>
    <string name="d">‹Hi› <xliff:g id="n" example="Bob">%1$s</xliff:g>, ‹wrapped›⟦
       ⟧ ‹here›</string>
    <string name="e">@string/other</string>
    <string name="f"><![CDATA[<b>‹Door›</b> ‹it›\\'‹s›]]></string>
    <plurals name="p"><item quantity="one">%d ‹song›</item><item quantity="other">%d ‹songs›</item></plurals>
    <string-array name="list"><item>‹One›</item></string-array><integer name="i">4</integer>
    <string name="g">‹Caf›⟦\\u00e9⟧⟪É⟫ ⟦&#8230;⟧⟪…⟫ ‹it›⟦&apos;⟧⟪\\'⟫‹s›?</string>
    <string name="h">⟦"⟧‹a›⟦"⟧ ‹b›\\u0020</string><style name="s"><item name="t">kept</item></style></resources>""",
    ".strings": (
        '/* kept */\r\n"a" = "‹Good› \\"‹morning›\\"\\n%@";\r\n// kept\r\nkey="‹It\'s›"  ;\r\n"c" = "‹one›\n‹two›";'
    ),
    ".stringsdict": """\
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" \
"http://www.apple.com/DTDs/PropertyList-1.0.dtd">\
<plist><dict><key>n</key><dict>\
<key>NSStringLocalizedFormatKey</key><string>%#@x@</string><key>x</key><dict>\
\
<key>NSStringFormatSpecTypeKey</key><string>NSStringPluralRuleType</string>\
<key>one</key><string>%d ‹song› &gt;</string></dict></dict></dict></plist>""",
    ".properties": """\
# kept
hi=‹Good morning›
  b : ‹It''s› {0} ⟦\\
   ⟧‹wrapped› \\u00⟦e4⟧⟪c4⟫
c ‹It's›
d=
!
e\\ f = ‹a›⟦\\⟧:‹b c›\\n‹d› \x20
""",
    ".ts": """\
<!DOCTYPE TS>
<TS version="2.1" language="de_AT"><context><name>Kept</name>
<message><location filename="a.cpp" line="1"/><source>Open &amp;File</source>
<translation⟦ type="unfinished"⟧>⟪OPEN &amp;FILE⟫</translation></message>
<message numerus="yes"><source>%n file(s)</source><translation⟦ type="unfinished"⟧>\
<numerusform⟦/⟧>⟪%n FILE(S)</numerusform>⟫
<numerusform>⟪%n FILE(S)⟫</numerusform></translation></message>
<message><source>Door</source><translation>Tür</translation></message>
<message><source>Old</source><translation type="vanished">Alt</translation></message></context></TS>
""",
    ".php": """\
<?php

declare(strict_types=1); // kept
return [
  'a' => '‹It isn›\\'‹t ok›.', "b" => "‹Hello›\\n\\$5",
  'n' => array('one' => '‹One apple›|{2} ‹two|[3,*] Many›', 'k' => 'user.name',),
  'v' => "x $var", 'i' => 3
];
""",
    ".resx": """\
<root><resheader name="version"><value>Kept</value></resheader>
<data name="Hi" xml:space="preserve"><value>‹Good›
 ‹morning›</value><comment>kept</comment></data>
<data name="image" type="System.Drawing"><value>kept</value></data></root>""",
    ".yml": """\
⟦en⟧⟪de⟫:
  # kept
  a: "‹Good› \\"‹x›\\"\\n%{name}"
  b: '‹It''s›'
  c: ‹plain text› # kept
  d: |
    ‹Line one›

    ‹two›
  e: >-
    ‹fold›⟦
   ⟧ ‹ed text›

    ‹more›
  f: true
  g: [‹a b, 'c›']
  h: &x ‹Yes sir›
  i: *x
  j: 2020-01-01
  k:
   - ‹one›
   - x: ‹y z›
   - first_name
""",
    ".arb": """\
{"@@locale": "⟦en⟧⟪de⟫", "a": "‹Hi› {x}", "@a": {"description": "kept"}}""",
    ".xcstrings": """\
{
  "sourceLanguage" : "en",
  "strings" : {
    "Hello %@" : {
⟪      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "HELLO %@"
          }
        }
      }⟫
    },
    "Keep" : {
      "shouldTranslate" : false
    },
    "n" : {
      "localizations" : {⟪
        "de" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld FILE"
                }
              }
            }
          }
        },⟫
        "en" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld file"
                }
              }
            }
          }
        },
        "fr" : {
          "stringUnit" : { "state" : "translated", "value" : "Adieu" }
        }
      }
    }
  },
  "version" : "1.0"
}""",
    ".pot": """\
# Title
⟦#, fuzzy
⟧msgid ""
msgstr ""
"Content-Type: text/plain; charset=⟦CHARSET⟧⟪UTF-8⟫\\n"
"Language: ⟪de⟫\\n"
"Plural-Forms: nplurals=⟦INTEGER⟧⟪2⟫; plural=⟦EXPRESSION⟧⟪(n != 1)⟫;\\n"

#: a.c:1
#: a.c:2
msgid "Good morning"
msgstr "⟪GOOD MORNING⟫"
""",
    ".tsv": """\
word	meaning
‹dog	a small animal›
""",
    ".txt": "‹One line. Another one›.\nS‹econd line›\r\n\r\n  - ‹indented› {name}\n\n\n42\n",
    ".rst": """\
‹A title›
=======

‹Some *words* and› ``code``.

.. code:: sh

   kept
""",
    ".html": """\
<!DOCTYPE html>
<html lang="⟦en⟧⟪de⟫"><head><title>‹My page›</title><style>p { color: red }</style><script>var a = "no";</script></head>
<body class="big">
<h1 id="top">A ‹title›</h1>
<p>‹Please› <a href="/start?a=1&amp;b=2">‹click› <b>‹here›</b></a>, ‹Tom› &amp; ‹Jerry›.<br>‹Thanks›!</p>
<ul><li>‹One›<li title="A ‹tip›">‹Two› <code>x = 1</code></ul>
<pre>kept as it is</pre><!-- a note -->
<img src="a.png" alt="A ‹dog›"><p translate="no">Verso</p>
</body></html>
""",
    ".srt": """\
1
00:00:01,000 --> 00:00:02,500
‹Hello there›,
‹my› <i>‹old›</i> ‹friend›

2
00:00:02,500 --> 00:00:04,000 X1:40
‹who went away›.

3
00:00:05,000 --> 00:00:06,000
- ‹Yes & no›?
- ‹Never›!

4
00:00:07,000 --> 00:00:08,000
{\\an8}‹Up there›. 42
""",
    ".vtt": """\
WEBVTT - a film
Language: ⟦en⟧⟪de⟫

NOTE made by hand

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Tom>‹Hi› &amp; <00:01.500>‹bye›

00:02.000 --> 00:03.000
‹The end›.
""",
    ".json": """\
{
  "title": "‹Hello› \\"‹you›\\"",
  "nested": {"item_one": "{{count}} ‹cat›", "item_other": "{{count}} ‹cats›", \
"list": ["‹One›", 2, null, "\\u00⟦fc⟧⟪dc⟫‹ber›"]},
  "icu": "{n, plural, one {# ‹cat›} other {# ‹cats›}}",
  "@title": {"description": "not a text"},
  "$schema": "https://example.com/schema",
  "number": 1.50,
  "empty": ""
}
""",
    ".csv": """\
id;‹name›;"‹a text›"
1;‹Hello you›;"‹He said› ""‹no›""; ‹yes›"
2;;12
"3";" ‹spaced› ";=SUM(1)
""".replace("\n", "\r\n"),
    ".po": """\
# A catalogue.
msgid ""
msgstr ""
"Project-Id-Version: x\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2);\\n"
⟪"Language: de\\n"
⟫
#. A comment.
#: a.c:1
msgid "Hello %s,\\n"
"how are you?\\n"
msgstr ""
⟪"HELLO %s,\\n"
"HOW ARE YOU?\\n"
⟫
msgctxt "menu"
msgid "Open"
msgstr "⟪OPEN⟫"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "⟪%d FILE⟫"
msgstr[1] "⟪%d FILES⟫"
msgstr[2] "⟪%d FILES⟫"

#⟦, fuzzy⟧, c-format⟦
#| msgid "Old"⟧
msgid "New"
msgstr "⟦alt⟧⟪NEW⟫"

msgid "kept"
msgstr "ist da"

#~ msgid "gone"
#~ msgstr "weg"
""",
    ".md": """\
---
title: ‹Front matter›
lang: ⟦en⟧⟪de⟫
---
# A *‹title* here›

‹Some **bold text** and› `code here`, ‹wrapped›⟦
⟧⟪ ⟫[‹link text›](http://x.y "‹t›") ‹end›\\*.⟦
⟧⟪ ⟫‹Next ![alt›](i.png) <b>‹raw›</b> ‹a * b snake_case›[^1]

> ‹quoted text›⟦
>⟧ ‹goes on›

- [ ] ‹a task›
- ‹item [ref›][r] ‹and› ⟪[R]⟫[r] ‹or› <https://example.com>
  1. ‹nested one›

| ‹Head | Other› |
|------|-------|
| ‹cell one› | `c` ‹two› |

```python
kept = 1
```

    indented code

<div>‹html block›</div>

[r]: http://ref "‹T›"
[^1]: A ‹note›

‹Setext›
======
""",
    ".xliff": """\
<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en" datatype="plaintext" original="a"⟪ target-language="de"⟫><body>
  <trans-unit id="1"><source>Hello <g id="1">big</g> <x id="2"/> world</source>\
⟪<target state="translated">HELLO <g id="1">BIG</g> <x id="2"/> WORLD</target>⟫</trans-unit>
  <trans-unit id="2" translate="no"><source>Verso</source></trans-unit>
  <trans-unit id="3"><source>There</source><target>da</target></trans-unit>
  <trans-unit id="4"><source>Old</source><target state="⟦needs-translation⟧⟪translated⟫">‹Old›</target></trans-unit>
  <trans-unit id="5"><source>a <bpt id="1">&lt;b&gt;</bpt>code<ept id="1">&lt;/b&gt;</ept></source>\
⟪<target state="translated">A <bpt id="1">&lt;b&gt;</bpt>CODE<ept id="1">&lt;/b&gt;</ept></target>⟫</trans-unit>
 </body></file>
</xliff>
""",
    ".xlf": """\
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"⟪ trgLang="de"⟫>
 <file id="f"><unit id="1"><segment⟪ state="translated"⟫><source>Hi <pc id="1">you</pc> there</source>\
⟪<target>HI <pc id="1">YOU</pc> THERE</target>⟫</segment></unit></file>
</xliff>
""",
}
"""By the ending of the name; the marks are those of :class:`Structures`."""

_MARKED = Structures("", "", has_marked_text=True)
FILES = {suffix: _MARKED.source_and_translation(example)[0] for suffix, example in EXAMPLES.items()}
"""The files."""

TRANSLATIONS = {suffix: _MARKED.source_and_translation(example)[1] for suffix, example in EXAMPLES.items()}
"""The files in capitals."""
