"""Items that a thread or a process makes ahead of their use."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

from model.errors import WorkersFailed

Item = TypeVar("Item")
_P = ParamSpec("_P")

_NUM_AHEAD = 32
"""Size of the queue of items from a process: the batches of 32 updates, because planning a piece takes seconds."""


@dataclass(frozen=True)
class _Ended:
    """The end of the items: there are no more, or making one failed."""

    error: Exception | None


@contextlib.contextmanager
def prefetch(items: Generator[Item], number: int = 4) -> Generator[Iterator[Item]]:
    """The same items, made by a thread while the caller uses earlier ones.

    Args:
        items: Makes the items; closed at the end of the context.
        number: Size of the queue.
    """
    items_ahead: queue.Queue[Item | _Ended] = queue.Queue(number)
    stopped = threading.Event()

    def put(item: Item | _Ended) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                items_ahead.put(item, timeout=0.1)
                return

    def make() -> None:
        error: Exception | None = None
        try:
            with contextlib.closing(items):
                for item in items:
                    put(item)
                    if stopped.is_set():
                        return
        except Exception as raised:  # noqa: BLE001  (raised again where the item is used)
            error = raised
        put(_Ended(error))

    def take() -> Iterator[Item]:
        while not isinstance(item := items_ahead.get(), _Ended):
            yield item
        if item.error is not None:
            raise item.error

    thread = threading.Thread(target=make, name="batches", daemon=True)
    thread.start()
    try:
        yield take()
    finally:
        stopped.set()
        thread.join()


@contextlib.contextmanager
def prefetch_in_process(
    make: Callable[_P, Generator[Item]], *args: _P.args, **kwargs: _P.kwargs
) -> Generator[Iterator[Item]]:
    """The items of a generator, made by a process beside this one, so that Python's lock does not slow down either.

    The process ignores SIGINT and SIGTERM, which are sent to whole process groups: this process ends it.

    Args:
        make: A generator function of a module.
        args: Its arguments; they and the items are pickled.
        kwargs: Likewise.

    Raises:
        WorkersFailed: The process ended before its items did, for example for want of memory.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, make, args, kwargs), name="batches")
    process.start()
    sender.close()

    def receive() -> Generator[Item]:
        while True:
            try:
                item: Item | _Ended = pickle.loads(receiver.recv_bytes())
            except EOFError:
                process.join()
                raise WorkersFailed(
                    f"The process that makes the batches ended with code {process.exitcode}; if it was killed, the "
                    "machine had too little memory for the training text."
                ) from None
            if isinstance(item, _Ended):
                if item.error is not None:
                    raise item.error
                return
            yield item

    with contextlib.closing(receiver), prefetch(receive(), _NUM_AHEAD) as items:
        try:
            yield items
        finally:
            process.kill()  # ends receive() too, which may wait for an item
            process.join()


def _send(
    sender: Connection, make: Callable[..., Generator[Item]], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    """Send the items of a generator; the work of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):  # the training process has ended
        error: Exception | None = None
        try:
            for item in make(*args, **kwargs):
                # Not Connection.send, with which torch would pass tensors through shared memory.
                sender.send_bytes(pickle.dumps(item))
        except BrokenPipeError:
            raise
        except Exception as raised:  # noqa: BLE001  (raised again in the other process)
            error = raised
        sender.send_bytes(pickle.dumps(_Ended(error)))
