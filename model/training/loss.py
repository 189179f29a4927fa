"""Cross-entropy with label smoothing, computed in chunks to bound memory, and R-Drop."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_LOGITS = 2**23
"""Default number of logits computed at once: 1,024 rows for a vocabulary of 8,192."""

_SMALLEST = 1e-38
"""Lower bound of probabilities, so that the loss of a token is at most 87 nats."""


def label_smoothed_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    chunk_rows: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of ``hidden @ weight.T + bias`` against smoothed targets (Szegedy et al. 2016, section 7).

    The target distribution gives ``1 - smoothing`` to the correct token and distributes the rest evenly over all.
    Logits are computed for ``chunk_rows`` rows at a time, and their gradient is computed in the forward pass, so that
    neither needs memory for rows times vocabulary values. The contribution of smoothing is the same for every token of
    the vocabulary and is added at the end, as products of sums.

    Args:
        hidden: Decoder output of the positions without padding, (N, C).
        weight: Output projection, (V, C).
        bias: Output bias, (V,), if there is one.
        targets: The correct tokens, (N,).
        smoothing: Probability distributed evenly, 0 to 1.
        chunk_rows: Rows whose logits are computed together; by default enough for eight million logits.

    Returns:
        Two sums over the N positions: the smoothed loss, which carries the gradient, and the plain negative
        log-likelihood in nats, which does not.
    """
    loss, nll, _ = _ChunkedLoss.apply(hidden.unsqueeze(0), weight, bias, targets, smoothing, 0.0, chunk_rows)  # type: ignore[no-untyped-call]
    return loss, nll


def r_drop_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    strength: float,
    chunk_rows: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The R-Drop loss of two passes with different dropout (Liang et al. 2021).

    It is the sum of both passes' :func:`label_smoothed_loss` and ``strength`` times the mean of the two
    Kullback-Leibler divergences between their distributions (equation 4 of arXiv:2106.14448).

    Args:
        hidden: Decoder output of both passes at the positions without padding, (2, N, C).
        weight: Output projection, (V, C).
        bias: Output bias, (V,), if there is one.
        targets: The correct tokens, (N,).
        smoothing: Probability distributed evenly, 0 to 1.
        strength: Weight of the divergence.
        chunk_rows: Rows of each pass whose logits are computed together; by default enough for eight million logits.

    Returns:
        Three sums over the N positions: the loss, which carries the gradient, the plain negative log-likelihood (the
        mean of the passes) and the mean divergence, which do not.
    """
    loss, nll, divergence = _ChunkedLoss.apply(hidden, weight, bias, targets, smoothing, strength, chunk_rows)  # type: ignore[no-untyped-call]
    return loss, nll / 2, divergence


class _ChunkedLoss(torch.autograd.Function):
    """Computes loss and gradient in the forward pass; the backward pass only multiplies by the upstream gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,  # (P, N, C): P passes over the same N positions
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        strength: float,
        chunk_rows: int | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        num_passes, num_rows, width = hidden.shape
        vocabulary = weight.size(0)
        chunk_rows = chunk_rows or max(1, _LOGITS // (vocabulary * num_passes))
        matrix = weight.to(hidden.dtype)
        offset = None if bias is None else bias.to(hidden.dtype)
        nll = torch.zeros((), device=hidden.device)
        divergence = torch.zeros((), device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros(weight.shape, device=hidden.device, dtype=torch.float32)
        bias_gradient = torch.zeros(vocabulary, device=hidden.device, dtype=torch.float32)
        for start in range(0, num_rows, chunk_rows):
            chunk = slice(start, start + chunk_rows)
            rows = hidden[:, chunk].reshape(-1, width)  # (P * n, C)
            correct = targets[chunk].repeat(num_passes).unsqueeze(1)
            logits = F.linear(rows, matrix, offset)  # (P * n, V)
            gradient = torch.softmax(logits, dim=-1, dtype=torch.float32)
            of_correct = gradient.gather(1, correct)
            nll -= of_correct.clamp_min(_SMALLEST).log().sum()
            if strength:
                chunk_divergence, divergence_gradient = _divergence(logits)
                divergence += chunk_divergence
                gradient.add_(divergence_gradient, alpha=strength)
                of_correct = gradient.gather(1, correct)
            gradient.scatter_(1, correct, of_correct - (1.0 - smoothing))
            gradient = gradient.to(hidden.dtype)
            bias_gradient += gradient.sum(dim=0)
            hidden_gradient[:, chunk] = (gradient @ matrix).view(num_passes, -1, width)
            weight_gradient += gradient.t() @ rows
        loss = (1.0 - smoothing) * nll + strength * divergence
        if smoothing:
            # Every token of the vocabulary has the same share in every row, so sums suffice.
            share = smoothing / vocabulary
            total_rows = hidden.flatten(0, 1).sum(dim=0, dtype=torch.float32)  # (C,)
            total_weight = weight.sum(dim=0, dtype=torch.float32)  # (C,)
            hidden_gradient -= (share * total_weight).to(hidden.dtype)
            weight_gradient -= share * total_rows
            bias_gradient -= share * num_passes * num_rows
            # log p = logit - logsumexp; logsumexp follows from the logit and log p of the correct token.
            all_logits = total_rows @ total_weight
            correct_logits = (hidden.float() * matrix[targets].float()).sum()
            if bias is not None:
                all_logits = all_logits + num_passes * num_rows * bias.sum()
                correct_logits = correct_logits + num_passes * bias[targets].sum()
            loss = loss + smoothing * (nll + correct_logits) - share * all_logits
        ctx.save_for_backward(hidden_gradient, weight_gradient.to(weight.dtype), bias_gradient)
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.mark_non_differentiable(nll, divergence)
        return loss, nll, divergence

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        factor = upstream[0]
        return (
            hidden_gradient * factor.to(hidden_gradient.dtype),
            weight_gradient * factor,
            None if ctx.bias_dtype is None else (bias_gradient * factor).to(ctx.bias_dtype),
            None,
            None,
            None,
            None,
        )


def _divergence(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of KL(p || q) and KL(q || p), where p and q are the first and the second half of the rows.

    Args:
        logits: (2 * n, V).

    Returns:
        The sum over n positions, and its gradient with respect to the logits, (2 * n, V), float32.
    """
    log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    first, second = log_probs.chunk(2)
    probs = log_probs.exp()
    p, q = probs.chunk(2)
    difference = first - second
    p_from_q = (p * difference).sum(dim=-1, keepdim=True)  # KL(p || q)
    q_from_p = -(q * difference).sum(dim=-1, keepdim=True)  # KL(q || p)
    gradient = torch.cat([p * (difference - p_from_q) + (p - q), -q * (difference + q_from_p) + (q - p)])
    return (p_from_q.sum() + q_from_p.sum()) / 2, gradient.mul_(0.5)
