"""``/livez``, ``/readyz`` and ``/metrics``: the routes for load balancers and monitoring."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.documents.service import DocumentService
from app.errors import NotReady
from app.main import create_app
from app.settings import Settings
from tests.app.accounts.keyed import make_file
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("state", ["loading", "ready", "empty", "draining", "stopped"])
async def test_the_process_is_alive_in_every_state_that_may_end(state: str) -> None:
    async with client_of(rote_app(RoteService(state=state))) as client:
        response = await client.get("/livez")
    assert (response.status_code, response.json()) == (200, {"status": "alive"})


async def test_a_process_whose_engine_has_given_up_is_to_be_restarted() -> None:
    async with client_of(rote_app(RoteService(state="failed"))) as client:
        response = await client.get("/livez")
    assert (response.status_code, response.json()["code"]) == (503, "not_ready")


async def test_the_service_is_ready_when_the_model_is() -> None:
    async with client_of(rote_app(RoteService())) as client:
        response = await client.get("/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ready"})


@pytest.mark.parametrize("state", ["loading", "empty", "draining", "failed", "stopped"])
async def test_the_service_is_not_ready_in_other_states_and_gives_the_reason(state: str) -> None:
    async with client_of(rote_app(RoteService(state=state))) as client:
        response = await client.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "not_ready")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == str(NotReady(5.0, state))
    assert int(response.headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/docs", "/openapi.json", "/metrics"])
async def test_a_probe_may_use_the_head_method(path: str) -> None:
    async with client_of(rote_app(RoteService())) as client:
        assert (await client.head(path)).status_code == 200


async def test_metrics_count_a_request_under_its_route_and_status() -> None:
    async with client_of(rote_app(RoteService())) as client:
        await client.post("/translate", json={"text": "a"})
        response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    counted = [line for line in response.text.splitlines() if 'route="/translate"' in line and 'status="200"' in line]
    assert counted


async def test_metrics_count_a_refusal_under_its_code() -> None:
    async with client_of(rote_app(RoteService())) as client:
        await client.post("/translate", json={"text": 5})
        response = await client.get("/metrics")
    assert 'verso_refusals_total{reason="invalid_request"} 1.0' in response.text


async def test_metrics_do_not_grow_with_unknown_paths_and_methods() -> None:
    async with client_of(rote_app(RoteService())) as client:
        await client.get("/some/path/or/other")
        await client.request("INVENTED", "/livez")
        response = await client.get("/metrics")
    assert "/some/path" not in response.text and "INVENTED" not in response.text


async def test_what_cannot_be_stopped_does_not_keep_the_rest_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: DocumentService) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(DocumentService, "stop", broken)
    before = set(threading.enumerate())
    keys = make_file(tmp_path / "keys.sqlite")
    app = create_app(Settings(**BUDGET, keys_db=keys), FakeBundles(FakeTranslator()))

    async def start_and_stop() -> None:
        async with app.router.lifespan_context(app):
            await app.state.service.wait_loaded()
            app.state.accounts.write_soon(lambda: None)

    with pytest.raises(RuntimeError, match="a bug"):
        await start_and_stop()
    assert app.state.service.state == "stopped"
    remaining = {item.name for item in set(threading.enumerate()) - before}
    assert not {name for name in remaining if name.startswith(("verso-", "accounts"))}
