"""Spectral, geometric and lexical measures: worked numbers, brute force, peers, and what is undefined."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import energy_distance as energy_1d

from polypath.core.errors import UserError
from polypath.diversity import kernels as k
from polypath.diversity import measures as m

KERNEL = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1.0]])
ROWS = np.array([[1, 0], [0.8, 0.6], [0, 1.0]])


def random_rows(n: int = 9, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def test_vendi_of_a_kernel_with_weights_and_its_duals() -> None:
    """Blocks [[1,.9],[.9,1]] and [[1,.2],[.2,1]] have eigenvalues 1 +- .9 and 1 +- .2; over 4: .475 .025 .3 .2."""
    p = np.array([0.025, 0.2, 0.3, 0.475])
    assert (
        m.vendi_of_kernel(KERNEL)
        == pytest.approx(math.exp(-(p * np.log(p)).sum()))
        == pytest.approx(3.092286, abs=1e-6)
    )
    assert m.vendi_of_kernel(KERNEL, weights=[4, 1, 2.5, 2.5]) == pytest.approx(3.002409, abs=1e-6)
    rows = random_rows()
    unit = k.unit_rows(rows)
    for q in (0.5, 1, 2, math.inf):
        assert m.vendi(rows, q=q) == pytest.approx(m.vendi_of_kernel(unit @ unit.T, q=q))
    for low, high in itertools.pairwise([0.1, 0.5, 1, 2, 5, math.inf]):
        assert m.vendi(rows, q=low) >= m.vendi(rows, q=high)


def test_kernels_that_are_none() -> None:
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        assert 1 <= m.vendi_of_kernel([[1, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]]) <= 3
    for bad, message in (([[1, 0.5], [0.2, 1]], "not symmetric"), ([[1, math.nan], [math.nan, 1]], "not finite")):
        with pytest.raises(UserError, match=message):
            m.vendi_of_kernel(bad)
    with pytest.raises(UserError, match="2 numbers"):
        m.vendi_of_kernel(np.eye(2), weights=[1, -1])
    assert math.isnan(m.vendi_of_kernel(np.zeros((0, 0))))


def test_quality_and_correct_vendi() -> None:
    """s = (1, .5, .8, 0) with the kernel above: mean .575 times 3.092286; the three of at least .5: 2.157300."""
    rows = np.linalg.cholesky(KERNEL)
    assert m.vendi_quality(rows, [1, 0.5, 0.8, 0]) == pytest.approx(1.778064, abs=1e-6)
    assert m.vendi_correct(rows, [True, True, True, False]) == pytest.approx(2.157300, abs=1e-6)
    assert m.vendi_correct(rows, [False] * 4) == 0.0 and m.vendi_correct(rows, [True, *[False] * 3]) == pytest.approx(
        1.0
    )


def test_channels_keep_the_length_of_rows() -> None:
    assert m.effective_channels([[1, 0], [1, 0], [0, 1]]) == pytest.approx(1.889882, abs=1e-6)  # shares 2/3, 1/3
    assert m.effective_channels([[3, 0], [0, 1]]) == pytest.approx(
        math.exp(-(0.9 * math.log(0.9) + 0.1 * math.log(0.1)))
    )
    assert m.vendi([[3, 0], [0, 1]]) == pytest.approx(2.0) and math.isnan(m.effective_channels(np.zeros((2, 2))))
    assert m.gradient_vendi([[0, 0], [3, 0], [0, 1]]) == pytest.approx(2.0) and math.isnan(
        m.gradient_vendi(np.zeros((3, 2)))
    )


@pytest.mark.parametrize("n", [3, 9])
def test_log_volume_from_either_side(n: int) -> None:
    unit = k.unit_rows(random_rows(n, 4))
    expected = np.linalg.slogdet(unit @ unit.T + 0.05 * np.eye(n))[1]
    assert m.log_det(unit, ridge=0.05) == pytest.approx(expected)
    assert m.log_det_distance(unit, ridge=0.05) == pytest.approx((n * math.log(1.05) - expected) / n)
    assert m.log_det_distance(np.eye(4)) == pytest.approx(0.0)
    with pytest.raises(UserError, match="without volume"):
        m.log_det(random_rows(5, 4), ridge=0)
    assert m.log_det([[1, 0], [1, 0]], ridge=0) == -math.inf


def test_distances_by_brute_force() -> None:
    rows = random_rows(12, 3)
    unit = k.unit_rows(rows)
    distance = 1 - unit @ unit.T
    others = distance + np.diag([np.inf] * 12)
    assert m.chamfer(rows) == pytest.approx(others.min(axis=1).mean())
    assert m.chamfer(ROWS) == pytest.approx(0.266667, abs=1e-6) and m.order_parameter(ROWS) == pytest.approx(
        0.802773, abs=1e-6
    )
    tree = minimum_spanning_tree(distance).sum() / 11
    assert m.mst_span(rows) == pytest.approx(tree)
    assert m.mst_span(np.ones((3, 2))) == pytest.approx(0.0, abs=1e-12)  # copies, whose edges scipy would drop
    assert m.order_parameter([[1, 0], [-1, 0]]) == 0.0
    assert (
        math.isnan(m.chamfer([[1, 0]]))
        and math.isnan(m.mst_span([[1, 0]]))
        and math.isnan(m.order_parameter(np.zeros((0, 2))))
    )
    assert math.isnan(m.diversity_coefficient(rows[:2])) and m.diversity_coefficient(rows) == m.pairwise_cosine(rows)


def test_novelty_and_coverage_against_a_reference() -> None:
    reference = np.array([[0.0], [1.0], [2.0], [10.0]])
    assert m.knn_novelty([[0.5]], reference, k=2) == pytest.approx(0.5)
    assert m.knn_novelty([[0.5], [0.6]], reference[:0], k=5) == pytest.approx(0.1)  # fewer than k: all of them
    # Balls to the nearest other: radii 1, 1, 1, 8. An item at 2.5 is in the balls of 2 and of 10.
    assert m.coverage_knn([[2.5]], reference, k=1) == 0.5
    assert math.isnan(m.coverage_knn([[2.5]], reference, k=4)) and math.isnan(m.knn_novelty([[1.0]], reference[:0]))


def test_two_sample_distances() -> None:
    a, b = random_rows(30, 2, seed=1), random_rows(40, 2, seed=2) + 0.5

    def kernel(u: np.ndarray, v: np.ndarray) -> float:
        return math.exp(-float(((u - v) ** 2).sum()) / 2)

    within = [np.mean([kernel(u, v) for u, v in itertools.permutations(rows, 2)]) for rows in (a, b)]
    across = np.mean([kernel(u, v) for u in a for v in b])
    assert m.mmd(a, b, bandwidth=1.0) == pytest.approx(sum(within) - 2 * across)
    assert abs(m.mmd(a, random_rows(4000, 2, seed=9)[:400], bandwidth=1.0)) < 0.05  # near 0, and may be below it
    # scipy's one-dimensional distance squared is 2E|x-y| - E|x-x'| - E|y-y'| with self pairs
    u, v = a[:, :1], b[:, :1]
    biased = 2 * np.abs(u - v.T).mean() - np.abs(u - u.T).mean() - np.abs(v - v.T).mean()
    assert energy_1d(u[:, 0], v[:, 0]) ** 2 == pytest.approx(biased)
    spread_u, spread_v = np.abs(u - u.T).sum() / (30 * 29), np.abs(v - v.T).sum() / (40 * 39)
    assert m.energy_distance(u, v) == pytest.approx(2 * np.abs(u - v.T).mean() - spread_u - spread_v)


@pytest.mark.parametrize("with_self", [True, False])
def test_novel_sum_row_by_row(with_self: bool) -> None:
    assert m.novel_sum(ROWS, density=[1, 2, 1]) == pytest.approx(0.260606, abs=1e-6)
    assert m.novel_sum(ROWS, density=[1, 2, 1], with_self=False) == pytest.approx(0.533333, abs=1e-6)
    rows = k.unit_rows(random_rows(15, 3))
    values = []
    for i, row in enumerate(rows):
        squares = sorted(float(((row - other) ** 2).sum()) for j, other in enumerate(rows) if j != i)
        sigma = (np.mean(squares[:10]) + 1e-9) ** -0.5
        distances = sorted(1 - float(row @ other) for j, other in enumerate(rows) if with_self or j != i)
        weights = 1 / np.arange(1, len(distances) + 1)
        values.append(sigma * (weights @ np.maximum(distances, 0)) / weights.sum())
    assert m.novel_sum(rows, with_self=with_self) == pytest.approx(np.mean(values), rel=1e-6)


def test_yield_and_utility() -> None:
    """q = (.9, .8, .7, .3), similarities .9 (0,1), .2 (0,2), .1 (1,2): at .5 and .6 the largest set is {0, 2}."""
    kernel = np.array([[1, 0.9, 0.2], [0.9, 1, 0.1], [0.2, 0.1, 1]])
    assert m.largest_compatible(kernel, 0.6) == [0, 2]
    rows = np.vstack([np.linalg.cholesky(kernel), [[0.0, 0.0, 1.0]]])
    assert m.yield_size(rows, [0.9, 0.8, 0.7, 0.3], quality=0.5, similarity=0.6) == 2
    assert m.yield_size(rows, [0.1] * 4) == 0
    with pytest.raises(UserError, match="61 good items"):
        m.yield_size(np.ones((61, 2)), [1.0] * 61)
    assert m.creative_utility([[1, 0], [0, 1], [1, 0]], [0.9, 0.5, 0.8]) == pytest.approx(1.4)


def test_words() -> None:
    assert m.self_repetition(["a b", "a b", "c d"], n=2) == pytest.approx(2 * math.log(2) / 3)
    # LCS of "a b c" and "a c" is 2 of 3 + 2 tokens
    assert m.rouge_l(["a b c", "a c"]) == pytest.approx(0.8) and m.rouge_l(["", ""]) == 1.0
    assert math.isnan(m.rouge_l(["a"])) and m.entropy_corrected("aabb") == pytest.approx(math.log(2) + 1 / 8)
    # "a b": two words, one pair; nothing longer
    assert m.prompt_diversity(["a b"]) == pytest.approx(math.log(3) + math.log(2))


def test_reasoning_paths() -> None:
    a, b = [[1, 0], [0, 1]], [[1, 0], [0.6, 0.8], [-1, 0]]
    assert k.path_divergence(a, b) == pytest.approx(0.1)  # nearest: itself, and (.6, .8) at .2
    assert k.path_divergence(np.zeros((0, 2)), np.zeros((0, 2))) == 0 and k.path_divergence(a, np.zeros((0, 2))) == 1
    assert m.reasoning_path_divergence([a, a]) == pytest.approx(0) and math.isnan(m.reasoning_path_divergence([a]))


def test_coverage_attributes_and_values() -> None:
    assert m.coverage(["a", "b", "z"], {"a", "b", "c", "d"}) == 0.5
    assert m.feature_coverage([{1, 2}, {2, 3}], {2, 3, 4}) == pytest.approx(2 / 3)
    for empty in (lambda: m.coverage(["a"], set()), lambda: m.feature_coverage([{1}], set())):
        with pytest.raises(UserError, match="known"):
            empty()
    p = 1 / 50
    assert m.attribute_entropy([["round"]] * 49 + [["square"]], categories=[2]) == pytest.approx(
        -(p * math.log(p) + (1 - p) * math.log(1 - p)) / math.log(2)
    )
    with pytest.raises(UserError, match="categories"):
        m.attribute_entropy([["a", "b"]], categories=[2])
    # sqrt(9)/sqrt(18) twice and sqrt(18)/sqrt(18)
    ratings = [[1, 4], [4, 4], [1, 1]]
    assert m.value_diversity(ratings, options=[4, 4]) == pytest.approx((2 / math.sqrt(2) + 1) / 3)
    assert m.value_span(ratings, options=[4, 4]) == pytest.approx(1 / math.sqrt(2))
    assert math.isnan(m.value_diversity([[1, math.nan], [math.nan, 1]], options=[4, 4]))
    assert m.value_diversity([[1, math.nan], [4, 1]], options=[4, 4]) == pytest.approx(1.0)


def test_measures_that_disagree_say_so() -> None:
    found = m.rank_correlations({"a": [1, 2, 3, 4], "b": [4, 3, 2, 1], "c": [1, 1, 1, 1], "d": [1, math.nan, 9, 12]})
    assert found["a", "b"] == pytest.approx(-1) and math.isnan(found["a", "c"]) and found["a", "d"] == pytest.approx(1)
