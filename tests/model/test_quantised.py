from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from model.network.quantised import REDUCED_RANGE, int8_is_supported, quantise

pytestmark = pytest.mark.skipif(not int8_is_supported(), reason="this processor has no int8 kernels")


def test_int8_weights_are_within_their_rounding_error() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(64, 48)
    x = torch.randn(7, 5, 64) * torch.logspace(-2, 2, 7).view(7, 1, 1)
    exact = linear(x)
    # Half a step of each weight and of each activation, summed over the row.
    weight_step = linear.weight.abs().amax(1) / 127
    x_step = x.abs().amax(-1, keepdim=True) / 127
    bound = 0.5 * (x.abs().sum(-1, keepdim=True) * weight_step + x_step * linear.weight.abs().sum(1)) + 1e-3
    assert ((quantise(linear)(x) - exact).abs() <= bound).all()


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    quantised = quantise(nn.Linear(32, 16))
    row = torch.randn(1, 32)
    batch = torch.cat([row, 1000 * torch.randn(9, 32)])
    assert torch.equal(quantised(batch)[:1], quantised(row))


def test_a_row_of_zeros_gives_the_bias() -> None:
    linear = nn.Linear(8, 4)
    assert torch.allclose(quantise(linear)(torch.zeros(1, 8)), linear.bias)


def test_the_reduced_range_is_also_close() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(64, 48)
    quantised = quantise(linear)
    quantised.levels = REDUCED_RANGE
    x = torch.randn(9, 64)
    assert (quantised(x) - linear(x)).abs().max() < 0.05


def test_a_layer_gives_the_same_where_torch_has_no_product_of_bytes() -> None:
    torch.manual_seed(0)
    quantised = quantise(nn.Linear(300, 48))
    x = torch.randn(5, 7, 300)
    expected = quantised(x)
    quantised.multiplies_bytes = False
    assert torch.equal(quantised(x), expected)
    assert torch.equal(torch.jit.script(quantised)(x), expected)


def test_a_scripted_layer_can_be_saved_loaded_and_given_a_new_range() -> None:
    torch.manual_seed(0)
    quantised = quantise(nn.Linear(16, 8))
    x = torch.randn(3, 16)
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(quantised), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    loaded.levels = quantised.levels
    assert torch.equal(loaded(x), quantised(x))
    loaded.levels = quantised.levels = REDUCED_RANGE
    assert torch.equal(loaded(x), quantised(x))
