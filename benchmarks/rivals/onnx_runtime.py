"""ONNX Runtime: graphs with caches that stay in its memory from step to step; int8 by its dynamic quantisation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.contenders import Precision, Row
from benchmarks.rivals.graph_search import GraphEngine, Integers, first_scores, past_names, source_names


def make_model(checkpoint: Path, out: Path, precision: Precision) -> None:
    """Export a checkpoint.

    Args:
        checkpoint: A folder with a Marian model of transformers.
        out: The folder to create.
        precision: With int8, weights are rounded per output, and inputs of products when they are computed.
    """
    from benchmarks.rivals.graphs import export_graphs

    export_graphs(checkpoint, out)
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        for path in out.glob("*.onnx"):
            quantize_dynamic(
                path, path, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8,
                extra_options={"MatMulConstBOnly": True},
            )  # fmt: skip


class OnnxRunner:
    """Binds outputs of a step to inputs of the next, without copies.

    Args:
        sessions: Sessions of the graphs by name.
        config: The configuration of the checkpoint.
    """

    def __init__(self, sessions: dict[str, Any], config: dict[str, Any]) -> None:
        self._sessions = sessions
        self._layers: int = config["decoder_layers"]
        self._heads: int = config["decoder_attention_heads"]
        self._head_dim = config["d_model"] // self._heads
        self._start_id: int = config["decoder_start_token_id"]
        self._step = sessions["greedy"]
        self._inputs: dict[str, Any] = {}
        self._outputs: list[str] = []
        self._positions: list[Any] = []

    def start(self, ids: Integers, may_attend: NDArray[np.bool_], beam_size: int) -> None:
        rows = len(ids) * beam_size
        self._step = self._sessions["greedy" if beam_size == 1 else "beam"]
        self._outputs = [output.name for output in self._step.get_outputs()]
        attend = _value(may_attend)
        encoded = _run(
            self._sessions["encoder"], {"ids": _value(ids), "may_attend": attend}, source_names(self._layers)
        )
        empty = np.zeros((rows, self._heads, 0, self._head_dim), np.float32)
        self._inputs = {"may_attend": attend, "tokens": _value(np.full(rows, self._start_id))} | encoded
        self._inputs |= {name: _value(empty) for name in past_names(self._layers)}
        if beam_size > 1:
            self._inputs["parents"] = _value(np.arange(rows))
            self._inputs["scores"] = _value(first_scores(len(ids), beam_size))

    def step(self, position: int) -> tuple[Integers, Integers | None]:
        self._inputs["position"] = _value(np.array([position]))
        results = _run(self._step, self._inputs, self._outputs)
        self._inputs |= {name.removeprefix("new_"): value for name, value in results.items()}
        tokens: Integers = results["new_tokens"].numpy()
        return tokens, results["new_parents"].numpy() if "new_parents" in results else None


def _value(array: NDArray[Any]) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _run(session: Any, inputs: dict[str, Any], outputs: list[str]) -> dict[str, Any]:
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name in outputs:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    return dict(zip(outputs, binding.get_outputs(), strict=True))


class OnnxRuntimeEngine(GraphEngine):
    """Sessions with all optimisations; concurrent batches share them."""

    def __init__(self, folder: Path, row: Row) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = row.num_threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        sessions = {
            path.stem: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for path in (folder / row.model).glob("*.onnx")
        }
        config = json.loads((folder / "transformers" / "config.json").read_text())
        super().__init__([OnnxRunner(sessions, config) for _ in range(row.num_workers)], config["pad_token_id"])


ENGINE = OnnxRuntimeEngine
