"""The service on Ray Serve on this machine, as a server under test: ``python -m benchmarks.ray_server --port 8000``.

One ingress and one engine replica. The settings are those of the environment, VERSO_*. Ray gets a larger
number of processors than there are, so that it starts all parts on those that it may use.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import ray
from ray import serve

from app.cluster.application import build
from benchmarks.servers import free_port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--own-port", action="store_true", help="the ingress answers there, instead of Ray's proxy")
    arguments = parser.parse_args()
    port: int = arguments.port
    own_port = {"port": port} if arguments.own_port else {}
    os.environ.pop("VERSO_PORT", None)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=100_000_000,
            namespace="serve",
            log_to_driver=False,
            _temp_dir=folder,
            runtime_env={"env_vars": {"PYTHONPATH": os.getcwd()}},
        )
        serve.start(http_options={"host": "127.0.0.1", "port": free_port() if own_port else port})
        serve.run(build({"num_cpus": 0.1, "ingress_cpus": 0.1, "min_replicas": 1, "max_replicas": 1, **own_port}))
        stop.wait()
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
