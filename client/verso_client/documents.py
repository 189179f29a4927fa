"""Waiting for a document: polling, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from verso_client.answers import Document, Problem
from verso_client.errors import DocumentFailed, TimedOut

if TYPE_CHECKING:
    from tqdm import tqdm

Progress = bool | Callable[[Document], object]
"""Whether to show a progress bar; or a function that is called with every state of a document."""

SHORTEST_WAIT_S = 0.5
LONGEST_WAIT_S = 5.0
"""Seconds between two requests for the state of a document."""


class Polling:
    """Decides when to request the state of a document again, and when to stop.

    Args:
        report: Called with every state.
        timeout_s: Seconds to wait in all; None for no limit.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, report: Callable[[Document], object], timeout_s: float | None, clock: Callable[[], float]
    ) -> None:
        self._report = report
        self._timeout_s = timeout_s
        self._clock = clock
        self._started_s = clock()

    def wait_after(self, document: Document) -> float | None:
        """Seconds until the next request; None if the document is done.

        Args:
            document: Its state.

        Raises:
            DocumentFailed: The document failed or was cancelled.
            TimedOut: The document is not done in time; the service continues.
        """
        self._report(document)
        if document.status == "done":
            return None
        if document.is_finished:
            raise DocumentFailed(document.problem or _unexplained(document), document.id)
        if self._timeout_s is not None and self._clock() - self._started_s >= self._timeout_s:
            raise TimedOut(
                f"The document {document.id} is not done after {self._timeout_s:g} s; the service continues with it.",
                sent=True,
            )
        # A tenth of the remaining time: frequent requests for short documents, few for long ones.
        return min(max((document.seconds_left or 0.0) / 10.0, SHORTEST_WAIT_S), LONGEST_WAIT_S)


@contextmanager
def reporting(progress: Progress) -> Iterator[Callable[[Document], object]]:
    """The function to call with every state of a document.

    Args:
        progress: The argument of the client's method.
    """
    if callable(progress):
        yield progress
        return
    bar = _progress_bar() if progress else None
    if bar is None:
        yield _silent
        return
    with bar:
        yield lambda document: _show(bar, document)


def _silent(_: Document) -> None:
    pass


def _progress_bar() -> tqdm[Any] | None:
    """A bar on standard error, if tqdm is installed and standard error is a terminal."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(unit=" sentences", dynamic_ncols=True, disable=None)


def _show(bar: tqdm[Any], document: Document) -> None:
    bar.set_description(f"{document.filename}: {document.status}", refresh=False)
    bar.total = document.sentences.total
    bar.n = document.sentences.done
    bar.refresh()


def _unexplained(document: Document) -> Problem:
    """A problem for a document that ended without one."""
    ending = "was cancelled" if document.status == "cancelled" else f"ended with the status {document.status!r}"
    return Problem(
        title="The document was not translated",
        status=200,
        code=f"document_{document.status}",
        detail=f"The document {document.filename!r} {ending}.",
    )
