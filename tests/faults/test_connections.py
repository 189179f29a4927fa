"""Many connections, too many, and connections whose client has vanished."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.process import Process, running
from tests.faults.clients import POST, answer_s, connect, is_open
from tests.faults.machine import memory_bytes, open_files, open_sockets, processor_s
from tests.waiting import until

pytestmark = pytest.mark.faults

NUM_IDLE = 10_000
FEW_FILES = 256


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < NUM_IDLE + 500:
        pytest.skip(f"needs {NUM_IDLE + 500} open files; {hard} are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_idle_connections_cost_little_memory_and_no_answer() -> None:
    # The service begins with a low limit, as a login shell has it, and raises it.
    with running(["prlimit", "--nofile=1024:"], VERSO_CLIENT_TIMEOUT_S="30") as process, ExitStack() as stack:
        process.wait_until_ready()
        alone = min(answer_s(process) for _ in range(10))
        memory = memory_bytes(process)
        idle = [stack.enter_context(connect(process)) for _ in range(NUM_IDLE)]
        until(lambda: open_files(process) > NUM_IDLE, lambda: "all connections")
        beside = min(answer_s(process) for _ in range(10))
        each = (memory_bytes(process) - memory) / NUM_IDLE
        began, used = time.monotonic(), processor_s(process)
        time.sleep(2)
        share = (processor_s(process) - used) / (time.monotonic() - began)
        print(f"{each:.0f} bytes each; {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside; processor {share:.1%}")
        assert each < 20_000
        assert beside < 10
        assert share < 0.2
        assert all(is_open(item) for item in (idle[0], idle[-1]))
        until(lambda: open_files(process) < 100, lambda: "closed connections")  # nothing was sent on them


def test_more_connections_than_files_close_the_idle_ones_and_new_clients_are_answered() -> None:
    with running(["prlimit", f"--nofile={FEW_FILES}"]) as process, ExitStack() as stack:
        process.wait_until_ready()
        idle = [stack.enter_context(connect(process)) for _ in range(2 * FEW_FILES)]
        assert answer_s(process) < 10
        assert open_files(process) < FEW_FILES
        assert not is_open(idle[0]) and is_open(idle[-1])
        began, used = time.monotonic(), processor_s(process)
        time.sleep(2)
        assert (processor_s(process) - used) / (time.monotonic() - began) < 0.5
        warnings = [line for line in process.lines if "too many connections" in line]
        assert 0 < len(warnings) < 100
        assert process.popen.poll() is None


def test_requests_in_work_keep_their_connections_when_there_are_too_many(tmp_path: Path) -> None:
    files = ["prlimit", f"--nofile={FEW_FILES}"]
    with running(files, FAKE_STEP_GATE=str(tmp_path)) as process, ExitStack() as stack:
        process.wait_until_ready()
        working = [stack.enter_context(connect(process)) for _ in range(20)]
        for connection in working:
            connection.sendall(POST)
        until((tmp_path / "reached").exists, lambda: "a running sentence")
        for _ in range(2 * FEW_FILES):
            stack.enter_context(connect(process))
        with process.new_client() as client:
            assert client.get("/livez").status_code == 200
        (tmp_path / "open").touch()
        for connection in working:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")


VANISHING_CLIENT = """
import socket, subprocess, sys, time
port, sent, drop = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode(), sys.argv[3].split()
connection = socket.socket()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
connection.connect(("127.0.0.1", port))
connection.sendall(sent)
print(connection.recv(1) if sent.endswith(b"\\r\\n\\r\\n") else b"", flush=True)
sys.stdin.readline()
subprocess.run(drop, check=True)
print("gone", flush=True)
sys.stdin.read()
"""
"""In the service's network: connects, sends something, and is then behind a wall that drops every packet."""


@pytest.fixture
def alone() -> Iterator[Process]:
    """A service in a network of its own."""
    own_network = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']
    wall = [*own_network[:2], "sh", "-c", "ip link set lo up && iptables -A INPUT -p tcp --dport 9 -j DROP"]
    if sys.platform != "linux" or subprocess.run(wall, capture_output=True).returncode != 0:
        pytest.skip("networks cannot be made or walled off here; it needs root, Linux and iptables")
    with running(own_network, VERSO_PORT="8000", VERSO_CLIENT_TIMEOUT_S="5", VERSO_KEEP_ALIVE_S="5") as process:
        process.wait_for_line("ready")
        yield process


LONG_ANSWER = "GET /openapi.json HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param("GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n", id="after its answer"),
        pytest.param(LONG_ANSWER, id="while it reads"),
        pytest.param("POST /translate HTTP/1.1\\r\\nContent-Le", id="while it sends"),
    ],
)
def test_a_client_that_vanishes_without_a_word_does_not_keep_its_connection(alone: Process, sent: str) -> None:
    before = open_sockets(alone)
    enter = ["nsenter", f"--net=/proc/{alone.popen.pid}/ns/net"]
    drop = "iptables -I INPUT -p tcp -j DROP"
    with subprocess.Popen(
        [*enter, sys.executable, "-c", VANISHING_CLIENT, "8000", sent, drop],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdin is not None
        assert client.stdout.readline()
        until(lambda: open_sockets(alone) > before, lambda: "a connection")
        client.stdin.write("now\n")
        client.stdin.flush()
        assert client.stdout.readline() == "gone\n"
        until(lambda: open_sockets(alone) <= before, lambda: "an end of the connection")
    subprocess.run([*enter, "iptables", "-F"], check=True)
