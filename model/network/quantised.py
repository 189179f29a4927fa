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
"""Activation levels on either side of zero on CPUs that add products of bytes in 32 bits (VNNI)."""

REDUCED_RANGE = 63
"""Levels on other x86 CPUs: two products of full-range bytes would overflow the 16 bits they are added in."""


_SMALLEST = 1e-12
"""Keeps the scale of a row of zeros above zero."""


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and float32 in- and output; :func:`quantise` makes one of an ``nn.Linear``.

    Args:
        rounded: The weights in steps of their row, (C out, C in), int8.
        scales: The step of each row, (C out,), float32.
        bias: (C out,), float32.

    Raises:
        DeviceError: This build of torch cannot keep int8 weights.
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
        # Stored in the archive; load_bundle replaces both by those of the CPU that loads it.
        self.levels: int = activation_levels()
        self.multiplies_bytes: bool = torch_multiplies_bytes()

    def forward(self, x: Tensor) -> Tensor:
        """(..., C in) to (..., C out), float32."""
        # 1e-12 is _SMALLEST, a global that scripted code cannot refer to.
        step = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / self.levels
        if self.multiplies_bytes:
            # The kernel takes one scale for all rows. It is 1 here, because each row is already scaled to whole levels.
            product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
                x / step, 1.0, self.levels + 1, self.packed
            )
        else:
            # Equal: the kernel rounds after it has added its zero point, and sums of whole levels below 2 ** 24 are
            # exact in float32.
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
    weight = linear.weight.detach().float()
    scales = weight.abs().amax(dim=1).clamp_min(_SMALLEST) / FULL_RANGE
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantiz.*")
        zeros = torch.zeros(len(scales), dtype=torch.long)
        rounded = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8).int_repr()
    bias = linear.bias.detach().float().clone() if linear.bias is not None else torch.zeros(len(scales))
    return Int8Linear(rounded, scales, bias)


def int8_is_supported() -> bool:
    """Whether torch can keep int8 weights here: all its builds for x86 and ARM can."""
    return any(engine != "none" for engine in torch.backends.quantized.supported_engines)


def torch_multiplies_bytes() -> bool:
    """Whether torch has the product of an int8 layer for this CPU (fbgemm, x86 only).

    Elsewhere the compiled decoder has products of bytes, and torch computes with the same numbers in float32, which is
    slow.
    """
    return "fbgemm" in torch.backends.quantized.supported_engines


def choose_packing() -> None:
    """Let torch pack int8 weights, of bundles that are loaded too, if it has no default for this CPU."""
    quantized = torch.backends.quantized
    if quantized.engine == "none" and int8_is_supported():
        quantized.engine = next(engine for engine in quantized.supported_engines if engine != "none")


def activation_levels() -> int:
    """The widest activation range that torch multiplies without overflow on this CPU."""
    supported = getattr(torch.cpu, "_is_vnni_supported", None)
    overflows = torch_multiplies_bytes() and not (supported is not None and supported())
    return REDUCED_RANGE if overflows else FULL_RANGE
