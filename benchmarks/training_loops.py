"""The loops that :mod:`benchmarks.training` compares: Verso's updates, and the usual ones around torch's module."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.processes import peak_memory_bytes
from benchmarks.shipped import shipped_tokenizer, token_counter
from benchmarks.traffic import sentence
from model.network.config import ModelConfig
from model.network.embeddings import position_table
from model.network.transformer import Transformer
from model.process.allocator import keep_freed_memory
from model.text.tokenizer import PAD_ID
from model.training.batches import Batch, BatchMaker
from model.training.corpus import LoadedCorpus, Pair, read_parallel
from model.training.prefetch import prefetch
from model.training.settings import TrainingSettings
from model.training.update import Updater

SHAPES: dict[str, dict[str, Any]] = {
    "toy": {"d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1},
    "shipped": {"d_model": 256, "num_heads": 4, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 2, "dropout": 0.1},
    "wide": {"d_model": 384, "num_heads": 6, "d_ff": 1536, "encoder_layers": 6, "decoder_layers": 3, "dropout": 0.2},
}

RATE, SMOOTHING, CLIP_NORM = 1e-4, 0.1, 1.0


@dataclass(frozen=True)
class Contender:
    """One row of the table.

    Args:
        library: Library of the loop.
        precision: Precision of the matrix products.
        own_dropout: Whether torch's loop has dropout also inside attention and feed-forward.
    """

    library: str
    precision: str
    own_dropout: bool = False

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.library} {self.precision}{', own dropout' if self.own_dropout else ''}"


def contenders() -> list[Contender]:
    """The rows of the table."""
    return [
        contender
        for precision in ("bfloat16", "float32")
        for contender in (
            Contender("Verso", precision),
            Contender("torch.nn.Transformer", precision),
            Contender("torch.nn.Transformer", precision, own_dropout=True),
        )
    ]


@dataclass(frozen=True)
class Plan:
    """The settings of every process.

    Args:
        shape: Name of the architecture.
        text: Parallel text without language ending; None generates sentences.
        num_pairs: Number of pairs used.
        batch_tokens: Maximal padded target tokens of a batch.
        num_updates: Updates per turn.
        num_rounds: Turns of each loop after the warm-up.
        num_threads: Threads of each loop.
    """

    shape: str
    text: Path | None
    num_pairs: int
    batch_tokens: int
    num_updates: int
    num_rounds: int
    num_threads: int

    @property
    def config(self) -> ModelConfig:
        """The architecture, with the vocabulary of the shipped translator."""
        size = shipped_tokenizer().vocab_size
        return ModelConfig(source_vocab_size=size, target_vocab_size=size, **SHAPES[self.shape])

    def batches(self) -> BatchMaker:
        """The batches of all loops."""
        return BatchMaker(
            [LoadedCorpus(self._pairs())],
            ("en", "de"),
            [("en", "de"), ("de", "en")],
            shipped_tokenizer(),
            batch_tokens=self.batch_tokens,
            max_tokens=100,
            seed=1,
        )

    def _pairs(self) -> list[Pair]:
        if self.text is None:
            rng, num_tokens = random.Random(1), token_counter()
            sentences = [sentence(rng, num_tokens, 4, 30) for _ in range(min(self.num_pairs, 400))]
            return list(zip(sentences, reversed(sentences), strict=True))
        pairs = read_parallel(self.text, ("en", "de"))
        return random.Random(1).sample(pairs, min(self.num_pairs, len(pairs)))


class TorchTranslator(nn.Module):
    """The same architecture around ``torch.nn.Transformer``.

    Args:
        config: A pre-norm architecture with one vocabulary and tied output.
        own_dropout: Whether attention weights and the inner layer of the feed-forward have dropout, too.
    """

    def __init__(self, config: ModelConfig, *, own_dropout: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.target_vocab_size, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.scale = math.sqrt(config.d_model)
        self.positions: Tensor
        self.register_buffer("positions", position_table("interleaved", config.max_positions, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        warnings.filterwarnings("ignore", message="enable_nested_tensor")  # irrelevant in training
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            config.dropout,
            config.activation,
            batch_first=True,
            norm_first=True,
        )
        self.output = nn.Linear(config.d_model, config.target_vocab_size)
        self.output.weight = self.tokens.weight
        if not own_dropout:
            for module in self.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0
                elif isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
                    module.dropout = nn.Identity()  # type: ignore[assignment]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of the token after each target position.

        Args:
            source: Source token ids, (B, S), padded on the right.
            target: Target token ids, (B, T), the start token first, padded on the right.

        Returns:
            (B, T, V).
        """
        padding = source == PAD_ID
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.size(1)),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits: Tensor = self.output(hidden)
        return logits

    def _embed(self, token_ids: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.tokens(token_ids) * self.scale + self.positions[: token_ids.size(1)])
        return embedded


class VersoLoop:
    """Verso's updates.

    Args:
        plan: The training settings.
        precision: Precision of the matrix products.
    """

    def __init__(self, plan: Plan, precision: str) -> None:
        self._model = Transformer(plan.config, PAD_ID).train()
        self.num_parameters = sum(parameter.numel() for parameter in self._model.parameters())
        settings = TrainingSettings.from_dict(
            {
                "name": "benchmark",
                "languages": ["en", "de"],
                "train": ["text"],
                "dev": "text",
                "precision": precision,
                "label_smoothing": SMOOTHING,
                "clip_norm": CLIP_NORM,
                "model": SHAPES[plan.shape],
            }
        )
        self._updater = Updater(self._model, settings)

    def update(self, batch: Batch) -> float:
        """Do one update; returns its loss in nats per token, without smoothing."""
        return float(self._updater.update([batch], RATE)) / batch.num_target_tokens


class TorchLoop:
    """The usual loop around ``torch.nn.Transformer``.

    Args:
        plan: The training settings.
        precision: Precision of the matrix products.
        own_dropout: As in :class:`TorchTranslator`.
    """

    def __init__(self, plan: Plan, precision: str, *, own_dropout: bool) -> None:
        self._model = TorchTranslator(plan.config, own_dropout=own_dropout).train()
        self.num_parameters = sum(parameter.numel() for parameter in self._model.parameters())
        self._autocast = precision == "bfloat16"
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )

    def update(self, batch: Batch) -> float:
        """Do one update; returns its smoothed loss in nats per token."""
        right = batch.target[:, 1:]
        with torch.autocast("cpu", torch.bfloat16) if self._autocast else contextlib.nullcontext():
            logits = self._model(batch.source, batch.target[:, :-1])
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), right.flatten(), ignore_index=PAD_ID, label_smoothing=SMOOTHING
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), CLIP_NORM)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())


class Training:
    """The training of a worker process, which does the updates of a turn when it is called.

    Args:
        contender: The loop.
        plan: Its settings.
    """

    def __init__(self, contender: Contender, plan: Plan) -> None:
        torch.set_num_threads(plan.num_threads)
        torch.manual_seed(1)
        keep_freed_memory()
        self._num_updates = plan.num_updates
        self._loop: VersoLoop | TorchLoop
        batches = _endless(plan.batches())
        self._batches: Iterator[Batch] = batches
        if contender.library == "Verso":
            self._loop = VersoLoop(plan, contender.precision)
            # Verso's training makes batches ahead of time; a simple loop makes them when they are needed.
            self._prefetching = contextlib.ExitStack()
            self._batches = self._prefetching.enter_context(prefetch(batches))
        else:
            self._loop = TorchLoop(plan, contender.precision, own_dropout=contender.own_dropout)

    def __call__(self, job: object) -> dict[str, float]:
        """The figures of a turn."""
        began, cpu_began, tokens, loss = time.perf_counter(), time.process_time(), 0, 0.0
        for _ in range(self._num_updates):
            batch = next(self._batches)
            loss += self._loop.update(batch) * batch.num_target_tokens
            tokens += batch.num_target_tokens
        elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu_began
        return {
            "num_parameters": self._loop.num_parameters,
            "tokens": tokens,
            "tokens_per_s": tokens / elapsed,
            "tokens_per_cpu_s": tokens / cpu,
            "loss": loss / tokens,
            "peak_memory_mb": peak_memory_bytes() / 1e6,
        }


def _endless(maker: BatchMaker) -> Generator[Batch]:
    for epoch in itertools.count():
        yield from maker.epoch(epoch)
