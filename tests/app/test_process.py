"""``python -m app`` as a process: start, failures at start, and shutdown."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.commands import serve
from app.settings import Settings
from tests.app.conftest import FailedStart
from tests.app.process import REQUEST_HEAD, Process, running
from tests.server import ROOT
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.thorough


def test_a_started_service_translates_and_ends_with_0_on_sigterm() -> None:
    with running() as process:
        process.wait_until_ready()
        with process.new_client() as client:
            answer = client.post("/translate", json={"text": "Good morning.", "source": "en", "target": "de"})
            assert answer.status_code == 200
            assert answer.json()["translations"][0]["text"]
            attention = client.post("/attention", json={"text": "Good morning", "source": "en", "target": "de"})
            assert attention.json()["cross"]["weights"] == [[[[0.5, 0.5]] * 2] * 2]
            assert 'src="page/main.js"' in client.get("/").text
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert process.logged("stopped")
        assert all(line.startswith("{") for line in process.lines), process.lines


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_lets_running_requests_finish_and_refuses_new_ones(name: str, tmp_path: Path) -> None:
    with (
        running(FAKE_STEP_GATE=str(tmp_path)) as process,
        process.new_client() as client,
        ThreadPoolExecutor(1) as pool,
    ):
        process.wait_until_ready()
        request = {"text": "one two three four five", "source": "en", "target": "de"}
        slow = pool.submit(client.post, "/translate", json=request)
        with process.new_client() as other:
            until((tmp_path / "reached").exists, lambda: "a running sentence")
            process.popen.send_signal(signal.Signals[name])
            process.wait_for_line("draining")
            not_ready = other.get("/readyz")
            assert (not_ready.status_code, not_ready.headers["connection"]) == (503, "close")
            refused = other.post("/translate", json=request)
            assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
            assert other.get("/livez").status_code == 200
        (tmp_path / "open").touch()
        answer = slow.result(PATIENCE_S)
        assert answer.status_code == 200 and answer.json()["translations"][0]["text"]
        assert process.wait() == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_second_signal_ends_the_process_at_once_and_quietly(is_busy: bool, tmp_path: Path) -> None:
    gate = {"FAKE_STEP_GATE": str(tmp_path)} if is_busy else {"FAKE_LOAD_GATE": str(tmp_path / "load")}
    with running(**gate) as process, ThreadPoolExecutor(1) as pool, process.new_client() as client:
        if is_busy:
            process.wait_until_ready()
            request = {"text": "one two three", "source": "en", "target": "de"}
            task = pool.submit(client.post, "/translate", json=request)
            until((tmp_path / "reached").exists, lambda: "a running sentence")
        else:
            assert client.get("/readyz").status_code == 503
        process.popen.send_signal(signal.SIGTERM)
        process.wait_for_line("draining")
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        if is_busy:
            assert isinstance(task.exception(PATIENCE_S), httpx.TransportError)
        errors = [line for line in process.lines if "Traceback" in line or '"level": "error"' in line]
        assert errors == []


def test_a_process_whose_engine_gives_up_refuses_and_ends_with_1() -> None:
    with running(FAKE_DEADLY="yes") as process, process.new_client() as client:
        process.wait_until_ready()
        answers = []
        with contextlib.suppress(httpx.TransportError):
            for _ in range(10):
                request = {"text": "one", "source": "en", "target": "de"}
                answers.append(client.post("/translate", json=request).status_code)
        assert set(answers) <= {500, 503} and len(answers) >= 3
        assert process.wait() == 1
        assert process.logged("the engine gives up: its thread died too often")
        assert plain_lines(process) == ["verso: ended: the engine has stopped working; the log has the reason"]


def test_a_process_whose_step_hangs_refuses_what_waits_and_ends_with_1(tmp_path: Path) -> None:
    with running(FAKE_STEP_GATE=str(tmp_path), VERSO_STEP_TIMEOUT_S="1") as process, process.new_client() as client:
        process.wait_until_ready()
        answer = client.post("/translate", json={"text": "one", "source": "en", "target": "de"})
        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert process.wait() == 1
        assert process.logged("a step hangs, and the engine gives up")
        assert plain_lines(process) == ["verso: ended: the engine has stopped working; the log has the reason"]


@pytest.mark.slow
def test_a_drain_that_exceeds_its_timeout_ends_with_exit_code_0() -> None:
    with running(FAKE_STEP_S="0.5", VERSO_DRAIN_TIMEOUT_S="1") as process, ThreadPoolExecutor(1) as pool:
        process.wait_until_ready()
        with process.new_client() as client:
            request = {"text": "word " * 40, "source": "en", "target": "de"}
            slow = pool.submit(client.post, "/translate", json=request)
            with process.new_client() as other:
                until(lambda: "verso_running_sentences 1.0" in other.get("/metrics").text, lambda: "a running sentence")
            process.popen.send_signal(signal.SIGTERM)
            assert process.wait() == 0
            assert process.logged("running requests are given up")
            error = slow.exception(PATIENCE_S)
            assert error is not None or slow.result().status_code == 503


def test_a_request_whose_client_hangs_up_is_cancelled_and_the_next_one_is_served(tmp_path: Path) -> None:
    with running(FAKE_STEP_GATE=str(tmp_path)) as process:
        process.wait_until_ready()
        with process.new_client() as client:
            body = b'{"text": "word word", "source": "en", "target": "de"}'
            host, port = process.address.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as leaving:
                leaving.sendall(REQUEST_HEAD % len(body) + body)
                until((tmp_path / "reached").exists, lambda: "a running sentence")
            line = until(
                lambda: next((line for line in process.lines if '"status": 499' in line), None),
                lambda: f"status 499 in {process.lines}",
            )
            assert json.loads(line)["client"] == "left"
            (tmp_path / "open").touch()
            assert 'verso_sentences_total{model="fake",outcome="cancelled"}' in client.get("/metrics").text
            assert client.post("/translate", json={"text": "a", "source": "en", "target": "de"}).status_code == 200


def test_the_service_is_not_ready_while_the_model_loads_and_a_signal_ends_it_with_0(tmp_path: Path) -> None:
    gate = tmp_path / "load"
    with running(FAKE_LOAD_GATE=str(gate)) as process:
        with process.new_client() as client:
            early = client.get("/readyz")
            assert (early.status_code, early.json()["code"]) == (503, "not_ready")
            assert client.get("/livez").status_code == 200
            refused = client.post("/translate", json={"text": "a", "source": "en", "target": "de"})
            assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        process.popen.send_signal(signal.SIGTERM)
        process.wait_for_line("draining")
        gate.touch()
        assert process.wait() == 0


def plain_lines(process: Process) -> list[str]:
    return [line for line in process.lines if not line.startswith("{")]


def test_a_model_that_fails_to_load_ends_the_process_with_one_line() -> None:
    with running(FAKE_LOAD_ERROR="The bundle is truncated; export it again.") as process:
        assert process.wait() == 1
        assert plain_lines(process) == ["verso: cannot start: The bundle is truncated; export it again."]
        assert "Traceback" not in "\n".join(process.lines)


def test_an_invalid_setting_ends_the_start_with_one_line_that_names_it(failed_start: FailedStart) -> None:
    (line,) = failed_start(VERSO_PORT="eighty").splitlines()
    assert line.startswith("verso: cannot start: ") and "VERSO_PORT" in line


def test_a_port_in_use_ends_the_start_with_one_line_that_names_it(failed_start: FailedStart) -> None:
    with socket.create_server(("127.0.0.1", 0)) as drawn:
        port = str(drawn.getsockname()[1])
        (line,) = failed_start(VERSO_HOST="127.0.0.1", VERSO_PORT=port).splitlines()
    assert port in line and "VERSO_PORT" in line


def test_help_lists_every_setting_with_default_and_description(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        serve.main(["--help"])
    output = " ".join(capsys.readouterr().out.split())
    for name, setting in Settings.model_fields.items():
        assert f"VERSO_{name.upper()} (default: " in output
        assert setting.description is not None
        assert " ".join(setting.description.split()) in output


def test_the_openmp_wait_policy_is_set_before_torch_is_imported() -> None:
    code = "import sys, model; assert 'torch' not in sys.modules; import os; print(os.environ['GOMP_SPINCOUNT'])"
    clean = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    for environment, output in ((clean, "1000"), ({**clean, "GOMP_SPINCOUNT": "5"}, "5")):
        command = [sys.executable, "-c", code]
        run = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert run.stdout.strip() == output
