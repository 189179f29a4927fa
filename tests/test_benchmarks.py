"""The comparison of engines runs, and its figures are complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.engines import MEASURES, SHAPES, Shape, make_sources, rows_for
from model.config import ModelConfig
from model.transformer import Transformer

ROOT = Path(__file__).resolve().parents[1]


def test_every_engine_is_measured_with_the_same_number_of_tokens(tmp_path: Path) -> None:
    figures_file, picture = tmp_path / "figures.json", tmp_path / "figures.png"
    command = [sys.executable, "benchmarks/engines.py", "--quick", "--shape", "toy", "--sentences", "16"]
    done = subprocess.run(
        [*command, "--json", str(figures_file), "--plot", str(picture)],
        cwd=ROOT,
        # Threads that wait actively would hold up other tests.
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    figures = json.loads(figures_file.read_text(encoding="utf-8"))
    assert {"torch", "transformers", "ctranslate2"} <= figures["machine"]["versions"].keys()
    measured = figures["shapes"]["toy"]
    names = [row.name for row in rows_for(2)]
    assert list(measured["engines"]) == names
    assert len(names) == 7
    for name, engine in measured["engines"].items():
        assert engine["target_tokens"] == {"greedy": 16 * 20, "beam_4": 16 * 20}
        assert all(engine[measure] > 0 and len(engine["rounds"][measure]) == 1 for measure in MEASURES)
        assert engine["greedy_share_of_peak"] >= 0
        assert engine["peak_memory_mb"] > 0
        assert name in done.stdout
    assert all(peak > 0 for peak in measured["peaks_gops"].values())
    for ours in ("Verso float32", "Verso int8"):
        ratios = measured["verso_is_faster_by"][ours]
        assert ratios.keys() == {*names} - {ours}
        assert all(value > 0 for others in ratios.values() for value in others.values())


@pytest.mark.parametrize("name", SHAPES)
def test_multiply_adds_are_those_of_the_layers(name: str) -> None:
    shape = SHAPES[name]
    config = ModelConfig(
        source_vocab_size=shape.vocab_size,
        target_vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        num_heads=shape.num_heads,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        d_ff=shape.d_ff,
    )
    with torch.device("meta"):  # sizes only
        linear = [part for part in Transformer(config, pad_id=0).modules() if isinstance(part, nn.Linear)]
    # Each weight is multiplied with once: for a source token or for a target token.
    assert sum(part.weight.numel() for part in linear) == shape.source_multiply_adds + shape.target_multiply_adds


def test_sources_have_their_lengths_and_end() -> None:
    sources = make_sources(200, 400, 5, 40)
    assert {len(source) for source in sources} == set(range(5, 41))
    assert all(source[-1] == 0 and 0 not in source[:-1] and max(source) < 399 for source in sources)
    assert sources == make_sources(200, 400, 5, 40)


def test_a_shape_says_what_it_is() -> None:
    assert str(Shape(32, 1, 2, 64, 4, 4000)) == "d32, 1+2 layers, feed-forward 64, 4 heads, vocabulary 4,000"
