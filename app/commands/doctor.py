"""The command ``doctor``: what this machine can do, how the service will use it, and what to do about each problem."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping

from app.commands.diagnosis import decoder, machine, service
from app.commands.diagnosis.report import Check, as_json, as_text, can_serve, guarded
from app.settings import Settings
from app.version import installed_version

EPILOG = """\
examples:
  verso doctor
  verso doctor --load
  VERSO_MODEL=mine.pt verso doctor --json | jq '.checks[] | select(.state != "ok")'
It reads the same VERSO_* settings as 'verso serve', so run it in the same environment (in a container:
'docker compose exec verso verso doctor'). The compiled decoder is compiled if that was not done yet.
The exit code is 0 if the service can serve, and 1 if it cannot: then at least one line says 'problem'.
"""

_WIDEST = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.add_argument(
        "--load",
        action="store_true",
        help="also load every bundle, as a start does, and on a GPU warm it up and decode again; without it only "
        "manifests are read",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check, and print what was found."""
    checks = diagnose(os.environ, load=arguments.load)
    serves = can_serve(checks)
    if arguments.json:
        print(as_json(checks, installed_version()))
    else:
        width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)
        print(f"Verso {installed_version()}\n\n{as_text(checks, width)}\n")
        problems = ", ".join(check.name for check in checks if check.state == "problem")
        print("Verso can serve." if serves else f"Verso cannot serve. Solve first: {problems}.")
    return 0 if serves else 1


def diagnose(environ: Mapping[str, str], load: bool = False) -> list[Check]:
    """Run every check.

    Args:
        environ: Environment the settings are read from.
        load: Whether to load the bundles.
    """
    configured, settings_check = service.check_settings(environ)
    settings = configured or Settings()  # the machine is looked at all the same
    torch_check = guarded("torch", machine.check_torch)
    checks = [
        guarded("python", machine.check_python),
        torch_check,
        guarded("processor", machine.check_processor),
        guarded("memory", lambda: machine.check_memory(torch_check.details.get("cuda") is not None)),
        guarded("compiler", decoder.check_compiler),
    ]
    if torch_check.state == "problem":
        return [*checks, settings_check]
    native = decoder.native_decoder(None if configured is None else settings.isa)
    enabled = settings.native == "auto"
    checks += [
        guarded("threads", lambda: machine.check_threads(settings.threads)),
        guarded("gpu", lambda: machine.check_gpu(settings.device)),
        guarded("decoder", lambda: decoder.check_native(native, enabled)),
        settings_check,
    ]
    if configured is not None:
        checks += _check_service(configured, native, load)
    return checks


def _check_service(settings: Settings, native: decoder.NativeDecoder, load: bool) -> list[Check]:
    """What depends on valid settings."""
    from model.process.devices import choose_device

    cache = guarded("cache", lambda: service.check_cache(settings))
    bundles, model = service.check_bundles(settings, cache.details.get("writable", False))
    checks = [guarded("address", lambda: service.check_address(settings)), cache, model]
    checks.append(guarded("data", lambda: service.check_data(settings)))
    checks.append(guarded("keys", lambda: service.check_keys(settings)))
    if bundles:
        device, enabled = choose_device(settings.device).device, settings.native == "auto"
        checks.append(guarded("back-end", lambda: decoder.check_backend(bundles, device, native, enabled)))
        if load and model.state != "problem":
            checks.append(guarded("loading", lambda: service.check_loading(settings)))
    return checks
