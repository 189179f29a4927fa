"""Ray Serve on this machine, with the application, its processes and load on it."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil

from tests.server import ROOT, free_port
from tests.toy import WORDS
from tests.waiting import until

PATIENCE_S = 180.0

# Read when ray is imported. Reports of load come quickly, so that tests of scaling need not wait for them.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5",
    "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5",
    # The machine may be busy.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
    "OMP_NUM_THREADS": "1",
}


class Cluster:
    """A Ray of this process with Ray Serve.

    Args:
        port: Where Ray Serve listens.
    """

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.address, timeout=PATIENCE_S, trust_env=False)

    def deploy(self, **arguments: Any) -> None:
        """Start the application, or update it, and wait until that is done and it is ready."""
        from ray import serve

        from app.cluster.application import build

        serve.run(build({"num_cpus": 0.1, "ingress_cpus": 0.1, **arguments}))
        until(lambda: self.client.get("/readyz").status_code == 200)

    def replicas(self, deployment: str = "engine") -> list[psutil.Process]:
        """The processes of a deployment."""
        return [
            process
            for process in psutil.Process().children(recursive=True)
            if f"ServeReplica:default:{deployment}" in _title(process)
        ]

    def num_running(self, deployment: str = "engine") -> int:
        """Replicas of a deployment that take requests."""
        from ray import serve

        states = serve.status().applications["default"].deployments[deployment].replica_states
        return int(states.get("RUNNING", 0))


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Ray and Ray Serve, ended afterwards."""
    os.environ.update(ENVIRONMENT)
    import ray
    from ray import serve

    port = free_port()
    # Ray's sockets lie in the folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        try:
            ray.init(
                num_cpus=4,
                include_dashboard=False,
                object_store_memory=100_000_000,
                namespace="serve",
                log_to_driver="TEST_RAY_LOG" in os.environ,
                _temp_dir=folder,
                runtime_env={"env_vars": {"PYTHONPATH": str(ROOT), **ENVIRONMENT}},
            )
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            running = Cluster(port)
            yield running
            running.client.close()
        finally:
            serve.shutdown()
            ray.shutdown()


def a_text(rng: random.Random, num_sentences: int) -> str:
    """A text of the toy language."""
    sentences = (" ".join(rng.choice(list(WORDS)) for _ in range(rng.randint(2, 5))) for _ in range(num_sentences))
    return " ".join(f"{words}." for words in sentences)


def translated(text: str) -> str:
    """Its translation."""
    return " ".join(WORDS[word.rstrip(".")] + "." * word.endswith(".") for word in text.split(" "))


class Callers:
    """Threads that send one request after another, and compare the answers.

    Args:
        address: The service.
        number: How many there are.
        ask: Sends a request; returns what came of it: ``ok``, or what is wrong.
    """

    def __init__(self, address: str, number: int, ask: Callable[[httpx.Client, random.Random], str]) -> None:
        self.outcomes: Counter[str] = Counter()
        self._address = address
        self._ask = ask
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(number)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        rng = random.Random(seed)
        with httpx.Client(base_url=self._address, timeout=PATIENCE_S, trust_env=False) as client:
            while not self._ending.is_set():
                try:
                    self.outcomes[self._ask(client, rng)] += 1
                except httpx.HTTPError as error:
                    self.outcomes[repr(error)] += 1
