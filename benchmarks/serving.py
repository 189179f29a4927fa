"""How a running service does under load: sentences a second, latency, and whether it stays responsive meanwhile.

usage: python benchmarks/serving.py --url http://127.0.0.1:8000 --text FILE --clients 1 8 64
       (make bench, while make serve runs)

Every client sends one sentence a request, one request after the other. Before each measurement the service is warmed
up with the same number of clients. While the clients run, /livez is probed 200 times.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import httpx

from model.errors import DataError
from model.training.corpus import read_lines

PROBES = 200


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def run_clients(
    client: httpx.AsyncClient, sentences: list[str], num_clients: int, seconds: float, fields: dict[str, object]
) -> tuple[list[float], float]:
    """Let clients ask for a while; returns the latencies in seconds and how long it took."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        place = number
        while time.perf_counter() < end:
            began = time.perf_counter()
            response = await client.post("/translate", json={"text": sentences[place % len(sentences)], **fields})
            if response.status_code != 200:
                raise SystemExit(f"the service answered {response.status_code}: {response.text}")
            latencies.append(time.perf_counter() - began)
            place += num_clients

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(num_clients)))
    return latencies, time.perf_counter() - began


def probe(url: str, seconds: float) -> list[float]:
    """Latencies of /livez, spread over the time given; in a process of its own, which the clients do not delay."""
    address = httpx.URL(url)
    connection = http.client.HTTPConnection(address.host, address.port or 80, timeout=60)
    latencies: list[float] = []
    for _ in range(PROBES):
        began = time.perf_counter()
        connection.request("GET", "/livez")
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise SystemExit(f"/livez answered {response.status}")
        latencies.append(time.perf_counter() - began)
        time.sleep(seconds / PROBES)
    connection.close()
    return latencies


async def measure(arguments: argparse.Namespace) -> None:
    """Print one line for each way of decoding and number of clients."""
    sentences = read_lines(arguments.text)[: arguments.limit]
    limits = httpx.Limits(max_connections=max(arguments.clients))
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(base_url=arguments.url, timeout=120, limits=limits, trust_env=False) as client:
        for decoding, num_clients in itertools.product(arguments.decoding, arguments.clients):
            fields: dict[str, object] = {"source": arguments.source, "target": arguments.target, "decoding": decoding}
            await run_clients(client, sentences, num_clients, 2.0, fields)
            with ProcessPoolExecutor(1) as pool:
                probing = loop.run_in_executor(pool, probe, arguments.url, arguments.seconds * 0.9)
                latencies, elapsed = await run_clients(client, sentences, num_clients, arguments.seconds, fields)
                probes = await probing
            row = {
                "clients": num_clients,
                "decoding": decoding,
                "sentences_per_s": round(len(latencies) / elapsed, 1),
                "p50_ms": round(statistics.median(latencies) * 1000, 1),
                "p95_ms": round(percentile(latencies, 0.95) * 1000, 1),
                "p99_ms": round(percentile(latencies, 0.99) * 1000, 1),
                "livez_p99_ms": round(percentile(probes, 0.99) * 1000, 1),
            }
            print(json.dumps(row), flush=True)


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line (plain, .gz, .xz)")
    parser.add_argument("--limit", type=int, default=2000, help="sentences used; default 2000")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--decoding", nargs="+", choices=("greedy", "beam"), default=["greedy", "beam"])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each measurement; default 15")
    arguments = parser.parse_args()
    try:
        asyncio.run(measure(arguments))
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (httpx.TransportError, OSError) as error:
        print(f"error: no answer from {arguments.url} ({type(error).__name__}); is it running?", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
