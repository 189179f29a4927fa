"""Chooses usable sentences among those that the extractors take out of files.

A pair stays if both sides are plain sentences in their languages that can be translations of each other, no side is in
an evaluation set, compared by letters and digits only, and no earlier pair differs from it only in digits, case or
punctuation.
"""

from __future__ import annotations

import enum
import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from model.errors import ConfigError
from model.training.corpus import Pair

_LANGUAGES = ["en", "de", "fr", "es", "it", "nl", "la", "da", "sv", "pl", "pt"]
"""Among these the language of a sentence is detected."""

_MARKUP = re.compile(
    r"[<>{}|\\_=#*`~^\[\]•→©®™�\u200b]|https?:|www\.|@|%[\w(]|\$\w|&\w+;|\w\(\)|--"
    r"|\.(?:html?|php|png|exe|txt|md)\b|\w/\w+/"
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])([\"“”'’»«)]*) +(?=[\"„“'‚»«(]*[A-ZÄÖÜ0-9])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:z|d|u|o|e|i|bzw|usw|etc|vgl|ca|evtl|ggf|inkl|Nr|Abb|Dr|Prof|St|Mr|Mrs|Ms|Jr|Sr|No|vs|Fig|approx|resp|"
    r"Jan|Feb|Aug|Sept|Okt|Oct|Nov|Dez|Dec|Inc|Co|Corp|Ltd|geb|gest|bspw|sog|Std|Min|Mio|Mrd|v|n|Chr|[A-Z])"
    r"|\b\d{1,2})\.$"
)
_INVISIBLE = re.compile(r"[\u00ad\ufeff\u2060\u200b-\u200f\x00-\x08\x0b-\x1f\x7f]")
_NO_SENTENCE_END = re.compile(r"[^.!?…\"“”»«’']$")
_ENDS_AS_SENTENCE = re.compile(r"[.!?][\"”“’)]?$")
_DIGIT_GROUP = re.compile(r"(?<=\d)[.,'’ \u00a0](?=\d)")

_MAX_WORDS = 100
_MAX_WORDS_ALONE = 60
"""The largest number of words of a sentence without translation."""

_MAX_WORD_LENGTH = 45
_LEAST_LETTERS = 0.75
"""The smallest share of letters and spaces."""

_SURELY_DETECTED = 20
"""Sentences shorter than this many characters are too short to detect their language."""


class Reason(enum.Enum):
    """Why a sentence or pair is left out."""

    FORM = "no plain sentence"
    UNLIKE = "the sides are no translations of each other"
    EVALUATION = "in an evaluation set"
    LANGUAGE = "in another language"
    REPEATED = "in this or an earlier set"


class Known:
    """The pairs and sentences of the sets so far.

    Stored as hashes of 64 bits, so that a million of them take 100 MB; two different ones of a million have the same
    hash once in ten million builds.
    """

    def __init__(self) -> None:
        self._pairs: set[int] = set()
        self._sentences: dict[str, set[int]] = {"en": set(), "de": set()}

    def add_pair(self, pair: Pair) -> bool:
        """Add a pair and its sentences; False if a pair that differs in digits, case or punctuation only is known."""
        source, target = (similar(side) for side in pair)
        self._sentences["en"].add(hash(source))
        self._sentences["de"].add(hash(target))
        return _is_new(hash((source, target)), self._pairs)

    def add_sentence(self, text: str, language: str) -> bool:
        """The same for a sentence alone."""
        return _is_new(hash(similar(text)), self._sentences[language])


def _is_new(value: int, values: set[int]) -> bool:
    new = value not in values
    values.add(value)
    return new


def bare(text: str) -> str:
    """The letters and digits of a text in lower case."""
    return re.sub(r"[\W_]+", "", (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower())


def similar(text: str) -> str:
    """The same for texts that differ only in their numbers."""
    return re.sub(r"\d+", "0", bare(text))


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    result, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text[max(start, match.start() - 20) : match.start()]):
            result.append(text[start : match.end(1)].strip())
            start = match.end()
    return [*result, text[start:].strip()]


def normalised(text: str) -> str:
    """A text in composed characters and one line, without invisible characters and outer dashes."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFC", html.unescape(text)))
    return re.sub(r"\s+", " ", text).strip(" \t-–—·")


def is_plain(text: str, min_words: int, max_words: int = _MAX_WORDS) -> bool:
    """Whether a text is made of words, without markup or placeholders."""
    words = text.split()
    if not min_words <= len(words) <= max_words or _MARKUP.search(text) or max(map(len, words)) > _MAX_WORD_LENGTH:
        return False
    letters = sum(character.isalpha() or character == " " for character in text)
    return letters >= _LEAST_LETTERS * len(text) and text.count('"') % 2 == 0 and not text.isupper()


def _numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+", _DIGIT_GROUP.sub("", text)))


def fit(source: str, target: str) -> bool:
    """Whether two sentences have the same numbers and similar lengths, and are not the same."""
    if bare(source) == bare(target) or _numbers(source) != _numbers(target) or ("?" in source) != ("?" in target):
        return False
    lengths = (len(target) + 12) / (len(source) + 12)
    words = (len(source.split()) + 3) / (len(target.split()) + 3)
    return 0.6 < lengths < 2.2 and 0.5 < words < 2.2


def split_pair(source: str, target: str) -> list[Pair]:
    """The pairs of sentences of two paragraphs; empty if the sentences do not pair off one to one."""
    sides = sentences(source), sentences(target)
    if len(sides[0]) != len(sides[1]):
        return []
    pairs = list(zip(*sides, strict=True))
    return pairs if all(fit(*pair) or bare(pair[0]) == bare(pair[1]) for pair in pairs) else []


def language_detector() -> Callable[[str, str], bool]:
    """A function that tells whether a text is in a language; true of texts that are too short to tell.

    Raises:
        ConfigError: The packages of the group "data" are not installed.
    """
    try:
        import py3langid
    except ImportError as error:
        raise ConfigError("py3langid is missing: pip install --group data installs what scripts.data needs.") from error

    py3langid.set_languages(_LANGUAGES)

    def speaks(text: str, language: str) -> bool:
        return (
            len(text) < _SURELY_DETECTED
            or py3langid.classify(text)[0] == language
            or (len(text) < 2 * _SURELY_DETECTED and py3langid.classify(text.lower())[0] == language)
        )

    return speaks


class Cleaner:
    """Chooses pairs and sentences, one set after the other.

    Args:
        evaluation: The letters and digits (:func:`bare`) of all evaluation sentences.
        speaks: Whether a text is in a language; :func:`language_detector` by default.
    """

    def __init__(self, evaluation: Collection[str], speaks: Callable[[str, str], bool] | None = None) -> None:
        self.evaluation = evaluation
        self.known = Known()
        self.left_out: Counter[Reason] = Counter()
        self._speaks = speaks or language_detector()

    def pairs(
        self, raw: Iterable[Pair], min_words: int, *, min_words_of_phrases: int = 0, whole: bool = True
    ) -> Iterator[Pair]:
        """The usable pairs of sentences.

        Args:
            raw: Pairs of paragraphs or sentences, English and German.
            min_words: The smallest number of English words; German may have one fewer.
            min_words_of_phrases: The smallest number of English words where a side does not end as sentences do.
            whole: Whether paragraphs whose sentences do not pair off stay whole; otherwise they are left out.
        """
        for paragraphs in raw:
            source, target = (normalised(side) for side in paragraphs)
            if not source or not target:
                continue
            for pair in split_pair(source, target) or ([(source, target)] if whole else []):
                phrase = not all(_ENDS_AS_SENTENCE.search(side) for side in pair)
                if reason := self._fault(pair, max(min_words, min_words_of_phrases) if phrase else min_words):
                    self.left_out[reason] += 1
                else:
                    yield pair

    def _fault(self, pair: Pair, min_words: int) -> Reason | None:
        source, target = pair
        if not is_plain(source, min_words) or not is_plain(target, max(1, min_words - 1)):
            return Reason.FORM
        if not fit(source, target):
            return Reason.UNLIKE
        if self.is_evaluated(pair):
            return Reason.EVALUATION
        if not self._speaks(source, "en") or not self._speaks(target, "de"):
            return Reason.LANGUAGE
        return None if self.known.add_pair(pair) else Reason.REPEATED

    def is_evaluated(self, sides: Sequence[str]) -> bool:
        """Whether an evaluation set has one of the sentences."""
        return any(bare(side) in self.evaluation for side in sides)

    def sentences(self, raw: Iterable[str], language: str, min_words: int) -> Iterator[str]:
        """The usable sentences of one language.

        Args:
            raw: Sentences.
            language: Their language.
            min_words: The smallest number of words.
        """
        for text in map(normalised, raw):
            reason: Reason | None = None
            if not is_plain(text, min_words, _MAX_WORDS_ALONE) or text[0].islower() or _NO_SENTENCE_END.search(text):
                reason = Reason.FORM
            elif self.is_evaluated([text]):
                reason = Reason.EVALUATION
            elif not self._speaks(text, language):
                reason = Reason.LANGUAGE
            elif not self.known.add_sentence(text, language):
                reason = Reason.REPEATED
            if reason:
                self.left_out[reason] += 1
            else:
                yield text
