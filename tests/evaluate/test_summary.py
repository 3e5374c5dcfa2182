"""The per-prompt summary by hand."""

import json
import math

import numpy as np
import pytest

from polypath.core.files import to_json
from polypath.core.record import Rollout
from polypath.evaluate.summary import Summary, summarise


def rollouts(prompt_id, canonicals, **fields):
    """One rollout per entry; None is a wrong answer that parsed to 'x'."""
    return [
        Rollout(
            prompt_id, prompt_id, i, c or "x", correct=c is not None, canonical=c or "x", ids=[1] * (i + 1), **fields
        )
        for i, c in enumerate(canonicals)
    ]


def test_by_hand():
    # p: a a b + 1 wrong of 4: pass@1 .75, pass@2 1, distinct 2 of 5 known, P(differ) = 2/3, mean length 2.5
    # q: 4 wrong: pass 0, distinct 0, pairwise undefined
    data = rollouts("p", ["a", "a", "b", None]) + rollouts("q", [None] * 4)
    solutions = {"p": frozenset("abcde"), "q": frozenset("ab")}
    for given in (solutions, solutions.__getitem__):
        s = summarise(data, ks=(1, 2, 8), solutions=given)
        assert s.prompt_ids == ("p", "q") and s.ks == (1, 2)
        assert s["pass@1"].tolist() == [0.75, 0.0] and s["pass@2"] == pytest.approx([1.0, 0.0])
        assert s["distinct"].tolist() == [2.0, 0.0] and s["coverage"] == pytest.approx([0.4, 0.0])
        assert s["pairwise_difference"] == pytest.approx([2 / 3, math.nan], nan_ok=True)
        assert s["length"].tolist() == [2.5, 2.5]
    assert s.mean("pairwise_difference").n == 1
    assert s.mean("pass@1").value == 0.375
    # v(n=4, c=3, k=1) = (1/4)^2 - 0 = 1/16, v(c=0) = 0: sqrt(1/16)/2
    assert s.sampling_se(1) == pytest.approx(0.125)
    assert math.isnan(s.sampling_se(4))


def test_unknown_is_nan_not_zero():
    s = summarise([Rollout("p", "g", 0, "t"), Rollout("p", "g", 1, "t", correct=True)], ks=(1,))
    for column in ("correct", "pass@1", "distinct", "coverage", "pairwise_difference", "length", "invalid"):
        assert np.isnan(s[column]).all(), column
    correct_without_form = summarise([Rollout("p", "g", 0, "t", correct=True)], ks=(1,))
    assert correct_without_form["pass@1"].tolist() == [1.0] and np.isnan(correct_without_form["distinct"]).all()
    assert math.isnan(s.sampling_se(1))


def test_shares_and_the_recorded_number_of_solutions():
    data = rollouts("p", ["a", None], status="truncated", extra={"n_solutions": 4})
    data += [Rollout("p", "p", 2, "", correct=False, extra={"n_solutions": 4})]
    s = summarise(data, ks=(1,))
    assert s["truncated"] == pytest.approx([2 / 3]) and s["invalid"] == pytest.approx([1 / 3])
    assert s["coverage"].tolist() == [0.25]


def test_empty_input_and_json_round_trip():
    assert summarise([]).prompt_ids == ()
    s = summarise(rollouts("p", ["a", None]) + rollouts("q", [None, None]), ks=(1, 2))
    text = to_json(s.to_json())
    back = Summary.from_json(json.loads(text))
    assert back.prompt_ids == s.prompt_ids
    for name, column in s.table.items():
        assert np.array_equal(back[name], column, equal_nan=True)
