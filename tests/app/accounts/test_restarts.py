"""Usage of a real process that is killed: nothing is lost, nothing counted twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.accounts.keyed import bearer, make_key, used
from tests.server import ROOT, Server, served

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

    with served(toy_bundle, VERSO_KEYS_DB=str(path)) as first:
        assert first.client.post("/translate", json=asked).status_code == 401
        assert [send(first, "1"), send(first, "2")] == [200, 200]
        first.popen.send_signal(signal.SIGKILL)
        first.popen.wait()
        assert used(path) == (10, 2)

    with served(toy_bundle, VERSO_KEYS_DB=str(path)) as second:
        assert [send(second, id) for id in ("1", "2", "3", "3", "4")] == [200, 200, 200, 200, 429]
        assert second.stop() == 0
    assert used(path) == (15, 3)
    assert not any(token[19:] in line for line in first.lines + second.lines)


def test_a_service_whose_keys_cannot_be_read_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    path.write_bytes(b"no database" * 100)
    ended = subprocess.run(
        [sys.executable, "-m", "app"],
        cwd=ROOT,
        env={**os.environ, "VERSO_KEYS_DB": str(path), "VERSO_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1
    assert "VERSO_KEYS_DB" in ended.stderr and "Traceback" not in ended.stderr
