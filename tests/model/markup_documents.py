"""Documents with markup, and what the tests of it share."""

from __future__ import annotations

import random
import re
from collections import Counter

import turbohtml

from model.text.markup import MarkedText, MarkedUp, MarkupFormat, PlacedText, place_marks, unchanged
from model.text.markup.word_links import words
from model.text.symbols import Span

HTML = {
    "page": '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset=utf-8><title>A &amp; B</title>\n'
    "<style>p > a { color: red }</style><script>if (a < b) document.write('<b>x</b>')</script></head>\n"
    "<body class='x  y'>\n  <h1>Title</h1>\n  <p>Some <b>bold</b> text\n    that is wrapped.</p>\n</body></html>\n",
    "unclosed": "<p>One<p>Two <b>bold<ul><li>first<li>second <i>x</ul>tail",
    "unquoted attributes": "<A HREF=/x?a=1&b=2 title=Hello TARGET='_blank'>Link</A>, <IMG SRC=x.png ALT=Picture>.",
    "void": "one<br>two<br/>three<BR />four <img src=a> five<hr>six<wbr>seven <input placeholder='Your name'> eight",
    "script with tags": '<p>a</p><script>var s = "</b><p>";</script><p>b</p>',
    "script with comment": "<script><!-- <script></script> --></script><p>text</p>",
    "conditional comment": "<!--[if IE]><p>old</p><![endif]--><p>new</p><!--[if !IE]> --><p>x</p><!-- <![endif]-->",
    "references": "Tom &amp; Jerry &lt;b&gt; &nbsp;&copy;&#8364;&#x20ac; &notit; &unknown; & &; AT&T a < b > c &amp",
    "control characters": "a\x00b <b>c\x01d</b> \x7f &#0; &#x80; \ud800 e",
    "lone brackets": "a < b, <3, <>, </>, x</>y, </ b>, <!x>, <?php echo 1 ?>, ]]>, >",
    "overlapping": "x <b>bold <i>both</b> italic</i> <a>y<u></a>z</u> w",
    "unfinished tag": "text <a href='x",
    "unfinished comment": "text <!-- comment",
    "windows line ends": "<p>one\r\n  two\r\n</p>\r\n<p>\rthree\r</p>",
    "svg": "an <svg><path d='M0'/><title>x</title><![CDATA[ a > b ]]></svg> icon and <math><mi>x</mi></math>",
    "not translated": '<p translate="no">A<p>B <span class="a notranslate">C <b>D</b></span> e <code>f()</code>'
    " <pre>g</pre>",
    "menu": "<nav><a href=1>Home</a><a href=2>About us</a> | <a href=3>Contact</a>\n<a>x</a></nav>",
    "nested blocks": "<a href=x><div>one <b>two<p>three</p>four</b></div>five</a>",
    "table": "<table><tr><td>a<td>b<tr><th>c</table>text<table>foster <b>x</b><tr><td>y</table>",
    "title and textarea": "<title>a &lt; <b> b</title><textarea>\n<p>x</textarea>y",
    "empty": "",
    "blank": " \n\t",
    "only tags": "<p></p><br><b></b>",
    "emoji": "😀 <b>ä😀</b> \u2028 x",
}
XML = {
    "document": '<?xml version="1.0" encoding="latin-1"?>\n<!DOCTYPE d SYSTEM "d.dtd">\n<d a="b &amp; c">\n'
    "  <t>Hello\n  world</t><!-- comment --><?pi x?>\n</d>\n",
    "namespaces": '<x:d xmlns:x="urn:x"><x:p>one <x:b x:a="1">two</x:b> three</x:p></x:d>',
    "cdata": "<a>one <![CDATA[ <raw> & ]]> two</a>",
    "fragment": 'Press <x id="1"/> the <b>red</b> &amp; big &#8364; button',
    "space": '<a xml:space="preserve"> one\n two </a>',
    "not translated": '<a>one <b translate="no">two</b> three</a><a translate="no"><b>x</b></a>',
    "mixed": "<d><p>one <l><i>two</i><i>three</i></l> four <e/></p>\r\n<p/>\n\n<p></p></d>",
    "blank lines": "<a>one\n\n two\n three</a>",
    "byte order mark": "\ufeff<a>text</a>",
    "unicode": "<ä>süß 😀 <b>x</b></ä>",
}


def same(document: MarkedUp) -> list[PlacedText]:
    return [unchanged(marked) for marked in document.texts]


def kept_sources(document: str, format: MarkupFormat) -> Counter[str]:
    """Tags, comments and the like by their source."""
    if format == "xml":
        return Counter(re.findall(r"<!\[CDATA\[.*?]]>|<!--.*?-->|<[^>]*>", document, re.DOTALL))
    return Counter(token.source for token in turbohtml.tokenize(document, capture_source=True) if token.source)


def translated(marked: MarkedText, rng: random.Random) -> PlacedText:
    """A translation with the words of the text in any order, some missing, and with any links."""
    protected = set(marked.protected)
    result = words(marked.text, marked.protected)
    rng.shuffle(result)
    text = ""
    links: list[tuple[Span, Span]] = []
    for source in result:
        is_protected = source in protected
        if is_protected or rng.random() < 0.8:
            start = len(text)
            text += marked.text[source[0] : source[1]]
            if is_protected or rng.random() < 0.7:
                links.append((source, (start, len(text))))
            text += rng.choice([" ", " ", "", " extra ", "\n"])
    for _ in range(rng.randrange(4)):
        numbers = [rng.randrange(-1, len(text) + 3) for _ in range(4)]
        links.append(((numbers[0], numbers[1]), (numbers[2], numbers[3])))
    return place_marks(marked, text, links)
