"""The service under load, beside the usual home-made server and one that translates a sentence at a time, over HTTP.

    python -m benchmarks.load                          (make bench-load)

Servers are real processes; callers are one process more, whose processor time is printed. All serve the translator
that ships in int8, with a beam of 4: Verso its bundle, the others the same weights converted for CTranslate2. An answer
may be ten tokens longer than its source: beyond some thirty tokens that translator loses the thread, and would go on to
whatever bound there is. Every text is different, and Verso's cache is off.

First the home-made server gets its best settings: two workers with a thread each or one with two, and batches of at
most 8 or 32, whichever answers more with 64 callers; the one-at-a-time server gets one thread or two. What the
home-made one then answers a second is called its capacity.

Then each server in turn, in an order drawn anew for each rate and round, is started, warmed up and sent sentences at
50, 80, 95 and 120 % of that capacity; the others are not running. Sentences arrive as a Poisson process, four of five
of 5 to 15 tokens and one of 60 to 96, the same for all servers, and do not wait for earlier answers. Latency counts
from the time a sentence was to be sent. A caller gives up after some seconds; that is then its latency. Goodput counts
the answers that came within the deadline. 200 probes of /livez are sent meanwhile.

Figures are medians over the rounds of each round's percentile; the ratio is the median of the rounds' ratios.

Another table has what 1, 8 and 64 callers see who send one sentence after the other to Verso.

What HTTP costs is measured with random weights: 64 callers who send 16 texts a request, the next when the answer
is there, against Translator.translate with all the texts in one process; rounds are interleaved, the threads are the
same. As the callers use the same processors, their time is deducted:

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
"""Of the static server's capacity."""

TARGET_SHARE = 0.8
"""At which the target is judged."""

MAX_BATCHES = (8, 32)
"""Among which the static server's best is looked for: smaller batches waste less where lengths differ."""

WAIT_MS = 10.0
"""How long its first sentence waits for others."""

EXTRA_TOKENS = 10
"""That an answer may have beyond those of its source."""

NUM_PROBES = 200
"""Of /livez, spread over each turn."""

NUM_CLIENTS = 64
"""Where as much as possible is sent."""

CLIENTS = (1, 8, 64)
"""Where callers send one sentence after the other."""

TEXTS_A_REQUEST = 16
"""Where the cost of HTTP is measured."""

OVERHEAD_TOKENS = (5, 40)
"""Of a source there."""

OVERHEAD_ANSWER_TOKENS = 20
"""Of every answer there."""

WARM_UP_SENTENCES = 64

PARTS = ("load", "clients", "overhead")

OURS, STATIC, ONE = "Verso", "static batches", "one at a time"


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        num_rounds: Turns of each server at each rate.
        seconds: Of a turn.
        calibration_s: Of each measurement of what a server can do at most.
        shares: Of the static server's capacity.
        deadline_s: Within which an answer is good.
        patience_s: After which a caller gives up.
        num_threads: Of each server, in all.
        beam_size: 1 is greedy.
        num_probes: Of /livez in a turn.
        overhead_requests: Of each of the callers in a round, where the cost of HTTP is measured.
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
        """Fields of a request. A search ends by CTranslate2's rule, so that it is the same work for all."""
        if self.beam_size == 1:
            return {"decoding": "greedy", "scoring": "ct2"}
        return {"decoding": "beam", "beam_size": self.beam_size, "scoring": "ct2"}


def num_tokens_of_shipped() -> Callable[[str], int]:
    """What counts the tokens of an English text, marker and end token included."""
    tokenizer = shipped_tokenizer()
    return lambda text: len(tokenizer.encode(text, "de"))


class LoadTest:
    """Three servers under the same arrivals.

    Args:
        folder: The models, from :func:`benchmarks.shipped.make_shipped`.
        plan: How much to measure.
        client: The process of the callers.
        advance: Called after each turn with what is going on.
    """

    def __init__(self, folder: Path, plan: Plan, client: Worker, advance: Callable[[str], None]) -> None:
        self._folder = folder
        self._plan = plan
        self._client = client
        self._advance = advance
        self._num_tokens = num_tokens_of_shipped()

    @staticmethod
    def num_turns(plan: Plan) -> int:
        """How often ``advance`` will be called."""
        ways = len(_ways(plan.num_threads))
        return ways * (len(MAX_BATCHES) + 1) + 1 + 3 * len(plan.shares) * plan.num_rounds

    def run(self) -> dict[str, Any]:
        """Measure everything; returns the figures, ready for JSON."""
        servers, capacities = self._calibrate()
        capacity = capacities[STATIC]
        chance = random.Random(0)
        turns: dict[str, dict[str, list[dict[str, Any]]]] = {
            f"{share:g}": {server.name: [] for server in servers} for share in self._plan.shares
        }
        agreement: dict[str, float] = {}
        for number in range(self._plan.num_rounds):
            for share in self._plan.shares:
                calls = self._calls(share * capacity, seed=1000 * number + round(100 * share))
                texts: dict[str, list[str | None]] = {}
                for server in chance.sample(servers, len(servers)):
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
        """The servers at their best, and what each can answer a second."""
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
        """Answers a second to callers who send the next sentence when the last is answered."""
        # More than can be answered in the time.
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
        """A server's answers to arrivals: the figures, and the texts where there was one."""
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
        """Sentences at their times."""
        found = arrivals(rate, self._plan.seconds, self._num_tokens, seed)
        return [self._call(one.kind, one.text, one.at_s) for one in found]

    def _call(self, kind: str, text: str, at_s: float) -> Call:
        longest = self._num_tokens(text) + EXTRA_TOKENS
        return post(kind, at_s, text=text, target="de", max_new_tokens=longest, **self._plan.decoding)


def short_sentences(number: int) -> list[str]:
    """Made-up English sentences of 5 to 15 tokens."""
    chance, num_tokens = random.Random(3), num_tokens_of_shipped()
    return [sentence(chance, num_tokens, *SHORT_TOKENS) for _ in range(number)]


def probes_over(seconds: float, number: int) -> list[Call]:
    """Calls of /livez, evenly spread over some seconds."""
    return [Call("probe", "/livez", None, place * seconds / number) for place in range(number)]


def _ways(num_threads: int) -> list[tuple[int, int]]:
    """Workers and threads of each, for so many threads in all."""
    return list(dict.fromkeys([(num_threads, 1), (1, num_threads)]))


def _without_paths(server: Server) -> str:
    words = [word if "/" not in word else Path(word).name for word in server.command]
    return " ".join(["python", *words])


def _agreement(ours: Sequence[str | None], theirs: Sequence[str | None]) -> float:
    """Share of the sentences both answered that have the same translation."""
    both = [one == other for one, other in zip(ours, theirs, strict=True) if one is not None and other is not None]
    return round(sum(both) / len(both), 3) if both else 0.0


def summarise(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """What callers saw in a turn.

    Args:
        outcome: Of an open loop.
        plan: Its deadline, patience and length.
    """
    found: dict[str, Any] = {}
    # Who gave up waited as long as patience lasted; who was refused knows at once, and is counted below.
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
    """By share of the capacity: how many times lower Verso's p99 of short sentences is than the static server's."""
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
    """The median over the rounds of a figure; None where no round has it."""
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
        f"Sentences a second at most: {capacities}.",
        *(f"{name}: {command}" for name, command in figures["commands"].items()),
        "",
        markdown(
            [
                "load, server",
                *("short p50 ms", "p95", "p99", "long p50 ms", "p95", "p99"),
                f"good a second (within {plan.deadline_s:g} s)",
                "refused",
                f"gave up ({plan.patience_s:g} s)",
                "/livez p99 ms",
                "callers' CPU",
            ],
            rows,
        ),
        "",
        f"Answers the same as Verso's, in the first turns: {same}.",
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
    """The 99th percentile of short sentences against load.

    Args:
        figures: Of the load test.
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
    axes.set_xlabel(f"sentences a second that arrive; static batches can do {figures['capacities'][STATIC]:.0f}")
    axes.set_ylabel("milliseconds")
    axes.set_title("99th percentile of the latency of short sentences", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def measure_clients(
    bundle: Path, plan: Plan, sentences: Sequence[str], client: Worker, advance: Callable[[str], None]
) -> list[dict[str, Any]]:
    """What 1, 8 and 64 callers see who send one sentence after the other; ``advance`` is called for each line.

    Args:
        bundle: What the service serves.
        plan: ``calibration_s`` is the length of each measurement.
        sentences: Sent in order, again from the first when they run out.
        client: The process of the callers.
        advance: Called with what is going on.
    """
    rows: list[dict[str, Any]] = []
    with running(verso(bundle, plan.num_threads)) as up:
        for decoding, num_clients in itertools.product(("greedy", "beam"), CLIENTS):
            # More than can be answered in the time.
            endless = itertools.islice(itertools.cycle(sentences), int(2_000 * plan.calibration_s))
            calls = [post(decoding, text=text, target="de", decoding=decoding) for text in endless]
            client.run(Load(up.port, calls, num_clients, plan.patience_s, plan.calibration_s / 5))
            probes = probes_over(plan.calibration_s, plan.num_probes)
            outcome: Outcome = client.run(
                Load(up.port, calls, num_clients, plan.patience_s, plan.calibration_s, probes)
            )
            waited = [1000 * answer.latency_s for answer in outcome.answers]
            rows.append(
                {
                    "decoding": decoding,
                    "clients": num_clients,
                    "sentences_per_s": rounded(len(outcome.answers) / outcome.seconds),
                    **{f"p{100 * share:.0f}_ms": rounded(percentile(waited, share)) for share in (0.5, 0.95, 0.99)},
                    "livez_p99_ms": rounded(percentile([1000 * probe.latency_s for probe in outcome.probes], 0.99)),
                    "failed": sum(answer.status != 200 for answer in outcome.answers),
                }
            )
            advance(f"{num_clients} callers, {decoding}")
    return rows


def clients_report(rows: Sequence[dict[str, Any]]) -> str:
    """The table of callers who send one sentence after the other."""
    header = ["callers, one sentence a request", "sentences/s", "p50 ms", "p95", "p99", "/livez p99 ms", "failed"]
    figures = ("sentences_per_s", "p50_ms", "p95_ms", "p99_ms", "livez_p99_ms", "failed")
    return markdown(
        header,
        [[f"{row['clients']}, {row['decoding']}", *(f"{row[name]:,.0f}" for name in figures)] for row in rows],
    )


def serve_bare(connection: Connection[Any, Any], bundle: Path, num_threads: int) -> None:
    """A worker process's life: translate the texts it is given, and tell the seconds that took."""
    try:
        warnings.simplefilter("ignore")
        from model.decoding.options import DecodingOptions
        from model.translator import Translator

        translator = Translator.load(bundle, num_threads=num_threads)
        connection.send(None)
        while (job := connection.recv()) is not None:
            texts, fields = job
            began = time.perf_counter()
            translator.translate(texts, DecodingOptions(**fields))
            connection.send(time.perf_counter() - began)
    except Exception:  # noqa: BLE001  (whatever it is, the parent says so)
        connection.send(traceback.format_exc())


def overhead(bare_s: float, http_s: float, callers_cpu_s: float, num_cores: int) -> float:
    """Share of the bare engine's throughput that is lost over HTTP, the callers' own work deducted.

    Args:
        bare_s: Seconds the engine takes for the texts in one process.
        http_s: Seconds until all are answered over HTTP.
        callers_cpu_s: Processor time of the callers meanwhile, in seconds.
        num_cores: Processors they share with the service.
    """
    return 1 - bare_s / (http_s - callers_cpu_s / num_cores)


def measure_overhead(
    shape: str, folder: Path, plan: Plan, client: Worker, advance: Callable[[str], None]
) -> dict[str, Any]:
    """What HTTP costs, greedy and with a beam of 4; ``advance`` is called twice for each round of both.

    Args:
        shape: Of the model.
        folder: Where to make it.
        plan: How much to measure.
        client: The process of the callers.
        advance: Called with what is going on.
    """
    make_models(folder, SHAPES[shape], ["Verso int8"])
    bundle = folder / "Verso int8"
    num_cores = len(os.sched_getaffinity(0))
    # Everything is asked for at once: the last is answered long after a deadline meant for people.
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
                    continue  # that was the warm-up
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
    """The table of what HTTP costs, and its target."""
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
    """Start the servers, send, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS),
                        help="default all of them")  # fmt: skip
    parser.add_argument("--shape", choices=[name for name in SHAPES if name != "shipped"],
                        help="of the random weights with which the cost of HTTP is measured; default base")  # fmt: skip
    parser.add_argument("--text", type=Path,
                        help="English sentences of the callers who send one after the other; else made up")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--seconds", type=float, default=30.0, help="of arrivals in each turn; default 30")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds within which an answer is good; default 2")
    parser.add_argument(
        "--patience", type=float, default=10.0, help="seconds after which a caller gives up; default 10"
    )
    parser.add_argument("--beam", type=int, default=4, help="beam of the load test, 1 for greedy; default 4")
    parser.add_argument("--threads", type=int, default=2, help="for each server; default 2")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for figures and plot; default %(default)s")
    parser.add_argument("--quick", action="store_true", help="seconds of everything, to see whether it runs")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.seconds, arguments.deadline, arguments.patience, arguments.threads) <= 0:
        parser.error("--rounds, --seconds, --deadline, --patience and --threads must be above 0")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns of deprecations in every process
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
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait actively would hold up others
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
            # Parts measured one at a time do not overwrite each other.
            write_json({"machine": figures["machine"], part: figures[part]}, arguments.out / f"load-{part}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
