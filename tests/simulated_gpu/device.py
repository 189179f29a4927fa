"""A GPU's memory, streams and graphs, as far as the service can break their rules. Its tensors are in tensors.py.

What a program does wrong on a GPU shows there now and then, as an illegal access or a wrong result. Here it is listed
in :attr:`Device.faults`, each time:

- work that uses memory beside other work that writes it, without an order between their streams (a race);
- a graph that uses memory freed since its capture (an illegal access, after which every call fails).

cuBLAS has a workspace for each stream. A graph contains the address of its stream's, and destroying any graph of this
stream frees it, as in torch 2.13 (``CUDAGraph::reset`` calls ``clearCublasWorkspacesForStream``).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import torch

WORKSPACE_BYTES = 8 * 2**20
TOTAL_BYTES = 16 * 2**30

_NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"
_INVALIDATED = "CUDA error: operation failed due to a previous error during capture"
ILLEGAL_ACCESS = "CUDA error: an illegal memory access was encountered"

Times = dict[int, int]
"""By stream, the number of its last piece of work that is known to precede something."""


def _join(times: Times, others: Times) -> None:
    for stream, number in others.items():
        times[stream] = max(times.get(stream, 0), number)


class Block:
    """Memory of a tensor and its views, freed with the last of them.

    Args:
        device: Where it is.
        num_bytes: Its size.
        pool: The graphs whose capture allocated it, or None.
        is_shared: Whether it is a workspace or stands for a pool; no tensor has it.
    """

    def __init__(self, device: Device, num_bytes: int, pool: Pool | None = None, *, is_shared: bool = False) -> None:
        self._device = device
        self.num_bytes = num_bytes
        self.pool = pool
        self.is_shared = is_shared
        self.streams = [device.stream]
        """The stream that allocated it, and those of ``record_stream``."""
        self.written: Times = {}  # the last write, and reads since
        self.read: Times = {}

    def __del__(self) -> None:
        self._device.free(self)


@dataclass(eq=False)
class Pool:
    """Memory for what captures allocate, shared by graphs that may not run at the same time.

    Args:
        block: Stands for the memory where graphs run beside one another.
        used: Bytes allocated in the present capture.
        num_bytes: The most that a capture needed.
    """

    block: Block
    used: int = 0
    num_bytes: int = 0


_pool_numbers = itertools.count(1)


def new_pool_handle() -> tuple[int, int]:
    """In the place of :func:`torch.cuda.graph_pool_handle`."""
    return 0, next(_pool_numbers)


_NUM_STREAMS = 32
_stream_numbers = itertools.cycle(range(1, _NUM_STREAMS + 1))


class Stream:
    """In the place of :class:`torch.cuda.Stream`. There are 32, which are handed out in turn; the default one is 0."""

    def __init__(self, device: object = None, priority: int = 0, number: int | None = None) -> None:
        self.cuda_stream = next(_stream_numbers) if number is None else number
        self.device = torch.device("cuda", 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return self.cuda_stream

    @property
    def seen(self) -> Times:
        """Work that precedes whatever is queued next."""
        return the_device().seen[self.cuda_stream]

    def wait_stream(self, other: Stream) -> None:
        the_device().check()
        _join(self.seen, other.seen)

    def wait_event(self, event: Event) -> None:
        the_device().check()
        _join(self.seen, event.seen)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        the_device().waits_for("stream.synchronize", self)

    def query(self) -> bool:
        return True


class Event:
    """In the place of :class:`torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.seen: Times = {}

    def record(self, stream: Stream | None = None) -> None:
        the_device().check()
        self.seen = dict((stream or the_device().stream).seen)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or the_device().stream).wait_event(self)

    def synchronize(self) -> None:
        device = the_device()
        device.check()
        device.host_sees(self.seen)

    def query(self) -> bool:
        return True


class Graph:
    """In the place of :class:`torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph: bool = False) -> None:
        self.capture: Capture | None = None

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        self._pool = pool or new_pool_handle()
        self.capture = the_device().begin_capture(self._pool)

    def pool(self) -> tuple[int, int]:
        return self._pool

    def capture_end(self) -> None:
        the_device().end_capture()

    def replay(self) -> None:
        assert self.capture is not None
        the_device().replay(self.capture)

    def reset(self) -> None:
        if self.capture is not None:
            self.capture.device.forget_workspace(self.capture.stream)
        self.capture = None

    def __del__(self) -> None:
        self.reset()


@dataclass(eq=False)
class Capture:
    """What a graph does when it is replayed.

    Args:
        device: Where it was captured.
        stream: On which stream.
        pool: Memory for what it allocates.
        thread: The thread that captures.
        operations: Computed again at each replay.
        undo: Restores the values that the operations have overwritten: a capture computes nothing.
        reads: Memory that it reads and did not allocate itself.
        writes: Memory that it writes and did not allocate itself.
        invalid: Whether an error has occurred.
    """

    device: Device
    stream: Stream
    pool: Pool
    thread: int
    operations: list[Callable[[], object]] = field(default_factory=list)
    undo: dict[int, Callable[[], object]] = field(default_factory=dict)
    reads: set[weakref.ref[Block]] = field(default_factory=set)
    writes: set[weakref.ref[Block]] = field(default_factory=set)
    invalid: bool = False


class Device:
    """One simulated GPU.

    Args:
        total_bytes: Its memory.
    """

    def __init__(self, total_bytes: int = TOTAL_BYTES) -> None:
        self.total_bytes = total_bytes
        self.fraction = 1.0
        self.faults: list[str] = []
        """Races and uses of freed memory. A test that provokes them takes them out."""
        self.num_captures = 0
        self.sync_debug_mode = "default"
        self.failing_captures: dict[int, Literal["begin", "during", "end"]] = {}
        """By the number of a capture, from 1, where it fails."""
        self.replays_are_wrong = False
        """Whether replays compute nothing."""
        self.max_capture_bytes: int | None = None
        """Bytes that a capture may allocate; None for what is free."""
        self.allocated = 0
        self.cached = 0  # freed, and kept by torch
        self._pools: weakref.WeakValueDictionary[tuple[int, int], Pool] = weakref.WeakValueDictionary()
        self._workspaces: dict[int, Block] = {}
        self._error: str | None = None
        self._capture: Capture | None = None
        self.seen: dict[int, Times] = defaultdict(dict)
        """By stream, work that precedes whatever is queued on it next."""
        self._of_thread = threading.local()
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)  # of pieces of work
        self._queued: Times = {}
        self._host: Times = {}
        self._downloads: list[tuple[int, int, Callable[[], object]]] = []

    # Errors

    def fail(self, message: str = ILLEGAL_ACCESS) -> None:
        """Make every later call of the process fail."""
        self._error = message

    def check(self) -> None:
        """Raises:
        AcceleratorError: An error has occurred that stays.
        """
        if self._error is not None:
            raise torch.AcceleratorError(self._error)

    def forbid_in_capture(self) -> None:
        """Raises:
        AcceleratorError: This thread captures; the capture is lost.
        """
        if self.capturing is not None:
            self.capturing.invalid = True
            raise torch.AcceleratorError(_NOT_PERMITTED)

    # Streams

    @property
    def stream(self) -> Stream:
        """The current stream of this thread."""
        stream: Stream = getattr(self._of_thread, "stream", Stream(number=0))
        return stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._of_thread.stream = stream

    def launch(self, reads: Iterable[Block], writes: Iterable[Block], multiplies: bool = False) -> None:
        """Queue work on the current stream, or note what it uses where that is captured.

        Args:
            reads: Memory it reads.
            writes: Memory it writes.
            multiplies: Whether cuBLAS computes it.
        """
        self.check()
        if multiplies:
            writes = [*writes, self._workspace()]
        capture = self.capturing
        if capture is not None:
            if capture.invalid:
                raise torch.AcceleratorError(_INVALIDATED)
            for noted, blocks in ((capture.reads, reads), (capture.writes, writes)):
                noted.update(weakref.ref(block) for block in blocks if block.pool is not capture.pool)
            return
        self._order(reads, writes)

    def _order(self, reads: Iterable[Block], writes: Iterable[Block]) -> None:
        """Compare with earlier work on the same memory, and note this work."""
        with self._lock:
            stream, number = self.stream, next(self._numbers)
            _join(stream.seen, self._host)
            stream.seen[stream.cuda_stream] = self._queued[stream.cuda_stream] = number
            for block in reads:
                self._check_order(block.written, "reads what another stream writes")
                block.read[stream.cuda_stream] = number
            for block in writes:
                self._check_order(block.written, "writes what another stream writes")
                self._check_order(block.read, "writes what another stream reads")
                block.written, block.read = {stream.cuda_stream: number}, {}

    def _check_order(self, earlier: Times, what: str) -> None:
        if any(self.stream.seen.get(stream, 0) < number for stream, number in earlier.items()):
            self.faults.append(f"a race: stream {self.stream.cuda_stream} {what}")

    def waits_for(self, what: str, stream: Stream | None = None) -> None:
        """The host waits for a stream.

        Raises:
            AcceleratorError: This thread captures.
            RuntimeError: Waiting is forbidden by ``torch.cuda.set_sync_debug_mode("error")``.
        """
        self.check()
        self.forbid_in_capture()
        if self.sync_debug_mode == "error":
            raise RuntimeError(f"called a synchronizing CUDA operation ({what})")
        self.host_sees((stream or self.stream).seen)

    def synchronize(self, device: object = None) -> None:
        """The host waits for all streams; that breaks a capture, of whichever thread."""
        self.check()
        if self._capture is not None:
            self._capture.invalid = True
            raise torch.AcceleratorError(_NOT_PERMITTED)
        self.host_sees(self._queued)

    def host_sees(self, times: Times) -> None:
        """The host has waited for work: it precedes all that is queued from now on."""
        with self._lock:
            _join(self._host, times)
            waiting, self._downloads = self._downloads, []
            for stream, number, arrive in waiting:
                if self._host.get(stream, 0) >= number:
                    arrive()
                else:
                    self._downloads.append((stream, number, arrive))

    def download(self, arrive: Callable[[], object]) -> None:
        """Have the result of the current stream's last work arrive on the host when this has waited for it."""
        number = self.stream.cuda_stream
        with self._lock:
            self._downloads.append((number, self.stream.seen.get(number, 0), arrive))

    # Memory

    @property
    def reserved(self) -> int:
        """Bytes that torch has taken from the device."""
        return self.allocated + self.cached + sum(pool.num_bytes for pool in list(self._pools.values()))

    @property
    def free_bytes(self) -> int:
        """Free bytes."""
        return self.total_bytes - self.reserved

    def allocate(self, num_bytes: int) -> Block:
        """Allocate memory; from the graph's pool where this thread captures.

        Raises:
            OutOfMemoryError: There is too little.
        """
        self.check()
        capture = self.capturing
        if capture is None:
            with self._lock:
                self._reserve(num_bytes)
                self.allocated += num_bytes
            return Block(self, num_bytes)
        pool = capture.pool
        try:
            if self.max_capture_bytes is not None and pool.used + num_bytes > self.max_capture_bytes:
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {num_bytes} bytes.")
            self._reserve(max(0, pool.used + num_bytes - pool.num_bytes))
        except torch.OutOfMemoryError:
            capture.invalid = True
            raise
        pool.used += num_bytes
        pool.num_bytes = max(pool.num_bytes, pool.used)
        return Block(self, num_bytes, pool)

    def _reserve(self, num_bytes: int) -> None:
        """Take memory from what torch keeps, and the rest from the device."""
        limit = int(self.fraction * self.total_bytes)
        room = limit - (self.reserved - self.cached)
        if num_bytes > room:
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {num_bytes} bytes. GPU 0 has a total capacity of "
                f"{limit} bytes of which {room} bytes is free."
            )
        self.cached = max(0, self.cached - num_bytes)

    def free(self, block: Block) -> None:
        """Take memory back; called by the block."""
        if block.pool is not None:
            block.pool.used -= block.num_bytes
            return
        with self._lock:
            self.allocated -= block.num_bytes
            self.cached += block.num_bytes
        if block.is_shared:
            return
        reference = dict(self._host)
        _join(reference, self.seen[block.streams[0].cuda_stream])
        recorded = {stream.cuda_stream for stream in block.streams}
        used = [*block.written.items(), *block.read.items()]
        if any(stream not in recorded and reference.get(stream, 0) < number for stream, number in used):
            self.faults.append("memory was freed while a stream used it that was not recorded (record_stream)")

    def empty_cache(self) -> None:
        """Give back what torch keeps of freed memory."""
        self.check()
        self.cached = 0

    def pool(self, handle: tuple[int, int]) -> Pool:
        """The memory of a handle; it exists as long as there are graphs in it."""
        pool = self._pools.get(handle)
        if pool is None:
            pool = self._pools[handle] = Pool(Block(self, 0, is_shared=True))
        return pool

    def _workspace(self) -> Block:
        """The workspace of cuBLAS for the current stream."""
        number = self.stream.cuda_stream
        if number not in self._workspaces:
            with self._lock:
                self._reserve(WORKSPACE_BYTES)
                self.allocated += WORKSPACE_BYTES
            self._workspaces[number] = Block(self, WORKSPACE_BYTES, is_shared=True)
        return self._workspaces[number]

    def forget_workspace(self, stream: Stream) -> None:
        """Free the workspace of a stream."""
        self._workspaces.pop(stream.cuda_stream, None)

    # Graphs

    @property
    def capturing(self) -> Capture | None:
        """The capture of this thread, if its current stream is captured."""
        capture = self._capture
        if capture is None or capture.thread != threading.get_ident() or capture.stream != self.stream:
            return None
        return capture

    def begin_capture(self, handle: tuple[int, int]) -> Capture:
        """Begin a capture on the current stream.

        Raises:
            AcceleratorError: There is one already, or the stream is the default one.
        """
        self.check()
        if self._capture is not None:
            self._capture.invalid = True
            self.faults.append("two captures at once")
            raise torch.AcceleratorError(_NOT_PERMITTED)
        if self.stream.cuda_stream == 0:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        self.num_captures += 1
        fails = self.failing_captures.get(self.num_captures)
        if fails == "begin":
            raise torch.AcceleratorError(_INVALIDATED)
        self._capture = Capture(self, self.stream, self.pool(handle), threading.get_ident(), invalid=fails == "during")
        return self._capture

    def end_capture(self) -> None:
        """End the capture of this thread.

        Raises:
            AcceleratorError: An error has occurred during the capture.
        """
        capture, self._capture = self._capture, None
        assert capture is not None
        for restore in capture.undo.values():
            restore()
        capture.undo.clear()
        self.check()
        if capture.invalid or self.failing_captures.get(self.num_captures) == "end":
            raise torch.AcceleratorError(_INVALIDATED)

    def replay(self, capture: Capture) -> None:
        """Do again what was captured.

        Raises:
            AcceleratorError: It uses freed memory; every later call fails, too.
        """
        self.check()
        self.forbid_in_capture()
        reads, writes = ([block() for block in noted] for noted in (capture.reads, capture.writes))
        if None in reads or None in writes:
            self.faults.append("a graph uses memory that was freed after its capture")
            self.fail()
            self.check()
        self._order(
            [block for block in reads if block is not None],
            [*(block for block in writes if block is not None), capture.pool.block],
        )
        for operation in () if self.replays_are_wrong else capture.operations:
            operation()


_device: list[Device] = []


def the_device() -> Device:
    """The simulated GPU that is installed."""
    return _device[-1]
