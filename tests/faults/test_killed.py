"""A service that is killed while it works, and started again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pytest

from app.accounts.store import KeyStore
from app.accounts.usage import UsageStore
from tests.app.process import running
from tests.server import free_port
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.faults

FIELDS = {"source": "en", "target": "de"}
NUM_CLIENTS = 4
NUM_KILLS = 2
NUM_REQUESTS = 80


@pytest.fixture
def port() -> str:
    """A port that is free."""
    return str(free_port())


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A file of keys, and a key."""
    path = tmp_path / "keys.sqlite"
    with closing(KeyStore(path)) as store:
        yield path, store.create("k", ("translate", "documents"), time.time())[1].text


def ask(client: httpx.Client, number: int, headers: dict[str, str]) -> bool:
    """Send a request once; returns whether it was answered."""
    text = f"request number {number:05}"
    try:
        answer = client.post("/translate", json={"text": text, **FIELDS}, headers=headers)
    except httpx.TransportError:
        return False
    if answer.status_code == 503:
        return False  # the model is loading
    assert answer.json()["translations"][0]["text"] == text.upper()
    return True


@pytest.mark.parametrize("repeatable", [True, False])
def test_killed_again_and_again_every_answer_is_counted_once(
    tmp_path: Path, port: str, keys: tuple[Path, str], repeatable: bool
) -> None:
    path, token = keys
    rng = random.Random(7)
    numbers = iter(range(NUM_REQUESTS))
    lock = threading.Lock()
    num_answered = num_tries = 0

    def client_of_the_service() -> None:
        nonlocal num_answered, num_tries
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False) as client:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                if repeatable:
                    headers["Idempotency-Key"] = f"request-{number}"
                while not ask(client, number, headers):
                    with lock:
                        num_tries += 1
                    time.sleep(0.05)
                with lock:
                    num_answered += 1

    def has_answered(number: int) -> bool:
        return num_answered >= number

    settings = {"VERSO_PORT": port, "VERSO_KEYS_DB": str(path), "FAKE_STEP_S": "0.005", "VERSO_CACHE_BYTES": "0"}
    with ThreadPoolExecutor(NUM_CLIENTS) as pool:
        clients = [pool.submit(client_of_the_service) for _ in range(NUM_CLIENTS)]
        for kill in range(1, NUM_KILLS + 1):
            with running(**settings) as process:
                until(partial(has_answered, kill * 15), lambda: f"{num_answered} answers")
                time.sleep(rng.random() * 0.2)
                process.popen.kill()
        with running(**settings):
            for item in clients:
                item.result(PATIENCE_S)
    with closing(UsageStore(path)) as usage:
        (used,) = usage.all()
    assert num_answered == NUM_REQUESTS
    assert used.characters == used.requests * len("request number 00000")
    if repeatable:
        assert used.requests == NUM_REQUESTS
    else:  # an answer that a kill kept from its client may be counted, and its repetition is another request
        assert NUM_REQUESTS <= used.requests <= NUM_REQUESTS + NUM_KILLS * NUM_CLIENTS


def test_a_document_of_a_killed_service_is_counted_once_and_translated_behind_what_was_stored(
    tmp_path: Path, keys: tuple[Path, str]
) -> None:
    path, token = keys
    paragraphs = [f"paragraph number {number:03}." for number in range(80)]
    settings = {"VERSO_KEYS_DB": str(path), "VERSO_DATA_DIR": str(tmp_path / "data"), "VERSO_CACHE_BYTES": "0"}
    headers = {"Authorization": f"Bearer {token}"}
    before: list[int] = [0]
    with running(**settings, FAKE_STEP_S="0.01") as process, process.new_client() as client:
        process.wait_until_ready()
        client.headers.update(headers)
        form = {**FIELDS, "decoding": "greedy"}
        response = client.post("/documents", files={"file": ("a.txt", "\n\n".join(paragraphs))}, data=form)
        url = f"/documents/{response.json()['id']}"
    for steps in ("0.01", "0"):  # killed once more on its way
        with running(**settings, FAKE_STEP_S=steps) as process, process.new_client() as client:
            process.wait_until_ready()
            client.headers.update(headers)
            if steps == "0":
                until(lambda: client.get(url).json()["status"] == "done", lambda: "a document that is done")
                assert client.get(f"{url}/result").text == "\n\n".join(paragraphs).upper()
            else:
                until(lambda: client.get(url).json()["sentences"]["done"] > before[-1], lambda: "progress")
            sentences = client.get(url).json()["sentences"]
            assert sentences["done"] >= before[-1]
            before.append(sentences["done"])
    assert sentences == {"done": 80, "total": 80}
    with closing(UsageStore(path)) as usage:
        assert [(item.requests, item.characters) for item in usage.all()] == [(1, sum(map(len, paragraphs)))]
