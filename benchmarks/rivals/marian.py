"""Marian, through its Python package: the checkpoint in Marian's own format; int8 by intgemm.

Marian has no minimal length and bounds an answer by a multiple of the longest source of its batch. Here the end token
is excluded by its bias, and the multiple is set for each batch so that an answer has the wanted length. Marian's
threads translate a batch each, so as many batches as threads are handed over at once, if their longest sources are
similar. Tokens are words like ``t5``, which Marian splits and joins as part of its work.

Marian computes the sines of its position vectors with other periods than transformers (the exponent's denominator is
smaller by one), and cannot be given a table: it would use the first row for every token of the answer. So its answers
are those of slightly other weights, for the same work. With Marian's sines in transformers they are the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks.contenders import Job, Precision, Row, in_batches

EXCLUDED = -1e9
"""The output's bias of tokens that cannot be chosen."""

UNKNOWN, UNKNOWN_ID = "<unk>", 1

LAYER_NAMES = {
    **{f"self_{name}": f"self_attn.{original}" for name, original in (
        ("Wq", "q_proj.weight"), ("Wk", "k_proj.weight"), ("Wv", "v_proj.weight"), ("Wo", "out_proj.weight"),
        ("bq", "q_proj.bias"), ("bk", "k_proj.bias"), ("bv", "v_proj.bias"), ("bo", "out_proj.bias"))},
    "self_Wo_ln_scale": "self_attn_layer_norm.weight",
    "self_Wo_ln_bias": "self_attn_layer_norm.bias",
    "ffn_W1": "fc1.weight",
    "ffn_b1": "fc1.bias",
    "ffn_W2": "fc2.weight",
    "ffn_b2": "fc2.bias",
    "ffn_ffn_ln_scale": "final_layer_norm.weight",
    "ffn_ffn_ln_bias": "final_layer_norm.bias",
}  # fmt: skip
"""Marian's names of a layer's weights, and those of transformers."""

CROSS_ATTENTION_NAMES = {
    name.replace("self_", "context_"): original.replace("self_attn", "encoder_attn")
    for name, original in LAYER_NAMES.items()
    if name.startswith("self_")
}
"""The same for the decoder's attention to the source."""


def make_model(checkpoint: Path, out: Path, precision: Precision) -> None:
    """Convert a checkpoint.

    Args:
        checkpoint: A folder with a Marian model of transformers.
        out: The folder to create.
        precision: With int8, weights are rounded by Marian's converter, and inputs of products when they are computed.
    """
    from safetensors.numpy import load_file

    out.mkdir()
    weights = load_file(checkpoint / "model.safetensors")
    config: dict[str, Any] = json.loads((checkpoint / "config.json").read_text())
    vocab_size: int = config["vocab_size"]
    names = ["</s>", UNKNOWN, *(f"t{number}" for number in range(2, vocab_size))]
    (out / "vocab.txt").write_text("\n".join(names) + "\n")
    tensors = dict(_layers(weights, "encoder", config["encoder_layers"], LAYER_NAMES))
    tensors |= _layers(weights, "decoder", config["decoder_layers"], LAYER_NAMES | CROSS_ATTENTION_NAMES)
    embeddings = next(weights[name] for name in ("model.shared.weight", "lm_head.weight") if name in weights)
    tensors["Wemb"] = embeddings
    bias = weights["final_logits_bias"].copy()
    # Padding, which Marian does not have, stays in the vocabulary: intgemm needs a multiple of 8.
    bias[0, [config["eos_token_id"], config["pad_token_id"]]] = EXCLUDED
    tensors["decoder_ff_logit_out_b"] = bias
    described = yaml.safe_dump(_description(config, vocab_size)).encode() + b"\0"
    tensors["special:model.yml"] = np.frombuffer(described, np.int8)
    arrays: dict[str, Any] = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    np.savez(out / "model.npz", **arrays)
    if precision == "int8":
        convert = ["convert", "-f", "model.npz", "-t", "model.bin", "-g", "intgemm8"]
        # In a process of its own, which Marian may end.
        code = f"import _pymarian; _pymarian.main({convert!r})"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=out)
        (out / "model.npz").unlink()


def _layers(
    weights: dict[str, NDArray[Any]], part: str, num_layers: int, names: dict[str, str]
) -> dict[str, NDArray[Any]]:
    layers = {}
    for number in range(num_layers):
        for name, original in names.items():
            weight = weights[f"model.{part}.layers.{number}.{original}"]
            layers[f"{part}_l{number + 1}_{name}"] = weight.T if weight.ndim == 2 else weight[None]
    return layers


def _description(config: dict[str, Any], vocab_size: int) -> dict[str, Any]:
    """The configuration in a model file, as Marian's OPUS-MT models have it."""
    return {
        "type": "transformer",
        "version": "v1.12.0",
        "dim-vocabs": [vocab_size, vocab_size],
        "dim-emb": config["d_model"],
        "enc-depth": config["encoder_layers"],
        "dec-depth": config["decoder_layers"],
        "transformer-heads": config["encoder_attention_heads"],
        "transformer-dim-ffn": config["encoder_ffn_dim"],
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": "swish",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "transformer-no-projection": False,
        "transformer-no-bias": False,
        "transformer-no-affine": False,
        "tied-embeddings": False,
        "tied-embeddings-all": True,
        "tied-embeddings-src": False,
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "right-left": False,
        "skip": False,
        "ulr": False,
        "ulr-dim-emb": 0,
        "input-types": [],
    }


class MarianEngine:
    """A translator with a thread for each concurrent batch; takes and gives lines of words."""

    def __init__(self, folder: Path, row: Row) -> None:
        from pymarian import Translator

        os.chdir(folder / row.model)  # Marian's options are one line of words, and the folder's name has a space
        model = next(Path().glob("model.*"))
        self._num_workers = row.num_workers
        self._translator = Translator(
            f"-m {model} -v vocab.txt vocab.txt --cpu-threads {row.num_workers} --allow-unk --normalize 1 "
            "--maxi-batch 1 --maxi-batch-sort none --max-length 500 --workspace 256 --quiet --quiet-translation"
        )

    def prepare(self, sources: list[list[int]]) -> list[tuple[int, str]]:
        """Length and words of each sentence; Marian appends the end token."""
        return [(len(source), " ".join(f"t{token_id}" for token_id in source[:-1])) for source in sources]

    def translate(self, prepared: list[tuple[int, str]], job: Job) -> list[str]:
        answers: dict[int, str] = {}
        lengths = [[0] * length for length, _ in prepared]
        for together in in_batches(lengths, job.batch_size * self._num_workers):
            longest_first = together[::-1]
            dealt = [longest_first[number :: self._num_workers] for number in range(self._num_workers)]
            batches = [batch for batch in dealt if batch]
            longest = [prepared[batch[0]][0] for batch in batches]
            # The bound of each batch, rounded up, must be the required number of tokens.
            factor = (job.max_tokens - 0.001) / longest[0]
            fits = factor * longest[-1] > job.max_tokens - 1
            for several in [batches] if fits else [[batch] for batch in batches]:
                indices = [index for batch in several for index in batch]
                translated = self._translator.translate(
                    [prepared[index][1] for index in indices],
                    **{
                        "mini-batch": len(several[0]),
                        "beam-size": job.beam_size,
                        "max-length-factor": (job.max_tokens - 0.001) / prepared[indices[0]][0],
                    },
                )
                answers.update(zip(indices, translated, strict=True))
        return [answers[index] for index in range(len(prepared))]

    def token_ids(self, answers: list[str]) -> list[list[int]]:
        return [[UNKNOWN_ID if word == UNKNOWN else int(word[1:]) for word in answer.split()] for answer in answers]


ENGINE = MarianEngine
