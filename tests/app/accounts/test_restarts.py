"""Usage of a real process that is killed: nothing is lost, nothing counted twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.app.accounts.keyed import bearer, make_key, used
from tests.app.conftest import FailedStart
from tests.server import Server, served

pytestmark = pytest.mark.thorough


def test_usage_outlives_a_killed_process_and_repeated_requests_are_counted_once(
    toy_bundle: Path, tmp_path: Path
) -> None:
    path = tmp_path / "keys.sqlite"
    token = make_key(path, characters_per_month=15)
    request = {"text": "a b c", "source": "en", "target": "de"}

    def send(server: Server, id: str) -> int:
        headers = bearer(token, idempotency_key=id)
        return server.client.post("/translate", json=request, headers=headers).status_code

    with served(toy_bundle, VERSO_KEYS_DB=str(path)) as first:
        assert first.client.post("/translate", json=request).status_code == 401
        assert [send(first, "1"), send(first, "2")] == [200, 200]
        first.popen.send_signal(signal.SIGKILL)
        first.popen.wait()
        assert used(path) == (10, 2)

    with served(toy_bundle, VERSO_KEYS_DB=str(path)) as second:
        assert [send(second, id) for id in ("1", "2", "3", "3", "4")] == [200, 200, 200, 200, 429]
        assert second.stop() == 0
    assert used(path) == (15, 3)
    assert not any(token[19:] in line for line in first.lines + second.lines)


@pytest.mark.parametrize("fault", ["no database", "no file", "no folder"])
def test_a_service_whose_keys_cannot_be_read_does_not_start(
    fault: str, tmp_path: Path, failed_start: FailedStart
) -> None:
    path = tmp_path / ("mistyped/keys.sqlite" if fault == "no folder" else "keys.sqlite")
    if fault == "no database":
        path.write_bytes(b"no database" * 100)
    before = sorted(tmp_path.iterdir())
    message = failed_start(VERSO_KEYS_DB=str(path))
    assert "VERSO_KEYS_DB" in message and str(path) in message
    assert sorted(tmp_path.iterdir()) == before
    if fault != "no database":
        assert "verso keys create NAME" in message


@pytest.mark.parametrize("folder", ["/proc/x", "/dev/null"])
def test_a_service_that_cannot_keep_documents_where_it_is_told_to_does_not_start(
    folder: str, failed_start: FailedStart
) -> None:
    assert f"VERSO_DATA_DIR: {folder} cannot be written" in failed_start(VERSO_DATA_DIR=folder)
