"""The training run: batches in, checkpoints, a learning curve and an averaged model out."""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
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
from model.errors import ArtifactError, ConfigError
from model.network.transformer import Transformer
from model.process.memory import give_back_freed_memory
from model.scores import mean_bleu
from model.text.tokenizer import TextTokenizer, Tokenizer
from model.training.batches import Batch, BatchMaker, made_ahead
from model.training.controlled_pairs import ControlledPairs
from model.training.corpus import LoadedCorpus, load_dev_pairs, load_training_pairs, spread
from model.training.evaluation import dev_scores
from model.training.initial import IMPORTED, file_digest, fine_tuning_config, load_initial
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings
from model.training.update import Updater
from model.training.vocabulary import learn_vocabulary, write_vocabulary
from model.training.word_alignment import WordLexicon

LAST = "last.pt"
"""The checkpoint a run resumes from."""

BEST = "best.pt"
"""The checkpoint with the best dev BLEU."""

AVERAGED = "averaged.pt"
"""The mean of the last checkpoints, made when the run ends: the one to export."""

CURVE = "curve.csv"

LEXICON = "word-lexicon.json.gz"
"""Which words of the training text translate each other."""

ORIGIN = "initialised_from"
"""Beside the settings in checkpoints and manifests: name and SHA-256 of the model a run started from."""

_OF_VOCABULARY = ("languages", "vocab_size", "tokenizer", "tokenizer_kind", "separate_vocabularies")
"""Settings that nothing can be changed about once the vocabulary is made."""

DEV_SAMPLE = 200
"""Held-out sentences kept in every checkpoint; bundles are compared with the eager model on them."""


def train(
    settings: TrainingSettings,
    data_dir: Path,
    run_dir: Path,
    *,
    tokenizer_dir: Path | None = None,
    init_from: Path | None = None,
    device: str = "cpu",
    show_progress: bool = True,
    stop_after_steps: int | None = None,
    report: Callable[[str], None] = print,
) -> Path:
    """Train a model, or go on with a run that was interrupted.

    A run is a folder: ``last.pt`` to resume from, ``step-*.pt`` to average, ``best.pt``, ``averaged.pt`` at the
    end, ``curve.csv`` and ``curve.png``. Started again with the same settings it continues after the last
    checkpoint with the batches and the dropout it would have had; settings that are others by then are reported.

    A run that starts from another model takes over its architecture and vocabulary, and its curve begins with what
    that model scores.

    Args:
        settings: The run.
        data_dir: Folder the corpora's paths start from.
        run_dir: The run's folder; made if need be.
        tokenizer_dir: Folder a ``tokenizer`` named in the settings starts from.
        init_from: A checkpoint or a bundle whose weights to start from; a run that is resumed does not need it again.
        device: ``cpu`` or ``cuda``.
        show_progress: Draw a progress bar on stderr.
        stop_after_steps: End early, after this many updates of this call, with a checkpoint to resume from.
        report: Takes a line of news now and then.

    Returns:
        The checkpoint to export: averaged when the run ended, the last one when it was stopped early.

    Raises:
        ConfigError: The settings cannot be met, or ask for another architecture, vocabulary, optimiser or origin than
            the run in ``run_dir`` has.
        DataError: A corpus is unusable.
        ArtifactError: A checkpoint cannot be read or written; the last good one is intact.
    """
    if settings.threads:
        torch.set_num_threads(settings.threads)
    run = _Run(settings, data_dir, run_dir, tokenizer_dir, init_from, device, report)
    return run.go(show_progress, stop_after_steps)


@dataclass(frozen=True)
class _Place:
    """A batch, and how far the run is after it.

    Args:
        epoch: Of the batch.
        number: Batches of this epoch trained on, this one included.
        epochs: Passes over the text, this batch included.
        batch: The batch.
    """

    epoch: int
    number: int
    epochs: float
    batch: Batch


class _Run:
    """State of one training run between its updates."""

    def __init__(
        self,
        settings: TrainingSettings,
        data_dir: Path,
        run_dir: Path,
        tokenizer_dir: Path | None,
        init_from: Path | None,
        device: str,
        report: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.run_dir = run_dir
        self.device = device
        self.report = report
        run_dir.mkdir(parents=True, exist_ok=True)
        corpora, left_out = load_training_pairs(data_dir, settings.train, settings.languages)
        self.dev = {
            name: spread(pairs, settings.dev_sentences)
            for name, pairs in load_dev_pairs(data_dir, settings.dev, settings.languages, corpora).items()
        }
        resumed = load_checkpoint(run_dir / LAST) if (run_dir / LAST).exists() else None
        initial = load_initial(init_from) if init_from and not resumed else None
        self.origin: dict[str, str] | None = initial.origin if initial else None
        if resumed:
            self.origin = resumed.facts["settings"].get(ORIGIN)
            _check_origin(run_dir, self.origin, init_from)
        known = resumed or initial
        self.tokenizer: TextTokenizer
        self.files: dict[str, bytes] | None = None
        self.imported: dict[str, Any] = {}
        if known and self.origin:
            self.tokenizer, self.files = known.tokenizer, known.files
            self.imported = {key: known.facts[key] for key in IMPORTED if key in known.facts}
            directions = initial.directions if initial else None
            self.config = fine_tuning_config(settings, known.config, known.tokenizer, directions)
        else:
            own = resumed.own_tokenizer if resumed else self._make_tokenizer(corpora, tokenizer_dir)
            self.tokenizer = own
            self.config = settings.model_config(own.vocab_size, own.target_vocab_size)
        self.batches = BatchMaker(
            corpora,
            settings.languages,
            settings.direction_pairs,
            self.tokenizer,
            batch_tokens=settings.batch_tokens,
            max_tokens=settings.max_tokens_per_sentence,
            seed=settings.seed,
            subword_sampling=settings.subword_sampling,
            target_subword_sampling=settings.target_subword_sampling,
            augmentation=settings.augment,
            controlled=self._controlled_pairs(corpora),
        )
        num_pairs = sum(len(corpus.pairs) for corpus in corpora)
        report(
            f"{num_pairs} pairs, {self.batches.num_examples} examples in {len(settings.pairs)} directions; left out "
            f"{left_out}, too long {self.batches.num_too_long}"
        )
        torch.manual_seed(settings.seed)
        self.transformer = Transformer(self.config, self.tokenizer.pad_id).to(device)
        if initial:
            load_weights(self.transformer, initial.weights)
            report(f"starting from {initial.name}, SHA-256 {initial.sha256}")
        self.updater = Updater(self.transformer, settings)
        self.step = 0
        self.epoch = 0
        self.batch_in_epoch = 0
        self.epochs = 0.0
        self.seconds = 0.0
        self.rows: list[dict[str, float | None]] = []
        self.running_nll = 0.0
        self.running_tokens = 0
        self.running_seconds = 0.0
        self.pending: tuple[int, Tensor] | None = None
        if resumed:
            self._resume(resumed)
        num_parameters = sum(parameter.numel() for parameter in self.transformer.parameters())
        report(f"{num_parameters / 1e6:.2f} M parameters, {self.updater.amp_dtype or torch.float32} on {device}")

    def _make_tokenizer(self, corpora: list[LoadedCorpus], tokenizer_dir: Path | None) -> Tokenizer:
        if self.settings.tokenizer:
            return Tokenizer.load((tokenizer_dir or Path()) / self.settings.tokenizer)
        tokenizer = learn_vocabulary(self.settings, corpora)
        write_vocabulary(tokenizer, self.run_dir)
        return tokenizer

    def _controlled_pairs(self, corpora: Sequence[LoadedCorpus]) -> ControlledPairs | None:
        """What makes pairs that tell the model something, if the settings ask for it."""
        controls, languages = self.settings.controls, self.settings.languages
        if not controls.changes_pairs:
            return None
        # Words are aligned in text that people translated.
        pairs = [pair for corpus in corpora if corpus.tag is None for pair in corpus.pairs]
        return ControlledPairs(controls, WordLexicon.load_or_learn(self.run_dir / LEXICON, pairs), languages)

    def _resume(self, checkpoint: Checkpoint) -> None:
        if checkpoint.config != self.config:
            raise ConfigError(
                f"{self.run_dir} holds a run of another architecture; give this configuration a folder of its own."
            )
        for name, (before, now) in self._changes(checkpoint).items():
            if name in _OF_VOCABULARY and not self.origin:
                raise ConfigError(
                    f"{name} is {now!r}, but {self.run_dir} holds a run that began with {before!r} and has its "
                    "vocabulary; set it back, or give this configuration a folder of its own."
                )
            self.report(f"{name} was {before!r} and is {now!r} from here on")
        load_weights(self.transformer, checkpoint.weights)
        progress = checkpoint.progress
        # Runs begun before there was a choice hold AdamW's state alone.
        self.updater.load_state(
            progress["optimizers"] if "optimizers" in progress else {"adamw": progress["optimizer"]}
        )
        self.step = progress["step"]
        self.epoch = progress["epoch"]
        self.batch_in_epoch = progress["batch_in_epoch"]
        self.seconds = progress["seconds"]
        self.rows = progress["rows"]
        self.running_nll = progress["running_nll"]
        self.running_tokens = progress["running_tokens"]
        self.running_seconds = progress.get("running_seconds", 0.0)
        torch.set_rng_state(progress["cpu_rng"])
        if self.device == "cuda" and progress["cuda_rng"] is not None:
            torch.cuda.set_rng_state(progress["cuda_rng"])
        self.report(f"going on after update {self.step}")

    def _changes(self, checkpoint: Checkpoint) -> dict[str, tuple[Any, Any]]:
        """Settings that were others when a checkpoint was written: (before, now) by name."""
        before, now = checkpoint.facts["settings"], self._told()
        return {name: (before[name], now[name]) for name in now if name in before and before[name] != now[name]}

    def go(self, show_progress: bool, stop_after_steps: int | None) -> Path:
        """Train to the end, or to where the caller wants a pause."""
        settings = self.settings
        started_step, since_save = self.step, time.monotonic()
        bar = tqdm(
            total=settings.max_steps, initial=self.step, unit="step", disable=not show_progress, dynamic_ncols=True
        )
        if self.origin and not self.rows:
            self._evaluate()
        self.transformer.train()
        with bar, made_ahead(self._batches()) as batches:
            while self.step < settings.max_steps and not self._out_of_patience():
                self._update(batches, bar)
                evaluates = self.step % settings.evaluate_every == 0 or self.step == settings.max_steps
                stops = stop_after_steps is not None and self.step - started_step >= stop_after_steps
                if evaluates or stops or time.monotonic() - since_save > settings.save_every_s:
                    self._take_in()
                    if evaluates:
                        self._evaluate()
                    self._save(LAST)
                    since_save = time.monotonic()
                if stops:
                    return self.run_dir / LAST
        return self._finish()

    def _batches(self) -> Generator[_Place]:
        """Batches from where the run is, each with the place after it."""
        epoch, number = self.epoch, self.batch_in_epoch
        while True:
            for batch in self.batches.epoch(epoch, skip=number):
                number += 1
                epochs = epoch + number / self.batches.num_batches
                yield _Place(epoch, number, epochs, batch.pinned() if self.device != "cpu" else batch)
            epoch, number = epoch + 1, 0

    def _update(self, batches: Iterator[_Place], bar: tqdm[Any]) -> None:
        """One update of the weights, and the news of the one before."""
        settings = self.settings
        began = time.monotonic()
        rate = learning_rate(
            self.step,
            peak=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            cooldown_steps=settings.cooldown_steps,
            max_steps=settings.max_steps,
        )
        places = [next(batches) for _ in range(settings.accumulate)]
        self.epoch, self.batch_in_epoch, self.epochs = places[-1].epoch, places[-1].number, places[-1].epochs
        nll = self.updater.update([place.batch for place in places], rate)
        self.step += 1
        tokens = sum(place.batch.num_target_tokens for place in places)
        # A GPU works on this update while the one before is read: nobody waits for it.
        loss = self._take_in()
        self.pending = (tokens, nll)
        elapsed = time.monotonic() - began
        self.seconds += elapsed
        self.running_seconds += elapsed
        bar.update()
        bar.set_postfix_str(f"{tokens / elapsed:.0f} tok/s, loss {loss:.3f}", refresh=False)

    def _take_in(self) -> float:
        """Count the last update; returns its loss in nats a token.

        Raises:
            ArtifactError: It was not a number.
        """
        if self.pending is None:
            return math.nan
        (tokens, nll), self.pending = self.pending, None
        total = float(nll)
        if not math.isfinite(total):
            raise ArtifactError(
                f"The loss is not a number after update {self.step}: the run diverged. Lower learning_rate (now "
                f"{self.settings.learning_rate}) or lengthen warmup_steps; {LAST} is from before."
            )
        self.running_nll += total
        self.running_tokens += tokens
        return total / max(tokens, 1)

    def _evaluate(self) -> None:
        self.transformer.eval()
        row: dict[str, float | None] = {
            "step": self.step,
            "epoch": round(self.epochs, 3),
            "minutes": round(self.seconds / 60, 2),
            "learning_rate": self.updater.rate,
            "train_loss": self.running_nll / self.running_tokens if self.running_tokens else None,
            "tokens_per_s": self.running_tokens / max(1e-9, self.running_seconds),
        }
        row.update(
            dev_scores(
                self.transformer,
                self.tokenizer,
                self.dev,
                self.settings.languages,
                self.settings.direction_pairs,
                DecodingPolicy.from_dict(self.imported.get("decoding", {})),
            )
        )
        self.running_nll, self.running_tokens, self.running_seconds = 0.0, 0, 0.0
        previous_best = max((_mean_bleu(earlier) for earlier in self.rows), default=-1.0)
        self.rows.append(row)
        self.transformer.train()
        self.report(", ".join(f"{key} {value:.4g}" for key, value in row.items() if value is not None))
        if self.step:  # what a run starts from is no part of its mean
            self._save(f"step-{self.step:07d}.pt", with_progress=False)
        for old in sorted(self.run_dir.glob("step-*.pt"))[: -self.settings.average]:
            old.unlink()
        if _mean_bleu(row) > previous_best:
            self._save(BEST, with_progress=False)
        self._write_curve()
        give_back_freed_memory()

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

    def _told(self) -> dict[str, Any]:
        """The settings, and the model the run started from, as checkpoints hold them."""
        # Through JSON, so that the file holds plain lists and numbers and nothing that needs unpickling.
        told: dict[str, Any] = json.loads(
            json.dumps({**self.settings.to_dict(), **({ORIGIN: self.origin} if self.origin else {})})
        )
        return told

    def _facts(self) -> dict[str, Any]:
        return {
            "name": self.settings.name,
            "pairs": self.settings.direction_pairs,
            "licence": self.settings.licence,
            "attribution": list(self.settings.attribution),
            "settings": self._told(),
            "step": self.step,
            "epoch": self.epoch,
            **self.imported,
            # Travels with the weights, so that an export can be compared anywhere.
            "dev_sample": [list(pair) for pair in spread([*chain(*self.dev.values())], DEV_SAMPLE)],
        }

    def _save(self, name: str, *, with_progress: bool = True) -> None:
        progress: dict[str, Any] = {}
        if with_progress:
            progress = {
                "optimizers": self.updater.state(),
                "step": self.step,
                "epoch": self.epoch,
                "batch_in_epoch": self.batch_in_epoch,
                "seconds": self.seconds,
                "rows": self.rows,
                "running_nll": self.running_nll,
                "running_tokens": self.running_tokens,
                "running_seconds": self.running_seconds,
                "cpu_rng": torch.get_rng_state(),
                "cuda_rng": torch.cuda.get_rng_state() if self.device == "cuda" else None,
            }
        save_checkpoint(self._checkpoint(self._facts(), progress), self.run_dir / name)

    def _checkpoint(self, facts: dict[str, Any], progress: dict[str, Any]) -> Checkpoint:
        return Checkpoint(self.config, untied_weights(self.transformer), self.tokenizer, facts, progress, self.files)

    def _finish(self) -> Path:
        """Average the last checkpoints and see what the mean is worth."""
        parts = [load_checkpoint(path) for path in sorted(self.run_dir.glob("step-*.pt"))[-self.settings.average :]]
        load_weights(self.transformer, average_weights([part.weights for part in parts]))
        self.transformer.eval()
        scores = dev_scores(
            self.transformer,
            self.tokenizer,
            self.dev,
            self.settings.languages,
            self.settings.direction_pairs,
            DecodingPolicy.from_dict(self.imported.get("decoding", {})),
        )
        self.report(f"mean of {len(parts)} checkpoints: " + ", ".join(f"{k} {v:.4g}" for k, v in scores.items()))
        facts = {**self._facts(), "averaged_checkpoints": len(parts), "dev": scores}
        path = self.run_dir / AVERAGED
        save_checkpoint(self._checkpoint(facts, {}), path)
        return path


def _mean_bleu(row: dict[str, float | None]) -> float:
    """The BLEU that checkpoints are chosen by."""
    mean = mean_bleu(row)
    return -1.0 if mean is None else mean


def _check_origin(run_dir: Path, origin: dict[str, str] | None, init_from: Path | None) -> None:
    """Refuse to resume a run as if it had begun with other weights; the file itself may be gone by now."""
    if init_from is None or (origin and not init_from.exists()):
        return
    if origin is None:
        raise ConfigError(
            f"{run_dir} holds a run that began with random weights, and --init-from names {init_from}; give the new "
            "run a folder of its own."
        )
    if file_digest(init_from) != origin["sha256"]:
        raise ConfigError(
            f"{run_dir} holds a run that began with {origin['name']} of SHA-256 {origin['sha256']}, and {init_from} is "
            "another file; give the new run a folder of its own."
        )
