"""Fixtures for the tests of the model."""

from __future__ import annotations

import pytest

from model.decoding.native import cohort as native_cohort


@pytest.fixture
def one_token_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the compiled decoder takes one step, so that sentences join at every stage."""
    monkeypatch.setattr(native_cohort, "STEP_S", 0.0)
