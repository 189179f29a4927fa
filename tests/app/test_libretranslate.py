"""LibreTranslate's protocol: what each route answers, and its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.documents.formats.table import FORMATS
from app.errors import (
    PROBLEMS,
    DeadlineExceeded,
    DetectedPairNotServed,
    InferenceFailed,
    LanguageNotDetected,
    LimitExceeded,
    NotReady,
    Problem,
    QueueFull,
)
from app.http.compat.libretranslate.errors import error_shape
from app.http.compat.libretranslate.languages import describe_languages, find_language, wire_code
from app.serving.detection import Detection
from model.languages import LanguagePairs
from tests.app.accounts.keyed import make_key, serving
from tests.app.serving import RoteService, client_of, rote_app
from tests.app.wire import fake_app

pytestmark = pytest.mark.anyio

TRANSLATE = "/libretranslate/translate"
PATHS = {
    "POST": ["/translate", "/detect", "/suggest", "/translate_file", "/"],
    "GET": ["/languages", "/frontend/settings", "/health", "/spec", "/download_file/a.txt", "/"],
}
ONE = {"q": "good morning", "source": "en", "target": "de"}
PAIRS = LanguagePairs((("en", "de"), ("de", "en")))
JSON_TYPE = {"content-type": "application/json"}
FORM_TYPE = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def client(service: RoteService) -> AsyncIterator[httpx.AsyncClient]:
    limits = {"max_texts": 3, "max_text_characters": 40, "max_body_bytes": 5_000, "max_hypotheses": 5}
    async with client_of(rote_app(service, **limits)) as client:
        yield client


@asynccontextmanager
async def running(*pairs: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the whole application with a translator into upper case; it is not ready yet, and routes wait."""
    app = fake_app(*pairs)
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


async def post(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post(TRANSLATE, json={**ONE, **fields})


async def test_a_text_and_a_list_are_answered_in_their_form(client: httpx.AsyncClient) -> None:
    assert (await post(client)).json() == {"translatedText": "GOOD MORNING"}
    assert (await post(client, q=["a", "", "b\r\nc"])).json() == {"translatedText": ["A", "", "B\r\nC"]}


@pytest.mark.parametrize("form", ["json", "data", "params", "files"])
async def test_fields_are_read_from_json_forms_and_the_query(client: httpx.AsyncClient, form: str) -> None:
    fields: dict[str, Any] = {**ONE, "q": "schöne\r\ngrüße & 😀\r", "alternatives": "1", "api_key": "k"}
    if form == "json":
        fields["alternatives"] = 1
    parts = {name: (None, value) for name, value in fields.items()} if form == "files" else fields
    arguments: dict[str, Any] = {form: parts}
    body = (await client.post(TRANSLATE, **arguments)).json()
    text = "SCHÖNE\r\nGRÜSSE & 😀\r" if form == "json" else "SCHÖNE\nGRÜSSE & 😀\n"
    assert body["translatedText"] == text
    assert len(body["alternatives"]) == 1


async def test_every_request_waits_for_room_instead_of_being_refused(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    await post(client)
    assert service.waits == [True]


async def test_html_is_translated_as_html_and_text_as_text(client: httpx.AsyncClient, service: RoteService) -> None:
    for fields in ({}, {"format": None}, {"format": ""}, {"format": "html"}):
        assert (await post(client, **fields)).status_code == 200
    assert [call["options"].format for call in service.calls] == ["text", "text", "text", "html"]


async def test_alternatives_are_further_hypotheses_and_widen_the_beam_only_if_they_must(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    assert (await post(client, alternatives=2)).json()["alternatives"] == ["good morning 1", "good morning 2"]
    assert (await post(client, alternatives=4, q=["a"])).json()["alternatives"] == [["a 1", "a 2", "a 3", "a 4"]]
    assert [(call["options"].num_hypotheses, call["options"].beam_size) for call in service.calls] == [(3, 4), (5, 5)]
    for none in (0, "0", -3, None, ""):
        assert "alternatives" not in (await post(client, alternatives=none)).json()


async def test_alternatives_are_different_from_the_best_and_from_each_other() -> None:
    async with running() as client:
        body = (await post(client, alternatives=3)).json()
    assert (body["translatedText"], body["alternatives"]) == ("GOOD MORNING", [])  # its hypotheses are all the same


async def test_a_narrow_beam_of_the_operator_is_kept() -> None:
    service = RoteService()
    async with client_of(rote_app(service, max_beam_size=2, max_hypotheses=2)) as client:
        assert (await post(client, alternatives=1)).status_code == 200
        assert (await post(client, alternatives=2)).status_code == 400
    assert service.calls[0]["options"].beam_size == 2


async def test_detected_languages_come_with_auto_only(client: httpx.AsyncClient, service: RoteService) -> None:
    service.detected = Detection("en", 0.9123, ("en",))
    english = {"confidence": 91.23, "language": "en"}
    assert (await post(client, source="auto")).json()["detectedLanguage"] == english
    assert (await post(client, source="AUTO", q=["a", "b"])).json()["detectedLanguage"] == [english, english]
    assert service.calls[-1]["source"] == "auto"
    assert "detectedLanguage" not in (await post(client)).json()


async def test_a_text_whose_language_is_unknown_comes_back_unchanged(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    service.errors["Привет"] = LanguageNotDetected(PAIRS)
    body = (await post(client, source="auto", q=["Привет", "a"])).json()
    assert body["translatedText"] == ["Привет", "A"]
    assert body["detectedLanguage"][0] == {"confidence": 0.0, "language": "en"}


@pytest.mark.parametrize("text", ["😀🎉", " \n", "123 + 4"])
async def test_a_text_without_letters_comes_back_unchanged_with_confidence_0(text: str) -> None:
    async with running() as client:
        body = (await post(client, q=text, source="auto")).json()
        nothing = (await client.post("/libretranslate/detect", json={"q": text})).json()
    assert body == {"translatedText": text, "detectedLanguage": {"confidence": 0.0, "language": "en"}}
    assert nothing == [{"confidence": 0.0, "language": "en"}]


@pytest.mark.parametrize("target", ["en", "EN", "en-US"])
async def test_a_text_in_the_target_language_comes_back_unchanged(
    client: httpx.AsyncClient, service: RoteService, target: str
) -> None:
    assert (await post(client, target=target, alternatives=1)).json() == {
        "translatedText": "good morning",
        "alternatives": [],
    }
    assert service.calls == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "auto"}, "auto is not supported"),
        ({"target": "x" * 2_000}, "x" * 100 + " is not supported"),
        ({"source": ["en"]}, "Invalid request: source parameter is not a string"),
        ({"format": "xml"}, "xml format is not supported"),
        ({"format": 7}, "7 format is not supported"),
        ({"q": 7}, "Invalid request: q parameter is not a string or a list of strings"),
        ({"q": ["a", None]}, "Invalid request: q parameter is not a string or a list of strings"),
        ({"q": "a\0b"}, "Invalid request: q parameter contains the NUL character"),
        ({"q": "x" * 41}, "Invalid request: request (41) exceeds text limit (40)"),
        ({"q": ["a"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
        ({"alternatives": 5}, "Invalid request: alternatives parameter must be <= 4"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 1.5}, "Invalid request: alternatives parameter is not a number"),
    ],
)
async def test_wrong_fields_are_refused_with_the_words_of_libretranslate(
    client: httpx.AsyncClient, service: RoteService, fields: dict[str, Any], message: str
) -> None:
    response = await post(client, **fields)
    assert (response.status_code, response.json()) == (400, {"error": message})
    assert service.calls == []


async def test_a_pair_that_is_not_loaded_is_refused_with_both_names() -> None:
    async with running("en-de", "en-pt-BR") as client:
        named = await post(client, source="de", target="pb")
        detected = await post(client, q="Guten Morgen, wie geht es dir heute?", source="auto", target="pt-BR")
        only_a_source = await post(client, source="auto", target="en")
    message = "Portuguese (Brazil) (pt-BR) is not available as a target language from German (de)"
    assert [(item.status_code, item.json()) for item in (named, detected)] == [(400, {"error": message})] * 2
    assert only_a_source.json() == {
        "error": "English (en) is not available as a target language from Auto Detect (auto)"
    }


def test_codes_are_found_in_any_case_and_by_their_alias() -> None:
    languages = ("en", "pt-BR", "zh", "pes_Arab", "zho_Hant")
    result = {code: find_language(code, languages) for code in ("EN", "pb", "PT-br", "zh-hans", "zt", "fa", "q", "e n")}
    assert result == {
        "EN": "en", "pb": "pt-BR", "PT-br": "pt-BR", "zh-hans": "zh", "zt": "zho_Hant", "fa": "pes_Arab",
        "q": None, "e n": None,
    }  # fmt: skip


def test_codes_on_the_wire_are_those_of_libretranslate_and_mean_the_same_language() -> None:
    languages = ("eng_Latn", "pes_Arab", "arb_Arab", "arz_Arab", "zh", "zho_Hant", "pt-BR", "nob_Latn", "yue_Hant")
    codes = {language: wire_code(language, languages) for language in languages}
    assert list(codes.values()) == ["en", "fa", "ar", "arz-Arab", "zh-Hans", "zh-Hant", "pt-BR", "nb", "yue-Hant"]
    assert {find_language(code, languages): code for code in codes.values()} == codes


def test_each_language_lists_its_targets_and_itself() -> None:
    pairs = LanguagePairs((("en", "zh"), ("fr", "en")), ("deu_Latn", "spa_Latn", "en"))
    listed = {language.code: (language.name, language.targets) for language in describe_languages(pairs)}
    assert listed == {
        "de": ("German", ["de", "en", "es"]),
        "en": ("English", ["de", "en", "es", "zh-Hans"]),
        "es": ("Spanish", ["de", "en", "es"]),
        "fr": ("French", ["en", "fr"]),
        "zh-Hans": ("Chinese (Simplified)", ["zh-Hans"]),
    }


async def test_settings_tell_limits_and_features(client: httpx.AsyncClient) -> None:
    body = (await client.get("/libretranslate/frontend/settings")).json()
    assert body == {
        "charLimit": 40,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": sorted(FORMATS),
        "language": {"source": {"code": "auto", "name": "Auto Detect"}, "target": {"code": "en", "name": "English"}},
    }


async def test_health_is_that_of_the_service_and_does_not_wait(client: httpx.AsyncClient, service: RoteService) -> None:
    assert (await client.get("/libretranslate/health")).json() == {"status": "ok"}
    service.state = "loading"
    response = await client.get("/libretranslate/health")
    assert response.status_code == 503
    assert "loading" in response.json()["error"]


async def test_suggestions_are_disabled(client: httpx.AsyncClient) -> None:
    suggested = await client.post("/libretranslate/suggest", data={**ONE, "s": "guten Morgen"})
    assert suggested.status_code == 403
    assert suggested.json() == {"error": "Suggestions are disabled on this server."}


async def test_a_suggestion_is_answered_from_then_on_for_its_key(tmp_path: Path) -> None:
    keys = tmp_path / "keys.sqlite"
    one, other = make_key(keys), make_key(keys)
    async with serving(keys_db=keys, anonymous="on", suggestions="on") as client:
        assert (await client.get("/libretranslate/frontend/settings")).json()["suggestions"] is True

        async def translated(key: str) -> str:
            body = {"q": "good morning", "source": "en", "target": "de", "api_key": key}
            response = await client.post("/libretranslate/translate", json=body)
            return str(response.json()["translatedText"])

        suggestion = {"q": "good morning", "s": "Moin", "source": "en", "target": "de"}
        refused = await client.post("/libretranslate/suggest", data=suggestion)
        assert refused.status_code == 403
        stored = await client.post("/libretranslate/suggest", data={**suggestion, "api_key": one})
        assert (stored.status_code, stored.json()) == (200, {"success": True})
        assert [await translated(key) for key in (one, other, "")] == ["Moin", "GOOD MORNING", "GOOD MORNING"]
        for wrong, message in (
            ({"s": " "}, "Invalid request: the target is blank"),
            ({"s": ""}, "Invalid request: missing s parameter"),
            ({"source": "xx"}, "xx is not supported"),
        ):
            answer = await client.post("/libretranslate/suggest", data={**suggestion, "api_key": one, **wrong})
            assert (answer.status_code, answer.json()) == (400, {"error": message})


async def test_the_texts_to_detect_may_be_a_list(client: httpx.AsyncClient, service: RoteService) -> None:
    service.detected = Detection("de", 0.5, ("de",))
    response = await client.post("/libretranslate/detect", json={"q": ["a", "b"]})
    assert response.json() == [{"confidence": 50.0, "language": "de"}]
    assert service.calls == [{"texts": ["a\nb"]}]
    assert (await client.post("/libretranslate/detect")).json() == {"error": "Invalid request: missing q parameter"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QueueFull(1.0), 504),
        (NotReady(1.0, "draining"), 504),
        (DeadlineExceeded(30.0), 504),
        (LimitExceeded("text", 9, 8, "sentences in one request"), 400),
        (InferenceFailed(), 500),
        (ValueError("a secret"), 500),
    ],
)
@pytest.mark.parametrize("path", [TRANSLATE, "/libretranslate/detect"])
async def test_errors_of_the_service_are_answered_in_the_shape_of_the_protocol(
    client: httpx.AsyncClient, service: RoteService, path: str, error: Exception, status: int
) -> None:
    service.request_error = error
    response = await client.post(path, json=ONE)
    assert response.status_code == status
    check_error(response)
    assert "secret" not in response.text


def test_no_error_is_one_after_which_clients_stay_away() -> None:
    statuses = {
        row.code: error_shape(Problem(row.status, row.code, row.title)).status_code for row in PROBLEMS.values()
    }
    of_keys = {"rate_limited", "concurrency_exceeded"}  # the operator has set a limit, which clients are to heed
    assert {code for code, status in statuses.items() if status in {429, 456, 503}} == of_keys


async def test_a_failed_text_fails_its_list(client: httpx.AsyncClient, service: RoteService) -> None:
    service.errors |= {"bad": InferenceFailed(), "fr": DetectedPairNotServed("de", 0.9, "en", PAIRS)}
    assert (await post(client, q=["a", "bad"])).status_code == 500
    refused = await post(client, q=["a", "fr"], source="auto", target="en")
    assert refused.json()["error"] == "English (en) is not available as a target language from German (de)"


@pytest.mark.parametrize(
    ("method", "path", "content", "headers", "status"),
    [
        ("POST", "/translate", b"{", JSON_TYPE, 400),
        ("POST", "/translate", b"[]", JSON_TYPE, 400),
        ("POST", "/translate", b"", JSON_TYPE, 400),
        ("POST", "/translate", b"\xff", JSON_TYPE, 400),
        ("POST", "/translate", b'{"q": "\xff"}', JSON_TYPE, 400),
        ("POST", "/translate", b"q=%ff&source=en&target=de", FORM_TYPE, 400),
        ("POST", "/translate", b"x", {"content-type": "text/plain"}, 400),
        ("POST", "/translate", b"x" * 5_001, JSON_TYPE, 413),
        ("POST", "/detect", b"q=" + b"x" * 5_001, FORM_TYPE, 413),
        ("POST", "/translate_file", b"x", {"content-type": "multipart/form-data; boundary=a"}, 400),
        ("POST", "/suggest", b"&" * 4_000, FORM_TYPE, 400),
        ("GET", "/translate", b"", {}, 405),
        ("POST", "/", b"", {}, 405),
        ("POST", "/nothing", b"", {}, 404),
    ],
)
async def test_bad_requests_are_answered_in_the_shape_of_the_protocol(
    client: httpx.AsyncClient, method: str, path: str, content: bytes, headers: dict[str, str], status: int
) -> None:
    response = await client.request(method, f"/libretranslate{path}", content=content, headers=headers)
    assert response.status_code == status, response.text
    check_error(response)


def check_error(response: httpx.Response) -> None:
    content = response.json()
    assert list(content) == ["error"]
    assert isinstance(content["error"], str) and content["error"]
    assert response.headers["content-type"] == "application/json; charset=utf-8"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(
    st.sampled_from(["q", "source", "target", "format", "alternatives", "api_key", "s"]), VALUES, max_size=7
)
LIKELY = st.fixed_dictionaries(
    {
        "q": st.text(min_size=1, max_size=30) | st.lists(st.text(max_size=10), min_size=1, max_size=3) | VALUES,
        "source": st.sampled_from(["auto", "en", "de", "zh", "pb"]) | VALUES,
        "target": st.sampled_from(["en", "de", "zt"]) | VALUES,
    },
    optional={"format": st.sampled_from(["html", "text"]) | VALUES, "alternatives": st.integers(-1, 4) | VALUES},
)
BODIES = st.binary(max_size=60) | (FIELDS | LIKELY).map(lambda fields: json.dumps(fields).encode())
TYPES = st.sampled_from([*JSON_TYPE.values(), *FORM_TYPE.values(), "multipart/form-data; boundary=x", "text/plain", ""])


@given(body=BODIES, declared=TYPES, path=st.sampled_from(PATHS["POST"]), query=st.binary(max_size=20))
@hypothesis_settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_is_sent_makes_the_service_fail(body: bytes, declared: str, path: str, query: bytes) -> None:
    async def ask() -> httpx.Response:
        async with client_of(APP) as client:
            headers = {"content-type": declared} if declared else {}
            return await client.post(
                f"/libretranslate{path}?{quote_from_bytes(query, '=&%+')}", content=body, headers=headers
            )

    response = asyncio.run(ask())
    assert response.status_code < 500, response.text
    if response.status_code != 200:
        check_error(response)


APP = rote_app(RoteService())
