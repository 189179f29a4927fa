"""The training loop, with checkpoints to resume from, evaluations and an averaged model at the end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from model.artifacts.checkpoint import (
    Checkpoint,
    average_weights,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    untied_weights,
)
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError
from model.network.transformer import Transformer
from model.process.memory import give_back_freed_memory
from model.process.stop_signals import stop_request
from model.training.batches import PIECE
from model.training.corpus import spread
from model.training.distributed import ALONE, Processes
from model.training.evaluation import dev_scores
from model.training.prefetch import prefetch, prefetch_in_process
from model.training.progress import Progress
from model.training.run_setup import LAST, RunSetup, recorded_settings, set_up
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings
from model.training.update import Updater
from model.training.update_batches import UpdateBatches, update_batches

BEST = "best.pt"
"""The checkpoint with the best dev BLEU."""

AVERAGED = "averaged.pt"
"""The mean of the last checkpoints, written at the end of the run; the checkpoint to export."""

DEV_SAMPLE = 200
"""Held-out sentences stored in every checkpoint; exported bundles are compared with the eager model on them."""


def train(
    settings: TrainingSettings,
    data_dir: Path,
    run_dir: Path,
    *,
    tokenizer_dir: Path | None = None,
    init_from: Path | None = None,
    device: str = "cpu",
    processes: Processes = ALONE,
    show_progress: bool = True,
    stop_after_steps: int | None = None,
    report: Callable[[str], None] = print,
) -> Path:
    """Train a model, or resume an interrupted run.

    A run is a folder: ``last.pt`` to resume from, ``step-*.pt`` to average, ``best.pt``, ``averaged.pt`` at the end,
    ``curve.csv`` and ``curve.png``. If the run already has a checkpoint, training resumes from it with the same batches
    and dropout as without the interruption. Settings that have changed since then are reported.

    A run that is initialised from another model uses that model's architecture and vocabulary, and its curve starts
    with that model's scores.

    After SIGINT or SIGTERM the current update is finished and a checkpoint is written.

    Args:
        settings: The settings of the run.
        data_dir: Folder to which the corpora's paths are relative.
        run_dir: The run's folder; created if necessary.
        tokenizer_dir: Folder to which the setting ``tokenizer`` is relative.
        init_from: A checkpoint or bundle with the initial weights; not needed to resume a run.
        device: ``cpu`` or ``cuda``.
        processes: The processes that train the model together; this one alone by default. The first one evaluates,
            reports and writes all files.
        show_progress: Whether to draw a progress bar on stderr.
        stop_after_steps: Stop after this many updates of this call, with a checkpoint to resume from.
        report: Called with each line of progress messages.

    Returns:
        The checkpoint to export: the averaged one if the run has ended, the last one if it was stopped.

    Raises:
        ConfigError: The settings are impossible, or ask for another architecture, vocabulary, optimiser or initial
            model than the run in ``run_dir`` has.
        DataError: A corpus is unusable.
        ArtifactError: A checkpoint cannot be read or written; the last good checkpoint is intact.
        KeyboardInterrupt: A signal stopped the run, after a checkpoint was written.
    """
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if not processes.is_first:
        report, show_progress = _discard, False
    setup = set_up(settings, data_dir, run_dir, tokenizer_dir, init_from, processes, report)
    return _Run(settings, run_dir, setup, device, processes, report).train(show_progress, stop_after_steps)


def _discard(line: str) -> None:
    """Report nothing."""


@dataclass
class _Tally:
    """Sums over updates.

    Args:
        updates: Their number.
        nll: Negative log-likelihood, in nats.
        tokens: Target tokens.
        seconds: Their duration.
    """

    updates: int = 0
    nll: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def count(self, nll: float, tokens: int) -> None:
        """Count the loss of an update."""
        self.updates += 1
        self.nll += nll
        self.tokens += tokens


class _Run:
    """State of one training run between its updates."""

    def __init__(
        self,
        settings: TrainingSettings,
        run_dir: Path,
        setup: RunSetup,
        device: str,
        processes: Processes,
        report: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.run_dir = run_dir
        self.setup = setup
        self.device = device
        self.processes = processes
        self.report = report
        torch.manual_seed(settings.seed)
        self.transformer = Transformer(setup.model.config, setup.model.tokenizer.pad_id).to(device)
        if setup.initial:
            load_weights(self.transformer, setup.initial.weights)
            report(f"starting from {setup.initial.name}, SHA-256 {setup.initial.sha256}")
        self.updater = Updater(self.transformer, settings, processes)
        self.progress = Progress()
        self.since_save = _Tally()
        self.pending: tuple[int, Tensor] | None = None
        if setup.resumed:
            self._resume(setup.resumed)
        if not processes.is_first:
            # Dropout differs between processes. Checkpoints store the state of the first process only.
            torch.manual_seed(settings.seed + self.progress.step + 1_000_003 * processes.rank)
        num_parameters = sum(parameter.numel() for parameter in self.transformer.parameters())
        on_device = device if processes.size == 1 else f"{device}, {processes.size} processes"
        report(f"{num_parameters / 1e6:.2f} M parameters, {self.updater.amp_dtype or torch.float32} on {on_device}")

    def _resume(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a run."""
        load_weights(self.transformer, checkpoint.weights)
        progress = checkpoint.progress
        # Checkpoints of earlier releases contain AdamW's state only; those of scripts/shipped/train_gpu.py none.
        optimizers = progress["optimizers"] if "optimizers" in progress else {"adamw": progress["optimizer"]}
        if optimizers:
            self.updater.load_state(optimizers)
        else:
            self.report("the checkpoint has no state of the optimiser, whose averages begin again")
        self.progress = Progress.from_dict(progress)
        if "piece" not in progress:
            self.report("an earlier release wrote the checkpoint: its epoch begins again")
        torch.set_rng_state(progress["cpu_rng"])
        if self.device == "cuda" and progress["cuda_rng"] is not None:
            torch.cuda.set_rng_state(progress["cuda_rng"])
        self.report(f"resuming after update {self.progress.step}")

    def train(self, show_progress: bool, stop_after_steps: int | None) -> Path:
        """Train to the end, or for a limited number of updates."""
        settings, progress = self.settings, self.progress
        first_step, last_save = progress.step, time.monotonic()
        bar = tqdm(
            total=settings.max_steps, initial=progress.step, unit="step", disable=not show_progress, dynamic_ncols=True
        )
        if self.setup.model.origin and not progress.rows:
            self._evaluate()
        self.transformer.train()
        with bar, self._updates() as updates, stop_request() as request:
            while progress.step < settings.max_steps and not progress.is_out_of_patience(settings.patience):
                is_requested = self._update(updates, bar, request.is_made)
                evaluates = progress.step % settings.evaluate_every == 0 or progress.step == settings.max_steps
                stops = stop_after_steps is not None and progress.step - first_step >= stop_after_steps
                if evaluates or stops or is_requested or time.monotonic() - last_save > settings.save_every_s:
                    self._count_pending()
                    if evaluates:
                        self._evaluate()
                    self._save(LAST)
                    self._report_save()
                    last_save = time.monotonic()
                if is_requested:
                    self.report(f"stopped after update {progress.step}; the same command resumes there")
                    raise KeyboardInterrupt
                if stops:
                    return self.run_dir / LAST
        return self.processes.from_first(self._finish)

    @contextlib.contextmanager
    def _updates(self) -> Iterator[Iterator[UpdateBatches]]:
        """The batches of the following updates, made while earlier ones are used."""
        arguments = (self.setup.batches, self.progress.position, self.settings.accumulate, self.processes)
        # Planning little text takes less time than starting a process.
        in_process = self.setup.batches.num_examples > PIECE
        prefetched = (
            prefetch_in_process(update_batches, *arguments) if in_process else prefetch(update_batches(*arguments))
        )
        with prefetched as updates:
            yield updates if self.device == "cpu" else (update.pinned() for update in updates)

    def _report_save(self) -> None:
        """Report the updates since the last save and the time left."""
        step, max_steps = self.progress.step, self.settings.max_steps
        tally, self.since_save = self.since_save, _Tally()
        if tally.tokens:
            time_left = timedelta(seconds=round((max_steps - step) * tally.seconds / tally.updates))
            self.report(
                f"saved after update {step} of {max_steps}: loss {tally.nll / tally.tokens:.3f}, "
                f"{tally.tokens / tally.seconds:.0f} tokens/s, {time_left} left"
            )

    def _update(self, updates: Iterator[UpdateBatches], bar: tqdm[Any], stop: bool) -> bool:
        """Update the weights once, and show the loss of the previous update.

        Args:
            updates: The batches that follow.
            bar: The progress bar.
            stop: Whether this process received a signal to stop.

        Returns:
            Whether any process received one.
        """
        settings, progress = self.settings, self.progress
        start = time.monotonic()
        rate = learning_rate(
            progress.step,
            peak=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            cooldown_steps=settings.cooldown_steps,
            max_steps=settings.max_steps,
        )
        update = next(updates)
        progress.position, progress.epochs = update.position, update.epochs
        own_tokens = sum(batch.num_target_tokens for batch in update.batches)
        tokens, num_stopped = self.processes.sums(own_tokens, int(stop))
        nll = self.updater.update(update.batches, rate, tokens)
        progress.step += 1
        # The loss of the previous update is read while a GPU computes this one, so that neither waits.
        loss = self._count_pending()
        self.pending = (tokens, nll)
        elapsed = time.monotonic() - start
        progress.count_time(elapsed)
        self.since_save.seconds += elapsed
        bar.update()
        if loss is not None:
            bar.set_postfix_str(f"{tokens / elapsed:.0f} tok/s, loss {loss:.3f}", refresh=False)
        return num_stopped > 0

    def _count_pending(self) -> float | None:
        """Count the loss of the last update, and return it in nats per token; None if it is already counted.

        Raises:
            ArtifactError: The loss is not a finite number.
        """
        if self.pending is None:
            return None
        (tokens, nll), self.pending = self.pending, None
        total = float(nll)
        if not math.isfinite(total):
            raise ArtifactError(
                f"The loss is not finite after update {self.progress.step}: the run diverged. Lower learning_rate "
                f"(now {self.settings.learning_rate}) or lengthen warmup_steps; {LAST} is from before."
            )
        self.progress.count_loss(total, tokens)
        self.since_save.count(total, tokens)
        return total / max(tokens, 1)

    def _dev_scores(self) -> dict[str, float]:
        """Evaluate the model on the held-out text."""
        self.transformer.eval()
        return dev_scores(
            self.transformer,
            self.setup.model.tokenizer,
            self.setup.dev,
            self.settings.languages,
            self.settings.direction_pairs,
            DecodingPolicy.from_dict(self.setup.model.imported.get("decoding", {})),
        )

    def _evaluate(self) -> None:
        """Evaluate the model, and write checkpoints and the learning curve."""
        scores = self.processes.from_first(self._dev_scores)
        row = self.progress.add_evaluation(self.updater.rate, scores)
        self.transformer.train()
        if not self.processes.is_first:
            return
        self.report(", ".join(f"{key} {value:.4g}" for key, value in row.items() if value is not None))
        if self.progress.step:  # the initial model is not averaged
            self._save(f"step-{self.progress.step:07d}.pt", with_progress=False)
        for old in sorted(self.run_dir.glob("step-*.pt"))[: -self.settings.average]:
            old.unlink()
        if self.progress.last_is_best:
            self._save(BEST, with_progress=False)
        self.progress.write_curve(self.run_dir)
        give_back_freed_memory()

    def _facts(self) -> dict[str, Any]:
        return {
            "name": self.settings.name,
            "pairs": self.settings.direction_pairs,
            "licence": self.settings.licence,
            "attribution": list(self.settings.attribution),
            "settings": recorded_settings(self.settings, self.setup.model.origin),
            "step": self.progress.step,
            "epoch": self.progress.position.epoch,
            **self.setup.model.imported,
            # Stored with the weights, so that an export can be compared on any computer.
            "dev_sample": [list(pair) for pair in spread([*chain(*self.setup.dev.values())], DEV_SAMPLE)],
        }

    def _save(self, name: str, *, with_progress: bool = True) -> None:
        if not self.processes.is_first:
            return
        progress: dict[str, Any] = {}
        if with_progress:
            progress = {
                "optimizers": self.updater.state(),
                **self.progress.to_dict(),
                "cpu_rng": torch.get_rng_state(),
                "cuda_rng": torch.cuda.get_rng_state() if self.device == "cuda" else None,
            }
        save_checkpoint(self._checkpoint(self._facts(), progress), self.run_dir / name)

    def _checkpoint(self, facts: dict[str, Any], progress: dict[str, Any]) -> Checkpoint:
        model = self.setup.model
        return Checkpoint(model.config, untied_weights(self.transformer), model.tokenizer, facts, progress, model.files)

    def _finish(self) -> Path:
        """Average the last checkpoints and evaluate the mean."""
        paths = sorted(self.run_dir.glob("step-*.pt"))[-self.settings.average :]
        load_weights(self.transformer, average_weights([load_checkpoint(path).weights for path in paths]))
        scores = self._dev_scores()
        self.report(f"mean of {len(paths)} checkpoints: " + ", ".join(f"{k} {v:.4g}" for k, v in scores.items()))
        facts = {**self._facts(), "averaged_checkpoints": len(paths), "dev": scores}
        path = self.run_dir / AVERAGED
        save_checkpoint(self._checkpoint(facts, {}), path)
        return path
