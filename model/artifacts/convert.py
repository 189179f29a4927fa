"""One form of a bundle to the other: TorchScript, and data that nothing is run of."""

from __future__ import annotations

from pathlib import Path

from model.artifacts.archive import write_bundle
from model.artifacts.bundle import Bundle, extra_files, load_bundle
from model.artifacts.data_form import SUFFIX, is_data_form, open_bundle
from model.artifacts.script import compile_model
from model.errors import ArtifactError, ConfigError
from model.network.transformer import Transformer

SCRIPTED_SUFFIX = ".pt"


def convert_bundle(source: Path, out: Path) -> Bundle:
    """Write a bundle in the form that a file's suffix names.

    Loading a bundle in TorchScript runs what its author wrote.

    Args:
        source: A bundle of either form.
        out: The file: ``.verso`` for data, ``.pt`` for TorchScript; replaced whole or not at all.

    Returns:
        What was written.

    Raises:
        ConfigError: The suffix is another one.
        ArtifactError: The bundle is missing, damaged or foreign, or ``out`` cannot be written.
        DeviceError: The bundle is in int8, and this processor has no int8 kernels.
    """
    if out.suffix not in (SUFFIX, SCRIPTED_SUFFIX):
        raise ConfigError(
            f"--out is {str(out)!r}; it must end in {SUFFIX} (data only) or {SCRIPTED_SUFFIX} (TorchScript)."
        )
    if not source.is_file():
        raise ArtifactError(f"There is no bundle at {source}.")
    with open_bundle(source) as archive:
        if is_data_form(archive) == (out.suffix == SUFFIX):
            raise ConfigError(f"{source} is in the form that {out.name} asks for; copy the file.")
    bundle = load_bundle(source)
    module = compile_model(bundle.module) if isinstance(bundle.module, Transformer) else bundle.module
    write_bundle(module, bundle.manifest, extra_files(source), out)
    return load_bundle(out)
