"""Checks of the compiled decoder, and which back-end will decode a bundle."""

from __future__ import annotations

import ctypes
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.commands.diagnosis.report import Check
from app.settings import ENV_PREFIX
from model.decoding.native.compiler import NoCompiler, Unavailable, build_library, compiler_version, find_compiler

if TYPE_CHECKING:
    from app.commands.diagnosis.service import ConfiguredBundle
    from model.decoding.backend import BackendChoice

INSTALL_COMPILER = (
    "Install a C++ compiler and start again: 'apt-get install g++' on Debian and Ubuntu, 'dnf install gcc-c++' on "
    "Fedora, or 'pip install ziglang', which brings one along. Sentences then decode several times faster."
)


@dataclass(frozen=True)
class NativeDecoder:
    """The compiled decoder on this machine.

    Args:
        path: The library, where there is one that loads.
        reason: Why there is none, as part of a sentence.
        advice: What to do about that, if anything can be done.
        isa: The instruction set it computes with, and why that one; or why there is none.
        isa_is_possible: Whether there is one.
    """

    path: Path | None = None
    reason: str = ""
    advice: str | None = None
    isa: str = ""
    isa_is_possible: bool = True


def native_decoder(isa: str | None = None) -> NativeDecoder:
    """Find the compiled decoder, as a start does: it is compiled if that was not done yet.

    Args:
        isa: The instruction set that the settings ask for; None if they do not.
    """
    from model.decoding.native.library import find_library, processor_reason

    reason = processor_reason()  # asked first: nothing is compiled for a processor that has no library
    if reason is not None:
        return NativeDecoder(reason=f"{reason}, which the compiled decoder needs")
    try:
        path = build_library()
    except NoCompiler as error:
        return NativeDecoder(reason=str(error), advice=INSTALL_COMPILER)
    except Unavailable as error:
        return NativeDecoder(
            reason=f"the compiled decoder cannot be built: {error}",
            advice="Check the compiler, and that the cache folder (XDG_CACHE_HOME, or ~/.cache) can be written.",
        )
    search = find_library()
    if search.is_the_processor:
        return NativeDecoder(reason=f"{search.reason}, which the compiled decoder needs")
    if search.library is None:
        return NativeDecoder(
            reason=f"the compiled decoder {path} cannot be loaded: {search.reason}",
            advice="Delete that file, so that the next start compiles it on this machine.",
        )
    return _with_instruction_set(path, search.library, isa)


def _with_instruction_set(path: Path, library: ctypes.CDLL, isa: str | None) -> NativeDecoder:
    from model.decoding.native.library import choose_instruction_set, instruction_sets
    from model.errors import DeviceError

    try:
        chosen = choose_instruction_set(library, isa)
    except DeviceError as error:
        return NativeDecoder(path, isa=str(error), isa_is_possible=False)
    better = instruction_sets(library)[: chosen.number]
    faster = [f"no {isa_set.lacking} for {isa_set.name}" for isa_set in better if isa_set.lacking is not None]
    passed_over = [isa_set.name for isa_set in better if isa_set.lacking is None]
    if passed_over:
        why = f"{ENV_PREFIX}ISA asks for it; without it {passed_over[0]} would be used"
    else:
        why = "the fastest this processor can run" + (f": it has {', '.join(faster)}" if faster else "")
    return NativeDecoder(path, isa=f"{chosen.name}, {why}")


def check_compiler() -> Check:
    """Which C++ compiler there is. That there is none matters only if the decoder is still to be compiled."""
    try:
        compiler = find_compiler()
    except NoCompiler as error:
        return Check("compiler", "ok", str(error), details={"path": None, "version": None})
    try:
        version = compiler_version(compiler)
    except Unavailable as error:
        version = f"it cannot be run ({error})"
    return Check(
        "compiler", "ok", f"{shlex.join(compiler[:2])}: {version}", details={"path": compiler[0], "version": version}
    )


def check_native(native: NativeDecoder, enabled: bool) -> Check:
    """Whether the compiled decoder can be used.

    Args:
        native: As :func:`native_decoder` found it.
        enabled: Whether the settings allow it.
    """
    path = None if native.path is None else str(native.path)
    details = {"path": path, "reason": native.reason or None, "instruction_set": native.isa or None}
    if native.path is not None and not native.isa_is_possible:
        advice = f"Unset {ENV_PREFIX}ISA, and the fastest instruction set of this processor is used."
        return Check("decoder", "problem" if enabled else "ok", native.isa, advice, details)
    if native.path is not None:
        text = f"{native.path}, which loads"
        return Check("decoder", "ok", f"{text}; instruction set: {native.isa}" if native.isa else text, details=details)
    # Without advice nothing is wrong: the processor is simply another.
    worth_a_warning = enabled and native.advice is not None
    return Check("decoder", "warning" if worth_a_warning else "ok", native.reason, native.advice, details)


@dataclass(frozen=True)
class PredictedBackend:
    """What decodes a bundle.

    Args:
        choice: The back-end, and why it and no other.
        advice: How to get a faster one, if that is possible.
    """

    choice: BackendChoice
    advice: str | None = None


def predict_backend(
    precision: str, architecture: dict[str, Any] | None, device: str, native: NativeDecoder, enabled: bool
) -> PredictedBackend:
    """The back-end that will decode a bundle. Nothing is loaded.

    Args:
        precision: Of the bundle.
        architecture: From its manifest; None for the translator that ships, which every back-end supports.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        native: The compiled decoder.
        enabled: Whether the settings allow it.
    """
    import torch

    from model.decoding.backend import preferred_backend
    from model.decoding.native.packed import NATIVE_PRECISIONS

    choice = preferred_backend(architecture, precision, torch.device(device), native=enabled)
    if choice.name != "eager":
        return PredictedBackend(choice)
    if not enabled:
        advice = f"Unset {ENV_PREFIX}NATIVE, and the compiled decoder is used." if native.path is not None else None
    elif precision not in NATIVE_PRECISIONS:
        advice = "Export the bundle with '--precision int8' for this processor, or serve it on a GPU."
    else:
        advice = native.advice
    return PredictedBackend(choice, advice)


def check_backend(bundles: Sequence[ConfiguredBundle], device: str, native: NativeDecoder, enabled: bool) -> Check:
    """Which back-end will decode each bundle, and why.

    Args:
        bundles: Those that will be served.
        device: Where they will run.
        native: The compiled decoder.
        enabled: Whether the settings allow it.
    """
    choices = [
        (bundle, predict_backend(bundle.precision, bundle.architecture, device, native, enabled)) for bundle in bundles
    ]
    advice = list(dict.fromkeys(backend.advice for _, backend in choices if backend.advice is not None))
    label = {"slots": "slots (CUDA graphs)", "native": "native (compiled C++)", "eager": "eager (torch)"}
    lines = [
        (f"{bundle.name}: " if len(choices) > 1 else "") + f"{label[backend.choice.name]}: {backend.choice.reason}"
        for bundle, backend in choices
    ]
    return Check(
        "back-end",
        "warning" if advice and enabled else "ok",
        "\n".join(lines),
        " ".join(advice) or None,
        {bundle.name: {"name": backend.choice.name, "reason": backend.choice.reason} for bundle, backend in choices},
    )
