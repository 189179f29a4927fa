"""Streamed answers and keys, with the real service around a fake translator."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from app.accounts.usage import UsageStore
from app.main import create_app
from app.settings import Settings
from tests.app.accounts.keyed import bearer, make_key, serving, used
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.serving import client_of

pytestmark = pytest.mark.anyio

ASKED = {"text": "One cat. Two dogs.", "source": "en", "target": "de"}


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/event-stream"])
async def test_a_streamed_answer_is_counted_once(tmp_path: Path, accept: str) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path), accept=accept, idempotency_key="1")
    async with serving(keys_db=path) as client:
        for _ in range(2):
            response = await client.post("/translate", json=ASKED, headers=headers)
            assert response.status_code == 200 and "TWO DOGS" in response.text
    assert used(path) == (len(str(ASKED["text"])), 1)


async def test_a_stream_holds_its_sentences_and_gives_them_back(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path, concurrent_sentences=2), accept="application/x-ndjson")
    async with serving(keys_db=path) as client:
        for _ in range(3):  # it would be refused if earlier requests had kept theirs
            assert (await client.post("/translate", json=ASKED, headers=headers)).status_code == 200
        refused = await client.post("/translate", json={**ASKED, "text": "Go. Go now. Go home."}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (422, "limit_exceeded")


async def test_a_stream_beyond_the_quota_does_not_begin(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path, characters_per_month=5), accept="application/x-ndjson")
    async with serving(keys_db=path) as client:
        refused = await client.post("/translate", json=ASKED, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert used(path) == (0, 0)


async def test_a_stream_that_cannot_be_counted_ends_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path), accept="application/x-ndjson")

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(UsageStore, "settle_all", fail)
    app = create_app(Settings(**BUDGET, keys_db=path), FakeBundles(FakeTranslator(step_s=0.01)))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        refused = await client.post("/translate", json={**ASKED, "text": f"Go. A {'long ' * 30}day."}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (503, "accounts_unavailable")
        assert not app.state.service._engine._state.unanswered, "its second sentence is withdrawn"
    assert used(path) == (0, 0)


async def test_a_stream_that_cannot_begin_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path), accept="application/x-ndjson")
    async with serving(keys_db=path) as client:
        refused = await client.post("/translate", json={**ASKED, "target": "fr"}, headers=headers)
        assert refused.status_code == 422
    assert used(path) == (0, 0)
