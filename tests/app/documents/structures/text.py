"""Structures of plain text, reStructuredText, HTML and subtitles."""

from __future__ import annotations

from tests.app.documents.structures.structures import Structures

TEXT = (
    Structures(
        "`.txt`",
        ".txt",
        {
            "paragraphs": "One line. Another one.\n\nNext\n",
            "text that is [wrapped](#plain-text), as sentences": (
                "The rabbit fell down a very deep\nwell. It was not able to stop\nbefore it came to the bottom.\n"
            ),
            "lists": "- one thing\n- another\n1. First\n",
        },
        {
            "line breaks, blank lines, indentation": "One«\n\n\n  »two\n«\t»three\n",
            "signs of quotations and lists": "«> »Yes\n\n«* »No\n",
            "placeholders and addresses": "Dear «{name}», see «https://example.com/a_b» now.\n",
        },
        {"files with NUL characters": "a\0b"},
    ),
    Structures(
        "`.rst`",
        ".rst",
        {
            "titles": "=====\nTitle\n=====\n\nOther\n-----\nText.\n",
            "admonitions": ".. «note»:: The door is open.\n\n.. «warning»::\n   :«class: big»\n\n   Be careful.\n",
            "captions": ".. «figure:: cat.png\n   :width: 50%»\n\n   The caption.\n",
            "descriptions of images": (
                ".. «image:: cat.png\n   :alt:» A cat\n      that sleeps\n   «:width: 50%»\n\nText.\n"
            ),
            "titles of code": ".. «code-block:: py\n   :caption:» The first one\n\n   «x = 1»\n\nText.\n",
            "descriptions for search engines": (
                ".. «meta::\n   :description:» A guide\n   «:keywords:» red, old\n   «:author: Tom King»\n\nText.\n"
            ),
            "notes of versions": ".. «versionadded»:: 1.2\n   It is new.\n",
            "fields": ":«param x»: The value\n:«returns»: Nothing\n",
            "footnotes": ".. [«a»] The note.\n\nText.\n",
            "labels of links and roles": (
                "A :«ref»:`long part <«a-b»>`, `the site <«https://x.y/z»>`_ and «`here`_», :«doc:`/a`».\n\n"
                "* :«ref»:`A text of two\n  <«a-b»>` lines\n\nterm\n   its definition\n\n| one line\n| two lines\n\n"
                "* :«ref»:`One of them <«x»>`\n* and `others <«https://x.y»>`__\n\n"
                "The `first site <«x»>`_\n«----------------------»\n"
            ),
            "bodies of descriptions": (
                ".. «py:function:: open_it(name,\n                 mode)\n   :noindex:»\n\n   Opens the file.\n\n"
                "   :«param str name»: the name\n\n   .. «code-block:: py»\n\n      «x = 1»\n\nText.\n"
            ),
        },
        {
            "code": (
                ".. «code-block:: python\n   :linenos:\n\n   print(1)»\n\nText::\n\n   «x = 1\n\n   y = 2»\n\nMore.\n"
            ),
            "sessions": ">>> «x = 1»\n\n>>> «a.b()\n[<User 'x y'>]\n>>> c\nthis is it»\n\nText.\n",
            "targets and comments": ".. _«my-label»:\n\n.. «a comment\n   of two lines»\n\nText.\n",
            "replacements": ".. |«product»| «replace:: Verso»\n\nText.\n",
            "tables": "+---+\n| «a» |\n+---+\n\n==  ==\n«a   b»\n==  ==\n\nText.\n",
            "literals and roles": "Some **bold** ``«code»`` and «:func:`open`» here.\n",
        },
    ),
    Structures(
        "`.html`, `.htm`, `.xhtml`",
        ".html",
        {
            "labels of tracks": '<video src="a"><track label="‹German subtitles›" src="b"></video>',
            "text": "<h1 id='a'>‹A title›</h1><p>‹Tom &›amp;‹ Ann ›<b>‹go›</b></p>",
            "the [attributes that readers see](api.md#html-and-xml)": (
                '<p><img src="a" alt="‹A dog›"><i title="‹A tip›">‹x y›</i>'
            ),
            "`title`, `noscript`, buttons, `textarea`": (
                "<title>‹My page›</title><noscript>‹Off›</noscript><textarea>‹One line›\n\n‹two›</textarea>"
                '<input type="submit" value="‹Send›">'
            ),
            "descriptions and titles for search engines and previews": (
                '<meta name="description" content="‹A red house›"><meta property="og:title" content="‹My page›">'
                '<meta name="twitter:description" content="‹It is old›">'
            ),
            "names of the language": (
                '<html lang="⟦en-US⟧⟪de-DE⟫"><meta http-equiv="content-language" content="⟦en⟧⟪de⟫">'
                '<meta property="og:locale" content="⟦en_US⟧⟪de_DE⟫"><p xml:lang=\'⟦en⟧⟪de⟫\'>‹The ›<i lang=⟦en⟧⟪de⟫>'
                "‹house›</i></p>"
            ),
            "titles and descriptions in front matter": "---\ntitle: ‹A house›\nlang: ⟦en⟧⟪de⟫\n---\n<p>‹Yes›</p>",
        },
        {
            "tags and comments": '<p class="big"><!-- a note --><img src="a.png"></p>',
            "code, `pre`, scripts, styles": (
                "<code>a b</code><pre>kept as it is</pre><script>var a</script><style>p</style>"
            ),
            '`translate="no"`': '<p translate="no">Verso is</p>',
            "other front matter": "---\nlayout: page\n---\n<p>‹Yes›</p>",
            "elements in other languages": '<html lang="de"><p>‹Yes› <i lang="fr">oui</i></p>',
            "names, addresses, dates": '<meta name="author" content="Tom King"><meta property="og:url" content="https://x.y">',
            "code of template languages": "<p>{% if a > 1 %}‹Some›{% endif %}</p>",
        },
        has_marked_text=True,
    ),
    Structures(
        "`.srt`, `.vtt`",
        ".srt",
        {
            "what is said": "1\n00:00:01,000 --> 00:00:02,000\n‹Good morning,\nmy friend.›\n",
            "sounds and songs": "1\n00:00:01,000 --> 00:00:02,000\n[‹door opens›]\n♪ ‹La la› ♪\n",
        },
        {
            "numbers, times, settings": "42\n00:00:01,000 --> 00:00:02,000 X1:40\n‹Yes.›\n",
            "tags": '1\n00:00:01,000 --> 00:00:02,000\n{\\an8}<i>‹Yes.›</i> <font color="red">‹No.›</font>\n',
            "names of speakers in capitals, dashes": "1\n00:00:01,000 --> 00:00:02,000\nANNA: ‹Yes.›\n- ‹No.›\n",
        },
        {"files without times": "Hello\n"},
        has_marked_text=True,
    ),
)
