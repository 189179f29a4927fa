"""The threads that share one product: every piece is computed once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from model.decoding.native import library
from model.decoding.native.compiler import FLAGS, find_compiler

ROOT = Path(__file__).parents[2]
PROGRAM = """
#include <vector>

#include "tests/fuzz/native/pool.h"

int main() {
  for (int seed = 0; seed < 20; seed++) {
    Sequence random(seed);
    std::vector<uint8_t> bytes(1000);
    for (uint8_t& byte : bytes) byte = (uint8_t)random.next();
    Bytes in(bytes.data(), bytes.size());
    fuzz_pool(in);
  }
}
"""


@pytest.mark.skipif(library.load_library() is None, reason="no x86 processor, or no C++ compiler, here")
def test_a_late_helper_takes_no_piece_of_the_next_product(tmp_path: Path) -> None:
    source, program = tmp_path / "pool.cpp", tmp_path / "pool"
    source.write_text(PROGRAM)
    # Without optimisation a helper is late more often.
    subprocess.run([*find_compiler(), *FLAGS, "-O0", f"-I{ROOT}", "-o", str(program), str(source)], check=True)
    process = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
