"""Checkpoints that cannot be imported: one sentence with the error, its location and the remedy; no file is left."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from model.__main__ import main
from model.artifacts.manifest import Manifest
from model.decoding.policy import DecodingPolicy
from model.errors import ArtifactError, ModelError
from model.importing import importer
from model.importing.family import Overrides
from model.importing.importer import import_checkpoint
from model.text.hf_tokenizers import restore_tokenizer
from tests.archives import of_two_disks
from tests.model.importing.folders import FAMILIES, Copy, edit, edit_tensors

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[3]


PIECES = 165
"""Rows of the shared embedding of marian."""


def as_pickle(folder: Path, **options: Any) -> Path:
    """Move the weights of a folder into a pickle."""
    path = folder / "pytorch_model.bin"
    torch.save(load_file(folder / "model.safetensors"), path, **options)
    (folder / "model.safetensors").unlink()
    return path


def refused(folder: Path, *words: str, overrides: Overrides = Overrides()) -> str:  # noqa: B008  (frozen)
    """Import a folder that must be refused in one line with these words, without output; returns the message."""
    out = folder.parent / "out" / "bundle.verso"
    with pytest.raises(ArtifactError) as caught:
        import_checkpoint(folder, out, "float32", overrides=overrides, report=lambda line: None)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 500 + 3 * len(str(folder))
    for word in words:
        assert word in message
    assert not out.parent.exists() or not list(out.parent.iterdir())
    return message


@pytest.mark.parametrize("family", FAMILIES)
def test_an_undamaged_copy_is_imported(copy: Copy, family: str) -> None:
    overrides = Overrides(pairs=(("en", "fr"),)) if family == "multilingual" else Overrides()
    folder = copy(family)
    import_checkpoint(folder, folder / "bundle.verso", "float32", overrides=overrides, report=lambda line: None)


# --- the folder and its files


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "nothing", f"{tmp_path / 'nothing'} is not there", "config.json")


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_text("")
    refused(tmp_path / "model.bin", "is a file, not a folder")


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("marian", "config.json"),
        ("marian", "source.spm"),
        ("marian", "target.spm"),
        ("marian", "vocab.json"),
        ("separate", "target_vocab.json"),
        ("m2m100", "sentencepiece.bpe.model"),
        ("nllb", "sentencepiece.bpe.model"),
    ],
)
def test_a_missing_file_is_named(copy: Copy, family: str, name: str) -> None:
    folder = copy(family)
    (folder / name).unlink()
    refused(folder, f"{folder} has no {name}; download the whole checkpoint.")


def test_missing_weights_are_named(copy: Copy) -> None:
    folder = copy("marian")
    (folder / "model.safetensors").unlink()
    refused(folder, f"{folder} contains no weights", "model.safetensors", "pytorch_model.bin")


def test_nllb_without_any_list_of_languages_is_refused(copy: Copy) -> None:
    folder = copy("nllb")
    for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
        (folder / name).unlink()
    refused(folder, "names no language tokens", "tokenizer.json")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json", "vocab.json"])
@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "is not JSON"),
        ('{"d_model": 32', "is not JSON"),
        ("[1, 2]", "contains no JSON object"),
        ("null", "contains no JSON object"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe\xfd", "is not JSON"),
    ],
    ids=["empty", "cut", "list", "null", "nested", "bytes"],
)
def test_a_damaged_json_file_is_named(copy: Copy, name: str, content: str | bytes, word: str) -> None:
    folder = copy("marian")
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(folder, f"{folder / name} {word}", "download it again")


# --- config.json


@pytest.mark.parametrize(
    ("kind", "words"),
    [("bart", '"bart"'), ("t5", '"t5"'), (..., "null"), (["marian"], '["marian"]'), (7, "model_type 7")],
)
def test_other_architectures_are_named(copy: Copy, kind: Any, words: str) -> None:
    folder = copy("marian")
    edit(folder / "config.json", model_type=kind)
    refused(folder, str(folder / "config.json"), words, '["MarianMTModel"]', "'marian'", "'m2m_100'")


@pytest.mark.parametrize(
    "name",
    [
        "d_model",
        "encoder_layers",
        "decoder_layers",
        "encoder_attention_heads",
        "decoder_attention_heads",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "max_position_embeddings",
    ],
)
def test_a_missing_or_invalid_number_is_named(copy: Copy, name: str) -> None:
    folder = copy("marian")
    edit(folder / "config.json", **{name: ...})
    refused(folder, f"config.json has no {name}")
    for value in ("64", 64.0, True, [64], {"a": 1}):
        edit(folder / "config.json", **{name: value})
        refused(folder, f"config.json has {name} {json.dumps(value)}; it must be a whole number")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder_attention_heads": 5}, ("num_heads is 5", "d_model 32")),
        ({"encoder_attention_heads": 0}, ("num_heads is 0", "at least 1")),
        ({"activation_function": "gelu_new"}, ('activation_function "gelu_new"', "gelu, relu, silu, swish")),
        ({"dropout": "much"}, ('dropout "much"', "must be a number")),
        ({"dropout": 2}, ("dropout is 2", "below 1")),
        ({"scale_embedding": "false"}, ('scale_embedding "false"', "true or false")),
        ({"d_model": 10**12}, ("d_model is 1000000000000", "(165, 32)")),
        ({"encoder_layers": 10**9}, ("encoder_layers 1000000000", "those of 2")),
        ({"decoder_layers": 0}, ("decoder_layers is 0", "at least 1")),
        ({"encoder_ffn_dim": 10**12}, ("encoder_ffn_dim is 1000000000000", "(64, 32)")),
        ({"decoder_ffn_dim": 128}, ("decoder_ffn_dim is 128", "(64, 32)")),
        ({"max_position_embeddings": 10**9}, ("max_position_embeddings 1000000000", "at most 65536")),
        ({"vocab_size": 166}, ("vocab_size is 166", "165 rows")),
    ],
    ids=str,
)
def test_numbers_of_an_impossible_or_different_model_are_named(
    copy: Copy, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    folder = copy("marian")
    edit(folder / "config.json", **changes)
    refused(folder, "config.json", *words)


# --- weights: files


@pytest.mark.parametrize("size", [0, 7, 100, 100_000])
def test_a_truncated_safetensors_file_is_named(copy: Copy, size: int) -> None:
    folder = copy("marian")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    refused(folder, f"{path} is damaged", "download it again")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_pickle_is_reported_as_damaged_not_as_unsafe(copy: Copy, zipped: bool, share: float) -> None:
    folder = copy("marian")
    path = as_pickle(folder, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    message = refused(folder, f"{path} is damaged", "ownload it again")
    assert "its author" not in message


def test_weights_that_only_torch_takes_for_an_archive_are_imported(copy: Copy) -> None:
    folder = copy("marian")
    path = as_pickle(folder)
    path.write_bytes(of_two_disks(path.read_bytes()))
    import_checkpoint(folder, folder / "bundle.verso", "float32", report=lambda line: None)


class LeavesAMark:
    """Creates a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def write_zip(content: object, path: Path) -> None:
    torch.save(content, path)


def write_legacy(content: object, path: Path) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=False)


def write_plain(content: object, path: Path) -> None:
    path.write_bytes(pickle.dumps(content, protocol=2))


def write_plain_of_today(content: object, path: Path) -> None:
    path.write_bytes(pickle.dumps(content))


PICKLES = [write_zip, write_legacy, write_plain, write_plain_of_today]


@pytest.mark.parametrize("write", PICKLES)
@pytest.mark.parametrize("hidden", [False, True], ids=["alone", "among tensors"])
def test_code_in_a_pickle_is_refused_and_not_executed(
    copy: Copy, tmp_path: Path, write: Callable[[object, Path], None], hidden: bool
) -> None:
    folder = copy("marian")
    mark = tmp_path / "mark"
    (folder / "model.safetensors").unlink()
    trap = LeavesAMark(mark)
    content = {"model.shared.weight": trap, "lm_head.weight": torch.zeros(PIECES, 32)} if hidden else trap
    path = folder / "pytorch_model.bin"
    write(content, path)
    message = refused(folder, str(path), "run", "model.safetensors")
    assert not mark.exists()
    if write is not write_plain_of_today:  # torch does not read its opcodes at all
        assert "is refused" in message
        assert "mkdir" in message
    if write in (write_plain, write_plain_of_today):  # without the check the code would run
        pickle.loads(path.read_bytes())
        assert mark.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([torch.zeros(2)], "contains a list where names and tensors should be"),
        (torch.zeros(2), "contains a Tensor where"),
        ({}, "contains nothing where"),
        ({"model.shared.weight": "zeros"}, "contains a str under 'model.shared.weight'"),
        ({"state_dict": {"model.shared.weight": torch.zeros(2)}}, "contains a dict under 'state_dict'"),
        ({"model.shared.weight": torch.zeros(2), "epoch": 3}, "contains a int under 'epoch'"),
        ({"model.shared.weight": torch.zeros(2, 2).to_sparse()}, "torch.sparse_coo under 'model.shared.weight'"),
        ({"model.shared.weight": torch.zeros(2, 2, device="meta")}, "under 'model.shared.weight'"),
    ],
    ids=["list", "tensor", "empty", "strings", "nested", "training state", "sparse", "meta"],
)
@pytest.mark.parametrize("write", [write_zip, write_legacy])
def test_a_pickle_of_something_else_is_refused(
    copy: Copy, write: Callable[[object, Path], None], content: object, words: str
) -> None:
    folder = copy("marian")
    (folder / "model.safetensors").unlink()
    write(content, folder / "pytorch_model.bin")
    refused(folder, str(folder / "pytorch_model.bin"), words, "torch.save(model.state_dict())")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({"weight_map": {"a": "model-1.safetensors"}}, "has no model-1.safetensors"),
        ({"weight_map": {"a": "../elsewhere.safetensors"}}, "has no ../elsewhere.safetensors"),
        ({"weight_map": {"a": "../../../../../../../../etc/passwd"}}, "has no ../../"),
        ({"weight_map": {"a": "/etc/passwd"}}, "has no /etc/passwd"),
        ({"weight_map": {"a": ""}}, "has no"),
        ({"weight_map": {"a": "a\u0000b"}}, "has no"),
        ({"weight_map": {}}, "has no weight_map"),
        ({"weight_map": ["a"]}, "has no weight_map"),
        ({}, "has no weight_map"),
    ],
    ids=str,
)
def test_an_index_names_only_files_of_its_folder(copy: Copy, name: str, index: dict[str, Any], words: str) -> None:
    folder = copy("marian")
    shutil.move(folder / "model.safetensors", folder.parent / "elsewhere.safetensors")
    (folder / f"{name}.index.json").write_text(json.dumps(index))
    refused(folder, f"{name}.index.json", words)


# --- weights: tensors


@pytest.mark.parametrize(
    "name",
    [
        "model.shared.weight",
        "model.encoder.layers.0.self_attn.k_proj.weight",
        "model.decoder.layers.1.final_layer_norm.weight",
        "model.decoder.layer_norm.bias",
    ],
)
@pytest.mark.parametrize("cut", [False, True], ids=["missing", "a row short"])
def test_a_missing_or_truncated_tensor_is_named(copy: Copy, name: str, cut: bool) -> None:
    folder = copy("m2m100" if name.startswith("model.decoder.layer_norm") else "marian")

    def change(tensors: dict[str, Tensor]) -> None:
        complete = tensors.pop(name)
        if cut:
            tensors[name] = complete[:-1].clone()

    edit_tensors(folder, change)
    if cut and name == "model.shared.weight":
        refused(folder, name, "164 rows", "vocab.json numbers 165 pieces")
    elif cut:
        refused(folder, f"Tensor {name} has shape", "config.json")
    else:
        refused(folder, f"no tensor {name}" if "shared" not in name else name, "cut short")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("model.decoder.layers.0.fc2.weight", lambda x: x.T.contiguous(), ("(64, 32)", "(32, 64)")),
        ("model.encoder.layers.0.fc1.weight", lambda x: x.T.contiguous(), ("(32, 64)", "encoder_ffn_dim is 64")),
        ("model.encoder.layers.0.self_attn.q_proj.weight", lambda x: x[0].clone(), ("(32,)", "(32, 32)")),
        ("model.shared.weight", lambda x: x.T.contiguous(), ("(32, 165)", "165 pieces", "32 rows")),
        ("model.shared.weight", lambda x: x[:, :16].clone(), ("(165, 16)", "d_model is 32")),
        ("model.shared.weight", lambda x: x.flatten().clone(), ("(5280,)", "rows and columns")),
        ("final_logits_bias", lambda x: x[:, 1:].clone(), ("(1, 164)", "(165,)")),
    ],
)
def test_a_tensor_of_another_shape_is_named(
    copy: Copy, name: str, change: Callable[[Tensor], Tensor], words: tuple[str, ...]
) -> None:
    folder = copy("marian")
    edit_tensors(folder, lambda tensors: tensors.update({name: change(tensors[name])}))
    refused(folder, name, *(word for word in words if word != "(32, 165)"))


@pytest.mark.parametrize(
    "name", ["model.encoder.layernorm_embedding.weight", "model.encoder.layers.0.self_attn.relative.weight", "extra"]
)
def test_a_surplus_tensor_is_named(copy: Copy, name: str) -> None:
    folder = copy("marian")
    edit_tensors(folder, lambda tensors: tensors.update({name: torch.ones(32)}))
    refused(folder, f"1 tensors its architecture has no place for, such as {name}")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", ["model.shared.weight", "model.encoder.layers.0.fc1.weight", "final_logits_bias"])
def test_weights_of_an_unsupported_dtype_are_named(copy: Copy, name: str, dtype: torch.dtype) -> None:
    folder = copy("marian")
    edit_tensors(folder, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    refused(folder, f"Tensor {name} contains {dtype}", "floating point")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "name",
    [
        "model.shared.weight",
        "final_logits_bias",
        "model.encoder.layers.1.self_attn.v_proj.weight",
        "model.encoder.embed_positions.weight",
    ],
)
def test_numbers_that_are_not_finite_are_refused(copy: Copy, name: str, number: float) -> None:
    folder = copy("marian")

    def change(tensors: dict[str, Tensor]) -> None:
        tensors.setdefault(name, torch.zeros(400, 32)).view(-1)[17] = number

    edit_tensors(folder, change)
    refused(folder, f"Tensor {name} contains NaN or infinity", "damaged or diverged")


def test_numbers_too_large_for_float32_are_refused(copy: Copy) -> None:
    folder = copy("marian")
    name = "model.decoder.layers.0.fc1.bias"
    edit_tensors(folder, lambda tensors: tensors.update({name: torch.full((64,), 1e300, dtype=torch.float64)}))
    refused(folder, f"Tensor {name} contains NaN or infinity")


@pytest.mark.parametrize("shape", [(399, 32), (400, 31), (12_800,)])
def test_a_position_table_that_is_too_small_is_named(copy: Copy, shape: tuple[int, ...]) -> None:
    folder = copy("marian")
    name = "model.decoder.embed_positions.weight"
    edit_tensors(folder, lambda tensors: tensors.update({name: torch.zeros(shape)}))
    refused(folder, f"Tensor {name} has shape {shape}; config.json makes it (400, 32)")


# --- vocabulary


@pytest.mark.parametrize(
    ("family", "name", "words"),
    [
        ("marian", "vocab.json", ("vocab.json numbers {}", "model.shared.weight has 165 rows")),
        ("separate", "target_vocab.json", ("target_vocab.json numbers {}", "model.decoder.embed_tokens.weight has")),
        ("separate", "vocab.json", ("vocab.json numbers {}", "model.encoder.embed_tokens.weight has")),
    ],
)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_vocabulary_of_another_size_than_the_embedding_is_refused(
    copy: Copy, family: str, name: str, words: tuple[str, ...], change: int
) -> None:
    folder = copy(family)
    vocabulary = json.loads((folder / name).read_text())
    size = len(vocabulary) + change
    if change > 0:
        vocabulary["one more"] = size - 1
    else:
        del vocabulary[max(vocabulary, key=lambda piece: int(vocabulary[piece]))]
    (folder / name).write_text(json.dumps(vocabulary))
    refused(folder, *(word.format(size) for word in words), "different checkpoints")


@pytest.mark.parametrize("family", ["m2m100", "nllb"])
def test_tokens_without_a_row_are_refused(copy: Copy, family: str) -> None:
    folder = copy(family)
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    stored = rows - 9  # m2m100 has eight unused rows

    edit_tensors(
        folder,
        lambda tensors: tensors.update({name: x[:stored].clone() for name, x in tensors.items() if x.size(0) == rows}),
    )
    edit(folder / "config.json", vocab_size=stored)
    refused(folder, f"has {stored}", "the language tokens", "different checkpoints")


@pytest.mark.parametrize("piece", ["</s>", "<unk>", "<pad>"])
@pytest.mark.parametrize("family", ["marian", "separate", "m2m100"])
def test_a_missing_special_token_is_named(copy: Copy, family: str, piece: str) -> None:
    folder = copy(family)
    name = "target_vocab.json" if family == "separate" else "vocab.json"
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace(json.dumps(piece), '"something else"'))
    refused(folder, f"{name} has no {json.dumps(piece)}")


@pytest.mark.parametrize("entry", [["</s>"], 5, {"text": "</s>"}, True], ids=str)
def test_a_special_token_that_is_not_text_is_named(copy: Copy, entry: Any) -> None:
    folder = copy("marian")
    edit(folder / "tokenizer_config.json", eos_token=entry)
    refused(folder, f"eos_token {json.dumps(entry)}", "must be a token's text")


@pytest.mark.parametrize("family", ["marian", "m2m100"])
@pytest.mark.parametrize(
    ("token_id", "words"),
    [
        ("-1", ("the id -1", "whole numbers")),
        ("7.0", ("the id 7.0", "whole numbers")),
        ("null", ("the id null", "whole numbers")),
        ("8", ("id 8", "and to", "its own")),
        ("100000", ("no piece for id 7", "100000", "cut short")),
    ],
)
def test_an_impossible_token_id_is_named(copy: Copy, family: str, token_id: str, words: tuple[str, ...]) -> None:
    folder = copy(family)
    text = (folder / "vocab.json").read_text()
    (folder / "vocab.json").write_text(re.sub(r": 7\b", f": {token_id}", text, count=1))
    refused(folder, str(folder / "vocab.json"), *words)


def test_a_gap_in_the_token_ids_is_named(copy: Copy) -> None:
    folder = copy("marian")
    piece = next(piece for piece, token_id in json.loads((folder / "vocab.json").read_text()).items() if token_id == 9)
    edit(folder / "vocab.json", **{piece: ...})
    refused(folder, "no piece for id 9", "one for id 164", "cut short")


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("marian", "source.spm"),
        ("marian", "target.spm"),
        ("m2m100", "sentencepiece.bpe.model"),
        ("nllb", "sentencepiece.bpe.model"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", None], ids=str)
def test_a_damaged_sentencepiece_model_is_named(copy: Copy, family: str, name: str, content: bytes | None) -> None:
    folder = copy(family)
    complete = (folder / name).read_bytes()
    (folder / name).write_bytes(complete[: len(complete) // 2] if content is None else content)
    refused(folder, f"{name} is damaged: it is no SentencePiece model; download it again.")


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ({"5": {"content": "eng_Latn"}}, ("eng_Latn", "id 5", "sentencepiece.bpe.model")),
        ({"-900": {"content": "eng_Latn"}}, ('"eng_Latn"', '"-900"', "whole number")),
        ({"9x": {"content": "eng_Latn"}}, ('"eng_Latn"', '"9x"')),
        ({"200": {"text": "eng_Latn"}}, ("null", "200")),
        ({"200": "eng_Latn", "0200": "deu_Latn"}, ("one id to several added tokens",)),
        ({}, ("names no language tokens", "special_tokens_map.json")),
    ],
    ids=str,
)
def test_invalid_language_tokens_of_nllb_are_named(copy: Copy, tokens: dict[str, Any], words: tuple[str, ...]) -> None:
    folder = copy("nllb")
    (folder / "special_tokens_map.json").unlink()
    edit(folder / "tokenizer_config.json", added_tokens_decoder=tokens, additional_special_tokens=None)
    refused(folder, *words)


# --- generation


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"eos_token_id": [0, 5]}, ("eos_token_id [0, 5]", "one token's id")),
        ({"eos_token_id": 5}, ("eos_token_id 5", "end token is 0")),
        ({"forced_eos_token_id": 5}, ("forced_eos_token_id 5", "end token is 0")),
        ({"decoder_start_token_id": 165}, ("decoder_start_token_id 165", "0 to 164")),
        ({"bad_words_ids": [[165]]}, ("bad_words_ids 165", "0 to 164")),
        ({"bad_words_ids": [["<pad>"]]}, ('bad_words_ids "<pad>"', "0 to 164")),
        ({"bad_words_ids": [164]}, ("bad_words_ids [164]", "list of lists")),
        ({"suppress_tokens": [10**30]}, ("suppress_tokens 1000", "0 to 164")),
        ({"length_penalty": -1.0}, ("length_penalty -1.0", "0 to 10")),
        ({"length_penalty": float("inf")}, ("length_penalty Infinity", "must be a number")),
        ({"num_beams": 0}, ("num_beams 0", "1 to 64")),
        ({"early_stopping": "always"}, ('early_stopping "always"', "true or false")),
        ({"renormalize_logits": 1}, ("renormalize_logits 1", "true or false")),
    ],
    ids=str,
)
def test_invalid_decoding_rules_are_named(
    copy: Copy, file: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    folder = copy("marian")
    if file == "config.json":
        (folder / "generation_config.json").unlink()
    edit(folder / file, **changes)
    refused(folder, f"{file} has", *words)


@pytest.mark.parametrize("family", ["m2m100", "nllb"])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"eos_token_id": 0}, ("eos_token_id", "0", "2")),
        ({"pad_token_id": 0}, ("pad_token_id 0", "at 1")),
        ({"eos_token_id": [2, 3]}, ("eos_token_id [2, 3]",)),
        ({"decoder_start_token_id": 10**6}, ("decoder_start_token_id 1000000", "one token's id")),
    ],
    ids=str,
)
def test_special_tokens_that_contradict_the_vocabulary_are_refused(
    copy: Copy, family: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    folder = copy(family)
    (folder / "generation_config.json").unlink()
    edit(folder / "config.json", **changes)
    refused(folder, "config.json", *words)


# --- served languages


@pytest.mark.parametrize("source", ["roa", "mul", "ROMANCE", "fi_nb_no", "", ..., ["en"], None])
def test_languages_that_are_not_in_the_folder_must_be_named(copy: Copy, source: Any) -> None:
    folder = copy("marian")
    edit(folder / "tokenizer_config.json", source_lang=source)
    result = "null" if source is ... else json.dumps(source)
    refused(folder, f"source_lang {result} and target_lang", "--pair fr-en")


def test_a_target_that_is_a_group_must_be_named(copy: Copy) -> None:
    folder = copy("marian")
    edit(folder / "tokenizer_config.json", target_lang="gmq")
    refused(folder, 'target_lang "gmq"', "--pair")


def test_a_model_that_translates_to_its_own_language_alone_is_refused(copy: Copy) -> None:
    folder = copy("marian")
    edit(folder / "tokenizer_config.json", target_lang="eng")
    refused(folder, "the source en", "--pair")


@pytest.mark.parametrize(
    ("family", "overrides", "words"),
    [
        ("multilingual", Overrides(pairs=(("en", "es"),)), ("no language 'es'", "de, fr")),
        ("multilingual", Overrides(pairs=(("fr", "fr-CA"),)), ("fr to fr", "two languages")),
        ("multilingual", Overrides(languages=("en", "fr")), ("--languages", "--pair")),
        ("marian", Overrides(pairs=(("en", "de"), ("en", "fr"))), ("several targets", ">>language<<")),
        ("marian", Overrides(pairs=(("de", "de"),)), ("de to de", "two languages")),
        ("m2m100", Overrides(languages=("en", "tlh")), ("no language 'tlh'", "de, el, en")),
        ("m2m100", Overrides(languages=("en",)), ("en alone", "at least two")),
        ("m2m100", Overrides(languages=("en", "en-US")), ("en alone", "at least two")),
        ("m2m100", Overrides(pairs=(("en", "tlh"),)), ("no language 'tlh'",)),
        ("m2m100", Overrides(pairs=(("en", "en-GB"),)), ("en to en", "two languages")),
        ("nllb", Overrides(languages=("en", "tlh")), ("no language 'tlh'",)),
        ("nllb", Overrides(pairs=(("tlh", "en"),)), ("no language 'tlh'",)),
    ],
)
def test_languages_the_model_cannot_serve_are_named(
    copy: Copy, family: str, overrides: Overrides, words: tuple[str, ...]
) -> None:
    refused(copy(family), *words, overrides=overrides)


# --- the command line


def fails(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which must fail with one line; returns the line."""
    assert main(["import", *map(str, arguments), "--precision", "float32"]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    lines = [line for line in captured.err.splitlines() if not line.endswith("positions")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert "Traceback" not in captured.err
    return lines[0]


@pytest.mark.parametrize("damage", ["config.json", "source.spm", "model.safetensors", "vocab.json"])
def test_a_refusal_is_one_line_and_keeps_an_existing_bundle(
    copy: Copy, tmp_path: Path, capfd: pytest.CaptureFixture[str], damage: str
) -> None:
    folder = copy("marian")
    (folder / damage).write_bytes(b"damaged")
    out = tmp_path / "out" / "bundle.pt"
    out.parent.mkdir()
    out.write_bytes(b"an older bundle")
    assert damage in fails(capfd, folder, "--out", out)
    assert [path.name for path in out.parent.iterdir()] == ["bundle.pt"]
    assert out.read_bytes() == b"an older bundle"


@pytest.mark.parametrize("pair", ["en", "en-", "-de", "en-de-fr", "", "-", "en:", ":", "en:de:fr", "en--de"])
def test_a_malformed_pair_is_refused(copy: Copy, capfd: pytest.CaptureFixture[str], pair: str) -> None:
    folder = copy("marian")
    line = fails(capfd, folder, "--out", folder / "bundle.pt", f"--pair={pair}")
    assert f"--pair is {pair!r}; it must be two codes, like en-de" in line


# --- the disk


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("write", ["torch.jit.save", "shutil.copyfileobj", "os.replace"])
def test_a_full_disk_is_reported_and_leaves_no_file(
    copy: Copy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    write: str,
) -> None:
    folder = copy("marian")
    out = tmp_path / "out" / "bundle.pt"
    out.parent.mkdir()
    out.write_bytes(b"an older bundle")
    monkeypatch.setattr(write, full)
    assert main(["import", str(folder), "--out", str(out), "--precision", "float32"]) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == f"error: The bundle {out} could not be written: [Errno 28] No space left on device."
    assert [path.name for path in out.parent.iterdir()] == ["bundle.pt"]
    assert out.read_bytes() == b"an older bundle"


@pytest.mark.slow
def test_a_real_file_size_limit_is_reported_in_one_line(copy: Copy, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    folder = copy("marian")
    out = tmp_path / "out" / "bundle.pt"
    out.parent.mkdir()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    process = subprocess.run(
        [sys.executable, "-m", "model", "import", folder, "--out", out, "--precision", "float32"],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 1, process.stderr
    assert f"error: The bundle {out} could not be written: " in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr
    assert list(out.parent.iterdir()) == []


def test_a_folder_as_the_bundle_path_is_refused(copy: Copy, capfd: pytest.CaptureFixture[str]) -> None:
    folder = copy("marian")
    assert f"{folder} is a folder; --out names" in fails(capfd, folder, "--out", folder)


def test_a_file_as_the_folder_of_the_bundle_is_refused(copy: Copy, capfd: pytest.CaptureFixture[str]) -> None:
    folder = copy("marian")
    out = folder / "config.json" / "bundle.pt"
    assert f"{out} cannot be written: {out.parent}" in fails(capfd, folder, "--out", out)


def test_a_folder_that_is_not_writable_is_named_before_anything_is_read(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = copy("marian")
    (folder / "config.json").unlink()
    # The user who runs the tests may have all permissions.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    out = tmp_path / "bundle.pt"
    assert f"{out} cannot be written: {tmp_path}" in fails(capfd, folder, "--out", out)


# --- anything else


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 500),
    st.integers(),
    st.sampled_from([10**30, -(10**30), 10**400, 2**31, 2**63, 1e308, -0.0, 0.5, float("nan"), float("inf")]),
    st.text(max_size=5),
    st.sampled_from(["en", "eng", "mul", "relu", "marian", "m2m_100", "</s>", "</s>\n", "\ud800", "a" * 5000]),
    st.lists(st.one_of(st.integers(-1, 200), st.text(max_size=2), st.lists(st.integers(-1, 200))), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.fixed_dictionaries({"content": st.one_of(st.text(max_size=4), st.integers(), st.sampled_from(["</s>"]))}),
)


def write_without_weights(module: Any, manifest: Manifest, files: Mapping[str, bytes], out: Path) -> None:
    """Write only the manifest, after reading its parts back as a server does."""
    out.write_text(manifest.to_json())
    restored = Manifest.from_json(out.read_text())
    DecodingPolicy.from_dict(restored.decoding)
    restore_tokenizer(restored.tokenizer, files).encode(
        "a", restored.directions.targets[0], restored.directions.sources[0]
    )


READ = {
    "config.json": ["tie_word_embeddings", "length_penalty", "dropout", "bad_words_ids", "architectures"],
    "generation_config.json": ["length_penalty", "early_stopping", "suppress_tokens", "no_repeat_ngram_size"],
    "tokenizer_config.json": [
        "separate_vocabs",
        "eos_token",
        "unk_token",
        "pad_token",
        "bos_token",
        "language_codes",
        "legacy_behaviour",
        "clean_up_tokenization_spaces",
        "additional_special_tokens",
        "added_tokens_decoder",
    ],
}


@pytest.mark.parametrize("family", ["marian", "m2m100", "nllb"])
@pytest.mark.parametrize("name", READ)
def test_for_any_value_of_a_key_the_import_succeeds_or_is_refused_with_a_reason(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, family: str, name: str
) -> None:
    folder = copy(family)
    monkeypatch.setattr(importer, "write_bundle", write_without_weights)
    body = json.loads((folder / name).read_text())

    @settings(max_examples=20)
    @given(key=st.sampled_from(sorted({*body, *READ[name]})), value=ODD)
    @example(key="length_penalty", value=10**400)
    @example(key="additional_special_tokens", value=["eng_Latn", {"content": 5}, "\ud800"])
    @example(key="added_tokens_decoder", value={"5": {}})
    @example(key="model_type", value=["marian"])
    def imports_or_refuses(key: str, value: Any) -> None:
        (folder / name).write_text(json.dumps({**body, key: value}))
        message = "none"
        try:
            import_checkpoint(folder, folder / "bundle.verso", "float32", report=lambda line: None)
        except ModelError as error:
            message = str(error)
        assert len(message.splitlines()) == 1
        assert len(message) < 1000 + 3 * len(str(folder))

    imports_or_refuses()
