"""An update of the weights: the gradients of batches and a step of the optimiser."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from model.errors import ConfigError
from model.network.transformer import Transformer
from model.training.batches import Batch
from model.training.distributed import ALONE, Processes
from model.training.loss import label_smoothed_loss, r_drop_loss
from model.training.muon import BatchedMuon
from model.training.settings import TrainingSettings


class Updater:
    """Updates the weights of a model.

    It never waits for the device: the caller reads the loss of an update while the next update runs.

    Args:
        transformer: The model, on its device and in training mode.
        settings: Optimiser, loss and precision.
        processes: The processes that update the same weights; this one alone by default.
    """

    def __init__(self, transformer: Transformer, settings: TrainingSettings, processes: Processes = ALONE) -> None:
        self._transformer = transformer
        self._settings = settings
        self._processes = processes
        self._device = transformer.output.weight.device
        self.amp_dtype = products_in(settings.precision, self._device.type)
        self._loss = processes.averaging_gradients(_BatchLoss(transformer, settings, self.amp_dtype))
        self._optimizers = _optimizers(transformer, settings)

    @property
    def rate(self) -> float:
        """The learning rate of the last update; before the first, its peak."""
        return float(self._optimizers["adamw"].param_groups[0]["lr"])

    def state(self) -> dict[str, Any]:
        """The states of the optimisers, by name."""
        return {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the states that :meth:`state` returned.

        Raises:
            ConfigError: They are the states of other optimisers.
        """
        if state.keys() != self._optimizers.keys():
            raise ConfigError(
                f"The run was trained with {' and '.join(sorted(state))}, and its configuration asks for "
                f"{' and '.join(sorted(self._optimizers))}; set optimizer back, or give it a folder of its own."
            )
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state[name])

    def update(self, batches: Sequence[Batch], rate: float, num_tokens: int | None = None) -> Tensor:
        """Update the weights with the accumulated gradients of batches.

        Args:
            batches: At least one, and as many in each process.
            rate: The learning rate.
            num_tokens: Target tokens of the update, of all processes together; those of ``batches`` by default.

        Returns:
            The sum of the negative log-likelihoods of these tokens, in nats; on the device, where the computation may
            still be running.
        """
        for optimizer in self._optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate
        if num_tokens is None:
            num_tokens = sum(batch.num_target_tokens for batch in batches)
        # The gradient is the sum over the processes divided by the tokens; the exchange of gradients takes their mean.
        divisor = num_tokens * self._settings.num_passes / self._processes.size
        nll = torch.zeros((), device=self._device)
        for number, batch in enumerate(batches, start=1):
            with self._processes.accumulating(self._loss, last=number == len(batches)):
                loss, batch_nll = self._loss(batch)
                (loss / divisor).backward()
            nll += batch_nll
        torch.nn.utils.clip_grad_norm_(self._transformer.parameters(), self._settings.clip_norm)
        for optimizer in self._optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._processes.add_up(nll)
        return nll


class _BatchLoss(nn.Module):
    """The loss of a batch: the forward pass of training, as the module that DistributedDataParallel wraps.

    Args:
        transformer: The model.
        settings: The loss.
        amp_dtype: The type in which matrix products are computed; None for float32.
    """

    def __init__(self, transformer: Transformer, settings: TrainingSettings, amp_dtype: torch.dtype | None) -> None:
        super().__init__()
        self.transformer = transformer
        self._settings = settings
        self._amp_dtype = amp_dtype

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss and the negative log-likelihood of a batch, summed over its tokens (the loss also over passes)."""
        settings, output, dtype = self._settings, self.transformer.output, self._amp_dtype
        device, num_passes = output.weight.device, settings.num_passes
        source = batch.source.to(device, non_blocking=True)
        target = batch.target.to(device, non_blocking=True)
        correct = target[:, 1:].flatten()
        if num_passes > 1:
            source, target = source.repeat(num_passes, 1), target.repeat(num_passes, 1)
        with torch.autocast(device.type, dtype) if dtype else contextlib.nullcontext():
            hidden = self.transformer.hidden(source, target[:, :-1])
        rows = hidden.view(num_passes, correct.size(0), hidden.size(-1))  # (P, B * T, C)
        if (indices := batch.predicted_positions) is not None:
            # Computed on the host with the batch: reading their number from the device would wait for the device.
            indices = indices.to(device, non_blocking=True)
            rows, correct = rows.index_select(1, indices), correct.index_select(0, indices)
        if dtype:
            rows = rows.to(dtype)
        if num_passes == 1:
            return label_smoothed_loss(rows[0], output.weight, output.bias, correct, settings.label_smoothing)
        loss, nll, _ = r_drop_loss(rows, output.weight, output.bias, correct, settings.label_smoothing, settings.r_drop)
        return loss, nll


def _optimizers(transformer: Transformer, settings: TrainingSettings) -> dict[str, torch.optim.Optimizer]:
    """AdamW for all parameters; or Muon for the matrices of the layers and AdamW for the other parameters."""
    hidden: list[Tensor] = []
    others: list[Tensor] = []
    for name, parameter in transformer.named_parameters():
        inside = name.startswith(("encoder.", "decoder.")) and parameter.ndim == 2
        (hidden if inside and settings.optimizer == "muon" else others).append(parameter)
    adamw = torch.optim.AdamW(
        others,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=1e-9,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    if not hidden:
        return {"adamw": adamw}
    # Updates are scaled to AdamW's, so that both use the same learning rate (Liu et al. 2025, arXiv:2502.16982).
    muon = BatchedMuon(
        hidden,
        dtype=products_in("auto", hidden[0].device.type) or torch.float32,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    return {"adamw": adamw, "muon": muon}


def products_in(precision: str, device_type: str) -> torch.dtype | None:
    """The type in which a device computes matrix products, by the setting of this name; None for float32."""
    if precision == "float32":
        return None
    if precision == "bfloat16":
        return torch.bfloat16
    native = torch.cuda.is_bf16_supported() if device_type == "cuda" else _cpu_has_bfloat16()
    return torch.bfloat16 if native else None


def _cpu_has_bfloat16() -> bool:
    """Whether this processor has bfloat16 products in hardware; emulation is slower than float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(supported and supported())
