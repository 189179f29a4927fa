"""A toy language pair that a tiny Transformer learns in seconds: eight words, translated word by word."""

from __future__ import annotations

import random
from pathlib import Path

from model.training.loop import train
from model.training.settings import TrainingSettings

WORDS = {
    "cat": "Katze",
    "dog": "Hund",
    "house": "Haus",
    "tree": "Baum",
    "sees": "sieht",
    "likes": "mag",
    "red": "rot",
    "old": "alt",
}

CONFIG = """\
name: toy
languages: [en, de]
train: [train]
dev: dev
dev_sentences: 20
vocab_size: 300
max_tokens_per_sentence: 24
batch_tokens: 600
max_steps: 400
learning_rate: 0.005
warmup_steps: 40
cooldown_steps: 150
evaluate_every: 100
average: 2
precision: float32
threads: 1
seed: 2
model: {d_model: 32, num_heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1, dropout: 0.0, max_positions: 64}
licence: CC0
attribution: [nobody]
"""


def sentence(rng: random.Random) -> tuple[str, str]:
    """An English sentence of the toy language, and its German translation."""
    words = [rng.choice(list(WORDS)) for _ in range(rng.randint(1, 5))]
    return " ".join(words) + ".", " ".join(WORDS[word] for word in words) + "."


def write_corpus(folder: Path, base: str, num_sentences: int, seed: int) -> None:
    """Write two parallel files, ``base.en`` and ``base.de``."""
    rng = random.Random(seed)
    pairs = [sentence(rng) for _ in range(num_sentences)]
    for index, language in enumerate(("en", "de")):
        text = "".join(pair[index] + "\n" for pair in pairs)
        (folder / f"{base}.{language}").write_text(text, encoding="utf-8")


def write_toy(folder: Path) -> Path:
    """Write corpora and configuration into a folder; returns the path of the configuration."""
    write_corpus(folder, "train", 600, seed=1)
    write_corpus(folder, "dev", 40, seed=2)
    config = folder / "toy.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return config


def train_toy(folder: Path, *, narrow: bool = False, recurrent: bool = False) -> Path:
    """Train the toy in ``folder/run``; returns the averaged checkpoint.

    Args:
        folder: Where the corpora and the run are written.
        narrow: Whether to train half the width, of a quarter of the size.
        recurrent: Whether the decoder has a recurrent unit and starts from zero, as Marian's students.
    """
    config = write_toy(folder)
    if narrow:
        text = config.read_text(encoding="utf-8").replace("d_model: 32, num_heads: 2", "d_model: 16, num_heads: 1")
        config.write_text(text.replace("learning_rate: 0.005", "learning_rate: 0.008"), encoding="utf-8")
    if recurrent:
        text = config.read_text(encoding="utf-8").replace(
            "model: {", "model: {decoder: ssru, start: zero, norm: post, "
        )
        config.write_text(text, encoding="utf-8")
    return train(TrainingSettings.load(config), folder, folder / "run", show_progress=False, report=lambda line: None)
