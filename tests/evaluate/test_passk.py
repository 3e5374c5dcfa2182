"""Budgeted success estimators against enumeration of every subset."""

import math
from itertools import combinations

import numpy as np
import pytest

from polypath.evaluate import passk


def over_subsets(n, k, score):
    subsets = list(combinations(range(n), k))
    return sum(score(subset) for subset in subsets) / len(subsets)


@pytest.mark.parametrize(("n", "c"), [(10, 3), (8, 5), (8, 2), (5, 0), (5, 5), (1, 1)])
def test_pass_at_k_and_pass_hat_k_equal_enumeration(n, c):
    for k in range(1, n + 1):
        assert passk.pass_at_k(n, c, k) == pytest.approx(over_subsets(n, k, lambda s: any(i < c for i in s)))
        assert passk.pass_hat_k(n, c, k) == pytest.approx(over_subsets(n, k, lambda s: all(i < c for i in s)))


def test_golden_numbers_by_hand():
    # 1 - C(7,2)/C(10,2) = 1 - 21/45; q^2 - C(7,4)/C(10,4) = (21/45)^2 - 35/210; C(5,4)/C(8,4) = 5/70
    assert passk.pass_at_k(10, 3, 2) == pytest.approx(24 / 45)
    assert passk.pass_at_k_variance(10, 3, 2) == pytest.approx((21 / 45) ** 2 - 35 / 210)
    assert passk.pass_hat_k(8, 5, 4) == pytest.approx(1 / 14)
    # Beta(4, 8): 1 - (8/12)(9/13) = 1 - 72/156
    assert passk.bayesian_pass_at_k(10, 3, 2) == pytest.approx(84 / 156)
    assert passk.upper_bound_when_none(10) == pytest.approx(1 - 0.05**0.1)


def test_pass_at_k_is_unbiased_and_its_variance_too():
    # exact expectation over c ~ Binomial(10, .3): E[pass@2] = 1 - .7^2 = .51, E[v] = Var[pass@2] = .04214
    n, p, k = 10, 0.3, 2
    c = np.arange(n + 1)
    weight = np.array([math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in c])
    estimate = passk.pass_at_k(n, c, k)
    assert weight @ estimate == pytest.approx(0.51)
    true_variance = weight @ (estimate - 0.51) ** 2
    assert weight @ passk.pass_at_k_variance(n, c, k) == pytest.approx(true_variance)
    assert true_variance == pytest.approx(0.04214, abs=5e-6)


def test_undefined_is_nan():
    assert np.isnan(passk.pass_at_k(4, 2, 5))
    assert np.isnan(passk.pass_at_k_variance(4, 2, 3))
    assert np.isnan(passk.distinct_at_k(4, [2, 1], 5))
    assert np.isnan(passk.distinct_at_k(4, [], 5))
    assert np.isnan(passk.upper_bound_when_none(0))
    assert passk.distinct_at_k(4, [], 2) == 0.0
    with pytest.raises(ValueError, match="marked"):
        passk.pass_at_k(4, 5, 1)


def test_vectorises_over_prompts_and_budgets():
    values = passk.pass_at_k(np.array([10, 8, 4])[:, None], np.array([3, 2, 0])[:, None], np.array([1, 2, 8]))
    assert values.shape == (3, 3)
    assert values[1] == pytest.approx([0.25, 1 - 15 / 28, 1.0])
    assert np.isnan(values[2, 2])


def test_distinct_at_k_equals_enumeration():
    labels = [0, 0, 0, 1, 2, None, None, None]  # m = (3, 1, 1), n = 8
    for k in (1, 2, 4, 8):
        expected = over_subsets(8, k, lambda s: len({labels[i] for i in s} - {None}))
        assert passk.distinct_at_k(8, [3, 1, 1], k) == pytest.approx(expected)


def test_large_samples_keep_precision():
    exact = 1 - math.comb(4000 - 37, 256) / math.comb(4000, 256)
    assert passk.pass_at_k(4000, 37, 256) == pytest.approx(exact, rel=1e-11)
