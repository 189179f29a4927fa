"""The libraries that Verso is compared with: they get the same model, and what is limited for them is limited."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import MarianMTModel

from benchmarks.checkpoints import SHAPES, make_checkpoint, make_sources
from benchmarks.contenders import Job, Row, engine_runner
from benchmarks.processes import started
from benchmarks.rivals.graph_search import GraphEngine, Integers, first_scores, search
from benchmarks.rivals.graphs import BeamGraph, EncoderGraph, GreedyGraph
from benchmarks.rivals.marian import make_model as make_marian
from tests.environment_process import variable_reader

pytestmark = pytest.mark.thorough

NUM_TOKENS = 6


def test_variables_are_set_for_a_process_before_it_loads_anything() -> None:
    with started("test", variable_reader, "VERSO_ISA", variables={"VERSO_ISA": "avx2"}) as worker:
        assert worker.run("wanted") == ["avx2"]
    assert "VERSO_ISA" not in os.environ


class ScriptedRunner:
    """A runner whose steps are given.

    Args:
        steps: Tokens and parents of each step.
    """

    def __init__(self, steps: list[tuple[list[int], list[int]]]) -> None:
        self._steps = steps
        self.ids: Integers = np.zeros((0, 0), np.int64)

    def start(self, ids: Integers, may_attend: NDArray[np.bool_], beam_size: int) -> None:
        self.ids = ids
        assert (may_attend == (ids != 9)).all()

    def step(self, position: int) -> tuple[Integers, Integers | None]:
        tokens, parents = self._steps[position]
        return np.array(tokens), np.array(parents)


def test_the_best_row_is_followed_back_through_its_parents() -> None:
    runner = ScriptedRunner(
        [([1, 2, 3, 4], [0, 0, 2, 2]), ([5, 6, 7, 8], [1, 0, 2, 3]), ([10, 11, 12, 13], [1, 0, 3, 2])]
    )
    assert search(runner, [[1, 2], [3]], beam_size=2, num_tokens=3, pad_id=9) == [[1, 6, 10], [4, 8, 12]]
    assert runner.ids.tolist() == [[1, 2], [3, 9]]


class TorchRunner:
    """Runs the graphs as modules of torch, without exporting them.

    Args:
        model: The Marian model of transformers.
    """

    def __init__(self, model: Any) -> None:
        self._config = model.config
        self._encoder = EncoderGraph(model)
        self._greedy, self._beam = GreedyGraph(model), BeamGraph(model)

    def start(self, ids: Integers, may_attend: NDArray[np.bool_], beam_size: int) -> None:
        rows, heads = len(ids) * beam_size, self._config.decoder_attention_heads
        self._may_attend = torch.from_numpy(may_attend)
        self._source = self._encoder(torch.from_numpy(ids), self._may_attend)
        empty = torch.zeros(rows, heads, 0, self._config.d_model // heads)
        self._past: list[Tensor] = [empty] * (2 * self._config.decoder_layers)
        self._rows = [torch.full((rows,), self._config.decoder_start_token_id)]
        if beam_size > 1:
            self._rows += [torch.arange(rows), torch.from_numpy(first_scores(len(ids), beam_size))]

    def step(self, position: int) -> tuple[Integers, Integers | None]:
        graph = self._greedy if len(self._rows) == 1 else self._beam
        states = (torch.tensor([position]), self._may_attend, *self._source, *self._past)
        result = graph(*self._rows, *states)
        self._rows, self._past = result[: len(self._rows)], result[len(self._rows) :]
        return self._rows[0].numpy(), self._rows[1].numpy() if len(self._rows) > 1 else None


def translated(model: Any, source: list[int], beam_size: int) -> list[int]:
    """The answer of transformers, without its start token."""
    expected = model.generate(
        input_ids=torch.tensor([source]),
        num_beams=beam_size,
        do_sample=False,
        early_stopping=False,
        min_new_tokens=NUM_TOKENS,
        max_new_tokens=NUM_TOKENS,
    )
    return expected[0].tolist()[1:]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random checkpoint."""
    folder = tmp_path_factory.mktemp("rivals") / "transformers"
    make_checkpoint(folder, SHAPES["toy"])
    return folder


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_exported_graphs_translate_as_transformers_does(checkpoint: Path, beam_size: int) -> None:
    model: Any = MarianMTModel.from_pretrained(checkpoint).eval().requires_grad_(False)
    pad = model.config.pad_token_id
    sources = make_sources(7, SHAPES["toy"].vocab_size, 3, 12)
    engine = GraphEngine([TorchRunner(model)], pad)
    translations = engine.translate(sources, Job(sources, beam_size, 3, NUM_TOKENS, NUM_TOKENS))
    for source, answer in zip(sources, translations, strict=True):
        assert answer == translated(model, source, beam_size)


def test_outputs_of_different_lengths_are_refused(checkpoint: Path) -> None:
    with pytest.raises(ValueError, match="one length"):
        GraphEngine([ScriptedRunner([])], 9).translate([[1]], Job([[1]], 1, 1, 0, 5))


def test_marians_file_has_all_weights_of_the_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    make_marian(checkpoint, tmp_path / "marian", "float32")
    weights = np.load(tmp_path / "marian" / "model.npz")
    assert sum(name.startswith("encoder_l1_") for name in weights) == 16
    assert sum(name.startswith("decoder_l1_") for name in weights) == 26
    config = json.loads((checkpoint / "config.json").read_text())
    words = (tmp_path / "marian" / "vocab.txt").read_text().split()
    assert weights["Wemb"].shape == (len(words), config["d_model"])
    assert words[0] == "</s>"
    assert words[7] == "t7"
    theirs = MarianMTModel.from_pretrained(checkpoint).model.encoder.layers[0].fc1.weight.detach().numpy()
    np.testing.assert_array_equal(weights["encoder_l1_ffn_W1"], theirs.T)
    # Marian reads the description up to a zero byte.
    assert bytes(weights["special:model.yml"])[-1:] == b"\0"


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_marian_translates_as_transformers_does_with_marians_sines(
    checkpoint: Path, tmp_path: Path, beam_size: int
) -> None:
    pytest.importorskip("pymarian", reason="an optional rival")
    make_marian(checkpoint, tmp_path / "Marian float32", "float32")
    model: Any = MarianMTModel.from_pretrained(checkpoint).eval().requires_grad_(False)
    width = model.config.d_model
    angles = np.arange(512)[:, None] * 10000.0 ** (-np.arange(width // 2) / (width // 2 - 1))
    sines = torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1)).float()
    for part in (model.model.encoder, model.model.decoder):
        part.embed_positions.weight.data = sines
    sources = make_sources(8, SHAPES["toy"].vocab_size, 3, 12)
    job = Job(sources, beam_size, 3, NUM_TOKENS, NUM_TOKENS)
    with started("Marian", engine_runner, Row("Marian", "float32", 2, 1), tmp_path) as worker:
        answers = worker.run(job).answers
    for source, answer in zip(sources, answers, strict=True):
        assert answer == translated(model, source, beam_size)
