"""Marginals of similarity matrices against brute force, on numpy and torch, for groups of every awkward kind."""

from __future__ import annotations

import math
import warnings
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.diversity import marginals as m
from polypath.diversity.kernels import cosine
from polypath.diversity.marginals import leave_one_out
from polypath.diversity.measures import hill_number

KERNEL = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1.0]])


def gram(size, d, seed):
    return cosine(np.random.default_rng(seed).normal(size=(size, d)))


KERNELS = {
    "worked": KERNEL,
    "identity": np.eye(5),
    "copies": np.ones((4, 4)),
    "pair": gram(2, 3, 0),
    "wide": gram(16, 8, 1),
    "low rank": gram(12, 3, 2),
    "rank one": np.outer([1, -1, 1, -1], [1, -1, 1, -1]).astype(float),
    "pairs of copies": np.kron(np.eye(3), np.ones((2, 2))),
    "alike": 0.95 * np.ones((16, 16)) + 0.05 * np.eye(16),
    "diagonal": np.diag([1.0, 2.0, 3.0]),
    "multiple": 5 * gram(6, 6, 3),
    "large": gram(64, 40, 4),
}
ORDERS = [0, 0.1, 0.5, 1, 1.7, 2, 3, math.inf]


def vendi(kernel, q):
    """From the definition: the Hill number of the eigenvalues of K / tr K."""
    values = np.linalg.eigvalsh(kernel / np.trace(kernel))
    return hill_number(np.where(values > 1e-13, values, 0), q=q)


def by_definition(kernel, function):
    return leave_one_out(lambda keep: function(kernel[np.ix_(keep, keep)]), len(kernel))


@pytest.mark.parametrize("q", ORDERS)
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "large"])
@pytest.mark.filterwarnings("ignore:leave-one-out Vendi")
def test_vendi_marginals(name, q):
    kernel = KERNELS[name]
    expected = by_definition(kernel, lambda k: vendi(k, q))
    tolerance = 1e-9 if q >= 2 or q == 0 else 2e-7
    assert m.loo_vendi(kernel, q=q) == pytest.approx(expected, abs=tolerance)
    assert np.asarray(m.loo_vendi(torch.tensor(kernel), q=q)) == pytest.approx(expected, abs=tolerance)


def test_vendi_marginals_of_a_large_group():
    kernel = KERNELS["large"]
    assert m.loo_vendi(kernel) == pytest.approx(by_definition(kernel, lambda k: vendi(k, 1)), abs=2e-7)


def test_worked_vendi_marginals():
    # eigenvalues/4 are .025, .2, .3, .475 and D = 3.092286; without the first: (1, .8, 1.2)/3 gives 2.959998, without
    # the third: (.1, 1.9, 1)/3 gives 2.157300. Order 2: 16/5.7 = 2.807018 against 9/3.08 and 9/4.62
    assert m.loo_vendi(KERNEL) == pytest.approx([0.132288, 0.132288, 0.934986, 0.934986], abs=1e-6)
    assert m.loo_vendi(KERNEL, q=2) == pytest.approx([-0.115060, -0.115060, 0.858966, 0.858966], abs=1e-6)


def test_known_vendi_marginals():
    assert m.loo_vendi(np.eye(7)) == pytest.approx(np.ones(7), abs=1e-9)  # 7 against 6
    assert m.loo_vendi(np.ones((7, 7))) == pytest.approx(np.zeros(7), abs=1e-6)  # 1 against 1


@pytest.mark.parametrize("q", [0.1, 1, 2])
def test_a_row_of_zeros_adds_nothing_to_the_spectrum(q):
    kernel = np.diag([1.0, 1.0, 0.0])
    expected = [1.0, 1.0, 0.0]  # 2 against 1, and 2 against 2
    assert m.loo_vendi(kernel, q=q) == pytest.approx(expected, abs=1e-7)
    assert math.isnan(m.loo_vendi(np.zeros((3, 3)), undefined=math.nan)[0])
    assert m.loo_vendi(np.diag([1.0, 0.0]), q=q, undefined=math.nan) == pytest.approx(
        [math.nan, 0], abs=1e-7, nan_ok=True
    )


def test_single_precision():
    stack = np.stack([gram(16, 32, seed) for seed in range(6)]).reshape(2, 3, 16, 16)
    exact = m.loo_vendi(stack)
    given = torch.tensor(stack, dtype=torch.float32)
    for double, error in ((True, 1e-6), (False, 1e-4)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = m.loo_vendi(given, double=double)
        assert found.dtype == torch.float32 and np.abs(np.asarray(found) - exact).max() < error
    assert m.loo_vendi(stack.astype(np.float32), double=False).dtype == np.float32


def test_groups_are_stacked():
    stack = np.stack([gram(6, 4, seed) for seed in range(4)]).reshape(2, 2, 6, 6)
    for function in (m.loo_vendi, m.loo_pairs, m.loo_logdet, m.loo_facility, m.loo_kernel_entropy):
        for kernels in (stack, torch.tensor(stack)):
            found = np.asarray(function(kernels))
            assert found.shape == (2, 2, 6)
            np.testing.assert_allclose(found[1, 0], function(stack[1, 0]), atol=1e-12)
        assert function(np.zeros((0, 4, 4))).shape == (0, 4)
        assert tuple(function(torch.zeros(3, 0, 4, 4)).shape) == (3, 0, 4)


def test_many_groups_are_worked_on_in_parts(monkeypatch):
    stack = np.stack([gram(5, 4, seed) for seed in range(7)])
    for function in (m.loo_vendi, m.loo_logdet):
        whole = function(stack)
        with monkeypatch.context() as patch:
            patch.setattr("polypath.diversity.marginals.common.BLOCK", 50)  # two groups
            np.testing.assert_allclose(function(stack), whole, rtol=1e-12)
            np.testing.assert_allclose(function(torch.tensor(stack[:6].reshape(2, 3, 5, 5))).reshape(6, 5), whole[:6])
            if function is m.loo_logdet:
                with pytest.raises(UserError, match="group 6"):
                    function(stack - 9 * np.eye(5) * (np.arange(7) == 6)[:, None, None])


def test_groups_too_small_for_a_difference():
    one, two = [[1.0]], [[1.0, 0.5], [0.5, 1.0]]
    for function in (m.loo_vendi, m.loo_kernel_entropy, m.loo_pairs):
        assert function(one).tolist() == [0.0]
        assert math.isnan(function(one, undefined=math.nan)[0])
    assert m.loo_pairs(two).tolist() == [0.0, 0.0] and np.isnan(m.loo_pairs(two, undefined=math.nan)).all()
    assert m.loo_vendi(two) == pytest.approx(
        [math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)) - 1] * 2, abs=1e-7
    )
    assert m.loo_logdet(one, ridge=0.5) == pytest.approx([math.log(1.5)])
    assert m.loo_facility(one).tolist() == [1.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_similarity_that_is_not_finite_is_named(bad):
    kernels = np.stack([KERNEL, KERNEL])
    kernels[1, 2, 0] = kernels[1, 0, 2] = bad
    for function in (m.loo_vendi, m.loo_pairs, m.loo_logdet, m.loo_facility, m.loo_kernel_entropy):
        with pytest.raises(UserError, match="similarity, group 1, row 0: is not finite"):
            function(kernels)
        with pytest.raises(UserError, match="similarity, row 0"):
            function(torch.tensor(kernels[1]))


def test_what_is_no_similarity_matrix():
    with pytest.raises(UserError, match="shape"):
        m.loo_vendi(np.ones((2, 3)))
    with pytest.raises(UserError, match="row 0: is not symmetric"):
        m.loo_logdet([[1, 0.9], [0.1, 1]])
    with pytest.raises(UserError, match="row 1: is not similar to itself"):
        m.loo_kernel_entropy(np.diag([1.0, 0.0]))


def test_a_matrix_that_is_not_positive_semi_definite():
    # eigenvalues 2.4, 1, -.4: the positive part of it, V l+ V', stands for it
    kernel = np.array([[1, 1.4, 0], [1.4, 1, 0], [0, 0, 1]])
    values, vectors = np.linalg.eigh(kernel)
    nearest = (vectors * np.clip(values, 0, None)) @ vectors.T
    with pytest.warns(UserWarning, match="not positive semi-definite: 0.11 of its spectrum is negative"):
        found = m.loo_vendi(kernel)
    assert found == pytest.approx(by_definition(nearest, lambda k: vendi(k, 1)), abs=1e-6)
    for array in (np.stack([np.eye(3), kernel]), torch.tensor(np.stack([np.eye(3), kernel]))):
        with pytest.raises(UserError, match=r"similarity, group 1: .* least eigenvalue is -0.4"):
            m.loo_logdet(array)
    assert m.loo_logdet(kernel, ridge=1.0).shape == (3,)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 7), st.integers(0, 2**32 - 1))
def test_kernel_marginals_against_brute_force(size, seed):
    kernel = gram(size, 3, seed)

    def mean_distance(k):
        return np.mean([1 - k[i, j] for i, j in combinations(range(len(k)), 2)])

    def entropy(k):
        return -np.log(np.maximum(k, 0).mean(axis=1)).mean()

    def log_det(k):
        return np.linalg.slogdet(k + 1e-3 * np.eye(len(k)))[1]

    for found, function, tolerance in (
        (m.loo_pairs, mean_distance, 1e-12),
        (m.loo_logdet, log_det, 1e-8),
        (m.loo_kernel_entropy, entropy, 1e-12),
    ):
        np.testing.assert_allclose(found(kernel), by_definition(kernel, function), atol=tolerance)
    ground = np.random.default_rng(seed).integers(-2, 4, size=(size, size)) / 2  # with ties, not symmetric
    represented = leave_one_out(lambda keep: np.maximum(ground[:, keep], 0).max(axis=1).sum(), size)
    np.testing.assert_allclose(m.loo_facility(ground), represented)


def test_kernel_entropy_by_hand():
    # z = (2.9/4 three times, 1.3/4): D = (3 log(4/2.9) + log(4/1.3))/4 = .522170. Without a near-duplicate
    # (2/3, 2/3, 1.2/3)... = (2 log(3/2) + log(3/1.2))/3 = .575740; without the outlier log(3/2.8) = .068993
    kernel = np.array([[1, 0.9, 0.9, 0.1], [0.9, 1, 0.9, 0.1], [0.9, 0.9, 1, 0.1], [0.1, 0.1, 0.1, 1]])
    assert m.loo_kernel_entropy(kernel) == pytest.approx([-0.053570] * 3 + [0.453177], abs=1e-6)
    assert m.loo_kernel_entropy(np.eye(4)) == pytest.approx([math.log(4 / 3)] * 4)


def test_logdet_by_hand():
    # K + r I of two identical rows has determinant (1+r)^2 - 1 = 2r + r^2; without one of them it is 1 + r
    expected = math.log((2e-3 + 1e-6) / 1.001)
    assert m.loo_logdet(np.ones((2, 2))).tolist() == pytest.approx([expected, expected])
    # pairs at .9, an outlier at .1: det .188, without a near-duplicate .99, without the outlier .19
    kernel = np.array([[1, 0.9, 0.1], [0.9, 1, 0.1], [0.1, 0.1, 1]])
    assert m.loo_logdet(kernel, ridge=0) == pytest.approx([math.log(0.188 / 0.99)] * 2 + [math.log(0.188 / 0.19)])


@pytest.mark.parametrize("size", [1, 16, 17, 40, 65])
def test_logdet_of_larger_groups(size):
    kernel = gram(size, 30, size)
    inverse = np.linalg.inv(kernel + 0.1 * np.eye(size))
    for kind in (np.asarray, torch.tensor):
        np.testing.assert_allclose(m.loo_logdet(kind(kernel), ridge=0.1), -np.log(np.diag(inverse)), atol=1e-9)


def added(whole, chosen, i):
    return whole[np.ix_([*chosen, i], [*chosen, i])]


@pytest.mark.parametrize("q", [0.5, 1, 1.5, 2])
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_gains_of_adding(q, kind):
    whole = gram(9, 5, 4)
    whole[7] = whole[:, 7] = whole[1]  # 7 is a copy of 1, which is chosen
    whole[7, 7] = whole[1, 7] = whole[7, 1] = 1
    chosen, rest = [0, 1, 2], [3, 4, 5, 6, 7, 8]
    blocks = [kind(a) for a in (whole[np.ix_(chosen, chosen)], whole[np.ix_(rest, chosen)], np.diag(whole)[rest])]
    inside = whole[np.ix_(chosen, chosen)]
    expected = [vendi(added(whole, chosen, i), q) - vendi(inside, q) for i in rest]
    assert np.asarray(m.gain_vendi(*blocks, q=q)) == pytest.approx(np.array(expected), abs=3e-7)
    expected = [
        np.linalg.slogdet(added(whole, chosen, i) + 0.1 * np.eye(4))[1] - np.linalg.slogdet(inside + 0.1 * np.eye(3))[1]
        for i in rest
    ]
    assert np.asarray(m.gain_logdet(*blocks, ridge=0.1)) == pytest.approx(np.array(expected))

    def mean_distance(k):
        return 1 - (k.sum() - np.trace(k)) / (len(k) * (len(k) - 1))

    expected = [mean_distance(added(whole, chosen, i)) - mean_distance(inside) for i in rest]
    assert np.asarray(m.gain_pairs(*blocks)) == pytest.approx(np.array(expected))
    expected = [whole[:, [*chosen, i]].clip(0).max(1).sum() - whole[:, chosen].clip(0).max(1).sum() for i in rest]
    found = m.gain_facility(kind(whole[:, chosen]), kind(whole[:, rest]))
    assert np.asarray(found) == pytest.approx(np.array(expected))


def test_gains_are_stacked_and_start_from_nothing():
    whole = np.stack([gram(6, 3, 0), gram(6, 3, 1)])
    blocks = whole[:, :2, :2], whole[:, 2:, :2], np.ones((2, 4))
    for function in (m.gain_vendi, m.gain_logdet, m.gain_pairs):
        found = function(*blocks)
        np.testing.assert_allclose(found[1], function(*(block[1] for block in blocks)))
    nothing = np.zeros((0, 0)), np.zeros((2, 0)), np.ones(2)
    assert m.gain_vendi(*nothing).tolist() == [1, 1]
    assert m.gain_logdet(*nothing, ridge=0).tolist() == [0, 0]
    assert m.gain_pairs(*nothing).tolist() == [0, 0]
    assert m.gain_facility(np.zeros((2, 0)), np.array([[1, -1], [0.5, 0]])).tolist() == [1.5, 0]
    assert m.gain_coverage(np.zeros((0, 2)), [[1, 1], [0, 1]]).tolist() == [2, 1]
    with pytest.raises(UserError, match="order 3"):
        m.gain_vendi(*blocks, q=3)
    with pytest.raises(UserError, match="candidates, row 0: is not finite"):
        m.gain_vendi(np.eye(2), np.array([[math.nan, 0]]), np.ones(1))
