"""``verso translate --server``: what it refuses, and how it asks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import verso_client
from app.commands.main import main
from tests.client.driving import ANSWER, TRANSLATION, Script, problem

ROOT = Path(__file__).resolve().parents[2]
MODELS: dict[str, Any] = {"models": []}


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Standard input of the command; write to it and rewind."""
    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(buffer))
    return buffer


def scripted(monkeypatch: pytest.MonkeyPatch, *answers: httpx.Response | Exception) -> Script:
    """Let the command talk to a scripted server."""
    server = Script(list(answers))
    http = httpx.Client(transport=httpx.MockTransport(server))
    monkeypatch.setattr(verso_client, "Client", partial(verso_client.Client, http=http, sleep=lambda _: None))
    return server


@pytest.mark.parametrize(
    "option", [["--threads", "2"], ["--model", "mine.pt"], ["--device", "cuda"], ["--shortlist"]], ids=lambda o: o[0]
)
def test_options_of_this_machine_are_refused_with_a_server(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "--server", "http://localhost", "--target", "de", *option]) == 1
    assert capsys.readouterr().err == (
        f"error: {option[0]} is for translating on this machine; with --server the service decides it.\n"
    )


def test_without_the_client_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "verso_client", None)
    assert main(["translate", "--server", "http://localhost", "--target", "de"]) == 1
    assert "pip install ./client" in capsys.readouterr().err


def test_a_key_is_read_from_a_file(
    monkeypatch: pytest.MonkeyPatch, stdin: io.BytesIO, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key"
    file.write_text("verso_0123456789ab_secret\n", encoding="ascii")
    server = scripted(monkeypatch, httpx.Response(200, json=MODELS), httpx.Response(200, json=ANSWER))
    stdin.write(b"Hello.\n")
    stdin.seek(0)
    calls = ["translate", "--server", "http://localhost", "--target", "de", "--key-file"]
    assert main([*calls, str(file)]) == 0
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer verso_0123456789ab_secret"}
    assert main([*calls, str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert main(["translate", "--target", "de", "--key-file", str(file)]) == 1
    assert "--server" in capsys.readouterr().err


def test_no_server_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(monkeypatch, *[httpx.ConnectError("[Errno 111] Connection refused")] * 4)
    assert main(["translate", "--server", "http://localhost:81", "--target", "de"]) == 1
    assert capsys.readouterr().err == (
        "error: No connection to http://localhost:81: [Errno 111] Connection refused. Is the service running there?\n"
    )


def test_an_address_that_is_no_url_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--server", "localhost:8000", "--target", "de"]) == 1
    assert "error: The address of the service is 'localhost:8000'" in capsys.readouterr().err


def test_something_else_that_listens_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(monkeypatch, httpx.Response(200, text="<html>welcome</html>"))
    assert main(["translate", "--server", "http://localhost", "--target", "de"]) == 1
    assert "error: The answer does not come from a Verso service" in capsys.readouterr().err


def test_only_options_that_were_given_are_sent(monkeypatch: pytest.MonkeyPatch, stdin: io.BytesIO) -> None:
    server = scripted(monkeypatch, httpx.Response(200, json=MODELS), httpx.Response(200, json=ANSWER))
    stdin.write(b"Hello.\n")
    stdin.seek(0)
    assert main(["translate", "--server", "http://localhost", "--target", "de", "--beam-size", "2", "--quiet"]) == 0
    assert server.body() == {"text": ["Hello."], "target": "de", "beam_size": 2}


def test_a_beginning_is_sent_and_the_search_of_the_service_is_shown(
    monkeypatch: pytest.MonkeyPatch, stdin: io.BytesIO, capfd: pytest.CaptureFixture[str]
) -> None:
    end = {"id": 1, "parent": 0, "token": "</s>", "text": "", "log_prob": -0.25, "kept": True, "finished": True}
    searched = TRANSLATION | {"search": [{"step": 0, "hypotheses": [end]}]}
    answer = httpx.Response(200, json=ANSWER | {"translations": [searched]})
    server = scripted(monkeypatch, httpx.Response(200, json=MODELS), answer)
    stdin.write(b"Hello.\n")
    stdin.seek(0)
    more = ["--target-prefix", "Hallo.", "--search", "--quiet"]
    assert main(["translate", "--server", "http://localhost", "--target", "de", *more]) == 0
    assert server.body() == {"text": ["Hello."], "target": "de", "target_prefix": "Hallo.", "return_search": True}
    text, _, candidate = capfd.readouterr().out.splitlines()
    assert (text, candidate.split()) == ("Hallo.", ["0", "1", "0", "-0.250", "</s>", "ended"])


def test_many_and_long_texts_are_several_requests(monkeypatch: pytest.MonkeyPatch, stdin: io.BytesIO) -> None:
    lines = ["short"] * 100 + ["x" * 12_000, "y" * 6_000, "z" * 6_000]
    sizes = (64, 36, 1, 1, 1)
    answers = [httpx.Response(200, json=ANSWER | {"translations": [TRANSLATION] * size}) for size in sizes]
    server = scripted(monkeypatch, httpx.Response(200, json=MODELS), *answers)
    stdin.write("\n".join(lines).encode())
    stdin.seek(0)
    assert main(["translate", "--server", "http://localhost", "--target", "de", "--quiet"]) == 0
    assert len(server.requests) == 1 + len(sizes)


def test_a_text_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"error": problem(422, "language_not_detected").json()}
    scripted(
        monkeypatch,
        httpx.Response(200, json=MODELS),
        httpx.Response(200, json=ANSWER | {"translations": [TRANSLATION] * 64}),
        httpx.Response(200, json=ANSWER | {"translations": [TRANSLATION, failed]}, headers={"X-Request-ID": "r1"}),
    )
    stdin.write(b"Hello.\n" * 66)
    stdin.seek(0)
    assert main(["translate", "--server", "http://localhost", "--target", "de", "--quiet"]) == 1
    expected = "error: text 66: language_not_detected happened (language_not_detected, request r1)"
    assert expected in capsys.readouterr().err


def test_a_server_needs_no_torch_here() -> None:
    code = (
        "import sys; from app.commands.main import main\n"
        "assert main(['translate', '--server', 'http://localhost', '--threads', '2']) == 1\n"
        "assert not {'torch', 'pydantic', 'fastapi'} & set(sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["client", os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
