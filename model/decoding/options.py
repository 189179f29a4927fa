"""What a caller may choose about decoding, and what decoding gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from model.errors import InvalidOptions
from model.text.glossary import Glossary
from model.text.protection import MAX_PATTERNS, Protect, check_patterns

Decoding = Literal["greedy", "beam"]
FinishReason = Literal["stop", "length"]
Scoring = Literal["hf", "ct2", "marian", "wu"]
Formality = Literal["formal", "informal"]
TextFormat = Literal["text", "html", "xml"]
DEFAULT_SCORING: Scoring = "hf"
"""The rule of models that name none."""

MAX_BEAM_SIZE = 64
"""Widest beam the decoder takes; a service may set a lower bound of its own."""

MAX_TERMS = 100
"""Terms of a glossary."""

MAX_TAGS = 100
"""Names of elements that are not translated."""

MAX_TERM_CHARACTERS = 200
"""Characters of one side of a term."""

MAX_PREFIX_CHARACTERS = 2000
"""Characters of the beginning of a translation."""

STEERING_OPTIONS = ("target_prefix", "return_search")
"""The options that are for one text of a single sentence."""


@dataclass(frozen=True)
class DecodingOptions:
    """How one sentence is decoded. Contradictions are refused here and nowhere else.

    Args:
        decoding: ``greedy`` takes the most probable token at every step, ``beam`` keeps ``beam_size`` hypotheses.
        beam_size: Hypotheses kept per sentence; greedy ignores it.
        length_penalty: Exponent ``a`` that says how much length counts: 0 compares plain sums of log-probabilities
            and favours short answers, 1 compares means. The formula is :attr:`scoring`'s. None: the model's own.
        num_hypotheses: Best hypotheses returned, at most ``beam_size`` (1 for greedy).
        min_new_tokens: The sentence may not end before this many tokens, those of a prefix not counted.
        max_new_tokens: The sentence is cut after this many tokens, its closing token counted and those of a prefix
            not; None lets the length of the source decide (:func:`default_max_new_tokens`).
        return_scores: Whether hypotheses carry their score; without it greedy skips the softmax altogether.
        early_stopping: Stop as soon as ``beam_size`` hypotheses ended, without looking whether one that still
            runs could beat them. None: the model's own.
        scoring: Whose rules compare hypotheses and end a search (:mod:`model.decoding.scoring`). None: the
            model's own.
        no_repeat_ngram_size: A guard against loops: no sequence of this many tokens may occur twice in one
            hypothesis. 0 switches it off.
        formality: The form of address of the translation, for models that can be told it. It is part of the source's
            tokens: decoding itself ignores it.
        glossary: How to translate terms. Decoding ignores it, too.
        protect: Which spans come back unchanged (:func:`model.text.protection.find_spans`). Decoding ignores it, too.
        format: What the texts are written in: ``text``, ``html`` or ``xml`` (:mod:`model.text.markup`). Decoding
            ignores it, too.
        ignore_tags: Names of elements that are not translated; needs a format with elements.
        target_prefix: What the translation of a single sentence begins with, in plain text. Decoding ignores it: it
            gets tokens (:attr:`model.decoding.sentence.DecodingRequest.prefix_ids`).
        return_search: Whether the hypothesis carries the candidates of every step (:attr:`Hypothesis.search`); for a
            single sentence of plain text, too.
        return_alignment: Whether translations carry their alignment. Decoding ignores it, too.
        return_confidence: Whether translations carry their confidence. Decoding ignores it, too.

    Raises:
        InvalidOptions: A value is out of bounds or two contradict each other.
        InvalidPattern: A pattern of ``protect`` is wrong.
    """

    decoding: Decoding = "beam"
    beam_size: int = 4
    length_penalty: float | None = None
    num_hypotheses: int = 1
    min_new_tokens: int = 0
    max_new_tokens: int | None = None
    return_scores: bool = False
    early_stopping: bool | None = None
    scoring: Scoring | None = None
    no_repeat_ngram_size: int = 0
    formality: Formality | None = None
    glossary: Glossary = ()
    protect: Protect = "auto"
    format: TextFormat = "text"
    ignore_tags: tuple[str, ...] = ()
    target_prefix: str = ""
    return_search: bool = False
    return_alignment: bool = False
    return_confidence: bool = False

    def __post_init__(self) -> None:
        if self.decoding not in ("greedy", "beam"):
            raise InvalidOptions(f"decoding is {self.decoding!r}; it must be 'greedy' or 'beam'.")
        if not 1 <= self.beam_size <= MAX_BEAM_SIZE:
            raise InvalidOptions(f"beam_size is {self.beam_size}; it must be 1 to {MAX_BEAM_SIZE}.")
        if self.length_penalty is not None and not 0.0 <= self.length_penalty <= 10.0:
            raise InvalidOptions(f"length_penalty is {self.length_penalty}; it must be 0 to 10.")
        if self.scoring is not None and self.scoring not in get_args(Scoring):
            raise InvalidOptions(f"scoring is {self.scoring!r}; it must be one of {', '.join(get_args(Scoring))}.")
        if not 1 <= self.num_hypotheses <= self.width:
            raise InvalidOptions(
                f"num_hypotheses is {self.num_hypotheses}; it must be 1 to the beam size, which is {self.width}"
                + (" for greedy decoding." if self.decoding == "greedy" else ".")
            )
        if self.min_new_tokens < 0:
            raise InvalidOptions(f"min_new_tokens is {self.min_new_tokens}; it must be 0 or more.")
        if self.max_new_tokens is not None and self.max_new_tokens < max(1, self.min_new_tokens):
            raise InvalidOptions(
                f"max_new_tokens is {self.max_new_tokens}; it must be at least 1 and at least min_new_tokens, "
                f"which is {self.min_new_tokens}."
            )
        if self.no_repeat_ngram_size < 0:
            raise InvalidOptions(f"no_repeat_ngram_size is {self.no_repeat_ngram_size}; it must be 0 or more.")
        if self.formality is not None and self.formality not in get_args(Formality):
            raise InvalidOptions(f"formality is {self.formality!r}; it must be {' or '.join(get_args(Formality))}.")
        if self.glossary:
            self._check_glossary()
        if self.format not in get_args(TextFormat):
            raise InvalidOptions(f"format is {self.format!r}; it must be one of {', '.join(get_args(TextFormat))}.")
        self._check_markup()
        self._check_steering()
        if isinstance(self.protect, tuple):
            if "none" in self.protect:
                raise InvalidOptions("protect has 'none' among its patterns; 'none' stands alone.")
            if len(self.protect) > MAX_PATTERNS:
                raise InvalidOptions(f"protect has {len(self.protect)} patterns; it may have {MAX_PATTERNS}.")
            check_patterns(self.protect)
        elif self.protect not in ("auto", "none"):
            raise InvalidOptions(f"protect is {self.protect!r}; it must be 'auto', 'none' or a tuple of patterns.")

    def _check_markup(self) -> None:
        if self.ignore_tags and self.format == "text":
            raise InvalidOptions("ignore_tags needs format 'html' or 'xml'; the format is 'text'.")
        if len(self.ignore_tags) > MAX_TAGS:
            raise InvalidOptions(f"ignore_tags has {len(self.ignore_tags)} names; it may have {MAX_TAGS}.")

    def _check_steering(self) -> None:
        for name in self.steering:
            if self.format != "text":
                raise InvalidOptions(f"{name} needs format 'text'; the format is {self.format!r}.")
        if len(self.target_prefix) > MAX_PREFIX_CHARACTERS:
            raise InvalidOptions(
                f"target_prefix has {len(self.target_prefix)} characters; it may have {MAX_PREFIX_CHARACTERS}."
            )
        if self.target_prefix != self.target_prefix.strip():
            raise InvalidOptions("target_prefix has white space at its ends; leave it out, the model writes its own.")

    def _check_glossary(self) -> None:
        if len(self.glossary) > MAX_TERMS:
            raise InvalidOptions(f"glossary has {len(self.glossary)} terms; it may have {MAX_TERMS}.")
        for number, term in enumerate(self.glossary):
            for side, text in (("source", term.source), ("target", term.target)):
                if not 1 <= len(text) <= MAX_TERM_CHARACTERS or text != text.strip() or len(text.splitlines()) > 1:
                    raise InvalidOptions(
                        f"{side} of glossary term {number} is {text[:MAX_TERM_CHARACTERS]!r}; it must have 1 to "
                        f"{MAX_TERM_CHARACTERS} characters, no line break and no white space at its ends."
                    )

    def longest_answer(self, num_source_tokens: int, longest_target: int) -> int:
        """Tokens that may be chosen for a source: what was asked for or the default, and no more than the model can.

        Args:
            num_source_tokens: Tokens of the source sentence, markers included.
            longest_target: Tokens the model can produce behind forced ones and a prefix.
        """
        wanted = self.max_new_tokens or default_max_new_tokens(num_source_tokens, longest_target)
        return min(wanted, longest_target)

    @property
    def steering(self) -> tuple[str, ...]:
        """The names of the options in use that are for one text of a single sentence."""
        return tuple(name for name in STEERING_OPTIONS if getattr(self, name))

    @property
    def for_decoding(self) -> DecodingOptions:
        """The same options with the defaults of those that decoding ignores, so that equal sentences share work."""
        told = (
            *(self.formality, self.glossary, self.protect, self.format, self.ignore_tags, self.target_prefix),
            *(self.return_alignment, self.return_confidence),
        )
        if told == (None, (), "auto", "text", (), "", False, False):
            return self
        return replace(
            self,
            formality=None,
            glossary=(),
            protect="auto",
            format="text",
            ignore_tags=(),
            target_prefix="",
            return_alignment=False,
            return_confidence=False,
        )

    @property
    def width(self) -> int:
        """Rows one sentence takes while it decodes: the beam size, or 1 for greedy."""
        return self.beam_size if self.decoding == "beam" else 1


def default_max_new_tokens(num_source_tokens: int, longest_target: int) -> int:
    """How long an answer may get when the caller does not say: twice the source plus 20 tokens.

    A translation is rarely twice as long as its source; one that is has most likely started to loop, and the
    answer then says ``finish_reason: length`` instead of running to the model's end.

    Args:
        num_source_tokens: Tokens of the source sentence, markers included.
        longest_target: Tokens the model can produce at all.
    """
    return min(2 * num_source_tokens + 20, longest_target)


@dataclass(frozen=True)
class Candidate:
    """One more token for a hypothesis, which a step of a search considered.

    Args:
        id: Its number, counted from 1 over all steps of the sentence.
        parent: The number of the candidate it continues; 0 for the beginning: the forced tokens and the prefix.
        token_id: The token.
        log_prob: Sum of the log-probabilities of its tokens, this one included; those of the beginning count 0.
        kept: Whether the search went on with it, or it ended among the best. False: it was dropped.
        finished: Whether it ended here: by the closing token, or because it was cut.
    """

    id: int
    parent: int
    token_id: int
    log_prob: float
    kept: bool
    finished: bool


Search = tuple[tuple[Candidate, ...], ...]
"""The candidates of each step, those of a step best first. Greedy search considers one in each step."""


@dataclass(frozen=True)
class Hypothesis:
    """One answer of the decoder.

    Args:
        token_ids: Target tokens, those of a prefix included, without start and closing token.
        score: The sum of log-probabilities, closing token included, normalised by length
            (:mod:`model.decoding.scoring`); None unless scores were asked for.
        finish_reason: ``stop`` when the model closed the sentence, ``length`` when it was cut.
        alternatives: The second best and following hypotheses, best first; theirs are empty.
        search: How it and its alternatives were found; empty unless asked for, and for alternatives.
    """

    token_ids: list[int]
    score: float | None
    finish_reason: FinishReason
    alternatives: tuple[Hypothesis, ...] = ()
    search: Search = ()

    @classmethod
    def ranked(cls, answers: Sequence[Hypothesis], search: Search = ()) -> Hypothesis:
        """The best of several, the others behind it.

        Args:
            answers: At least one, best first, without alternatives of their own.
            search: How they were found, if asked for.
        """
        best, *others = answers
        return cls(best.token_ids, best.score, best.finish_reason, tuple(others), search)


Outcome = Hypothesis | Exception
"""What became of a sentence: its best hypothesis, or why it has none."""
