"""Schedules against values by hand."""

import math

import pytest

from polypath.core.recipe import Call
from polypath.core.schedules import bind_at, constant, cosine, linear, value_at


@pytest.mark.parametrize("schedule", [linear, cosine])
def test_ends_are_exact_and_hold(schedule: object) -> None:
    values = [schedule(step, start=0.1, end=0.7, steps=3) for step in (-1, 0, 3, 100)]  # type: ignore[operator]
    assert values == pytest.approx([0.1, 0.1, 0.7, 0.7], abs=1e-15)
    assert schedule(0, start=1.0, end=2.0, steps=0) == 2.0  # type: ignore[operator]


def test_cosine_a_quarter_of_the_way() -> None:
    # (1 + cos(pi/4)) / 2 = (1 + sqrt(2)/2) / 2
    assert cosine(1, start=1.0, end=0.0, steps=4) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_constant() -> None:
    assert constant(7, value=0.25) == 0.25


def test_value_at_evaluates_schedules_and_nothing_else() -> None:
    ramp = Call("schedule", "linear", {"start": 0.0, "end": 4.0, "steps": 4})
    other = Call("fruit", "apple")
    assert [value_at(knob, 1) for knob in (ramp, 3, "x", None, other)] == [1.0, 3, "x", None, other]
    assert bind_at(Call("schedule", "constant", {"value": ramp}), 2)(0) == 2.0
