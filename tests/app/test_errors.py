from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from app import errors
from app.errors import PROBLEMS, STARTUP_ONLY, problem_for
from model import errors as model_errors
from model.languages import LanguagePairs

PAIRS = LanguagePairs((("en", "de"),))


def leaves(kind: type[Exception]) -> set[type[Exception]]:
    """Classes without subclasses below ``kind``."""
    rooms = (errors.__name__, model_errors.__name__)
    below = [first for first in kind.__subclasses__() if first.__module__.startswith(rooms)]
    return {leaf for other in below for leaf in leaves(other)} if below else {kind}


def test_every_error_has_a_row_in_the_problem_table() -> None:
    raised = {*leaves(model_errors.ModelError), *leaves(errors.ServiceError)}
    assert raised - STARTUP_ONLY == PROBLEMS.keys()


def test_codes_are_unique_and_titles_short() -> None:
    codes = [row.code for row in PROBLEMS.values()]
    assert len(set(codes)) == len(codes)
    assert all(row.code == row.code.lower() and len(row.title) < 60 for row in PROBLEMS.values())


ERRORS: list[Exception] = [
    errors.QueueFull(7, 3, 9, 10),
    errors.DeadlineUnreachable(45, 30, 900, 16),
    errors.NotReady(5, "loading"),
    errors.DeadlineExceeded(30),
    errors.InferenceFailed(),
    errors.BodyTooLarge(10),
    errors.UnsupportedMediaType("text/html", ["application/json"]),
    errors.NotAcceptable("text/html", ["application/json", "image/png"]),
    errors.MalformedBody("no JSON at line 1"),
    errors.MalformedForm("no boundary"),
    errors.DocumentTooLarge(10),
    errors.UnsupportedDocument(".pdf", [".txt"]),
    errors.DocumentRefused("The file is damaged."),
    errors.DocumentTooComplex(),
    errors.DocumentsFull(10, 9),
    errors.StorageFull(),
    errors.StorageUnavailable(),
    errors.RequestTooSlow(30.0, 10_000),
    errors.BodiesTooLarge(1_000),
    errors.HostRefused("attacker.example"),
    errors.CrossSiteRefused(None),
    errors.KeyBehindBody(65_536),
    errors.DocumentNotFound("abc"),
    errors.DocumentsNotListed(),
    errors.DocumentNotDone("running"),
    errors.DocumentNotEditable(),
    errors.NotFound("/translat", ["/translate"]),
    errors.MethodNotAllowed("GET", "/translate"),
    errors.LanguageNotDetected(PAIRS),
    errors.DetectedPairNotServed("de", 0.97, "fr", PAIRS),
    errors.PairInTwoLegs(("fr", "en"), ("en", "de")),
    errors.Unauthorized(),
    errors.KeyRequired(),
    errors.InvalidKey("expired"),
    errors.ScopeMissing("documents", ["translate"]),
    errors.RateLimited(60, 0.5),
    errors.ConcurrencyExceeded(3, 9, 10),
    errors.QuotaExceeded(3, 9, 10, 60.0),
    errors.InvalidIdempotencyKey("It is too long."),
    errors.AccountsUnavailable(),
    errors.BundleNotFound("fr-en.pt", ["de-en.pt"]),
    errors.BundleOutside("../fr-en.pt"),
    errors.BundleRefused("fr-en.pt is damaged."),
    errors.ModelAlreadyLoaded("fr-en"),
    errors.UnknownModel("fr-en", ["de-en"]),
    errors.InvalidRequest([errors.FieldProblem("text", "is missing")]),
    errors.LimitExceeded("text", 200, 128, "texts"),
    errors.GlossaryNotFound("an-id"),
    errors.GlossaryPairMissing("en", "fr", [("en", "de")]),
    errors.GlossaryStoreFull("there may be 1000 glossaries"),
    errors.InvalidGlossary("Line 2 has no tab."),
    errors.MemoryNotFound("an-id"),
    errors.MemoryUnitNotFound(17),
    errors.MemoryStoreFull("the limit of 100 memories is reached"),
    errors.MemoryFileRefused("The file is not TMX."),
    errors.MemoryFileTooLarge(1_000),
    errors.ImportRunning(2),
    errors.InvalidParameter("Value for 'target_lang' not supported."),
    errors.KeyMissing(),
    model_errors.EmptySource(),
    model_errors.SourceTooLong(99, 50),
    model_errors.TargetTooLong(99, 50),
    errors.InvalidParameter("zz is not supported"),
    model_errors.SeveralSentences(3),
    model_errors.InvalidPrefix("target_prefix has 300 tokens and may have 255."),
    model_errors.UnsupportedPair("en", "fr", PAIRS),
    model_errors.UnsupportedFormality("formal", "en", ["de"]),
    model_errors.UnknownHead("cross", "head", 4, 4),
    model_errors.InvalidPattern("(a", "missing )"),
    model_errors.InvalidMarkup("mismatched tag", 1, 2),
    model_errors.MarkupNotKept("a tag is missing"),
    model_errors.InvalidOptions("beam_size is 0; it must be 1 to 64."),
    model_errors.DecodingError("NaN"),
]


def test_every_error_has_an_example() -> None:
    assert {type(error) for error in ERRORS} == PROBLEMS.keys()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_problem_has_the_members_of_rfc_9457(error: Exception) -> None:
    row, body = PROBLEMS[type(error)], problem_for(error).to_dict()
    assert (body["status"], body["code"], body["title"]) == (row.status, row.code, row.title)
    assert body["type"] == "about:blank"
    assert isinstance(body["detail"], str)
    assert "\n" not in body["detail"]
    assert 400 <= row.status < 600
    assert json.loads(json.dumps(body)) == body


def test_details_are_hidden_where_the_model_failed_and_nowhere_else() -> None:
    hidden = {kind for kind, row in PROBLEMS.items() if not row.show_detail}
    assert hidden == {kind for kind, row in PROBLEMS.items() if row.status == 500}
    assert hidden == {errors.InferenceFailed, model_errors.DecodingError, model_errors.MarkupNotKept}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_temporary_refusals_have_a_retry_after(error: Exception) -> None:
    waits: dict[type[Exception], float] = {
        errors.QueueFull: 7,
        errors.DeadlineUnreachable: 16,
        errors.NotReady: 5,
        errors.DocumentsFull: 9,
        errors.RateLimited: 0.5,
        errors.ConcurrencyExceeded: 1,
        errors.QuotaExceeded: 60,
        errors.AccountsUnavailable: 5,
        errors.StorageUnavailable: 30,
        errors.BodiesTooLarge: 2,
        errors.ImportRunning: 10,
    }
    assert problem_for(error).retry_after_s == waits.get(type(error))


def test_messages_contain_the_value_and_the_bound() -> None:
    assert all(number in str(errors.QueueFull(7, 3, 9, 10)) for number in ("7 s", "9 of 10 sentences", "has 3"))
    late = errors.DeadlineUnreachable(45.25, 30, 900, 16)
    assert all(number in str(late) for number in ("900 sentences", "45.2 s", "30.0 s", "16 s"))
    assert "try again" not in str(errors.DeadlineUnreachable(45, 30, 900, None))
    assert "30 s" in str(errors.DeadlineExceeded(30))
    assert "did you mean /translate?" in str(errors.NotFound("/translat", ["/translate"]))
    assert "/docs" in str(errors.NotFound("/x", []))
    assert len(str(errors.NotFound("/" + "x" * 10_000, []))) < 300


def test_only_a_missing_token_or_key_sends_a_challenge() -> None:
    challenging = {type(error) for error in ERRORS if problem_for(error).challenge is not None}
    assert challenging == {errors.Unauthorized, errors.KeyRequired, errors.KeyBehindBody, errors.InvalidKey}


@pytest.mark.parametrize(
    "error",
    [
        errors.QueueFull(7, 3, 9, 10),
        errors.DeadlineUnreachable(45, 30, 900, 16),
        errors.NotReady(5, "loading"),
        errors.LimitExceeded("text", 3, 2, "sentences"),
        errors.DetectedPairNotServed("en", 0.5, "fr", PAIRS),
        errors.InferenceFailed(),
        model_errors.EmptySource(),
        model_errors.SourceTooLong(99, 50),
        model_errors.UnsupportedPair("en", "fr", PAIRS),
        model_errors.InvalidMarkup("mismatched tag", 1, 2),
    ],
)
def test_errors_can_be_sent_to_other_processes(error: Exception) -> None:
    body = pickle.loads(pickle.dumps(error))
    assert type(body) is type(error)
    assert (problem_for(body), vars(body)) == (problem_for(error), vars(error))


def test_the_documentation_lists_every_code_with_its_status() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    rows = {(str(row.status), row.code, row.title) for row in errors.PROBLEMS.values()}
    assert listed == sorted(rows)
