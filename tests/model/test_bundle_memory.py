"""The estimated memory of a loaded bundle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.artifacts.manifest import Precision
from model.artifacts.memory import loaded_bytes
from tests.app.fakes import MANIFEST

SHAPE = {"d_model": 256, "source_vocab_size": 32_000, "target_vocab_size": 32_000, "share_embeddings": True}


@pytest.mark.parametrize(
    ("precision", "file_bytes", "measured_bytes"),
    [("int8", 53_500_000, 62_700_000), ("float32", 67_900_000, 113_500_000), ("bfloat16", 34_500_000, 63_500_000)],
)
def test_the_estimate_is_close_to_what_was_measured(precision: Precision, file_bytes: int, measured_bytes: int) -> None:
    manifest = replace(MANIFEST, precision=precision, architecture={**SHAPE, "tie_output": True})
    assert loaded_bytes(file_bytes, manifest, "cpu") == pytest.approx(measured_bytes, rel=0.06)


def test_two_vocabularies_count_twice_and_int8_is_expanded_on_a_gpu() -> None:
    shared = replace(MANIFEST, precision="int8", architecture=SHAPE)
    separate = replace(shared, architecture={**SHAPE, "share_embeddings": False})
    assert loaded_bytes(10**8, separate, "cpu") - loaded_bytes(10**8, shared, "cpu") == 32_000 * 300
    assert loaded_bytes(10**8, shared, "cuda") - loaded_bytes(10**8, shared, "cpu") == 10**8
