"""Answers of ``POST /translate``, complete or as events, and examples."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from app.http.schemas.answers import AnswerBody, DetectedBody, SearchStepBody, is_empty, is_none
from app.http.schemas.memory_fields import MemoryUseBody
from app.http.schemas.problems import ProblemBody


class AlignmentLinkBody(AnswerBody):
    """A span of the source and the span of the translation that it is linked to."""

    source: tuple[int, int]
    """First character and the one after the last, in the text sent."""

    target: tuple[int, int]
    """First character and the one after the last, in the translation."""

    weight: float
    """The share of the attention on this link, 0 to 1."""


class SpanUseBody(AnswerBody):
    """A protected span and its position in the translation."""

    source: tuple[int, int]
    """First character of the span and the one after its last, in the text sent."""

    target: tuple[int, int]
    """The position of the same characters in the translation."""

    restored: bool
    """Whether it was placed by alignment, because the model did not place it."""


class NumberUseBody(AnswerBody):
    """A number, date or time that the model did not write, or wrote in another form."""

    source: tuple[int, int]
    """First character of the number and the one after its last, in the text sent."""

    target: tuple[int, int]
    """Its position in the translation."""

    status: Literal["respelled", "protected"]
    """`respelled` if it replaces what the model wrote, `protected` if the model only placed it."""


class IntegrityBody(AnswerBody):
    """The protected spans of a text, and its numbers that the model did not write."""

    status: Literal["intact", "restored"]
    """`restored` if any span was."""

    spans: list[SpanUseBody]
    """The protected spans, in the order of the source. Each is in the translation exactly once."""

    numbers: list[NumberUseBody] = Field(default_factory=list, exclude_if=is_empty)
    """Numbers, dates and times that the model did not write, or wrote in another form. All others are as it wrote
    them."""


class TermUseBody(AnswerBody):
    """A glossary term or word of the lexicon in a text, and in its translation."""

    source: tuple[int, int]
    """First character of the term and the one after its last, in the text sent."""

    target: tuple[int, int] | None
    """The position in the translation; null if the term is missing."""

    status: Literal["used", "replaced", "missing"]
    """`used` if the model wrote the term in some inflection, `replaced` if the term replaced what the model wrote,
    `missing` if the translation does not contain it."""


class AlternativeBody(AnswerBody):
    """A hypothesis other than the best one."""

    text: str
    """The translation."""

    score: float | None
    """Its score; null unless `return_scores`."""

    finish_reason: Literal["stop", "length"]
    """As for the best hypothesis."""


class WordConfidenceBody(AnswerBody):
    """A word of a translation, and the model's confidence in it."""

    target: tuple[int, int]
    """First character and the one after the last, in the translation; adjacent punctuation is included."""

    probability: float
    """The product of the probabilities of its tokens, each given the source and the tokens before it, 0 to 1."""


class ConfidenceBody(AnswerBody):
    """The model's confidence in a translation."""

    score: float
    """0 to 1. If `card.confidence.estimates` in `/models` is `right`: the probability that a careful reader calls the
    translation right in meaning, and for several sentences the share of the text that probably is (the mean, weighted
    by their tokens). For a model without calibration the geometric mean of the tokens' probabilities. 1 if nothing was
    translated."""

    words: list[WordConfidenceBody]
    """The words of the translation, in order; words are separated by whitespace."""

    uncovered: list[tuple[int, int]] | None
    """Source words that the translation seems to leave out, as first character and the one after the last; null if the
    model does not translate in both directions, which the estimate needs."""


class ViaBody(AnswerBody):
    """The first of two legs of a translation."""

    language: str
    """The pivot language: the first model translated into it, and `model` from it."""

    model: str
    """The first model."""


class TranslationBody(AnswerBody):
    """The translation of one text."""

    text: str
    """The translation; everything between its sentences is unchanged."""

    source: str
    """Source language; `zxx` if `source` was `auto` and the text has no letters."""

    target: str
    """Target language."""

    finish_reason: Literal["stop", "length"]
    """`stop` if the model ended every sentence, `length` if one was cut at `max_new_tokens`."""

    score: float | None
    """Mean log-probability (at `length_penalty` 1) over the text's sentences; null unless `return_scores`."""

    alternatives: list[AlternativeBody]
    """The hypotheses after the best one: `num_hypotheses` - 1 at most. Those with wrong numbers and
    repetition loops are left out."""

    alignment: list[AlignmentLinkBody] | None
    """Links between characters; null unless `return_alignment`."""

    model: str | None
    """The model that wrote it; null if `source` was `auto` and the text has no letters or is already in the target
    language."""

    via: ViaBody | None = Field(default=None, exclude_if=is_none)
    """The pivot language and the first model, if two models translated it; absent if one did."""

    detected: DetectedBody | None
    """Its detected language; null for a text without letters. If `source` was named: null, unless the text is almost
    certainly in another language."""

    confidence: ConfidenceBody | None = Field(default=None, exclude_if=is_none)
    """The model's confidence; absent unless `return_confidence`."""

    integrity: IntegrityBody | None = Field(default=None, exclude_if=is_none)
    """The protected spans; absent if the text has none."""

    untranslated: int = Field(default=0, exclude_if=lambda number: number == 0)
    """Sentences that stay in the source language, as no translation of them was sound; absent if there are none."""

    glossary: list[TermUseBody] | None = Field(default=None, exclude_if=is_none)
    """The glossary terms that the text contains; absent without `glossary`."""

    lexicon: list[TermUseBody] = Field(default_factory=list, exclude_if=is_empty)
    """The rare words whose translations the model took from its lexicon; absent if there are none."""

    search: list[SearchStepBody] | None = Field(default=None, exclude_if=is_none)
    """The steps of the search; absent unless `return_search`."""

    memory: list[MemoryUseBody] | None = Field(default=None, exclude_if=is_none)
    """The sentences that the translation memories have, and similar ones; absent without `memory`."""


class FailedTranslationBody(AnswerBody):
    """A text that could not be translated; other texts of the request are not affected."""

    error: ProblemBody
    """Why this text could not be translated."""


class UsageBody(AnswerBody):
    """Tokens of the request."""

    source_tokens: int
    """Tokens of the texts."""

    target_tokens: int
    """Tokens of the translations."""


class TimingsBody(AnswerBody):
    """Durations in milliseconds."""

    queue: float
    """Until the first sentence started to decode."""

    decode: float
    """From then until the last sentence finished."""

    total: float
    """Total in the service."""


class TranslateResponse(AnswerBody):
    """The translations, in the order of the texts."""

    translations: list[TranslationBody | FailedTranslationBody]
    """One entry for each text."""

    model: str
    """The model of the first text that was translated; each entry names its own."""

    usage: UsageBody
    """Tokens of the texts and translations."""

    timings_ms: TimingsBody
    """Durations."""


class SentenceEvent(AnswerBody):
    """A finished sentence of a streamed answer; the sentences of a text come in order."""

    text: int
    """The index of its text."""

    sentence: int
    """Its index among the sentences of the text."""

    source: tuple[int, int]
    """First character of the sentence and the one after its last, in the text sent."""

    translation: str
    """Its translation, without the text between sentences, which is unchanged. For HTML and XML, without markup."""

    finish_reason: Literal["stop", "length"]
    """`length` if it was cut at `max_new_tokens`."""


class TranslationEvent(AnswerBody):
    """A finished text of a streamed answer."""

    text: int
    """Its index."""

    translation: TranslationBody
    """Its entry, as in an answer that is not streamed."""


class ErrorEvent(ProblemBody):
    """A failed text of a streamed answer; without `text`, the whole request failed and no event follows."""

    text: int | None = Field(None, exclude_if=is_none)
    """The index of the text."""


class DoneEvent(AnswerBody):
    """The end of a streamed answer."""

    model: str
    """The model of the first text that was translated."""

    usage: UsageBody
    """Tokens of the texts and translations."""

    timings_ms: TimingsBody
    """Durations."""


_TRANSLATION = TranslationBody(
    text="Guten Morgen.",
    source="en",
    target="de",
    finish_reason="stop",
    score=None,
    alternatives=[],
    alignment=None,
    model="verso-en-de",
    detected=None,
    confidence=ConfidenceBody(
        score=0.97,
        words=[
            WordConfidenceBody(target=(0, 5), probability=0.9412),
            WordConfidenceBody(target=(6, 13), probability=0.8807),
        ],
        uncovered=[],
    ),
)

TRANSLATE_ANSWER = TranslateResponse(
    translations=[_TRANSLATION],
    model="verso-en-de",
    usage=UsageBody(source_tokens=5, target_tokens=4),
    timings_ms=TimingsBody(queue=0.2, decode=9.8, total=11.1),
)

TRANSLATE_EVENTS = [
    ("sentence", SentenceEvent(text=0, sentence=0, source=(0, 13), translation="Guten Morgen.", finish_reason="stop")),
    ("translation", TranslationEvent(text=0, translation=_TRANSLATION)),
    ("done", DoneEvent(**{name: getattr(TRANSLATE_ANSWER, name) for name in ("model", "usage", "timings_ms")})),
]
"""The events of a streamed answer."""
