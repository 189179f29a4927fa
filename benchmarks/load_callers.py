"""Callers of :mod:`benchmarks.load` that send one request after another, compared with the engine without HTTP."""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import SHAPES, make_models, make_texts
from benchmarks.http_client import Load, Outcome, post
from benchmarks.load_rounds import NUM_CLIENTS, WARM_UP_SENTENCES, Plan, probes_over
from benchmarks.processes import Worker, started
from benchmarks.servers import running, verso
from benchmarks.tables import percentile, rounded

CLIENTS = (1, 8, 64)
"""Numbers of callers that send one sentence after another."""

TEXTS_A_REQUEST = 16
"""Texts of a request when the cost of HTTP is measured."""

OVERHEAD_TOKENS = (5, 40)
"""Source tokens in that measurement."""

OVERHEAD_ANSWER_TOKENS = 20
"""Output tokens in that measurement."""


def measure_clients(
    bundle: Path, plan: Plan, sentences: Sequence[str], client: Worker, advance: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure 1, 8 and 64 callers that send one sentence after another; ``advance`` is called for each row.

    The sentences that were answered are then translated offline, in one call.

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
        started("the bare engine", bare_translator, bundle, plan.num_threads) as bare,
        running(verso(bundle, plan.num_threads)) as service,
    ):
        bare.run((sentences[:WARM_UP_SENTENCES], {}))
        for decoding, num_clients in itertools.product(("greedy", "beam"), CLIENTS):
            # More sentences than can be answered in the time.
            endless = itertools.islice(itertools.cycle(sentences), int(2_000 * plan.calibration_s))
            calls = [post(decoding, text=text, target="de", decoding=decoding) for text in endless]
            client.run(Load(service.port, calls, num_clients, plan.patience_s, plan.calibration_s / 5))
            probes = probes_over(plan.calibration_s, plan.num_probes)
            outcome: Outcome = client.run(
                Load(service.port, calls, num_clients, plan.patience_s, plan.calibration_s, probes)
            )
            latencies_ms = [1000 * answer.latency_s for answer in outcome.answers]
            answered = list(itertools.islice(itertools.cycle(sentences), len(outcome.answers)))
            bare_s = bare.run((answered, {"decoding": decoding}))
            rows.append(
                {
                    "decoding": decoding,
                    "clients": num_clients,
                    "sentences_per_s": rounded(len(outcome.answers) / outcome.seconds),
                    **{
                        f"p{100 * share:.0f}_ms": rounded(percentile(latencies_ms, share))
                        for share in (0.5, 0.95, 0.99)
                    },
                    "livez_p99_ms": rounded(percentile([1000 * probe.latency_s for probe in outcome.probes], 0.99)),
                    "failed": sum(answer.status != 200 for answer in outcome.answers),
                    "offline_per_s": rounded(len(answered) / bare_s),
                    "callers_cpu_share": rounded(outcome.cpu_seconds / outcome.seconds / num_cores),
                    "share_of_offline": rounded(1 - overhead(bare_s, outcome.seconds, outcome.cpu_seconds, num_cores)),
                }
            )
            advance(f"{num_clients} callers, {decoding}")
    return rows


def bare_translator(bundle: Path, num_threads: int) -> Callable[[tuple[Sequence[str], Mapping[str, Any]]], float]:
    """Load a worker process whose jobs are texts and options: it translates, and returns the seconds this took."""
    from model.translation.options import TranslationOptions
    from model.translator import Translator

    translator = Translator.load(bundle, num_threads=num_threads)

    def translate(job: tuple[Sequence[str], Mapping[str, Any]]) -> float:
        texts, fields = job
        began = time.perf_counter()
        translator.translate(texts, TranslationOptions(**fields), target="de")
        return time.perf_counter() - began

    return translate


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
    figures: dict[str, dict[str, Any]] = {way: {"rounds": []} for way in ways}
    number = NUM_CLIENTS * TEXTS_A_REQUEST * plan.overhead_requests
    answer = {"min_new_tokens": OVERHEAD_ANSWER_TOKENS, "max_new_tokens": OVERHEAD_ANSWER_TOKENS}
    with started("the bare engine", bare_translator, bundle, plan.num_threads) as bare, running(server) as service:
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
                outcome: Outcome = client.run(Load(service.port, calls, NUM_CLIENTS, 3600.0))
                advance(f"overhead, {way}, HTTP")
                failed = [result.status for result in outcome.answers if result.status != 200]
                if failed:
                    raise SystemExit(f"the service answered {failed[0]} to {len(failed)} requests")
                if not round_number:
                    continue  # the warm-up does not count
                figures[way]["rounds"].append(
                    {
                        "texts": count,
                        "bare_s": rounded(bare_s),
                        "http_s": rounded(outcome.seconds),
                        "callers_cpu_s": rounded(outcome.cpu_seconds),
                        "raw": rounded(overhead(bare_s, outcome.seconds, 0.0, num_cores)),
                        "corrected": rounded(overhead(bare_s, outcome.seconds, outcome.cpu_seconds, num_cores)),
                    }
                )
    for by_way in figures.values():
        for name in ("raw", "corrected"):
            by_way[name] = rounded(statistics.median(entry[name] for entry in by_way["rounds"]))
    return {"shape": shape, "cores": num_cores, **figures}
