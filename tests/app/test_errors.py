from __future__ import annotations

import pytest

from app import errors
from app.errors import PROBLEMS, STARTUP_ONLY, problem_for
from model import errors as model_errors


def leaves(kind: type[Exception]) -> set[type[Exception]]:
    """Classes without subclasses below ``kind``."""
    below = kind.__subclasses__()
    return {leaf for other in below for leaf in leaves(other)} if below else {kind}


def test_every_error_has_a_row_in_the_problem_table() -> None:
    raised = {*leaves(model_errors.ModelError), *leaves(errors.ServiceError)}
    assert raised - STARTUP_ONLY == PROBLEMS.keys()


def test_codes_are_unique_and_titles_short() -> None:
    codes = [row.code for row in PROBLEMS.values()]
    assert len(set(codes)) == len(codes)
    assert all(row.code == row.code.lower() and len(row.title) < 60 for row in PROBLEMS.values())


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.QueueFull(7, 3, 9, 10), 429, "queue_full"),
        (errors.NotReady(5, "loading"), 503, "not_ready"),
        (errors.DeadlineExceeded(30), 504, "deadline_exceeded"),
        (model_errors.SourceTooLong(99, 50), 422, "source_too_long"),
        (model_errors.UnsupportedPair("en", "fr", [("en", "de")]), 422, "unsupported_pair"),
        (errors.BodyTooLarge(10), 413, "body_too_large"),
    ],
)
def test_a_problem_says_what_happened_and_what_to_do(error: Exception, status: int, code: str) -> None:
    problem = problem_for(error)
    assert (problem.status, problem.code) == (status, code)
    assert problem.to_dict()["detail"] == str(error)
    assert problem.retry_after_s == getattr(error, "retry_after_s", None)


@pytest.mark.parametrize(
    "error",
    [
        errors.InferenceFailed(),
        model_errors.DecodingError("secret"),
        ValueError("secret"),
        model_errors.DataError("secret"),
    ],
)
def test_details_of_failures_inside_stay_inside(error: Exception) -> None:
    problem = problem_for(error)
    assert problem.status == 500
    assert problem.detail is None
    assert "secret" not in str(problem.to_dict())


def test_wrong_fields_are_listed() -> None:
    problem = problem_for(errors.LimitExceeded("text[2]", 70, 60, "characters of one text"))
    (listed,) = problem.to_dict()["errors"]
    assert (listed["field"], listed["value"], listed["bound"]) == ("text[2]", 70, 60)
    assert "60" in listed["message"]
