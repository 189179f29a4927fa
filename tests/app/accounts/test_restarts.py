"""Usage of a real process that is killed: nothing is lost, nothing counted twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.app.accounts.keyed import bearer, make_key, used
from tests.server import Server

pytestmark = pytest.mark.thorough


def test_usage_outlives_a_killed_process_and_repeated_requests_are_counted_once(
    toy_bundle: Path, tmp_path: Path
) -> None:
    path = tmp_path / "keys.sqlite"
    token = make_key(path, characters_per_month=15)
    asked = {"text": "a b c", "source": "en", "target": "de"}

    def send(server: Server, id: str) -> int:
        headers = bearer(token, idempotency_key=id)
        return server.client.post("/translate", json=asked, headers=headers).status_code

    first = Server(toy_bundle, VERSO_KEYS_DB=str(path))
    first.wait_until_ready()
    assert first.client.post("/translate", json=asked).status_code == 401
    assert [send(first, "1"), send(first, "2")] == [200, 200]
    first.process.send_signal(signal.SIGKILL)
    first.finish()
    assert used(path) == (10, 2)

    second = Server(toy_bundle, VERSO_KEYS_DB=str(path))
    second.wait_until_ready()
    assert [send(second, id) for id in ("1", "2", "3", "3", "4")] == [200, 200, 200, 200, 429]
    assert second.stop() == 0
    assert used(path) == (15, 3)
    assert not any(token[19:] in line for line in first.lines + second.lines)
