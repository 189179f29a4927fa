"""The chunked loss and its gradients, compared with torch's cross-entropy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.training.loss import label_smoothed_loss, r_drop_loss


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
    for first, other in zip(ours, theirs, strict=True):
        assert first.grad is not None
        torch.testing.assert_close(first.grad, other.grad)


def test_the_unsmoothed_likelihood_has_no_gradient() -> None:
    hidden, weight, bias = (tensor.requires_grad_() for tensor in tensors())
    loss, nll = label_smoothed_loss(hidden, weight, bias, targets(), 0.1)
    assert loss.requires_grad
    assert not nll.requires_grad


def test_the_loss_of_no_position_is_zero() -> None:
    hidden, weight, bias = (tensor.requires_grad_() for tensor in tensors(rows=0))
    loss, nll = label_smoothed_loss(hidden, weight, bias, targets(0), 0.1)
    loss.backward()
    assert float(loss.detach()) == float(nll) == 0.0
    assert weight.grad is not None and not weight.grad.any()


def test_large_logits_do_not_overflow() -> None:
    hidden, weight, bias = tensors()
    loss, _ = label_smoothed_loss(hidden * 1e4, weight, bias, targets(), 0.1)
    assert loss.isfinite()


def test_bfloat16_activations_give_the_float32_loss_and_gradients_up_to_rounding() -> None:
    hidden, weight, bias = tensors(rows=64, width=32, vocabulary=50)
    right = targets(64, 50)
    hidden, weight = hidden.bfloat16().float() / 4, weight.bfloat16().float() / 4  # both are exact in bfloat16
    ours = [hidden.bfloat16().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    theirs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    loss, _ = label_smoothed_loss(ours[0], ours[1], ours[2], right, 0.1, 16)
    logits = theirs[0] @ theirs[1].T + theirs[2]
    expected = F.cross_entropy(logits, right, label_smoothing=0.1, reduction="sum")
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=2e-3, atol=0)
    loss.backward()
    expected.backward()
    for first, other in zip(ours, theirs, strict=True):
        assert first.grad is not None and other.grad is not None
        assert first.grad.dtype == first.dtype
        assert float((first.grad.float() - other.grad).norm() / other.grad.norm()) < 0.01


def test_a_projection_without_bias_is_supported() -> None:
    hidden, weight, _ = (tensor.requires_grad_() for tensor in tensors())
    loss, nll = label_smoothed_loss(hidden, weight, None, targets(), 0.1, 4)
    torch.testing.assert_close(
        loss, F.cross_entropy(hidden @ weight.T, targets(), label_smoothing=0.1, reduction="sum")
    )
    torch.testing.assert_close(nll, F.cross_entropy(hidden @ weight.T, targets(), reduction="sum").detach())
    loss.backward()
    assert weight.grad is not None


def reference_r_drop(hidden: Tensor, weight: Tensor, bias: Tensor, smoothing: float, strength: float) -> Tensor:
    """Equation 4 of the paper, with torch's functions."""
    first, second = (passed @ weight.T + bias for passed in hidden)
    loss = sum(
        F.cross_entropy(logits, targets(), label_smoothing=smoothing, reduction="sum") for logits in (first, second)
    )
    p, q = F.log_softmax(first, dim=-1), F.log_softmax(second, dim=-1)
    both = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    return loss + strength * both / 2


@pytest.mark.parametrize("strength", [0.0, 0.5, 5.0])
@pytest.mark.parametrize("chunk_rows", [1, 3, None])
def test_the_loss_of_two_passes_is_that_of_r_drop(strength: float, chunk_rows: int | None) -> None:
    _, weight, bias = tensors()
    hidden = torch.randn(2, 10, 6, generator=torch.Generator().manual_seed(3))
    ours = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    theirs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    loss, nll, divergence = r_drop_loss(ours[0], ours[1], ours[2], targets(), 0.1, strength, chunk_rows)
    expected = reference_r_drop(theirs[0], theirs[1], theirs[2], 0.1, strength)
    torch.testing.assert_close(loss, expected)
    without = reference_r_drop(theirs[0], theirs[1], theirs[2], 0.1, 0.0)
    torch.testing.assert_close(strength * divergence, (expected - without).detach(), atol=1e-4, rtol=1e-4)
    plain = reference_r_drop(theirs[0], theirs[1], theirs[2], 0.0, 0.0)
    torch.testing.assert_close(nll, plain.detach() / 2)
    (loss / 7).backward()
    (expected / 7).backward()
    for first, other in zip(ours, theirs, strict=True):
        assert first.grad is not None and other.grad is not None
        torch.testing.assert_close(first.grad, other.grad)
