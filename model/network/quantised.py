"""Linear layers with 8-bit weights, for serving on CPUs.

Weights are quantised per output channel, activations per row at run time (Jacob et al. 2018, arXiv:1712.05877; row
scales as in LLM.int8(), arXiv:2208.07339, section 2). Because each scale depends on its own row only, the translation
of a sentence does not depend on the other sentences of its batch.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from model.errors import DeviceError

FULL_RANGE = 127
"""Activation levels on either side of zero on CPUs that add products of bytes in 32 bits (VNNI) or in float32."""

REDUCED_RANGE = 63
"""Levels on other x86 CPUs, which add two products in 16 bits: products of full-range bytes would overflow."""


_SMALLEST = 1e-12
"""Keeps the scale of a row of zeros above zero."""


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and float32 input and output; :func:`quantise` makes one from an ``nn.Linear``.

    Args:
        rounded: The weights divided by the scales of their rows, (C out, C in), int8.
        scales: The scale of each row, (C out,), float32.
        bias: (C out,), float32.

    Raises:
        DeviceError: This build of torch does not support int8 weights.
    """

    def __init__(self, rounded: Tensor, scales: Tensor, bias: Tensor) -> None:
        super().__init__()
        if not int8_is_supported():
            raise DeviceError("This build of torch cannot keep int8 weights; use --precision float32.")
        choose_packing()
        with warnings.catch_warnings():
            # Quantised tensors are deprecated in favour of a package that TorchScript does not support.
            warnings.filterwarnings("ignore", message=".*quantiz.*")
            zeros = torch.zeros(len(scales), dtype=torch.long)
            weight = torch._make_per_channel_quantized_tensor(rounded, scales.double(), zeros, 0)
            self.packed = torch.ops.quantized.linear_prepack(weight, None)
        self.bias = nn.Parameter(bias, requires_grad=False)
        # Both are stored in the archive; load_bundle replaces them by the values for the CPU that loads it.
        self.levels: int = activation_levels()
        self.multiplies_bytes: bool = torch_multiplies_bytes()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to ``x``, (..., C in); the result is (..., C out), float32."""
        # 1e-12 is _SMALLEST, written out because scripted code cannot refer to globals.
        step = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / self.levels
        if self.multiplies_bytes:
            # The kernel takes one scale for all rows. It is 1, because each row is already divided by its own scale.
            product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
                x / step, 1.0, self.levels + 1, self.packed
            )
        else:
            # The same result as the kernel's: it rounds after adding its zero point, and float32 adds integers below
            # 2 ** 24 exactly.
            zero = self.levels + 1
            weight: Tensor = torch.ops.quantized.linear_unpack(self.packed)[0]
            sums = nn.functional.linear(torch.round(x / step + zero) - zero, weight.int_repr().float())
            product = sums * weight.q_per_channel_scales().float()
        return product * step + self.bias


def quantise(linear: nn.Linear) -> Int8Linear:
    """A linear layer with its weights rounded to int8; ``linear`` is not changed.

    Raises:
        DeviceError: torch has no int8 kernels for this CPU.
    """
    rounded, scales = round_rows(linear.weight.detach().float())
    bias = linear.bias.detach().float().clone() if linear.bias is not None else torch.zeros(len(scales))
    return Int8Linear(rounded, scales, bias)


def round_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round the rows of a matrix to int8, each with a scale of its own.

    Args:
        weight: (C out, C in), float32.

    Returns:
        The rows divided by their scales, int8, and the scales, (C out,), float32.
    """
    scales = weight.abs().amax(dim=1).clamp_min(_SMALLEST) / FULL_RANGE
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantiz.*")
        zeros = torch.zeros(len(scales), dtype=torch.long)
        rounded: Tensor = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8).int_repr()
    return rounded, scales


def int8_is_supported() -> bool:
    """Whether this build of torch supports int8 weights: all builds for x86 and ARM do."""
    return any(engine != "none" for engine in torch.backends.quantized.supported_engines)


def torch_multiplies_bytes() -> bool:
    """Whether torch has a kernel for the product of an int8 layer on this CPU (fbgemm, x86 only).

    Elsewhere the compiled decoder multiplies bytes, and torch computes with the same numbers in float32, which is slow.
    """
    return "fbgemm" in torch.backends.quantized.supported_engines


def choose_packing() -> None:
    """Choose a torch engine for int8 weights, if torch has no default for this CPU.

    Making an int8 layer needs one, and so does loading a bundle.
    """
    quantized = torch.backends.quantized
    if quantized.engine == "none" and int8_is_supported():
        quantized.engine = next(engine for engine in quantized.supported_engines if engine != "none")


def activation_levels() -> int:
    """The widest activation range that torch multiplies without overflow on this CPU."""
    is_vnni_supported = getattr(torch.cpu, "_is_vnni_supported", None)
    overflows = torch_multiplies_bytes() and not (is_vnni_supported is not None and is_vnni_supported())
    return REDUCED_RANGE if overflows else FULL_RANGE
