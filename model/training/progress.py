"""The progress of a training run: its counters and evaluations, which checkpoints store so that it can be resumed."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.process.files import atomic_write
from model.scores import mean_bleu
from model.training.update_batches import Position

CURVE = "curve.csv"

Row = dict[str, float | None]
"""An evaluation: scores and counters by name."""


@dataclass
class Progress:
    """The counters and evaluations of a run.

    Args:
        step: Number of updates.
        position: The position after the last batch that was used.
        epochs: Number of passes over the text; not stored, because it follows from the next batch.
        seconds: Duration of all updates.
        rows: The evaluations.
        running_nll: Sum of the negative log-likelihoods since the last evaluation, in nats.
        running_tokens: Number of target tokens since then.
        running_seconds: Duration of the updates since then.
    """

    step: int = 0
    position: Position = field(default_factory=Position)
    epochs: float = 0.0
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list)
    running_nll: float = 0.0
    running_tokens: int = 0
    running_seconds: float = 0.0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Progress:
        """Restore the progress from a checkpoint's ``progress``."""
        return cls(
            step=values["step"],
            # Earlier releases planned whole epochs; their current epoch begins again.
            position=Position(values["epoch"], values.get("piece", 0), values.get("batch_in_piece", 0)),
            seconds=values["seconds"],
            rows=values["rows"],
            running_nll=values["running_nll"],
            running_tokens=values["running_tokens"],
            running_seconds=values.get("running_seconds", 0.0),  # absent in checkpoints of earlier releases
        )

    def to_dict(self) -> dict[str, Any]:
        """The values that a checkpoint stores."""
        return {
            "step": self.step,
            "epoch": self.position.epoch,
            "piece": self.position.piece,
            "batch_in_piece": self.position.batch,
            "seconds": self.seconds,
            "rows": self.rows,
            "running_nll": self.running_nll,
            "running_tokens": self.running_tokens,
            "running_seconds": self.running_seconds,
        }

    def count_time(self, seconds: float) -> None:
        """Count the duration of an update."""
        self.seconds += seconds
        self.running_seconds += seconds

    def count_loss(self, nll: float, num_tokens: int) -> None:
        """Count the negative log-likelihood of an update, in nats, and its target tokens."""
        self.running_nll += nll
        self.running_tokens += num_tokens

    def add_evaluation(self, learning_rate: float, scores: dict[str, float]) -> Row:
        """Store an evaluation, and start the sums since the last one again.

        Args:
            learning_rate: The rate of the last update.
            scores: What the model scores on held-out text.

        Returns:
            The evaluation.
        """
        row: Row = {
            "step": self.step,
            "epoch": round(self.epochs, 3),
            "minutes": round(self.seconds / 60, 2),
            "learning_rate": learning_rate,
            "train_loss": self.running_nll / self.running_tokens if self.running_tokens else None,
            "tokens_per_s": self.running_tokens / max(1e-9, self.running_seconds),
            **scores,
        }
        self.running_nll, self.running_tokens, self.running_seconds = 0.0, 0, 0.0
        self.rows.append(row)
        return row

    @property
    def last_is_best(self) -> bool:
        """Whether the last evaluation has a better BLEU than all earlier ones."""
        *earlier, last = map(_bleu, self.rows)
        return last > max(earlier, default=-1.0)

    def is_out_of_patience(self, patience: int) -> bool:
        """Whether BLEU did not improve over the last evaluations.

        Args:
            patience: Number of these evaluations; 0 for unlimited patience.
        """
        if not patience or len(self.rows) <= patience:
            return False
        scores = [_bleu(row) for row in self.rows]
        return max(scores[-patience:]) <= max(scores[:-patience])

    def write_curve(self, run_dir: Path) -> None:
        """Write the evaluations to ``curve.csv`` and ``curve.png``."""
        from model.plots import learning_curve  # matplotlib takes half a second to import

        with atomic_write(run_dir / CURVE) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as sink:
            writer = csv.DictWriter(sink, fieldnames=list(self.rows[-1]), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows)
        with atomic_write(run_dir / "curve.png") as unfinished:
            learning_curve(self.rows, unfinished)


def _bleu(row: Row) -> float:
    """The BLEU by which checkpoints are selected."""
    mean = mean_bleu(row)
    return -1.0 if mean is None else mean
