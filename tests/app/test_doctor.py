"""``verso doctor``: its findings and its advice in simulated environments."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from app.accounts.store import KeyStore
from app.commands.diagnosis import decoder, machine, service
from app.commands.diagnosis.decoder import NativeDecoder, predict_backend
from app.commands.diagnosis.report import Check, guarded
from app.commands.main import main
from app.settings import Settings
from model.artifacts.bundle import read_manifest
from model.decoding.backend import Backend
from model.decoding.native import library, packed
from tests.app.fakes import FakeTranslator
from tests.gpus import put_nvidia_smi, with_gpus, without_gpus

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
TOKEN = "a-secret-of-many-letters"
FOUND = NativeDecoder(Path("/lib/decoder.so"))
NO_COMPILER = NativeDecoder(reason="no C++ compiler is there", advice="Install g++.")
OTHER_PROCESSOR = NativeDecoder(reason="the processor has no AVX-512")


def doctor(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process with a clean environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VERSO_")}
    code = "import sys; from app.commands.main import main; sys.exit(main(['doctor', *sys.argv[1:]]))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**clean, "COLUMNS": "200", "VERSO_PORT": "0", "VERSO_DEVICE": "cpu", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )


def doctor_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str, **settings: str
) -> tuple[int, str]:
    """Run the command in this process with only these settings; returns its exit code and its output."""
    for name in [name for name in os.environ if name.startswith("VERSO_")]:
        monkeypatch.delenv(name)
    for name, value in {"PORT": "0", **settings}.items():
        monkeypatch.setenv(f"VERSO_{name}", value)
    return main(["doctor", *arguments]), capsys.readouterr().out


def by_name(report: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(report)["checks"]}


def test_a_machine_that_can_serve_gets_exit_code_0(toy_bundle: Path, tmp_path: Path) -> None:
    run = doctor("--load", VERSO_MODEL=str(toy_bundle), VERSO_ADMIN_TOKEN=TOKEN, VERSO_NATIVE="off")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.rstrip().endswith("Verso can serve.")
    assert TOKEN not in run.stdout + run.stderr
    columns = {line.split()[1]: line.split()[0] for line in run.stdout.splitlines() if line[:1].isalpha()}
    for name in ("python", "torch", "processor", "threads", "memory", "gpu", "compiler", "decoder", "settings"):
        assert name in columns
    for name in ("address", "cache", "model", "back-end", "loading"):
        assert columns[name] in ("ok", "warning"), run.stdout
    assert str(toy_bundle) in run.stdout
    assert (
        "eager (torch): not slots, because the model is not on a GPU; not native, because it is switched off"
        in run.stdout
    )


def test_json_has_every_check_with_machine_readable_values(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"MODEL": str(toy_bundle), "ADMIN_TOKEN": TOKEN, "NATIVE": "off", "THREADS": "1", "DEVICE": "cpu"}
    code, printed = doctor_here(monkeypatch, capsys, "--json", **settings)
    assert (code, json.loads(printed)["can_serve"]) == (0, True)
    assert TOKEN not in printed
    checks = by_name(printed)
    assert checks["torch"]["details"]["version"] == torch.__version__
    assert checks["threads"]["details"]["used"] == 1
    assert checks["settings"]["details"]["set"]["VERSO_ADMIN_TOKEN"] == "(hidden)"
    assert checks["settings"]["details"]["set"]["VERSO_THREADS"] == "1"
    name = read_manifest(toy_bundle).name
    assert checks["model"]["details"][name] == {"path": str(toy_bundle), "built": True, "precision": "float32"}
    assert checks["back-end"]["details"][name]["name"] == "eager"
    assert "loading" not in checks


def test_without_compiler_and_library_torch_decodes_and_the_advice_says_what_to_install(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "app", tmp_path / "app")
    shutil.copytree(ROOT / "model", tmp_path / "model", ignore=shutil.ignore_patterns("*.so", "pretrained"))
    (tmp_path / "model" / "pretrained").symlink_to(ROOT / "model" / "pretrained")
    (tmp_path / "ziglang.py").touch()  # hides the package, if it is installed
    cache = tmp_path / "cache"
    run = doctor("--json", cwd=tmp_path, PATH="", CXX="", XDG_CACHE_HOME=str(cache), PYTHONPATH="")
    checks = by_name(run.stdout)
    assert run.returncode == 0, run.stdout
    assert checks["compiler"]["details"]["path"] is None
    assert checks["decoder"]["details"]["path"] is None
    (backend,) = checks["back-end"]["details"].values()
    assert backend["name"] == "eager"
    assert backend["reason"].endswith(checks["decoder"]["details"]["reason"])
    if "compiler" in backend["reason"]:  # otherwise this processor could not run the library anyway
        assert checks["decoder"]["state"] == checks["back-end"]["state"] == "warning"
        assert "apt-get install g++" in checks["decoder"]["advice"]
    # The shipped translator was not built, neither before nor by the command.
    (model,) = checks["model"]["details"].values()
    assert not model["built"]
    assert Path(model["path"]).parent == cache / "verso"
    assert not cache.exists()


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("VERSO_TOKN", TOKEN, "There is no setting VERSO_TOKN"),
        ("VERSO_ADMIN_TOKEN", "short", "VERSO_ADMIN_TOKEN"),
        ("VERSO_PORT", "eighty", "VERSO_PORT is 'eighty'"),
    ],
)
def test_an_invalid_setting_is_a_problem_and_no_secret_is_shown(setting: str, value: str, named: str) -> None:
    settings, check = service.check_settings({setting: value, "VERSO_ADMIN_TOKEN_2": TOKEN, "PATH": "/bin"})
    assert settings is None
    assert check.state == "problem"
    settings, check = service.check_settings({setting: value})
    assert named in check.text
    assert TOKEN not in repr(check)
    assert "short" not in repr(check).replace("VERSO_SHORTLIST", "")
    assert check.details["set"] == {setting: "(hidden)"}


def test_the_password_of_the_receiver_of_traces_is_not_shown() -> None:
    _, check = service.check_settings({"VERSO_OTLP_ENDPOINT": "https://me:secret@traces.example/otlp"})
    assert check.text == "VERSO_OTLP_ENDPOINT=https://***@traces.example/otlp"
    assert "secret" not in repr(check)


@pytest.mark.slow
def test_an_unknown_setting_ends_with_exit_code_1_and_the_machine_is_still_shown() -> None:
    run = doctor(VERSO_MODLE="x.pt")
    assert run.returncode == 1
    assert "There is no setting VERSO_MODLE. Did you mean VERSO_MODEL?" in run.stdout
    assert "Verso cannot serve. Solve first: settings." in run.stdout
    assert "processor" in run.stdout
    assert run.stderr == ""


def test_a_missing_model_ends_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = doctor_here(monkeypatch, capsys, "--json", "--load", MODEL=str(tmp_path / "gone.pt"))
    assert code == 1
    checks = by_name(printed)
    assert checks["model"]["state"] == "problem"
    assert str(tmp_path / "gone.pt") in checks["model"]["text"]
    assert "VERSO_MODEL" in checks["model"]["advice"]
    assert "loading" not in checks


def test_bundles_that_cannot_be_served_together_are_a_problem(toy_bundle: Path, tmp_path: Path) -> None:
    for name in ("a.pt", "b.pt"):
        shutil.copy(toy_bundle, tmp_path / name)
    bundles, check = service.check_bundles(Settings(models=str(tmp_path), device="cpu"), True)
    assert (bundles, check.state) == ([], "problem")
    assert "two bundles called" in check.text
    (tmp_path / "b.pt").unlink()
    bundles, check = service.check_bundles(Settings(models=str(tmp_path), device="cpu"), True)
    assert ([bundle.path for bundle in bundles], check.state) == ([tmp_path / "a.pt"], "ok")


def test_a_damaged_bundle_is_found_by_loading_it(toy_bundle: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pt"
    content = bytearray(toy_bundle.read_bytes())
    position = len(content) // 2
    content[position : position + 64] = bytes(64)
    damaged.write_bytes(content)
    check = service.check_loading(Settings(model=str(damaged), device="cpu"))
    assert check.state == "problem"
    assert "damaged" in check.text
    check = service.check_loading(Settings(model=str(toy_bundle), device="cpu", native="off"))
    assert check.state == "ok"


def test_a_translator_that_is_not_built_yet_needs_a_writable_folder(tmp_path: Path) -> None:
    settings = Settings(device="cpu", cache_dir=tmp_path / "cache")
    (bundle,), check = service.check_bundles(settings, True)
    assert not bundle.built
    assert check.state == "ok"
    assert "first start builds" in check.text
    _, check = service.check_bundles(settings, False)
    assert check.state == "problem"
    assert "VERSO_CACHE_DIR" in (check.advice or "")


def test_a_cache_folder_that_is_not_writable_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = service.check_cache(Settings(cache_dir=tmp_path / "file" / "cache"))
    assert check.state == "warning"
    assert check.details["writable"] is False
    assert "VERSO_CACHE_DIR" in (check.advice or "")
    (tmp_path / "x.pt").write_bytes(bytes(10))
    check = service.check_cache(Settings(cache_dir=tmp_path))
    assert (check.state, check.details["bundles"]) == ("ok", ["x.pt"])


def test_a_port_in_use_is_a_warning_because_it_may_be_the_service_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as drawn:
        port = drawn.getsockname()[1]
        check = service.check_address(Settings(port=port))
        assert check.state == "warning"
        assert str(port) in check.text
    assert service.check_address(Settings(port=0)).state == "ok"
    assert service.check_address(Settings(host="no.such.host.invalid")).state == "problem"


def test_a_configured_gpu_that_does_not_exist_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    without_gpus(monkeypatch, None)
    check = machine.check_gpu("cuda")
    assert check.state == "problem"
    assert "VERSO_DEVICE" in check.text
    assert "build without CUDA" in check.text


def test_a_configured_gpu_whose_driver_is_too_old_is_a_problem_that_names_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_nvidia_smi(monkeypatch, tmp_path, "Tesla T4, 535.104.05, 7.5")
    without_gpus(monkeypatch, "13.0", "The NVIDIA driver on your system is too old (found version 12020). Please ...")
    check = machine.check_gpu("cuda")
    assert check.state == "problem"
    assert "too old (found version 12020)" in check.text
    assert "release 580 or newer" in check.text
    assert "Tesla T4 (driver 535.104.05, compute capability 7.5)" in check.text
    assert "install torch's CUDA build" not in check.text


@pytest.mark.parametrize(
    ("cuda", "driver", "state", "advice"),
    [
        (None, None, "ok", None),
        ("13.0", None, "warning", "TORCH=cpu"),
        (None, "NVIDIA H200, 580.65.06, 9.0", "warning", "TORCH=cuda"),
        ("13.0", "NVIDIA H200, 535.104.05, 9.0", "warning", "Update the NVIDIA driver to release 580"),
        (None, "NVIDIA H200, 535.104.05, 9.0", "ok", "update the NVIDIA driver to release 580"),
        (None, "Tesla V100, 580.65.06, 7.0", "ok", "compute capability 7.5 or higher"),
        ("13.0", "Tesla V100, 580.65.06, 7.0", "warning", "compute capability 7.5 or higher"),
        ("13.0", "NVIDIA H200, 580.65.06, 9.0", "warning", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_the_build_of_torch_is_compared_with_the_gpus(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cuda: str | None,
    driver: str | None,
    state: str,
    advice: str | None,
) -> None:
    monkeypatch.setenv("PATH", "")
    if driver is not None:
        put_nvidia_smi(monkeypatch, tmp_path, driver)
    without_gpus(monkeypatch, cuda)
    check = machine.check_gpu("auto")
    assert check.state == state
    assert (advice is None) == (check.advice is None)
    assert (advice or "") in (check.advice or "")
    if driver is not None:
        name, version, _ = driver.split(", ")
        assert f"{name} (driver {version}" in check.text


def test_gpus_are_shown_with_driver_compute_capability_and_free_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_nvidia_smi(monkeypatch, tmp_path, "GPU 0, 580.65.06, 8.9")
    with_gpus(monkeypatch, (8, 9))
    check = machine.check_gpu("auto")
    assert check.state == "ok"
    assert check.text == "GPU 0, compute capability 8.9, 24.0 GB, 20.0 GB free\ndriver 580.65.06"
    assert check.details["gpus"] == [
        {"name": "GPU 0", "bytes": 24 * 10**9, "free_bytes": 20 * 10**9, "capability": "8.9"}
    ]
    assert check.details["driver"] == [{"name": "GPU 0", "driver": "580.65.06", "capability": "8.9"}]
    assert "not used" in machine.check_gpu("cpu").text


class OnGpu(FakeTranslator):
    """A translator that says it is on a GPU, and records how it is warmed up.

    Args:
        error: What warming up raises, if anything.
        graphs: How many graphs its back-end has; None if they are off.
    """

    def __init__(self, error: Exception | None = None, graphs: int | None = 0) -> None:
        super().__init__()
        self.device = "cuda"
        kept = SimpleNamespace(num_kept=graphs or 0, why_off=None if graphs is not None else "the check failed")
        self.backend = cast(Backend, SimpleNamespace(graphs=kept))
        self.warmed: list[list[int]] = []
        self.error = error

    def warm_up(self, widths: Sequence[int]) -> None:
        self.warmed.append(list(widths))
        if self.error is not None:
            raise self.error


def loading(monkeypatch: pytest.MonkeyPatch, translator: OnGpu) -> Check:
    monkeypatch.setattr("app.models.bundles.BundleFiles.load_configured", lambda self: [translator])
    return service.check_loading(Settings(max_beam_size=1, max_hypotheses=1))


def test_loading_on_a_gpu_warms_up_and_decodes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = OnGpu(graphs=12)
    check = loading(monkeypatch, translator)
    assert check.state == "ok"
    assert translator.warmed == [[1], [1]]
    assert "warmed up in" in check.text
    assert "decoded again in" in check.text
    assert "12 CUDA graphs" in check.text
    assert set(check.details) == {"seconds", "warm_up_seconds", "replay_seconds", "graphs"}


def test_a_gpu_that_fails_while_it_is_warmed_up_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    check = loading(monkeypatch, OnGpu(RuntimeError("CUDA error: no kernel image is available")))
    assert check.state == "problem"
    assert "no kernel image is available" in check.text
    assert "VERSO_DEVICE=cpu" in (check.advice or "")


def test_a_model_whose_graphs_are_switched_off_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    check = loading(monkeypatch, OnGpu(graphs=None))
    assert check.state == "warning"
    assert "without graphs (the check failed)" in check.text


def test_torchs_cuda_build_needs_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_bytes", lambda device, proc: 700_000_000)
    assert machine.check_memory().state == "ok"
    check = machine.check_memory(cuda_build=True)
    assert check.state == "warning"
    assert "900 MB" in (check.advice or "")


@pytest.mark.parametrize(
    ("cpuinfo", "has", "lacks"),
    [
        (
            "model name : X\nflags : avx2 fma avx512f avx512bw avx512dq avx512vl avx512_vnni amx_tile amx_bf16\n",
            {"AVX2", "AVX-512", "AVX-512 VNNI", "AMX bf16"},
            {"AMX int8", "AVX-512 bf16", "AVX VNNI"},
        ),
        ("Features : fp asimd asimddp bf16\n", {"NEON", "dot product", "bf16"}, {"int8 matrices"}),
    ],
)
def test_features_of_the_processor_are_read_from_its_flags(
    tmp_path: Path, cpuinfo: str, has: set[str], lacks: set[str]
) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    features = machine.check_processor(tmp_path / "cpuinfo").details["features"]
    assert {name for name, there in features.items() if there} == has
    assert {name for name, there in features.items() if not there} == lacks


def test_torch_that_cannot_be_imported_is_a_problem_and_ends_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.commands import doctor as command

    monkeypatch.setitem(sys.modules, "torch", None)
    checks = command.diagnose({})
    (problem,) = (check for check in checks if check.state == "problem")
    assert problem.name == "torch"
    assert "install" in (problem.advice or "").lower()


def test_another_release_of_torch_than_the_pinned_one_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_pinned_torch", lambda: "1.0.0")
    check = machine.check_torch()
    assert check.state == "warning"
    assert "torch 1.0.0" in (check.advice or "")


@pytest.mark.parametrize(
    ("precision", "device", "native", "enabled", "name"),
    [
        ("int8", "cpu", FOUND, True, "native"),
        ("float32", "cpu", FOUND, True, "native"),
        ("bfloat16", "cpu", FOUND, True, "native"),
        ("float16", "cpu", FOUND, True, "eager"),
        ("int8", "cpu", FOUND, False, "eager"),
        ("int8", "cpu", NO_COMPILER, True, "eager"),
        ("int8", "cpu", OTHER_PROCESSOR, True, "eager"),
        ("float16", "cuda:1", FOUND, True, "slots"),
    ],
)
def test_the_back_end_and_its_reason(
    precision: str,
    device: str,
    native: NativeDecoder,
    enabled: bool,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed, "find_library", lambda: library.Availability(reason=native.reason or None))
    predicted = predict_backend(precision, None, device, native, enabled)
    assert predicted.choice.name == name
    assert predicted.choice.reason
    if native.path is None:
        assert predicted.choice.reason.endswith(native.reason)
        assert predicted.advice == native.advice


def test_the_back_end_is_predicted_as_the_translator_chooses_it(toy_bundle: Path) -> None:
    from model.translator import Translator

    settings = Settings(model=str(toy_bundle), device="cpu")
    (bundle,), _ = service.check_bundles(settings, True)
    for enabled in (True, False):
        predicted = predict_backend(
            bundle.precision, bundle.architecture, "cpu", decoder.native_decoder(), enabled=enabled
        )
        chosen = Translator.load(toy_bundle, native=enabled).backend
        assert (predicted.choice.name, predicted.choice.reason) == (chosen.name, chosen.reason)


def test_a_check_that_raises_does_not_stop_the_others() -> None:
    def broken() -> Check:
        raise ZeroDivisionError("by nought")

    check = guarded("broken", broken)
    assert (check.name, check.state) == ("broken", "warning")
    assert "by nought" in check.text


@pytest.mark.parametrize("folder", ["/proc/x", "/dev/null", "/dev/null/x"])
def test_a_folder_in_which_nothing_can_be_kept_is_a_problem(folder: str) -> None:
    check = service.check_data(Settings(data_dir=Path(folder)))
    assert check.state == "problem" and folder in check.text and "VERSO_DATA_DIR" in check.text


def test_a_folder_for_documents_that_is_still_to_be_made_is_not_made_by_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    assert service.check_data(Settings(data_dir=folder)).state == "ok"
    assert not folder.parent.exists()
    assert service.check_data(Settings()).state == "ok"


def test_keys_are_counted_and_a_file_without_any_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    settings = Settings(keys_db=path)
    assert service.check_keys(Settings()).state == "ok"
    assert service.check_keys(settings).state == "problem"
    assert not path.exists()
    with contextlib.closing(KeyStore(path)) as store:
        store.create("expired", ["translate"], 0.0, expires_at=1.0)
        assert service.check_keys(settings).state == "warning"
        store.create("the shop", ["translate"], 0.0)
    check = service.check_keys(settings)
    assert (check.state, check.details["keys"], check.details["usable"]) == ("ok", 2, 1)
    path.write_bytes(b"no database" * 100)
    assert service.check_keys(settings).state == "problem"
