"""Cross-entropy with label smoothing, over a vocabulary too wide to spread out at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def label_smoothed_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, chunk_rows: int = 512
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of ``hidden @ weight.T + bias`` against smoothed targets (Szegedy et al. 2016, section 7).

    The target distribution gives ``1 - smoothing`` to the right token and spreads the rest evenly over all.
    Logits exist for ``chunk_rows`` rows at a time and their gradient is made on the way forward, so that neither
    needs memory for rows times vocabulary values, and the rows are still in cache when they are read again.

    Args:
        hidden: Decoder output of the positions that count, (N, C).
        weight: Output projection, (V, C).
        bias: Output bias, (V,).
        targets: The right tokens, (N,).
        smoothing: Probability spread evenly, 0 to 1.
        chunk_rows: Rows whose logits exist together.

    Returns:
        Two sums over the N positions: the smoothed loss, which carries the gradient, and the plain negative
        log-likelihood in nats, which does not.
    """
    loss, nll = _ChunkedLoss.apply(hidden, weight, bias, targets, smoothing, chunk_rows)  # type: ignore[no-untyped-call]
    return loss, nll


class _ChunkedLoss(torch.autograd.Function):
    """Forward and gradient in one pass: the gradient of a sum needs nothing from above but a factor."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, chunk_rows: int
    ) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            vocabulary = weight.size(0)
            matrix = weight.to(hidden.dtype)
            loss = torch.zeros((), device=hidden.device)
            nll = torch.zeros((), device=hidden.device)
            hidden_gradient = torch.empty_like(hidden)
            weight_gradient = torch.zeros(weight.shape, device=hidden.device, dtype=torch.float32)
            bias_gradient = torch.zeros(vocabulary, device=hidden.device, dtype=torch.float32)
            for start in range(0, hidden.size(0), chunk_rows):
                rows = hidden[start : start + chunk_rows]
                right = targets[start : start + chunk_rows].unsqueeze(1)
                logits = F.linear(rows, matrix).float() + bias
                log_probs = torch.log_softmax(logits, dim=-1)
                chunk_nll = -log_probs.gather(1, right).sum()
                nll += chunk_nll
                loss += (1.0 - smoothing) * chunk_nll - smoothing / vocabulary * log_probs.sum()
                gradient = log_probs.exp_().sub_(smoothing / vocabulary)
                gradient.scatter_add_(1, right, torch.full_like(right, smoothing - 1.0, dtype=gradient.dtype))
                bias_gradient += gradient.sum(dim=0)
                gradient = gradient.to(hidden.dtype)
                hidden_gradient[start : start + chunk_rows] = gradient @ matrix
                weight_gradient += gradient.t() @ rows
        ctx.save_for_backward(hidden_gradient, weight_gradient.to(weight.dtype), bias_gradient.to(bias.dtype))
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        hidden_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        factor = upstream[0]
        return (
            hidden_gradient * factor.to(hidden_gradient.dtype),
            weight_gradient * factor,
            bias_gradient * factor,
            None,
            None,
            None,
        )
