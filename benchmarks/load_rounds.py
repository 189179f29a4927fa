"""The turns in which :mod:`benchmarks.load` sends the same arrivals to three servers."""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.http_client import NO_ANSWER, Call, Load, Outcome, post, texts_of
from benchmarks.processes import OtherPrograms, Worker
from benchmarks.servers import Server, running, static, verso
from benchmarks.shipped import token_counter
from benchmarks.tables import percentile, rounded
from benchmarks.traffic import Mix, arrivals

SHARES = (0.5, 0.8, 0.95, 1.2)
"""Arrival rates as shares of the static server's capacity."""

TARGET_SHARE = 0.8
"""Share at which the target is evaluated."""

MAX_BATCHES = (8, 32)
"""Candidates for the static server's best batch size: smaller batches have less padding if lengths differ."""

WAIT_MS = 10.0
"""Time its first sentence waits for others, in milliseconds."""

EXTRA_TOKENS = 10
"""Tokens that an output may have more than its source."""

NUM_PROBES = 200
"""Number of probes of /livez in each turn, evenly spaced."""

NUM_CLIENTS = 64
"""Number of callers when the maximal throughput is measured."""

WARM_UP_SENTENCES = 64

OURS, STATIC, ONE = "Verso", "static batches", "one at a time"


@dataclass(frozen=True)
class Plan:
    """The extent of the measurement.

    Args:
        num_rounds: Turns of each server at each rate.
        seconds: Duration of a turn.
        calibration_s: Duration of each measurement of the maximal throughput.
        shares: Arrival rates as shares of the static server's capacity.
        deadline_s: Maximal latency of an answer that counts as goodput.
        patience_s: Timeout of the callers.
        num_threads: Total threads of each server.
        beam_size: 1 is greedy.
        num_probes: Probes of /livez in a turn.
        overhead_requests: Requests of each caller in a round, when the cost of HTTP is measured.
    """

    num_rounds: int
    seconds: float
    calibration_s: float
    shares: tuple[float, ...]
    deadline_s: float
    patience_s: float
    num_threads: int
    beam_size: int
    num_probes: int = NUM_PROBES
    overhead_requests: int = 2

    @property
    def decoding(self) -> dict[str, Any]:
        """Fields of a request. The search ends by CTranslate2's rule, so that the work is the same for all servers."""
        if self.beam_size == 1:
            return {"decoding": "greedy", "scoring": "ct2"}
        return {"decoding": "beam", "beam_size": self.beam_size, "scoring": "ct2"}


class LoadTest:
    """Measures three servers with the same arrivals.

    Args:
        folder: Folder of the models from :func:`benchmarks.shipped.make_shipped`.
        plan: The extent of the measurement.
        client: Process of the callers.
        advance: Called after each turn with a description.
    """

    def __init__(self, folder: Path, plan: Plan, client: Worker, advance: Callable[[str], None]) -> None:
        self._folder = folder
        self._plan = plan
        self._client = client
        self._advance = advance
        self._num_tokens = token_counter()

    @staticmethod
    def num_turns(plan: Plan) -> int:
        """The number of calls of ``advance``."""
        ways = len(_ways(plan.num_threads))
        return ways * (len(MAX_BATCHES) + 1) + 1 + 3 * len(plan.shares) * plan.num_rounds

    def run(self) -> dict[str, Any]:
        """Measure everything; returns the figures, ready for JSON."""
        servers, capacities = self._calibrate()
        capacity = capacities[STATIC]
        rng = random.Random(0)
        turns: dict[str, dict[str, list[dict[str, Any]]]] = {
            f"{share:g}": {server.name: [] for server in servers} for share in self._plan.shares
        }
        agreement: dict[str, float] = {}
        for number in range(self._plan.num_rounds):
            for share in self._plan.shares:
                calls = self._calls(share * capacity, seed=1000 * number + round(100 * share))
                texts: dict[str, list[str | None]] = {}
                for server in rng.sample(servers, len(servers)):
                    figures, texts[server.name] = self._turn(server, calls)
                    turns[f"{share:g}"][server.name].append(figures)
                    self._advance(f"round {number + 1}, {share:.0%}, {server.name}")
                if not agreement:
                    agreement = {name: _agreement(texts[OURS], texts[name]) for name in (STATIC, ONE)}
        return {
            "seconds": self._plan.seconds,
            "beam_size": self._plan.beam_size,
            "deadline_s": self._plan.deadline_s,
            "patience_s": self._plan.patience_s,
            "capacities": {name: rounded(value) for name, value in capacities.items()},
            "commands": {server.name: _without_paths(server) for server in servers},
            "same_answers_as_verso": agreement,
            "turns": turns,
            "static_over_verso_p99_short": _p99_ratios(turns),
        }

    def _calibrate(self) -> tuple[list[Server], dict[str, float]]:
        """The servers in their best configuration, and their capacity in answers per second."""
        plan, model = self._plan, self._folder / "CTranslate2 int8"
        best: dict[str, tuple[float, Server]] = {}
        for num_workers, num_threads in _ways(plan.num_threads):
            candidates = [(static(ONE, model, 1, num_threads, 1, 0.0, plan.beam_size), 1)]
            for max_batch in MAX_BATCHES:
                batching = static(STATIC, model, num_workers, num_threads, max_batch, WAIT_MS, plan.beam_size)
                candidates.append((batching, NUM_CLIENTS))
            for server, num_clients in candidates:
                rate = self._capacity(server, num_clients)
                best[server.name] = max(best.get(server.name, (0.0, server)), (rate, server), key=lambda pair: pair[0])
                self._advance(f"capacity of {server.name}")
        service = verso(self._folder / "Verso int8", plan.num_threads)
        best[OURS] = (self._capacity(service, NUM_CLIENTS), service)
        self._advance(f"capacity of {OURS}")
        ordered = [best[name] for name in (OURS, STATIC, ONE)]
        return [server for _, server in ordered], {server.name: rate for rate, server in ordered}

    def _capacity(self, server: Server, num_clients: int) -> float:
        """Answers per second to callers that send the next sentence after an answer."""
        # More sentences than can be answered in the time.
        calls = self._mixed(int(500 * self._plan.calibration_s), seed=7)
        with running(server) as service:
            self._warm_up(service.port)
            outcome: Outcome = self._client.run(
                Load(service.port, calls, num_clients, self._plan.patience_s, self._plan.calibration_s)
            )
        if any(answer.status != 200 for answer in outcome.answers):
            raise SystemExit(f"{server.name} refused sentences of {num_clients} callers")
        return len(outcome.answers) / outcome.seconds

    def _turn(self, server: Server, calls: list[Call]) -> tuple[dict[str, Any], list[str | None]]:
        """The answers of a server to arrivals: the figures, and the texts or None."""
        with running(server) as service:
            self._warm_up(service.port)
            others = OtherPrograms([os.getpid(), service.pid, self._client.pid])
            probes = probes_over(self._plan.seconds, self._plan.num_probes)
            outcome: Outcome = self._client.run(Load(service.port, calls, None, self._plan.patience_s, probes=probes))
            disturbance = others.share()
        figures = summarise(outcome, self._plan)
        figures["other_programs_share"] = round(disturbance, 3)
        texts = [
            texts_of(answer)[0] if answer.status == 200 else None
            for answer in outcome.answers
            if answer.kind != "probe"
        ]
        return figures, texts

    def _warm_up(self, port: int) -> None:
        self._client.run(Load(port, self._mixed(WARM_UP_SENTENCES, seed=5), 8, self._plan.patience_s * 10))

    def _mixed(self, number: int, seed: int) -> list[Call]:
        mix = Mix(self._num_tokens, seed)
        return [self._call(*mix.draw(), 0.0) for _ in range(number)]

    def _calls(self, rate: float, seed: int) -> list[Call]:
        """Sentences with their times of sending."""
        planned = arrivals(rate, self._plan.seconds, self._num_tokens, seed)
        return [self._call(arrival.kind, arrival.text, arrival.at_s) for arrival in planned]

    def _call(self, kind: str, text: str, at_s: float) -> Call:
        longest = self._num_tokens(text) + EXTRA_TOKENS
        return post(kind, at_s, text=text, target="de", max_new_tokens=longest, **self._plan.decoding)


def probes_over(seconds: float, number: int) -> list[Call]:
    """Calls of /livez, evenly spaced over some seconds."""
    return [Call("probe", "/livez", None, index * seconds / number) for index in range(number)]


def _ways(num_threads: int) -> list[tuple[int, int]]:
    """Numbers of workers and of threads per worker, for a total number of threads."""
    return list(dict.fromkeys([(num_threads, 1), (1, num_threads)]))


def _without_paths(server: Server) -> str:
    words = [word if "/" not in word else Path(word).name for word in server.command]
    return " ".join(["python", *words])


def _agreement(texts: Sequence[str | None], others: Sequence[str | None]) -> float:
    """Share of equal translations among the sentences that both servers answered."""
    pairs = zip(texts, others, strict=True)
    equal = [text == other for text, other in pairs if text is not None and other is not None]
    return round(sum(equal) / len(equal), 3) if equal else 0.0


def summarise(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """The figures of a turn.

    Args:
        outcome: Outcome of an open loop.
        plan: The plan with deadline, timeout and duration.
    """
    percentiles: dict[str, Any] = {}
    # A call that timed out counts with its timeout as latency; refused calls are counted separately below.
    for kind in ("short", "long", "probe"):
        latencies_ms = [
            1000 * min(answer.latency_s, plan.patience_s)
            for answer in (outcome.probes if kind == "probe" else outcome.answers)
            if answer.kind == kind and answer.status in (200, NO_ANSWER)
        ]
        for share in (0.5, 0.95, 0.99):
            percentiles[f"{kind}_p{share * 100:.0f}_ms"] = (
                rounded(percentile(latencies_ms, share)) if latencies_ms else None
            )
    good = sum(answer.status == 200 and answer.latency_s <= plan.deadline_s for answer in outcome.answers)
    return {
        **percentiles,
        "sentences": len(outcome.answers),
        "offered_per_s": rounded(len(outcome.answers) / plan.seconds),
        "goodput_per_s": rounded(good / plan.seconds),
        "refused": sum(answer.status not in (200, NO_ANSWER) for answer in outcome.answers),
        "given_up": sum(answer.status == NO_ANSWER for answer in outcome.answers),
        "callers_cpu_share": rounded(outcome.cpu_seconds / outcome.seconds / (os.cpu_count() or 1)),
    }


def _p99_ratios(turns: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, float | None]:
    """The ratio of the static server's p99 of short sentences to Verso's, by share of the capacity."""
    by_share: dict[str, float | None] = {}
    for share, servers in turns.items():
        ratios = [
            static_turn["short_p99_ms"] / turn["short_p99_ms"]
            for turn, static_turn in zip(servers[OURS], servers[STATIC], strict=True)
            if turn["short_p99_ms"] and static_turn["short_p99_ms"]
        ]
        by_share[share] = rounded(statistics.median(ratios)) if ratios else None
    return by_share
