"""Workers on one machine or a cluster, by Ray Data. Ray is imported here only, when it is used.

One dataset has the rows of all files: they are read, split into batches, translated by a pool of actors, and returned
in the order of files and rows. All workers are busy both with one large file and with many small ones.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from model.bulk.files import BulkFile
from model.bulk.job import Job
from model.bulk.reading import read_rows
from model.bulk.rows import PlacedRow, TranslatedRow
from model.bulk.run import Stream
from model.errors import ConfigError, ModelError, WorkersFailed
from model.process.threads import available_threads

if TYPE_CHECKING:
    import pyarrow as pa

_OBJECT_STORE_BYTES = 256 * 2**20
"""Memory for batches between processes; Ray stops reading while it is full."""

_CPUS_TO_READ = 2
"""One process reads, one splits the rows into batches. Both have little to do."""

_MAX_READING_TASKS = 64
"""Number of tasks that read the files."""

_ROWS_AT_ONCE = 1024
_BLOCK_BYTES = 2**20
"""Size of the blocks that are split into batches. Small, so that the workers start soon."""

_RETRIES = 3
"""Retries of a batch after its worker died. Ray's default is unlimited, so that a text that kills its process would be
retried forever."""

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Otherwise the core writes to standard error, among our messages. Its log files are not affected.
    "RAY_BACKEND_LOG_LEVEL": "fatal",
}


@contextmanager
def start_ray(job: Job, num_workers: int | None, batch_size: int) -> Iterator[Stream]:
    """Start Ray on this machine, or connect to the cluster of ``RAY_ADDRESS``; stop it at the end.

    Args:
        job: What to do with texts.
        num_workers: Processes that translate; by default the number for which there are CPUs.
        batch_size: Rows of a batch.

    Yields:
        A function that translates the rows of files, which this machine reads. It raises :class:`WorkersFailed` if the
        workers do not start, or if a text kills each worker that gets it.

    Raises:
        ConfigError: Ray is not installed, or the cluster has too few CPUs.
        WorkersFailed: Ray does not start.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    num_gpus = int(job.device != "cpu")
    address = os.environ.get("RAY_ADDRESS")
    chosen: dict[str, Any] = {"address": address}
    if not address:
        num_workers = num_workers or max(1, available_threads() // job.num_threads)
        # Ray's processes listen on all interfaces; they accept only clients with the token.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        chosen = {
            "address": "local",
            "num_cpus": num_workers * job.num_threads + _CPUS_TO_READ,
            "num_gpus": num_workers * num_gpus,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
        }
    ray = _imported()
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # its errors are raised, too
    try:
        ray.init(**chosen, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        ray.shutdown()  # parts of it may have started
        raise WorkersFailed(f"Ray does not start: {error}") from error
    try:
        size = pool_size(ray.cluster_resources(), num_workers, job.num_threads, num_gpus)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\.|model\.bulk")  # advice for authors of pipelines
            yield lambda files: _translated(files, job, size, num_gpus, batch_size)
    finally:
        ray.shutdown()


def _translated(
    files: Sequence[BulkFile], job: Job, num_workers: int, num_gpus: int, batch_size: int
) -> Iterator[TranslatedRow]:
    """The rows of files, translated, in the order of files and rows."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = _BLOCK_BYTES
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    numbers = ray.data.from_items(
        [{"file": number} for number in range(len(files))], override_num_blocks=min(len(files), _MAX_READING_TASKS)
    )
    read = numbers.map_batches(
        _read,
        fn_args=[ray.put(list(files)), job],
        batch_format="pyarrow",
        compute=ray.data.TaskPoolStrategy(size=1),
        num_cpus=1,
        label_selector=here,
    )
    translated = read.repartition(target_num_rows_per_block=batch_size).map_batches(
        RayWorker,
        fn_constructor_args=[job],
        batch_size=batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=num_workers),
        num_cpus=job.num_threads,
        num_gpus=num_gpus,
        # Deprecated, but the only way in this range of releases.
        max_restarts=-1,
        max_task_retries=_RETRIES,
    )
    try:
        for batch in translated.iter_batches(batch_size=None, batch_format="pyarrow"):
            for row in batch.select(TranslatedRow._fields).to_pylist():
                yield TranslatedRow(**row)
    except ray.exceptions.RayError as error:
        raise WorkersFailed(_explained(error)) from error


def _read(batch: pa.Table, stored: Any, job: Job) -> Iterator[pa.Table]:
    """Read files, as a task of Ray.

    Args:
        batch: The indices of the files.
        stored: Reference to all files.
        job: What is done with their texts.
    """
    import ray

    files: list[BulkFile] = ray.get(stored)
    rows = (row for number in batch.column("file").to_pylist() for row in read_rows(number, files[number], job))
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield _table(chunk, PlacedRow)


class RayWorker:
    """A worker, as an actor of Ray Data.

    Args:
        job: What it does.
    """

    def __init__(self, job: Job) -> None:
        from model.bulk.worker import Worker

        self._worker = Worker(job)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Translate a batch."""
        rows = [PlacedRow(**row) for row in batch.select(PlacedRow._fields).to_pylist()]
        return _table(self._worker.translate(rows), TranslatedRow)


def _table(
    rows: Sequence[PlacedRow] | Sequence[TranslatedRow], kind: type[PlacedRow] | type[TranslatedRow]
) -> pa.Table:
    """Rows as a table, whose types do not depend on them."""
    import pyarrow as pa

    types = {str: pa.large_string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema(
        [
            (name, next(types[base] for base in (bool, int, float, str) if base in (hint, *get_args(hint))))
            for name, hint in get_type_hints(kind).items()
        ]
    )
    return pa.Table.from_pylist([row._asdict() for row in rows], schema)


def _imported() -> Any:
    """Ray with Ray Data.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ConfigError(
            f"--ray needs Ray, which is not installed ({error}): pip install 'verso-translate[ray]', or in a checkout "
            "pip install '.[ray]'."
        ) from error
    return ray


def pool_size(resources: Mapping[str, float], num_workers: int | None, num_threads: int, num_gpus: int) -> int:
    """The number of workers for what a cluster has; where there is too little, Ray would wait without end.

    Args:
        resources: Of the cluster, by name.
        num_workers: The requested number of workers; None for the largest possible number.
        num_threads: Processors of a worker.
        num_gpus: GPUs of a worker.

    Raises:
        ConfigError: There is too little.
    """
    num_processors = int(resources.get("CPU", 0)) - _CPUS_TO_READ
    most = num_processors // num_threads
    if num_gpus:
        most = min(most, int(resources.get("GPU", 0)))
    if most < (num_workers or 1):
        raise ConfigError(
            f"There is room for {max(most, 0)} workers with {num_threads} processors and {num_gpus} GPUs each beside "
            f"{_CPUS_TO_READ} processors for reading, and --workers is {num_workers or 1}; lower it or "
            "--threads, or add machines to the cluster."
        )
    return num_workers or most


def _explained(error: Exception) -> str:
    """What ended the workers, without the traces of processes that have it in turn."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, ModelError):
        return f"The workers cannot start: {cause}"
    reason = cause if isinstance(cause, Exception) else error
    first_line = str(reason).strip().partition("\n")[0]
    return (
        f"The workers cannot go on: {type(reason).__name__}: {first_line}. Finished files are kept; the same command "
        "goes on with the others."
    )
