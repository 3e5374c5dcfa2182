"""Analytic pass@k and max@k against every subset of k."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.credit.normalise import z_score
from polypath.credit.passk import max_at_k, pass_at_k
from polypath.evaluate.passk import pass_at_k as evaluated


def brute_pass(correct, k, eps):
    """Each k-subset is a sample of reward max, normalised over all subsets by the population's spread."""
    subsets = list(combinations(range(len(correct)), k))
    solved = np.array([max(correct[i] for i in subset) for subset in subsets], dtype=float)
    normalised = (solved - solved.mean()) / (solved.std() + eps)
    return [normalised[[i in subset for subset in subsets]].mean() for i in range(len(correct))]


def brute_max(rewards, k, *, without):
    found = np.zeros(len(rewards))
    for subset in combinations(range(len(rewards)), k):
        for i in subset:
            others = max(rewards[j] for j in subset if j != i) if without else 0.0
            found[i] += max(rewards[j] for j in subset) - others
    return found / math.comb(len(rewards), k)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pass_at_k_is_the_mean_over_all_subsets(data):
    correct = data.draw(st.lists(st.booleans(), min_size=1, max_size=8))
    k = data.draw(st.integers(1, len(correct)))
    found = pass_at_k(correct, k=k, eps=1e-6)
    np.testing.assert_allclose(found, brute_pass(correct, k, 1e-6), atol=1e-9)
    assert abs(found.sum()) < 1e-9


@pytest.mark.parametrize(
    ("c", "k", "right", "wrong"),
    [
        (2, 4, 0.522232, -0.174077),  # rho = 1 - C(6,4)/C(8,4) = 55/70, s = .410326; 15/70 and 15/70 - C(5,3)/C(7,3)
        (1, 4, 0.999998, -0.142857),  # rho = 1/2; (1/2)/s and (1/2 - C(6,3)/C(7,3))/s = (.5 - 4/7)/.5
        (5, 4, 0.0, 0.0),  # three wrong: every subset of four is solved
        (2, 1, 1.732047, -0.577349),  # rho = 1/4, s = .433013: .75/s and -.25/s, GRPO with population std
    ],
)
def test_pass_at_k_by_hand(c, k, right, wrong):
    found = pass_at_k([True] * c + [False] * (8 - c), k=k)
    np.testing.assert_allclose(found, [right] * c + [wrong] * (8 - c), atol=5e-7)
    if k == 1:
        np.testing.assert_allclose(found, z_score([1.0] * c + [0.0] * (8 - c), eps=1e-6, ddof=0), atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_max_at_k_is_the_sum_over_all_subsets(data):
    rewards = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 0.9, 1.0, 3.0]), min_size=1, max_size=8))
    k = data.draw(st.integers(1, len(rewards)))
    plain = brute_max(rewards, k, without=False)
    np.testing.assert_allclose(max_at_k(rewards, k=k, baseline="none"), plain, atol=1e-9)
    np.testing.assert_allclose(max_at_k(rewards, k=k, baseline="mean"), plain - plain.mean(), atol=1e-9)
    if k > 1:
        found = max_at_k(rewards, k=k)
        np.testing.assert_allclose(found, brute_max(rewards, k, without=True), atol=1e-9)
        assert (found >= 0).all()


def test_max_at_k_by_hand():
    # one correct of two among eight, k = 4: in C(7,3)/C(8,4) = 1/2; a wrong one (1/2)(1 - C(5,3)/C(7,3)) = 5/14
    np.testing.assert_allclose(max_at_k([1, 1, 0, 0, 0, 0, 0, 0], baseline="none"), [0.5] * 2 + [5 / 14] * 6)
    # pairs of .9 .5 .5 .1: maxima .9 .9 .9 .5 .5 .5, so 2.7/6 and three times 1.9/6
    np.testing.assert_allclose(max_at_k([0.9, 0.5, 0.5, 0.1], k=2, baseline="none"), [0.45, 1.9 / 6, 1.9 / 6, 1.9 / 6])
    # two correct of four, k = 2: correct 3/6, wrong 2/6, mean 5/12
    np.testing.assert_allclose(max_at_k([1, 1, 0, 0], k=2, baseline="mean"), np.array([1, 1, -1, -1]) / 12)


def test_two_correct_rollouts_still_give_a_signal():
    """verl's grpo_passk pays the best minus the runner-up, so that a tie of two correct rollouts gives nothing."""
    found = pass_at_k([True, True, False, False, False, False, False, False], k=4)
    assert found[0] > 0 > found[2]
    assert max_at_k([1.0, 1.0, 0, 0, 0, 0, 0, 0], k=4)[0] > 0


def test_mean_of_the_unbiased_credit_is_the_expected_maximum():
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=9)
    exact = np.mean([max(rewards[list(s)]) for s in combinations(range(9), 3)])
    assert max_at_k(rewards, k=3, baseline="none").sum() / 3 == pytest.approx(exact)


def test_best_of_k_is_not_reported_too_low():
    """Drawing k with replacement from the n rollouts misses the one correct of four in (3/4)^4 of the cases."""
    assert evaluated(4, 1, 4) == 1.0
    assert round(1 - (3 / 4) ** 4, 6) == 0.683594  # the trap
    assert max_at_k([1.0, 0, 0, 0], k=4, baseline="none").sum() / 4 == 1.0


def test_small_groups_ties_and_large_binomials():
    assert pass_at_k([True, False], k=8).tolist() == [0.0, 0.0]
    assert max_at_k([1.0, 0.25], k=8).tolist() == [0.75, 0.0]
    assert max_at_k([0.1] * 7, k=3).tolist() == [0.0] * 7
    assert pass_at_k([True], k=1).tolist() == [0.0] and max_at_k([3.0], k=4).tolist() == [0.0]
    big = np.arange(2048.0) / 2048
    assert np.isfinite(max_at_k(big, k=512)).all() and np.isfinite(pass_at_k(big > 0.9, k=512)).all()
    with pytest.raises(UserError, match="k is 0"):
        pass_at_k([True], k=0)
