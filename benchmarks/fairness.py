"""How callers delay one another, and the accuracy of the estimates by which requests are refused.

    python -m benchmarks.fairness --simulate       estimates in a simulation: seconds, the same on any machine
    python -m benchmarks.fairness                  the real engine, under six minutes

The shipped translator in one process, without HTTP and without a cache; every sentence has 5 to 15 tokens and is
decoded with the default beam.

First the latency of single sentences, one after the other: of each of 65 callers; then of one caller beside another who
has 10,000 sentences queued, in requests of one, of 50 and of all, and as bulk. These take turns of some seconds on one
engine, so that whatever else runs on the machine disturbs all of them. The target is a median over the rounds of the
p95, compared with that of the 65 in the same round, under 2.

Then estimates. Six callers send requests of 1 to 200 sentences, at 130 % of what the model can do: first all are
admitted; then those are refused that would take more than 5 s; then also 64 callers send single sentences meanwhile. Of
the refused ones every tenth is run nevertheless, to see how long it would have taken. The error of an estimate is how
far it is from the time taken, as a share of that, for requests that take more than a second. The target is a median
under 25 %; the share of estimates within 25 % is printed, too.

Nothing else should run on the machine at the same time; the share that other programs used is printed, and for how long
the engine's thread was ready to run and another ran instead.
"""

from __future__ import annotations

import os
import queue
import random
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.engine.caller import Caller, Priority
from app.engine.capacity import BudgetFinder
from app.engine.engine import Engine
from app.engine.joining import Budget
from app.engine.scheduler import Scheduler
from app.errors import DeadlineUnreachable
from app.telemetry.metrics import Metrics
from benchmarks.command_line import parser, positive
from benchmarks.processes import OtherPrograms, describe_machine, machine_line
from benchmarks.simulated_engine import CPU, GPU, LARGE, SITUATIONS, estimate_errors
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

SHADOWS = 0.1
"""Share of the requests that are run whatever their estimate."""

GOOD = 0.25
"""Error of an estimate that is good enough."""

ERROR_COLUMNS = ["number", "median error", "p90", "within 25 %"]

SEEDS = 3
"""Simulations of each situation."""


@dataclass(eq=False)
class Request:
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
        self._keys: deque[int] = deque()
        self.engine.start()
        budgets: queue.Queue[Budget | Exception] = queue.Queue()
        finder = BudgetFinder(None, None, DecodingOptions().beam_size)
        self.engine.call(lambda: finder.find([translator]), budgets.put)  # on the thread that decodes
        budget = budgets.get()
        if isinstance(budget, Exception):
            raise budget
        self.engine.budget = budget

    def close(self) -> None:
        """Stop; submit nothing afterwards."""
        self.engine.stop(30.0)

    def drop_all(self) -> None:
        """Cancel everything, after the last caller has stopped. Returns when the engine is idle."""
        while not self.engine.is_idle:
            self.engine.withdraw(list(self._keys))
            time.sleep(0.05)
        self._keys.clear()

    def waited_s(self) -> float:
        """Seconds for which the engine's thread was ready to run, and another one ran instead."""
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "verso-engine")
        schedule = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii")
        return int(schedule.split()[1]) / 1e9

    def ask(
        self,
        caller: Caller,
        number: int,
        and_then: Callable[[Request], None] | None = None,
        deadline_s: float | None = None,
    ) -> Request | None:
        """Submit a request; None if its estimate is more than ``deadline_s``, and it was not submitted."""
        sentences = [(self._translator, self._rng.choice(self._sentences)) for _ in range(number)]
        request = Request(time.monotonic(), number)
        lock = threading.Lock()

        def deliver(_: int, outcome: Outcome) -> None:
            with lock:
                request.num_left -= 1
                is_last = not request.num_left
            if is_last:
                request.took_s = time.monotonic() - request.began
                if and_then is not None:
                    and_then(request)

        try:
            submitted = self.engine.submit(sentences, deliver, caller, within_s=0.0)
        except DeadlineUnreachable as refused:
            request.estimate_s = refused.estimate_s
            if deadline_s is not None and refused.estimate_s > deadline_s:
                return None
            submitted = self.engine.submit(sentences, deliver, caller)
        self._keys.extend(sentence.key for sentence in submitted)
        return request

    def keep_asking(self, caller: Caller, latencies: list[float], over: threading.Event) -> None:
        """Submit single sentences, each after the one before is finished, until it is over."""

        def again(request: Request) -> None:
            if not over.is_set():
                assert request.took_s is not None
                latencies.append(request.took_s)
                self.ask(caller, 1, again)

        self.ask(caller, 1, again)


def single_sentences(
    bench: Bench, seconds: float, queued: int, a_request: int = 1, priority: Priority = Priority.INTERACTIVE
) -> list[float]:
    """Latencies of single sentences: of a crowd if nothing is queued, else of one caller. The queue is then emptied.

    Args:
        bench: The engine; idle, and afterwards again.
        seconds: How long.
        queued: Sentences that another caller has queued.
        a_request: Sentences of each of its requests.
        priority: Its priority.
    """
    latencies: list[float] = []
    for _ in range(queued // a_request):
        bench.ask(Caller("many", priority), a_request)
    time.sleep(1.0)
    over = threading.Event()
    for number in range(1 if queued else CROWD):
        bench.keep_asking(Caller(f"single {number}"), latencies, over)
    time.sleep(seconds)
    over.set()
    if queued and bench.engine.num_waiting < 100:
        raise SystemExit("the queue ran empty: --seconds is too long for this machine")
    result = list(latencies)
    bench.drop_all()
    return result


def throughput(bench: Bench, seconds: float) -> float:
    """Sentences per second with a full queue."""
    latencies: list[float] = []
    end = time.monotonic() + seconds

    def again(request: Request) -> None:
        if time.monotonic() < end:
            latencies.append(request.took_s or 0.0)
            bench.ask(Caller("warm-up"), 50, again)

    for _ in range(8):
        bench.ask(Caller("warm-up"), 50, again)
    while time.monotonic() < end or not bench.engine.is_idle:
        time.sleep(0.1)
    return 50 * len(latencies) / seconds


def estimates(bench: Bench, seconds: float, rate: float, crowd: int, refuses: bool) -> list[Request]:
    """Requests with their estimates and times.

    Args:
        bench: The engine; its throughput has been measured.
        seconds: How long requests arrive.
        rate: Sentences per second that the engine can do.
        crowd: Callers of single sentences besides.
        refuses: Whether requests are refused that would take more than ``DEADLINE_S``.
    """
    rng = random.Random(5)
    requests: list[Request] = []
    over = threading.Event()
    for number in range(crowd):
        bench.keep_asking(Caller(f"single {number}"), [], over)
    due = time.monotonic()
    end = due + seconds
    mean = statistics.mean(SIZES)
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        request = bench.ask(
            Caller(f"caller {rng.randrange(6)}"),
            rng.choice(SIZES),
            deadline_s=DEADLINE_S if refuses and rng.random() >= SHADOWS else None,
        )
        if request is not None:
            requests.append(request)
        due += rng.expovariate(LOAD * rate / mean)
    give_up = time.monotonic() + seconds
    while any(request.took_s is None for request in requests) and time.monotonic() < give_up:
        time.sleep(0.1)
    over.set()
    bench.drop_all()
    return [request for request in requests if request.took_s is not None and request.estimate_s is not None]


def estimate_row(name: str, requests: list[Request]) -> list[str]:
    """A row of the table of estimates."""
    pairs = [
        (request.estimate_s or 0.0, request.took_s or 0.0) for request in requests if (request.took_s or 0.0) > 1.0
    ]
    if not pairs:
        return [name, "0", *["-"] * 5]
    late = [estimate_s > DEADLINE_S for estimate_s, took_s in pairs if took_s > DEADLINE_S]
    in_time = [estimate_s > DEADLINE_S for estimate_s, took_s in pairs if took_s <= DEADLINE_S]
    errors = [estimate_s / took_s - 1.0 for estimate_s, took_s in pairs]
    return [*error_cells(name, errors), f"{sum(late)} of {len(late)}", f"{sum(in_time)} of {len(in_time)}"]


def error_cells(name: str, errors: Sequence[float]) -> list[str]:
    """The first cells of a row: the number of estimates, the median error, the p90, and the share within 25 %.

    Args:
        name: What the row is about.
        errors: How much larger each estimate was than the time taken, as a share of that.
    """
    sizes = [abs(error) for error in errors]
    return [
        name,
        str(len(sizes)),
        f"{statistics.median(sizes):.0%}",
        f"{percentile(sizes, 0.9):.0%}",
        f"{sum(size < GOOD for size in sizes) / len(sizes):.0%}",
    ]


def simulate() -> None:
    """Print the errors of estimates in simulations."""
    for name, speed in (("CPU", CPU), ("GPU", GPU), ("large model", LARGE)):
        rows, every = [], []
        for situation_name, situation in SITUATIONS.items():
            # Beside 64 callers a request that takes seconds alone takes minutes, and longer to simulate.
            sizes_s = (1.0,) if situation_name.startswith("64") else (1.0, 4.0)
            errors = estimate_errors(situation, speed, sizes_s, range(SEEDS))
            every += errors
            rows.append(error_cells(situation_name, errors))
        rows.append(error_cells("all", every))
        print(f"{name}: {speed}\n\n{markdown([f'estimates, {name}', *ERROR_COLUMNS], rows)}\n", flush=True)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, rounds=6, threads=2)
    options.add_argument("--simulate", action="store_true", help="only the simulation")
    options.add_argument("--seconds", type=positive(float), default=4.0,
                         help="duration of a turn of the first part; default 4")  # fmt: skip
    options.add_argument("--estimates", type=positive(float), default=30.0,
                         help="duration of each of the others; default 30")  # fmt: skip
    arguments = options.parse_args()
    if arguments.simulate:
        simulate()
        return
    num_threads = arguments.threads
    translator = Translator.load(build_pretrained("cpu"), num_threads=num_threads)
    bench = Bench(translator, make_sentences(translator), seed=0)
    others, began, waited_s = OtherPrograms([os.getpid()]), time.monotonic(), bench.waited_s()
    rate = throughput(bench, 10.0)

    kinds: dict[str, tuple[int, int, Priority]] = {
        f"{CROWD} callers": (0, 1, Priority.INTERACTIVE),
        f"beside {QUEUED:,} in requests of 1": (QUEUED, 1, Priority.INTERACTIVE),
        f"beside {QUEUED:,} in requests of 50": (QUEUED, 50, Priority.INTERACTIVE),
        f"beside {QUEUED:,} in one request": (QUEUED, QUEUED, Priority.INTERACTIVE),
        f"beside {QUEUED:,}, bulk": (QUEUED, 50, Priority.BULK),
    }
    latencies: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    for _ in range(arguments.rounds):
        for kind, queued in kinds.items():
            latencies[kind].append(single_sentences(bench, arguments.seconds, *queued))
    rows = []
    for name, crowd, refuses in (
        ("six callers, all admitted", 0, False),
        ("six callers", 0, True),
        ("and 64 of single sentences", 64, True),
    ):
        throughput(bench, 5.0)
        rows.append(estimate_row(name, estimates(bench, arguments.estimates, rate, crowd, refuses)))
    waited = (bench.waited_s() - waited_s) / (time.monotonic() - began)
    bench.close()

    print(machine_line(describe_machine(num_threads)))
    print(
        f"Other programs used {others.share():.0%} of the processors, and the engine waited for one {waited:.0%} of "
        f"the time. Throughput: {rate:.0f} sentences/s.\n"
    )
    print(latency_table(latencies))
    print(markdown(["estimates", *ERROR_COLUMNS, "late: refused", "in time: refused"], rows))


def make_sentences(translator: Translator) -> list[DecodingRequest]:
    """Sentences as the engine takes them."""
    rng = random.Random(1)

    def num_tokens(text: str) -> int:
        return len(translator.prepare(text, "en", "de").sentences[0].token_ids)

    texts = [sentence(rng, num_tokens, *SHORT_TOKENS) for _ in range(2000)]
    return [request for text in texts for request in translator.prepare(text, "en", "de").pending]


def latency_table(latencies: dict[str, list[list[float]]]) -> str:
    """Medians over the rounds; ratios to the first kind are taken within rounds."""
    crowd = next(iter(latencies.values()))
    rows = []
    for kind, rounds in latencies.items():
        p50, p95 = (statistics.median(1000 * percentile(values, share) for values in rounds) for share in (0.5, 0.95))
        ratio = statistics.median(
            percentile(values, 0.95) / percentile(of_crowd, 0.95)
            for values, of_crowd in zip(rounds, crowd, strict=True)
        )
        rows.append([kind, str(sum(map(len, rounds))), f"{p50:.0f}", f"{p95:.0f}", f"{ratio:.2f}"])
    return markdown(["single sentences", "number", "p50, ms", "p95, ms", "p95 / crowd's"], rows) + "\n"


if __name__ == "__main__":
    main()
