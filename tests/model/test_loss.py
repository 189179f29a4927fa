"""The chunked loss against torch's cross-entropy, with its gradients."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.training.loss import label_smoothed_loss


def tensors(rows: int = 10, width: int = 6, vocabulary: int = 9) -> list[Tensor]:
    """Hidden vectors, output weight, output bias."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator) for shape in ((rows, width), (vocabulary, width), (vocabulary,))]


def targets(rows: int = 10, vocabulary: int = 9) -> Tensor:
    return torch.randint(0, vocabulary, (rows,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("chunk_rows", [1, 3, 10, 1000])
def test_the_loss_and_its_gradients_are_torchs(smoothing: float, chunk_rows: int) -> None:
    ours = [tensor.requires_grad_() for tensor in tensors()]
    theirs = [tensor.requires_grad_() for tensor in tensors()]
    loss, nll = label_smoothed_loss(ours[0], ours[1], ours[2], targets(), smoothing, chunk_rows)
    logits = theirs[0] @ theirs[1].T + theirs[2]
    expected = F.cross_entropy(logits, targets(), label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets(), reduction="sum").detach())
    (loss / 7).backward()
    (expected / 7).backward()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.grad)


def test_a_gradient_reaches_what_came_before() -> None:
    start = torch.ones(10, 6, requires_grad=True)
    hidden, weight, bias = tensors()
    label_smoothed_loss(start * hidden, weight, bias, targets(), 0.1)[0].backward()
    other = torch.ones(10, 6, requires_grad=True)
    F.cross_entropy((other * hidden) @ weight.T + bias, targets(), label_smoothing=0.1, reduction="sum").backward()
    assert start.grad is not None and other.grad is not None
    torch.testing.assert_close(start.grad, other.grad)


def test_the_plain_likelihood_carries_no_gradient() -> None:
    hidden, weight, bias = (tensor.requires_grad_() for tensor in tensors())
    loss, nll = label_smoothed_loss(hidden, weight, bias, targets(), 0.1)
    assert loss.requires_grad
    assert not nll.requires_grad


def test_knowing_nothing_costs_the_logarithm_of_the_vocabulary() -> None:
    loss, nll = label_smoothed_loss(torch.zeros(4, 6), torch.zeros(9, 6), torch.zeros(9), targets(4), 0.1)
    assert float(loss) == pytest.approx(4 * math.log(9), rel=1e-6)
    assert float(nll) == pytest.approx(4 * math.log(9), rel=1e-6)


def test_no_position_costs_nothing() -> None:
    hidden, weight, bias = (tensor.requires_grad_() for tensor in tensors(rows=0))
    loss, nll = label_smoothed_loss(hidden, weight, bias, targets(0), 0.1)
    loss.backward()
    assert float(loss.detach()) == float(nll) == 0.0
    assert weight.grad is not None and not weight.grad.any()


def test_huge_logits_do_not_overflow() -> None:
    hidden, weight, bias = tensors()
    loss, _ = label_smoothed_loss(hidden * 1e4, weight, bias, targets(), 0.1)
    assert loss.isfinite()


def test_bfloat16_activations_give_the_float32_loss_and_gradients_but_for_rounding() -> None:
    hidden, weight, bias = tensors(rows=64, width=32, vocabulary=50)
    right = targets(64, 50)
    hidden, weight = hidden.bfloat16().float() / 4, weight.bfloat16().float() / 4  # both can be told exactly
    ours = [hidden.bfloat16().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    theirs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    loss, _ = label_smoothed_loss(ours[0], ours[1], ours[2], right, 0.1, 16)
    logits = theirs[0] @ theirs[1].T + theirs[2]
    expected = F.cross_entropy(logits, right, label_smoothing=0.1, reduction="sum")
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=2e-3, atol=0)
    loss.backward()
    expected.backward()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None and other.grad is not None
        assert one.grad.dtype == one.dtype
        assert float((one.grad.float() - other.grad).norm() / other.grad.norm()) < 0.01
