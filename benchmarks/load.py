"""The service under load over HTTP, compared with a static server and one that translates a sentence at a time.

    python -m benchmarks.load

Servers are real processes; the callers are one more process, whose processor time is printed. All serve the shipped
translator in int8, with a beam of 4: Verso its bundle, the others the same weights converted for CTranslate2. An output
may be ten tokens longer than its source: for more than about thirty tokens that translator often loops, and would
continue to any limit. Every text is different, and Verso's cache is off.

First the best settings of the static server are determined: two workers with a thread each or one with two, and batches
of at most 8 or 32, whichever answers more with 64 callers; the one-at-a-time server gets one thread or two. The
throughput of the static server is called its capacity.

Then each server in turn, in random order for each rate and round, is started, warmed up and sent sentences at 50, 80,
95 and 120 % of that capacity; the others are not running. Sentences arrive as a Poisson process, four of five of 5 to
15 tokens and one of 60 to 96, the same for all servers, independent of earlier answers. Latency counts from the planned
time of sending. A caller has a timeout of some seconds, which is then its latency. Goodput counts the answers within
the deadline. 200 probes of /livez are sent at the same time.

Figures are medians over the rounds of each round's percentile; the ratio is the median of the rounds' ratios.

Another table has the latency of 1, 8 and 64 callers that send one sentence after another to Verso.

The cost of HTTP is measured with random weights: 64 callers send requests of 16 texts, each the next one after an
answer, compared with Translator.translate for all the texts in one process; rounds are interleaved, the number of
threads is the same. The callers use the same processors, so their time is subtracted:

    overhead  =  1 - bare seconds / (seconds over HTTP - processor seconds of the callers / number of cores)

Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.checkpoints import SHAPES, make_models, make_texts
from benchmarks.http_client import NO_ANSWER, Call, Load, Outcome, post, serve_clients, texts_of
from benchmarks.processes import OtherPrograms, Worker, describe_machine, machine_line, started
from benchmarks.servers import Server, running, static, verso
from benchmarks.shipped import make_shipped, shipped_tokenizer
from benchmarks.tables import RESULTS, markdown, percentile, rounded, write_json
from benchmarks.targets import HTTP_OVERHEAD, SHORT_P99
from benchmarks.traffic import SHORT_TOKENS, Mix, arrivals, sentence
from model.training.corpus import read_lines

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

CLIENTS = (1, 8, 64)
"""Numbers of callers that send one sentence after another."""

TEXTS_A_REQUEST = 16
"""Number of callers when the cost of HTTP is measured."""

OVERHEAD_TOKENS = (5, 40)
"""Source tokens in that measurement."""

OVERHEAD_ANSWER_TOKENS = 20
"""Output tokens in that measurement."""

WARM_UP_SENTENCES = 64

PARTS = ("load", "clients", "overhead")

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


def num_tokens_of_shipped() -> Callable[[str], int]:
    """A function that counts the tokens of an English text, including marker and end token."""
    tokenizer = shipped_tokenizer()
    return lambda text: len(tokenizer.encode(text, "de"))


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
        self._num_tokens = num_tokens_of_shipped()

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
                self._advance(f"what {server.name} can do")
        ours = verso(self._folder / "Verso int8", plan.num_threads)
        best[OURS] = (self._capacity(ours, NUM_CLIENTS), ours)
        self._advance(f"what {OURS} can do")
        ordered = [best[name] for name in (OURS, STATIC, ONE)]
        return [server for _, server in ordered], {server.name: rate for rate, server in ordered}

    def _capacity(self, server: Server, num_clients: int) -> float:
        """Answers per second to callers that send the next sentence after an answer."""
        # More sentences than can be answered in the time.
        calls = self._mixed(int(500 * self._plan.calibration_s), seed=7)
        with running(server) as up:
            self._warm_up(up.port)
            outcome: Outcome = self._client.run(
                Load(up.port, calls, num_clients, self._plan.patience_s, self._plan.calibration_s)
            )
        if any(answer.status != 200 for answer in outcome.answers):
            raise SystemExit(f"{server.name} refused sentences of {num_clients} callers")
        return len(outcome.answers) / outcome.seconds

    def _turn(self, server: Server, calls: list[Call]) -> tuple[dict[str, Any], list[str | None]]:
        """The answers of a server to arrivals: the figures, and the texts or None."""
        with running(server) as up:
            self._warm_up(up.port)
            others = OtherPrograms([os.getpid(), up.pid, self._client.pid])
            probes = probes_over(self._plan.seconds, self._plan.num_probes)
            outcome: Outcome = self._client.run(Load(up.port, calls, None, self._plan.patience_s, probes=probes))
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
        found = arrivals(rate, self._plan.seconds, self._num_tokens, seed)
        return [self._call(one.kind, one.text, one.at_s) for one in found]

    def _call(self, kind: str, text: str, at_s: float) -> Call:
        longest = self._num_tokens(text) + EXTRA_TOKENS
        return post(kind, at_s, text=text, target="de", max_new_tokens=longest, **self._plan.decoding)


def short_sentences(number: int) -> list[str]:
    """Generated English sentences of 5 to 15 tokens."""
    rng, num_tokens = random.Random(3), num_tokens_of_shipped()
    return [sentence(rng, num_tokens, *SHORT_TOKENS) for _ in range(number)]


def probes_over(seconds: float, number: int) -> list[Call]:
    """Calls of /livez, evenly spaced over some seconds."""
    return [Call("probe", "/livez", None, place * seconds / number) for place in range(number)]


def _ways(num_threads: int) -> list[tuple[int, int]]:
    """Numbers of workers and of threads per worker, for a total number of threads."""
    return list(dict.fromkeys([(num_threads, 1), (1, num_threads)]))


def _without_paths(server: Server) -> str:
    words = [word if "/" not in word else Path(word).name for word in server.command]
    return " ".join(["python", *words])


def _agreement(ours: Sequence[str | None], theirs: Sequence[str | None]) -> float:
    """Share of equal translations among the sentences that both answered."""
    both = [one == other for one, other in zip(ours, theirs, strict=True) if one is not None and other is not None]
    return round(sum(both) / len(both), 3) if both else 0.0


def summarise(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """The figures of a turn.

    Args:
        outcome: Outcome of an open loop.
        plan: The plan with deadline, timeout and duration.
    """
    found: dict[str, Any] = {}
    # A call that timed out counts with its timeout as latency; refused calls are counted separately below.
    for kind in ("short", "long", "probe"):
        waited = [
            1000 * min(answer.latency_s, plan.patience_s)
            for answer in (outcome.probes if kind == "probe" else outcome.answers)
            if answer.kind == kind and answer.status in (200, NO_ANSWER)
        ]
        for share in (0.5, 0.95, 0.99):
            found[f"{kind}_p{share * 100:.0f}_ms"] = rounded(percentile(waited, share)) if waited else None
    good = sum(answer.status == 200 and answer.latency_s <= plan.deadline_s for answer in outcome.answers)
    return {
        **found,
        "sentences": len(outcome.answers),
        "offered_per_s": rounded(len(outcome.answers) / plan.seconds),
        "goodput_per_s": rounded(good / plan.seconds),
        "refused": sum(answer.status not in (200, NO_ANSWER) for answer in outcome.answers),
        "given_up": sum(answer.status == NO_ANSWER for answer in outcome.answers),
        "callers_cpu_share": rounded(outcome.cpu_seconds / outcome.seconds / (os.cpu_count() or 1)),
    }


def _p99_ratios(turns: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, float | None]:
    """The ratio of the static server's p99 of short sentences to Verso's, by share of the capacity."""
    found: dict[str, float | None] = {}
    for share, servers in turns.items():
        ratios = [
            theirs["short_p99_ms"] / ours["short_p99_ms"]
            for ours, theirs in zip(servers[OURS], servers[STATIC], strict=True)
            if ours["short_p99_ms"] and theirs["short_p99_ms"]
        ]
        found[share] = rounded(statistics.median(ratios)) if ratios else None
    return found


def median_of(turns: Sequence[dict[str, Any]], name: str) -> float | None:
    """The median of a figure over the rounds; None if no round has it."""
    values = [turn[name] for turn in turns if turn[name] is not None]
    return statistics.median(values) if values else None


def load_report(figures: dict[str, Any], plan: Plan) -> str:
    """The load test's table and its target."""

    def ms(turns: Sequence[dict[str, Any]], name: str) -> str:
        value = median_of(turns, name)
        return "" if value is None else f"{value:,.0f}"

    rows = []
    for share, servers in figures["turns"].items():
        for name, turns in servers.items():
            rows.append(
                [
                    f"{float(share):.0%}, {name}",
                    *(ms(turns, f"short_p{part}_ms") for part in (50, 95, 99)),
                    *(ms(turns, f"long_p{part}_ms") for part in (50, 95, 99)),
                    f"{median_of(turns, 'goodput_per_s'):.1f} of {median_of(turns, 'offered_per_s'):.1f}",
                    f"{sum(turn['refused'] for turn in turns)}",
                    f"{sum(turn['given_up'] for turn in turns)}",
                    ms(turns, "probe_p99_ms"),
                    f"{median_of(turns, 'callers_cpu_share'):.0%}",
                ]
            )
    capacities = ", ".join(f"{name} {value:.1f}" for name, value in figures["capacities"].items())
    disturbed = [
        turn["other_programs_share"] for of in figures["turns"].values() for all_ in of.values() for turn in all_
    ]
    same = ", ".join(f"{name} {value:.0%}" for name, value in figures["same_answers_as_verso"].items())
    lines = [
        f"Maximal sentences per second: {capacities}.",
        *(f"{name}: {command}" for name, command in figures["commands"].items()),
        "",
        markdown(
            [
                "load, server",
                *("short p50 ms", "p95", "p99", "long p50 ms", "p95", "p99"),
                f"goodput per second (within {plan.deadline_s:g} s)",
                "refused",
                f"timed out ({plan.patience_s:g} s)",
                "/livez p99 ms",
                "callers' CPU",
            ],
            rows,
        ),
        "",
        f"Answers equal to Verso's, in the first turns: {same}.",
        f"Other programs used {statistics.median(disturbed):.0%} of the processors (median of the turns; at most "
        f"{max(disturbed):.0%}).",
    ]
    ratio = figures["static_over_verso_p99_short"].get(f"{TARGET_SHARE:g}")
    if ratio is not None:
        lines.append(
            f"Target: p99 of short sentences at {TARGET_SHARE:.0%} at least {SHORT_P99:g} times lower than with static "
            f"batches: {ratio:.2f} times, {'reached' if ratio >= SHORT_P99 else 'MISSED'}."
        )
    return "\n".join(lines)


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw the 99th percentile of short sentences by load.

    Args:
        figures: Figures of the load test.
        path: The PNG file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(7.0, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, marker in ((OURS, "o"), (STATIC, "s"), (ONE, "^")):
        points = [
            (float(share) * figures["capacities"][STATIC], value)
            for share, servers in figures["turns"].items()
            if (value := median_of(servers[name], "short_p99_ms")) is not None
        ]
        axes.plot([rate for rate, _ in points], [value for _, value in points], marker=marker, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"arriving sentences per second; capacity of static batches: {figures['capacities'][STATIC]:.0f}")
    axes.set_ylabel("milliseconds")
    axes.set_title("99th percentile of the latency of short sentences", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def measure_clients(
    bundle: Path, plan: Plan, sentences: Sequence[str], client: Worker, advance: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure 1, 8 and 64 callers that send one sentence after another; ``advance`` is called for each row.

    What they got answered is then translated offline, in one call.

    Args:
        bundle: The served bundle.
        plan: ``calibration_s`` is the duration of each measurement.
        sentences: Sent in order and repeatedly.
        client: Process of the callers.
        advance: Called with a description of the progress.
    """
    rows: list[dict[str, Any]] = []
    num_cores = len(os.sched_getaffinity(0))
    with (
        started("the bare engine", serve_bare, bundle, plan.num_threads) as bare,
        running(verso(bundle, plan.num_threads)) as up,
    ):
        bare.wait_until_loaded()
        bare.run((sentences[:WARM_UP_SENTENCES], {}))
        for decoding, num_clients in itertools.product(("greedy", "beam"), CLIENTS):
            # More sentences than can be answered in the time.
            endless = itertools.islice(itertools.cycle(sentences), int(2_000 * plan.calibration_s))
            calls = [post(decoding, text=text, target="de", decoding=decoding) for text in endless]
            client.run(Load(up.port, calls, num_clients, plan.patience_s, plan.calibration_s / 5))
            probes = probes_over(plan.calibration_s, plan.num_probes)
            outcome: Outcome = client.run(
                Load(up.port, calls, num_clients, plan.patience_s, plan.calibration_s, probes)
            )
            waited = [1000 * answer.latency_s for answer in outcome.answers]
            answered = list(itertools.islice(itertools.cycle(sentences), len(outcome.answers)))
            bare_s = bare.run((answered, {"decoding": decoding}))
            rows.append(
                {
                    "decoding": decoding,
                    "clients": num_clients,
                    "sentences_per_s": rounded(len(outcome.answers) / outcome.seconds),
                    **{f"p{100 * share:.0f}_ms": rounded(percentile(waited, share)) for share in (0.5, 0.95, 0.99)},
                    "livez_p99_ms": rounded(percentile([1000 * probe.latency_s for probe in outcome.probes], 0.99)),
                    "failed": sum(answer.status != 200 for answer in outcome.answers),
                    "offline_per_s": rounded(len(answered) / bare_s),
                    "callers_cpu_share": rounded(outcome.cpu_seconds / outcome.seconds / num_cores),
                    "share_of_offline": rounded(1 - overhead(bare_s, outcome.seconds, outcome.cpu_seconds, num_cores)),
                }
            )
            advance(f"{num_clients} callers, {decoding}")
    return rows


def clients_report(rows: Sequence[dict[str, Any]]) -> str:
    """The table of callers that send one sentence after another."""
    header = ["callers, one sentence per request", "sentences/s", "p50 ms", "p95", "p99", "/livez p99 ms", "failed"]
    header += ["offline", "callers' CPU", "of offline, without the callers"]
    figures = ("sentences_per_s", "p50_ms", "p95_ms", "p99_ms", "livez_p99_ms", "failed", "offline_per_s")
    shares = ("callers_cpu_share", "share_of_offline")
    return markdown(
        header,
        [
            [
                f"{row['clients']}, {row['decoding']}",
                *(f"{row[name]:,.0f}" for name in figures),
                *(f"{row[name]:.0%}" for name in shares),
            ]
            for row in rows
        ],
    )


def serve_bare(connection: Connection[Any, Any], bundle: Path, num_threads: int) -> None:
    """Main function of a worker process: translate the received texts, and send the seconds this took."""
    try:
        warnings.simplefilter("ignore")
        from model.translation.options import TranslationOptions
        from model.translator import Translator

        translator = Translator.load(bundle, num_threads=num_threads)
        connection.send(None)
        while (job := connection.recv()) is not None:
            texts, fields = job
            began = time.perf_counter()
            translator.translate(texts, TranslationOptions(**fields), target="de")
            connection.send(time.perf_counter() - began)
    except Exception:  # noqa: BLE001  (the parent reports any error)
        connection.send(traceback.format_exc())


def overhead(bare_s: float, http_s: float, callers_cpu_s: float, num_cores: int) -> float:
    """Share of the engine's throughput that is lost over HTTP, without the callers' own work.

    Args:
        bare_s: Seconds of the engine for the texts in one process.
        http_s: Seconds until all texts are answered over HTTP.
        callers_cpu_s: Processor time of the callers, in seconds.
        num_cores: Processors that callers and service share.
    """
    return 1 - bare_s / (http_s - callers_cpu_s / num_cores)


def measure_overhead(
    shape: str, folder: Path, plan: Plan, client: Worker, advance: Callable[[str], None]
) -> dict[str, Any]:
    """Measure the cost of HTTP, greedy and with a beam of 4; ``advance`` is called twice for each round of both.

    Args:
        shape: Shape of the model.
        folder: Folder for the model.
        plan: The extent of the measurement.
        client: Process of the callers.
        advance: Called with a description of the progress.
    """
    make_models(folder, SHAPES[shape], ["Verso int8"])
    bundle = folder / "Verso int8"
    num_cores = len(os.sched_getaffinity(0))
    # Everything is sent at once, so the last answers exceed the default deadline.
    server = verso(bundle, plan.num_threads, VERSO_DEADLINE_S="3600", VERSO_QUEUE_SENTENCES="100000")
    ways: dict[str, dict[str, Any]] = {"greedy": {"decoding": "greedy"}, "beam_4": {"decoding": "beam", "beam_size": 4}}
    found: dict[str, dict[str, Any]] = {way: {"rounds": []} for way in ways}
    number = NUM_CLIENTS * TEXTS_A_REQUEST * plan.overhead_requests
    answer = {"min_new_tokens": OVERHEAD_ANSWER_TOKENS, "max_new_tokens": OVERHEAD_ANSWER_TOKENS}
    with started("the bare engine", serve_bare, bundle, plan.num_threads) as bare, running(server) as up:
        bare.wait_until_loaded()
        for round_number in range(1 + plan.num_rounds):
            for way, fields in ways.items():
                count = number if round_number else 2 * NUM_CLIENTS
                texts = make_texts(count, folder, *OVERHEAD_TOKENS, seed=round_number)
                calls = [
                    post(way, text=texts[start : start + TEXTS_A_REQUEST], target="de", **fields, **answer)
                    for start in range(0, len(texts), TEXTS_A_REQUEST)
                ]
                bare_s = bare.run((texts, {**fields, **answer}))
                advance(f"overhead, {way}, bare")
                outcome: Outcome = client.run(Load(up.port, calls, NUM_CLIENTS, 3600.0))
                advance(f"overhead, {way}, HTTP")
                failed = [answer_.status for answer_ in outcome.answers if answer_.status != 200]
                if failed:
                    raise SystemExit(f"the service answered {failed[0]} to {len(failed)} requests")
                if not round_number:
                    continue  # the warm-up does not count
                found[way]["rounds"].append(
                    {
                        "texts": count,
                        "bare_s": rounded(bare_s),
                        "http_s": rounded(outcome.seconds),
                        "callers_cpu_s": rounded(outcome.cpu_seconds),
                        "raw": rounded(overhead(bare_s, outcome.seconds, 0.0, num_cores)),
                        "corrected": rounded(overhead(bare_s, outcome.seconds, outcome.cpu_seconds, num_cores)),
                    }
                )
    for figures in found.values():
        for name in ("raw", "corrected"):
            figures[name] = rounded(statistics.median(entry[name] for entry in figures["rounds"]))
    return {"shape": shape, "cores": num_cores, **found}


def overhead_report(figures: dict[str, Any]) -> str:
    """The table of the cost of HTTP, and its target."""
    rows = []
    for way in ("greedy", "beam_4"):
        rounds = figures[way]["rounds"]
        bare, over_http, cpu = (
            statistics.median(entry[name] for entry in rounds) for name in ("bare_s", "http_s", "callers_cpu_s")
        )
        reached = "reached" if figures[way]["corrected"] < HTTP_OVERHEAD else "MISSED"
        rows.append(
            [
                way.replace("_", " "),
                f"{rounds[0]['texts'] / bare:.1f}",
                f"{rounds[0]['texts'] / over_http:.1f}",
                f"{cpu:.2f} s of {over_http:.1f} s",
                f"{figures[way]['raw']:.1%}",
                f"{figures[way]['corrected']:.1%} {reached}",
            ]
        )
    header = ["HTTP", "bare texts/s", "over HTTP", "callers' CPU", "overhead", f"corrected (below {HTTP_OVERHEAD:.0%})"]
    return (
        f"{figures['shape']}: {SHAPES[figures['shape']]}; {NUM_CLIENTS} callers, {TEXTS_A_REQUEST} texts a request, "
        f"{OVERHEAD_ANSWER_TOKENS} tokens an answer, {figures['cores']} cores\n\n{markdown(header, rows)}"
    )


def main() -> int:
    """Start the servers, send requests and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS),
                        help="default: all")  # fmt: skip
    parser.add_argument("--shape", choices=[name for name in SHAPES if name != "shipped"],
                        help="shape of the random weights for the cost of HTTP; default base")  # fmt: skip
    parser.add_argument("--text", type=Path,
                        help="English sentences, sent one after another; default: generated sentences")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="rounds; default %(default)s")
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each turn; default %(default)s")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds within which an answer is good; default 2")
    parser.add_argument(
        "--patience", type=float, default=10.0, help="timeout of a caller in seconds; default %(default)s"
    )
    parser.add_argument("--beam", type=int, default=4, help="beam of the load test, 1 for greedy; default 4")
    parser.add_argument("--threads", type=int, default=2, help="threads of each server; default %(default)s")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for figures and plot; default %(default)s")
    parser.add_argument("--quick", action="store_true", help="measurements of seconds, as a test")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.seconds, arguments.deadline, arguments.patience, arguments.threads) <= 0:
        parser.error("--rounds, --seconds, --deadline, --patience and --threads must be above 0")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch warns of deprecations in every process
    plan = Plan(
        arguments.rounds,
        arguments.seconds,
        15.0,
        SHARES,
        arguments.deadline,
        arguments.patience,
        arguments.threads,
        arguments.beam,
    )
    if arguments.quick:
        os.environ.setdefault(
            "OMP_WAIT_POLICY", "PASSIVE"
        )  # threads that wait actively would slow down other processes
        plan = replace(
            plan,
            num_rounds=1,
            seconds=2.0,
            calibration_s=1.0,
            shares=(0.5, TARGET_SHARE),
            num_probes=10,
            overhead_requests=1,
        )
    shape = arguments.shape or ("toy" if arguments.quick else "base")
    figures: dict[str, Any] = {"machine": describe_machine(plan.num_threads)}
    print(machine_line(figures["machine"]), flush=True)
    turns = {
        "load": LoadTest.num_turns(plan),
        "clients": 2 * len(CLIENTS),
        "overhead": 4 * (1 + plan.num_rounds),
    }
    with (
        tqdm(total=sum(turns[part] for part in arguments.part), unit="turn", file=sys.stderr) as bar,
        tempfile.TemporaryDirectory() as folder_name,
        started("the callers", serve_clients) as client,
    ):
        client.wait_until_loaded()

        def advance(what: str) -> None:
            bar.set_description(what)
            bar.update()

        shipped, random_weights = Path(folder_name) / "shipped", Path(folder_name) / "random"
        shipped.mkdir()
        random_weights.mkdir()
        if {"load", "clients"} & set(arguments.part):
            make_shipped(shipped)
        for part in arguments.part:
            if part == "load":
                figures[part] = LoadTest(shipped, plan, client, advance).run()
                said = load_report(figures[part], plan)
                plot(figures[part], arguments.out / "load.png")
            elif part == "clients":
                sentences = read_lines(arguments.text) if arguments.text else short_sentences(2_000)
                figures[part] = measure_clients(shipped / "Verso int8", plan, sentences, client, advance)
                said = clients_report(figures[part])
            else:
                figures[part] = measure_overhead(shape, random_weights, plan, client, advance)
                said = overhead_report(figures[part])
            bar.clear()
            print(f"\n{said}\n", flush=True)
            # Parts measured separately do not overwrite each other.
            write_json({"machine": figures["machine"], part: figures[part]}, arguments.out / f"load-{part}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
