"""The router's thresholds against brute force, its worked numbers, and what must never happen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.decide import route
from polypath.decide.debias import binomial_upper
from polypath.decide.gain import ExpertiseTree, fit_gain, fit_logistic, gain_from_json

ITEMS = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=30)


def columns(items):
    return (np.array([float(row[i]) for row in items]) for i in range(3))


def brute(confidence, correct, reasoner, threshold):
    """Share and accuracy by walking over the items."""
    sent = [c <= threshold for c in confidence]
    final = [r if s else d for s, d, r in zip(sent, correct, reasoner, strict=True)]
    return sum(sent) / len(sent), sum(final) / len(final)


@given(ITEMS)
def test_curve_is_every_threshold_by_brute_force(items):
    confidence, correct, reasoner = columns(items)
    curve = route.routing_curve(confidence, correct, reasoner)
    assert curve.share[0] == 0 and curve.share[-1] == 1 and (np.diff(curve.share) > 0).all()
    for threshold, share, accuracy in zip(curve.threshold, curve.share, curve.accuracy, strict=True):
        assert (share, accuracy) == pytest.approx(brute(confidence, correct, reasoner, threshold))


@given(ITEMS, st.floats(0, 1))
def test_budget_is_kept_and_used_up(items, share):
    confidence, _, _ = columns(items)
    threshold = route.budget_threshold(confidence, share=share)
    sent = (confidence <= threshold).mean()
    assert sent <= share + 1e-9
    more = confidence[confidence > threshold]
    assert not len(more) or (confidence <= more.min()).mean() > share  # the next tie would be too much


@given(ITEMS, st.sampled_from([0.5, 0.9, 1.0]))
def test_recover_is_the_smallest_share_that_suffices(items, wanted):
    confidence, correct, reasoner = columns(items)
    threshold = route.recover_threshold(confidence, correct, reasoner, recovered=wanted)
    lead = reasoner.mean() - correct.mean()
    if lead <= 0:
        assert threshold == -math.inf
        return
    shares = [
        share
        for t in [-math.inf, *confidence]
        for share, accuracy in [brute(confidence, correct, reasoner, t)]
        if accuracy - correct.mean() >= wanted * lead - 1e-9
    ]
    assert (confidence <= threshold).mean() == pytest.approx(min(shares))


def test_risk_is_certified_by_the_exact_bound():
    # 100 sure and right, 20 unsure and wrong: 0 of 100 errors has the upper bound 0.0295, 20 of 120 is far beyond 5 %.
    confidence = np.r_[np.full(100, 0.9), np.full(20, 0.4)]
    correct = np.r_[np.ones(100), np.zeros(20)]
    threshold = route.risk_threshold(confidence, correct, risk=0.05)
    assert (confidence <= threshold).tolist() == [False] * 100 + [True] * 20
    assert binomial_upper(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert route.risk_threshold(confidence[:30], correct[:30]) == math.inf  # 30 without an error certify nothing


def test_utility_worked_number():
    # (1 - p - .08) * 10 > 1 where p < .82
    threshold = route.utility_threshold(error_cost=10, routing_cost=1, reasoner_error=0.08)
    assert 0.8199 <= threshold < 0.82 + 1e-12
    assert route.gain_threshold(error_cost=10, routing_cost=1) == pytest.approx(-0.1)


def test_figures_by_hand():
    # Threshold .6 sends items 1 and 2: one mended, one damaged.
    confidence, correct, reasoner = np.array([0.9, 0.6, 0.5, 0.7]), np.array([1, 0, 1, 0]), np.array([1, 1, 0, 1])
    found = route.routing_figures(confidence, correct, reasoner, 0.6, decision_cost=1, reasoner_cost=9)
    assert found["share"] == 0.5 and found["accuracy"] == 0.5 and found["damaged"] == found["mended"] == 1
    assert found["recovered"] == 0.0 and found["kept_error"] == 0.5 and found["random_accuracy"] == 0.625
    assert found["cost"] == 5.5 and found["cost_share"] == 0.55 and found["cost_per_correct"] == 11


def test_no_lead_is_undefined():
    found = route.routing_figures(np.array([0.5, 0.6]), np.array([1, 1]), np.array([1, 0]), 1.0)
    assert math.isnan(found["recovered"]) and math.isnan(found["mean_recovered"]) and math.isnan(found["kept_error"])
    assert math.isnan(route.share_for(route.routing_curve([0.5], [1], [0]), 0.5))


@pytest.mark.parametrize(
    "call",
    [
        lambda: route.routing_curve(np.array([]), np.array([]), np.array([])),
        lambda: route.routing_curve(np.array([0.5, math.nan]), np.ones(2), np.ones(2)),
        lambda: route.routing_curve(np.array([0.5]), np.ones(2), np.ones(2)),
        lambda: route.budget_threshold(np.array([0.5]), share=1.5),
        lambda: route.utility_threshold(error_cost=0, routing_cost=1, reasoner_error=0),
        lambda: fit_gain(np.ones((3, 2)), np.ones(3), np.ones(3)),
        lambda: fit_gain(np.full((40, 2), math.nan), np.ones(40), np.ones(40)),
        lambda: gain_from_json({"centre": [1]}, "router.json"),
        lambda: ExpertiseTree(2, []).learn(np.ones(1), np.array([0.5, 2.0])),
        lambda: ExpertiseTree(0, []),
    ],
)
def test_bad_input_is_a_user_error(call):
    with pytest.raises(UserError):
        call()


def test_logistic_equals_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 3))
    y = (generator.uniform(size=200) < 1 / (1 + np.exp(-(x @ [1, -2, 0] + 0.5)))).astype(float)

    def loss(w):
        return np.logaddexp(0, -(2 * y - 1) * (x @ w[:3] + w[3])).sum() + 0.5 * (w[:3] ** 2).sum()

    expected = optimize.minimize(loss, np.zeros(4), tol=1e-10).x
    np.testing.assert_allclose(fit_logistic(x, y, penalty=1.0), expected, atol=1e-4)


def test_gain_finds_where_the_reasoner_helps_though_confidence_does_not():
    # Feature 0 is the confidence, the same everywhere; feature 1 tells the half where the reasoner is right.
    generator = np.random.default_rng(1)
    x = np.column_stack([generator.uniform(size=400), generator.integers(0, 2, 400)])
    correct = (generator.uniform(size=400) < 0.5).astype(float)
    reasoner = np.where(x[:, 1] == 1, 1.0, 0.0)
    model = gain_from_json(fit_gain(x[:200], correct[:200], reasoner[:200]).to_json(), "")
    gain = model.gain(x[200:])
    by_gain = route.routing_curve(-gain, correct[200:], reasoner[200:])
    by_confidence = route.routing_curve(x[200:, 0], correct[200:], reasoner[200:])
    assert by_gain.accuracy.max() > by_confidence.accuracy.max() + 0.15
    assert gain[x[200:, 1] == 1].min() > 0.2 and gain[x[200:, 1] == 0].max() < -0.2


def test_expertise_tree_finds_the_region_of_each_expert():
    # Expert 0 is right below .5 of feature 1, expert 1 above; feature 0 is noise. Without a split, both lose half.
    generator = np.random.default_rng(2)
    tree = ExpertiseTree(2, [(0, 0.5), (1, 0.5)])
    late = []
    for step in range(600):
        x = generator.uniform(size=2)
        losses = np.array([x[1] > 0.5, x[1] <= 0.5], dtype=float)
        if step >= 300:
            late.append(tree.weights(x) @ losses)
        tree.learn(x, losses)
    assert tree.splits()[0] == (1, 0.5) and np.mean(late) < 0.05
    assert tree.weights(np.array([0.1, 0.9]))[1] > 0.95


def test_expertise_tree_does_not_split_on_noise():
    generator = np.random.default_rng(3)
    tree = ExpertiseTree(2, [(0, 0.3), (0, 0.6)])
    for _ in range(500):
        tree.learn(generator.uniform(size=1), np.array([0.2, 0.8]))
    assert tree.splits() == [] and tree.weights(np.zeros(1))[0] > 0.99
