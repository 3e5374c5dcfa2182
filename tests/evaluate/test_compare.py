"""Paired comparison: a worked example, its bootstrap, its notes."""

import json
import math

import numpy as np
import pytest

from polypath.core.errors import UserError
from polypath.core.files import to_json
from polypath.evaluate.compare import bootstrap_interval, compare, paired
from polypath.evaluate.summary import Summary

A, B = (1, 0.5, 0.75, 0.25, 0.5), (0.75, 0.5, 0.5, 0.25, 0.25)


def summary(values, metric="pass@1", ids=None):
    ids = ids or [f"p{i}" for i in range(len(values))]
    return Summary(tuple(ids), {metric: np.array(values, dtype=float)})


def test_worked_example_over_prompts():
    # differences .25 0 .25 0 .25: mean .15, sd = sqrt(.075/4), SE .0612, t(.975, 4) = 2.7764 -> .15 -+ .17
    result = compare({"B": {0: summary(B)}, "A": {0: summary(A)}}, baseline="B")
    d = result.difference("A", "pass@1")
    assert d.value == pytest.approx(0.15) and d.unit == "prompts" and d.n_prompts == 5
    assert (d.t.low, d.t.high) == (pytest.approx(-0.02, abs=5e-5), pytest.approx(0.32, abs=5e-5))
    assert any("descriptive only" in note for note in result.notes)


def test_over_seeds_by_hand():
    # per seed differences .1 .2 .3: mean .2, SE = .1/sqrt(3), t(.975, 2) = 4.3027 -> .2 -+ .2484
    arms = {"base": {s: summary([0.0, 0.0]) for s in range(3)}}
    arms["new"] = {s: summary([0.1 * (s + 1)] * 2) for s in range(3)}
    d = compare(arms).difference("new", "pass@1")
    assert d.unit == "seeds" and d.same_sign and d.per_seed == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3})
    assert d.t.high - d.t.value == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-6)
    assert compare(arms).notes == []


def test_bootstrap_is_deterministic_and_near_the_exact_resampling():
    # one seed: the bootstrap distribution of the mean of (.25 0 .25 0 .25) is Binomial(5, .6)/5 * .25
    matrix = np.array([[0.25, 0.0, 0.25, 0.0, 0.25]])
    first = bootstrap_interval(matrix, samples=4000, level=0.95, seed=1)
    assert first == bootstrap_interval(matrix, samples=4000, level=0.95, seed=1)
    # P(X <= 0) = .4^5 = .0102, P(X <= 1) = .087: the 2.5 % point is X = 1; P(X = 5) = .0778: the upper is X = 5
    assert (first.low, first.high) == (pytest.approx(0.05), pytest.approx(0.25))


def test_bootstrap_sees_the_spread_of_seeds_and_of_prompts():
    # equal prompts, seeds 0 0 1: resampled means are k/3 with k ~ Binomial(3, 1/3): P(0) = .296, P(3) = .037
    seeds = bootstrap_interval(np.array([[0.0] * 4, [0.0] * 4, [1.0] * 4]), samples=4000, level=0.95, seed=0)
    assert (seeds.low, seeds.high) == (0.0, 1.0)
    rng = np.random.default_rng(0)
    column = rng.normal(size=200)
    shared = bootstrap_interval(np.tile(column, (3, 1)), samples=2000, level=0.95, seed=0)
    # the same prompts in every seed are no new evidence: the width is that of 200 prompts, not of 600
    assert shared.high - shared.low == pytest.approx(2 * 1.96 * column.std() / math.sqrt(200), rel=0.1)


def test_pairs_by_prompt_id_and_leaves_out_the_undefined():
    a, b = summary([1.0, 0.5, math.nan], ids=["x", "y", "z"]), summary([0.25, 0.5, 0.5], ids=["y", "x", "z"])
    assert paired(a, b, "pass@1") == pytest.approx({"x": 0.5, "y": 0.25, "z": math.nan}, nan_ok=True)
    d = compare({"b": {0: b}, "a": {0: a}}).difference("a", "pass@1")
    assert d.value == pytest.approx(0.375) and d.n_prompts == 2
    undefined = compare({"b": {0: summary([math.nan])}, "a": {0: summary([math.nan])}}).differences[0]
    assert math.isnan(undefined.value) and math.isnan(undefined.bootstrap.low) and math.isnan(undefined.p)


def test_tokens_seeds_and_prompts_that_do_not_match_are_named():
    arms = {"b": {0: summary(B), 1: summary(B)}, "a": {0: summary(A), 2: summary(A[:4])}}
    notes = "\n".join(compare(arms, tokens={"a": 120, "b": 100}).notes)
    assert "a generated 120 tokens, b 100 (+20%): unequal budgets" in notes
    assert "seeds [1, 2]" in notes
    assert compare(arms, tokens={"a": 101, "b": 100}).notes == compare(arms).notes
    fewer = compare({"b": {0: summary(B)}, "a": {0: summary(A[:4])}})
    assert any("1 prompt(s)" in note for note in fewer.notes) and fewer.differences[0].n_prompts == 4


def test_holm_over_arms_and_json():
    rng = np.random.default_rng(0)
    arms = {"base": {s: summary(rng.random(8)) for s in range(4)}}
    arms |= {name: {s: summary(rng.random(8) + 0.3) for s in range(4)} for name in ("u", "v")}
    result = compare(arms)
    p, adjusted = [d.p for d in result.differences], [d.p_holm for d in result.differences]
    assert min(adjusted) == pytest.approx(min(1.0, 2 * min(p)))
    data = json.loads(to_json(result.to_json()))
    assert data["values"]["base"]["pass@1"]["n"] == 4 and len(data["differences"]) == 2


def test_user_errors():
    with pytest.raises(UserError, match="Did you mean base"):
        compare({"base": {0: summary(A)}}, baseline="bas")
    with pytest.raises(UserError, match="no seed in common"):
        compare({"b": {0: summary(A)}, "a": {1: summary(A)}})
    with pytest.raises(UserError, match="no prompt in common"):
        compare({"b": {0: summary([1.0], ids=["q"])}, "a": {0: summary([1.0])}})
