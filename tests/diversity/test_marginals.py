import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.diversity.kernels import cosine
from polypath.diversity.marginals import leave_one_out, loo_classes, loo_entropy, loo_logdet, loo_pairs

LABELS = st.lists(st.integers(0, 4), min_size=2, max_size=8)


def entropy(labels):
    shares = [labels.count(label) / len(labels) for label in set(labels)]
    return -sum(p * math.log(p) for p in shares)


@given(LABELS)
def test_class_marginals_against_brute_force(labels):
    def of(function):
        return leave_one_out(lambda chosen: function([labels[i] for i in chosen]), len(labels))

    np.testing.assert_allclose(loo_classes(np.array(labels)), of(lambda some: len(set(some))))
    np.testing.assert_allclose(loo_entropy(np.array(labels)), of(entropy), atol=1e-12)


@given(st.integers(3, 7), st.integers(0, 2**32 - 1))
def test_kernel_marginals_against_brute_force(size, seed):
    kernel = cosine(np.random.default_rng(seed).normal(size=(size, 3)))

    def mean_distance(chosen):
        return np.mean([1 - kernel[i, j] for i, j in combinations(chosen, 2)])

    def logdet(chosen):
        return np.linalg.slogdet(kernel[np.ix_(chosen, chosen)] + 1e-3 * np.eye(len(chosen)))[1]

    np.testing.assert_allclose(loo_pairs(kernel), leave_one_out(mean_distance, size), atol=1e-12)
    np.testing.assert_allclose(loo_logdet(kernel), leave_one_out(logdet, size), atol=1e-8)


def test_undefined_marginals_are_documented_zeros():
    assert loo_pairs(np.eye(2)).tolist() == [0.0, 0.0]
    assert loo_entropy([3]).tolist() == [0.0]


def test_logdet_by_hand():
    # K + r I of two identical rows has determinant (1+r)^2 - 1 = 2r + r^2; without one of them it is 1 + r
    expected = math.log((2e-3 + 1e-6) / 1.001)
    assert loo_logdet(np.ones((2, 2))).tolist() == pytest.approx([expected, expected])


def test_groups_are_stacked():
    both = np.stack([np.eye(3), np.ones((3, 3))])
    np.testing.assert_allclose(loo_pairs(both)[1], loo_pairs(np.ones((3, 3))))
    np.testing.assert_allclose(loo_pairs(both)[0], loo_pairs(np.eye(3)))
