"""The steps of one head, compared with NumPy, with the weights of attend(), and with what a forward pass computes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model.artifacts.script import script
from model.errors import UnknownHead
from model.network.heads import AttentionHead, AttentionKind
from model.network.presets import PRESETS
from model.network.quantised import int8_is_supported
from model.network.steps import attention_steps
from model.network.transformer import Transformer
from tests.model.torch_layers import randomise, small_config

PAD = 0
SOURCE = torch.tensor([[5, 3, 9, 7, 4, 2]])
TARGET = torch.tensor([[1, 8, 6, 11, 3]])
KINDS: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")

ARCHITECTURES: dict[str, dict[str, Any]] = {
    **{
        name: {key: preset[key] for key in preset.keys() & {"norm", "layer_norm_gain", "attention_bias"}}
        for name, preset in PRESETS.items()
    },
    "learned positions": {"norm": "post", "positions": "learned", "scale_embedding": False},
    "another decoder": {"decoder_num_heads": 2, "decoder_d_ff": 40, "activation": "silu", "position_offset": 2},
    "recurrent decoder": {"decoder": "ssru", "start": "zero", "norm": "post"},
    "recurrent decoder, pre-norm": {"decoder": "ssru", "norm": "pre"},
    "recurrent decoder, residual-post-norm": {"decoder": "ssru", "norm": "residual-post"},
}
"""Every norm, and everything else that changes a step."""

PRECISIONS = ["float32", "bfloat16", "float16", *(["int8"] if int8_is_supported() else [])]

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
every_kind = pytest.mark.parametrize("kind", KINDS)


def eager(name: str) -> Transformer:
    network = Transformer(
        small_config(share_embeddings=False, tie_output=False, encoder_layers=3, **ARCHITECTURES[name]), PAD
    )
    randomise(network)
    return network.eval().requires_grad_(False)


@cache
def scripted(name: str, precision: Any) -> Transformer:
    return script(eager(name), precision)


def heads(name: str, *kinds: AttentionKind) -> Iterator[AttentionHead]:
    """Every head of these kinds."""
    config = small_config(encoder_layers=3, **ARCHITECTURES[name])
    for kind in kinds:
        if kind == "decoder" and config.decoder == "ssru":
            continue
        encoder = kind == "encoder"
        num_heads = config.num_heads if encoder else config.decoder_stack.num_heads
        for layer in range(config.encoder_layers if encoder else config.decoder_layers):
            for head in range(num_heads):
                yield AttentionHead(kind, layer, head)


def steps_of(name: str, head: AttentionHead, network: Transformer | None = None) -> dict[str, Tensor]:
    config = small_config(encoder_layers=3, **ARCHITECTURES[name])
    with torch.inference_mode():
        return attention_steps(network or eager(name), config, SOURCE, TARGET, head)


def attended(network: Transformer, head: AttentionHead) -> Tensor:
    """The weights of a head as /attention returns them."""
    with torch.inference_mode():
        encoder, decoder, cross = network.attend(SOURCE, TARGET)
    weights = {"encoder": encoder, "decoder": decoder, "cross": cross}[head.kind]
    return weights[0, head.layer, head.head].float()


def softmax(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return cast("np.ndarray[Any, Any]", powers / powers.sum(axis=1, keepdims=True))


def assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, atol=2e-5, rtol=2e-5)


@every_architecture
def test_numpy_computes_each_step_of_a_head_from_the_steps_before(name: str) -> None:
    for head in heads(name, *KINDS):
        steps = {key: value.numpy() for key, value in steps_of(name, head).items()}
        assert_close(steps["scores"], steps["query"] @ steps["key"].T / np.sqrt(steps["query"].shape[1]))
        rows, columns = steps["scores"].shape
        allowed = np.tril(np.ones((rows, columns), dtype=bool)) if head.kind == "decoder" else True
        np.testing.assert_array_equal(steps["masked"], np.where(allowed, steps["scores"], -np.inf))
        assert_close(steps["weights"], softmax(steps["masked"]))
        assert_close(steps["mixed"], steps["weights"] @ steps["value"])


@every_architecture
@every_kind
def test_the_output_projects_the_mixed_values_of_all_heads(name: str, kind: AttentionKind) -> None:
    network = eager(name)
    of_layer = [steps_of(name, head) for head in heads(name, kind) if head.layer == 1]
    if not of_layer:
        pytest.skip("a recurrent decoder has no heads of its own")
    layer: Any = (network.encoder if kind == "encoder" else network.decoder)[1]
    projection = (layer.cross_attention if kind == "cross" else layer.self_attention).output
    expected = torch.cat([steps["mixed"] for steps in of_layer], dim=1) @ projection.weight.T
    if projection.bias is not None:
        expected = expected + projection.bias
    for steps in of_layer:
        assert_close(steps["output"], expected)


@every_architecture
def test_the_norm_is_where_the_architecture_has_it(name: str) -> None:
    network = eager(name)
    position = ARCHITECTURES[name].get("norm", "pre")
    for head in heads(name, *KINDS):
        steps = steps_of(name, head)
        layer: Any = (network.encoder if head.kind == "encoder" else network.decoder)[head.layer]
        norm = layer.cross_attention_norm if head.kind == "cross" else layer.self_attention_norm

        def normalised(x: Tensor, norm: Any = norm) -> Tensor:
            deviation = (x.var(dim=1, keepdim=True, unbiased=False) + 1e-5).sqrt()
            scaled: Tensor = (x - x.mean(dim=1, keepdim=True)) / deviation * norm.weight
            shifted: Tensor = scaled + norm.bias
            return shifted

        assert ("normed" in steps, "normed_output" in steps) == (position == "pre", position == "residual-post")
        added = steps["output"]
        if position == "pre":
            assert_close(steps["normed"], normalised(steps["input"]))
        elif position == "residual-post":
            added = steps["normed_output"]
            assert_close(added, normalised(steps["output"]))
        assert_close(steps["residual"], steps["input"] + added)
        assert_close(steps["result"], normalised(steps["residual"]) if position == "post" else steps["residual"])


@every_architecture
def test_the_steps_are_what_a_forward_pass_computes(name: str) -> None:
    network = eager(name)
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed[module] = (inputs[0][0], output[0])

    for module in network.modules():
        module.register_forward_hook(note)
    with torch.inference_mode():
        network.hidden(SOURCE, TARGET)
    forward_pass = dict(passed)
    norm = ARCHITECTURES[name].get("norm", "pre")

    for head in heads(name, *KINDS):
        steps = steps_of(name, head)
        layer: Any = (network.encoder if head.kind == "encoder" else network.decoder)[head.layer]
        attention = layer.cross_attention if head.kind == "cross" else layer.self_attention
        assert_close(steps["output"], forward_pass[attention.output][1])
        if head.kind != "cross":
            assert_close(steps["input"], forward_pass[layer][0])
            projected = forward_pass[attention.query_key_value][1].unflatten(1, (3, attention.num_heads, -1))
            for part, step in enumerate(("query", "key", "value")):
                assert_close(steps[step], projected[:, part, head.head])
        else:
            if ARCHITECTURES[name].get("decoder") != "ssru":
                result = steps_of(name, AttentionHead("decoder", head.layer, 0))["result"]
            elif ARCHITECTURES[name]["norm"] == "post":
                result = forward_pass[layer.recurrent_norm][1]
            else:
                added = forward_pass[layer.recurrent if norm == "pre" else layer.recurrent_norm][1]
                result = forward_pass[layer][0] + added
            assert_close(steps["input"], result)
            projected = forward_pass[attention.query][1].unflatten(1, (attention.num_heads, -1))
            assert_close(steps["query"], projected[:, head.head])
            projected = forward_pass[attention.key_value][1].unflatten(1, (2, attention.num_heads, -1))
            for part, step in enumerate(("key", "value")):
                assert_close(steps[step], projected[:, part, head.head])
        if head.kind == "decoder":
            assert "feed_forward" not in steps
            continue
        assert_close(steps["feed_forward"], forward_pass[layer.feed_forward][1])
        output, added = steps["result"], steps["feed_forward"]
        output = output + (layer.feed_forward_norm(added) if norm == "residual-post" else added)
        assert_close(layer.feed_forward_norm(output) if norm == "post" else output, forward_pass[layer][1])


@pytest.mark.sampled(5)
@every_architecture
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_weights_of_each_precision_are_those_that_attention_returns(name: str, precision: str) -> None:
    network = scripted(name, precision)
    tolerance = {"float32": 1e-6, "int8": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}[precision]
    for head in heads(name, *KINDS):
        result = steps_of(name, head, network)
        assert {values.dtype for values in result.values()} == {torch.float32}
        torch.testing.assert_close(result["weights"], attended(network, head), atol=tolerance, rtol=0)


def test_the_steps_of_a_layer_are_those_of_its_own_width() -> None:
    """Five and six positions, vectors of 16, four heads of 4 in the encoder and two of 8 in the decoder."""
    shapes = {
        kind: {step: tuple(values.shape) for step, values in steps_of("another decoder", head).items()}
        for kind, head in ((kind, AttentionHead(kind, 2, 1)) for kind in KINDS)
    }
    assert (shapes["encoder"]["query"], shapes["decoder"]["query"]) == ((6, 4), (5, 8))
    assert (shapes["cross"]["key"], shapes["cross"]["value"], shapes["cross"]["scores"]) == ((6, 8), (6, 8), (5, 6))
    for kind in KINDS:
        rows = 6 if kind == "encoder" else 5
        wide = ("embedding", "position", "input", "normed", "output", "residual", "result")
        assert {shapes[kind][step] for step in wide} == {(rows, 16)}


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (AttentionHead("encoder", 3, 0), "layer 3 of kind 'encoder'; there are 3, counted from 0 to 2"),
        (AttentionHead("cross", 2, 2), "head 2 of kind 'cross'; there are 2, counted from 0 to 1"),
        (AttentionHead("decoder", -1, 0), "layer -1 of kind 'decoder'; there are 3"),
    ],
)
def test_a_head_that_does_not_exist_is_refused(head: AttentionHead, message: str) -> None:
    with pytest.raises(UnknownHead, match=message):
        steps_of("another decoder", head)


def test_a_recurrent_decoder_has_no_head_of_its_own() -> None:
    with pytest.raises(UnknownHead, match="layer 0 of kind 'decoder'; the decoder of this model is recurrent"):
        steps_of("recurrent decoder", AttentionHead("decoder", 0, 0))
