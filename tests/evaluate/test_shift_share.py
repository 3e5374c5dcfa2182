"""The change of a success rate, split into where answers begin and how well they are finished."""

from __future__ import annotations

import math
import random

import pytest

from polypath.core.errors import UserError
from polypath.evaluate.shift_share import first_words, shift_share


def _arm(rows: dict[str, tuple[int, int]]) -> list[tuple[str, bool]]:
    return [(branch, i < right) for branch, (right, n) in rows.items() for i in range(n)]


def test_pure_allocation_and_pure_skill():
    before = {"p": _arm({"a": (3, 6), "b": (0, 4)})}
    moved = shift_share({"p": _arm({"a": (5, 10)})}, before)
    assert (moved.allocation.value, moved.skill.value) == (pytest.approx(0.2), 0.0)
    assert moved.unmatched.value == pytest.approx(0.2)  # branch b: none of one arm's answers, 4 of 10 of the other's
    better = shift_share({"p": _arm({"a": (6, 6), "b": (2, 4)})}, before)
    assert (better.allocation.value, better.skill.value) == (0.0, pytest.approx(0.5))
    assert better.unmatched.value == 0.0


def test_by_hand():
    # P from (.6, .4) to (.2, .8), s from (.5, 0) to (1, .25): -.4 x .75 + .4 x .125 = -.25; .5 x .4 + .25 x .6 = .35.
    found = shift_share({"p": _arm({"a": (2, 2), "b": (2, 8)})}, {"p": _arm({"a": (3, 6), "b": (0, 4)})})
    assert found.allocation.value == pytest.approx(-0.25)
    assert found.skill.value == pytest.approx(0.35)
    assert found.difference.value == pytest.approx(0.4 - 0.3)


def test_the_parts_add_up_and_change_sign_with_the_arms():
    rng = random.Random(3)
    arms = [
        {str(p): [(rng.choice("abcdef"), rng.random() < 0.4) for _ in range(rng.randint(1, 30))] for p in range(40)}
        for _ in range(2)
    ]
    found, back = shift_share(*arms), shift_share(*reversed(arms))
    rates = [{p: sum(c for _, c in rows) / len(rows) for p, rows in arm.items()} for arm in arms]
    assert found.difference.value == pytest.approx(sum(rates[0][p] - rates[1][p] for p in rates[0]) / 40)
    assert found.difference.value == pytest.approx(found.allocation.value + found.skill.value)
    assert found.allocation.value == pytest.approx(-back.allocation.value)
    assert found.skill.n == 40


def test_prompts_of_one_arm_alone_are_left_out_and_none_in_common_is_told():
    assert shift_share({"p": [("a", True)], "q": [("a", True)]}, {"p": [("a", True)], "q": []}).skill.n == 1
    assert math.isnan(shift_share({"p": [("a", True)]}, {"p": [("a", True)]}).skill.low)
    with pytest.raises(UserError, match="no common prompt"):
        shift_share({"p": [("a", True)]}, {"q": [("a", True)]})


def test_first_words():
    assert first_words("  café ☕\tb ", n=2) == "café ☕"
    assert first_words("", n=3) == ""
