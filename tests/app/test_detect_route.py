"""``POST /detect``: the languages of texts, and the errors for clients of another protocol."""

from __future__ import annotations

import httpx
import pytest

from app.serving.detection import Detection
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio


async def test_each_text_has_its_language() -> None:
    service = RoteService(detected=Detection("de", 0.75, ("de",)))
    async with client_of(rote_app(service)) as client:
        one = await client.post("/detect", json={"text": "Guten Morgen"})
        two = await client.post("/detect", json={"text": ["Guten Morgen", "Guten Tag"]})
    expected = {"language": "de", "confidence": 0.75}
    assert one.json() == {"detections": [expected]}
    assert two.json() == {"detections": [expected, expected]}
    assert service.calls[-1] == {"texts": ["Guten Morgen", "Guten Tag"]}


async def test_a_text_without_a_language_has_none() -> None:
    async with client_of(rote_app(RoteService(detected=None))) as client:
        assert (await client.post("/detect", json={"text": "12:30"})).json() == {"detections": [None]}


async def test_the_limits_are_those_of_translations() -> None:
    async with client_of(rote_app(RoteService(), max_texts=1, max_text_characters=3)) as client:
        for text in (["a", "b"], "abcd"):
            response = await client.post("/detect", json={"text": text})
            assert (response.status_code, response.json()["code"]) == (422, "limit_exceeded")


@pytest.mark.parametrize("path", ["/translate", "/detect"])
async def test_clients_of_libretranslate_are_told_their_address(path: str) -> None:
    async with client_of(rote_app(RoteService())) as client:
        form = await client.post(path, data={"q": "hello", "source": "en", "target": "de"})
        body = await client.post(path, json={"q": "hello"})
        unknown = await client.get("/languages")
    assert form.status_code == 415
    assert body.status_code == 422
    for response in (form, body):
        assert "/libretranslate" in response.text
        assert "VERSO_COMPAT" in response.text
    assert unknown.status_code == 404
    assert "/libretranslate/languages" in unknown.json()["detail"]


async def test_at_the_root_the_body_decides_whose_request_it_is() -> None:
    service = RoteService(detected=Detection("de", 0.75, ("de",)))
    async with client_of(rote_app(service, compat="libretranslate")) as client:
        own = await client.post("/detect", json={"text": "Guten Tag"})
        theirs = await client.post("/detect", json={"q": "Guten Tag"})
        health = await client.get("/health")
    assert own.json() == {"detections": [{"language": "de", "confidence": 0.75}]}
    assert theirs.json() == [{"language": "de", "confidence": 75.0}]
    assert health.json() == {"status": "ok"}


async def test_health_is_the_readiness_of_the_service() -> None:
    for state, status in (("ready", 200), ("loading", 503)):
        async with client_of(rote_app(RoteService(state=state))) as client:
            health: httpx.Response = await client.get("/health")
            assert health.status_code == (await client.get("/readyz")).status_code == status


async def test_a_client_of_libretranslate_may_post_to_list_languages() -> None:
    async with client_of(rote_app(RoteService())) as client:
        assert (await client.post("/libretranslate/languages")).json() == (
            await client.get("/libretranslate/languages")
        ).json()
