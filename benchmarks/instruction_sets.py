"""The instruction sets of ``--isa``, and how every measured library is limited to one of them.

The variables are read when a library is loaded, so they are set before a measured process starts. All processes of a
set get all variables; a library ignores those of the others.

    VERSO_ISA                     Verso
    CT2_FORCE_CPU_ISA             CTranslate2's own functions (norms, softmax, quantisation), not its matrix products
    ONEDNN_MAX_CPU_ISA            oneDNN: CTranslate2's products (unless CT2_USE_MKL=1), torch's int8, OpenVINO
    MKL_ENABLE_INSTRUCTIONS       MKL: CTranslate2's products with CT2_USE_MKL=1, torch's float32, Marian's float32
    ATEN_CPU_CAPABILITY           torch's own functions
    FBGEMM_ENABLE_INSTRUCTIONS    fbgemm: int8 of torch, and of Verso without its compiled decoder
    OV_CPU_MAX_ISA                OpenVINO's own functions, in releases that read it
    INTGEMM_CPUID                 intgemm: Marian's int8

Not everything can be limited. ONNX Runtime reads no variable and always uses all instructions of the processor, so its
rows count for the targets of the fastest set only. MKL reads its variable on Intel's processors; on AMD's it was as
quick with each value, and slower than oneDNN with AVX-512. The lowest sets of oneDNN, intgemm and fbgemm are SSE4.1,
SSSE3 and AVX2, which they use in rows of ``portable``. fbgemm and intgemm have no AVX-VNNI and use AVX2 instead.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionSet:
    """A set that all engines can be limited to.

    Args:
        name: Value of ``VERSO_ISA``.
        flags: Flags in ``/proc/cpuinfo`` of processors that have it.
        ctranslate2: Value of ``CT2_FORCE_CPU_ISA``.
        onednn: Value of ``ONEDNN_MAX_CPU_ISA``.
        mkl: Value of ``MKL_ENABLE_INSTRUCTIONS``.
        torch: Value of ``ATEN_CPU_CAPABILITY``.
        fbgemm: Value of ``FBGEMM_ENABLE_INSTRUCTIONS``.
        intgemm: Value of ``INTGEMM_CPUID``.
    """

    name: str
    flags: tuple[str, ...]
    ctranslate2: str
    onednn: str
    mkl: str
    torch: str
    fbgemm: str
    intgemm: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that limit every library to this set."""
        return {
            "VERSO_ISA": self.name,
            "CT2_FORCE_CPU_ISA": self.ctranslate2,
            "ONEDNN_MAX_CPU_ISA": self.onednn,
            "OV_CPU_MAX_ISA": self.onednn,
            "MKL_ENABLE_INSTRUCTIONS": self.mkl,
            "ATEN_CPU_CAPABILITY": self.torch,
            "FBGEMM_ENABLE_INSTRUCTIONS": self.fbgemm,
            "INTGEMM_CPUID": self.intgemm,
        }


_AVX2 = ("avx2", "fma")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")

INSTRUCTION_SETS = {
    instruction_set.name: instruction_set
    for instruction_set in (
        # name, flags, CTranslate2, oneDNN, MKL, torch, fbgemm, intgemm
        InstructionSet(
            "avx512-bf16",
            (*_AVX512, "avx512_vnni", "avx512_bf16"),
            "AVX512",
            "AVX512_CORE_BF16",
            "AVX512_E1",
            "avx512",
            "AVX512_E1",
            "AVX512VNNI",
        ),
        InstructionSet(
            "avx512-vnni",
            (*_AVX512, "avx512_vnni"),
            "AVX512",
            "AVX512_CORE_VNNI",
            "AVX512_E1",
            "avx512",
            "AVX512_E1",
            "AVX512VNNI",
        ),
        InstructionSet("avx-vnni", (*_AVX2, "avx_vnni"), "AVX2", "AVX2_VNNI", "AVX2_E1", "avx2", "AVX2", "AVX2"),
        InstructionSet("avx512", _AVX512, "AVX512", "AVX512_CORE", "AVX512", "avx512", "AVX512", "AVX512BW"),
        InstructionSet("avx2", _AVX2, "AVX2", "AVX2", "AVX2", "avx2", "AVX2", "AVX2"),
        InstructionSet("portable", (), "GENERIC", "SSE41", "SSE4_2", "default", "AVX2", "SSSE3"),
    )
}
"""All sets by name, the fastest first."""


def fastest_set(flags: Collection[str]) -> str:
    """The name of the fastest set of a processor: what libraries use if they are not limited.

    Args:
        flags: Flags from ``/proc/cpuinfo``.
    """
    return next(name for name, candidate in INSTRUCTION_SETS.items() if set(candidate.flags) <= set(flags))


UNLIMITED = ("ONNX Runtime",)
"""Libraries that always use all instructions of the processor."""


def missing_flags(name: str, flags: Collection[str]) -> list[str]:
    """The flags that a processor lacks for a set.

    Args:
        name: Name of the set.
        flags: Flags from ``/proc/cpuinfo``.
    """
    return [flag for flag in INSTRUCTION_SETS[name].flags if flag not in flags]
