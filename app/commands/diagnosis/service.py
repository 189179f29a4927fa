"""Checks of what the service is configured to do: settings, address, cache folder, bundles."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from app.commands.diagnosis.report import Check
from app.errors import ServiceError, SettingsError
from app.models.bundles import BundleFiles
from app.settings import AUTO, ENV_PREFIX, Settings, load_settings, shown
from app.storage import check_data_folder
from model.artifacts.pulled import PulledBundles, PulledName, is_pulled
from model.errors import DeviceError, ModelError

_HIDDEN = "(hidden)"
_OTHER_FOLDER = f"Set {ENV_PREFIX}CACHE_DIR to a folder that can be written."
_OTHER_DEVICE = f"Set {ENV_PREFIX}DEVICE=auto, which takes the CPU where torch can use no GPU."
_OTHER_PRECISION = "Serve a bundle of another precision: 'verso export --precision float32' makes one."
_CPU_INSTEAD = f"Set {ENV_PREFIX}DEVICE=cpu to serve without the GPU, and look at nvidia-smi and the log of the system."
_NO_GRAPHS = "The log says why, at the start: sentences are translated, but slower."
_OTHER_BUNDLE = (
    f"Set {ENV_PREFIX}MODEL or {ENV_PREFIX}MODELS to bundles that are there, or unset it: auto ships with Verso."
)


@dataclass(frozen=True)
class ConfiguredBundle:
    """A bundle the service will load.

    Args:
        name: Of its model.
        path: The file.
        built: Whether the file is there; that of the translator that ships is built on first use, and that of a model
            of a hub is pulled.
        precision: What its weights are kept in.
        architecture: From its manifest; None where it is still to be built.
        directions: What it translates, in words.
        expanded_to: The precision it is served in, if that is another one.
    """

    name: str
    path: Path
    built: bool
    precision: str
    architecture: dict[str, Any] | None
    directions: str
    expanded_to: str | None = None


def check_settings(environ: Mapping[str, str]) -> tuple[Settings | None, Check]:
    """The settings, or None if they are not valid, and which of them are set.

    Args:
        environ: The environment.
    """
    names = sorted(name for name, value in environ.items() if name.startswith(ENV_PREFIX) and value)
    try:
        settings = load_settings(environ)
    except SettingsError as error:
        # Values are not repeated: a misspelled name may hold a secret.
        advice = "Correct or unset it; 'verso serve --help' lists every setting."
        return None, Check("settings", "problem", str(error), advice, {"set": dict.fromkeys(names, _HIDDEN)})
    values = {}
    for name in names:
        field = name.removeprefix(ENV_PREFIX).lower()
        values[name] = _HIDDEN if isinstance(getattr(settings, field), SecretStr) else shown(field, environ[name])
    text = "\n".join(f"{name}={value}" for name, value in values.items())
    return settings, Check("settings", "ok", text or f"no {ENV_PREFIX}* is set: all defaults", details={"set": values})


def check_address(settings: Settings) -> Check:
    """Whether the service could listen where it is to.

    Args:
        settings: Name host and port.
    """
    address = f"{settings.host}, port {settings.port}"
    details = {"host": settings.host, "port": settings.port}
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        advice = f"Set {ENV_PREFIX}HOST to an address of this machine, or to 0.0.0.0 for all of them."
        return Check("address", "problem", f"{address}: {error.strerror}", advice, details)
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(where)
            listener.listen()
        except OSError as error:
            # Possibly by the service itself, which then serves: no problem.
            advice = f"If it is not this service that listens there, set {ENV_PREFIX}PORT or {ENV_PREFIX}HOST."
            return Check("address", "warning", f"{address}: {error.strerror}", advice, details)
    return Check("address", "ok", f"{address}, which is free", details=details)


def check_cache(settings: Settings) -> Check:
    """Whether the bundle of the translator that ships can be kept, where one is to be built.

    Args:
        settings: Name the folder and the bundles.
    """
    from model.process.folders import cache_folder

    try:
        folder = settings.cache_dir or cache_folder()
    except RuntimeError as error:  # a user without a home folder
        return Check("cache", "warning", str(error), _OTHER_FOLDER)
    patterns = ("*.pt", "hub/*/*.pt", "firefox/*/*.verso")
    bundles = sorted(path for pattern in patterns for path in folder.glob(pattern)) if folder.is_dir() else []
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    writable = there.is_dir() and os.access(there, os.W_OK)
    names = [path.relative_to(folder).as_posix() for path in bundles]
    details = {"folder": str(folder), "writable": writable, "bundles": names}
    size = sum(path.stat().st_size for path in bundles) / 1e6
    text = f"{folder}: {len(bundles)} bundle(s) kept, {size:.0f} MB" if bundles else f"{folder}: no bundle kept yet"
    if writable:
        return Check("cache", "ok", text, details=details)
    return Check("cache", "warning", f"{text}; it cannot be written", _OTHER_FOLDER, details)


def check_keys(settings: Settings) -> Check:
    """Whether callers need a key, and whether there is one that can be used.

    Args:
        settings: Name the file of the keys.
    """
    path = settings.keys_db
    if path is None:
        return Check("keys", "ok", "callers need none")
    create = f"Make one with {ENV_PREFIX}KEYS_DB={path} verso keys create NAME."
    if not path.exists():
        return Check("keys", "problem", f"{path} is not there", f"Correct {ENV_PREFIX}KEYS_DB. {create}")
    from app.accounts.store import KeyStore

    try:
        with contextlib.closing(KeyStore(path)) as store:
            keys = store.all()
    except SettingsError as error:
        return Check("keys", "problem", str(error), f"Set {ENV_PREFIX}KEYS_DB to a file that this user may write.")
    now = time.time()
    usable = [key for key in keys if key.why_unusable(now) is None]
    text = f"{path}: {len(usable)} of {len(keys)} key(s) can be used"
    details = {"path": str(path), "keys": len(keys), "usable": len(usable)}
    if not usable and settings.anonymous == "off":
        return Check("keys", "warning", text, create, details)
    return Check("keys", "ok", text, details=details)


def check_data(settings: Settings) -> Check:
    """Whether documents and glossaries can be kept.

    Args:
        settings: Name the folder.
    """
    folder = settings.data_dir
    if folder is None:
        return Check("data", "ok", "documents and glossaries are kept until the process ends")
    try:
        check_data_folder(folder, make=False)
    except SettingsError as error:
        return Check("data", "problem", str(error), f"Set {ENV_PREFIX}DATA_DIR to a folder that can be written.")
    return Check("data", "ok", f"{folder}, which can be written", details={"path": str(folder)})


def check_bundles(settings: Settings, cache_is_writable: bool) -> tuple[list[ConfiguredBundle], Check]:
    """The bundles that will be served, as far as their manifests tell. Nothing is loaded.

    Args:
        settings: Name them.
        cache_is_writable: Whether one that is still to be built can be kept.
    """
    files = BundleFiles(settings)
    try:
        bundles = [bundle for name in files.configured() for bundle in _configured(settings, name)]
        if all(bundle.built for bundle in bundles):
            files.check([bundle.path for bundle in bundles])
    except DeviceError as error:
        advice = _OTHER_DEVICE if settings.device.startswith("cuda") else _OTHER_PRECISION
        return [], Check("model", "problem", str(error), advice)
    except (SettingsError, ModelError, RuntimeError) as error:  # RuntimeError: a user without a home folder
        return [], Check("model", "problem", str(error), _OTHER_BUNDLE)
    lines = [
        f"{bundle.name} ({bundle.directions}; {bundle.precision}"
        + ("" if bundle.expanded_to is None else f", served in {bundle.expanded_to}")
        + f"): {bundle.path}"
        + ("" if bundle.built else ", which the first start builds")
        for bundle in bundles
    ]
    details = {
        bundle.name: {"path": str(bundle.path), "built": bundle.built, "precision": bundle.precision}
        for bundle in bundles
    }
    if not cache_is_writable and not all(bundle.built for bundle in bundles):
        return bundles, Check("model", "problem", "\n".join(lines), _OTHER_FOLDER, details)
    return bundles, Check("model", "ok", "\n".join(lines), details=details)


def _configured(settings: Settings, name: str) -> list[ConfiguredBundle]:
    """What is known of one bundle, or of those of a group of models.

    Raises:
        ModelError: It is missing, damaged, foreign, or cannot run on the device.
    """
    from model.artifacts.bundle import check_device
    from model.artifacts.pretrained import PRETRAINED, preferred_precision, pretrained_path
    from model.process.devices import choose_device

    device = choose_device(settings.device).device
    if is_pulled(name):
        return _pulled(settings, PulledName.parse(name), device)
    if name != AUTO:
        path = Path(name)
    elif settings.auto_bundle is not None:
        path = settings.auto_bundle
    else:
        path = pretrained_path(device, settings.cache_dir)
        if not path.is_file():
            precision = preferred_precision(device)
            check_device(device, precision)
            return [ConfiguredBundle(PRETRAINED.stem, path, False, precision, None, "the translator that ships")]
    return [_there(path, device)]


def _pulled(settings: Settings, name: PulledName, device: str) -> list[ConfiguredBundle]:
    """What is known of the models of a hub that a name means; the hub is not asked."""
    from model.artifacts.pretrained import preferred_precision

    precision = preferred_precision(device)
    bundles = PulledBundles(name, precision, settings.cache_dir)
    members = [PulledBundles(member, precision, settings.cache_dir) for member in bundles.group()]
    there = [path for of_model in members or [bundles] if (path := of_model.last()) is not None]
    if there:
        return [_there(path, device) for path in there]
    what = "models of a hub" if name.is_group else "a model of a hub"
    return [ConfiguredBundle(str(name), bundles.folder, False, precision, None, f"{what}, still to be pulled")]


def _there(path: Path, device: str) -> ConfiguredBundle:
    """What is known of a bundle whose file is there.

    Raises:
        ModelError: It is missing, damaged, foreign, or cannot run on the device.
    """
    from model.artifacts.bundle import check_device, read_manifest, served_precision

    manifest = read_manifest(path)
    served = served_precision(manifest.precision, check_device(device, manifest.precision))
    return ConfiguredBundle(
        manifest.name,
        path,
        True,
        manifest.precision,
        manifest.architecture,
        manifest.directions.describe(),
        None if served == manifest.precision else served,
    )


def check_loading(settings: Settings) -> Check:
    """Whether every bundle loads, as a start would load it, and on a GPU whether it decodes.

    On a GPU the translators are warmed up twice: the first time captures CUDA graphs, the second one replays them.

    Args:
        settings: Name them.
    """
    from app.serving.service import WARM_UP_WIDTHS

    began = time.monotonic()
    files = BundleFiles(settings)
    try:
        if settings.model_memory is not None:  # they do not fit into memory together
            loaded = [files.load(bundle).manifest.name for bundle in files.describe_configured()]
            seconds = time.monotonic() - began
            text = f"{len(loaded)} models, each loaded alone in {seconds / len(loaded):.1f} s on average"
            return Check("loading", "ok", text, details={"seconds": seconds})
        translators = files.load_configured()
    except (ServiceError, ModelError) as error:
        return Check("loading", "problem", str(error), "Restore the bundle from a copy, or export it again.")
    names = ", ".join(translator.manifest.name for translator in translators)
    details: dict[str, Any] = {"seconds": time.monotonic() - began}
    text = f"{names}: loaded in {details['seconds']:.1f} s"
    if all(translator.device == "cpu" for translator in translators):
        return Check("loading", "ok", text, details=details)
    widths = [width for width in WARM_UP_WIDTHS if width <= settings.max_beam_size]
    for name, verb in (("warm_up_seconds", "warmed up"), ("replay_seconds", "decoded again")):
        began = time.monotonic()
        try:
            for translator in translators:
                translator.warm_up(widths)
        except Exception as error:  # noqa: BLE001  (torch, CUDA and the driver have no common error)
            text = f"{text}; could not be {verb}: {type(error).__name__}: {error}"
            return Check("loading", "problem", text, _CPU_INSTEAD, details)
        details[name] = time.monotonic() - began
        text += f"; {verb} in {details[name]:.1f} s"
    graphs = {
        translator.manifest.name: translator.backend.graphs
        for translator in translators
        if translator.backend.graphs is not None
    }
    details["graphs"] = {name: of_model.num_kept for name, of_model in graphs.items()}
    text += "".join(f"; {name}: {of_model.num_kept} CUDA graphs" for name, of_model in graphs.items())
    without = [
        f"{name}: decoded without graphs ({of_model.why_off})" for name, of_model in graphs.items() if of_model.why_off
    ]
    if without:
        return Check("loading", "warning", "; ".join([text, *without]), _NO_GRAPHS, details)
    return Check("loading", "ok", text, details=details)
