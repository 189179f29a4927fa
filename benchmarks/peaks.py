"""The rates of the processor's matrix products, which throughput is compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

MATRIX_SIZES = ((1024, 1024, 1024), (256, 512, 2048), (512, 2048, 512))
"""(rows, in, out) of the matrix products whose highest rate is the peak."""


def peak_meter(num_threads: int) -> Callable[[object], dict[str, float]]:
    """Load a worker process that measures the processor's matrix products; a job may be anything."""
    return lambda job: measure_peaks(num_threads)


def measure_peaks(num_threads: int) -> dict[str, float]:
    """Giga-operations per second for each precision; a multiply-add counts as two."""
    import torch

    torch.set_num_threads(num_threads)
    rates: dict[str, list[float]] = {"float32": [], "bfloat16": [], "int8": []}
    for rows, width_in, width_out in MATRIX_SIZES:
        inputs, weights = torch.randn(rows, width_in), torch.randn(width_in, width_out)
        integers = torch.randint(-127, 128, (rows, width_in), dtype=torch.int8)
        weight = torch.randint(-127, 128, (width_in, width_out), dtype=torch.int8)
        packed = torch.ops.quantized.linear_prepack(
            torch.quantize_per_tensor(torch.randn(width_out, width_in), 0.03, 0, torch.qint8), None
        )
        fbgemm = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        ways: list[tuple[str, Callable[[], object]]] = [
            ("float32", partial(torch.mm, inputs, weights)),
            (
                "float32",
                partial(torch.ops.mkldnn._linear_pointwise, inputs, weights.t().contiguous(), None, "none", [], ""),
            ),
            ("bfloat16", partial(torch.mm, inputs.bfloat16(), weights.bfloat16())),
            ("int8", partial(fbgemm, integers.float(), 1.0, 128, packed)),
            ("int8", partial(torch._int_mm, integers, weight)),
        ]
        for precision, multiply in ways:
            multiply()
            seconds = []
            for _ in range(8):
                began = time.perf_counter()
                multiply()
                seconds.append(time.perf_counter() - began)
            rates[precision].append(2 * rows * width_in * width_out / min(seconds) / 1e9)
    # Without an instruction for it, torch multiplies one by one, and other engines in float32.
    rates["bfloat16"] += rates["float32"]
    return {precision: max(values) for precision, values in rates.items()}
