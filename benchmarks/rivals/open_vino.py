"""OpenVINO: graphs whose caches are state of the compiled model; int8 by NNCF's compression of weights.

Compressed weights are OpenVINO's form of int8 for models that generate text: inputs of products are rounded to int8
as they are computed, where the processor has instructions for it, else the weights are made float32 again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from numpy.typing import NDArray

from benchmarks.contenders import Precision, Row
from benchmarks.rivals.graph_search import GraphEngine, Integers, first_scores, past_names, source_names

GRAPHS = ("encoder", "greedy", "beam")

SETTINGS = {"beam": {"SNIPPETS_MODE": "DISABLE"}}
"""Settings by graph. OpenVINO 2026.4.1 computes wrong attention in the beam's graph from 16 tokens of an answer on,
unless attention stays in single operations, which is as quick."""


def make_model(checkpoint: Path, out: Path, precision: Precision) -> None:
    """Export a checkpoint.

    Args:
        checkpoint: A folder with a Marian model of transformers.
        out: The folder to create.
        precision: With int8, weights are rounded per output.
    """
    from benchmarks.rivals.graphs import export_graphs

    export_graphs(checkpoint, out)
    layers: int = json.loads((checkpoint / "config.json").read_text())["decoder_layers"]
    for name in GRAPHS:
        model = openvino.Core().read_model(out / f"{name}.onnx")
        if precision == "int8":
            import nncf

            model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
        if name != "encoder":
            _make_stateful(model, past_names(layers))
        openvino.save_model(model, out / f"{name}.xml", compress_to_fp16=False)


def _make_stateful(model: Any, names: list[str]) -> None:
    """Turn inputs and outputs of caches into state that is empty at first, with one row for each token."""
    from openvino import opset13
    from openvino._offline_transformations import apply_make_stateful_transformation

    num_rows = opset13.gather(opset13.shape_of(model.input("tokens"), "i64"), np.array([0]), np.array(0))
    apply_make_stateful_transformation(model, {name: f"new_{name}" for name in names})
    for operation in model.get_ops():
        if operation.get_type_name() == "ReadValue":
            _, heads, _, head_dim = operation.get_output_partial_shape(0)
            rest = np.array([heads.get_length(), 0, head_dim.get_length()])
            shape = opset13.concat([num_rows, opset13.constant(rest)], axis=0)
            empty = opset13.broadcast(opset13.constant(0.0, dtype=operation.get_output_element_type(0)), shape)
            operation.set_arguments([empty])
    model.validate_nodes_and_infer_types()


class OpenVinoRunner:
    """Inference requests of its own for each graph.

    Args:
        models: Compiled graphs by name.
        config: The configuration of the checkpoint.
    """

    def __init__(self, models: dict[str, Any], config: dict[str, Any]) -> None:
        self._requests = {name: model.create_infer_request() for name, model in models.items()}
        self._layers: int = config["decoder_layers"]
        self._start_id: int = config["decoder_start_token_id"]
        self._request = self._requests["greedy"]
        self._inputs: dict[str, NDArray[Any]] = {}

    def start(self, ids: Integers, may_attend: NDArray[np.bool_], beam_size: int) -> None:
        encoder = self._requests["encoder"]
        encoder.infer({"ids": ids, "may_attend": may_attend})
        self._request = self._requests["greedy" if beam_size == 1 else "beam"]
        self._request.reset_state()
        self._request.set_tensor("may_attend", openvino.Tensor(may_attend))
        for name in source_names(self._layers):
            self._request.set_tensor(name, encoder.get_tensor(name))
        rows = len(ids) * beam_size
        self._inputs = {"tokens": np.full(rows, self._start_id)}
        if beam_size > 1:
            self._inputs |= {"parents": np.arange(rows), "scores": first_scores(len(ids), beam_size)}

    def step(self, position: int) -> tuple[Integers, Integers | None]:
        for name, array in (self._inputs | {"position": np.array([position])}).items():
            self._request.set_tensor(name, openvino.Tensor(array))
        self._request.infer()
        # Copies: the next step writes into the same memory.
        self._inputs = {name: np.array(self._request.get_tensor(f"new_{name}").data) for name in self._inputs}
        return self._inputs["tokens"], self._inputs.get("parents")


class OpenVinoEngine(GraphEngine):
    """Graphs compiled for the processor, with a stream for each concurrent batch."""

    def __init__(self, folder: Path, row: Row) -> None:
        core = openvino.Core()
        settings: dict[str, Any] = {
            "NUM_STREAMS": row.num_workers,
            "INFERENCE_NUM_THREADS": row.num_workers * row.num_threads,
        }
        if row.precision == "float32":
            settings["INFERENCE_PRECISION_HINT"] = "f32"  # otherwise bfloat16, on processors that have it
        models = {
            name: core.compile_model(folder / row.model / f"{name}.xml", "CPU", settings | SETTINGS.get(name, {}))
            for name in GRAPHS
        }
        config = json.loads((folder / "transformers" / "config.json").read_text())
        super().__init__([OpenVinoRunner(models, config) for _ in range(row.num_workers)], config["pad_token_id"])


ENGINE = OpenVinoEngine
