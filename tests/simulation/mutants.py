"""``python -m tests.simulation.mutants [WORDS ...]``: faults are planted in the service, until a seed notices each."""

from __future__ import annotations
import __future__ as future

import gc
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.accounts.rates import RunningSentences
from app.accounts.service import RequestCharge
from app.accounts.usage import UsageStore
from app.cluster.connection import CallServer
from app.cluster.replicas import _Replica
from app.cluster.service import RemoteTranslations, _Retries
from app.documents.store import DocumentStore
from app.engine import joining
from app.engine.bridge import EngineBridge
from app.engine.calls import CallQueue
from app.engine.coalescing import SharedDecoding
from app.engine.engine import Engine
from app.engine.fair_queue import FairQueue
from app.engine.runner import Runner
from app.engine.scheduler import Scheduler
from app.engine.state import EngineState
from app.engine.translation_cache import SentenceKey, TranslationCache
from app.models.in_flight import RunningRequests
from app.models.residency import Residency
from tests.simulation.simulation import Report, draw, quiet, simulate

NUM_SEEDS = 300
"""Seeds in which a mutant must be noticed: those of the gate."""

APP = range(2, NUM_SEEDS, 3)
"""Seeds of the whole application."""

CLUSTER = range(4, NUM_SEEDS, 9)
"""Seeds of a cluster."""

ENGINE = tuple(seed for seed in range(NUM_SEEDS) if seed not in APP and seed not in CLUSTER)
"""Seeds of an engine."""


@dataclass(frozen=True)
class Mutant:
    """A fault of the service.

    Args:
        what: What it does wrong.
        owner: The class or module of a function.
        name: The function.
        old: A part of its source.
        new: What replaces this part.
        seeds: The seeds that may notice it.
    """

    what: str
    owner: Any
    name: str
    old: str
    new: str
    seeds: Sequence[int] = ENGINE

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the function while the block runs."""
        original = vars(self.owner)[self.name]
        function = inspect.unwrap(original.__func__ if isinstance(original, classmethod) else original)
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.what}: {source.count(self.old)} parts of the source match"
        code = compile(
            source.replace(self.old, self.new), "<mutant>", "exec", future.annotations.compiler_flag, dont_inherit=True
        )
        namespace: dict[str, Any] = {}
        exec(code, function.__globals__, namespace)
        setattr(self.owner, self.name, namespace[self.name])
        try:
            yield
        finally:
            setattr(self.owner, self.name, original)


MUTANTS = (
    Mutant(
        "a sentence stays unanswered after its outcome",
        Runner,
        "_settle",
        "state.unanswered.pop(result.key, None)",
        "state.unanswered.get(result.key)",
    ),
    Mutant(
        "cancelled sentences decode to their end",
        Engine,
        "withdraw",
        "self._state.withdrawn.update(sentence.key for sentence in left if sentence.key not in waiting)",
        "pass",
    ),
    Mutant(
        "a sentence joins that was withdrawn after it was taken from the queue",
        EngineState,
        "wanted",
        "if sentence.key in self.unanswered",
        "",
    ),
    Mutant(
        "a shared sentence is withdrawn with the first request that leaves",
        SharedDecoding,
        "leave",
        "if not shared.waiting and shared.sentence is not None:",
        "if shared.sentence is not None:",
    ),
    Mutant("the cache mixes models up", SentenceKey, "of", "model.sha256", '""'),
    Mutant("the cache never evicts", TranslationCache, "__init__", "max_bytes, getsizeof", "10**9, getsizeof"),
    Mutant(
        "the queue admits a request that does not fit",
        Scheduler,
        "admit",
        "num_waiting + len(sentences) > self.max_waiting",
        "num_waiting > self.max_waiting",
    ),
    Mutant(
        "each model has the whole budget of rows",
        joining,
        "fits",
        "sum(load.num_rows for load in used) <=",
        "max((load.num_rows for load in used), default=0) <=",
    ),
    Mutant("a caller keeps its turn", FairQueue, "_next", "ring.rotate(-1)", "pass"),
    Mutant(
        "bulk callers are owed nothing",
        FairQueue,
        "_charge",
        "self._owed + BULK_SHARE * cost",
        "0.0",
    ),
    Mutant(
        "the sentences of an expired request stay",
        EngineBridge,
        "decode",
        "self._shared.leave(pending, expired=timeout.expired())",
        "pass",
    ),
    Mutant(
        "a call of a client that left is made",
        CallQueue,
        "withdraw",
        "self._waiting = deque(call for call in self._waiting if call.key not in keys)",
        "pass",
    ),
    Mutant("new sentences do not wake the engine", Engine, "submit", "self._wake.notify_all()", "pass"),
    Mutant(
        "equal sentences are shared without a lock",
        SharedDecoding,
        "__init__",
        "threads.lock()",
        "__import__('contextlib').nullcontext()",
    ),
    Mutant(
        "withdrawn sentences are not counted",
        Engine,
        "withdraw",
        'self._state.metrics.sentence_left(sentence.model_name, "expired" if expired else "cancelled")',
        "pass",
    ),
    Mutant("a lowered budget stays", EngineState, "restore_budget", "2 * budget.max_tokens", "budget.max_tokens"),
    Mutant(
        "sentences that decode alone are lost when the thread dies",
        EngineState,
        "interrupt",
        "            again.append(sentence)",
        "            pass",
    ),
    Mutant(
        "a failure fails the whole cohort",
        Runner,
        "_separate",
        "self._decode_alone(sentences)",
        "self._state.fail(sentences, InferenceFailed)",
    ),
    Mutant(
        "a repeated request is counted again",
        UsageStore,
        "_count",
        "if row is not None and row[1]:",
        "if False:",
        APP,
    ),
    Mutant(
        "a quota ignores what is reserved",
        UsageStore,
        "reserve",
        "if used + reserved + characters > quota:",
        "if used + characters > quota:",
        APP,
    ),
    Mutant(
        "an answer does not wait until it is counted",
        RequestCharge,
        "settle",
        "await self._accounts.settle(self._charge, self.characters)",
        "self._accounts._answered.clear()",
        APP,
    ),
    Mutant(
        "counts are not written through", UsageStore, "_transaction", "'FULL' if durable else 'NORMAL'", "'NORMAL'", APP
    ),
    Mutant(
        "documents are not written through",
        DocumentStore,
        "__init__",
        "_PRAGMAS, added",
        "[pragma.replace('FULL', 'NORMAL') for pragma in _PRAGMAS], added",
        APP,
    ),
    Mutant(
        "the sentences of a key that has its limit are not counted",
        RunningSentences,
        "hold",
        "if running + num_sentences > bound:",
        "if num_sentences > bound:",
        APP,
    ),
    Mutant(
        "a model in use is evicted",
        Residency,
        "make_room",
        "(model for model in candidates if not self._num_uses[model])",
        "(model for model in candidates)",
        APP,
    ),
    Mutant(
        "a deleted document leaves its files",
        DocumentStore,
        "remove",
        "(self._folder / name).unlink(missing_ok=True)",
        "pass",
        APP,
    ),
    Mutant(
        "a document that fails is not counted as untranslated",
        DocumentStore,
        "add_translations",
        "(num_sentences, num_left, *memory,",
        "(num_sentences, 0, *memory,",
        APP,
    ),
    Mutant(
        "a model is unloaded while requests use it",
        RunningRequests,
        "entered",
        "self._tasks[task] = None",
        "pass",
        APP,
    ),
    Mutant(
        "a call of a lost replica is not repeated",
        _Retries,
        "pause",
        "if isinstance(error, NotReady) and error.reason not in _GONE:",
        "if isinstance(error, ReplicaLost) or error.reason not in _GONE:",
        CLUSTER,
    ),
    Mutant(
        "a replica that is shutting down is not replaced by another one",
        _Retries,
        "pause",
        "error.reason not in _GONE",
        "error.reason != 'failed'",
        CLUSTER,
    ),
    Mutant("a cancelled call goes on in its replica", CallServer, "_serve", "call.cancel()", "pass", CLUSTER),
    Mutant(
        "a stream delivers sentences again after its replica was lost",
        RemoteTranslations,
        "_stream_part",
        "elif element.index >= next_sentence[index]:",
        "else:",
        CLUSTER,
    ),
    Mutant(
        "a stream that lost its replica has the indices of the whole request",
        RemoteTranslations,
        "_stream_part",
        "indices = list(next_sentence)",
        "indices = part.indices",
        CLUSTER,
    ),
    Mutant("calls that have ended are counted", _Replica, "connection", "self.num_calls -= 1", "pass", CLUSTER),
)


def noticed(mutant: Mutant) -> Report | None:
    """The first seed that notices a mutant; None if none does."""
    with mutant.planted():
        reports = (simulate(draw(seed)) for seed in mutant.seeds)
        report = next((report for report in reports if report.error is not None), None)
    gc.collect()
    return report


def main() -> int:
    """Print which seed notices each mutant, and how."""
    num_missed = 0
    with quiet():
        for mutant in MUTANTS:
            if len(sys.argv) > 1 and not any(words in mutant.what for words in sys.argv[1:]):
                continue
            report = noticed(mutant)
            num_missed += report is None
            how = "NOT NOTICED" if report is None else f"seed {report.scenario.seed}: {report.error}"
            print(f"{mutant.what}: {how[:150]}", flush=True)
    return 1 if num_missed else 0


if __name__ == "__main__":
    sys.exit(main())
