"""Verso in slots on a GPU: one sentence compared with transformers, and many sentences with a bound of the GPU.

    python -m benchmarks.gpu --json FILE        (needs an NVIDIA GPU and the packages of the ``test`` extra)

A random checkpoint of OPUS-MT's architecture is made with transformers and imported by Verso in float16. Every output
has 20 tokens. In each round all decoding modes take their turn, in random order; figures are medians.

One sentence: 20 source tokens, greedy, for transformers' ``generate`` (float16, the same weights), Verso in slots with
and without CUDA graphs, and Verso's ordinary cohort. The target is a tenth of transformers' time.

Many sentences: 5 to 40 tokens each, greedy and with a beam of 4, in cohorts of several sizes, compared with a floor:
the minimal time in which this GPU can do the necessary reads and products. Its bandwidth (a large copy) and its peak (a
large product) are measured first. With R rows in N sentences, width d, L decoder layers,
vocabulary V, a source of S and an output of t tokens so far, in bytes of float16, a step's floor is the sum of

    products    max(weights read once / bandwidth, 2 R (L (6 d^2 + 2 d f) + d V) / peak)
    attention   keys and values, 2 bytes x 2 d L (N S + R t) / bandwidth
    logits      written once and read once, 2 x 2 bytes x R V / bandwidth

and encoding is max(weights / bandwidth, multiply-adds / peak). Norms, softmax, search, padding, free slots and
launching are not counted, so the ratio is above 1. The target is at most 2.

With ``--device cpu`` it only checks that everything runs (``--shape toy --sentences 8 --rounds 1``).
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from benchmarks.checkpoints import SHAPES, SHIPPED, Shape, make_checkpoint, make_sources
from benchmarks.command_line import parser, positive
from benchmarks.tables import markdown, rounded, write_json
from model.artifacts.bundle import Bundle, load_bundle
from model.decoding.batch import decode_all
from model.decoding.eager.state import TorchState
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.sentence import DecodingRequest
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import SlotModel
from model.importing.importer import import_checkpoint
from model.translation.options import TranslationOptions

NUM_TOKENS = 20
"""Tokens of every output, and of the source of the single sentence."""

BEAM_SIZE = 4

_BYTES = 2
"""Bytes of a float16 value."""


@dataclass(frozen=True)
class Gpu:
    """The measured performance of a device.

    Args:
        bytes_per_s: Bytes read and written by a large copy, per second.
        multiply_adds_per_s: Multiply-adds of a large float16 product, per second.
    """

    bytes_per_s: float
    multiply_adds_per_s: float


def floor_s(shape: Shape, lengths: Sequence[int], beam_size: int, batch_size: int, gpu: Gpu) -> float:
    """The minimal time for sentences decoded ``batch_size`` at a time, as defined in the module's docstring.

    Args:
        shape: The model's sizes.
        lengths: Source tokens of each sentence.
        beam_size: Rows of each sentence.
        batch_size: Sentences that decode together.
        gpu: Performance of the device.
    """
    d, layers = shape.d_model, shape.decoder_layers
    encoder_weights = shape.source_multiply_adds  # one multiply-add per weight
    total = 0.0
    for start in range(0, len(lengths), batch_size):
        batch = lengths[start : start + batch_size]
        rows, tokens = len(batch) * beam_size, sum(batch)
        total += max(
            _BYTES * encoder_weights / gpu.bytes_per_s, tokens * shape.source_multiply_adds / gpu.multiply_adds_per_s
        )
        products = max(
            _BYTES * shape.target_multiply_adds / gpu.bytes_per_s,
            rows * shape.target_multiply_adds / gpu.multiply_adds_per_s,
        )
        logits = 2 * _BYTES * rows * shape.vocab_size / gpu.bytes_per_s
        for step in range(1, NUM_TOKENS + 1):
            attention = _BYTES * 2 * d * layers * (tokens + rows * step) / gpu.bytes_per_s
            total += products + attention + logits
    return total


def measure_gpu(device: torch.device, *, quick: bool) -> Gpu:
    """The best of several large copies and products."""
    num_bytes, side = (2**22, 256) if quick else (2**31, 8192)
    source = torch.empty(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    matrix = torch.randn(side, side, device=device, dtype=torch.float16)
    copying = min(timed(lambda: target.copy_(source), device) for _ in range(10))
    multiplying = min(timed(lambda: matrix @ matrix, device) for _ in range(10))
    return Gpu(2 * num_bytes / copying, side**3 / multiplying)


def timed(run: Callable[[], object], device: torch.device) -> float:
    """Seconds until the device has finished."""
    synchronise(device)
    began = time.perf_counter()
    run()
    synchronise(device)
    return time.perf_counter() - began


def synchronise(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def interleaved(ways: dict[str, Callable[[], object]], rounds: int, device: torch.device) -> dict[str, list[float]]:
    """Seconds of each mode in each round, after two warm-up rounds."""
    rng = random.Random(0)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 2):
        for name in rng.sample(list(ways), len(ways)):
            duration_s = timed(ways[name], device)
            if number >= 2:
                seconds[name].append(duration_s)
    return seconds


def options_for(beam_size: int) -> TranslationOptions:
    """Options for a fixed number of output tokens, for any weights."""
    return TranslationOptions(
        decoding="greedy" if beam_size == 1 else "beam",
        beam_size=beam_size,
        min_new_tokens=NUM_TOKENS,
        max_new_tokens=NUM_TOKENS,
    )


class Verso:
    """The bundle, decoded in one mode.

    Args:
        bundle: The bundle.
        way: ``graphs``, ``slots`` (steps launched operation by operation) or ``cohort``.
    """

    def __init__(self, bundle: Bundle, way: str) -> None:
        self._bundle = bundle
        longest, policy = bundle.manifest.max_target_tokens, bundle.manifest.policy
        self._slots: SlotModel | None = None
        if way != "cohort":
            self._slots = SlotModel(
                bundle.module, bundle.tokenizer, longest, bundle.device, policy, graphs=way == "graphs"
            )

    def cohort(self, width: int) -> Any:
        """An empty cohort."""
        if self._slots is not None:
            return SlotCohort(self._slots, width)
        state = TorchState(self._bundle.module, width, self._bundle.tokenizer.pad_id, self._bundle.device)
        manifest = self._bundle.manifest
        return TorchCohort(
            state, self._bundle.tokenizer, width, manifest.max_target_tokens, self._bundle.device, manifest.policy
        )

    def decode(self, sources: Sequence[list[int]], beam_size: int, batch_size: int) -> None:
        """Translate all sources, ``batch_size`` at a time.

        Raises:
            RuntimeError: An output has another number of tokens than required.
        """
        options = options_for(beam_size)
        requests = [DecodingRequest(number, source, options) for number, source in enumerate(sources)]
        outcomes = list(decode_all(self.cohort, requests, max_batch_tokens=2**40, max_rows=batch_size * beam_size))
        for outcome in outcomes:
            if outcome.hypothesis is None or len(outcome.hypothesis.token_ids) != NUM_TOKENS:
                raise RuntimeError(f"The answer to a sentence is not {NUM_TOKENS} tokens long: {outcome}.")


def make_generate(folder: Path, source: list[int], device: torch.device) -> Callable[[], object]:
    """A function that translates one sentence with transformers."""
    from transformers import MarianMTModel

    loaded: Any = MarianMTModel.from_pretrained(folder)
    model = loaded.half().to(device).eval() if device.type == "cuda" else loaded.eval()
    ids = torch.tensor([source], device=device)
    mask = torch.ones_like(ids)

    def generate() -> object:
        with torch.inference_mode():
            answer = model.generate(
                input_ids=ids,
                attention_mask=mask,
                num_beams=1,
                do_sample=False,
                min_new_tokens=NUM_TOKENS,
                max_new_tokens=NUM_TOKENS,
            )
        if answer.size(1) != NUM_TOKENS + 1:
            raise RuntimeError(f"transformers gave {answer.size(1) - 1} tokens instead of {NUM_TOKENS}.")
        return answer

    return generate


def measure(shape_name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures of one shape."""
    shape, device = SHAPES[shape_name], torch.device(arguments.device)
    make_checkpoint(folder / "transformers", shape)
    precision: Any = "float16" if device.type == "cuda" else "float32"
    import_checkpoint(folder / "transformers", folder / "verso.pt", precision, report=lambda line: None)
    bundle = load_bundle(folder / "verso.pt", arguments.device)
    gpu = measure_gpu(device, quick=device.type != "cuda")

    (alone,) = make_sources(1, shape.vocab_size, NUM_TOKENS, NUM_TOKENS)
    versos = {way: Verso(bundle, way) for way in ("graphs", "slots", "cohort")}
    ways: dict[str, Callable[[], object]] = {
        f"Verso, {way}": lambda verso=verso: verso.decode([alone], 1, 1)  # type: ignore[misc]
        for way, verso in versos.items()
    }
    ways["transformers"] = make_generate(folder / "transformers", alone, device)
    lone = interleaved(ways, arguments.rounds, device)
    ratio = statistics.median(
        rival / verso for rival, verso in zip(lone["transformers"], lone["Verso, graphs"], strict=True)
    )

    sources = make_sources(arguments.sentences, shape.vocab_size, 5, 40)
    lengths = sorted(map(len, sources), reverse=True)
    crowd: list[dict[str, Any]] = []
    for beam_size in (1, BEAM_SIZE):
        for batch_size in arguments.batch_sizes:
            verso = Verso(bundle, "graphs")
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            seconds = interleaved(
                {"crowd": lambda: verso.decode(sources, beam_size, batch_size)},  # noqa: B023  (called immediately)
                arguments.rounds,
                device,
            )["crowd"]
            floor = floor_s(shape, lengths, beam_size, batch_size, gpu)
            crowd.append(
                {
                    "beam_size": beam_size,
                    "batch_size": batch_size,
                    "tokens_per_s": rounded(NUM_TOKENS * len(sources) / statistics.median(seconds)),
                    "floor_tokens_per_s": rounded(NUM_TOKENS * len(sources) / floor),
                    "times_the_floor": rounded(statistics.median(seconds) / floor),
                    "peak_memory_mb": rounded(torch.cuda.max_memory_allocated(device) / 1e6)
                    if device.type == "cuda"
                    else None,
                }
            )
    return {
        "bandwidth_gb_per_s": rounded(gpu.bytes_per_s / 1e9),
        "peak_tflops": rounded(2 * gpu.multiply_adds_per_s / 1e12),
        "one_sentence_ms": {name: rounded(1000 * statistics.median(seconds)) for name, seconds in lone.items()},
        "faster_than_transformers": rounded(ratio),
        "crowd": crowd,
    }


def show(name: str, figures: dict[str, Any]) -> None:
    """Print one shape's tables."""
    print(f"\n{name}: {SHAPES[name]}")
    print(f"Bandwidth {figures['bandwidth_gb_per_s']} GB/s, peak {figures['peak_tflops']} TFLOP/s.\n")
    print(markdown(["one sentence, greedy", "ms"], [[way, str(ms)] for way, ms in figures["one_sentence_ms"].items()]))
    print(f"With graphs {figures['faster_than_transformers']} times as fast as transformers.\n")
    columns = ("beam_size", "batch_size", "tokens_per_s", "floor_tokens_per_s", "times_the_floor", "peak_memory_mb")
    header = [column.replace("_", " ") for column in columns]
    print(markdown(header, [[str(line[column]) for column in columns] for line in figures["crowd"]]))


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, rounds=7)
    options.add_argument("--shape", nargs="+", choices=sorted({*SHAPES} - {SHIPPED}), default=["tiny", "small", "base"])
    options.add_argument("--sentences", type=positive(int), default=4096, help="sentences of the crowd")
    options.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256, 1024], help="sentences at a time")
    options.add_argument("--device", default="cuda")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = options.parse_args()
    if torch.device(arguments.device).type == "cuda" and not torch.cuda.is_available():
        sys.exit("There is no NVIDIA GPU here, or torch's CUDA build is not installed.")
    figures: dict[str, Any] = {
        "machine": {
            "gpu": torch.cuda.get_device_name(arguments.device) if arguments.device.startswith("cuda") else None,
            "python": platform.python_version(),
            "versions": {name: metadata.version(name) for name in ("torch", "transformers")},
        },
        "sentences": arguments.sentences,
        "rounds": arguments.rounds,
        "shapes": {},
    }
    for name in arguments.shape:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figures["shapes"][name] = measure(name, arguments, Path(folder))
        show(name, figures["shapes"][name])
        if arguments.json:
            write_json(figures, arguments.json)


if __name__ == "__main__":
    main()
