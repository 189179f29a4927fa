"""Streamed answers and keys, with the real service around a fake translator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.accounts.keyed import bearer, make_key, serving, used

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


async def test_a_stream_that_cannot_begin_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    headers = bearer(make_key(path), accept="application/x-ndjson")
    async with serving(keys_db=path) as client:
        refused = await client.post("/translate", json={**ASKED, "target": "fr"}, headers=headers)
        assert refused.status_code == 422
    assert used(path) == (0, 0)
