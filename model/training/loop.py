"""The training run: batches in, checkpoints, a learning curve and an averaged model out."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from model.errors import ArtifactError, ConfigError
from model.tokenizer import PAD_ID, Tokenizer, learn_tokenizer
from model.training.batches import Batch, BatchMaker
from model.training.checkpoint import (
    Checkpoint,
    average_weights,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    untied_weights,
)
from model.training.corpus import Pair, load_training_pairs, read_parallel
from model.training.evaluation import dev_scores
from model.training.loss import label_smoothed_loss
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings
from model.transformer import Transformer

LAST = "last.pt"
"""The checkpoint a run resumes from."""

BEST = "best.pt"
"""The checkpoint with the best dev BLEU."""

AVERAGED = "averaged.pt"
"""The mean of the last checkpoints, made when the run ends: the one to export."""

CURVE = "curve.csv"

DEV_SAMPLE = 200
"""Held-out sentences kept in every checkpoint; bundles are compared with the eager model on them."""


def train(
    settings: TrainingSettings,
    data_dir: Path,
    run_dir: Path,
    *,
    tokenizer_dir: Path | None = None,
    device: str = "cpu",
    show_progress: bool = True,
    stop_after_steps: int | None = None,
    report: Callable[[str], None] = print,
) -> Path:
    """Train a model, or go on with a run that was interrupted.

    A run is a folder: ``last.pt`` to resume from, ``step-*.pt`` to average, ``best.pt``, ``averaged.pt`` at the
    end, ``curve.csv`` and ``curve.png``. Started again with the same settings it continues after the last
    checkpoint with the batches and the dropout it would have had.

    Args:
        settings: The run.
        data_dir: Folder the corpora's paths start from.
        run_dir: The run's folder; made if need be.
        tokenizer_dir: Folder a ``tokenizer`` named in the settings starts from.
        device: ``cpu`` or ``cuda``.
        show_progress: Draw a progress bar on stderr.
        stop_after_steps: End early, after this many updates of this call, with a checkpoint to resume from.
        report: Takes a line of news now and then.

    Returns:
        The checkpoint to export: averaged when the run ended, the last one when it was stopped early.

    Raises:
        ConfigError: The settings cannot be met, or belong to another run than the one in ``run_dir``.
        DataError: A corpus is unusable.
        ArtifactError: A checkpoint cannot be read or written; the last good one is intact.
    """
    if settings.threads:
        torch.set_num_threads(settings.threads)
    run = _Run(settings, data_dir, run_dir, tokenizer_dir, device, report)
    return run.go(show_progress, stop_after_steps)


class _Run:
    """State of one training run between its updates."""

    def __init__(
        self,
        settings: TrainingSettings,
        data_dir: Path,
        run_dir: Path,
        tokenizer_dir: Path | None,
        device: str,
        report: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.run_dir = run_dir
        self.device = device
        self.report = report
        run_dir.mkdir(parents=True, exist_ok=True)
        pairs, left_out = load_training_pairs(data_dir, settings.train, settings.languages)
        self.dev = read_parallel(data_dir / settings.dev, settings.languages)[: settings.dev_sentences]
        resumed = load_checkpoint(run_dir / LAST) if (run_dir / LAST).exists() else None
        self.tokenizer = resumed.tokenizer if resumed else self._make_tokenizer(pairs, tokenizer_dir)
        self.batches = BatchMaker(
            pairs,
            settings.languages,
            settings.direction_pairs,
            self.tokenizer,
            batch_tokens=settings.batch_tokens,
            max_tokens=settings.max_tokens_per_sentence,
            seed=settings.seed,
            subword_sampling=settings.subword_sampling,
            lowercase_share=settings.lowercase_share,
        )
        report(
            f"{len(pairs)} pairs, {self.batches.num_examples} examples in {len(settings.pairs)} directions; left out "
            f"{left_out}, too long {self.batches.num_too_long}"
        )
        torch.manual_seed(settings.seed)
        self.config = settings.model_config(self.tokenizer.vocab_size)
        self.transformer = Transformer(self.config, PAD_ID).to(device)
        self.optimizer = torch.optim.AdamW(
            self.transformer.parameters(),
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=1e-9,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.step = 0
        self.epoch = 0
        self.batch_in_epoch = 0
        self.seconds = 0.0
        self.rows: list[dict[str, float | None]] = []
        self.running_nll = 0.0
        self.running_tokens = 0
        if resumed:
            self._resume(resumed)
        num_parameters = sum(parameter.numel() for parameter in self.transformer.parameters())
        report(f"{num_parameters / 1e6:.2f} M parameters, {self.amp_dtype or torch.float32} on {device}")

    def _make_tokenizer(self, pairs: list[Pair], tokenizer_dir: Path | None) -> Tokenizer:
        if self.settings.tokenizer:
            return Tokenizer.load((tokenizer_dir or Path()) / self.settings.tokenizer)
        # Only the languages a source can ask for get a marker.
        targets = sorted({target for _, target in self.settings.direction_pairs})
        tokenizer = learn_tokenizer(
            (side for pair in pairs for side in pair), self.settings.vocab_size, targets, seed=self.settings.seed
        )
        (self.run_dir / "tokenizer.model").write_bytes(tokenizer.model_proto)
        return tokenizer

    @property
    def amp_dtype(self) -> torch.dtype | None:
        """What matrix products compute in; None leaves them in float32."""
        if self.settings.precision == "float32":
            return None
        if self.settings.precision == "bfloat16":
            return torch.bfloat16
        native = torch.cuda.is_bf16_supported() if self.device == "cuda" else _cpu_has_bfloat16()
        return torch.bfloat16 if native else None

    def _resume(self, checkpoint: Checkpoint) -> None:
        if checkpoint.config != self.config:
            raise ConfigError(
                f"{self.run_dir} holds a run of another architecture; give this configuration a folder of its own."
            )
        load_weights(self.transformer, checkpoint.weights)
        progress = checkpoint.progress
        self.optimizer.load_state_dict(progress["optimizer"])
        self.step = progress["step"]
        self.epoch = progress["epoch"]
        self.batch_in_epoch = progress["batch_in_epoch"]
        self.seconds = progress["seconds"]
        self.rows = progress["rows"]
        self.running_nll = progress["running_nll"]
        self.running_tokens = progress["running_tokens"]
        torch.set_rng_state(progress["cpu_rng"])
        if self.device == "cuda" and progress["cuda_rng"] is not None:
            torch.cuda.set_rng_state(progress["cuda_rng"])
        self.report(f"going on after update {self.step}")

    def go(self, show_progress: bool, stop_after_steps: int | None) -> Path:
        """Train to the end, or to where the caller wants a pause."""
        settings = self.settings
        started_step, since_save = self.step, time.monotonic()
        batches = self._batches()
        bar = tqdm(
            total=settings.max_steps, initial=self.step, unit="step", disable=not show_progress, dynamic_ncols=True
        )
        self.transformer.train()
        while self.step < settings.max_steps and not self._out_of_patience():
            began = time.monotonic()
            tokens, nll = self._update(batches)
            elapsed = time.monotonic() - began
            self.seconds += elapsed
            self.running_nll += nll
            self.running_tokens += tokens
            bar.update()
            bar.set_postfix_str(f"{tokens / elapsed:.0f} tok/s, loss {nll / max(tokens, 1):.3f}", refresh=False)
            if self.step % settings.evaluate_every == 0 or self.step == settings.max_steps:
                self._evaluate()
                self._save(LAST)
                since_save = time.monotonic()
            elif time.monotonic() - since_save > settings.save_every_s:
                self._save(LAST)
                since_save = time.monotonic()
            if stop_after_steps is not None and self.step - started_step >= stop_after_steps:
                self._save(LAST)
                bar.close()
                return self.run_dir / LAST
        bar.close()
        return self._finish()

    def _batches(self) -> Iterator[Batch]:
        while True:
            for batch in self.batches.epoch(self.epoch, skip=self.batch_in_epoch):
                self.batch_in_epoch += 1
                yield batch
            self.epoch += 1
            self.batch_in_epoch = 0

    def _update(self, batches: Iterator[Batch]) -> tuple[int, float]:
        """One update of the weights; returns its target tokens and the sum of their negative log-likelihood."""
        settings = self.settings
        rate = learning_rate(
            self.step,
            peak=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            cooldown_steps=settings.cooldown_steps,
            max_steps=settings.max_steps,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        parts = [next(batches) for _ in range(settings.accumulate)]
        num_tokens = sum(part.num_target_tokens for part in parts)
        nll = torch.zeros((), device=self.device)
        for part in parts:
            loss, part_nll = self._loss(part)
            (loss / num_tokens).backward()
            nll += part_nll
        torch.nn.utils.clip_grad_norm_(self.transformer.parameters(), settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        total = float(nll)
        if not math.isfinite(total):
            raise ArtifactError(
                f"The loss of update {self.step} is not a number: the run diverged. Lower learning_rate (now "
                f"{settings.learning_rate}) or lengthen warmup_steps; {LAST} is from before."
            )
        return num_tokens, total

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        source = batch.source.to(self.device, non_blocking=True)
        target = batch.target.to(self.device, non_blocking=True)
        dtype = self.amp_dtype
        with torch.autocast(self.device, dtype) if dtype else contextlib.nullcontext():
            hidden = self.transformer.hidden(source, target[:, :-1])
        right = target[:, 1:]
        counts = right != PAD_ID
        rows = hidden[counts]
        return label_smoothed_loss(
            rows.to(dtype) if dtype else rows,
            self.transformer.output.weight,
            self.transformer.output.bias,
            right[counts],
            self.settings.label_smoothing,
        )

    def _evaluate(self) -> None:
        self.transformer.eval()
        row: dict[str, float | None] = {
            "step": self.step,
            "epoch": round(self.epoch + self.batch_in_epoch / max(1, self._batches_per_epoch()), 3),
            "minutes": round(self.seconds / 60, 2),
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "train_loss": self.running_nll / max(1, self.running_tokens),
            "tokens_per_s": self.running_tokens / max(1e-9, self.seconds - self._seconds_at_last_row()),
        }
        row.update(
            dev_scores(
                self.transformer, self.tokenizer, self.dev, self.settings.languages, self.settings.direction_pairs
            )
        )
        self.running_nll, self.running_tokens = 0.0, 0
        previous_best = max((_mean_bleu(earlier) for earlier in self.rows), default=-1.0)
        self.rows.append(row)
        self.transformer.train()
        self.report(", ".join(f"{key} {value:.4g}" for key, value in row.items() if value is not None))
        self._save(f"step-{self.step:07d}.pt", with_progress=False)
        for old in sorted(self.run_dir.glob("step-*.pt"))[: -self.settings.average]:
            old.unlink()
        if _mean_bleu(row) > previous_best:
            self._save(BEST, with_progress=False)
        self._write_curve()

    def _seconds_at_last_row(self) -> float:
        return float(self.rows[-1]["minutes"] or 0) * 60 if self.rows else 0.0

    def _batches_per_epoch(self) -> int:
        return max(1, round(self.step * self.settings.accumulate / max(1e-9, self.epoch))) if self.epoch else 10**9

    def _out_of_patience(self) -> bool:
        if not self.settings.patience or len(self.rows) <= self.settings.patience:
            return False
        scores = [_mean_bleu(row) for row in self.rows]
        return max(scores[-self.settings.patience :]) <= max(scores[: -self.settings.patience])

    def _write_curve(self) -> None:
        from model.plots import learning_curve  # matplotlib takes half a second to import

        unfinished = self.run_dir / (CURVE + ".unfinished")
        with unfinished.open("w", newline="", encoding="utf-8") as sink:
            writer = csv.DictWriter(sink, fieldnames=list(self.rows[-1]), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows)
        unfinished.replace(self.run_dir / CURVE)
        learning_curve(self.rows, self.run_dir / "curve.png")

    def _facts(self) -> dict[str, Any]:
        return {
            "name": self.settings.name,
            "pairs": self.settings.direction_pairs,
            "licence": self.settings.licence,
            "attribution": list(self.settings.attribution),
            # Through JSON, so that the file holds plain lists and numbers and nothing that needs unpickling.
            "settings": json.loads(json.dumps(self.settings.to_dict())),
            "step": self.step,
            "epoch": self.epoch,
            # Travels with the weights, so that an export can be compared anywhere.
            "dev_sample": [list(pair) for pair in self.dev[:DEV_SAMPLE]],
        }

    def _save(self, name: str, *, with_progress: bool = True) -> None:
        progress: dict[str, Any] = {}
        if with_progress:
            progress = {
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "epoch": self.epoch,
                "batch_in_epoch": self.batch_in_epoch,
                "seconds": self.seconds,
                "rows": self.rows,
                "running_nll": self.running_nll,
                "running_tokens": self.running_tokens,
                "cpu_rng": torch.get_rng_state(),
                "cuda_rng": torch.cuda.get_rng_state() if self.device == "cuda" else None,
            }
        save_checkpoint(
            Checkpoint(self.config, untied_weights(self.transformer), self.tokenizer, self._facts(), progress),
            self.run_dir / name,
        )

    def _finish(self) -> Path:
        """Average the last checkpoints and see what the mean is worth."""
        parts = [load_checkpoint(path) for path in sorted(self.run_dir.glob("step-*.pt"))[-self.settings.average :]]
        load_weights(self.transformer, average_weights([part.weights for part in parts]))
        self.transformer.eval()
        scores = dev_scores(
            self.transformer, self.tokenizer, self.dev, self.settings.languages, self.settings.direction_pairs
        )
        self.report(f"mean of {len(parts)} checkpoints: " + ", ".join(f"{k} {v:.4g}" for k, v in scores.items()))
        facts = {**self._facts(), "averaged_checkpoints": len(parts), "dev": scores}
        path = self.run_dir / AVERAGED
        save_checkpoint(Checkpoint(self.config, untied_weights(self.transformer), self.tokenizer, facts, {}), path)
        return path


def _mean_bleu(row: dict[str, float | None]) -> float:
    scores = [value for key, value in row.items() if key.startswith("bleu") and value is not None]
    return sum(scores) / len(scores) if scores else -float(row["dev_loss"] or 0.0)


def _cpu_has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 in hardware; emulated it is slower than float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(supported and supported())
