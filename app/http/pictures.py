"""Pictures, drawn in a process of their own (:mod:`app.http.picture_worker`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from app.errors import NotReady
from app.processes.worker import WorkerEnded, WorkerProcess


class Pictures:
    """Draws pictures, one at a time.

    matplotlib takes half a second of Python for a picture. In a thread, it would take turns with the event loop, which
    then needs up to 5 ms for each call that releases the interpreter's lock.
    """

    def __init__(self) -> None:
        self._worker = WorkerProcess("app.http.picture_worker", "verso-pictures")

    async def attention_heat_map(
        self, weights: npt.NDArray[np.float32], rows: Sequence[str], columns: Sequence[str], title: str
    ) -> bytes:
        """A heat map, as :func:`model.plots.attention_heat_map` draws it; the arguments are the same.

        Raises:
            NotReady: The system starts no process, or has ended it.
        """
        job = (weights.tobytes(), weights.shape, list(rows), list(columns), title)
        try:
            kind, value = await self._worker.call(job, tuple)
        except WorkerEnded:
            raise NotReady(5.0, "no_process") from None
        if kind == "error":
            raise RuntimeError(f"A picture could not be drawn.\n{value}")
        picture: bytes = value
        return picture

    async def close(self) -> None:
        """End the process."""
        await self._worker.close()
