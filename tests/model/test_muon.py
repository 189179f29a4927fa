"""Muon in batched products: the updates and the state of torch's, in either type."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.training.muon import BatchedMuon, orthogonalised
from model.training.update import products_in

SHAPES = [(8, 8), (8, 24), (24, 8), (8, 8), (24, 8), (16, 40)]
OPTIONS: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}


def matrices() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def steps(parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer, first: int, last: int) -> list[Tensor]:
    for step in range(first, last):
        generator = torch.Generator().manual_seed(100 + step)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


def assert_close_updates(actual: Sequence[Tensor], expected: Sequence[Tensor], order: Sequence[Tensor]) -> None:
    """Compare what updates added to matrices; torch rounds to bfloat16, with eight bits."""
    for first, other, start in zip(actual, expected, order, strict=True):
        assert (first - other).norm().item() < 0.03 * (other - start.detach()).norm().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_updates_are_those_of_torch(dtype: torch.dtype) -> None:
    ours, theirs = matrices(), matrices()
    actual = steps(ours, BatchedMuon(ours, dtype=dtype, **OPTIONS), 0, 5)
    expected = steps(theirs, torch.optim.Muon(theirs, **OPTIONS), 0, 5)
    assert_close_updates(actual, expected, matrices())


def test_a_run_begun_with_the_muon_of_torch_goes_on() -> None:
    theirs, ours = matrices(), matrices()
    before = torch.optim.Muon(theirs, **OPTIONS)
    steps(theirs, before, 0, 3)
    after = BatchedMuon(ours, dtype=torch.bfloat16, **OPTIONS)
    after.load_state_dict(deepcopy(before.state_dict()))
    with torch.no_grad():
        for first, other in zip(ours, theirs, strict=True):
            first.copy_(other)
    order = [parameter.detach().clone() for parameter in theirs]
    assert_close_updates(steps(ours, after, 3, 5), steps(theirs, before, 3, 5), order)


def test_a_parameter_without_a_gradient_keeps_its_value() -> None:
    parameters = matrices()
    optimizer = BatchedMuon(parameters, dtype=torch.float32, **OPTIONS)
    parameters[0].grad = torch.ones(parameters[0].shape)
    optimizer.step()
    changed = [not torch.equal(first, other) for first, other in zip(parameters, matrices(), strict=True)]
    assert changed == [True, *[False] * 5]


def test_singular_values_come_near_one() -> None:
    x = torch.randn(3, 8, 24, generator=torch.Generator().manual_seed(2))
    values = torch.linalg.svdvals(orthogonalised(x, (3.4445, -4.7750, 2.0315), 5, 1e-7))
    # The coefficients were chosen for a steep start, so that values end between 0.68 and 1.14 (Jordan et al. 2024).
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.2


@pytest.mark.parametrize(("has_bfloat16", "expected"), [(False, None), (True, torch.bfloat16)])
def test_products_are_in_bfloat16_only_where_the_processor_has_it(
    has_bfloat16: bool, expected: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bfloat16, raising=False)
    assert products_in("auto", "cpu") is expected
