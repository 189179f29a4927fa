"""A catalogue of each format, and what it becomes when its texts are translated into capitals."""

from __future__ import annotations

PLIST = '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">'
FORMAT = "NSStringLocalizedFormatKey"
TYPE = "<key>NSStringFormatSpecTypeKey</key><string>NSStringPluralRuleType</string>"

EXAMPLES: dict[str, tuple[str, str]] = {
    ".xml": (
        """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:x"><!-- kept -->
    <string name='a' >Don\\'t go\\n%1$s \\"x\\" &amp; <b>bold</b></string>
    <string name="b" translatable="false">No</string>
    <string name="c">"It's  quoted"</string>
    <string name="d">Hi <xliff:g id="n" example="Bob">%1$s</xliff:g>, wrapped
        here</string>
    <string name="e">@string/other</string>
    <string name="f"><![CDATA[<b>Door</b> it\\'s]]></string>
    <plurals name="p"><item quantity="one">%d song</item><item quantity="other">%d songs</item></plurals>
    <string-array name="list"><item>One</item></string-array><integer name="i">4</integer>
    <string name="g">Caf\\u00e9 &#8230; it&apos;s?</string>
    <string name="h">"a" b\\u0020</string><style name="s"><item name="t">kept</item></style></resources>""",
        """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:x"><!-- kept -->
    <string name='a' >DON\\'T GO\\n%1$s \\"X\\" &amp; <b>BOLD</b></string>
    <string name="b" translatable="false">No</string>
    <string name="c">"IT'S  QUOTED"</string>
    <string name="d">HI <xliff:g id="n" example="Bob">%1$s</xliff:g>, WRAPPED HERE</string>
    <string name="e">@string/other</string>
    <string name="f"><![CDATA[<b>DOOR</b> IT\\'S]]></string>
    <plurals name="p"><item quantity="one">%d SONG</item><item quantity="other">%d SONGS</item></plurals>
    <string-array name="list"><item>ONE</item></string-array><integer name="i">4</integer>
    <string name="g">CAFÉ … IT\\'S?</string>
    <string name="h">A B\\u0020</string><style name="s"><item name="t">kept</item></style></resources>""",
    ),
    ".strings": (
        '/* kept */\r\n"a" = "Good \\"morning\\"\\n%@";\r\n// kept\r\nkey="It\'s"  ;\r\n"c" = "one\ntwo";',
        '/* kept */\r\n"a" = "GOOD \\"MORNING\\"\\n%@";\r\n// kept\r\nkey="IT\'S"  ;\r\n"c" = "ONE\nTWO";',
    ),
    ".stringsdict": (
        f"{PLIST}<plist><dict><key>n</key><dict><key>{FORMAT}</key><string>%#@x@</string><key>x</key><dict>"
        f"{TYPE}<key>one</key><string>%d song &gt;</string></dict>"
        "</dict></dict></plist>",
        f"{PLIST}<plist><dict><key>n</key><dict><key>{FORMAT}</key><string>%#@x@</string><key>x</key><dict>"
        f"{TYPE}<key>one</key><string>%d SONG &gt;</string></dict>"
        "</dict></dict></plist>",
    ),
    ".properties": (
        "# kept\nhi=Good morning\n  b : It''s {0} \\\n   wrapped \\u00e4\nc It's\nd=\n!\ne\\ f = a\\:b c\\nd  \n",
        "# kept\nhi=GOOD MORNING\n  b : IT''S {0} WRAPPED \\u00c4\nc IT'S\nd=\n!\ne\\ f = A:B C\\nD  \n",
    ),
    ".ts": (
        """<!DOCTYPE TS>
<TS version="2.1" language="de_AT"><context><name>Kept</name>
<message><location filename="a.cpp" line="1"/><source>Open &amp;File</source>
<translation type="unfinished"></translation></message>
<message numerus="yes"><source>%n file(s)</source><translation type="unfinished"><numerusform/>
<numerusform></numerusform></translation></message>
<message><source>Door</source><translation>Tür</translation></message>
<message><source>Old</source><translation type="vanished">Alt</translation></message></context></TS>
""",
        """<!DOCTYPE TS>
<TS version="2.1" language="de_AT"><context><name>Kept</name>
<message><location filename="a.cpp" line="1"/><source>Open &amp;File</source>
<translation>OPEN &amp;FILE</translation></message>
<message numerus="yes"><source>%n file(s)</source><translation><numerusform>%n FILE(S)</numerusform>
<numerusform>%n FILE(S)</numerusform></translation></message>
<message><source>Door</source><translation>Tür</translation></message>
<message><source>Old</source><translation type="vanished">Alt</translation></message></context></TS>
""",
    ),
    ".php": (
        "<?php\n\ndeclare(strict_types=1); // kept\nreturn [\n  'a' => 'It isn\\'t ok.', \"b\" => \"Hello\\n\\$5\",\n"
        "  'n' => array('one' => 'One apple|{2} two|[3,*] Many', 'k' => 'user.name',),\n"
        "  'v' => \"x $var\", 'i' => 3\n];\n",
        "<?php\n\ndeclare(strict_types=1); // kept\nreturn [\n  'a' => 'IT ISN\\'T OK.', \"b\" => \"HELLO\\n\\$5\",\n"
        "  'n' => array('one' => 'ONE APPLE|{2} TWO|[3,*] MANY', 'k' => 'user.name',),\n"
        "  'v' => \"x $var\", 'i' => 3\n];\n",
    ),
    ".resx": (
        '<root><resheader name="version"><value>Kept</value></resheader>\n<data name="Hi" xml:space="preserve">'
        "<value>Good\n morning</value><comment>kept</comment></data>\n"
        '<data name="image" type="System.Drawing"><value>kept</value></data></root>',
        '<root><resheader name="version"><value>Kept</value></resheader>\n<data name="Hi" xml:space="preserve">'
        "<value>GOOD\n MORNING</value><comment>kept</comment></data>\n"
        '<data name="image" type="System.Drawing"><value>kept</value></data></root>',
    ),
    ".yml": (
        "en:\n  # kept\n  a: \"Good \\\"x\\\"\\n%{name}\"\n  b: 'It''s'\n  c: plain text # kept\n"
        "  d: |\n    Line one\n\n"
        "    two\n  e: >-\n    fold\n    ed text\n\n    more\n  f: true\n  g: [a b, 'c']\n  h: &x Yes sir\n  i: *x\n"
        "  j: 2020-01-01\n  k:\n   - one\n   - x: y z\n   - first_name\n",
        "de:\n  # kept\n  a: \"GOOD \\\"X\\\"\\n%{name}\"\n  b: 'IT''S'\n  c: PLAIN TEXT # kept\n"
        "  d: |\n    LINE ONE\n\n"
        "    TWO\n  e: >-\n    FOLD ED TEXT\n\n    MORE\n  f: true\n  g: [A B, 'C']\n  h: &x YES SIR\n  i: *x\n"
        "  j: 2020-01-01\n  k:\n   - ONE\n   - x: Y Z\n   - first_name\n",
    ),
    ".arb": (
        '{"@@locale": "en", "a": "Hi {x}", "@a": {"description": "kept"}}',
        '{"@@locale": "de", "a": "HI {x}", "@a": {"description": "kept"}}',
    ),
    ".xcstrings": (
        """{
  "sourceLanguage" : "en",
  "strings" : {
    "Hello %@" : {

    },
    "Keep" : {
      "shouldTranslate" : false
    },
    "n" : {
      "localizations" : {
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
        """{
  "sourceLanguage" : "en",
  "strings" : {
    "Hello %@" : {
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "HELLO %@"
          }
        }
      }
    },
    "Keep" : {
      "shouldTranslate" : false
    },
    "n" : {
      "localizations" : {
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
        },
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
    ),
    ".pot": (
        '# Title\n#, fuzzy\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=CHARSET\\n"\n"Language: \\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n#: a.c:1\n#: a.c:2\n'
        'msgid "Good morning"\nmsgstr ""\n',
        '# Title\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n'
        '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n#: a.c:1\n#: a.c:2\n'
        'msgid "Good morning"\nmsgstr "GOOD MORNING"\n',
    ),
    ".tsv": ("word\tmeaning\ndog\ta small animal\n", "word\tmeaning\nDOG\tA SMALL ANIMAL\n"),
}
