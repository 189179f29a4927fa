"""The batches of one update after another, and the share of them that a process trains on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from model.training.batches import Batch, BatchMaker
from model.training.distributed import Processes


@dataclass(frozen=True)
class Position:
    """A position in the batches of a run.

    Args:
        epoch: Index of the current epoch.
        piece: Index of the current piece of the epoch.
        batch: Number of batches of this piece that were used.
    """

    epoch: int = 0
    piece: int = 0
    batch: int = 0


@dataclass(frozen=True)
class UpdateBatches:
    """The batches of an update.

    Args:
        position: The position after the last one.
        epochs: Number of passes over the text up to there.
        batches: Those that this process trains on.
    """

    position: Position
    epochs: float
    batches: list[Batch]

    def pinned(self) -> UpdateBatches:
        """The same in memory from which a GPU fetches by itself."""
        return replace(self, batches=[batch.pinned() for batch in self.batches])


def update_batches(
    maker: BatchMaker, start: Position, accumulate: int, processes: Processes
) -> Generator[UpdateBatches]:
    """The batches of the updates that follow a position, without end.

    An update takes the next ``accumulate`` batches for each process, dealt out in turn. Only a process's own are made.

    Args:
        maker: Makes the batches.
        start: The position after the last batch that was used.
        accumulate: Batches of an update for each process.
        processes: The processes of the run.
    """
    following = _following(maker, start)
    while True:
        of_all = list(islice(following, accumulate * processes.size))
        own = [make() for _, _, make in of_all[processes.rank :: processes.size]]
        position, epochs, _ = of_all[-1]
        yield UpdateBatches(position, epochs, own)


def _following(maker: BatchMaker, start: Position) -> Iterator[tuple[Position, float, Callable[[], Batch]]]:
    """For each batch after a position: the position after it, the passes over the text up to there, its maker."""
    epoch, first, used = start.epoch, start.piece, start.batch
    while True:
        num_pieces = maker.num_pieces(epoch)
        for piece in range(first, num_pieces):
            batches = maker.piece(epoch, piece)
            for number, make in enumerate(batches[used:], start=used + 1):
                epochs = epoch + (piece + number / len(batches)) / num_pieces
                yield Position(epoch, piece, number), epochs, make
            used = 0
        epoch, first = epoch + 1, 0
