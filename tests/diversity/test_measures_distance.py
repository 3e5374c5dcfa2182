"""Measures of distances, of a reference and of quality with distance: by hand and against brute force."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.sparse.csgraph import minimum_spanning_tree

from polypath.core.errors import UserError
from polypath.diversity import measures as m

E = [[1, 0], [0.8, 0.6], [0, 1]]  # cosine distances .2 (0,1), 1 (0,2), .4 (1,2)
SEEDS = st.integers(0, 2**32 - 1)


def cosine_distances(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return 1 - unit @ unit.T


def test_values_by_hand():
    assert m.pairwise_cosine(E) == pytest.approx((0.2 + 1 + 0.4) / 3)
    assert m.chamfer(E) == pytest.approx((0.2 + 0.2 + 0.4) / 3)
    assert m.order_parameter(E) == pytest.approx(math.hypot(1.8, 1.6) / 3)
    assert m.order_parameter([[1, 0], [-1, 0]]) == 0.0
    # chords 2 sin(angle/2) = sqrt(2 distance)
    assert m.energy(E) == pytest.approx(np.mean([1 / math.sqrt(2 * d) for d in (0.2, 1, 0.4)]))
    assert m.energy(E, s=2) == pytest.approx(np.mean([1 / (2 * d) for d in (0.2, 1, 0.4)]))
    assert m.energy(E, s=0) == pytest.approx(np.mean([-math.log(math.sqrt(2 * d)) for d in (0.2, 1, 0.4)]))
    assert m.energy([[1, 0], [2, 0]]) == math.inf


def test_internal_diversity_by_hand():
    k = np.array([[1, 0.8, 0], [0.8, 1, 0.6], [0, 0.6, 1]])
    assert m.internal_diversity(k) == pytest.approx(1 - 1.4 / 3)
    assert m.internal_diversity(k, self_pairs=True) == pytest.approx(1 - (3 + 2.8) / 9)
    assert m.internal_diversity(k, power=2) == pytest.approx(1 - math.sqrt((0.64 + 0.36) / 3))
    assert m.mst_span(E) == pytest.approx((0.2 + 0.4) / 2)


@pytest.mark.parametrize("function", [m.pairwise_cosine, m.chamfer, m.energy, m.novel_sum, m.mst_span])
def test_fewer_than_two_items_have_no_distance(function):
    assert math.isnan(function([[1.0, 0.0]])) and math.isnan(function([]))
    with pytest.raises(UserError, match=r"embeddings\[0\]: is zero"):
        function([[0.0, 0.0], [1.0, 0.0]])


@given(st.integers(2, 8), SEEDS)
def test_against_brute_force(n, seed):
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    d = cosine_distances(rows)
    assert m.pairwise_cosine(rows) == pytest.approx(np.mean([d[i, j] for i, j in permutations(range(n), 2)]))
    others = [sorted(np.delete(d[i], i)) for i in range(n)]
    assert m.chamfer(rows) == pytest.approx(np.mean([one[0] for one in others]))
    archive = np.random.default_rng(seed + 1).normal(size=(3, 3))
    pool = np.vstack([rows, archive])
    for k in (1, 2, 50):
        near = [sorted(np.linalg.norm(row - np.delete(pool, i, axis=0), axis=1))[:k] for i, row in enumerate(rows)]
        assert m.knn_novelty(rows, archive, k=k) == pytest.approx(np.mean([np.mean(one) for one in near]))
    tree = minimum_spanning_tree(d + 1e-12 * (1 - np.eye(n)))
    assert m.mst_span(rows) == pytest.approx(tree.sum() / (n - 1), abs=1e-9)


def test_novelty_against_an_archive():
    # nearest to 0: the archive's copy at 0, then 1; to 1: 0 and 0 at 1; to 4: 1 at 3, then 0
    assert m.novelties([[0.0], [1.0], [4.0]], [[0.0]], k=2).tolist() == [0.5, 1.0, 3.5]
    assert m.novelties([[0.0]], [[2.0]]).tolist() == [2.0]
    assert np.isnan(m.novelties([[0.0]], [])).all() and math.isnan(m.knn_novelty([], [[1.0]]))
    with pytest.raises(UserError, match="has 1 dimensions, embeddings have 2"):
        m.novelties([[1.0, 0.0]], [[1.0]])


def test_duplicates_are_tree_edges_of_length_zero():
    assert m.mst_span([[1, 0], [2, 0], [0, 1]]) == 0.5
    assert m.span([[0, 3, 1], [3, 0, 9], [1, 9, 0]]) == 2.0 and math.isnan(m.span([[0]]))


def test_novel_sum_by_hand():
    # sorted rows (0, .2, 1), (0, .2, .4), (0, .4, 1) with weights 1, 1/2, 1/3 of sum 11/6, times sigma 1, 2, 1
    with_self = (1 * (0.1 + 1 / 3) + 2 * (0.1 + 0.4 / 3) + (0.2 + 1 / 3)) / (11 / 6) / 3
    without = (1 * (0.2 + 0.5) + 2 * (0.2 + 0.2) + (0.4 + 0.5)) / 1.5 / 3
    assert with_self == pytest.approx(0.260606, abs=5e-7) and without == pytest.approx(0.533333, abs=5e-7)
    assert m.novel_sum(E, density=[1, 2, 1]) == pytest.approx(with_self)
    assert m.novel_sum(E, density=[1, 2, 1], with_self=False) == pytest.approx(without)
    plain = [m.novel_sum(E, beta=0, with_self=flag) for flag in (True, False)]
    assert plain == pytest.approx([(0.433333 + 0.233333 + 0.533333) / 5.5, 2.0 / 4.5], abs=1e-6)
    with pytest.raises(UserError, match="density: have the shape"):
        m.novel_sum(E, density=[1, 2])


def test_density_by_hand():
    # squared distances to the reference (0,0), (3,4): itself a copy and no neighbour, so 25; from (0,4): 16 and 9
    found = m.density_factor(np.array([[0.0, 0], [0, 4]]), np.array([[0.0, 0], [3, 4]]), beta=0.5, k=2)
    assert found.tolist() == pytest.approx([1 / 5, 1 / math.sqrt(12.5)])
    one = m.density_factor(np.array([[0.0, 0], [0, 4]]), np.array([[0.0, 0], [3, 4]]), beta=1.0, k=1)
    assert one.tolist()[1] == pytest.approx(1 / 9)
    with pytest.raises(UserError, match="reference: is empty"):
        m.novel_sum_against(E, [])


@given(SEEDS, st.sampled_from([0.0, 0.5]), st.booleans())
def test_novel_sum_against_a_loop(seed, beta, with_self):
    rng = np.random.default_rng(seed)
    rows, reference = rng.normal(size=(7, 3)), rng.normal(size=(9, 3))
    total = 0.0
    for i in range(7):
        squares = sorted(((rows[i] - r) ** 2).sum() for r in reference)
        sigma = (np.mean(squares[:4]) + 1e-9) ** -beta
        d = sorted(cosine_distances(rows)[i].tolist())[0 if with_self else 1 :]
        w = [1 / (r + 1) for r in range(len(d))]
        total += sigma * np.average(np.abs(d), weights=w) / 7
    found = m.novel_sum_against(rows, reference, beta=beta, k=4, with_self=with_self)
    assert found == pytest.approx(total, rel=1e-6)


def test_coverage_recall_density_by_hand():
    # on a line, k = 1: reference balls 0 +- 1, 1 +- 1, 5 +- 4; items at 0.5 and 1.5
    reference, items = [[0.0], [1.0], [5.0]], [[0.5], [1.5]]
    assert m.coverage_knn(items, reference, k=1) == 1.0
    assert m.coverage_knn([[0.5], [0.6]], reference, k=1) == pytest.approx(2 / 3)
    # 0.5 lies in the balls of 0 and 1, 1.5 in those of 1 and 5
    assert m.density_knn(items, reference, k=1) == 2.0
    # balls of the items: +- 1, so [-0.5, 1.5] and [0.5, 2.5]
    assert m.recall_knn(items, reference, k=1) == pytest.approx(2 / 3)
    assert math.isnan(m.coverage_knn(items, reference, k=3)) and math.isnan(m.recall_knn(items, reference, k=2))
    assert math.isnan(m.coverage_knn([], reference, k=1)) and m.recall_knn(items, reference, k=1) > 0
    with pytest.raises(UserError, match="k: is 0"):
        m.coverage_knn(items, reference, k=0)


def test_mmd_against_its_definition():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)) + 1

    def k(a, b):
        return math.exp(-((a - b) ** 2).sum() / (2 * 0.7**2))

    within = [np.mean([k(a, b) for a, b in permutations(z, 2)]) for z in (x, y)]
    expected = sum(within) - 2 * np.mean([k(a, b) for a in x for b in y])
    assert m.mmd(x, y, bandwidth=0.7) == pytest.approx(expected)
    width = np.median([np.linalg.norm(a - b) for a, b in combinations(y, 2)])
    assert m.mmd(x, y) == pytest.approx(m.mmd(x, y, bandwidth=width), rel=1e-9)
    assert m.mmd(x, x, bandwidth=0.7) < 0, "unbiased: below 0 when the sets are the same"
    assert math.isnan(m.mmd(x[:1], y))


def test_mmd_is_centred_for_equal_distributions():
    rng = np.random.default_rng(1)
    values = [m.mmd(rng.normal(size=(8, 2)), rng.normal(size=(8, 2)), bandwidth=1.0) for _ in range(300)]
    assert abs(np.mean(values)) < 3 * np.std(values) / math.sqrt(300) and min(values) < 0


def test_energy_distance_against_its_definition():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)) + 1
    within = [np.mean([np.linalg.norm(a - b) for a, b in permutations(z, 2)]) for z in (x, y)]
    across = np.mean([np.linalg.norm(a - b) for a in x for b in y])
    assert m.energy_distance(x, y) == pytest.approx(2 * across - sum(within))
    assert math.isnan(m.energy_distance(x, y[:1]))


def test_frechet_distance_by_hand():
    # on a line: squared difference of the means, and of the standard deviations (ddof 1: sqrt 2 and 2 sqrt 2)
    assert m.frechet_distance([[0.0], [2.0]], [[3.0], [7.0]]) == pytest.approx(16 + 2)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(40, 3)) @ np.diag([1, 2, 3]) + 1
    cx, cy = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(cx + cy - 2 * sqrtm(cx @ cy).real)
    assert m.frechet_distance(x, y) == pytest.approx(expected)
    assert m.frechet_distance(x, x) == pytest.approx(0.0, abs=1e-9) and math.isnan(m.frechet_distance(x, y[:1]))


def largest_by_trying_all(similarity, good, below):
    for size in range(len(good), 0, -1):
        for chosen in combinations(good, size):
            if all(similarity[i][j] < below for i, j in combinations(chosen, 2)):
                return size
    return 0


@given(st.integers(1, 9), SEEDS)
def test_the_largest_compatible_set(n, seed):
    k = np.random.default_rng(seed).uniform(size=(n, n))
    k = (k + k.T) / 2
    np.fill_diagonal(k, 1.0)
    chosen = m.largest_compatible(k, 0.5)
    assert len(chosen) == largest_by_trying_all(k, range(n), 0.5)
    assert all(k[i, j] < 0.5 for i, j in combinations(chosen, 2))
    greedy = m.largest_compatible(k, 0.5, exact=False)
    assert len(greedy) <= len(chosen) and all(k[i, j] < 0.5 for i, j in combinations(greedy, 2))


def test_yield_by_hand_and_large():
    assert m.yield_size(E, [0.9, 0.8, 0.7], similarity=0.7) == 2.0  # similarities .8, 0, .6: the pairs with (0,1)
    assert m.yield_size(E, [0.9, 0.8, 0.3], similarity=0.7) == 1.0, "(0,1) is not good enough"
    assert m.yield_size(E, [0.0] * 3) == 0.0 and math.isnan(m.yield_size([], []))
    many = np.repeat(np.eye(35), 2, axis=0)  # 35 pairs of copies
    with pytest.raises(UserError, match="70 good items are too many"):
        m.yield_size(many, np.ones(70))
    assert m.yield_size(many, np.ones(70), exact=False) == 35.0


def test_creative_utility_by_hand():
    # (1,0) counts 1, (0,1) is 1 away, the second (1,0) is a copy
    assert m.utilities([[1, 0], [0, 1], [1, 0]], [0.9, 0.5, 0.8]).tolist() == pytest.approx([0.9, 0.5, 0.0])
    assert m.creative_utility(E, [1, 1, 1]) == pytest.approx(1 + 0.2 + 0.4)
    assert m.creative_utility(E[::-1], [1, 1, 1]) == pytest.approx(1 + 0.4 + 0.2)
    assert math.isnan(m.creative_utility([], []))
