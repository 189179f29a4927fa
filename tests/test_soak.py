"""An hour of mixed load on a real server: every answer is correct, and memory does not grow.

Run with ``python -m pytest -m soak -s``; ``VERSO_SOAK_MINUTES`` sets the length (default 60; under 5 the figures mean
little). Short and long sentences, greedy and beams up to 8, several hypotheses, repeated sentences, attention and
alignments, disconnects and exceeded deadlines are mixed, from clients that wait for their answers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from model.artifacts.archive import write_bundle
from model.artifacts.bundle import Manifest
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.pretrained import PRETRAINED, preferred_precision
from model.artifacts.script import script
from model.text.hf_tokenizers import OWN_SPM

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 120.0
NUM_CLIENTS = 6
SAMPLE_S = 2.0
DRIFT_BOUND = 0.02
LIVEZ_BOUND_S = 0.25
DEADLINE_S = 10.0
CACHE_BYTES = 500_000
"""Small, so that it is full after the first minute and entries are evicted from then on."""

SUBJECTS = ("the teacher", "my sister", "a tall man", "nobody", "the dog", "our neighbour", "the crew", "every child")
VERBS = ("saw", "forgot", "repaired", "painted", "bought", "lost", "described", "moved")
OBJECTS = ("the bridge", "two letters", "a red chair", "the old map", "his watch", "a garden", "the window", "tickets")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped translator as a bundle; the comparison with float32 takes minutes and is tested elsewhere."""
    checkpoint = load_checkpoint(PRETRAINED)
    precision = preferred_precision("cpu")
    path = tmp_path_factory.mktemp("soak") / "shipped.pt"
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, precision)
    write_bundle(script(checkpoint.build(), precision), manifest, {OWN_SPM: checkpoint.own_tokenizer.model_proto}, path)
    return path


class Server:
    """``python -m app`` with a bundle."""

    def __init__(self, bundle: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("VERSO_")}
        told = {
            "VERSO_MODEL": str(bundle),
            "VERSO_PORT": "0",
            "VERSO_DEVICE": "cpu",
            "VERSO_DEADLINE_S": str(DEADLINE_S),
            "VERSO_CACHE_BYTES": str(CACHE_BYTES),
        }
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app"], cwd=ROOT, env=clean | told, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            # An hour writes a million lines about requests.
            self.lines.extend(line for line in lines if '"logger": "app.requests"' not in line)

    def wait_until_ready(self) -> str:
        """Wait until the server is ready; returns its address."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            assert self.process.poll() is None, self.lines
            messages = [json.loads(line) for line in list(self.lines) if line.startswith("{")]
            if any(message["message"] == "ready" for message in messages):
                return str(next(message["address"] for message in messages if "address" in message))
            time.sleep(0.1)
        raise AssertionError(f"not ready: {self.lines}")

    def resident_bytes(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)


def clause(rng: random.Random) -> str:
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}"


def sentence(rng: random.Random, num_clauses: int = 1) -> str:
    return " and ".join(clause(rng) for _ in range(num_clauses)).capitalize() + f" {rng.randint(0, 9999)} times."


class Load:
    """Clients that send requests, and the outcomes.

    Args:
        address: Address of the server.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.kinds: Counter[str] = Counter()
        self.unexpected: list[str] = []
        rng = random.Random(0)
        self._repeated = [sentence(rng, 1 + number % 3) for number in range(40)]
        with self._client() as client:
            answers = client.post("/translate", json=self._asked(self._repeated, decoding="greedy")).json()
        self._expected = dict(zip(self._repeated, (found["text"] for found in answers["translations"]), strict=True))
        makers = [self._ordinary] * NUM_CLIENTS + [self._too_much]
        self._threads = [threading.Thread(target=maker, args=(number,)) for number, maker in enumerate(makers, 1)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._address, timeout=PATIENCE_S, trust_env=False)

    def _asked(self, texts: list[str], **fields: Any) -> dict[str, Any]:
        return {"text": texts, "source": "en", "target": "de", **fields}

    def _count(self, kind: str, unexpected: str | None = None) -> None:
        with self._lock:
            self.kinds[kind] += 1
            if unexpected is not None:
                self.unexpected.append(f"{kind}: {unexpected}")

    def _ordinary(self, seed: int) -> None:
        rng = random.Random(seed)
        kinds = [self._short] * 10 + [self._long] * 3 + [self._again] * 3 + [self._several, self._attention, self._left]
        with self._client() as client:
            while not self._over.is_set():
                kind = rng.choice(kinds)
                name = kind.__name__.strip("_")
                try:
                    self._count(name, kind(client, rng))
                except httpx.HTTPError as error:
                    self._count(name, repr(error))
                    self._over.wait(1.0)

    def _short(self, client: httpx.Client, rng: random.Random) -> str | None:
        width = rng.choice([1, 1, 2, 4, 4, 8])
        how = {"decoding": "greedy"} if width == 1 else {"beam_size": width}
        return _wrong(client.post("/translate", json=self._asked([sentence(rng)] * rng.randint(1, 3), **how)))

    def _long(self, client: httpx.Client, rng: random.Random) -> str | None:
        texts = [" ".join(sentence(rng, rng.randint(1, 6)) for _ in range(rng.randint(1, 5)))]
        return _wrong(client.post("/translate", json=self._asked(texts, beam_size=rng.choice([2, 4]))))

    def _again(self, client: httpx.Client, rng: random.Random) -> str | None:
        texts = rng.sample(self._repeated, 4)
        answer = client.post("/translate", json=self._asked(texts, decoding="greedy"))
        wrong = _wrong(answer)
        if wrong is None:
            found = [translation["text"] for translation in answer.json()["translations"]]
            if found != [self._expected[text] for text in texts]:
                return f"other answers than at the beginning: {found}"
        return wrong

    def _several(self, client: httpx.Client, rng: random.Random) -> str | None:
        more = {"num_hypotheses": 4, "return_scores": True, "return_alignment": True}
        answer = client.post("/translate", json=self._asked([sentence(rng, 2), sentence(rng)], **more))
        wrong = _wrong(answer)
        if wrong is None and any(len(one["alternatives"]) != 3 for one in answer.json()["translations"]):
            return "alternatives are missing"
        return wrong

    def _attention(self, client: httpx.Client, rng: random.Random) -> str | None:
        return _wrong(client.post("/attention", json={"text": sentence(rng, 2), "source": "en", "target": "de"}))

    def _left(self, client: httpx.Client, rng: random.Random) -> str | None:
        texts = [sentence(rng, 6) for _ in range(8)]
        try:
            return _wrong(client.post("/translate", json=self._asked(texts), timeout=rng.uniform(0.01, 0.2)))
        except httpx.TimeoutException:
            return None

    def _too_much(self, seed: int) -> None:
        """Occasional requests that exceed their deadline."""
        rng = random.Random(seed)
        with self._client() as client:
            while not self._over.wait(20.0):
                texts = [" ".join(sentence(rng, 4) for _ in range(100)) for _ in range(30)]
                answer = client.post("/translate", json=self._asked(texts, beam_size=8))
                late = {504: "deadline_exceeded", 429: "deadline_unreachable"}
                expected = answer.status_code in late and answer.json()["code"] == late[answer.status_code]
                self._count("too_much", None if expected else f"{answer.status_code} {answer.text[:200]}")


def _wrong(answer: httpx.Response) -> str | None:
    return None if answer.status_code == 200 else f"{answer.status_code} {answer.text[:200]}"


@contextmanager
def load_on(address: str) -> Iterator[Load]:
    load = Load(address)
    try:
        yield load
    finally:
        load.end()


@pytest.mark.soak
def test_memory_is_stable_and_responses_are_correct_under_mixed_load(bundle: Path) -> None:
    length_s = float(os.environ.get("VERSO_SOAK_MINUTES", "60")) * 60
    resident: list[int] = []
    livez_s: list[float] = []
    server = Server(bundle)
    try:
        address = server.wait_until_ready()
        with load_on(address) as load, httpx.Client(base_url=address, timeout=PATIENCE_S, trust_env=False) as client:
            end = time.monotonic() + length_s
            while time.monotonic() < end:
                time.sleep(SAMPLE_S)
                began = time.perf_counter()
                assert client.get("/livez").status_code == 200
                livez_s.append(time.perf_counter() - began)
                resident.append(server.resident_bytes())
            metrics = client.get("/metrics").text
        assert server.stop() == 0
    finally:
        server.close()
    tenth = len(resident) // 10
    medians = [statistics.median(resident[n * tenth : (n + 1) * tenth]) / 1e6 for n in range(10)]
    drift = medians[-1] / medians[1] - 1
    livez_s.sort()
    p99_s = livez_s[int(0.99 * len(livez_s))]
    print(f"\n{length_s / 60:.0f} minutes, {sum(load.kinds.values())} requests: {dict(load.kinds)}")
    print("resident memory, median of each tenth, MB:", *(f"{median:.1f}" for median in medians))
    print(
        f"drift from the second tenth to the last: {drift:+.2%}; /livez p50 {statistics.median(livez_s) * 1000:.1f} ms"
    )
    print(f"/livez p99 {p99_s * 1000:.1f} ms; unexpected: {len(load.unexpected)}")
    print(
        *(line for line in metrics.splitlines() if line.startswith(("verso_cache", "verso_coal", "verso_sentences_t"))),
        sep="\n",
    )
    print(*load.unexpected[:20], sep="\n")
    assert not load.unexpected
    assert set(load.kinds) == {"short", "long", "again", "several", "attention", "left", "too_much"}
    assert 'outcome="cancelled"' in metrics and 'outcome="expired"' in metrics
    assert p99_s < LIVEZ_BOUND_S
    assert drift < DRIFT_BOUND
