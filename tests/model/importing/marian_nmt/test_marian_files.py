"""Reading damaged and hostile files of Marian: one sentence with the fault, and no more memory than the file."""

from __future__ import annotations

import contextlib
import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import ArtifactError
from model.importing.family import Overrides
from model.importing.importer import import_checkpoint
from model.importing.marian_nmt.binary import BinaryFile, is_binary_model
from model.importing.marian_nmt.checkpoint import find_model, read_checkpoint
from model.importing.marian_nmt.flat_yaml import read_flat_yaml
from model.importing.marian_nmt.items import MarianFile
from model.importing.marian_nmt.npz import NpzFile, is_npz_model
from model.importing.marian_nmt.sentencepiece_model import without_user_symbols
from tests.model.importing.marian_nmt.files import (
    DESCRIPTION,
    FLOAT32,
    INT8,
    INTGEMM8,
    Shape,
    binary,
    container,
    make_opus,
    make_student,
    npz,
    options_of,
    random_tensors,
)

SMALL = Shape(width=8, inner=8, heads=2, encoder=1, decoder=1)
SIZES = (12, 12)
TEXT = options_of(SMALL, SIZES)
TENSORS = random_tensors(SMALL, SIZES)


def written(folder: Path, content: bytes, name: str = "model.bin") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read_all(file: MarianFile) -> None:
    """Read everything that an import may read."""
    file.description()
    for name in file.names:
        if name != DESCRIPTION:
            file.item(name).floats()


def refused(read: Callable[[], object], *words: str) -> None:
    """The call must fail with one line that has these words."""
    with pytest.raises(ArtifactError) as caught:
        read()
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 700
    for word in words:
        assert word in message


def test_binary_and_npz_files_have_the_same_tensors(tmp_path: Path) -> None:
    files = [
        BinaryFile(written(tmp_path, binary(TENSORS, TEXT, int8=False))),
        NpzFile(written(tmp_path, npz(TENSORS, TEXT), "model.npz")),
    ]
    for file in files:
        assert set(file.names) == {*TENSORS, DESCRIPTION}
        assert file.description() == TEXT
        for name, tensor in TENSORS.items():
            assert file.shape(name) == tensor.shape
            assert np.array_equal(file.item(name).floats().numpy(), tensor)


def test_files_are_recognised_by_their_content(tmp_path: Path) -> None:
    for number, content in enumerate((binary(TENSORS, TEXT), npz(TENSORS, TEXT))):
        folder = tmp_path / str(number)
        folder.mkdir()
        # A shortlist, weights of torch, an archive of other arrays, nothing.
        written(folder, struct.pack("<6Q", 0xF11A48D5013417F5, 0, 50, 50, 1, 0), "lex.50.50.ende.s2t.bin")
        written(folder, b"\x80\x02}q\x00.", "pytorch_model.bin")
        sink = io.BytesIO()
        np.savez(sink, weights=np.zeros(3))
        written(folder, sink.getvalue(), "other.npz")
        written(folder, b"", "empty.bin")
        model = written(folder, content, "anything.bin")
        assert find_model(folder) == model
        assert is_binary_model(model) != is_npz_model(model)


@pytest.mark.parametrize("int8", [True, False])
def test_a_binary_file_that_was_cut_short_is_refused(tmp_path: Path, int8: bool) -> None:
    content = binary(TENSORS, TEXT, int8=int8)
    for length in [0, 7, 15, 16, 17, 47, 100, 1000, 3000, *range(5000, len(content), 1501), len(content) - 1]:
        path = written(tmp_path, content[:length])
        refused(lambda path=path: BinaryFile(path), str(path), "Download it again")  # type: ignore[misc]


def test_bytes_after_the_last_item_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, binary(TENSORS, TEXT) + b"\0")
    refused(lambda: BinaryFile(path), "1 bytes after the last item")


@pytest.mark.parametrize("value", [0, 1, 2**31, 2**40, 2**63, 2**64 - 1])
def test_no_number_of_a_binary_file_allocates_more_than_the_file(tmp_path: Path, value: int) -> None:
    content = binary(TENSORS, TEXT)
    for position in [*range(0, 16 + 32 * 8, 8), 16 + 32 * len(TENSORS)]:
        changed = bytearray(content)
        struct.pack_into("<Q", changed, position, value)
        if bytes(changed) == content:
            continue
        path = written(tmp_path, bytes(changed))
        tracemalloc.start()
        try:
            read_all(BinaryFile(path))
        except ArtifactError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 20 * len(content) + 1_000_000


@pytest.mark.parametrize(
    ("kind", "shape", "content", "words"),
    [
        (FLOAT32, (2, 3), bytes(20), ("needs 24 bytes and has 20",)),
        (INTGEMM8, (2, 3), bytes(6), ("needs 10 bytes and has 6",)),
        (FLOAT32, (2**31 - 1, 2**31 - 1, 2**31 - 1), bytes(16), ("needs",)),
        (FLOAT32, (0, 3), b"", ("has the shape (0, 3)",)),
        (FLOAT32, (-1, -24), bytes(24), ("has the shape (-1, -24)",)),
        (FLOAT32, (1,) * 9, bytes(4), ("has 9 dimensions",)),
        (0x10001, (2, 3), bytes(10), ("type 0x10001", "0x404", "0x4101")),
        (INTGEMM8, (1, 4), bytes(4) + struct.pack("<f", 0.0), ("multiplier 0.0",)),
        (INTGEMM8, (1, 4), bytes(4) + struct.pack("<f", float("nan")), ("multiplier nan",)),
        (INTGEMM8, (1, 4), bytes(4) + struct.pack("<f", float("inf")), ("multiplier inf",)),
        (INTGEMM8, (1, 4), bytes(4) + struct.pack("<f", 1e-45), ("multiplier",)),
        (INTGEMM8, (1, 4), b"\x80\0\0\0" + struct.pack("<f", 1.0), ("level -128",)),
        (INT8, (1, 4), bytes(4), ("type 0x101",)),
        (FLOAT32, (1, 1), struct.pack("<f", float("nan")), ("NaN",)),
    ],
)
def test_an_item_that_contradicts_itself_is_refused(
    tmp_path: Path, kind: int, shape: tuple[int, ...], content: bytes, words: tuple[str, ...]
) -> None:
    path = written(tmp_path, container([("a_W", kind, shape, content), (DESCRIPTION, INT8, (1,), b"\0")]))
    refused(lambda: read_all(BinaryFile(path)), *words)


def test_names_of_items_are_checked(tmp_path: Path) -> None:
    item = (FLOAT32, (1, 1), bytes(4))
    twice = written(tmp_path, container([("a", *item), ("a", *item)]), "twice.bin")
    refused(lambda: BinaryFile(twice), "the item a twice")
    for name in ("", "a\0b", "ä", "x" * 300):
        path = written(tmp_path, container([(name, *item)]).replace("ä".encode(), b"\xc3\xa4"))
        refused(lambda path=path: BinaryFile(path), "name")  # type: ignore[misc]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6), st.booleans())
def test_changed_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], zipped: bool
) -> None:
    content = bytearray(npz(TENSORS, TEXT) if zipped else binary(TENSORS, TEXT))
    for position, value in changes:
        content[position % (len(content) if zipped else 2500)] = value
    path = written(tmp_path_factory.mktemp("changed"), bytes(content))
    with contextlib.suppress(ArtifactError):
        read_all((NpzFile if zipped else BinaryFile)(path))


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", compression) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return sink.getvalue()


def array(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """An array in numpy's format with any header."""
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + content


FLOATS = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ()),
        (b"no array", ("magic string",)),
        (array(FLOATS, bytes(12)), ("has 12 bytes",)),
        (array(FLOATS, bytes(20)), ("has 20 bytes",)),
        (array(FLOATS.replace("<f4", "|O"), bytes(32)), ("type object",)),
        (array(FLOATS.replace("<f4", "<f8"), bytes(32)), ("type float64",)),
        (array(FLOATS.replace("<f4", ">f4"), bytes(16)), ("type >f4",)),
        (array(FLOATS.replace("False", "True"), bytes(16)), ("order",)),
        (array(FLOATS.replace("(2, 2)", "(0, 2)")), ("shape",)),
        (array(FLOATS.replace("(2, 2)", "(-2, -2)"), bytes(16)), ("shape",)),
        (array(FLOATS.replace("(2, 2)", "()"), bytes(4)), ("shape",)),
        (array(FLOATS.replace("(2, 2)", f"({10**30}, 2)"), bytes(16)), ("bytes",)),
        (array(FLOATS.replace("(2, 2)", "__import__('os').getcwd()"), bytes(16)), ()),
        (array("[" * 5000, bytes(16)), ()),
        (array("x" * 20_000, bytes(16)), ()),
        (array(FLOATS, bytes(16), b"\x09\x00"), ()),
        (array(FLOATS, bytes(16), b"\x02\x00")[:9], ()),
    ],
)
def test_an_array_that_is_not_one_is_refused(tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    path = written(tmp_path, archive({"a.npy": content, f"{DESCRIPTION}.npy": array(FLOATS, bytes(16))}), "model.npz")
    refused(lambda: read_all(NpzFile(path)), "model.npz", *words)


def test_an_archive_whose_members_are_larger_than_it_is_refused(tmp_path: Path) -> None:
    compressed = written(tmp_path, archive({"a.npy": array(FLOATS, bytes(10**6))}, zipfile.ZIP_DEFLATED), "a.npz")
    refused(lambda: NpzFile(compressed), "larger than the file")
    incompressible = np.random.default_rng(1).bytes(3000)
    small = written(tmp_path, archive({"a.npy": incompressible, "b.npy": bytes(20)}, zipfile.ZIP_DEFLATED), "b.npz")
    refused(lambda: NpzFile(small), "compressed")
    members = {"a.npy": array(FLOATS, bytes(16)), "b.npy": array(FLOATS, bytes(16))}
    twice = written(tmp_path, archive(members).replace(b"b.npy", b"a.npy"), "c.npz")
    refused(lambda: NpzFile(twice), "the array a twice")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "s2s"}, ('type "s2s"', '"transformer" can be imported')),
        ({"type": ...}, ('type ""',)),
        ({"dec-cell": "gru"}, ('dec-cell "gru"', '"ssru"')),
        ({"transformer-decoder-autoreg": "average-attention"}, ("average-attention", '"rnn", "self-attention"')),
        ({"transformer-ffn-activation": "gelu"}, ('transformer-ffn-activation "gelu"', '"relu", "swish"')),
        ({"transformer-ffn-depth": "3"}, ('transformer-ffn-depth "3"', '"2"')),
        ({"transformer-postprocess": "da"}, ('transformer-postprocess "da"', '"dan"')),
        ({"transformer-preprocess": "n"}, ('transformer-preprocess "n"',)),
        ({"transformer-postprocess-top": "n"}, ('transformer-postprocess-top "n"',)),
        ({"transformer-postprocess-emb": "dn"}, ('transformer-postprocess-emb "dn"',)),
        ({"transformer-train-position-embeddings": "true"}, ("transformer-train-position-embeddings",)),
        ({"transformer-no-projection": "true"}, ("transformer-no-projection",)),
        ({"transformer-rnn-projection": "true"}, ("transformer-rnn-projection",)),
        ({"transformer-tied-layers": "[1, 1]"}, ('transformer-tied-layers "[1, 1]"',)),
        ({"layer-normalization": "true"}, ("layer-normalization",)),
        ({"input-types": "[sequence, class]"}, ("input-types",)),
        ({"lemma-dim-emb": "-1"}, ("lemma-dim-emb",)),
        ({"ulr": "true"}, ('ulr "true"',)),
        ({"right-left": "true"}, ("right-left",)),
        ({"dim-vocabs": "[12]"}, ("dim-vocabs",)),
        ({"dim-vocabs": "[12, 12, 12]"}, ("dim-vocabs",)),
        ({"dim-vocabs": "12"}, ("dim-vocabs",)),
        ({"dim-vocabs": "[12, 13]"}, ("dim-vocabs",)),
        ({"dim-emb": "0"}, ("dim-emb",)),
        ({"dim-emb": "1e3"}, ("dim-emb",)),
        ({"dim-emb": "1000000000"}, ("dim-emb",)),
        ({"enc-depth": "999999999"}, ("enc-depth",)),
        ({"enc-depth": "2"}, ("encoder_l2_self_Wq",)),
        ({"dec-depth": ...}, ("dec-depth",)),
        ({"transformer-heads": "3"}, ("num_heads",)),
        ({"transformer-dim-ffn": "9"}, ("encoder_l1_ffn_W1", "(8, 9)")),
        ({"tied-embeddings-all": "maybe"}, ("tied-embeddings-all",)),
        ({"tied-embeddings-all": "false"}, ("decoder_ff_logit_out_W",)),
        ({"x": "*a"}, ("YAML", "reference")),
        ({"x": "[" * 30_000}, ("YAML", "nested")),
        ({"x": "a" * 70_000}, ("65536",)),
    ],
)
def test_an_unsupported_option_is_named_with_its_value(
    tmp_path: Path, options: dict[str, str], words: tuple[str, ...]
) -> None:
    written(tmp_path, npz(TENSORS, options_of(SMALL, SIZES, **options)), "model.ende.npz")
    out = tmp_path / "out.verso"
    if "enc-depth" in options or "transformer-dim-ffn" in options:  # found while weights are read
        make_student(tmp_path / "folder", SMALL, int8=False, options=options)
        refused(lambda: import_checkpoint(tmp_path / "folder", out, "float32", report=lambda line: None), *words)
    else:
        model = find_model(tmp_path)
        assert model is not None
        refused(lambda: read_checkpoint(model, Overrides()), *words)
    assert not out.exists()


def test_tensors_without_a_place_are_refused(tmp_path: Path) -> None:
    make_student(tmp_path, SMALL, int8=False)
    with np.load(tmp_path / "model.ende.npz") as arrays:
        tensors = {name: arrays[name] for name in arrays.files}
    np.savez(tmp_path / "model.ende.npz", **tensors, decoder_l1_rnn_Wo=np.zeros((8, 8), np.float32))
    refused(
        lambda: import_checkpoint(tmp_path, tmp_path / "out.verso", "float32", report=lambda line: None),
        "decoder_l1_rnn_Wo",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "opus.vocab.yml").write_text("</s>: 0\n<unk>: 0\n"), ("without gaps",)),
        (lambda folder: (folder / "opus.vocab.yml").write_text("</s>: 0\n<unk>: one\n"), ("whole number",)),
        (lambda folder: (folder / "opus.vocab.yml").write_text("</s>: 0\n<unk>: 1\n"), ("different models",)),
        (lambda folder: (folder / "opus.vocab.yml").write_text("a: 0\n"), ("</s>",)),
        (lambda folder: (folder / "opus.vocab.yml").write_bytes(b"\xff\xfe"), ("not a vocabulary",)),
        (lambda folder: (folder / "opus.vocab.yml").unlink(), ("different models",)),
        (lambda folder: (folder / "source.spm").unlink(), ("source.spm",)),
        (lambda folder: (folder / "target.spm").write_bytes(b"\x0a\xff"), ("target.spm",)),
        (lambda folder: (folder / "decoder.yml").write_text("normalize: x\n"), ("normalize",)),
        (lambda folder: (folder / "decoder.yml").write_text("beam-size: 1000\n"), ("beam-size",)),
        (lambda folder: (folder / "decoder.yml").write_text("[a]"), ("decoder.yml",)),
        (lambda folder: (folder / "decoder.yml").write_text("a: b\n" * 20_000), ("65536",)),
    ],
)
def test_damaged_files_beside_a_model_are_named(
    tmp_path: Path, change: Callable[[Path], object], words: tuple[str, ...]
) -> None:
    make_opus(tmp_path)
    change(tmp_path)
    model = find_model(tmp_path)
    assert model is not None
    refused(lambda: read_checkpoint(model, Overrides((("en", "de"),))), *words)


def test_pieces_that_look_like_yaml_values_are_text() -> None:
    entries = dict(read_flat_yaml('no: 0\n1e5: 1\n<<: 2\n"\\"": 3\nnull: 4\n2020-01-01: 5\n"▁é": 6\n\'*\': 7\n'))
    assert entries == {
        "no": "0",
        "1e5": "1",
        "<<": "2",
        '"': "3",
        "null": "4",
        "2020-01-01": "5",
        "▁é": "6",
        "*": "7",
    }


def test_nested_values_are_left_out() -> None:
    assert dict(read_flat_yaml("a: 1\nb: {c: [d, {e: f}]}\ng: [h, [i], j]\nk: [l, m]\n")) == {"a": "1", "k": ["l", "m"]}


@pytest.mark.parametrize("content", [b"\x0a", b"\x0a\x05\x0a", b"\xff" * 20, b"\x0b", b"\x0a\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_protocol_buffer_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut short|field|number"):
        without_user_symbols(content)
