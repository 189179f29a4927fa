"""Every allocation of the compiled decoder fails in turn: ``python -m tests.faults.injection.decoder``.

The decoder is loaded in an engine, as the service uses it. Each sentence must be translated, with the same tokens as
without a fault; a model that cannot be packed must raise ``MemoryError``.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from app.engine.engine import Engine
from app.engine.joining import Budget
from app.engine.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from model.artifacts.archive import write_bundle
from model.artifacts.manifest import Manifest
from model.decoding.native.compiler import build_library
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest
from model.translator import Translator
from tests.app.engines import Inbox
from tests.faults.injection import shim
from tests.faults.injection.artifacts import SENTENCES, small_checkpoint
from tests.faults.injection.shim import Shim
from tests.faults.injection.trials import spread

PAIR = ("en", "de")
OPTIONS = (
    DecodingOptions(decoding="greedy", max_new_tokens=30),
    DecodingOptions(beam_size=4, num_hypotheses=2, max_new_tokens=30, return_scores=True, no_repeat_ngram_size=3),
    DecodingOptions(beam_size=2, max_new_tokens=12, return_search=True),
)


def small_translator(folder: Path) -> Callable[[], Translator]:
    """Writes a bundle with random weights; returns a function that loads it."""
    checkpoint = small_checkpoint()
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, "float32")
    bundle = folder / "small.verso"
    write_bundle(checkpoint.build(), manifest, checkpoint.vocabulary_files, bundle)
    return lambda: Translator.load(str(bundle), num_threads=1, native=True)


def translate(translator: Translator) -> list[object]:
    """The outcomes of some sentences, decoded together."""
    metrics = Metrics()
    engine = Engine(Scheduler(Budget(100_000, 64), 100, time.monotonic), metrics)
    engine.start()
    requests = []
    for number, sentence in enumerate(SENTENCES):
        plan = translator.prepare(sentence, *PAIR)
        token_ids = list(plan.sentences[0].token_ids)
        requests.append(DecodingRequest(0, token_ids, OPTIONS[number % len(OPTIONS)], plan.forced_ids))
    inbox = Inbox()
    try:
        engine.submit([(translator, request) for request in requests], inbox.deliver)
        return [outcome for _, outcome in sorted(inbox.take(len(requests)).items())]
    finally:
        engine.stop(30.0)


def fail_each(act: Callable[[], str | None], code: tuple[int, int], sample: int | None) -> tuple[int, list[str]]:
    """Call a function with a failing allocation, for each of its allocations.

    Args:
        act: The function; it returns what is wrong, or None.
        code: The addresses of the decoder's code.
        sample: The number of allocations that fail; None for all.

    Returns:
        The number of its allocations, and what was wrong.
    """
    library = Shim()
    library.watch_allocations(code)
    failure = act()
    total = library.num_allocations
    failures = [] if failure is None else [f"no fault: {failure}"]
    for number in spread(total, total if sample is None else sample):
        library.watch_allocations(code, number)
        failure = act()
        library.watch_allocations((0, 0))
        if failure is not None:
            failures.append(f"allocation {number}: {failure}")
    return total, failures


def run(folder: Path, sample: int | None) -> dict[str, object]:
    """Decode, and load, with each allocation failing; returns the numbers of allocations and what was wrong."""
    load = small_translator(folder)
    translator = load()
    if translator.backend.name != "native":
        return {"skipped": "the compiled decoder is not available here"}
    code = shim.code_of(build_library().resolve())
    expected = translate(translator)

    def decode() -> str | None:
        outcomes = translate(translator)
        wrong = [(want, got) for want, got in zip(expected, outcomes, strict=True) if want != got]
        return f"{wrong[0][1]} instead of {wrong[0][0]}" if wrong else None

    def pack() -> str | None:
        try:
            load()
        except MemoryError:
            return None
        except Exception as error:  # noqa: BLE001
            return repr(error)
        return None

    decoding, failures = fail_each(decode, code, sample)
    if not decoding:
        return {"skipped": "the compiled decoder has an allocator of its own"}
    loading, others = fail_each(pack, code, sample)
    return {"decoding": decoding, "loading": loading, "failures": failures + others}


def main(argv: Sequence[str]) -> int:
    """Print the results; returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.injection.decoder", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="N allocations fail; default: all")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if not shim.is_loaded():
            command = [sys.executable, "-m", "tests.faults.injection.decoder", *argv]
            return shim.run_with(shim.build(Path(folder)), command)
        logging.disable()
        results = run(Path(folder), arguments.sample)
    print(json.dumps(results, indent=1))
    return int(bool(results.get("failures")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
