"""Greedy and beam search compared with simple reference searches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from model.decoding.eager.beam import BeamSearch
from model.decoding.eager.filters import TokenFilter
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.options import Candidate, Decoding, DecodingOptions, Hypothesis, SearchTrace
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from model.errors import DecodingError
from model.network.transformer import Transformer
from tests.model.searches import PREFIXES, check_search, same_searches
from tests.model.slots import LONGEST_TARGET, drive, plain_cohort, ranked, requests
from tests.model.tiny import DECODERS, VOCABULARY, Poisoned, cohort, decode, log_probs, random_sources, tiny_transformer


def answer(transformer: Transformer, source: list[int], options: DecodingOptions) -> Hypothesis:
    hypothesis = decode(transformer, [source], options)[0].hypothesis
    assert hypothesis is not None
    return hypothesis


def may_come(token: int, tokens: list[int], longest: int, required_ids: tuple[int, ...]) -> bool:
    """Whether the rules of required tokens allow a token after others."""
    missing = [token_id for token_id in required_ids if token_id not in tokens]
    if token in required_ids:
        return token in missing
    if missing and (token == VOCABULARY.end_id or len(missing) == longest - len(tokens)):
        return False
    return token not in VOCABULARY.never_generated


def step_by_step(
    transformer: Transformer,
    source: list[int],
    longest: int,
    shortest: int = 0,
    required_ids: tuple[int, ...] = (),
    prefix: tuple[int, ...] = (),
) -> tuple[list[int], float]:
    """Greedy search without cache or batch: tokens and the sum of their log-probabilities."""
    tokens = list(prefix)
    total = 0.0
    longest, shortest = longest + len(prefix), shortest + len(prefix)
    while True:
        scores = log_probs(transformer, source, tokens)
        scores[
            [token for token in range(len(scores)) if not may_come(token, tokens, longest, required_ids)]
        ] = -math.inf
        if len(tokens) < shortest:
            scores[VOCABULARY.end_id] = -math.inf
        token = int(scores.argmax())
        total += float(scores[token])
        if token == VOCABULARY.end_id:
            return tokens, total
        tokens.append(token)
        if len(tokens) == longest:
            return tokens, total


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_greedy_is_the_most_probable_token_at_every_step(decoder: dict[str, Any]) -> None:
    transformer = tiny_transformer(**decoder)
    options = DecodingOptions(decoding="greedy", return_scores=True, max_new_tokens=12)
    for source in random_sources(8):
        expected, total = step_by_step(transformer, source, 12)
        translation = answer(transformer, source, options)
        assert translation.token_ids == expected
        finished = translation.finish_reason == "stop"
        assert translation.score == pytest.approx(total / (len(expected) + finished), abs=1e-5)
        assert finished == (len(expected) < 12)


def test_scores_are_absent_unless_requested() -> None:
    transformer = tiny_transformer()
    (source,) = random_sources(1)
    for decoding in (DecodingOptions(decoding="greedy"), DecodingOptions(num_hypotheses=2)):
        translation = answer(transformer, source, decoding)
        assert translation.score is None
        assert all(other.score is None for other in translation.alternatives)


def test_min_and_max_new_tokens_bound_the_output() -> None:
    transformer = tiny_transformer()
    for source in random_sources(5):
        for decoding in ("greedy", "beam"):
            options = DecodingOptions(decoding=decoding, min_new_tokens=7, max_new_tokens=9)
            translation = answer(transformer, source, options)
            assert 7 <= len(translation.token_ids) <= 9
            if decoding == "greedy":
                assert translation.token_ids == step_by_step(transformer, source, 9, 7)[0]


def beam_of_one(transformer: Transformer, source: list[int]) -> Hypothesis:
    """Beam search with one row; a cohort of width 1 would use greedy search."""
    alone = cohort(transformer, 1)
    token_filter = TokenFilter(VOCABULARY.never_generated, VOCABULARY.end_id, torch.device("cpu"))
    # Private: no public setting makes a cohort of width 1 search with a beam.
    alone._search = BeamSearch(token_filter, 2, 1, DecodingPolicy())
    finished = alone.join([DecodingRequest(0, source, DecodingOptions(beam_size=1, return_scores=True))])
    while not finished:
        finished = alone.step()
    assert finished[0].hypothesis is not None
    return finished[0].hypothesis


def test_a_beam_of_one_is_greedy() -> None:
    transformer = tiny_transformer()
    for source in random_sources(10):
        greedy = answer(transformer, source, DecodingOptions(decoding="greedy", return_scores=True))
        beam = beam_of_one(transformer, source)
        assert beam.token_ids == greedy.token_ids
        assert beam.score == pytest.approx(greedy.score, abs=1e-5)


def exhaustive(
    transformer: Transformer,
    source: list[int],
    vocabulary: list[int],
    longest: int,
    penalty: float,
    prefix: tuple[int, ...] = (),
) -> list[tuple[float, list[int]]]:
    """All possible outputs, best first: finished ones of up to ``longest`` tokens, and truncated ones."""
    scored: list[tuple[float, list[int]]] = []
    for length in range(longest + 1):
        for tokens in itertools.product(vocabulary, repeat=length):
            closing = [VOCABULARY.end_id] if length < longest else []
            total = sum(
                float(log_probs(transformer, source, [*prefix, *tokens[:position]])[token])
                for position, token in enumerate([*tokens, *closing])
            )
            scored.append((total / (len(prefix) + length + len(closing)) ** penalty, [*prefix, *tokens]))
    return sorted(scored, key=lambda entry: -entry[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("prefix", [(), (4,), (5, 3, 3)], ids=str)
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_sufficiently_wide_beam_is_exhaustive_search(penalty: float, prefix: tuple[int, ...]) -> None:
    transformer = tiny_transformer(vocab_size=6, sharpness=1.0)
    source = [4, 5, 3, 2]
    expected = exhaustive(transformer, source, [3, 4, 5], 3, penalty, prefix)
    options = DecodingOptions(
        beam_size=64, num_hypotheses=40, length_penalty=penalty, max_new_tokens=3, return_scores=True
    )
    hypotheses = ranked(drive(plain_cohort(transformer, 64), requests([source], options, prefix_ids=[prefix]))[0])
    assert len(hypotheses) == len(expected) == 40
    for hypothesis, (score, tokens) in zip(hypotheses, expected, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-5)
        assert hypothesis.token_ids == tokens
        assert hypothesis.finish_reason == ("length" if len(tokens) == len(prefix) + 3 else "stop")


def holding(entries: list[tuple[float, list[int]]], required_ids: tuple[int, ...]) -> list[tuple[float, list[int]]]:
    """The outputs that contain each required token once."""
    return [(score, tokens) for score, tokens in entries if all(tokens.count(token) == 1 for token in required_ids)]


@pytest.mark.parametrize("required_ids", [(5,), (5, 4), (3, 4, 5)])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_with_required_tokens_a_sufficiently_wide_beam_is_exhaustive_search(
    penalty: float, required_ids: tuple[int, ...]
) -> None:
    transformer = tiny_transformer(vocab_size=6, sharpness=1.0)
    source = [4, 5, 3, 2]
    expected = holding(exhaustive(transformer, source, [3, 4, 5], 3, penalty), required_ids)
    options = DecodingOptions(
        beam_size=64, num_hypotheses=len(expected), length_penalty=penalty, max_new_tokens=3, return_scores=True
    )
    never_otherwise = DecodingPolicy(forbidden=(*VOCABULARY.never_generated, *required_ids))
    inputs = requests([source], options, required_ids=[required_ids])
    hypotheses = ranked(drive(plain_cohort(transformer, 64, never_otherwise), inputs)[0])
    assert [hypothesis.token_ids for hypothesis in hypotheses] == [tokens for _, tokens in expected]
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-5)


def reference_beam(
    transformer: Transformer,
    source: list[int],
    width: int,
    penalty: float,
    longest: int,
    early: bool,
    required_ids: tuple[int, ...] = (),
    prefix: tuple[int, ...] = (),
) -> tuple[list[tuple[float, list[int]]], SearchTrace]:
    """Beam search over Python lists, with the rules of the module's docstring and without a cache."""
    running: list[tuple[float, list[int]]] = [(0.0, list(prefix))]
    end_event: list[tuple[float, list[int]]] = []
    search: list[tuple[Candidate, ...]] = []
    ids = {prefix: 0}  # of candidates by their tokens
    for length in range(len(prefix) + 1, len(prefix) + longest + 1):
        candidates: list[tuple[float, list[int], int]] = []
        for total, tokens in running:
            scores = log_probs(transformer, source, tokens)
            for token in range(len(scores)):
                if may_come(token, tokens, len(prefix) + longest, required_ids):
                    candidates.append((total + float(scores[token]), tokens, token))
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * width]
        last = length == len(prefix) + longest
        running = [(total, [*tokens, token]) for total, tokens, token in candidates if token != VOCABULARY.end_id]
        running = running[:width]
        for total, tokens, token in candidates[:width]:
            closed = token == VOCABULARY.end_id
            if closed or last:
                end_event.append((total / length**penalty, tokens if closed else [*tokens, token]))
        end_event = sorted(end_event, key=lambda entry: -entry[0])[:width]
        finished = last or (len(end_event) == width and (early or end_event[-1][0] >= running[0][0] / length**penalty))
        step = []
        for rank, (total, tokens, token) in enumerate(candidates):
            closed = token == VOCABULARY.end_id
            hypothesis = tokens if closed else [*tokens, token]
            if closed or last:
                stored = rank < width and (total / length**penalty, hypothesis) in end_event
            else:
                stored = not finished and (total, hypothesis) in running
            number = len(ids)
            step.append(Candidate(number, ids[tuple(tokens)], token, total, stored, closed or last))
            ids[*tokens, token] = number
        search.append(tuple(step))
        if finished:
            break
    return end_event, tuple(search)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("prefixes", [[()], PREFIXES], ids=["no prefix", "prefixes"])
@pytest.mark.parametrize(
    ("width", "penalty", "early"), [(2, 1.0, False), (4, 0.0, False), (4, 1.4, True), (5, 1.0, False)]
)
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_beams_and_their_searches_are_those_of_a_plain_implementation(
    width: int, penalty: float, early: bool, prefixes: list[tuple[int, ...]], decoder: dict[str, Any]
) -> None:
    transformer = tiny_transformer(sharpness=2.0, **decoder)
    options = DecodingOptions(
        beam_size=width,
        num_hypotheses=width,
        length_penalty=penalty,
        max_new_tokens=10,
        early_stopping=early,
        return_scores=True,
        return_search=True,
    )
    inputs = requests(random_sources(6, seed=width), options, prefix_ids=prefixes)
    outcomes = drive(plain_cohort(transformer, width), inputs)
    for request in inputs:
        expected, search = reference_beam(
            transformer, request.source_ids, width, penalty, 10, early, prefix=request.prefix_ids
        )
        hypotheses = ranked(outcomes[request.key])
        assert [hypothesis.token_ids for hypothesis in hypotheses] == [tokens for _, tokens in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            [score for score, _ in expected], abs=1e-5
        )
        same_searches(hypotheses[0].search, search, tolerance=1e-5)
        check_search(hypotheses[0], request, DecodingPolicy(), LONGEST_TARGET)


@pytest.mark.slow
def test_the_first_tokens_of_a_greedy_answer_as_its_prefix_do_not_change_it() -> None:
    transformer = tiny_transformer()
    for source in random_sources(8):
        expected, _ = step_by_step(transformer, source, 12)
        for number in range(len(expected)):
            options = DecodingOptions(
                decoding="greedy", return_scores=True, return_search=True, max_new_tokens=12 - number
            )
            prefix = tuple(expected[:number])
            (hypotheses,) = ranked(
                drive(plain_cohort(transformer, 1), requests([source], options, prefix_ids=[prefix]))[0]
            )
            assert hypotheses.token_ids == expected
            finished = len(expected) < 12
            assert hypotheses.finish_reason == ("stop" if finished else "length")
            chosen = [*expected[number:], *[VOCABULARY.end_id] * finished]
            total = sum(
                float(log_probs(transformer, source, [*prefix, *chosen[:position]])[token])
                for position, token in enumerate(chosen)
            )
            assert hypotheses.score == pytest.approx(total / (number + len(chosen)), abs=1e-5)
            steps = [candidate for step in hypotheses.search for candidate in step]
            assert [candidate.token_id for candidate in steps] == chosen
            assert steps[-1].log_prob == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_new_tokens_are_counted_behind_the_prefix(decoding: Decoding) -> None:
    options = DecodingOptions(decoding=decoding, min_new_tokens=5, max_new_tokens=6)
    inputs = requests(random_sources(12), options, prefix_ids=PREFIXES)
    for key, outcome in drive(plain_cohort(tiny_transformer(), options.width), inputs).items():
        for hypothesis in ranked(outcome):
            prefix = inputs[key].prefix_ids
            assert tuple(hypothesis.token_ids[: len(prefix)]) == prefix
            assert 5 <= len(hypothesis.token_ids) - len(prefix) <= 6


def test_an_answer_with_its_prefix_is_no_longer_than_the_model_can() -> None:
    group = plain_cohort(tiny_transformer(), 1, longest_target=20)
    options = DecodingOptions(decoding="greedy", min_new_tokens=15)
    merged = [DecodingRequest(0, [4, 5, 2], options, (3,), prefix_ids=(5,) * 9)]
    (hypotheses,) = ranked(drive(group, merged)[0])
    assert len(hypotheses.token_ids) == 20 - 1
    with pytest.raises(ValueError, match="20 tokens; the limit is 19"):
        group.join([DecodingRequest(1, [4, 2], options), DecodingRequest(2, [4, 2], options, (3,), (), (5,) * 19)])
    assert group.keys == []


def test_the_search_is_absent_unless_requested() -> None:
    for decoding in (DecodingOptions(decoding="greedy"), DecodingOptions(num_hypotheses=2)):
        translation = answer(tiny_transformer(), [4, 5, 2], decoding)
        assert all(hypothesis.search == () for hypothesis in (translation, *translation.alternatives))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("prefix", [(), (8, 5)], ids=str)
@pytest.mark.parametrize("required_ids", [(), (11,), (8, 11, 10)], ids=str)
@pytest.mark.parametrize("longest", [4, 12])
def test_required_tokens_are_placed_as_by_plain_implementations(
    longest: int, required_ids: tuple[int, ...], prefix: tuple[int, ...]
) -> None:
    transformer = tiny_transformer(sharpness=2.0)
    sources = random_sources(6, seed=longest)
    greedy = DecodingOptions(decoding="greedy", max_new_tokens=longest)
    outcomes = drive(
        plain_cohort(transformer, 1), requests(sources, greedy, required_ids=[required_ids], prefix_ids=[prefix])
    )
    for number, source in enumerate(sources):
        assert (
            ranked(outcomes[number])[0].token_ids
            == step_by_step(transformer, source, longest, 0, required_ids, prefix)[0]
        )
    beam = DecodingOptions(num_hypotheses=4, max_new_tokens=longest, return_scores=True)
    outcomes = drive(
        plain_cohort(transformer, 4), requests(sources, beam, required_ids=[required_ids], prefix_ids=[prefix])
    )
    for number, source in enumerate(sources):
        expected, _ = reference_beam(transformer, source, 4, 1.0, longest, False, required_ids, prefix)
        assert [hypothesis.token_ids for hypothesis in ranked(outcomes[number])] == [tokens for _, tokens in expected]
        assert [hypothesis.score for hypothesis in ranked(outcomes[number])] == pytest.approx(
            [s for s, _ in expected], abs=1e-5
        )


@pytest.mark.parametrize("width", [1, 3])
def test_a_sentence_whose_output_is_nan_fails_alone(width: int) -> None:
    transformer = tiny_transformer()
    sources = [[5, 6, 2], [9, 6, 2], [7, 2]]
    options = DecodingOptions(beam_size=width, max_new_tokens=8)
    model: object = Poisoned(transformer, bad=9)
    group = TorchCohort(
        TorchState(model, width, VOCABULARY.pad_id, torch.device("cpu")),  # type: ignore[arg-type]
        VOCABULARY,
        width,
        60,
        torch.device("cpu"),
    )
    finished = group.join([DecodingRequest(number, source, options) for number, source in enumerate(sources)])
    while group.num_sentences:
        finished += group.step()
    outcomes = {outcome.key: outcome for outcome in finished}
    assert isinstance(outcomes[1].error, DecodingError)
    expected = decode(transformer, sources, options)
    for number in (0, 2):
        assert outcomes[number].hypothesis == expected[number].hypothesis
