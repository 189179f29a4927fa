"""``POST /v2/translate``, ``/v2/languages`` and ``/v2/usage``, with predefined translations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    DeadlineUnreachable,
    DetectedPairNotServed,
    InferenceFailed,
    LanguageNotDetected,
    NotReady,
    QueueFull,
)
from app.serving.model_choice import NO_LANGUAGE
from model.errors import InvalidMarkup, UnsupportedFormality, UnsupportedPair
from model.languages import LanguagePairs
from model.translation.capabilities import Capabilities
from tests.app.deepl_requests import ask, message, texts, translate
from tests.app.serving import MANIFEST, RoteModel, RoteService, RoteTranslation, client_of, rote_app

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(service: RoteService) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(rote_app(service)) as client:
        yield client


async def test_texts_come_back_in_order_with_the_language_of_each(client: httpx.AsyncClient) -> None:
    response = await translate(client, text=["one", "two"], show_billed_characters=True)
    assert response.json() == {
        "translations": [
            {"detected_source_language": "EN", "text": "ONE", "billed_characters": 3},
            {"detected_source_language": "EN", "text": "TWO", "billed_characters": 3},
        ]
    }
    assert response.headers["x-trace-id"] == response.headers["x-request-id"]


async def test_a_single_string_is_a_text(client: httpx.AsyncClient) -> None:
    assert texts(await translate(client, text="one")) == ["ONE"]


async def test_characters_are_unicode_characters(client: httpx.AsyncClient) -> None:
    response = await translate(client, text="a😀é", show_billed_characters="1")
    assert response.json()["translations"][0]["billed_characters"] == 3
    assert "billed_characters" not in (await translate(client, text="a")).text


async def test_unknown_fields_and_null_are_ignored(client: httpx.AsyncClient, service: RoteService) -> None:
    fields = {"new_in_a_later_version": ["Be brief."], "debug": "1", "formality": None, "source_lang": None}
    assert texts(await translate(client, text="a", **fields)) == ["A"]
    assert service.calls[0]["source"] == "auto"


async def test_names_that_are_accepted_are_repeated(client: httpx.AsyncClient) -> None:
    fields = {"model_type": "prefer_quality_optimized", "tag_handling": "html", "tag_handling_version": "v2"}
    (result,) = (await translate(client, text="a", **fields)).json()["translations"]
    assert (result["model_type_used"], result["tag_handling_version"]) == ("quality_optimized", "v2")


async def test_elements_to_ignore_need_markup(client: httpx.AsyncClient, service: RoteService) -> None:
    assert texts(await translate(client, text="a", ignore_tags=["x"])) == ["A"]
    assert service.calls[0]["options"].ignore_tags == ()


async def test_markup_is_read_leniently_with_the_elements_that_the_client_names(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    fields = {"splitting_tags": "a,b", "non_splitting_tags": ["c"], "outline_detection": 0, "tag_handling": "xml"}
    await translate(client, text="a", **fields)
    options = service.calls[0]["options"]
    assert (options.splitting_tags, options.non_splitting_tags) == (("a", "b"), ("c",))
    assert (options.outline_detection, options.is_lenient) == (False, True)


@pytest.mark.parametrize("code", ["DE", "de", "De-at", "DE-DE"])
async def test_regions_and_case_of_the_target_do_not_matter(client: httpx.AsyncClient, code: str) -> None:
    assert texts(await translate(client, text="a", target_lang=code)) == ["A"]


@pytest.mark.parametrize("code", ["EN", "EN-GB", "en-us"])
async def test_english_is_a_target_with_and_without_a_region(client: httpx.AsyncClient, code: str) -> None:
    response = await translate(client, text="a", source_lang="DE", target_lang=code)
    assert response.json()["translations"][0] == {"detected_source_language": "DE", "text": "A"}


async def test_the_source_language_given_is_repeated_without_its_region(client: httpx.AsyncClient) -> None:
    response = await translate(client, text="a", source_lang="en-gb")
    assert response.json()["translations"][0]["detected_source_language"] == "EN"


async def test_a_text_that_is_in_the_target_language_comes_back(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    response = await translate(client, text="a", source_lang="en", target_lang="EN-US")
    assert texts(response) == ["a"]
    assert service.calls == []


async def test_a_text_without_letters_has_the_target_language(
    client: httpx.AsyncClient, service: RoteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchanged = RoteTranslation("12", NO_LANGUAGE, "de")
    monkeypatch.setattr(service, "_translation", lambda text, options: unchanged)
    response = await translate(client, text="12")
    assert response.json()["translations"] == [{"detected_source_language": "DE", "text": "12"}]


@pytest.mark.parametrize(
    ("formality", "meant"),
    [
        ("default", None),
        ("more", "formal"),
        ("prefer_more", "formal"),
        ("less", "informal"),
        ("prefer_less", "informal"),
    ],
)
async def test_formality_is_the_form_of_address(
    client: httpx.AsyncClient, service: RoteService, formality: str, meant: str | None
) -> None:
    assert texts(await translate(client, text="a", formality=formality)) == ["A"]
    assert service.calls[0]["options"].formality == meant


async def test_a_formality_that_the_model_does_not_know_is_refused(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    service.errors["a"] = UnsupportedFormality("formal", "en", [])
    refused = await translate(client, text="a", source_lang="de", target_lang="EN-US", formality="more")
    assert message(refused, 400) == "Target language 'EN-US' doesn't support formality."


async def test_a_formality_that_is_only_preferred_is_left_out_where_it_is_unknown(
    client: httpx.AsyncClient, service: RoteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = service._translation

    def translation(text: str, options: Any) -> Any:
        return reference(text, options) if options.formality is None else UnsupportedFormality("formal", "de", [])

    monkeypatch.setattr(service, "_translation", translation)
    assert texts(await translate(client, text=["a", "b"], formality="prefer_more")) == ["A", "B"]
    assert [call["options"].formality for call in service.calls] == ["formal", None]


async def test_the_failure_of_a_text_fails_the_request(client: httpx.AsyncClient, service: RoteService) -> None:
    service.errors["b"] = InvalidMarkup("mismatched tag", 1, 7)
    refused = message(await translate(client, text=["a", "b"], tag_handling="xml"), 400)
    assert refused.startswith("Tag handling parsing failed, please check text 2")


async def test_a_text_whose_language_cannot_be_detected_comes_back_unchanged(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    service.errors["b"] = LanguageNotDetected(LanguagePairs(MANIFEST.pairs))
    assert texts(await translate(client, text=["a", "b"])) == ["A", "b"]


async def test_a_text_in_a_language_that_is_not_loaded_comes_back_unchanged(
    client: httpx.AsyncClient, service: RoteService
) -> None:
    service.errors["b"] = DetectedPairNotServed("fr", 0.99, "de", LanguagePairs(MANIFEST.pairs))
    first, second = (await translate(client, text=["a", "b"])).json()["translations"]
    assert first["text"] == "A"
    assert (second["text"], second["detected_source_language"]) == ("b", "FR")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QueueFull(7.0, 3, 9, 10), 504),
        (DeadlineUnreachable(45.0, 30.0, 900, 16.0), 504),
        (NotReady(5.0, "loading"), 504),
        (NotReady(1.0, "draining"), 504),
        (DeadlineExceeded(30.0), 504),
        (InferenceFailed(), 500),
        (BodyTooLarge(10), 413),
        (UnsupportedPair("fr", "de", LanguagePairs()), 400),
        (RuntimeError("secret"), 500),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_errors_have_the_statuses_that_clients_know(
    client: httpx.AsyncClient, service: RoteService, error: Exception, status: int
) -> None:
    service.request_error = error
    for method, path in (("POST", "/v2/translate"), ("GET", "/v2/languages")):
        response = await ask(client, method, path, params={"text": "a", "target_lang": "de"})
        assert "secret" not in message(response, status)
        assert "retry-after" not in response.headers


async def test_a_request_without_a_key_is_forbidden(client: httpx.AsyncClient) -> None:
    body = {"text": "a", "target_lang": "de"}
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "DeepL-Auth-Key "}):
        assert "Authorization" in message(await client.post("/v2/translate", json=body, headers=headers), 403)
    assert message(await client.get("/v2/usage"), 403)
    assert message(await client.get("/v3/glossaries"), 403)
    assert texts(await client.post("/v2/translate", data={**body, "auth_key": "any"})) == ["A"]
    assert texts(await client.post("/v2/translate", json=body, headers={"authorization": "deepl-auth-key any"})) == [
        "A"
    ]


@pytest.mark.parametrize("fields", [{"style_id": "1"}, {"custom_instructions": ["short"]}])
async def test_parameters_that_would_change_the_translation_are_refused(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    refused = message(await translate(client, text="hello", source_lang="EN", **fields), 400)
    assert next(iter(fields)) in refused
    assert "has no effect on this server" in refused
    nothing = {name: type(value)() for name, value in fields.items()}
    assert texts(await translate(client, text="hello", source_lang="EN", **nothing))


async def test_paths_and_methods_that_do_not_exist_have_errors_of_the_protocol(client: httpx.AsyncClient) -> None:
    assert "/v2/nowhere" in message(await client.get("/v2/nowhere"), 404)
    assert message(await client.get("/v3"), 404)
    refused = await client.put("/v2/translate")
    assert message(refused, 405) and refused.headers["allow"] == "POST"
    # Each method has a route of its own.
    assert (await client.put("/v3/glossaries/x")).headers["allow"] == "DELETE, GET, PATCH"
    assert (await client.get("/v2nowhere")).headers["content-type"] == "application/problem+json"


async def test_bounds_are_those_of_the_service(service: RoteService) -> None:
    async with client_of(rote_app(service, max_texts=2, max_text_characters=3, max_body_bytes=1000)) as client:
        assert "limit of 2" in message(await translate(client, text=["a"] * 3), 400)
        assert "text[1]" in message(await translate(client, text=["a", "abcd"]), 400)
        assert message(await translate(client, text="a" * 1000), 413)
        assert message(await ask(client, "POST", "/v2/translate", data={"text": ["a"] * 400}), 413)


async def test_the_languages_of_the_third_version_say_what_they_can_be_used_for(client: httpx.AsyncClient) -> None:
    listed = await ask(client, "GET", "/v3/languages", params={"resource": "translate_text"})
    assert [(item["lang"], item["usable_as_source"], item["usable_as_target"]) for item in listed.json()] == [
        ("de", True, True),
        ("en", True, False),
        ("en-GB", False, True),
        ("en-US", False, True),
    ]
    assert (await ask(client, "GET", "/v3/languages", params={"resource": "voice"})).json() == []
    assert "resource" in message(await ask(client, "GET", "/v3/languages", params={"resource": "images"}), 400)


async def test_source_languages_have_no_regions_and_no_formality(client: httpx.AsyncClient) -> None:
    expected = [{"language": "DE", "name": "German"}, {"language": "EN", "name": "English"}]
    assert (await ask(client, "GET", "/v2/languages")).json() == expected
    assert (await ask(client, "GET", "/v2/languages", params={"type": "source"})).json() == expected


@pytest.mark.parametrize(
    "sent",
    [
        {"method": "GET", "params": {"type": "target"}},
        {"method": "GET", "data": {"type": "target"}},
        {"method": "POST", "data": {"type": "target"}},
        {"method": "POST", "json": {"type": "target"}},
    ],
    ids=["query", "form in a GET request", "form", "JSON"],
)
async def test_target_languages_have_regions_and_formality(
    client: httpx.AsyncClient, service: RoteService, monkeypatch: pytest.MonkeyPatch, sent: dict[str, Any]
) -> None:
    formal = RoteModel(replace(MANIFEST, capabilities=Capabilities(formality=("de",))))
    monkeypatch.setattr(RoteService, "models", property(lambda _: [formal]))
    response = await ask(client, path="/v2/languages", **sent)
    assert response.json() == [
        {"language": "DE", "name": "German", "supports_formality": True},
        {"language": "EN-GB", "name": "English (British)", "supports_formality": False},
        {"language": "EN-US", "name": "English (American)", "supports_formality": False},
    ]


async def test_languages_of_large_models_are_named(
    client: httpx.AsyncClient, service: RoteService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pairs() -> LanguagePairs:
        return LanguagePairs((("en", "pt"),), ("deu_Latn", "zho_Hans", "zho_Hant", "nob_Latn"))

    monkeypatch.setattr(service, "language_pairs", pairs)
    targets = (await ask(client, "GET", "/v2/languages", params={"type": "target"})).json()
    assert [target["language"] for target in targets] == ["DE", "NB", "PT-BR", "PT-PT", "ZH-HANS", "ZH-HANT"]
    sources = (await ask(client, "GET", "/v2/languages")).json()
    assert [source["language"] for source in sources] == ["DE", "EN", "NB", "ZH"]
    pairs_found = (await ask(client, "GET", "/v2/glossary-language-pairs")).json()["supported_languages"]
    assert {"source_lang": "zh", "target_lang": "nb"} in pairs_found
    assert {"source_lang": "zh", "target_lang": "zh"} not in pairs_found


async def test_only_source_and_target_languages_can_be_listed(client: httpx.AsyncClient) -> None:
    assert "type" in message(await ask(client, "GET", "/v2/languages", params={"type": "all"}), 400)


async def test_usage_counts_the_characters_of_this_protocol(client: httpx.AsyncClient, service: RoteService) -> None:
    service.errors["bad"] = InferenceFailed()
    await translate(client, text=["one", "😀"])
    await translate(client, text="bad")
    await client.post("/translate", json={"text": "a"})
    for method in ("GET", "POST"):
        usage = (await ask(client, method, "/v2/usage")).json()
        assert usage == {"character_count": 4, "character_limit": 1_000_000_000_000}
