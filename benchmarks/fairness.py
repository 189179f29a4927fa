"""What callers do to one another, and how good the estimates are that requests are refused by.

    python -m benchmarks.fairness

The shipped translator in one process, without HTTP and without a cache; every sentence has 5 to 15 tokens and is
decoded with the default beam.

First the latency of single sentences, one after the other: of each of 65 callers; then of one caller beside another who
has 10,000 sentences queued, in requests of one, of 50 and of all, and as bulk. The target is a p95 under twice that of
the 65.

Then estimates. Six callers send requests of 1 to 200 sentences, at 130 % of what the model can do, and all are
admitted; in a second run 64 callers send single sentences meanwhile. The estimate at admission is compared with the
time taken, for requests that take more than a second. With a deadline of 5 s, the requests are counted that would have
been refused: of those that took longer, and of the others. The target is a median error under 25 %.

Nothing else should run on the machine at the same time; the share that other programs used is printed.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.engine.caller import Caller, Priority
from app.engine.capacity import BudgetFinder
from app.engine.engine import Engine
from app.engine.scheduler import Budget, Scheduler
from app.errors import DeadlineUnreachable
from app.telemetry.metrics import Metrics
from benchmarks.processes import OtherPrograms, describe_machine, machine_line
from benchmarks.tables import markdown, percentile
from benchmarks.traffic import SHORT_TOKENS, sentence
from model.artifacts.pretrained import build_pretrained
from model.decoding.options import DecodingOptions, Outcome
from model.decoding.sentence import DecodingRequest
from model.translator import Translator

QUEUED = 10_000
"""Sentences of the other caller."""

CROWD = 65
"""Callers of single sentences."""

DEADLINE_S = 5.0
"""Deadline in the table of estimates."""

SIZES = (1, 20, 50, 100, 200)
"""Sentences of a request, in the measurement of estimates."""

LOAD = 1.3
"""Arrival rate of these requests, as a share of the throughput."""


@dataclass(eq=False)
class Asked:
    """A request.

    Args:
        began: When it was submitted.
        num_left: Sentences that are not finished.
        estimate_s: The estimate at its admission, if there was one.
        took_s: How long it took; None until then.
    """

    began: float
    num_left: int
    estimate_s: float | None = None
    took_s: float | None = None


class Bench:
    """An engine with a translator.

    Args:
        translator: The translator.
        sentences: What callers submit, in random order.
        seed: Of that order.
    """

    def __init__(self, translator: Translator, sentences: list[DecodingRequest], seed: int) -> None:
        self._translator = translator
        self._rng = random.Random(seed)
        self._sentences = sentences
        self.engine = Engine(Scheduler(Budget(0, 0), 10 * QUEUED, time.monotonic), Metrics())
        self._ended = threading.Event()
        self.engine.start()
        found: queue.Queue[Budget | Exception] = queue.Queue()
        finder = BudgetFinder(None, None, DecodingOptions().beam_size)
        self.engine.call(lambda: finder.find([translator]), found.put)  # on the thread that decodes
        budget = found.get()
        if isinstance(budget, Exception):
            raise budget
        self.engine.budget = budget

    def close(self) -> None:
        """Stop; callers ask no further."""
        self._ended.set()
        self.engine.stop(30.0)

    def ask(self, caller: Caller, number: int, and_then: Callable[[Asked], None] | None = None) -> Asked:
        """Submit a request, whatever its estimate is."""
        requests = [(self._translator, self._rng.choice(self._sentences)) for _ in range(number)]
        asked = Asked(time.monotonic(), number)
        lock = threading.Lock()

        def deliver(_: int, outcome: Outcome) -> None:
            with lock:
                asked.num_left -= 1
                is_last = not asked.num_left
            if is_last and not self._ended.is_set():
                asked.took_s = time.monotonic() - asked.began
                if and_then is not None:
                    and_then(asked)

        try:
            self.engine.submit(requests, deliver, caller, within_s=0.0)
        except DeadlineUnreachable as refused:
            asked.estimate_s = refused.estimate_s
            self.engine.submit(requests, deliver, caller)
        return asked

    def keep_asking(self, caller: Caller, latencies: list[float]) -> None:
        """Submit single sentences, each after the one before is finished."""

        def again(asked: Asked) -> None:
            assert asked.took_s is not None
            latencies.append(asked.took_s)
            self.keep_asking(caller, latencies)

        if not self._ended.is_set():
            self.ask(caller, 1, again)


def single_sentences(
    bench: Bench, seconds: float, queued: int, a_request: int = 1, priority: Priority = Priority.INTERACTIVE
) -> list[float]:
    """Latencies of single sentences: of a crowd if nothing is queued, else of one caller."""
    latencies: list[float] = []
    for _ in range(queued // a_request):
        bench.ask(Caller("many", priority), a_request)
    time.sleep(1.0)
    for number in range(1 if queued else CROWD):
        bench.keep_asking(Caller(f"single {number}"), latencies)
    end = time.monotonic() + seconds
    while time.monotonic() < end and (not queued or bench.engine.num_waiting > 100):
        time.sleep(0.1)
    return list(latencies)


def throughput(bench: Bench, seconds: float) -> float:
    """Sentences per second with a full queue."""
    latencies: list[float] = []
    end = time.monotonic() + seconds

    def again(asked: Asked) -> None:
        if time.monotonic() < end:
            latencies.append(asked.took_s or 0.0)
            bench.ask(Caller("warm-up"), 50, again)

    for _ in range(8):
        bench.ask(Caller("warm-up"), 50, again)
    while time.monotonic() < end or not bench.engine.is_idle:
        time.sleep(0.1)
    return 50 * len(latencies) / seconds


def estimates(bench: Bench, seconds: float, rate: float, crowd: int) -> list[Asked]:
    """Requests with their estimates and times."""
    rng = random.Random(5)
    asked: list[Asked] = []
    for number in range(crowd):
        bench.keep_asking(Caller(f"single {number}"), [])
    due = time.monotonic()
    end = due + seconds
    mean = statistics.mean(SIZES)
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        asked.append(bench.ask(Caller(f"caller {rng.randrange(6)}"), rng.choice(SIZES)))
        due += rng.expovariate(LOAD * rate / mean)
    give_up = time.monotonic() + 10 * seconds
    while any(one.took_s is None for one in asked) and time.monotonic() < give_up:
        time.sleep(0.1)
    return [one for one in asked if one.took_s is not None and one.estimate_s is not None]


def estimate_row(name: str, asked: list[Asked]) -> list[str]:
    """A row of the table of estimates."""
    pairs = [(one.estimate_s or 0.0, one.took_s or 0.0) for one in asked if (one.took_s or 0.0) > 1.0]
    if not pairs:
        return [name, "0", *["-"] * 5]
    errors = [abs(estimate_s / took_s - 1.0) for estimate_s, took_s in pairs]
    late = [estimate_s > DEADLINE_S for estimate_s, took_s in pairs if took_s > DEADLINE_S]
    in_time = [estimate_s > DEADLINE_S for estimate_s, took_s in pairs if took_s <= DEADLINE_S]
    return [
        name,
        str(len(pairs)),
        f"{statistics.median(errors):.0%}",
        f"{percentile(errors, 0.9):.0%}",
        f"{sum(error < 0.25 for error in errors) / len(errors):.0%}",
        f"{sum(late)} of {len(late)}",
        f"{sum(in_time)} of {len(in_time)}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each measurement; default 30")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the first part; default 3")
    parser.add_argument("--threads", type=int, default=2, help="processor threads; default 2")
    arguments = parser.parse_args()
    seconds, num_threads = arguments.seconds, arguments.threads
    translator = Translator.load(build_pretrained("cpu"), num_threads=num_threads)
    sentences = make_sentences(translator)
    others = OtherPrograms([os.getpid()])

    def fresh(seed: int) -> Bench:
        return Bench(translator, sentences, seed)

    kinds: dict[str, tuple[int, int, Priority]] = {
        f"{CROWD} callers": (0, 1, Priority.INTERACTIVE),
        f"beside {QUEUED:,} in requests of 1": (QUEUED, 1, Priority.INTERACTIVE),
        f"beside {QUEUED:,} in requests of 50": (QUEUED, 50, Priority.INTERACTIVE),
        f"beside {QUEUED:,} in one request": (QUEUED, QUEUED, Priority.INTERACTIVE),
        f"beside {QUEUED:,}, bulk": (QUEUED, 50, Priority.BULK),
    }
    found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    for round_number in range(arguments.rounds):
        for kind, (queued, a_request, priority) in kinds.items():
            bench = fresh(round_number)
            found[kind].append(single_sentences(bench, seconds, queued, a_request, priority))
            bench.close()
    bench = fresh(0)
    rate = throughput(bench, min(10.0, seconds))
    rows = [estimate_row("six callers", estimates(bench, seconds, rate, 0))]
    bench.close()
    bench = fresh(1)
    throughput(bench, min(10.0, seconds))
    rows.append(estimate_row("and 64 of single sentences", estimates(bench, seconds, rate, 64)))
    bench.close()

    print(machine_line(describe_machine(num_threads)))
    print(f"Other programs used {others.share():.0%} of the processors. Throughput: {rate:.0f} sentences/s.\n")
    print(latency_table(found))
    print(
        markdown(
            ["estimates", "requests", "median error", "p90", "under 25 %", "late: refused", "in time: refused"], rows
        )
    )


def make_sentences(translator: Translator) -> list[DecodingRequest]:
    """Sentences as the engine takes them."""
    rng = random.Random(1)

    def num_tokens(text: str) -> int:
        return len(translator.prepare(text, "en", "de").sentences[0].token_ids)

    texts = [sentence(rng, num_tokens, *SHORT_TOKENS) for _ in range(2000)]
    return [request for text in texts for request in translator.prepare(text, "en", "de").pending]


def latency_table(found: dict[str, list[list[float]]]) -> str:
    """Medians over the rounds; ratios to the first kind are taken within rounds."""
    crowd = next(iter(found.values()))
    rows = []
    for kind, rounds in found.items():
        p50, p95 = (statistics.median(1000 * percentile(one, share) for one in rounds) for share in (0.5, 0.95))
        ratio = statistics.median(
            percentile(one, 0.95) / percentile(other, 0.95) for one, other in zip(rounds, crowd, strict=True)
        )
        rows.append([kind, str(sum(map(len, rounds))), f"{p50:.0f}", f"{p95:.0f}", f"{ratio:.2f}"])
    return markdown(["single sentences", "number", "p50, ms", "p95, ms", "p95 / crowd's"], rows) + "\n"


if __name__ == "__main__":
    main()
