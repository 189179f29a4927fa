"""Random checkpoints of OPUS-MT's architecture, and the same weights in the format of each engine."""

from __future__ import annotations

import io
import json
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchmarks.contenders import MODULES

if TYPE_CHECKING:
    from model.artifacts.manifest import Precision

# torch and the other engines are imported where they are used: a measured process must contain only its own library.


@dataclass(frozen=True)
class Shape:
    """The sizes of a model.

    Args:
        d_model: Width.
        encoder_layers: Number of encoder layers.
        decoder_layers: Number of decoder layers.
        d_ff: Width inside the feed-forward layers.
        num_heads: Number of attention heads.
        vocab_size: Size of the vocabulary that source, target and output share.
    """

    d_model: int
    encoder_layers: int
    decoder_layers: int
    d_ff: int
    num_heads: int
    vocab_size: int

    @property
    def source_multiply_adds(self) -> int:
        """Multiply-adds with weights, for a source token."""
        d, f = self.d_model, self.d_ff
        return self.encoder_layers * (4 * d * d + 2 * d * f) + self.decoder_layers * 2 * d * d

    @property
    def target_multiply_adds(self) -> int:
        """Multiply-adds with weights, for a target token in one row of the beam."""
        d, f = self.d_model, self.d_ff
        return self.decoder_layers * (6 * d * d + 2 * d * f) + d * self.vocab_size

    def __str__(self) -> str:
        return (
            f"d{self.d_model}, {self.encoder_layers}+{self.decoder_layers} layers, feed-forward {self.d_ff}, "
            f"{self.num_heads} heads, vocabulary {self.vocab_size:,}"
        )


SHIPPED = "shipped"
"""The shipped translator."""

SHAPES = {
    "tiny": Shape(256, 3, 3, 1024, 4, 8_000),
    "small": Shape(384, 6, 3, 1536, 6, 16_000),
    "base": Shape(512, 6, 6, 2048, 8, 32_000),
    SHIPPED: Shape(256, 6, 2, 1024, 4, 12_000),
    # Not for measurements: only to try whether everything works.
    "toy": Shape(32, 1, 1, 64, 4, 400),
}


MODELS = ("Verso float32", "Verso int8", "CTranslate2 float32", "CTranslate2 int8")
"""Names of the files and folders with the same weights; optional rivals have one more for each precision."""


def _make_words() -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choice("abdefgiklmnoprstu") for _ in range(rng.randint(2, 8))) for _ in range(400)]


WORDS = _make_words()
"""Generated words; the vocabulary of random checkpoints is learned from them, so they are encoded to pieces."""


def _write_vocabulary(folder: Path, vocab_size: int) -> int:
    """Write the files of a tokenizer with pieces of generated words and fillers; returns the size of its vocabulary."""
    import sentencepiece

    spm = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter([" ".join(WORDS[start : start + 5]) for start in range(0, len(WORDS), 5)]),
        model_writer=spm,
        vocab_size=100,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(spm.getvalue())
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(spm.getvalue())
    pieces = [processor.IdToPiece(number) for number in range(3, len(processor))]
    fillers = [f"\u2581filler{number}" for number in range(vocab_size - len(pieces) - 3)]
    ordered = ["</s>", "<unk>", *pieces, *fillers, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(ordered)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))
    return len(ordered)


def make_checkpoint(folder: Path, shape: Shape) -> int:
    """Make a folder in OPUS-MT's format with random weights and generated pieces; returns the number of parameters."""
    import torch
    import transformers
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    transformers.logging.set_verbosity_error()
    folder.mkdir(parents=True)
    vocab_size = _write_vocabulary(folder, shape.vocab_size)
    pad = vocab_size - 1
    special = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad}
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocab_size,
        d_model=shape.d_model,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.num_heads,
        decoder_attention_heads=shape.num_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=512,
        # Published checkpoints append an end token to a truncated output, which would count; CTranslate2 does not.
        forced_eos_token_id=None,
        **special,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "shared" in name:
                parameter.normal_(0, 1.2 * parameter.size(1) ** -0.5)
                # The first decoder input of published checkpoints is padding; CTranslate2 starts from zeros.
                parameter[pad] = 0.0
            elif parameter.dim() == 2 and "layers" in name:
                # Peaked attention: with uniform attention all sentences would have the same output.
                sharpness = 3.0 if "q_proj" in name or "k_proj" in name else 1.0
                parameter.normal_(0, sharpness * parameter.size(1) ** -0.5)
        model.final_logits_bias.normal_(0, 0.5)
    model.generation_config = GenerationConfig(
        num_beams=4, max_length=512, bad_words_ids=[[pad]], renormalize_logits=True, **special
    )
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def make_models(folder: Path, shape: Shape, names: Sequence[str] = MODELS) -> int:
    """Make the same random weights in the formats of the engines.

    Args:
        folder: An existing folder; it also gets the checkpoint, as ``transformers``.
        shape: Shape of the model.
        names: Engine and precision of each file to make.

    Returns:
        The number of parameters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint = folder / "transformers"
        num_parameters = make_checkpoint(checkpoint, shape)
        for name in names:
            library, precision = name.rsplit(" ", 1)
            if library == "Verso":
                from model.importing.importer import import_checkpoint

                import_checkpoint(checkpoint, folder / name, cast("Precision", precision), report=lambda line: None)
            elif library == "CTranslate2":
                import ctranslate2

                converter = ctranslate2.converters.TransformersConverter(str(checkpoint))
                converter.convert(str(folder / name), quantization=None if precision == "float32" else precision)
            else:
                import_module(MODULES[library]).make_model(checkpoint, folder / name, precision)
    return num_parameters


def make_texts(number: int, folder: Path, shortest: int, longest: int, seed: int) -> list[str]:
    """Distinct texts of generated words, each one sentence.

    Args:
        number: Number of texts.
        folder: Folder of the checkpoint whose vocabulary counts their tokens.
        shortest: Minimal number of tokens of a text, including the end token.
        longest: Maximal number of tokens.
        seed: Seed of the words.
    """
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "transformers" / "source.spm"))
    sizes = {word: len(processor.EncodeAsIds(word)) for word in WORDS}
    rng = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < number:
        least = rng.randint(shortest, longest)
        words = [rng.choice(WORDS)]
        while sum(sizes[word] for word in words) + 1 < least:
            words.append(rng.choice(WORDS))
        if sum(sizes[word] for word in words) + 1 <= longest:
            texts[" ".join(words)] = None
    return list(texts)


def make_sources(number: int, vocab_size: int, shortest: int, longest: int, seed: int = 0) -> list[list[int]]:
    """Random token ids, ending with the end token."""
    rng = random.Random(seed)
    return [
        [*(rng.randrange(2, vocab_size - 1) for _ in range(rng.randint(shortest, longest) - 1)), 0]
        for _ in range(number)
    ]
