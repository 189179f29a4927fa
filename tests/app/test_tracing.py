from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import SettingsError
from app.main import create_app
from app.settings import Settings, load_settings
from app.telemetry.tracing import Tracing, current_trace
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.otlp_receiver import PATIENCE_S, Receiver, attributes_of, receiving
from tests.app.serving import client_of
from tests.server import ROOT, served

pytestmark = pytest.mark.anyio

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STAGES = {"prepare", "queue", "encode", "decode", "join"}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@asynccontextmanager
async def traced(endpoint: str | None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application; the spans have been sent when it ends."""
    app = create_app(Settings(**{**BUDGET, **settings}, otlp_endpoint=endpoint), FakeBundles(FakeTranslator()))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        yield client


async def translate(client: httpx.AsyncClient, text: Any = "good day", **headers: str) -> httpx.Response:
    return await client.post("/translate", json={"text": text, "source": "en", "target": "de"}, headers=headers)


async def test_a_request_and_its_stages_are_a_trace(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        response = await translate(client, **{"X-Request-ID": "mine"})
        assert response.status_code == 200
    assert set(receiver.paths) == {"/v1/traces"}
    assert receiver.resource["service.name"] == "verso"
    (request,) = receiver.named("POST /translate")
    assert {span.name for span in receiver.spans} == {"POST /translate", *STAGES}
    stages = {span.name: span for span in receiver.spans if span is not request and span.name in STAGES}
    for span in stages.values():
        assert (span.trace_id, span.parent_span_id) == (request.trace_id, request.span_id)
        assert request.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= request.end_time_unix_nano
    for first, then in (("prepare", "queue"), ("queue", "encode"), ("encode", "decode"), ("decode", "join")):
        assert stages[first].end_time_unix_nano <= stages[then].start_time_unix_nano, then
    reference = attributes_of(request)
    assert reference["http.route"] == "/translate"
    assert reference["http.response.status_code"] == 200
    assert reference["verso.request_id"] == "mine"
    assert (reference["verso.sentences"], reference["verso.sentences_decoded"]) == (1, 1)
    assert attributes_of(stages["decode"])["verso.model"] == "fake"
    assert attributes_of(stages["queue"])["verso.source_tokens"] == len("good day") + 2


async def test_no_text_is_in_a_span(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        await translate(client, ["a secret plan", "nan: another secret"])
        await client.post("/attention", json={"text": "a secret word", "source": "en", "target": "de"})
        await client.post("/translate", content=b'{"text": "broken secret')
        await client.get("/secret?text=secret")
        await client.post("/translate?secret=secret", json={"text": "secret", "secret": "secret"})
    assert len({span.trace_id for span in receiver.spans}) == 5
    assert not any(b"secret" in body.lower() for body in receiver.bodies)


async def test_the_trace_of_the_client_goes_on(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        received = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=7"}
        response = await translate(client, **received)
    (request,) = receiver.named("POST /translate")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert request.trace_state == "vendor=7"
    assert response.headers["traceparent"] == f"00-{TRACE}-{request.span_id.hex()}-01"


async def test_the_log_line_of_a_request_names_its_trace(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "app.requests")
    async with traced(receiver.endpoint) as client:
        await translate(client, traceparent=f"00-{TRACE}-{PARENT}-01")
    (line,) = (record for record in caplog.records if record.name == "app.requests")
    assert vars(line)["fields"]["trace_id"] == TRACE


async def test_probes_are_not_traced(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await client.get(path)).status_code == 200
    assert receiver.bodies == []


async def test_a_failure_is_an_error_with_its_code_and_a_refusal_is_none(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        assert (await translate(client, "boom")).status_code == 500
        assert (await translate(client, "")).status_code in (200, 422)
        assert (await client.get("/nowhere")).status_code == 404
    failed, *others = sorted(
        (span for span in receiver.spans if not span.parent_span_id), key=lambda span: span.start_time_unix_nano
    )
    assert failed.status.code == failed.status.STATUS_CODE_ERROR
    assert attributes_of(failed)["error.type"] == attributes_of(failed)["verso.code"] == "inference_failed"
    assert all(span.status.code == span.status.STATUS_CODE_UNSET for span in others)
    assert attributes_of(others[-1])["verso.code"] == "not_found"
    assert others[-1].name == "GET unmatched"


async def test_a_cached_sentence_has_no_stages_in_the_engine(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        await translate(client)
        await translate(client, traceparent=f"00-{TRACE}-{PARENT}-01")
    again = [span for span in receiver.spans if span.trace_id.hex() == TRACE]
    assert {span.name for span in again} == {"POST /translate", "prepare", "join"}


async def test_the_translation_of_a_document_is_not_in_the_trace_of_its_request(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        for name in ("one", "two"):
            file = {"file": (f"{name}.txt", f"day {name}".encode())}
            added = await client.post("/documents", files=file, data={"source": "en", "target": "de"})
            assert added.status_code == 202
            for _ in range(1_000):
                if (await client.get(f"/documents/{added.json()['id']}")).json()["status"] == "done":
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail("the document is not translated")
    assert len(receiver.named("POST /documents")) == 2
    assert receiver.named("decode") == []


async def test_a_stream_is_traced_to_its_end(receiver: Receiver) -> None:
    async with traced(receiver.endpoint) as client:
        response = await translate(client, ["one", "two"], Accept="application/x-ndjson")
        assert json.loads(response.text.splitlines()[-1])
    (request,) = receiver.named("POST /translate")
    assert {span.name for span in receiver.spans} == {"POST /translate", *STAGES}
    assert len(receiver.named("decode")) == len(receiver.named("join")) == 2
    assert all(span.end_time_unix_nano <= request.end_time_unix_nano for span in receiver.spans)


async def test_a_sentence_that_expires_shows_how_far_it_came(receiver: Receiver) -> None:
    app = create_app(
        Settings(**{**BUDGET, "deadline_s": 0.05}, otlp_endpoint=receiver.endpoint),
        FakeBundles(translator := FakeTranslator()),
    )
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        translator.step_gate.clear()
        assert (await translate(client)).status_code == 504
        translator.step_gate.set()
    (request,) = receiver.named("POST /translate")
    assert attributes_of(request)["error.type"] == "deadline_exceeded"
    assert receiver.named("queue")


@pytest.mark.parametrize("status", [400, 500, 503])
async def test_a_receiver_that_refuses_harms_no_request(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.telemetry.tracing._CLOSE_S", 0.2)
    with receiving(status) as receiver:
        async with traced(receiver.endpoint) as client:
            assert [(await translate(client, f"day {n}")).status_code for n in range(5)] == [200] * 5
        assert receiver.got.wait(PATIENCE_S)


async def test_a_receiver_that_is_gone_or_hangs_harms_no_request_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.telemetry.tracing._CLOSE_S", 0.2)
    with receiving() as removed:
        endpoint = removed.endpoint
    async with traced(endpoint) as client:
        assert (await translate(client)).status_code == 200
    with receiving(None) as hanging:
        async with traced(hanging.endpoint) as client:
            assert (await translate(client)).status_code == 200


async def test_nothing_is_traced_or_imported_unless_an_endpoint_is_set() -> None:
    async with traced(None) as client:
        response = await translate(client, traceparent=f"00-{TRACE}-{PARENT}-01")
    assert "traceparent" not in response.headers
    assert current_trace() is None
    program = """\
import sys
from app.main import create_app
from app.settings import Settings
create_app(Settings())
sys.exit(any(name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")) for name in sys.modules))
"""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, check=False).returncode == 0


async def test_an_endpoint_without_opentelemetry_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"pip install 'verso-translate\[telemetry\]'"):
        Tracing("http://127.0.0.1:4318", "1.0")


@pytest.mark.parametrize("value", ["localhost:4318", "grpc://localhost:4317", "http://", "4318"])
async def test_an_endpoint_is_a_url(value: str) -> None:
    with pytest.raises(SettingsError, match=r"VERSO_OTLP_ENDPOINT is .*http"):
        load_settings({"VERSO_OTLP_ENDPOINT": value})


@pytest.mark.parametrize("value", ["grpc://me:pass/word@localhost:4317", "me:pass/word@localhost:4317"])
async def test_the_password_in_an_endpoint_is_in_no_error(value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"VERSO_OTLP_ENDPOINT": value})
    assert "***@localhost:4317'; it must be" in str(refused.value)
    assert "word" not in str(refused.value) and "word" not in str(refused.value.__cause__)


@pytest.mark.slow
@pytest.mark.thorough
async def test_a_process_that_cannot_trace_says_why_on_one_line() -> None:
    program = """\
import sys
from app.commands.serve import main
sys.modules["opentelemetry.sdk.trace"] = None
sys.exit(main([], {"VERSO_PORT": "0", "VERSO_OTLP_ENDPOINT": "http://127.0.0.1:4318"}))
"""
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.startswith("verso: cannot start: VERSO_OTLP_ENDPOINT is set")
    assert len(process.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.thorough
async def test_a_process_that_is_told_to_stop_sends_its_last_spans(toy_bundle: Path, receiver: Receiver) -> None:
    with served(toy_bundle, VERSO_OTLP_ENDPOINT=receiver.endpoint) as server:
        text = server.translate(text="old dog.")["translations"][0]["text"]
        assert server.stop() == 0
    assert {span.name for span in receiver.spans} > STAGES
    assert not any(word in body for body in receiver.bodies for word in (b"old dog", text.encode()))
