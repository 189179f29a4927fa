"""Shared fixtures: a toy translator, trained and exported once per session."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from filelock import FileLock

from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.export import export_bundle
from tests.simulated_gpu.device import Device
from tests.simulated_gpu.install import installed
from tests.toy import train_toy
from tests.waiting import PATIENCE_S

# No deadline for an example: the machine may be busy. The same examples in every run, so that failures reproduce.
hypothesis.settings.register_profile("verso", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("verso")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with long tests first, so that no process works alone at the end of a run side by side.

    Tests on the simulated GPU get the marker ``simulated``, and those that ``sampled`` leaves out ``slow``.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not any(map(item.get_closest_marker, ("slow", "gpu"))):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in cases.values():
        marker = group[0].get_closest_marker("sampled")
        assert marker is not None
        number = marker.args[0]
        chosen = {index * len(group) // number for index in range(number)}
        for index, item in enumerate(group):
            if index not in chosen:
                item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("thorough") is None)
    for item in items:
        if isinstance(item, pytest.Function) and "simulated_gpu" in item.fixturenames:
            item.add_marker("simulated")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine in an event loop of its own; with the mark ``anyio`` its fixtures may be coroutines, too."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or pyfuncitem.get_closest_marker("anyio"):
        return None

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await pyfuncitem.obj(**arguments)

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(bounded())
    return True


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collections, which would visit it hundreds of times."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def simulated_gpu() -> Iterator[Device]:
    """A simulated GPU in the place of torch's. A test fails if it breaks the rules of memory and streams there."""
    torch._C._jit_override_can_fuse_on_gpu(False)  # as load_bundle() does
    with installed(Device()) as device:
        yield device
    assert not device.faults


SIMULATED = pytest.param("simulated", marks=pytest.mark.simulated)
REAL = pytest.param("real", marks=pytest.mark.gpu)


@pytest.fixture(params=[SIMULATED, REAL])
def gpu(request: pytest.FixtureRequest) -> Device | None:
    """A GPU for the test: once a simulated one, which is returned, and once a real one."""
    torch._C._jit_override_can_fuse_on_gpu(False)  # as load_bundle() does
    device: Device | None = request.getfixturevalue("simulated_gpu") if request.param == "simulated" else None
    return device


NUM_THREADS = 1
"""Tiny tensors gain nothing from more threads, and tests that run side by side share the processors."""


@pytest.fixture(scope="session", autouse=True)
def _few_threads() -> Iterator[None]:
    """A loaded model takes all processors otherwise, and so do the tests after it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("model.translator.available_threads", lambda: NUM_THREADS)
        yield


def pytest_runtest_setup() -> None:
    """Each test begins with few threads, whatever the one before it has set."""
    torch.set_num_threads(NUM_THREADS)


@pytest.fixture(scope="session")
def toy_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The averaged checkpoint of a trained toy translator; processes that run side by side share it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with FileLock(folder / "toy.lock"):
        path = folder / "toy" / "path"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(str(train_toy(path.parent)), encoding="utf-8")
        return Path(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def toy_bundle(toy_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy translator as a float32 bundle."""
    path = tmp_path_factory.mktemp("bundle") / "toy.pt"
    export_bundle(load_checkpoint(toy_checkpoint), "float32", path, report=lambda line: None)
    return path
