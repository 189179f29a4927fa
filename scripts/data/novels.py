"""Sentences of German novels of the 19th century, in modern spelling."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

from model.training.corpus import read_lines
from scripts.data.cleaning import sentences
from scripts.data.text import read, strip_tags

FIRST_YEAR = 1860
"""Novels that were first printed earlier are left out."""

_WORD = re.compile(r"[A-Za-zÄÖÜäöüß]+")
_UNCHANGED = frozenset(
    (
        "maße",
        "maßen",
        "buße",
        "bußen",
        "schoß",
        "floß",
        "flöße",
        "fuße",
        "füße",
        "größe",
        "straße",
        "gieße",
        "fließe",
        "spaß",
    )
)
_ALWAYS = {
    "dieß": "dies", "deßhalb": "deshalb", "weßhalb": "weshalb", "indeß": "indes", "unterdeß": "unterdes",
    "deßwegen": "deswegen", "seyn": "sein", "sey": "sei", "bey": "bei", "todt": "tot",
}  # fmt: skip
_RULES = [
    (re.compile(old), new)
    for old, new in (
        ("niß", "nis"), ("ß", "ss"), ("th", "t"), ("Th", "T"), ("ey", "ei"),
        (r"ir(en|t|te|ten|ter|tes|tem|end|ung|ungen)$", r"ier\1"), ("cc", "kz"), ("c(?!h|k)", "k"), ("c(?!h|k)", "z"),
        ("^C(?!h)", "K"), ("^C(?!h)", "Z"), ("ie", "i"), ("aa", "a"), ("oo", "o"), ("dt", "t"), ("^Ae", "Ä"),
        ("^Oe", "Ö"), ("^Ue", "Ü"), ("ff$", "f"), ("ll", "l"), ("ö", "e"), ("ü", "i"),
    )
]  # fmt: skip
"""Old spellings and today's; at most two apply to a word."""

_FREQUENT = 30
"""A word that modern text has more often keeps its spelling."""


class Speller:
    """Replaces old spellings by today's, if modern text has the new one five times as often.

    Args:
        texts: Modern German sentences.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._count: Counter[str] = Counter()
        for text in texts:
            self._count.update(_WORD.findall(text))
        self._cache: dict[str, str] = {}

    def modernise(self, text: str) -> str:
        """A text in modern spelling."""
        return _WORD.sub(lambda match: self._word(match[0]), text)

    def is_known(self, word: str) -> bool:
        """Whether modern text has a word twice, with a capital or a small letter."""
        return self._count[word] > 1 or self._count[word[0].swapcase() + word[1:]] > 1

    def _both(self, word: str) -> int:
        return self._count[word] + self._count[word[0].swapcase() + word[1:]]

    def _word(self, word: str) -> str:
        if word not in self._cache:
            self._cache[word] = self._modern(word)
        return self._cache[word]

    def _modern(self, word: str) -> str:
        small = word.lower()
        if small in _ALWAYS:
            return _ALWAYS[small].capitalize() if word[0].isupper() else _ALWAYS[small]
        if len(word) < 3 or small in _UNCHANGED or (self._count[word] > _FREQUENT and "ß" not in word):
            return word
        best, most = word, max(4, 5 * self._both(word))
        rules = [rule for rule in _RULES if rule[0].search(word)]
        for number in (1, 2):
            for group in combinations(rules, number):
                candidate = word
                for old, new in group:
                    candidate = old.sub(new, candidate)
                if candidate != word and self._both(candidate) > most:
                    best, most = candidate, self._both(candidate)
            if best != word:
                break
        return best


_NOTE = re.compile(
    r"\[(?:Illustration|Anmerkung|Footnote|Fußnote|Transcriber|Hinweis|Abbildung|Sidenote|Music|Picture)[^\]]*\]"
    r"|\[\w{1,3}\]|\(\d{1,3}\)|\{\d+\}|[_=~#$+|]"
)
_SPACED = re.compile(r"(?<![\w-])-(?=\w)([^-]{1,80}?)(?<=\w)-(?![\w-])")
_DASH = re.compile(r" ?(?:-{2,}|—|–)+ ?")
_DOTS = re.compile(r"\.(?: \.){2,}|\.{3,}")


def printed_text(text: str) -> str:
    """A paragraph of a book without notes and marks of emphasis, with today's dashes."""
    text = _DASH.sub(" – ", _SPACED.sub(r"\1", _NOTE.sub("", text))).replace("\u00b4", "'").replace("`", "'")
    return re.sub(r"\s+", " ", _DOTS.sub("...", text)).strip()


_YEAR = re.compile(r'(?s)<bibl type="(?:firstEdition|printSource)">.*?<date[^>]*>\D*(\d{4})')
_PARAGRAPH = re.compile(r"(?s)<p\b[^>]*>(.*?)</p>")
_MAX_WORDS = 30
_WORDS_OF_A_RARE_ONE = 15


def novels(folder: Path, *vocabulary: Path) -> Iterator[str]:
    """Sentences of 3 to 30 words of novels in TEI (ELTeC), without those that have rare words.

    Args:
        folder: The novels.
        vocabulary: Files with modern German sentences.
    """
    speller = Speller(text for path in vocabulary for text in read_lines(path))
    for path in sorted(folder.glob("*.xml")):
        content = read(path)
        year = _YEAR.search(content)
        if not year or int(year[1]) < FIRST_YEAR:
            continue
        for paragraph in _PARAGRAPH.findall(content[content.find("<body") :]):
            for sentence in sentences(printed_text(strip_tags(paragraph))):
                text = speller.modernise(sentence).replace("»", '"').replace("«", '"')
                text = text.replace('"', "") if text.count('"') % 2 else text
                words = _WORD.findall(text)
                rare = sum(not speller.is_known(word) for word in words)
                if 3 <= len(words) <= _MAX_WORDS and rare <= len(words) // _WORDS_OF_A_RARE_ONE:
                    yield text.strip(" –-")
