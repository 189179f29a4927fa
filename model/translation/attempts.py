"""The attempts at a sentence: which hypothesis of a decoding to take, and how to decode again what is not sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from model.decoding.options import Hypothesis
from model.decoding.repetition_guard import guarded
from model.decoding.sentence import DecodingRequest
from model.text.segmentation import stripped
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
    """A decoding with its best hypothesis, or the next one that is sound; alternatives that are worse are left out.

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
    if not findings.severity and options.num_hypotheses == 1:
        return Attempt(sentence, outcome, findings)
    answers = [(replace(outcome, alternatives=(), search=()), findings)]
    for answer in outcome.alternatives:
        answers.append((answer, verify(answer)))
        if not answers[-1][1].severity and options.num_hypotheses == 1:
            break
    answers.sort(key=lambda answer: answer[1].severity > 0)
    findings = answers[0][1]
    sound = [answer for answer, others in answers if others.severity <= findings.severity]
    return Attempt(sentence, Hypothesis.ranked(sound[: options.num_hypotheses], outcome.search), findings)


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
        protected = reader.with_numbers(sentence, findings.numbers)
        if protected is not None:
            return _encoded(request, protected)
    width = max(_NUM_OTHERS, options.width)
    if options.num_hypotheses == num_hypotheses < width:
        return sentence, replace(
            request, options=replace(options, decoding="beam", beam_size=width, num_hypotheses=width)
        )
    signs = findings.signs or findings.loose
    if signs and num_protected < _MAX_PROTECTED:
        # The model reads no signs, and alignment places them.
        protected = reader.with_protected(sentence, signs)
        if protected is not None and (sentence.required_ids or protected.protected != sentence.protected):
            return _encoded(request, reader.with_placed_spans(protected))
    if findings.is_broken and len(sentence.numbers) == len(sentence.protected) == len(sentence.required_ids) == 1:
        return _encoded(request, reader.with_placed_spans(sentence))  # alignment places the number
    return None


def _encoded(request: DecodingRequest, sentence: SourceSentence) -> tuple[SourceSentence, DecodingRequest]:
    """A sentence that was encoded again, with its request."""
    return sentence, replace(request, source_ids=sentence.token_ids, required_ids=sentence.required_ids)


class Pieces:
    """A sentence that is decoded piece by piece, between its placeholders, one after the other.

    Args:
        reader: Encodes its pieces.
        sentence: The sentence; all of its protected spans have placeholders.
        request: A request for it.
        options: The options of the text.

    Attributes:
        sentence: The sentence.
        request: The next request; None once all pieces are decoded.
    """

    def __init__(
        self, reader: SentenceReader, sentence: SourceSentence, request: DecodingRequest, options: TranslationOptions
    ) -> None:
        self.sentence = sentence
        self._tokenizer = reader.tokenizer
        self._token_ids: list[int] = []
        edges = [0, *(index for span in sentence.protected for index in span), len(sentence.text)]
        pieces = [stripped(sentence.text, start, end) for start, end in zip(edges[::2], edges[1::2], strict=True)]
        self._required_ids = iter(sentence.required_ids)
        self._pieces = (
            reader.read(sentence.text, *piece, (), options, sentence.pair, sentence.edits) for piece in pieces
        )
        self._whole = replace(request, required_ids=(), options=options.for_decoding)
        self.request = self._next()

    def add(self, answer: Hypothesis) -> None:
        """Add the answer to the request.

        Args:
            answer: The answer.
        """
        self._token_ids += [*answer.token_ids, *islice(self._required_ids, 1)]
        self.request = self._next()

    @property
    def hypothesis(self) -> Hypothesis:
        """The translation of the sentence, without a score of its own."""
        return Hypothesis(self._token_ids, None, "stop")

    def _next(self) -> DecodingRequest | None:
        for piece in self._pieces:
            if any(map(str.isalpha, piece.text)):
                return replace(self._whole, source_ids=piece.token_ids)
            written = self._tokenizer.encode_target(piece.text)[:-1] if piece.text else []
            self._token_ids += [*written, *islice(self._required_ids, 1)]
        return None


def pieces_of(
    reader: SentenceReader, request: DecodingRequest, attempts: Sequence[Attempt], options: TranslationOptions
) -> Pieces | None:
    """The pieces of a sentence for which nothing holds; None if it has no placeholders or is not broken.

    Args:
        reader: Encodes sentences.
        request: The request of the last attempt.
        attempts: The attempts so far.
        options: The options of the text.
    """
    whole = [attempt.sentence for attempt in attempts if attempt.sentence.required_ids]
    is_broken = all(attempt.findings.is_broken for attempt in attempts)
    if not whole or not is_broken or options.steering or len(whole[-1].required_ids) < len(whole[-1].protected):
        return None
    pieces = Pieces(reader, whole[-1], request, options)
    return pieces if pieces.request else None
