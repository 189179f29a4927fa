"""The batches of one update after another, and the share of them that a process trains on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import islice

from model.training.batches import Batch, BatchMaker
from model.training.distributed import Processes


@dataclass(frozen=True)
class UpdateBatches:
    """The batches of an update, and the position of the last one in the run.

    Args:
        epoch: Index of its epoch.
        number: Number of batches of this epoch up to it.
        epochs: Number of passes over the text up to it.
        batches: Those that this process trains on.
    """

    epoch: int
    number: int
    epochs: float
    batches: list[Batch]


def update_batches(
    maker: BatchMaker, epoch: int, number: int, accumulate: int, processes: Processes, *, pin: bool
) -> Generator[UpdateBatches]:
    """The batches of the updates that follow a position, without end.

    An update takes the next ``accumulate`` batches for each process, dealt out in turn. Only a process's own are made.

    Args:
        maker: Makes the batches.
        epoch: Index of the current epoch.
        number: Number of its batches that were used.
        accumulate: Batches of an update for each process.
        processes: The processes of the run.
        pin: Whether a GPU fetches the batches from memory.
    """
    following = _following(maker, epoch, number)
    while True:
        of_all = list(islice(following, accumulate * processes.size))
        own = [make() for _, _, make in of_all[processes.rank :: processes.size]]
        epoch, number, _ = of_all[-1]
        epochs = epoch + number / maker.num_batches
        yield UpdateBatches(epoch, number, epochs, [batch.pinned() for batch in own] if pin else own)


def _following(maker: BatchMaker, epoch: int, number: int) -> Iterator[tuple[int, int, Callable[[], Batch]]]:
    """Epoch, number and maker of each batch after a position."""
    while True:
        for make in maker.planned_epoch(epoch, skip=number):
            number += 1
            yield epoch, number, make
        epoch, number = epoch + 1, 0
