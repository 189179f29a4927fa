"""What the client sends again, when, and what never."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from tests.client.driving import Driver, Script, answer, problem
from verso_client import NO_RETRIES, ConnectionFailed, ProblemError, RetryPolicy, StreamBroken, TimedOut, VersoError
from verso_client.retries import Attempts, Repeatable, may_repeat

REFUSED = httpx.ConnectError("connection refused")
DOCUMENT = {
    "id": "d1",
    "status": "queued",
    "filename": "a.txt",
    "sentences": {"done": 0, "total": None},
    "seconds_left": None,
    "expires_at": "2030-01-01T00:00:00Z",
}

Do = Callable[[Any], Any]
TRANSLATE: Do = lambda client: client.translate("Hello.")  # noqa: E731
ATTENTION: Do = lambda client: client.attention("Hello.")  # noqa: E731
MODELS: Do = lambda client: client.models()  # noqa: E731
UPLOAD: Do = lambda client: client.upload_document(b"Hello.", "a.txt")  # noqa: E731

NOT_SENT = [REFUSED, httpx.ConnectTimeout("slow"), httpx.PoolTimeout("busy"), httpx.ProxyError("proxy")]
LOST = [httpx.ReadError("reset"), httpx.RemoteProtocolError("disconnected"), httpx.WriteError("broken pipe")]
TOO_SLOW = [httpx.ReadTimeout("slow"), httpx.WriteTimeout("slow")]


@pytest.mark.parametrize("error", NOT_SENT, ids=lambda error: type(error).__name__)
def test_every_request_that_was_not_sent_is_sent_again(error: Exception, driver: Driver) -> None:
    server = Script([error, answer()])
    assert driver.run(server, TRANSLATE).text == "Hallo."
    server = Script([error, httpx.Response(202, json=DOCUMENT)])
    assert driver.run(server, UPLOAD).id == "d1"
    assert len(server.requests) == 2


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_translation_is_repeated_if_the_connection_broke(error: Exception, driver: Driver) -> None:
    assert driver.run(Script([error, answer()]), TRANSLATE).text == "Hallo."


@pytest.mark.parametrize("error", TOO_SLOW, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", [TRANSLATE, ATTENTION, UPLOAD], ids=["translate", "attention", "upload"])
def test_work_that_takes_too_long_is_not_begun_twice(call: Do, error: Exception, driver: Driver) -> None:
    server = Script([error])
    with pytest.raises(TimedOut) as caught:
        driver.run(server, call)
    assert caught.value.sent
    assert (len(server.requests), driver.slept) == (1, [])


@pytest.mark.parametrize("error", [*LOST, *TOO_SLOW], ids=lambda error: type(error).__name__)
def test_a_document_whose_answer_is_lost_is_not_uploaded_again(error: Exception, driver: Driver) -> None:
    server = Script([error])
    with pytest.raises(ConnectionFailed):
        driver.run(server, UPLOAD)
    assert len(server.requests) == 1


def test_attempts_share_an_id_by_which_the_service_counts_them_once_and_calls_do_not(driver: Driver) -> None:
    server = Script([LOST[0], problem(503, "not_ready"), answer(), answer(), httpx.Response(200, json={"models": []})])
    for call in (TRANSLATE, TRANSLATE, MODELS):
        driver.run(server, call)
    ids = [request.headers.get("idempotency-key") for request in server.requests]
    assert ids[0] == ids[1] == ids[2] and ids[0]
    assert ids[3] not in (None, ids[0])
    assert ids[4] is None


def test_a_question_is_repeated_after_any_failure(driver: Driver) -> None:
    response = httpx.Response(200, json={"models": []})
    assert driver.run(Script([REFUSED, *LOST[:1], TOO_SLOW[0], response]), MODELS) == ()


@pytest.mark.parametrize(("status", "code"), [(429, "queue_full"), (503, "not_ready")])
def test_a_refusal_is_repeated_after_the_time_it_names(status: int, code: str, driver: Driver) -> None:
    server = Script([problem(status, code, Retry_After="7"), answer()])
    assert driver.run(server, TRANSLATE).text == "Hallo."
    (wait_s,) = driver.slept
    assert 7.0 <= wait_s <= 7.5

    server = Script([problem(status, code, Retry_After="7"), httpx.Response(202, json=DOCUMENT)])
    assert driver.run(server, UPLOAD).id == "d1"


def test_retry_after_may_be_a_date(driver: Driver) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    driver.run(Script([problem(503, "not_ready", Retry_After=date), answer()]), TRANSLATE)
    assert 30.0 < driver.slept[0] < 41.0


def test_an_upload_is_not_repeated_after_the_503_of_a_proxy(driver: Driver) -> None:
    """A proxy answers 503 also when it lost a service that had begun to work."""
    server = Script([httpx.Response(503, text="upstream connect error")])
    with pytest.raises(ProblemError) as caught:
        driver.run(server, UPLOAD)
    assert caught.value.code == "http_503"
    assert driver.run(Script([httpx.Response(503, text="upstream"), answer()]), TRANSLATE).text == "Hallo."


@pytest.mark.parametrize(
    ("status", "code"), [(422, "invalid_request"), (500, "inference_failed"), (502, "bad"), (504, "deadline_exceeded")]
)
def test_other_answers_are_final(status: int, code: str, driver: Driver) -> None:
    server = Script([problem(status, code, Retry_After="1")])
    with pytest.raises(ProblemError, match=f"{code} happened"):
        driver.run(server, TRANSLATE)
    assert driver.slept == []


def test_waits_double_and_are_jittered(driver: Driver) -> None:
    with pytest.raises(ConnectionFailed):
        driver.run(Script([REFUSED] * 4), TRANSLATE)
    assert len(driver.slept) == 3
    assert all(0.25 * 2**n <= wait_s <= 0.5 * 2**n for n, wait_s in enumerate(driver.slept))
    again = Driver(driver.flavour, {"rng": random.Random(8)})
    with pytest.raises(ConnectionFailed):
        again.run(Script([REFUSED] * 4), TRANSLATE)
    assert again.slept != driver.slept


def test_the_number_of_attempts_is_bounded(driver: Driver) -> None:
    driver.options["retries"] = NO_RETRIES
    server = Script([REFUSED])
    with pytest.raises(ConnectionFailed):
        driver.run(server, TRANSLATE)
    driver.options["retries"] = RetryPolicy(attempts=6, max_wait_s=1.0)
    with pytest.raises(ConnectionFailed):
        driver.run(Script([REFUSED] * 6), TRANSLATE)
    assert len(driver.slept) == 5
    assert max(driver.slept) <= 1.0


def test_the_total_time_is_bounded_and_a_wait_beyond_it_is_not_begun(driver: Driver) -> None:
    driver.options["retries"] = RetryPolicy(attempts=100, total_s=20.0)
    with pytest.raises(ProblemError):
        driver.run(Script([problem(503, "not_ready", Retry_After="9")] * 3), TRANSLATE)
    assert len(driver.slept) == 2
    assert driver.now <= 20.0

    patient = Driver(driver.flavour)
    with pytest.raises(ProblemError) as caught:
        patient.run(Script([problem(429, "queue_full", Retry_After="3600")]), TRANSLATE)
    assert patient.slept == []
    assert caught.value.retry_after_s == 3600.0


def test_the_time_of_the_attempts_counts() -> None:
    now = [0.0]
    attempts = Attempts(RetryPolicy(total_s=10.0), Repeatable.ALWAYS, lambda: now[0], random.Random(1))
    assert attempts.wait_after(TimedOut("slow", sent=True)) is not None
    now[0] = 9.9
    assert attempts.wait_after(TimedOut("slow", sent=True)) is None


def test_each_attempt_has_an_id_of_its_own_and_the_same_body(driver: Driver) -> None:
    server = Script([problem(503, "not_ready"), REFUSED, answer()])
    driver.run(server, TRANSLATE)
    assert len({request.headers["X-Request-ID"] for request in server.requests}) == 3
    assert len({request.content for request in server.requests}) == 1


@pytest.mark.parametrize("repeatable", Repeatable)
def test_a_broken_stream_and_a_foreign_error_are_never_repeated(repeatable: Repeatable) -> None:
    assert not may_repeat(StreamBroken("over"), repeatable)
    assert not may_repeat(VersoError("invalid_answer", "no JSON"), repeatable)
