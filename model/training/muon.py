"""Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon), with matrices of one shape in one batched product."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class BatchedMuon(torch.optim.Muon):
    """``torch.optim.Muon`` with the same updates and state, computed several matrices at a time.

    torch orthogonalises one matrix after another, always in bfloat16, which CPUs without an instruction for it
    emulate. Here all matrices whose sides have the same lengths share each product, in a type that the caller chooses.

    Args:
        params: Matrices.
        dtype: Type of the products.
        options: The other arguments of ``torch.optim.Muon``.
    """

    def __init__(self, params: Iterable[Tensor], *, dtype: torch.dtype, **options: Any) -> None:
        super().__init__(params, **options)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the parameters that have a gradient.

        Args:
            closure: Not supported; for the signature of torch's optimisers.
        """
        assert closure is None
        for group in self.param_groups:
            by_sides: dict[tuple[int, int], list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_sides.setdefault((min(parameter.shape), max(parameter.shape)), []).append(parameter)
            for parameters in by_sides.values():
                self._step(parameters, group)

    def _step(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Update parameters whose sides have the same lengths."""
        momentum, rate = group["momentum"], group["lr"]
        wide: list[Tensor] = []
        for parameter in parameters:
            gradient, state = parameter.grad, self.state[parameter]
            assert gradient is not None
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
            mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
            update = gradient.lerp(mean, momentum) if group["nesterov"] else mean
            wide.append(update.T if _is_tall(update) else update)
        updates = orthogonalised(
            torch.stack(wide).to(self.dtype), group["ns_coefficients"], group["ns_steps"], group["eps"]
        ).to(parameters[0].dtype)
        for parameter, update in zip(parameters, updates, strict=True):
            scale = 0.2 * max(parameter.shape) ** 0.5  # match_rms_adamw, Liu et al. 2025, section 2.2
            if group["adjust_lr_fn"] != "match_rms_adamw":
                scale = max(1.0, parameter.size(0) / parameter.size(1)) ** 0.5
            parameter.mul_(1 - rate * group["weight_decay"])
            parameter.add_(update.T if _is_tall(parameter) else update, alpha=-rate * scale)


def orthogonalised(matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Matrices with singular values near 1, by Newton-Schulz steps X -> aX + (b XX' + c (XX')^2) X.

    Args:
        matrices: No taller than wide, (N, rows, columns).
        coefficients: a, b and c.
        steps: Number of steps.
        eps: Smallest norm to divide by.

    Returns:
        Matrices of the same shape and type.
    """
    a, b, c = coefficients
    x = matrices / torch.linalg.matrix_norm(matrices, keepdim=True).clamp(min=eps)  # the largest singular value <= 1
    for _ in range(steps):
        gram = x @ x.mT  # (N, rows, rows)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _is_tall(matrix: Tensor) -> bool:
    return matrix.size(0) > matrix.size(1)
