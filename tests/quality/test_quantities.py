"""The generated sentences of numbers, dates and times, and the grades of their translations."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal

import numpy as np
import pytest

pytest.importorskip("babel")

from benchmarks.quality.quantity_cases import Case, quantity_cases
from benchmarks.quality.quantity_forms import Forms, amount_forms, date_forms, time_forms


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("de", "en")])
def test_sentences_are_of_all_kinds_and_the_same_for_a_seed(source: str, target: str) -> None:
    first, second = (quantity_cases(source, target, 160, np.random.default_rng(1)) for _ in range(2))
    assert first == second
    assert len({case.kind for case in first}) == 16
    assert all(any(map(str.isdigit, case.source)) for case in first)


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("de", "en")])
def test_a_translation_with_a_proper_form_of_each_value_is_right(source: str, target: str) -> None:
    for case in quantity_cases(source, target, 160, np.random.default_rng(2)):
        answer = ", ".join(value.proper[0].rstrip("*") for value in case.values)
        assert case.grade(f"x {answer} x") == (True, True), case


@pytest.mark.parametrize(
    ("value", "answer", "grade"),
    [
        (amount_forms(Decimal("1250.50"), "USD", "de"), "Es kostet 1.250,50 $.", (True, True)),
        (amount_forms(Decimal("1250.50"), "USD", "de"), "Es kostet $1.250,50.", (True, False)),
        (amount_forms(Decimal("1250.50"), "USD", "de"), "Es kostet $1.250.50.", (False, False)),
        (date_forms(date(2021, 5, 12), "en"), "on 12 May 2021", (True, True)),
        (date_forms(date(2021, 5, 12), "en"), "on 12.05.2021", (True, False)),
        (date_forms(date(2021, 5, 12), "en"), "on 12/05/2021", (False, False)),
        (time_forms(time(14, 30), "de"), "um 14.30 Uhr", (True, True)),
        (time_forms(time(14, 30), "de"), "um 2:30 Uhr", (False, False)),
        (time_forms(time(9), "en"), "at 9 a.m. and 10", (False, False)),
    ],
)
def test_a_form_of_the_other_language_may_be_readable(value: Forms, answer: str, grade: tuple[bool, bool]) -> None:
    assert Case("any", "", (value,)).grade(answer) == grade
