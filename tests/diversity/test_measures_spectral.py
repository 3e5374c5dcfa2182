"""Measures of the spectrum: worked values, the dual against the kernel, weights, gates, bad input."""

import math
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.diversity import measures as m
from polypath.diversity.kernels import cosine_kernel, dense_kernel, label_kernel, linear_kernel

# K of the worked example: two blocks of two, so eigenvalues (1 +- .9)/4 and (1 +- .2)/4
KERNEL = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1]])
SHARES = np.array([0.025, 0.2, 0.3, 0.475])
ROWS = np.linalg.cholesky(KERNEL)
ORDERS = [0, 0.1, 0.5, 1, 2, math.inf]
SETS = st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(0, 2**32 - 1))


def by_hand(q):
    if q == 1:
        return math.exp(-(SHARES * np.log(SHARES)).sum())
    return 1 / 0.475 if math.isinf(q) else (SHARES**q).sum() ** (1 / (1 - q))


def brute(rows, p, q):
    """exp of the Renyi entropy of the eigenvalues of the n x n kernel, without a dual and without a shortcut."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(np.sqrt(np.outer(p, p)) * (unit @ unit.T))
    values = values[values > 1e-12]
    return math.exp(-(values * np.log(values)).sum()) if q == 1 else (values**q).sum() ** (1 / (1 - q))


@pytest.mark.parametrize("q", ORDERS)
def test_vendi_is_the_hill_number_of_the_known_spectrum(q):
    wide = np.hstack([ROWS, np.zeros((4, 3))])  # n < d takes the kernel, n >= d the Gram matrix
    for value in (m.vendi(ROWS, q=q), m.vendi(wide * 7.0, q=q), m.vendi_of_kernel(KERNEL, q=q)):
        assert value == pytest.approx(by_hand(q))


def test_published_values_of_the_example():
    published = dict(zip(ORDERS, (4, 3.841375, 3.393894, 3.092286, 2.807018, 2.105263), strict=True))
    for q, value in published.items():
        assert by_hand(q) == pytest.approx(value, abs=5e-7)
    # weights (.4, .1) in a block of similarity .9: eigenvalues of [[.4, .18], [.18, .1]]; the others (1 +- .2)/4
    root = math.sqrt(0.15**2 + 0.18**2)
    p = np.array([0.25 + root, 0.25 - root, 0.3, 0.2])
    expected = math.exp(-(p * np.log(p)).sum())
    assert expected == pytest.approx(3.002409, abs=5e-7)
    assert m.vendi(ROWS, weights=[0.4, 0.1, 0.25, 0.25]) == pytest.approx(expected)


@given(SETS, st.sampled_from([0.5, 1, 2]))
def test_dual_and_kernel_agree_with_brute_force(shape, q):
    n, d, seed = shape
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(n, d)), rng.uniform(0.1, 1, size=n)
    expected = brute(rows, weights / weights.sum(), q)
    assert m.vendi(rows, q=q, weights=weights) == pytest.approx(expected, rel=1e-6)
    dense = dense_kernel(cosine_kernel(rows).matrix(), is_psd=True)
    assert m.kernel_vendi(dense, q=q, weights=weights) == pytest.approx(expected, rel=1e-6)


@given(SETS)
def test_vendi_properties(shape):
    n, d, seed = shape
    rows = np.random.default_rng(seed).normal(size=(n, d))
    values = [m.vendi(rows, q=q) for q in ORDERS]
    assert all(a >= b - 1e-6 for a, b in pairwise(values)), "falls with the order"
    assert values[-1] >= 1 - 1e-9 and values[0] <= min(n, d)
    assert m.vendi(np.repeat(rows, 3, axis=0)) == pytest.approx(values[3], rel=1e-6), "copies of all change nothing"
    assert m.vendi(rows[::-1] * 2.0) == pytest.approx(values[3], rel=1e-6)


def test_many_rows_in_blocks_equal_one_block():
    rows = np.random.default_rng(0).normal(size=(2500, 5))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    p = np.linalg.eigvalsh(unit.T @ unit / 2500)
    assert m.vendi(rows) == pytest.approx(math.exp(-(p * np.log(p)).sum()))
    assert m.vendi(rows, q=2) == pytest.approx(1 / (p**2).sum())
    no_factor = dense_kernel(unit @ unit.T, is_psd=True)
    assert m.kernel_vendi(no_factor, q=2) == pytest.approx(1 / (p**2).sum())


def test_single_precision_and_tensors():
    rows = np.random.default_rng(1).normal(size=(50, 8))
    expected = m.vendi(rows)
    assert m.vendi(rows.astype(np.float32)) == pytest.approx(expected, rel=1e-6)
    assert m.vendi(torch.tensor(rows, requires_grad=True)) == pytest.approx(expected)
    assert m.vendi(torch.tensor(rows).bfloat16()) == pytest.approx(expected, rel=1e-2)
    assert m.vendi(rows.astype(np.float32) * np.float32(1e-25)) == pytest.approx(expected, rel=1e-6), "tiny, not zero"


def test_edges():
    assert m.vendi(np.eye(3)) == pytest.approx(3.0)
    assert m.vendi(np.tile([[1.0, 2.0]], (5, 1)), q=0) == pytest.approx(1.0)
    assert m.vendi([[3.0, 4.0]]) == pytest.approx(1.0)
    assert math.isnan(m.vendi([])) and math.isnan(m.vendi(np.empty((0, 3)))) and math.isnan(m.vendi_of_kernel([]))
    assert m.kernel_vendi(label_kernel(["a", "a", "b", None])) == pytest.approx(m.hill(["a", "a", "b", "?"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: m.vendi([[1.0, 0.0], [0.0, 0.0]]), r"embeddings\[1\]: is zero"),
        (lambda: m.vendi([[1.0, 0.0], [np.nan, 0.0]]), r"embeddings\[1\]: is not finite"),
        (lambda: m.vendi([1.0, 2.0]), r"have the shape \(2,\), not \(n, d\)"),
        (lambda: m.vendi(ROWS, q=-1.0), "order q: is -1"),
        (lambda: m.vendi(ROWS, weights=[1, 2]), "weights: are not 4 numbers"),
        (lambda: m.vendi_of_kernel([[1.0, 0.2], [0.1, 1.0]]), "not symmetric"),
        (lambda: m.vendi_of_kernel([[1.0, np.nan], [np.nan, 1.0]]), r"similarity\[0\]: is not finite"),
        (lambda: m.vendi_of_kernel([[1.0, 0.2]]), "has the shape"),
        (lambda: m.vendi_gated(ROWS, [1.0]), "rewards: have the shape"),
        (lambda: m.similarity_entropy([[1.0, -0.5], [-0.5, 1.0]]), "negative entries"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(UserError, match=message):
        call()


def test_a_kernel_that_is_not_psd_warns_with_the_clipped_share():
    # eigenvalues of [[1, 1, 0], [1, 1, 1], [0, 1, 1]]: 1, 1 +- sqrt 2; a share (sqrt 2 - 1)/(1 + 2 sqrt 2) is negative
    with pytest.warns(UserWarning, match=r"not positive semi-definite: 0\.108"):
        value = m.vendi_of_kernel([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    p = np.array([1, 1 + math.sqrt(2)]) / (2 + math.sqrt(2))
    assert value == pytest.approx(math.exp(-(p * np.log(p)).sum()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.vendi_of_kernel(KERNEL)


def test_quality_and_gate_by_hand():
    scores = [1.0, 0.5, 0.8, 0.0]
    assert m.vendi_quality(ROWS, scores) == pytest.approx(0.575 * by_hand(1))
    assert m.vendi_quality(ROWS, scores) == pytest.approx(1.778064, abs=5e-7)
    # three pass: eigenvalues 1.9/3, .1/3, 1/3
    p = np.array([1.9, 0.1, 1.0]) / 3
    assert m.vendi_gated(ROWS, scores) == pytest.approx(math.exp(-(p * np.log(p)).sum()))
    assert m.vendi_gated(ROWS, scores) == pytest.approx(2.157300, abs=5e-7)
    assert m.vendi_gated(ROWS, scores, gate=2.0) == 0.0 and m.vendi_gated(ROWS, scores, gate=1.0) == pytest.approx(1)
    assert math.isnan(m.vendi_gated([], [])) and math.isnan(m.vendi_quality([], []))


def test_gradients_of_zero_are_left_out():
    assert m.gradient_vendi([[1.0, 0], [0, 2.0], [0, 0]]) == pytest.approx(2.0)
    assert math.isnan(m.gradient_vendi([[0.0, 0.0]]))


@given(SETS)
def test_log_det_of_dual_and_kernel(shape):
    n, d, seed = shape
    rows = np.random.default_rng(seed).normal(size=(n, d))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.linalg.slogdet(unit @ unit.T + 0.1 * np.eye(n))[1]
    assert m.log_det(rows, ridge=0.1) == pytest.approx(expected, abs=1e-8)


def test_log_det_edges():
    with pytest.raises(UserError, match="3 items in 2 dimensions without volume"):
        m.log_det([[1.0, 0], [0, 1.0], [1.0, 1.0]], ridge=0.0)
    assert m.log_det([[1.0, 0], [1.0, 0]], ridge=0.0) == -math.inf
    assert math.isnan(m.log_det([]))
    # -log(1 - .9^2)/2
    pair = [[1.0, 0.0], [0.9, math.sqrt(0.19)]]
    assert m.log_det_distance(pair, ridge=0.0) == pytest.approx(0.830366, abs=5e-7)
    assert m.log_det_distance(np.eye(4)) == pytest.approx(0.0, abs=1e-12)
    rows = np.random.default_rng(3).normal(size=(40, 4))
    assert abs(m.log_det_distance(rows, reference="sphere")) < 0.3, "itself a sphere"
    assert m.log_det_distance(rows, reference="sphere") < m.log_det_distance(rows)


def test_similarity_entropy_by_hand():
    # z = (1.9, 1.9, 1.2, 1.2)/4
    z = np.array([1.9, 1.9, 1.2, 1.2]) / 4
    assert m.similarity_entropy(KERNEL) == pytest.approx(math.exp(-np.log(z).mean()))
    assert m.similarity_entropy(KERNEL, q=2) == pytest.approx(1 / z.mean())
    assert m.similarity_entropy(KERNEL, q=0) == pytest.approx((1 / z).mean())
    assert m.similarity_entropy(KERNEL, q=math.inf) == pytest.approx(1 / z.max())


def test_a_linear_kernel_needs_no_large_array():
    rows = np.random.default_rng(0).normal(size=(20_000, 16)).astype(np.float32)
    tracemalloc.start()
    m.vendi(rows)
    m.pairwise_cosine(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes, "n x n would be 3 GiB"
    with pytest.raises(UserError, match=r"needs 3\.0 GiB, above the limit of 1\.0 GiB"):
        linear_kernel(rows).matrix()
