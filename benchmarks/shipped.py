"""The shipped translator in the format of each engine: bundles of Verso, and the same weights for CTranslate2.

It is a pre-norm Transformer with a table of sines, which CTranslate2's specification can express; its converters know
only other frameworks' checkpoints, so the weights are assigned here.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.contenders import VERSO_PRECISIONS
from benchmarks.traffic import SHORT_TOKENS, sentence

if TYPE_CHECKING:
    from model.artifacts.checkpoint import Checkpoint
    from model.text.tokenizer import VersoTokenizer

SPM = "spm.model"
"""File name of the vocabulary, next to CTranslate2's model."""


def make_shipped(folder: Path) -> int:
    """Make Verso's bundles and CTranslate2's models of all precisions in a folder.

    Args:
        folder: An existing folder.

    Returns:
        The number of parameters.
    """
    from model.artifacts.checkpoint import load_checkpoint
    from model.artifacts.export import export_bundle
    from model.artifacts.pretrained import PRETRAINED

    checkpoint = load_checkpoint(PRETRAINED)
    # Without the held-out sample the slow comparison is skipped; it is done when the served bundle is built.
    plain = replace(checkpoint, facts={name: value for name, value in checkpoint.facts.items() if name != "dev_sample"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for precision in VERSO_PRECISIONS:
            export_bundle(plain, precision, folder / f"Verso {precision}", report=lambda line: None)
        convert(checkpoint, folder / "CTranslate2 float32", None)
        convert(checkpoint, folder / "CTranslate2 int8", "int8")
    return sum(weight.numel() for weight in checkpoint.weights.values())


def shipped_tokenizer() -> VersoTokenizer:
    """The vocabulary of the shipped translator."""
    from model.artifacts.checkpoint import load_checkpoint
    from model.artifacts.pretrained import PRETRAINED

    return load_checkpoint(PRETRAINED).own_tokenizer


def token_counter() -> Callable[[str], int]:
    """A function that counts the tokens of an English text, including marker and end token."""
    tokenizer = shipped_tokenizer()
    return lambda text: len(tokenizer.encode(text, "de"))


def short_sentences(number: int) -> list[str]:
    """Generated English sentences of 5 to 15 tokens."""
    rng, num_tokens = random.Random(3), token_counter()
    return [sentence(rng, num_tokens, *SHORT_TOKENS) for _ in range(number)]


def make_shipped_sources(number: int, shortest: int, longest: int, seed: int) -> list[list[int]]:
    """English sentences to translate into German, as token ids of the shipped translator.

    Args:
        number: Number of sentences.
        shortest: Minimal number of tokens, including marker and end token.
        longest: Maximal number of tokens.
        seed: Seed of the sentences.
    """
    tokenizer, num_tokens, rng = shipped_tokenizer(), token_counter(), random.Random(seed)
    return [tokenizer.encode(sentence(rng, num_tokens, shortest, longest), "de") for _ in range(number)]


def convert(checkpoint: Checkpoint, out: Path, quantization: str | None) -> None:
    """Write a checkpoint of this project as a CTranslate2 model, with its vocabulary next to it.

    Args:
        checkpoint: A pre-norm model with one vocabulary, tied output and one number of heads, like the shipped one.
        out: The folder to create.
        quantization: CTranslate2's quantization; None keeps the weights.
    """
    from ctranslate2.specs import TransformerSpec, common_spec

    config, tokenizer = checkpoint.config, checkpoint.own_tokenizer
    transformer = checkpoint.build()
    spec = TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=getattr(common_spec.Activation, {"silu": "SWISH"}.get(config.activation, config.activation.upper())),
    )
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = config.scale_embedding
    spec.encoder.embeddings[0].weight = _array(transformer.source_embedding.tokens.weight)
    spec.decoder.embeddings.weight = _array(transformer.target_embedding.tokens.weight)
    spec.encoder.position_encodings.encodings = _array(transformer.source_embedding.positions)
    spec.decoder.position_encodings.encodings = _array(transformer.target_embedding.positions)
    _set_norm(spec.encoder.layer_norm, transformer.encoder_norm)
    _set_norm(spec.decoder.layer_norm, transformer.decoder_norm)
    for layer, own in zip(spec.encoder.layer, transformer.encoder, strict=True):
        _set_self_attention(layer.self_attention, own)
        _set_feed_forward(layer.ffn, own)
    for layer, own in zip(spec.decoder.layer, transformer.decoder, strict=True):
        _set_self_attention(layer.self_attention, own)
        across: Any = own.cross_attention
        _set_norm(layer.attention.layer_norm, own.cross_attention_norm)
        for linear, part in zip(layer.attention.linear, (across.query, across.key_value, across.output), strict=True):
            _set_linear(linear, part)
        _set_feed_forward(layer.ffn, own)
    _set_linear(spec.decoder.projection, transformer.output)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = pieces[tokenizer.start_id]
    spec.config.eos_token = pieces[tokenizer.end_id]
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.validate()
    spec.optimize(quantization=quantization)
    out.mkdir()
    spec.save(str(out))
    (out / SPM).write_bytes(tokenizer.model_proto)


def _array(tensor: Any) -> Any:
    """A separate copy: CTranslate2 compares addresses and stores equal arrays once."""
    return np.array(tensor.detach().numpy())


def _set_linear(spec: Any, linear: Any) -> None:
    spec.weight = _array(linear.weight)
    if linear.bias is not None:
        spec.bias = _array(linear.bias)


def _set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = _array(norm.weight)
    spec.beta = _array(norm.bias)


def _set_self_attention(spec: Any, layer: Any) -> None:
    _set_norm(spec.layer_norm, layer.self_attention_norm)
    _set_linear(spec.linear[0], layer.self_attention.query_key_value)
    _set_linear(spec.linear[1], layer.self_attention.output)


def _set_feed_forward(spec: Any, layer: Any) -> None:
    _set_norm(spec.layer_norm, layer.feed_forward_norm)
    _set_linear(spec.linear_0, layer.feed_forward.wide)
    _set_linear(spec.linear_1, layer.feed_forward.narrow)
