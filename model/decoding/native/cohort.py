"""A cohort in the compiled library, where one call takes steps and chooses tokens."""

from __future__ import annotations

import array
import ctypes
import functools
import itertools
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple

import torch

from model.decoding.native.library import Request, Rule, TracedCandidate, check
from model.decoding.native.packed import NativeModel
from model.decoding.options import Hypothesis, SearchTrace
from model.decoding.policy import DecodingPolicy
from model.decoding.scoring import ScoringRule
from model.decoding.search import NO_TOKEN, Considered, TraceRecorder
from model.decoding.sentence import DecodingRequest, Finished, Sentence
from model.errors import DecodingError
from model.text.tokenizer import Tokenizer

STEP_S = 0.002
"""The duration of a call in seconds: long, as calls have a cost, and short, as new sentences wait for its end."""

_LARGEST = 2**31 - 1
"""The largest number of the library; ctypes would truncate a larger one. No sentence has that many tokens."""

_DOUBLE_BYTES = ctypes.sizeof(ctypes.c_double)
_CANDIDATE_BYTES = ctypes.sizeof(TracedCandidate)


class NativeCohort:
    """See :class:`model.decoding.cohort.Cohort`.

    Args:
        model: The packed model.
        vocabulary: Special tokens.
        width: Rows of each sentence.
        longest_target: The most tokens that the model can produce, forced ones and a prefix included.
        policy: The model's decoding policy.

    Raises:
        IndexError: The model does not have the closing token.
        MemoryError: There is no memory for it.
    """

    def __init__(
        self, model: NativeModel, vocabulary: Tokenizer, width: int, longest_target: int, policy: DecodingPolicy
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._width = width
        self._longest_target = longest_target
        self._policy = policy
        self._sentences: dict[int, DecodingRequest] = {}
        if not 0 <= vocabulary.end_id < model.vocab_size:
            raise IndexError(f"The closing token is {vocabulary.end_id}, and the model has {model.vocab_size} tokens.")
        # The library would read the logit of a token that the model does not have.
        suppressed = set(policy.suppressed_ids(vocabulary.never_generated))
        never = sorted(suppressed.intersection(range(model.vocab_size)))
        handle = model.library.verso_cohort(
            model.handle,
            width,
            vocabulary.end_id,
            int(policy.renormalise),
            (ctypes.c_int32 * len(never))(*never),
            len(never),
        )
        if not handle:
            raise MemoryError("There is no memory for a cohort.")
        self._handle = handle
        # Not at exit: a thread that hangs may use it until the process is gone.
        weakref.finalize(self, _free, model, handle).atexit = False

    @property
    def width(self) -> int:
        """Rows of each sentence."""
        return self._width

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now."""
        return len(self._sentences)

    @property
    def num_rows(self) -> int:
        """Rows of these sentences."""
        return len(self._sentences) * self._width

    @property
    def keys(self) -> list[int]:
        """The sentences' keys, in the order they joined."""
        return list(self._sentences)

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included."""
        return max((len(request.source_ids) for request in self._sentences.values()), default=0)

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Add sentences; they are encoded at the next step.

        Raises:
            IndexError: A token or a length is out of the model's range; no sentence was added.
            ValueError: Forced tokens and prefix of a sentence leave no room for another token; no sentence was added.
        """
        if requests:
            tokens = array.array("i")
            for request in requests:
                tokens.extend(request.source_ids)
                tokens.append(self._vocabulary.start_id)
                tokens.extend(request.given_ids)
                tokens.extend(request.required_ids)
            native_requests = (Request * len(requests))(*map(self._native_request, requests))
            address, _ = tokens.buffer_info()
            check(self._model.library.verso_join(self._handle, native_requests, len(requests), address))
            self._sentences.update((request.key, request) for request in requests)
        return []

    def step(self) -> list[Finished]:
        """Take at least one step with all sentences, and more until :data:`STEP_S` have passed."""
        if not self._sentences:
            return []
        outcomes, scores, candidates = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        length = ctypes.c_int32()
        check(
            self._model.library.verso_run(
                self._handle,
                STEP_S,
                torch.get_num_threads(),
                ctypes.byref(outcomes),
                ctypes.byref(length),
                ctypes.byref(scores),
                ctypes.byref(candidates),
            )
        )
        if not length.value:
            return []
        assert outcomes.value is not None
        numbers = (ctypes.c_int32 * length.value).from_address(outcomes.value)[:]
        return list(self._read(numbers, scores.value, candidates.value))

    def leave(self, keys: Collection[int]) -> None:
        """Drop cancelled sentences; unknown keys are ignored."""
        leaving = [key for key in keys if self._sentences.pop(key, None) is not None]
        if leaving:
            check(
                self._model.library.verso_leave(self._handle, (ctypes.c_int64 * len(leaving))(*leaving), len(leaving))
            )

    def _native_request(self, request: DecodingRequest) -> Request:
        sentence = Sentence.of(request, self._policy, self._longest_target)
        options = sentence.options
        return Request(
            sentence.key,
            _native_rule(sentence.rule),
            sentence.num_source_tokens,
            sentence.num_forced,
            sentence.num_prefix,
            len(request.required_ids),
            min(options.min_new_tokens, _LARGEST),
            sentence.max_new_tokens,
            min(options.no_repeat_ngram_size, _LARGEST),
            options.num_hypotheses,
            options.return_scores,
            options.return_search,
        )

    def _read(self, numbers: Sequence[int], scores: int | None, candidates: int | None) -> Iterator[Finished]:
        """Sentences that finished, from the encoding that cohort.h describes."""
        position = num_scores = num_candidates = 0  # read so far
        while position < len(numbers):
            low, high, num_hypotheses = numbers[position : position + 3]
            position += 3
            key = (high << 32) | (low & 0xFFFFFFFF)
            request = self._sentences.pop(key)
            if not num_hypotheses:
                yield Finished(key, None, DecodingError(NO_TOKEN))
                continue
            answers = []
            for _ in range(num_hypotheses):
                cut, num_tokens = numbers[position : position + 2]
                position += 2
                score = None
                if request.options.return_scores:
                    assert scores is not None
                    score = ctypes.c_double.from_address(scores + _DOUBLE_BYTES * num_scores).value
                num_scores += 1
                tokens = numbers[position : position + num_tokens]
                position += num_tokens
                answers.append(Hypothesis(list(tokens), score, "length" if cut else "stop"))
            search: SearchTrace = ()
            if request.options.return_search:
                assert candidates is not None
                search = _search(candidates + _CANDIDATE_BYTES * num_candidates, numbers[position])
                num_candidates += numbers[position]
                position += 1
            yield Finished(key, Hypothesis.ranked(answers, search))


@functools.lru_cache(maxsize=256)  # callers use few rules, and astuple takes as long as the rest of a sentence
def _native_rule(rule: ScoringRule) -> Rule:
    return Rule(*astuple(rule))


def _search(address: int, number: int) -> SearchTrace:
    """The search with this many candidates at an address."""
    trace = TraceRecorder()
    for _, step in itertools.groupby((TracedCandidate * number).from_address(address), key=lambda traced: traced.step):
        trace.add(
            Considered(traced.token, traced.log_prob, traced.row, bool(traced.kept), bool(traced.finished))
            for traced in step
        )
    return trace.search


def _free(model: NativeModel, handle: int) -> None:
    """Free a cohort. The model is an argument so that it outlives the cohort, which reads it."""
    model.library.verso_cohort_free(handle)
