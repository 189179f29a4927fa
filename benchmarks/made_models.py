"""Bundles of many models with random weights in the shape of Firefox's smallest models, one for each direction."""

from __future__ import annotations

import io
import random
from pathlib import Path

import torch

from model.artifacts.archive import write_bundle
from model.artifacts.manifest import Manifest
from model.network.config import Decoder, ModelConfig
from model.network.inference import replace_layers
from model.network.padding import NO_PAD_ID
from model.network.quantised import quantise
from model.network.transformer import Transformer
from model.text.hf_tokenizers import SOURCE_SPM

LANGUAGES = [
    *("de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "cs", "da", "sv", "nb", "fi", "et", "lv", "lt", "hu", "ro"),
    *("bg", "el", "tr", "ar", "he", "fa", "hi", "bn", "ta", "te", "kn", "ml", "gu", "ja", "ko", "zh", "vi", "th", "id"),
    *("ms", "sk", "sl", "sq", "sr", "ca", "gl", "eu", "is", "mt", "cy", "ga"),
]
"""Fifty languages besides English."""

_VOCABULARY = 32_000


def directions(number: int) -> list[tuple[str, str]]:
    """Directions from English and into English."""
    from_english = [("en", language) for language in LANGUAGES]
    to_english = [(language, "en") for language in LANGUAGES]
    return [pair for pairs in zip(from_english, to_english, strict=True) for pair in pairs][:number]


def words(rng: random.Random, number: int) -> list[str]:
    """Made words; each has 2 to 10 letters."""
    return ["".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 10))) for _ in range(number)]


def make_bundles(folder: Path, number: int, decoder: Decoder) -> list[tuple[str, str]]:
    """Make the bundles in int8, as far as they are not there; returns their directions.

    Args:
        folder: The folder of the bundles.
        number: Number of models.
        decoder: The layers of the decoder: Firefox's have ``ssru``.
    """
    pairs = directions(number)
    missing = [pair for pair in pairs if not _path(folder, pair).is_file()]
    if not missing:
        return pairs
    spm = _vocabulary()
    config = ModelConfig(
        source_vocab_size=_VOCABULARY,
        target_vocab_size=_VOCABULARY,
        d_model=256,
        num_heads=8,
        d_ff=1536,
        encoder_layers=6,
        decoder_layers=2,
        norm="post",
        max_positions=256,
        positions="tensor2tensor",
        layer_norm_eps=1e-6,
        decoder=decoder,
        start="zero" if decoder == "ssru" else "token",
    )
    torch.manual_seed(1)
    module = Transformer(config, NO_PAD_ID).eval().requires_grad_(False)
    replace_layers(module, lambda name, layer: quantise(layer))
    for source, target in missing:
        manifest = Manifest(
            name=f"made-{source}-{target}",
            pairs=((source, target),),
            architecture=config.to_dict(),
            precision="int8",
            max_source_tokens=128,
            max_target_tokens=256,
            licence="random weights",
            tokenizer={"kind": "sentencepiece", "pad_id": NO_PAD_ID, "start_id": 0, "end_id": 0},
        )
        write_bundle(module, manifest, {SOURCE_SPM: spm}, _path(folder, (source, target)))
    return pairs


def _path(folder: Path, pair: tuple[str, str]) -> Path:
    return folder / f"{'-'.join(pair)}.verso"


def _vocabulary() -> bytes:
    """A SentencePiece model of as many pieces as Firefox's have, learned from made words."""
    import sentencepiece

    rng = random.Random(1)
    vocabulary = words(rng, 60_000)
    sink = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=(" ".join(rng.choices(vocabulary, k=12)) for _ in range(30_000)),
        model_writer=sink,
        vocab_size=_VOCABULARY,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    return sink.getvalue()
