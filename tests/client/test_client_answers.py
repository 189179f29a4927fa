"""What the client sends, and how it reads answers and errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.client.driving import ANSWER, TRANSLATION, Driver, Script, answer
from verso_client import (
    Client,
    Confidence,
    ConnectionFailed,
    FieldProblem,
    InvalidAnswer,
    ProblemError,
    TimedOut,
    Translation,
    VersoError,
)
from verso_client.errors import foreign_errors

ROOT = Path(__file__).resolve().parents[2]


def test_options_are_sent_as_they_are_given_and_no_others(driver: Driver) -> None:
    server = Script([answer()])
    terms = ({"source": "house", "target": "Gebäude"},)
    driver.run(server, lambda client: client.translate(("a", "b"), target="de", glossary=terms, source=None))
    assert server.body() == {"text": ["a", "b"], "target": "de", "glossary": list(terms)}
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://localhost/translate")
    assert request.headers["Accept"] == "application/json"


def test_headers_of_the_caller_are_sent(driver: Driver) -> None:
    server = Script([answer()])
    driver.options["headers"] = {"Authorization": "Bearer t", "X-Request-ID": "mine"}
    driver.run(server, lambda client: client.translate("a"))
    assert server.requests[0].headers["Authorization"] == "Bearer t"
    assert server.requests[0].headers["X-Request-ID"] == "mine"


def test_an_answer_becomes_dataclasses(driver: Driver) -> None:
    entry = TRANSLATION | {
        "score": -1,
        "alignment": [{"source": [0, 2], "target": [1, 3], "weight": 0.5}],
        "confidence": {"score": 0.5, "words": [{"target": [0, 5], "probability": 1}], "uncovered": None},
        "detected": {"language": "en", "confidence": 0.9},
        "a_field_of_a_later_version": 1,
    }
    result = driver.run(Script([answer(translations=[entry])]), lambda client: client.translate("Hello."))
    (translation,) = result.results
    assert isinstance(translation, Translation)
    assert translation.score == -1.0
    assert translation.alignment is not None
    assert translation.alignment[0].source == (0, 2)
    assert isinstance(translation.confidence, Confidence)
    assert translation.confidence.words[0].probability == 1.0
    assert (translation.integrity, translation.glossary) == (None, None)
    assert result.usage.source_tokens == 2
    assert result.timings_ms.decode == 1.0


def test_text_is_for_answers_with_one_text(driver: Driver) -> None:
    result = driver.run(Script([answer(translations=[TRANSLATION] * 2)]), lambda client: client.translate(["a", "b"]))
    assert result.texts == ["Hallo.", "Hallo."]
    with pytest.raises(ValueError, match="2 translations"):
        result.text  # noqa: B018 - it raises


def test_a_problem_becomes_an_exception_with_its_fields_and_the_id_of_the_request(driver: Driver) -> None:
    body = {
        "type": "about:blank",
        "title": "Invalid fields",
        "status": 422,
        "code": "invalid_request",
        "detail": "beam_size: too large",
        "errors": [{"field": "beam_size", "message": "at most 16", "value": 99, "bound": 16}],
    }
    server = Script([httpx.Response(422, json=body, headers={"X-Request-ID": "r1"})])
    with pytest.raises(ProblemError, match="beam_size: too large") as caught:
        driver.run(server, lambda client: client.translate("a", beam_size=99))
    error = caught.value
    assert (error.code, error.status, error.title) == ("invalid_request", 422, "Invalid fields")
    assert error.errors == (FieldProblem("beam_size", "at most 16", 99, 16),)
    assert error.request_id == "r1"


@pytest.mark.parametrize(
    ("response", "code", "words"),
    [
        (httpx.Response(502, html="<h1>Bad\nGateway</h1>"), "http_502", "<h1>Bad Gateway</h1>"),
        (httpx.Response(404, json={"detail": "Not Found"}), "http_404", "Not Found"),
        (httpx.Response(500), "http_500", "(empty)"),
        (httpx.Response(308, headers={"Location": "https://verso.test/"}), "http_308", "https://verso.test/"),
    ],
    ids=["proxy", "other service", "empty", "redirect"],
)
def test_errors_of_other_programs_are_problems_too(
    response: httpx.Response, code: str, words: str, driver: Driver
) -> None:
    with pytest.raises(ProblemError) as caught:
        driver.run(Script([response]), lambda client: client.translate("a"))
    assert (caught.value.code, caught.value.status) == (code, response.status_code)
    assert words in caught.value.detail
    assert not caught.value.from_service
    assert caught.value.request_id


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (httpx.Response(200, text="<html>"), "does not come from a Verso service"),
        (httpx.Response(200, json=[1]), "the answer is [1]"),
        (httpx.Response(200, json={"translations": []}), "lacks model, timings_ms, usage"),
        (httpx.Response(200, json=ANSWER | {"translations": {}}), "translations is {} and should be a list"),
        (answer(translations=[TRANSLATION | {"text": 5}]), "translations[0].text is 5 and should be str"),
        (answer(translations=[TRANSLATION | {"alignment": [{"source": [1]}]}]), "alignment[0] lacks target, weight"),
        (answer(usage={"source_tokens": True, "target_tokens": 1}), "usage.source_tokens is True and should be int"),
        (httpx.Response(200, content=b"\xff"), "does not come from a Verso service"),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_says_why(response: httpx.Response, words: str, driver: Driver) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        driver.run(Script([response]), lambda client: client.translate("a"))
    assert words in caught.value.detail
    assert (caught.value.code, caught.value.status) == ("invalid_answer", 200)
    assert caught.value.request_id


def test_errors_of_the_connection_have_what_problems_have(driver: Driver) -> None:
    server = Script([httpx.ConnectError("refused")] * 4)
    with pytest.raises(ConnectionFailed, match=r"http://localhost") as caught:
        driver.run(server, lambda client: client.translate("a"))
    error = caught.value
    assert (error.code, error.status, error.errors) == ("connection_failed", None, ())
    assert error.request_id == server.requests[-1].headers["X-Request-ID"]
    assert "refused" in error.detail


EXCEPTIONS = [
    kind
    for kind in vars(httpx).values()
    if isinstance(kind, type)
    and issubclass(kind, httpx.RequestError)
    and not kind.__subclasses__()
    and kind is not httpx.TooManyRedirects  # redirects are not followed
]


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_no_exception_of_httpx_leaves_the_client(kind: type[httpx.RequestError]) -> None:
    request = httpx.Request("GET", "http://localhost/models", headers={"X-Request-ID": "r1"})
    with pytest.raises(VersoError) as caught, foreign_errors(request):
        raise kind("broken")
    assert caught.value.request_id == "r1"
    assert isinstance(caught.value, TimedOut) == issubclass(kind, httpx.TimeoutException)
    assert isinstance(caught.value.__cause__, kind)


def test_arrays_without_numpy_are_refused_before_anything_is_sent(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    server = Script([])
    with pytest.raises(ImportError):
        driver.run(server, lambda client: client.attention_arrays("a"))
    assert server.requests == []


def test_arrays_that_are_none_are_an_invalid_answer(driver: Driver) -> None:
    with pytest.raises(InvalidAnswer, match="not a valid archive"):
        driver.run(Script([httpx.Response(200, content=b"PK")]), lambda client: client.attention_arrays("a"))


def test_detection_sends_the_beginning_and_reads_percent(driver: Driver) -> None:
    results = [{"language": "en", "confidence": 75.5}]
    nothing = [{"language": "en", "confidence": 0.0}]
    server = Script([httpx.Response(200, json=value) for value in (results, nothing, [])])
    detected = driver.run(server, lambda client: client.detect("Hello. " * 10_000))
    assert (detected.language, detected.confidence) == ("en", 0.755)
    assert server.requests[0].url.path == "/libretranslate/detect"
    assert server.body() == {"q": ("Hello. " * 10_000)[:4_000]}
    assert driver.run(server, lambda client: client.detect("!?")) is None
    assert driver.run(server, lambda client: client.detect("!?")) is None


@pytest.mark.parametrize(
    "url", ["localhost:8000", "", "ftp://verso.test", "http://", "http://localhost/?a=b", "http://verso.test:port"]
)
def test_an_address_that_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="address of the service"):
        Client(url)


def test_the_address_may_have_a_path(driver: Driver) -> None:
    server = Script([answer()])
    http = httpx.Client(transport=httpx.MockTransport(server))
    Client("http://localhost/mt/", http=http).translate("a")
    assert str(server.requests[0].url) == "http://localhost/mt/translate"


def test_timeouts_are_those_given_or_longer_than_the_deadline_of_the_service(driver: Driver) -> None:
    def timeouts(**options: Any) -> Any:
        server = Script([answer()])
        http = httpx.Client(transport=httpx.MockTransport(server), timeout=3.0)
        Client("http://localhost", http=http, **options).translate("a")
        return server.requests[0].extensions["timeout"]

    assert timeouts()["read"] == 3.0
    assert timeouts(timeout=9.0) == {"connect": 9.0, "read": 9.0, "write": 9.0, "pool": 9.0}
    assert timeouts(timeout=httpx.Timeout(1.0, read=8.0))["read"] == 8.0

    from app.settings import Settings

    with Client() as client:
        own = client._http.timeout
    assert own.read is not None
    assert own.read > Settings().deadline_s


def test_the_http_client_of_the_caller_is_left_open() -> None:
    with httpx.Client(transport=httpx.MockTransport(Script([answer()]))) as http:
        with Client("http://localhost", http=http) as client:
            client.translate("a")
        assert not http.is_closed
    with Client(http=None) as client:
        own = client._http
    assert own.is_closed


def test_the_package_imports_httpx_and_nothing_else_that_is_not_standard() -> None:
    code = (
        "import sys, verso_client\n"
        "unwanted = {'app', 'model', 'torch', 'numpy', 'tqdm', 'pydantic', 'fastapi'} & set(sys.modules)\n"
        "assert not unwanted, unwanted"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "client", check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
