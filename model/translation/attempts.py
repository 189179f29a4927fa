"""The attempts at a sentence: which hypothesis of a decoding to take, and how to decode again what is not sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from model.decoding.options import Hypothesis
from model.decoding.repetition_guard import guarded
from model.decoding.sentence import DecodingRequest
from model.translation.options import TranslationOptions
from model.translation.reading import SentenceReader, SourceSentence
from model.translation.verification import Findings, Verifier

_NUM_OTHERS = 4
"""Hypotheses among which a sound one is chosen if the best is not."""

_MAX_PROTECTED = 2
"""How often more of a sentence is protected; a model that then lacks other parts will lack further ones."""


@dataclass(frozen=True)
class Attempt:
    """A decoding of a sentence.

    Args:
        sentence: The sentence as it was decoded.
        hypothesis: The answer.
        findings: What is wrong with it.
    """

    sentence: SourceSentence
    hypothesis: Hypothesis
    findings: Findings


def attempt_of(
    verifier: Verifier,
    sentence: SourceSentence,
    request: DecodingRequest,
    outcome: Hypothesis,
    options: TranslationOptions,
) -> Attempt:
    """A decoding with its best hypothesis, or the next one that is sound.

    Args:
        verifier: Verifies hypotheses.
        sentence: The sentence.
        request: Its request.
        outcome: The outcome of the request.
        options: The options of the text.
    """
    is_cut = outcome.finish_reason == "length"
    if is_cut and request.required_ids and request.options.max_new_tokens is None:
        # The end token waited for a placeholder that the model does not write.
        return Attempt(sentence, outcome, Findings(is_cut=True))
    verify = partial(
        verifier.verify,
        sentence,
        may_loop=options.no_repeat_ngram_size > 0,
        may_lack=request.required_ids != sentence.required_ids,
    )
    findings = verify(outcome)
    if not findings.severity and request.options.num_hypotheses == options.num_hypotheses:
        return Attempt(sentence, outcome, findings)
    answers = [replace(outcome, alternatives=(), search=()), *outcome.alternatives]
    for number, answer in enumerate(outcome.alternatives if findings.severity else (), start=1):
        if not (others := verify(answer)).severity:
            findings = others
            answers.insert(0, answers.pop(number))
            break
    return Attempt(sentence, Hypothesis.ranked(answers[: options.num_hypotheses], outcome.search), findings)


def next_request(
    reader: SentenceReader, request: DecodingRequest, attempts: Sequence[Attempt], num_hypotheses: int
) -> tuple[SourceSentence, DecodingRequest] | None:
    """How to decode a sentence again after its last attempt; None if nothing more may help.

    Args:
        reader: Encodes sentences.
        request: The request of the last attempt.
        attempts: The attempts so far, at least one.
        num_hypotheses: The number of hypotheses that the text has.
    """
    options = request.options
    sentence, findings = attempts[-1].sentence, attempts[-1].findings
    if findings.is_cut and len(attempts) == 1:
        return sentence, replace(request, required_ids=())  # alignment places what the model does not write
    if findings.loops and not options.no_repeat_ngram_size:
        return sentence, replace(request, options=guarded(options))
    if findings.is_unchanged:
        # Words beside a placeholder may be translated without it.
        return _encoded(request, reader.with_placed_spans(sentence)) if sentence.required_ids else None
    if sentence.prefix or not findings.severity:
        return None
    num_protected = len({len(attempt.sentence.protected) for attempt in attempts}) - 1
    if findings.numbers and num_protected < _MAX_PROTECTED:
        protected = reader.with_protected(sentence, findings.numbers)
        if protected is not None:
            return _encoded(request, protected)
    width = max(_NUM_OTHERS, options.width)
    if options.num_hypotheses == num_hypotheses < width:
        return sentence, replace(
            request, options=replace(options, decoding="beam", beam_size=width, num_hypotheses=width)
        )
    if findings.signs and num_protected < _MAX_PROTECTED:
        # The model reads no signs, and alignment places them.
        protected = reader.with_protected(sentence, findings.signs)
        placed = None if protected is None else reader.with_placed_spans(protected)
        return None if placed is None or placed.token_ids == sentence.token_ids else _encoded(request, placed)
    return None


def _encoded(request: DecodingRequest, sentence: SourceSentence) -> tuple[SourceSentence, DecodingRequest]:
    """A sentence that was encoded again, with its request."""
    return sentence, replace(request, source_ids=sentence.token_ids, required_ids=sentence.required_ids)
