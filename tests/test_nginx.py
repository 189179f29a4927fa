"""``deploy/nginx``: what clients see of three replicas behind nginx."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from app.settings import Settings
from tests.server import ROOT, free_port, served

DEPLOY = ROOT / "deploy" / "nginx"
PATIENCE_S = 60.0

needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

Answer = Callable[["Replica", BaseHTTPRequestHandler, bytes], None]


class Replica:
    """A stand-in for a replica, with a given answer; it records requests."""

    def __init__(self, number: int, answer: Answer) -> None:
        self.number = number
        self.asked: list[tuple[str, dict[str, str]]] = []
        replica = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                replica.asked.append((self.path, dict(self.headers)))
                answer(replica, self, body)

            do_GET = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = int(self.server.server_address[1])
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def says(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"{}") -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    """End the connection without an answer, as a replica does that is killed."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def configured(ports: list[int], port: int, folder: Path) -> Path:
    """The shipped configuration, but for addresses and folders."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for number, replica in enumerate(ports, 1):
        text = text.replace(f"verso-{number}:8000", f"127.0.0.1:{replica}")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}").replace("/tmp/", f"{folder}/")
    configuration = folder / "nginx.conf"
    configuration.write_text(text, encoding="utf-8")
    return configuration


@contextmanager
def nginx_before(ports: list[int], folder: Path) -> Iterator[httpx.Client]:
    """nginx with that configuration, and a client of it."""
    port = free_port()
    configuration = configured(ports, port, folder)
    directives = "daemon off;"
    if os.geteuid() == 0:
        directives += " user root;"  # another user could not enter the folder
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(configuration), "-g", directives],
        stderr=subprocess.DEVNULL,
    )
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE_S, limits=limits
        ) as client:
            end = time.monotonic() + PATIENCE_S
            while True:
                try:
                    client.get("/metrics")  # nginx answers this itself
                    break
                except httpx.TransportError:
                    assert time.monotonic() < end and process.poll() is None
                    time.sleep(0.02)
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@contextmanager
def replicas_behind_nginx(folder: Path, *answers: Answer) -> Iterator[tuple[httpx.Client, list[Replica]]]:
    """Stand-ins behind nginx; one answer is that of all three."""
    all_answers = answers if len(answers) == 3 else answers * 3
    replicas = [Replica(number, answer) for number, answer in enumerate(all_answers, 1)]
    try:
        with nginx_before([replica.port for replica in replicas], folder) as client:
            yield client, replicas
    finally:
        for replica in replicas:
            replica.close()


def test_the_compose_file_has_three_replicas_and_addresses_that_outlive_a_restart() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert set(services) == {"nginx", "verso-1", "verso-2", "verso-3"}
    names = dict(line.split(":") for line in services["nginx"]["extra_hosts"])
    (subnet,) = (item["subnet"] for item in compose["networks"]["replicas"]["ipam"]["config"])
    for number in (1, 2, 3):
        replica = services[f"verso-{number}"]
        assert names[f"verso-{number}"] == replica["networks"]["replicas"]["ipv4_address"]
        assert "ports" not in replica
        assert replica["environment"]["VERSO_TRUSTED_PROXIES"] == subnet, "else all callers have the address of nginx"
        assert replica["read_only"] and replica["cap_drop"] == ["ALL"]
    (network,) = compose["networks"]["replicas"]["ipam"]["config"]
    assert services["verso-1"]["environment"]["VERSO_TRUSTED_PROXIES"] == network["subnet"]
    assert services["nginx"]["read_only"] and services["nginx"]["cap_drop"] == ["ALL"]


def test_what_nginx_lets_pass_and_how_long_it_waits_fits_the_settings() -> None:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    settings = Settings()
    assert settings.max_body_bytes < 2100 * 1024 and "client_max_body_size 2100k;" in text
    assert settings.max_document_bytes < 11 * 1024 * 1024 and "client_max_body_size 11m;" in text
    assert settings.deadline_s < 35 and "proxy_next_upstream_timeout 35s;" in text and "proxy_read_timeout 65s;" in text
    assert settings.keep_alive_s > 20 and "keepalive_timeout 20s;" in text


@needs_nginx
def test_a_translation_goes_to_the_next_replica_if_one_dies_before_it_answers(tmp_path: Path) -> None:
    def dies(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        hangs_up(handler)

    def echoes(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 200, body)

    with replicas_behind_nginx(tmp_path, dies, dies, echoes) as (client, replicas):
        for path in ("/translate", "/attention", "/libretranslate/translate", "/under/a/root/translate"):
            response = client.post(path, content=b'{"text": "x"}')
            assert (response.status_code, response.content) == (200, b'{"text": "x"}'), path
        assert len(replicas[2].asked) == 4
        assert replicas[0].asked and replicas[1].asked
        ids = {headers["Idempotency-Key"] for replica in replicas for _, headers in replica.asked}
        assert len(ids) == 4, "a request and its repetitions have one id, and are counted once"


@needs_nginx
def test_what_changes_something_is_not_sent_twice(tmp_path: Path) -> None:
    def dies(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        hangs_up(handler)

    with replicas_behind_nginx(tmp_path, dies) as (client, replicas):
        for number, path in enumerate(("/documents", "/v2/document", "/v3/glossaries"), 1):
            response = client.post(path, content=b"x")
            assert response.status_code == 503
            assert response.headers["Content-Type"] == "application/problem+json"
            assert response.headers["Retry-After"] == "2"
            assert response.json()["code"] == "not_ready"
            assert sum(len(replica.asked) for replica in replicas) == number


@needs_nginx
def test_a_replica_that_refuses_is_passed_over(tmp_path: Path) -> None:
    def refuses(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 503)

    def takes(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 200)

    with replicas_behind_nginx(tmp_path, refuses, takes, refuses) as (client, _):
        assert [client.post("/translate", content=b"{}").status_code for _ in range(6)] == [200] * 6


@needs_nginx
@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_a_caller_over_its_limit_is_told_so_and_takes_no_replica_from_others(tmp_path: Path, path: str) -> None:
    def limits(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 429 if body == b"too much" else 200)

    with replicas_behind_nginx(tmp_path, limits) as (client, replicas):
        assert [client.post(path, content=b"too much").status_code for _ in range(6)] == [429] * 6
        assert sum(len(replica.asked) for replica in replicas) == 6  # each was asked of one
        assert [client.post(path, content=b"{}").status_code for _ in range(6)] == [200] * 6


@needs_nginx
def test_a_streamed_sentence_arrives_before_the_next_one_is_ready(tmp_path: Path) -> None:
    arrived = threading.Event()

    def streams(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"2\r\n1\n\r\n")
        assert arrived.wait(PATIENCE_S)
        handler.wfile.write(b"2\r\n2\n\r\n0\r\n\r\n")

    with (
        replicas_behind_nginx(tmp_path, streams) as (client, _),
        client.stream("POST", "/translate", content=b"{}") as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "1"
        arrived.set()
        assert list(lines) == ["2"]


@needs_nginx
def test_a_stream_that_breaks_off_is_not_begun_again(tmp_path: Path) -> None:
    def breaks(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"2\r\n1\n\r\n")
        hangs_up(handler)

    with replicas_behind_nginx(tmp_path, breaks) as (client, replicas):
        with pytest.raises(httpx.RemoteProtocolError):
            client.post("/translate", content=b"{}")
        assert sum(len(replica.asked) for replica in replicas) == 1


@needs_nginx
def test_a_caller_stays_with_the_replica_that_has_its_documents(tmp_path: Path) -> None:
    def names_itself(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 200, str(replica.number).encode())

    with replicas_behind_nginx(tmp_path, names_itself) as (client, _):
        of_address = {client.post(path).text for path in ("/documents", "/documents", "/documents/x/result")}
        of_key = {
            key: {
                client.post(path, headers={"Authorization": f"DeepL-Auth-Key {key}"}).text
                for path in ("/v2/document", "/v2/translate", "/v3/glossaries")
            }
            for key in map(str, range(12))
        }
        assert len(of_address) == 1
        assert all(len(numbers) == 1 for numbers in of_key.values())
        assert len(set().union(*of_key.values())) > 1


@needs_nginx
def test_a_replica_learns_who_asks_and_clients_cannot_pretend(tmp_path: Path) -> None:
    def answers(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 200)

    with replicas_behind_nginx(tmp_path, answers) as (client, replicas):
        pretended = {"X-Forwarded-For": "10.9.8.7", "Host": "verso.example"}
        client.get("/models", headers={**pretended, "X-Request-ID": "mine", "Idempotency-Key": "my-key"})
        (reported,) = (headers for replica in replicas for _, headers in replica.asked)
        assert reported["X-Forwarded-For"] == "127.0.0.1"
        assert reported["X-Forwarded-Proto"] == "http"
        assert reported["Host"] == "verso.example"
        assert (reported["X-Request-ID"], reported["Idempotency-Key"]) == ("mine", "my-key")
        client.get("/models")
        ids = {headers["X-Request-ID"] for replica in replicas for _, headers in replica.asked}
        assert len(ids - {"mine"}) == 1 and all(len(id) == 32 for id in ids - {"mine"})


@needs_nginx
def test_bodies_and_paths_for_operators_end_at_nginx(tmp_path: Path) -> None:
    def answers(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 200)

    with replicas_behind_nginx(tmp_path, answers) as (client, replicas):
        assert client.post("/translate", content=b"x" * 2_000_001).status_code == 200  # Verso refuses it
        assert client.post("/documents", content=b"x" * 10_000_001).status_code == 200
        refused = client.post("/translate", content=b"x" * 3_000_000)
        assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
        request = sum(len(replica.asked) for replica in replicas)
        for path in ("/metrics", "/admin/models", "/root/metrics"):
            assert client.get(path).status_code == 404
        assert sum(len(replica.asked) for replica in replicas) == request == 2


def status_of(client: httpx.Client, method: str, target: str) -> int:
    """The answer to a request whose target is sent as it is; httpx would resolve and encode parts of it."""
    with closing(HTTPConnection("127.0.0.1", client.base_url.port, timeout=PATIENCE_S)) as connection:
        connection.request(method, target, body=b"{}", headers={"Host": "127.0.0.1"})
        return connection.getresponse().status


@needs_nginx
def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    configuration = configured([1, 2, 3], free_port(), tmp_path)
    command = ["nginx", "-p", str(tmp_path), "-e", "stderr", "-t", "-c", str(configuration)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "[warn]" not in process.stderr


ADMIN = """
/admin /admin/ /admin/models /admin/models/v2/x /admin/models/v3/documents/translate /admin/models/x/download_file/y
/admin/models/translate /admin/models?x=/translate /admin/models#/translate /verso/admin/models/x
//admin/models/x /admin//models/x /v2//admin/models/x ///admin///models
/ADMIN/models/x /Admin/Models /aDmIn/models/v2/translate /metrics //metrics /METRICS
/%61dmin/models/x /admin%2fmodels%2fx /%41%44%4d%49%4e/models %2fadmin/models/x /%2fadmin/x /admin/models/%0a/translate
/./admin/models/x /translate/../admin/models/x /v2/..//admin/models /v2/%2e%2e/admin/models/x
/admin/models/../../translate /admin/models/v2/../../../v2/translate /admin/models/%2e%2e/%2E%2E/translate
/admin/models/..%2f..%2ftranslate /admin/models/.%2e/.%2e/translate /admin/../translate /%61dmin/%2e./detect
/admin/models/../../documents /admin/..?/translate /admin/models/../..
/admin/models/x/%2e%2e%2f%2e%2e%2f%2e%2e%2fv2/translate
http://127.0.0.1/admin/models/x http://127.0.0.1/admin/models/../../translate
"""

PASSED = """
/translate /verso/translate /v2/translate /libretranslate/translate /attention /detect /models /livez /docs /
/documents /documents/a.b..c/result /v2/document/x /v3/glossaries /v2/usage/... /download_file/a%20b.tar.gz
/translate?path=/../admin /page/administration.js
"""


@needs_nginx
def test_no_spelling_of_a_path_of_administration_reaches_a_replica(tmp_path: Path) -> None:
    def answers(replica: Replica, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        says(handler, 200)

    with replicas_behind_nginx(tmp_path, answers) as (client, replicas):
        for method in ("DELETE", "POST", "GET", "PUT"):
            for target in ADMIN.split():
                assert status_of(client, method, target) in (400, 404), (method, target)
        assert [replica.asked for replica in replicas] == [[], [], []]
        for target in PASSED.split():
            assert status_of(client, "POST", target) == 200, target
        calls = [path for replica in replicas for path, _ in replica.asked]
        assert sorted(calls) == sorted(PASSED.split())


@needs_nginx
@pytest.mark.slow
def test_no_translation_is_lost_when_a_replica_is_killed_and_another_drains(toy_bundle: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        replicas = [stack.enter_context(served(toy_bundle, VERSO_CACHE_BYTES="0")) for _ in range(3)]
        expected = {text: replicas[0].translate(text=text)["translations"][0]["text"] for text in TEXTS}
        client = stack.enter_context(
            nginx_before([int(replica.client.base_url.port or 0) for replica in replicas], tmp_path)
        )
        wrong: list[object] = []
        num_answered = [0] * 4
        event = threading.Event()

        def asks(caller: int) -> None:
            while not event.is_set():
                text = TEXTS[num_answered[caller] % len(TEXTS)]
                try:
                    response = client.post("/translate", json={"text": text, "target": "de"})
                    if response.status_code != 200 or response.json()["translations"][0]["text"] != expected[text]:
                        wrong.append((response.status_code, response.text))
                except httpx.HTTPError as error:
                    wrong.append(error)
                num_answered[caller] += 1

        callers = [threading.Thread(target=asks, args=(caller,)) for caller in range(4)]
        for caller in callers:
            caller.start()
        try:
            wait_for_more(num_answered, 40)
            replicas[0].popen.kill()
            wait_for_more(num_answered, 40)
            replicas[1].popen.send_signal(signal.SIGTERM)
            assert replicas[1].popen.wait(PATIENCE_S) == 0
            wait_for_more(num_answered, 40)
        finally:
            event.set()
            for caller in callers:
                caller.join()
        assert wrong == []
        replicas[2].popen.kill()
        replicas[2].popen.wait(PATIENCE_S)
        assert client.post("/translate", json={"text": "cat."}).json()["code"] == "not_ready"


TEXTS = ("cat.", "old dog.", "red house.", "tree sees dog.")


def wait_for_more(answered: list[int], more: int) -> None:
    expected, end = sum(answered) + more, time.monotonic() + PATIENCE_S
    while sum(answered) < expected:
        assert time.monotonic() < end
        time.sleep(0.02)


def answers_itself(path: str) -> bool:
    """Whether nginx refuses a path by itself: by the first expression that matches, as nginx takes them."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    locations = re.findall(r"location ~\*? (\S+) \{(.*?)\n        \}", text, re.DOTALL)
    assert len(locations) >= 5
    return next(("return 404" in body for pattern, body in locations if re.search(pattern, path)), False)


@pytest.mark.parametrize("root", ["", "/verso"])
@pytest.mark.parametrize(
    "name", ["", "/", "/models", "/models/v2/x", "/models/v3/x", "/models/documents", "/models/\nx"]
)
def test_no_path_of_administration_reaches_a_replica(root: str, name: str) -> None:
    for end in ("", "/translate", "/v2/translate", "/documents/a", "/translate_file", "/download_file/a", "\n", "/\nx"):
        assert answers_itself(f"{root}/admin{name}{end}"), (name, end)
    assert answers_itself(f"{root}/metrics")


@pytest.mark.parametrize(
    "path",
    [
        *("/translate", "/v2/translate", "/v2/document/a", "/documents", "/documents/a/result", "/", "/livez"),
        *("/administer", "/libretranslate/download_file/a.admin", "/page/metrics.js"),
    ],
)
def test_other_paths_reach_a_replica(path: str) -> None:
    assert not answers_itself(path)
