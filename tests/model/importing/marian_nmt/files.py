"""Small random models in the formats of Marian, written byte by byte."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from numpy.typing import NDArray

Tensors = dict[str, NDArray[np.float32]]

FLOAT32, INT8, INTGEMM8 = 0x404, 0x101, 0x4101
DESCRIPTION = "special:model.yml"
SYMBOLS = ("__source__", "__target__", "__done__")

TEXT = """The pharmacy is on the corner of the street. Tom only wears cheap clothes. Nobody knows why she did that.
We have to find out who did this, and when. I will try to fix it, but I do not promise that it works. Leave us alone!
Die Apotheke ist an der Ecke der Straße. Tom trägt nur billige Kleidung. Niemand weiß, warum sie das getan hat.
Wir müssen herausfinden, wer das war und wann. Ich versuche, es zu reparieren, aber ich verspreche es nicht."""


@dataclass(frozen=True)
class Shape:
    """The options of a model that these files can have.

    Args:
        width: ``dim-emb``.
        inner: ``transformer-dim-ffn``.
        heads: ``transformer-heads``.
        encoder: ``enc-depth``.
        decoder: ``dec-depth``.
        recurrent: Whether the decoder has SSRU layers; otherwise self-attention.
        tied: The one of ``tied-embeddings-all``, ``tied-embeddings-src`` and ``tied-embeddings`` that is true, or "".
        activation: ``transformer-ffn-activation``.
    """

    width: int = 32
    inner: int = 48
    heads: int = 4
    encoder: int = 2
    decoder: int = 2
    recurrent: bool = True
    tied: str = "tied-embeddings-all"
    activation: str = "relu"

    @property
    def shared(self) -> bool:
        """Whether source and target have one embedding."""
        return self.tied in ("tied-embeddings-all", "tied-embeddings-src")


def options_of(shape: Shape, sizes: tuple[int, int], **changes: str) -> str:
    """``special:model.yml``; a change to ``...`` removes an option."""
    values: dict[str, Any] = {
        "dec-cell": "ssru",
        "dec-depth": shape.decoder,
        "dim-emb": shape.width,
        "dim-vocabs": f"\n  - {sizes[0]}\n  - {sizes[1]}",
        "enc-cell": "gru",
        "enc-depth": shape.encoder,
        "input-types": "[]",
        "layer-normalization": "false",
        "lemma-dim-emb": 0,
        "tied-embeddings": str(shape.tied == "tied-embeddings").lower(),
        "tied-embeddings-all": str(shape.tied == "tied-embeddings-all").lower(),
        "tied-embeddings-src": str(shape.tied == "tied-embeddings-src").lower(),
        "transformer-decoder-autoreg": "rnn" if shape.recurrent else "self-attention",
        "transformer-dim-ffn": shape.inner,
        "transformer-ffn-activation": shape.activation,
        "transformer-ffn-depth": 2,
        "transformer-guided-alignment-layer": "last",
        "transformer-heads": shape.heads,
        "transformer-no-projection": "false",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": '""',
        "transformer-preprocess": '""',
        "transformer-tied-layers": "[]",
        "transformer-train-position-embeddings": "false",
        "type": "transformer",
        "ulr": "false",
        **changes,
    }
    return "".join(f"{key}: {value}\n" for key, value in values.items() if value is not ...)


def random_tensors(shape: Shape, sizes: tuple[int, int], seed: int = 1) -> Tensors:
    """Random weights under Marian's names, large enough that each step of a search selects another token."""
    rng = np.random.default_rng(seed)
    tensors: Tensors = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        limit = 2 * np.sqrt(6 / (rows + columns))
        tensors[name] = rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    def vector(name: str, columns: int, centre: float = 0.0) -> None:
        tensors[name] = (centre + 0.2 * rng.standard_normal((1, columns))).astype(np.float32)

    def norm(prefix: str) -> None:
        vector(f"{prefix}_ln_scale", shape.width, 1.0)
        vector(f"{prefix}_ln_bias", shape.width)

    def attention(prefix: str) -> None:
        for letter in "qkvo":
            matrix(f"{prefix}_W{letter}", shape.width, shape.width)
            vector(f"{prefix}_b{letter}", shape.width)
        norm(f"{prefix}_Wo")

    def feed_forward(prefix: str) -> None:
        matrix(f"{prefix}_W1", shape.width, shape.inner)
        vector(f"{prefix}_b1", shape.inner)
        matrix(f"{prefix}_W2", shape.inner, shape.width)
        vector(f"{prefix}_b2", shape.width)
        norm(f"{prefix}_ffn")

    for name, rows in (
        {"Wemb": sizes[0]}.items() if shape.shared else zip(("encoder_Wemb", "decoder_Wemb"), sizes, strict=True)
    ):
        tensors[name] = (3 * rng.standard_normal((rows, shape.width)) / np.sqrt(shape.width)).astype(np.float32)
    for layer in range(1, shape.encoder + 1):
        attention(f"encoder_l{layer}_self")
        feed_forward(f"encoder_l{layer}_ffn")
    for layer in range(1, shape.decoder + 1):
        if shape.recurrent:
            matrix(f"decoder_l{layer}_rnn_W", shape.width, shape.width)
            matrix(f"decoder_l{layer}_rnn_Wf", shape.width, shape.width)
            vector(f"decoder_l{layer}_rnn_bf", shape.width)
            norm(f"decoder_l{layer}_rnn_ffn")
        else:
            attention(f"decoder_l{layer}_self")
        attention(f"decoder_l{layer}_context")
        feed_forward(f"decoder_l{layer}_ffn")
    if shape.tied not in ("tied-embeddings-all", "tied-embeddings"):
        matrix("decoder_ff_logit_out_Wt", sizes[1], shape.width)
    vector("decoder_ff_logit_out_b", sizes[1])
    tensors["decoder_ff_logit_out_b"][0, 0] = 9.0
    return tensors


def is_quantised(name: str) -> bool:
    """Marian's rule: ``_W`` and at most one more character at the end, or an embedding."""
    return name[-3:-1] == "_W" or name.endswith("_W") or "Wemb" in name


def quantised(tensor: NDArray[np.float32]) -> tuple[NDArray[np.int8], np.float32]:
    """The levels of a tensor and its multiplier."""
    multiplier = np.float32(127) / np.abs(tensor).max()
    return np.clip(np.rint(tensor * multiplier), -127, 127).astype(np.int8), multiplier


def encode_item(name: str, tensor: NDArray[np.float32], *, int8: bool) -> tuple[int, tuple[int, ...], bytes]:
    """Type, shape and bytes of an item, padded to a multiple of 256."""
    if int8 and is_quantised(name):
        levels, multiplier = quantised(tensor)
        content = (levels if "Wemb" in name else levels.T).tobytes() + struct.pack("<f", multiplier)
        kind = INTGEMM8
    else:
        content, kind = tensor.astype("<f4").tobytes(), FLOAT32
    return kind, tensor.shape, content + bytes(-len(content) % 256)


def binary(tensors: Mapping[str, NDArray[np.float32]], text: str, *, int8: bool = True) -> bytes:
    """A model in Marian's binary format; in int8 with a made scale of the inputs of each matrix."""
    if int8:
        alphas = {f"{name}_QuantMultA": np.full((1, 1), 20, np.float32) for name in tensors if is_quantised(name)}
        tensors = {**tensors, **alphas}
    items = [(name, *encode_item(name, tensors[name], int8=int8)) for name in sorted(tensors)]
    described = text.encode() + b"\0"
    items.append((DESCRIPTION, INT8, (len(described),), described))
    return container(items)


def container(items: list[tuple[str, int, tuple[int, ...], bytes]]) -> bytes:
    """Items as a file."""
    parts = [struct.pack("<QQ", 1, len(items))]
    parts += [
        struct.pack("<QQQQ", len(name) + 1, kind, len(shape), len(content)) for name, kind, shape, content in items
    ]
    parts += [name.encode() + b"\0" for name, *_ in items]
    parts += [struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items]
    position = sum(map(len, parts)) + 8
    padding = (position // 256 + 1) * 256 - position
    parts += [struct.pack("<Q", padding), bytes(padding)]
    return b"".join([*parts, *(content for *_, content in items)])


def npz(tensors: Mapping[str, NDArray[np.float32]], text: str) -> bytes:
    """A model as ``.npz``."""
    described = np.frombuffer(text.encode() + b"\0", np.int8)
    sink = io.BytesIO()
    np.savez(sink, allow_pickle=False, **tensors, **{DESCRIPTION: described})
    return sink.getvalue()


def learn_spm(path: Path, size: int = 340) -> sentencepiece.SentencePieceProcessor:
    """Learn a vocabulary as those of Firefox Translations: end 0, unknown 1, symbols, bytes, pieces."""
    sink = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT.splitlines()),
        model_writer=sink,
        vocab_size=size,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        user_defined_symbols=",".join(SYMBOLS),
        byte_fallback=True,
        hard_vocab_limit=True,
        minloglevel=2,
    )
    path.write_bytes(sink.getvalue())
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def make_student(
    folder: Path,
    shape: Shape = Shape(),
    *,
    int8: bool = True,
    seed: int = 1,
    options: Mapping[str, str] | None = None,
) -> Tensors:
    """A folder as Firefox downloads it, in int8 or as ``.npz``; returns the weights in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    if shape.shared:
        size = len(learn_spm(folder / "vocab.ende.spm"))
        sizes = size, size
    else:
        sizes = len(learn_spm(folder / "srcvocab.ende.spm")), len(learn_spm(folder / "trgvocab.ende.spm", 350))
    tensors, text = random_tensors(shape, sizes, seed), options_of(shape, sizes, **(options or {}))
    if int8:
        (folder / "model.ende.intgemm.alphas.bin").write_bytes(binary(tensors, text))
    else:
        (folder / "model.ende.npz").write_bytes(npz(tensors, text))
    return tensors


def make_opus(
    folder: Path, shape: Shape | None = None, *, multilingual: bool = False, separate: bool = False
) -> Tensors:
    """A folder as OPUS-MT publishes it for Marian: self-attention, ``vocab.yml`` and two SentencePiece models."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = shape or Shape(recurrent=False, activation="swish", tied="" if separate else "tied-embeddings-all")
    processors = [learn_spm(folder / "source.spm", 320), learn_spm(folder / "target.spm", 330)]
    languages = [">>fra<<", ">>deu<<"] if multilingual else []
    vocabularies = []
    for chosen in (processors[:1], processors[1:]) if separate else (processors,):
        pieces = dict.fromkeys(
            piece for processor in chosen for piece in map(processor.IdToPiece, range(2, len(processor)))
        )
        vocabularies.append(["</s>", "<unk>", *languages, *pieces])
    names = ["opus.src.vocab.yml", "opus.trg.vocab.yml"] if separate else ["opus.vocab.yml"]
    for name, vocabulary in zip(names, vocabularies, strict=True):
        lines = [f"{json.dumps(piece)}: {number}\n" for number, piece in enumerate(vocabulary)]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    sizes = len(vocabularies[0]), len(vocabularies[-1])
    shape = replace(shape, recurrent=False)
    tensors = random_tensors(shape, sizes)
    (folder / "opus.transformer-align.model1.npz.best.npz").write_bytes(npz(tensors, options_of(shape, sizes)))
    stated = [names[0], names[-1]]
    (folder / "decoder.yml").write_text(
        f"models:\n  - opus.npz\nvocabs:\n  - {stated[0]}\n  - {stated[1]}\nbeam-size: 6\nnormalize: 0.6\n"
    )
    return tensors
