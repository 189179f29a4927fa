"""Cross-entropy with label smoothing, over a vocabulary too wide to spread out at once; and R-Drop on top of it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_LOGITS = 2**23
"""How many logits exist at once, unless told otherwise: 1,024 rows of a vocabulary of 8,192."""

_SMALLEST = 1e-38
"""A probability below it counts as this much: no token costs more than 87 nats."""


def label_smoothed_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    chunk_rows: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of ``hidden @ weight.T + bias`` against smoothed targets (Szegedy et al. 2016, section 7).

    The target distribution gives ``1 - smoothing`` to the right token and spreads the rest evenly over all.
    Logits exist for ``chunk_rows`` rows at a time and their gradient is made on the way forward, so that neither
    needs memory for rows times vocabulary values. What smoothing adds is the same for every token of the vocabulary
    and is put in at the end, as products of sums.

    Args:
        hidden: Decoder output of the positions that count, (N, C).
        weight: Output projection, (V, C).
        bias: Output bias, (V,), if there is one.
        targets: The right tokens, (N,).
        smoothing: Probability spread evenly, 0 to 1.
        chunk_rows: Rows whose logits exist together; by default as many as make eight million logits.

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
    """The loss of two passes that differ in their dropout, and how much they disagree (Liang et al. 2021, R-Drop).

    It is the sum of both passes' :func:`label_smoothed_loss` and ``strength`` times the mean of the two
    Kullback-Leibler divergences between their distributions (equation 4 of arXiv:2106.14448).

    Args:
        hidden: Decoder output of both passes at the positions that count, (2, N, C).
        weight: Output projection, (V, C).
        bias: Output bias, (V,), if there is one.
        targets: The right tokens, (N,).
        smoothing: Probability spread evenly, 0 to 1.
        strength: What a nat of disagreement costs.
        chunk_rows: Rows whose logits exist together, of each pass; by default as many as make eight million logits.

    Returns:
        Three sums over the N positions: the loss, which carries the gradient, the plain negative log-likelihood (the
        mean of the passes) and the mean divergence, which do not.
    """
    loss, nll, divergence = _ChunkedLoss.apply(hidden, weight, bias, targets, smoothing, strength, chunk_rows)  # type: ignore[no-untyped-call]
    return loss, nll / 2, divergence


class _ChunkedLoss(torch.autograd.Function):
    """Forward and gradient in one pass: the gradient of a sum needs nothing from above but a factor."""

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
            right = targets[chunk].repeat(num_passes).unsqueeze(1)
            logits = F.linear(rows, matrix, offset)  # (P * n, V)
            gradient = torch.softmax(logits, dim=-1, dtype=torch.float32)
            of_right = gradient.gather(1, right)
            nll -= of_right.clamp_min(_SMALLEST).log().sum()
            if strength:
                disagreement, of_disagreement = _disagreement(logits)
                divergence += disagreement
                gradient.add_(of_disagreement, alpha=strength)
                of_right = gradient.gather(1, right)
            gradient.scatter_(1, right, of_right - (1.0 - smoothing))
            gradient = gradient.to(hidden.dtype)
            bias_gradient += gradient.sum(dim=0)
            hidden_gradient[:, chunk] = (gradient @ matrix).view(num_passes, -1, width)
            weight_gradient += gradient.t() @ rows
        loss = (1.0 - smoothing) * nll + strength * divergence
        if smoothing:
            # Every token of the vocabulary gets the share at every row: what it adds needs sums only.
            share = smoothing / vocabulary
            total_rows = hidden.flatten(0, 1).sum(dim=0, dtype=torch.float32)  # (C,)
            total_weight = weight.sum(dim=0, dtype=torch.float32)  # (C,)
            hidden_gradient -= (share * total_weight).to(hidden.dtype)
            weight_gradient -= share * total_rows
            bias_gradient -= share * num_passes * num_rows
            # log p = logit - logsumexp, and the right token's tells what the logsumexp is.
            all_logits = total_rows @ total_weight
            right_logits = (hidden.float() * matrix[targets].float()).sum()
            if bias is not None:
                all_logits = all_logits + num_passes * num_rows * bias.sum()
                right_logits = right_logits + num_passes * bias[targets].sum()
            loss = loss + smoothing * (nll + right_logits) - share * all_logits
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


def _disagreement(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Half the sum of KL(p || q) and KL(q || p), p and q being the upper and the lower half of the rows.

    Args:
        logits: (2 * n, V).

    Returns:
        The sum over n positions, and its gradient by the logits, (2 * n, V), float32.
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
