"""Figures of contrast groups, pairs and ranks: by hand, and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.decide.group_metrics import (
    auroc,
    best_threshold,
    group_accuracy,
    group_spread,
    order_accuracy,
    pair_accuracy,
    pair_accuracy_fitted,
    ranked_probability_score,
)
from polypath.decide.metrics import brier, mean_nll


def test_order_and_pairs_by_hand():
    # .9 > .2 and .6 > .55 and .45 > .4 are in order, .3 < .35 is not: 3 of 4. At .5 only the first pair is right twice.
    plus, minus = np.array([0.9, 0.6, 0.45, 0.3]), np.array([0.2, 0.55, 0.4, 0.35])
    assert order_accuracy(plus, minus) == 0.75 and pair_accuracy(plus, minus) == 0.25
    assert order_accuracy(np.array([0.5]), np.array([0.5])) == 0.5  # a constant answer is at chance
    assert pair_accuracy(np.array([0.5]), np.array([0.5])) == 0  # p = .5 is a yes, as `Answer.best` takes it


def test_a_fitted_threshold_mends_a_shift_and_no_disorder():
    plus, minus = np.array([0.30, 0.32, 0.31, 0.33]), np.array([0.1, 0.11, 0.12, 0.13])
    assert pair_accuracy(plus, minus) == 0 and pair_accuracy_fitted(plus, minus) == 1
    assert pair_accuracy_fitted(minus, plus) == 0
    # halves: pairs 0 and 2, then 1 and 3; fitted on one pair each: (.9 + .2) / 2 = .55 sorts .6 | .5; .55 sorts .9 | .2
    assert pair_accuracy_fitted(np.array([0.9, 0.6]), np.array([0.2, 0.5])) == 1
    # all below the lowest cut but one: of the equally good cuts the first is taken
    assert best_threshold(np.array([0.2]), np.array([0.8])) == 0.2


def test_ranked_probability_score_by_hand():
    # cumulative .1, .3, .9 against 0, 0, 1: (.01 + .09 + .01) / 3 = .036667
    assert ranked_probability_score(np.array([0.1, 0.2, 0.6, 0.1]), 2) == pytest.approx(0.11 / 3)
    assert ranked_probability_score(np.array([1.0, 0, 0]), 2) == 1  # as far as can be
    assert ranked_probability_score(np.array([0, 1.0, 0]), 2) == 0.5  # nearer is better, unlike for Brier
    # with two levels it is half the Brier score
    assert ranked_probability_score(np.array([0.7, 0.3]), 0) == pytest.approx(brier([np.array([0.7, 0.3])], [0]) / 2)


def test_what_is_undefined_is_nan():
    none = np.array([])
    for value in (order_accuracy(none, none), pair_accuracy(none, none), pair_accuracy_fitted(none, none)):
        assert math.isnan(value)
    assert math.isnan(group_accuracy([], [])) and math.isnan(group_spread([0.1], ["a"]))
    assert math.isnan(auroc(np.array([0.1, 0.9]), np.array([1, 1])))  # one class only
    nan = np.array([math.nan, 0.9])
    assert math.isnan(auroc(nan, np.array([0, 1]))) and math.isnan(order_accuracy(nan, np.array([0.1, 0.2])))
    assert math.isnan(pair_accuracy(nan, np.array([0.1, 0.2]))) and math.isnan(pair_accuracy_fitted(nan, nan))
    assert math.isnan(ranked_probability_score(np.array([1.0]), 0))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_that_of_scikit_learn(rows):
    metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = np.array([s / 5 for s, _ in rows]), np.array([y for _, y in rows])
    found = auroc(scores, labels)
    if labels.all() or not labels.any():
        assert math.isnan(found)
    else:
        assert found == pytest.approx(metrics.roc_auc_score(labels, scores))


@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.integers(0, 1)), min_size=1, max_size=20))
def test_brier_and_nll_are_those_of_scikit_learn(rows):
    metrics = pytest.importorskip("sklearn.metrics")
    p = [np.array([1 - one, one]) for one, _ in rows]
    y = [label for _, label in rows]
    assert mean_nll(p, y) == pytest.approx(metrics.log_loss(y, np.array(p), labels=[0, 1]))
    ours = brier(p, y) / 2  # ours sums over both options
    assert ours == pytest.approx(metrics.brier_score_loss(y, [one for one, _ in rows], pos_label=1))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=20))
def test_a_group_is_right_when_its_worst_member_is(rows):
    worst: dict[int, bool] = {}
    for right, group in rows:
        worst[group] = min(worst.get(group, True), right)
    assert group_accuracy([r for r, _ in rows], [g for _, g in rows]) == pytest.approx(np.mean(list(worst.values())))
