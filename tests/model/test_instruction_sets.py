"""The instruction sets of the compiled decoder: every set gives the same answers, and none reaches another's code."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from app.errors import SettingsError
from app.settings import load_settings
from model.artifacts.script import convert_in_place
from model.decoding.native import compiler, library
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.packed import NativeModel, make_native_model
from model.decoding.policy import DecodingPolicy
from model.errors import DeviceError
from model.network.transformer import Transformer
from model.translation.options import TranslationOptions
from tests.model.test_native import answers, decode_together, needs_library
from tests.model.test_shortlist import VOCAB, random_table
from tests.model.tiny import VOCABULARY, random_sources
from tests.model.torch_layers import randomise, small_config

pytestmark = pytest.mark.usefixtures("one_token_a_step")

FOUND = library.load_library()
USABLE = [] if FOUND is None else [one.name for one in library.instruction_sets(FOUND) if one.lacking is None]
EXACT = [name for name in USABLE if name != library.PORTABLE]
"""Sets whose float32 products round once where the portable set rounds twice."""

SHAPES: dict[str, dict[str, Any]] = {
    "heads of 32": {"d_model": 64, "num_heads": 2, "activation": "silu"},
    "no width a multiple of 16": {
        "d_model": 54,
        "num_heads": 3,
        "d_ff": 45,
        "activation": "gelu",
        "norm": "post",
        "decoder_num_heads": 2,
        "decoder_d_ff": 51,
    },
    "recurrent decoder": {"d_model": 72, "num_heads": 2, "decoder": "ssru", "start": "zero", "norm": "post"},
    "several blocks": {
        "d_model": 98,
        "num_heads": 1,
        "d_ff": 150,
        "source_vocab_size": VOCAB,
        "target_vocab_size": VOCAB,
    },
}


def models(
    shape: str, precision: Any, sets: list[str], shortlist: bool = False, signs_only: bool = False
) -> list[NativeModel]:
    """The same model for each of some sets. ``signs_only``: all weights have one magnitude, the largest of a row."""
    config = small_config(**SHAPES[shape])
    eager = Transformer(config, 0).eval()
    randomise(eager)
    if signs_only:
        with torch.no_grad():
            for weights in eager.parameters():
                weights.copy_(weights.sign() * 0.1)
    module = convert_in_place(eager, precision)
    table = random_table(6) if shortlist else None
    return [make_native_model(module, config, table, isa) for isa in sets]


def decoded(model: NativeModel, width: int) -> list[Any]:
    """Tokens, scores and searches of some sentences that join and leave."""
    sources = random_sources(16, vocab_size=20, seed=3, longest=35)
    options = TranslationOptions(
        decoding="greedy" if width == 1 else "beam",
        beam_size=width,
        num_hypotheses=width,
        return_scores=True,
        return_search=True,
        max_new_tokens=12,
    )
    group = NativeCohort(model, VOCABULARY, width, 30, DecodingPolicy())
    outcomes = decode_together(group, sources, [options] * len(sources))
    return [answers(outcomes[key]) for key in sorted(outcomes)]


def check_same_bits(actual: list[NativeModel]) -> None:
    sources = random_sources(6, vocab_size=20, seed=1, longest=35)
    targets = random_sources(6, vocab_size=20, seed=2, longest=35)
    first, *others = actual
    logits = [first.logits(*pair) for pair in zip(sources, targets, strict=True)]
    attention = first.attention(sources, targets)
    outcomes = [decoded(first, width) for width in (1, 3)]
    for other in others:
        name = other.instruction_set.name
        for expected, pair in zip(logits, zip(sources, targets, strict=True), strict=True):
            assert torch.equal(other.logits(*pair), expected), name
        for ours, theirs in zip(attention, other.attention(sources, targets), strict=True):
            assert torch.equal(ours, theirs), name
        assert [decoded(other, width) for width in (1, 3)] == outcomes, name


@needs_library
@pytest.mark.parametrize("shape", SHAPES)
def test_int8_answers_are_the_same_bits_with_every_set(shape: str) -> None:
    check_same_bits(models(shape, "int8", USABLE))


@needs_library
def test_int8_products_of_the_largest_weights_are_exact_with_every_set() -> None:
    check_same_bits(models("several blocks", "int8", USABLE, signs_only=True))


@needs_library
@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_answers_are_the_same_bits_with_every_set(shape: str) -> None:
    check_same_bits(models(shape, "bfloat16", USABLE))


@needs_library
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_answers_with_a_shortlist_are_the_same_bits_with_every_set(precision: Any) -> None:
    check_same_bits(models("several blocks", precision, USABLE, shortlist=True))


@needs_library
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_answers_are_the_same_bits_with_every_set_that_fuses(shape: str) -> None:
    check_same_bits(models(shape, "float32", EXACT))


@needs_library
def test_float32_answers_of_the_portable_set_have_the_same_tokens() -> None:
    portable, fastest = models("heads of 32", "float32", [library.PORTABLE, "auto"])
    for ours, theirs in zip(decoded(portable, 3), decoded(fastest, 3), strict=True):
        margins = [abs(a.score - b.score) for a, b in itertools.pairwise(theirs)]
        if min(margins) > 1e-4:
            assert [item.token_ids for item in ours] == [item.token_ids for item in theirs]
        assert [item.score for item in ours] == pytest.approx([item.score for item in theirs], abs=1e-4)


@needs_library
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_numbers_that_are_none_break_a_sentence_with_every_set(precision: Any) -> None:
    config = small_config(**SHAPES["no width a multiple of 16"])
    eager = Transformer(config, 0).eval()
    with torch.no_grad():
        eager.encoder[0].feed_forward.wide.bias[44] = float("nan")  # type: ignore[union-attr,operator]
    module = convert_in_place(eager, precision)
    for isa in USABLE:
        model = make_native_model(module, config, isa=isa)
        group = NativeCohort(model, VOCABULARY, 1, 30, DecodingPolicy())
        outcome = decode_together(group, [[5, 2]], [TranslationOptions(decoding="greedy")])[0]
        assert outcome.hypothesis is None, isa


@needs_library
def test_the_fastest_set_is_chosen_unless_another_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FOUND is not None
    monkeypatch.delenv(library.ISA_VARIABLE, raising=False)
    assert library.choose_instruction_set(FOUND).name == USABLE[0]
    for name in USABLE:
        monkeypatch.setenv(library.ISA_VARIABLE, name)
        assert library.choose_instruction_set(FOUND).name == name
        assert library.choose_instruction_set(FOUND, "auto").name == USABLE[0]


@needs_library
def test_a_set_that_is_unknown_or_cannot_run_is_refused_with_those_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FOUND is not None
    with pytest.raises(
        DeviceError, match=r"VERSO_ISA is 'avx9', and the compiled decoder has .*portable\. This machine can run"
    ):
        library.choose_instruction_set(FOUND, "avx9")
    existing = [library.InstructionSet(0, "avx512", "AVX-512"), library.InstructionSet(1, "avx2", None)]
    monkeypatch.setattr(library, "instruction_sets", lambda result: existing)
    with pytest.raises(DeviceError, match=r"avx512, and this processor has no AVX-512\. This machine can run avx2\."):
        library.choose_instruction_set(FOUND, "avx512")
    with pytest.raises(SettingsError, match=r"ISA.*'avx9'.*avx2.*portable"):
        load_settings({"VERSO_ISA": "avx9"})
    assert load_settings({"VERSO_ISA": "avx2"}).isa == "avx2"


@needs_library
def test_the_library_has_the_sets_that_the_compiler_made() -> None:
    assert FOUND is not None
    assert [instruction_set.name for instruction_set in library.instruction_sets(FOUND)] == list(compiler.sets())


@needs_library
def test_a_set_that_the_compiler_does_not_know_is_left_out(tmp_path: Path) -> None:
    source = tmp_path / "unit.cpp"
    source.write_text("int verso_nothing;\n")
    unit = compiler.Unit("known", source)
    flags = ("-mno-such-instructions",)
    unknown = compiler.Unit("unknown", source, flags, optional=True)
    command = compiler.find_compiler()
    assert compiler.compile_units(command, [unknown, unit], (), tmp_path) == [tmp_path / "known.o"]
    for parts, checked in (([unknown], compiler.CHECKED), ([compiler.Unit("needed", source, flags)], ())):
        with pytest.raises(compiler.CompilerFailed, match="no-such-instructions"):
            compiler.compile_units(command, parts, checked, tmp_path)


WIDE = re.compile(r"%zmm|%k[1-7]|%[xy]mm(?:1[6-9]|2\d|3[01])\b")
"""What only AVX-512 has. AVX2 also has %ymm."""


def instructions_of_units(path: Path) -> dict[str, str]:
    """The disassembly of each unit of a library.

    Local symbols follow the name of their file, in the order of linking.
    """
    symbols = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout
    owner: dict[int, str] = {}
    kernels = iter(compiler.sets())
    unit = ""
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) > 7 and fields[3] == "FILE":
            unit = next(kernels) if fields[7] == compiler.KERNELS.name else ""
        elif len(fields) > 7 and fields[3] == "FUNC" and fields[4] == "LOCAL" and unit:
            owner[int(fields[1], 16)] = unit
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    ).stdout
    result: dict[str, list[str]] = {unit.name: [] for unit in compiler.units()}
    current: list[str] = result["decoder"]  # what is not of a unit alone is everybody's
    for line in code.splitlines():
        if match := re.match(r"([0-9a-f]{16}) <", line):
            current = result[owner.get(int(match[1], 16), "decoder")]
        else:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in result.items()}


@needs_library
@pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("objdump"), reason="no x86, or no binutils, here"
)
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="sanitizers have inline functions of their own")
def test_a_set_has_no_instructions_of_a_larger_one() -> None:
    code = instructions_of_units(compiler.build_library())
    wide = {"avx512-bf16", "avx512-vnni", "avx512"}
    assert {name for name, text in code.items() if WIDE.search(text)} == wide
    assert {name for name, text in code.items() if "%ymm" in text} == {*wide, "avx-vnni", "avx2"}
    assert [name for name, text in code.items() if "vpdpbusd" in text] == ["avx512-bf16", "avx512-vnni", "avx-vnni"]
    assert [name for name, text in code.items() if "vdpbf16ps" in text] == ["avx512-bf16"]
    assert "vpmaddwd" in code["avx2"]


@needs_library
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nm"), reason="no binutils here")
def test_kernels_share_no_function_with_another_unit(tmp_path: Path) -> None:
    """The linker keeps one copy of a function that several units have, whichever instructions it is made of."""
    kernels = [unit for unit in compiler.units() if unit.source == compiler.KERNELS]
    # Without optimisation nothing is inlined, so that every function which is not of the unit alone shows.
    for path in compiler.compile_units(compiler.find_compiler(), kernels, (*compiler.FLAGS, "-O0", "-w"), tmp_path):
        symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        assert not [line for line in symbols.splitlines() if re.search(r" [wWvVuT] ", line)], path.stem
        assert "_GLOBAL__sub_I" not in symbols, "nothing runs before the processor is known"


@needs_library
@pytest.mark.slow
@pytest.mark.parametrize("name", USABLE)
def test_every_test_of_the_compiled_decoder_passes_with_every_set(name: str) -> None:
    root = Path(__file__).parents[2]
    tests = ["tests/model/test_native.py", "tests/model/test_shortlist.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    process = subprocess.run(
        command, cwd=root, env={**os.environ, library.ISA_VARIABLE: name}, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout[-3000:]
