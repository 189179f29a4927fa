"""Recorded searches: whether two are the same, and whether one explains its answers."""

from __future__ import annotations

import pytest

from model.decoding.options import Candidate, Hypothesis, SearchTrace
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest, Sentence
from tests.model.tiny import VOCABULARY

PREFIXES: list[tuple[int, ...]] = [(), (5,), (), (9, 4, 6, 4), (6, 7), (3, 4, 5, 3, 4, 6, 3, 4, 7, 3, 4, 8, 3, 4)]
"""Prefixes of sentences, in turn. The last one ends with tokens that are followed by four others before."""


def paths(search: SearchTrace) -> list[dict[tuple[int, ...], Candidate]]:
    """The candidates of each step by their chosen tokens."""
    by_id: dict[int, tuple[int, ...]] = {0: ()}
    steps = []
    for step in search:
        by_id |= {candidate.id: (*by_id[candidate.parent], candidate.token_id) for candidate in step}
        steps.append({by_id[candidate.id]: candidate for candidate in step})
    return steps


def same_searches(actual: SearchTrace, expected: SearchTrace, tolerance: float = 1e-4) -> None:
    """Both have the same candidates; the order of equally probable ones may differ."""
    assert len(actual) == len(expected)
    for ours, theirs in zip(paths(actual), paths(expected), strict=True):
        assert ours.keys() == theirs.keys()
        for path, candidate in ours.items():
            assert (candidate.kept, candidate.finished) == (theirs[path].kept, theirs[path].finished)
            assert candidate.log_prob == pytest.approx(theirs[path].log_prob, abs=tolerance)


def check_search(hypothesis: Hypothesis, request: DecodingRequest, policy: DecodingPolicy, longest_target: int) -> None:
    """The search is consistent, and its best candidates are the hypothesis and its alternatives."""
    answers = [hypothesis, *hypothesis.alternatives]
    if not request.options.return_search:
        assert all(answer.search == () for answer in answers)
        return
    assert all(alternative.search == () for alternative in hypothesis.alternatives)
    _check_steps(hypothesis.search, request.options.width)
    rule = Sentence.of(request, policy, longest_target).rule
    scored = [
        (rule.score(candidate.log_prob, len(request.given_ids) + len(path)), path)
        for step in paths(hypothesis.search)
        for path, candidate in step.items()
        if candidate.finished and candidate.kept
    ]
    best = sorted(scored, key=lambda entry: -entry[0])[: request.options.num_hypotheses]
    assert len(answers) == len(best)
    for answer, (score, path) in zip(answers, best, strict=True):
        if answer.score is not None:
            assert answer.score == pytest.approx(score, abs=1e-5)
        chosen = path[:-1] if path[-1] == VOCABULARY.end_id else path
        assert answer.token_ids == [*request.prefix_ids, *chosen]


def _check_steps(search: SearchTrace, width: int) -> None:
    """Candidates are numbered, continue rows of the step before, and become less probable."""
    candidates = [candidate for step in search for candidate in step]
    assert [candidate.id for candidate in candidates] == list(range(1, len(candidates) + 1))
    log_probs = {0: 0.0}
    running = {0}
    for step in search:
        assert len(step) <= (2 * width if width > 1 else 1)
        assert [candidate.log_prob for candidate in step] == sorted(
            (candidate.log_prob for candidate in step), reverse=True
        )
        for candidate in step:
            assert candidate.parent in running
            assert candidate.log_prob <= log_probs[candidate.parent] + 1e-5
            log_probs[candidate.id] = candidate.log_prob
        running = {candidate.id for candidate in step if candidate.kept and not candidate.finished}
        assert len(running) <= width
    assert not running, "the last step leaves nothing that runs"
