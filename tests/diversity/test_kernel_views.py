"""Kernel views against the matrices they stand for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import kernels as k
from polypath.diversity import measures as m

ROWS = np.random.default_rng(0).normal(size=(7, 3))
UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
LABELS = ["a", "b", "a", None, "b", None, "a"]
SETS = [{1, 2}, {2, 3}, set(), {1, 2}, {9}, set(), {1, 2, 3}]
STEPS = [np.random.default_rng(i).normal(size=(i % 3 + 1, 4)) for i in range(7)]
DISTANCE = np.linalg.norm(ROWS[:, None] - ROWS, axis=-1)
VIEWS = {
    "linear": (k.linear_kernel(ROWS), ROWS @ ROWS.T),
    "cosine": (k.cosine_kernel(ROWS), UNIT @ UNIT.T),
    "ridge": (k.cosine_kernel(ROWS, ridge=0.3), UNIT @ UNIT.T + 0.3 * np.eye(7)),
    "rbf": (k.rbf_kernel(ROWS, bandwidth=2.0), np.exp(-(DISTANCE**2) / 8)),
    "inverse_distance": (k.inverse_distance_kernel(ROWS), 1 / (1 + DISTANCE)),
    "label": (
        k.label_kernel(LABELS),
        np.array(
            [[float(i == j or (a is not None and a == b)) for j, b in enumerate(LABELS)] for i, a in enumerate(LABELS)]
        ),
    ),
    "jaccard": (
        k.jaccard_kernel(SETS),
        np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in SETS] for a in SETS]),
    ),
    "bags": (
        k.bag_kernel([dict.fromkeys(one, 2.0) for one in SETS]),
        np.array([[len(a & b) / math.sqrt(len(a) * len(b)) if a and b else float(a == b) for b in SETS] for a in SETS]),
    ),
    "rpd": (
        k.rpd_kernel(STEPS),
        np.array([[1 - max(k.path_divergence(a, b), k.path_divergence(b, a)) for b in STEPS] for a in STEPS]),
    ),
    "dense": (k.dense_kernel(UNIT @ UNIT.T), UNIT @ UNIT.T),
    "product": (k.product(k.cosine_kernel(ROWS), k.label_kernel(LABELS)), None),
    "quality": (
        k.quality_scaled(k.cosine_kernel(ROWS, ridge=0.1), np.arange(1, 8)),
        np.outer(np.arange(1, 8), np.arange(1, 8)) * (UNIT @ UNIT.T + 0.1 * np.eye(7)),
    ),
    "sum": (
        k.weighted_sum([k.cosine_kernel(ROWS, ridge=0.1), k.label_kernel(LABELS)], [2.0, 0.5]),
        None,
    ),
}
VIEWS["product"] = (VIEWS["product"][0], VIEWS["cosine"][1] * VIEWS["label"][1])
VIEWS["sum"] = (VIEWS["sum"][0], 2 * (VIEWS["cosine"][1] + 0.1 * np.eye(7)) + 0.5 * VIEWS["label"][1])


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_its_matrix_in_every_block(name):
    view, matrix = VIEWS[name]
    close = {"atol": 1e-12}
    np.testing.assert_allclose(view.matrix(), matrix, **close)
    np.testing.assert_allclose(view.block([4, 0], slice(2, 6)), matrix[[4, 0], 2:6], **close)
    np.testing.assert_allclose(view.block(np.array([1, 1]), [1, 3, 1]), matrix[[1, 1]][:, [1, 3, 1]], **close)
    np.testing.assert_allclose(view.rows([5]), matrix[[5]], **close)
    np.testing.assert_allclose(view.diagonal + view.ridge, matrix.diagonal(), **close)
    np.testing.assert_allclose(np.vstack([rows for _, rows in view.blocks()]), matrix, **close)
    assert view.size == 7 and np.linalg.matrix_rank(matrix) <= view.rank_bound <= 7
    if view.is_psd:
        assert np.linalg.eigvalsh(matrix).min() > -1e-9
    if view.factor is not None:
        rows = view.factor(slice(None))
        np.testing.assert_allclose(rows @ rows.T + view.ridge * np.eye(7), matrix, **close)
        weights = np.arange(7.0)
        np.testing.assert_allclose(view.gram_dual(weights), rows.T @ (weights[:, None] * rows), **close)
        assert view.rank == rows.shape[1]
    else:
        with pytest.raises(ValueError, match="has no factor"):
            view.gram_dual()


def test_the_ridge_lifts_the_rank_bound():
    assert k.cosine_kernel(ROWS).rank_bound == 3 and k.cosine_kernel(ROWS, ridge=0.1).rank_bound == 7
    assert k.cosine_kernel(ROWS[:2]).rank_bound == 2


def test_no_large_array_is_built_unasked():
    with pytest.raises(UserError, match=r"a 7 x 7 array needs 0\.0 GiB"):
        k.cosine_kernel(ROWS).matrix(max_bytes=100)
    large = k.cosine_kernel(np.ones((40_000, 2)))
    assert large.block([0, 39_999], [7]).tolist() == pytest.approx(np.ones((2, 1)))
    with pytest.raises(UserError, match=r"needs 11\.9 GiB"):
        large.matrix()


@given(st.lists(st.text("abc", max_size=6), min_size=1, max_size=5))
def test_lcs_by_recursion(sequences):
    def lcs(a, b):
        if not a or not b:
            return 0
        return lcs(a[:-1], b[:-1]) + 1 if a[-1] == b[-1] else max(lcs(a[:-1], b), lcs(a, b[:-1]))

    view = k.lcs_kernel(sequences)
    expected = [[lcs(a, b) / max(len(a), len(b)) if a or b else 1.0 for b in sequences] for a in sequences]
    np.testing.assert_allclose(view.matrix(), expected)
    assert not view.is_psd and k.lcs_kernel([["ab", "c"], ["c"]]).matrix()[0, 1] == 0.5, "of tokens, not characters"


def test_bandwidths():
    distances = [math.dist(a, b) for i, a in enumerate(ROWS) for b in ROWS[:i]]
    np.testing.assert_allclose(
        k.rbf_kernel(ROWS).matrix(), k.rbf_kernel(ROWS, bandwidth=float(np.median(distances))).matrix()
    )
    assert k.rbf_kernel(np.ones((3, 2))).matrix().tolist() == np.ones((3, 3)).tolist()
    with pytest.raises(UserError, match="bandwidth is 0"):
        k.rbf_kernel(ROWS, bandwidth=0.0)


def test_log_euclid_by_hand():
    # [[1, .5], [.5, 1]] has eigenvalues 1.5 and .5 on (1, 1) and (1, -1): half their logarithms give the roots
    pair, identity = k.dense_kernel([[1, 0.5], [0.5, 1]]), k.dense_kernel(np.eye(2))
    up, down = math.sqrt(1.5), math.sqrt(0.5)
    expected = [[(up + down) / 2, (up - down) / 2], [(up - down) / 2, (up + down) / 2]]
    assert expected[0] == pytest.approx([0.965926, 0.258819], abs=5e-7)
    np.testing.assert_allclose(k.log_euclid([pair, identity], ridge=0.0).matrix(), expected)
    # a negative weight inverts: eigenvalues 1/1.5 and 1/.5
    inverse = k.log_euclid([pair], [-1.0], ridge=0.0).matrix()
    np.testing.assert_allclose(inverse, np.linalg.inv([[1, 0.5], [0.5, 1]]))
    # scaled to norm 2: logarithms (log 1.5, log .5) times 2 / their length
    scale = 2 / math.hypot(math.log(1.5), math.log(0.5))
    values = np.linalg.eigvalsh(k.log_euclid([pair], ridge=0.0, norm=2.0).matrix())
    assert values.tolist() == pytest.approx([0.5**scale, 1.5**scale])
    volume = np.linalg.slogdet(k.log_euclid([pair, identity], ridge=0.1).matrix())[1]
    logs = [np.linalg.slogdet(one.matrix() + 0.1 * np.eye(2))[1] for one in (pair, identity)]
    assert volume == pytest.approx(np.mean(logs)), "log-volumes average"


def test_kernels_of_different_items_do_not_combine():
    with pytest.raises(UserError, match=r"of \[7, 2\] items"):
        k.product(k.cosine_kernel(ROWS), k.cosine_kernel(ROWS[:2]))
    for weights in ([1.0], [[1.0, 2.0]]):
        with pytest.raises(UserError, match="for 2 kernels"):
            k.weighted_sum([k.cosine_kernel(ROWS)] * 2, weights)
        with pytest.raises(UserError, match="for 2 kernels"):
            k.log_euclid([k.cosine_kernel(ROWS)] * 2, weights)
    with pytest.raises(UserError, match="quality: has shape"):
        k.quality_scaled(k.cosine_kernel(ROWS), [1.0])


def test_empty_sets_have_empty_kernels():
    for view in (
        k.cosine_kernel([]),
        k.label_kernel([]),
        k.jaccard_kernel([]),
        k.bag_kernel([]),
        k.lcs_kernel([]),
        k.rpd_kernel([]),
    ):
        assert view.size == 0 and view.matrix().shape == (0, 0) and math.isnan(m.kernel_vendi(view))


def test_vendi_of_any_view():
    for name in ("cosine", "ridge", "rbf", "label", "jaccard", "product", "sum"):
        view, matrix = VIEWS[name]
        assert m.kernel_vendi(view) == pytest.approx(m.vendi_of_kernel(matrix)), name
        assert m.kernel_vendi(view, q=2) == pytest.approx(m.vendi_of_kernel(matrix, q=2)), name


def test_the_kernels_are_registered():
    names = {entry.name for entry in registry.entries("kernel")}
    assert {"linear", "cosine", "rbf", "inverse_distance", "label", "jaccard", "lcs", "rpd"} <= names
