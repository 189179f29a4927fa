"""The cost of protected spans: a text without spans, and one with spans, translated with ``protect`` auto and none.

    python -m benchmarks.protection --text DATA/eval/tatoeba-dev.en

The shipped translator in one process. Rounds of both settings are interleaved in random order after a warm-up; the
ratio is the median of the rounds'. Answers are compared: those to texts without spans differ only where layout is
restored, such as repeated punctuation. Words with characters that the model does not know are spans.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks.processes import describe_machine, machine_line
from benchmarks.tables import markdown, rounded
from model.artifacts.pretrained import build_pretrained
from model.training.corpus import read_lines
from model.translation.options import TranslationOptions
from model.translator import Translator

_SPANS = ("{name}", "https://example.com/a?b=c", "<b>", "</b>", "%1$s", "😀", "@user", "v1.2.3")


def with_spans(sentence: str, rng: random.Random) -> str:
    """A sentence with one to three spans between its words."""
    words = sentence.split()
    for _ in range(rng.randint(1, 3)):
        words.insert(rng.randint(0, len(words)), rng.choice(_SPANS))
    return " ".join(words)


def measure(
    translator: Translator, texts: Sequence[str], decoding: str, rounds: int, label: str
) -> tuple[float, float, float, int]:
    """Texts a second with ``protect`` none and auto, the median of the rounds' ratios, and how many answers differ."""
    settings = [TranslationOptions(decoding=decoding, protect=protect) for protect in ("none", "auto")]  # type: ignore[arg-type]
    answers = [[one.text for one in translator.translate(texts, options, "en", "de")] for options in settings]
    seconds: list[list[float]] = [[], []]
    rng = random.Random(1)
    for _ in tqdm(range(rounds), desc=label, disable=None):
        for which in rng.sample((0, 1), 2):
            began = time.perf_counter()
            translator.translate(texts, settings[which], "en", "de")
            seconds[which].append(time.perf_counter() - began)
    ratio = statistics.median(auto / none for none, auto in zip(*seconds, strict=True))
    none, auto = (len(texts) / statistics.median(times) for times in seconds)
    return none, auto, ratio, sum(first != second for first, second in zip(*answers, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="English sentences, one a line; plain, .gz or .xz")
    parser.add_argument("--sentences", type=int, default=2000, help="sentences without spans to take; default 2000")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each setting; default 15")
    parser.add_argument("--threads", type=int, default=2, help="processor threads; default 2")
    arguments = parser.parse_args()
    translator = Translator.load(build_pretrained("cpu"), num_threads=arguments.threads)
    spans_of = translator.pipeline.reader.protected_spans
    plain = [line for line in read_lines(arguments.text) if line.strip() and not spans_of(line, "auto")]
    plain = plain[: arguments.sentences]
    rng = random.Random(1)
    kinds = {"without spans": plain, "with one to three spans": [with_spans(line, rng) for line in plain]}
    rows = []
    for kind, texts in kinds.items():
        for decoding in ("greedy", "beam"):
            label = f"{kind}, {decoding}"
            none, auto, ratio, num_other = measure(translator, texts, decoding, arguments.rounds, label)
            rows.append(
                [label, f"{rounded(none):,}", f"{rounded(auto):,}", f"{100 * (ratio - 1):+.1f} %", str(num_other)]
            )
    print(machine_line(describe_machine(arguments.threads)))
    print(
        markdown([f"{len(plain)} sentences", "none, sentences/s", "auto, sentences/s", "time", "other answers"], rows)
    )


if __name__ == "__main__":
    main()
