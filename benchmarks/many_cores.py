"""Simulates one process of the service on more processors than there are to measure on.

    python -m benchmarks.many_cores

The compiled decoder's calls as cohort.h makes them: the threads are woken one after the other, each steps with its own
sentences until the time is over, and Python waits for the last one, reads what finished, and lets others join. The
costs were measured on two processors (docs/decisions/0037); only their number is made up.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from benchmarks.tables import markdown


@dataclass(frozen=True)
class Costs:
    """What was measured, in seconds.

    Args:
        sentence_step_s: A step of one sentence, on one thread.
        wake_s: Waking one more thread.
        call_s: Python, of each call.
        sentence_s: Python on the engine's thread, of each sentence.
        request_s: Python on other threads, of each sentence: HTTP, text before and after. It shares the interpreter.
        call_for_s: How long a call takes steps.
    """

    sentence_step_s: float = 0.000_13
    wake_s: float = 0.000_004
    call_s: float = 0.000_05
    sentence_s: float = 0.000_09
    request_s: float = 0.000_11
    call_for_s: float = 0.002


STEPS = (4, 16)
"""Least and most steps of a sentence."""

SENTENCES_PER_THREAD = 16
"""That decode at once: 64 rows of a beam of 4."""


def sentences_per_s(num_threads: int, costs: Costs = Costs(), calls: int = 300, seed: int = 1) -> float:
    """Sentences per second of one process that always has enough to do.

    Args:
        num_threads: Threads of the model.
        costs: What things take.
        calls: Number of calls that are simulated.
        seed: Of the sentences' lengths.
    """
    rng = random.Random(seed)
    total = num_threads * SENTENCES_PER_THREAD
    left = [rng.randint(1, STEPS[1]) for _ in range(total)]
    elapsed = python_s = 0.0
    done = 0
    for _ in range(calls):
        ended = []
        finished = 0
        for thread in range(num_threads):
            own = [steps for steps in left[thread::num_threads] if steps]
            now = thread * costs.wake_s
            while own:
                now += len(own) * costs.sentence_step_s
                own = [steps - 1 for steps in own]
                finished += own.count(0)
                own = [steps for steps in own if steps]
                if now >= costs.call_for_s:
                    break
            ended.append(now)
            left[thread::num_threads] = [*own, *[0] * (len(left[thread::num_threads]) - len(own))]
        elapsed += max(ended) + costs.call_s + finished * costs.sentence_s
        python_s += costs.call_s + finished * (costs.sentence_s + costs.request_s)
        done += finished
        left = [steps or rng.randint(*STEPS) for steps in left]
    return done / max(elapsed, python_s)  # one interpreter does all of Python


def main() -> int:
    """Print the tables."""
    service = Costs(request_s=0.000_8)
    header = [
        "threads",
        "offline: sentences/s",
        "of one thread's",
        "single requests: sentences/s",
        "calls of 8 ms, offline",
    ]
    rows = []
    one = sentences_per_s(1)
    for number in (1, 2, 4, 8, 16, 32, 64):
        found = sentences_per_s(number)
        rows.append(
            [
                str(number),
                f"{found:,.0f}",
                f"{found / one / number:.0%}",
                f"{sentences_per_s(number, service):,.0f}",
                f"{sentences_per_s(number, Costs(call_for_s=0.008)):,.0f}",
            ]
        )
    print(markdown(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
