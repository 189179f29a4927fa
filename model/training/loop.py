"""The training loop, with checkpoints to resume from, evaluations and an averaged model at the end."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
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
from model.errors import ArtifactError, ConfigError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.process.memory import give_back_freed_memory
from model.process.stop_signals import stop_request
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.training.batches import PIECE, BatchMaker
from model.training.controlled_pairs import ControlledPairs
from model.training.corpus import LoadedCorpus, load_dev_pairs, load_training_pairs, spread
from model.training.distributed import ALONE, Processes
from model.training.evaluation import dev_scores
from model.training.initial import IMPORTED, Initial, check_origin, fine_tuning_config, load_initial, with_vocabulary
from model.training.prefetch import prefetch, prefetch_in_process
from model.training.progress import Progress
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings
from model.training.update import Updater
from model.training.update_batches import UpdateBatches, update_batches
from model.training.vocabulary import learn_vocabulary, write_vocabulary
from model.training.word_lexicon import WordLexicon

LAST = "last.pt"
"""The checkpoint from which a run resumes."""

BEST = "best.pt"
"""The checkpoint with the best dev BLEU."""

AVERAGED = "averaged.pt"
"""The mean of the last checkpoints, written at the end of the run; the checkpoint to export."""

LEXICON = "word-lexicon.json.gz"
"""Which words of the training text translate each other."""

ENCODED = "encoded"
"""Folder with the token ids of the training text, so that a resumed run need not make them again."""

ORIGIN = "initialised_from"
"""Key in the settings of checkpoints and manifests: name and SHA-256 of the model a run was initialised from."""

_VOCABULARY_SETTINGS = ("languages", "vocab_size", "tokenizer", "tokenizer_kind", "separate_vocabularies")
"""Settings that cannot be changed once the vocabulary exists."""

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
    run = _Run(settings, data_dir, run_dir, tokenizer_dir, init_from, device, processes, report)
    return run.go(show_progress, stop_after_steps)


def _discard(line: str) -> None:
    """Reports nothing."""


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
        data_dir: Path,
        run_dir: Path,
        tokenizer_dir: Path | None,
        init_from: Path | None,
        device: str,
        processes: Processes,
        report: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.run_dir = run_dir
        self.device = device
        self.processes = processes
        self.report = report
        run_dir.mkdir(parents=True, exist_ok=True)
        self.tokenizer: Tokenizer
        self.config: ModelConfig
        self.files: dict[str, bytes] | None = None
        self.imported: dict[str, Any] = {}
        self.origin: dict[str, str] | None = None
        # An impossible run is refused before the text is read, which takes longer.
        resumed = load_checkpoint(run_dir / LAST) if (run_dir / LAST).exists() else None
        initial = None
        if resumed:
            self.origin = resumed.facts["settings"].get(ORIGIN)
            check_origin(run_dir, self.origin, init_from)
            self._take_model(resumed)
            self._check_resumed(resumed)
        elif init_from:
            initial = load_initial(init_from)
            if settings.tokenizer:
                initial = with_vocabulary(initial, VersoTokenizer.load((tokenizer_dir or Path()) / settings.tokenizer))
            self.origin = initial.origin
            self._take_model(initial)
        report("reading the training text")
        corpora, left_out = load_training_pairs(data_dir, settings.train, settings.languages)
        self.dev = {
            name: spread(pairs, settings.dev_sentences)
            for name, pairs in load_dev_pairs(data_dir, settings.dev, settings.languages, corpora).items()
        }
        if not resumed and not initial:
            own = self._make_tokenizer(corpora, tokenizer_dir)
            self.tokenizer = own
            self.config = settings.model_config(own.vocab_size, own.target_vocab_size)
        self.batches = self._make_batches(corpora)
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
        self.updater = Updater(self.transformer, settings, processes)
        self.progress = Progress()
        self.since_save = _Tally()
        self.pending: tuple[int, Tensor] | None = None
        if resumed:
            self._resume(resumed)
        if not processes.is_first:
            # Dropout differs between processes. Checkpoints hold the state of the first process only.
            torch.manual_seed(settings.seed + self.progress.step + 1_000_003 * processes.rank)
        num_parameters = sum(parameter.numel() for parameter in self.transformer.parameters())
        where = device if processes.size == 1 else f"{device}, {processes.size} processes"
        report(f"{num_parameters / 1e6:.2f} M parameters, {self.updater.amp_dtype or torch.float32} on {where}")

    def _take_model(self, known: Checkpoint | Initial) -> None:
        """Set architecture and tokenizer, and the files and metadata of an imported model."""
        if self.origin:
            self.tokenizer, self.files = known.tokenizer, known.files
            self.imported = {key: known.facts[key] for key in IMPORTED if key in known.facts}
            directions = known.directions if isinstance(known, Initial) else None
            self.config = fine_tuning_config(self.settings, known.config, known.tokenizer, directions)
        else:
            assert isinstance(known, Checkpoint)
            own = known.own_tokenizer
            self.tokenizer = own
            self.config = self.settings.model_config(own.vocab_size, own.target_vocab_size)

    def _check_resumed(self, checkpoint: Checkpoint) -> None:
        """Check that the run can continue with these settings; reports settings that have changed.

        Raises:
            ConfigError: It cannot; names what differs.
        """
        before, now = checkpoint.config.to_dict(), self.config.to_dict()
        different = [f"{name} {before[name]!r}, not {now[name]!r}" for name in now if now[name] != before[name]]
        if different:
            raise ConfigError(
                f"{self.run_dir} holds a run of another architecture, with {', '.join(different)}; set it back, or "
                "give this configuration a folder of its own."
            )
        changes = self._changes(checkpoint)
        for name, (old, new) in changes.items():
            if name in _VOCABULARY_SETTINGS and (name == "tokenizer" or not self.origin):
                raise ConfigError(
                    f"{name} is {new!r}, but {self.run_dir} holds a run that began with {old!r} and has its "
                    "vocabulary; set it back, or give this configuration a folder of its own."
                )
            if name == "optimizer":
                raise ConfigError(
                    f"optimizer is {new!r}, but {self.run_dir} holds a run that was trained with {old!r}; set it back, "
                    "or give this configuration a folder of its own."
                )
        for name, (old, new) in changes.items():
            self.report(f"{name} was {old!r} and is {new!r} from here on")

    def _make_batches(self, corpora: list[LoadedCorpus]) -> BatchMaker:
        settings = self.settings
        return BatchMaker(
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
            kept_in=self.run_dir / ENCODED,
        )

    def _make_tokenizer(self, corpora: list[LoadedCorpus], tokenizer_dir: Path | None) -> VersoTokenizer:
        if self.settings.tokenizer:
            return VersoTokenizer.load((tokenizer_dir or Path()) / self.settings.tokenizer)

        def learn() -> tuple[bytes, bytes | None]:
            tokenizer = learn_vocabulary(self.settings, corpora)
            write_vocabulary(tokenizer, self.run_dir)
            return tokenizer.model_proto, tokenizer.target_proto

        return VersoTokenizer(*self.processes.from_first(learn))

    def _controlled_pairs(self, corpora: Sequence[LoadedCorpus]) -> ControlledPairs | None:
        """What makes pairs that tell the model something, if the settings ask for it."""
        controls, languages = self.settings.controls, self.settings.languages
        if not controls.changes_pairs:
            return None
        # Words are aligned in text that people translated.
        pairs = [pair for corpus in corpora if corpus.tag is None for pair in corpus.pairs]
        lexicon = self.processes.from_first(lambda: WordLexicon.load_or_learn(self.run_dir / LEXICON, pairs))
        return ControlledPairs(controls, lexicon, languages)

    def _resume(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a run."""
        load_weights(self.transformer, checkpoint.weights)
        progress = checkpoint.progress
        # Checkpoints of earlier releases contain AdamW's state only.
        self.updater.load_state(
            progress["optimizers"] if "optimizers" in progress else {"adamw": progress["optimizer"]}
        )
        self.progress = Progress.from_dict(progress)
        if "piece" not in progress:
            self.report("an earlier release wrote the checkpoint: its epoch begins again")
        torch.set_rng_state(progress["cpu_rng"])
        if self.device == "cuda" and progress["cuda_rng"] is not None:
            torch.cuda.set_rng_state(progress["cuda_rng"])
        self.report(f"going on after update {self.progress.step}")

    def _changes(self, checkpoint: Checkpoint) -> dict[str, tuple[Any, Any]]:
        """Settings that have changed since a checkpoint was written: (before, now) by name."""
        before, now = checkpoint.facts["settings"], self._recorded_settings()
        return {name: (before[name], now[name]) for name in now if name in before and before[name] != now[name]}

    def go(self, show_progress: bool, stop_after_steps: int | None) -> Path:
        """Train to the end, or for a limited number of updates."""
        settings, progress = self.settings, self.progress
        started_step, last_save = progress.step, time.monotonic()
        bar = tqdm(
            total=settings.max_steps, initial=progress.step, unit="step", disable=not show_progress, dynamic_ncols=True
        )
        if self.origin and not progress.rows:
            self._evaluate()
        self.transformer.train()
        with bar, self._updates() as updates, stop_request() as request:
            while progress.step < settings.max_steps and not progress.is_out_of_patience(settings.patience):
                is_requested = self._update(updates, bar, request.is_made)
                evaluates = progress.step % settings.evaluate_every == 0 or progress.step == settings.max_steps
                stops = stop_after_steps is not None and progress.step - started_step >= stop_after_steps
                if evaluates or stops or is_requested or time.monotonic() - last_save > settings.save_every_s:
                    self._count_pending()
                    if evaluates:
                        self._evaluate()
                    self._save(LAST)
                    self._report_save()
                    last_save = time.monotonic()
                if is_requested:
                    self.report(f"stopped after update {progress.step}; the same command goes on from there")
                    raise KeyboardInterrupt
                if stops:
                    return self.run_dir / LAST
        return self.processes.from_first(self._finish)

    @contextlib.contextmanager
    def _updates(self) -> Iterator[Iterator[UpdateBatches]]:
        """The batches of the updates that follow, made while earlier ones are used."""
        arguments = (self.batches, self.progress.position, self.settings.accumulate, self.processes)
        # Little text is planned sooner than a process starts.
        beside = self.batches.num_examples > PIECE
        made = prefetch_in_process(update_batches, *arguments) if beside else prefetch(update_batches(*arguments))
        with made as updates:
            yield updates if self.device == "cpu" else (update.pinned() for update in updates)

    def _report_save(self) -> None:
        """Report the updates since the last save and the time left."""
        step, max_steps, since, self.since_save = self.progress.step, self.settings.max_steps, self.since_save, _Tally()
        if since.tokens:
            left = timedelta(seconds=round((max_steps - step) * since.seconds / since.updates))
            self.report(
                f"saved after update {step} of {max_steps}: loss {since.nll / since.tokens:.3f}, "
                f"{since.tokens / since.seconds:.0f} tokens/s, {left} left"
            )

    def _update(self, updates: Iterator[UpdateBatches], bar: tqdm[Any], stop: bool) -> bool:
        """Update the weights once, and show the loss of the previous update.

        Args:
            updates: The batches that follow.
            bar: The progress bar.
            stop: Whether this process was asked to stop.

        Returns:
            Whether any process was asked to stop.
        """
        settings, progress = self.settings, self.progress
        began = time.monotonic()
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
        elapsed = time.monotonic() - began
        progress.count_time(elapsed)
        self.since_save.seconds += elapsed
        bar.update()
        if loss is not None:
            bar.set_postfix_str(f"{tokens / elapsed:.0f} tok/s, loss {loss:.3f}", refresh=False)
        return num_stopped > 0

    def _count_pending(self) -> float | None:
        """Count the loss of the last update; returns it in nats per token, None if there is none to count.

        Raises:
            ArtifactError: The loss is not a finite number.
        """
        if self.pending is None:
            return None
        (tokens, nll), self.pending = self.pending, None
        total = float(nll)
        if not math.isfinite(total):
            raise ArtifactError(
                f"The loss is not a number after update {self.progress.step}: the run diverged. Lower learning_rate "
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
            self.tokenizer,
            self.dev,
            self.settings.languages,
            self.settings.direction_pairs,
            DecodingPolicy.from_dict(self.imported.get("decoding", {})),
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

    def _recorded_settings(self) -> dict[str, Any]:
        """The settings and the initial model of the run, as stored in checkpoints."""
        # The detour through JSON leaves plain lists and numbers, which can be loaded without unpickling other types.
        recorded: dict[str, Any] = json.loads(
            json.dumps({**self.settings.to_dict(), **({ORIGIN: self.origin} if self.origin else {})})
        )
        return recorded

    def _facts(self) -> dict[str, Any]:
        return {
            "name": self.settings.name,
            "pairs": self.settings.direction_pairs,
            "licence": self.settings.licence,
            "attribution": list(self.settings.attribution),
            "settings": self._recorded_settings(),
            "step": self.progress.step,
            "epoch": self.progress.position.epoch,
            **self.imported,
            # Stored with the weights, so that an export can be compared on any machine.
            "dev_sample": [list(pair) for pair in spread([*chain(*self.dev.values())], DEV_SAMPLE)],
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
        return Checkpoint(self.config, untied_weights(self.transformer), self.tokenizer, facts, progress, self.files)

    def _finish(self) -> Path:
        """Average the last checkpoints and evaluate the mean."""
        parts = [load_checkpoint(path) for path in sorted(self.run_dir.glob("step-*.pt"))[-self.settings.average :]]
        load_weights(self.transformer, average_weights([part.weights for part in parts]))
        scores = self._dev_scores()
        self.report(f"mean of {len(parts)} checkpoints: " + ", ".join(f"{k} {v:.4g}" for k, v in scores.items()))
        facts = {**self._facts(), "averaged_checkpoints": len(parts), "dev": scores}
        path = self.run_dir / AVERAGED
        save_checkpoint(self._checkpoint(facts, {}), path)
        return path
