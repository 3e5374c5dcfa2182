"""Closed forms against brute force, on numpy and torch, for groups of every awkward kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.diversity import leave_one_out as loo
from polypath.diversity.marginals import leave_one_out
from polypath.diversity.measures import distinct_n, hill_number

KERNEL = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1.0]])


def vendi(kernel: np.ndarray, q: float) -> float:
    """From the definition: the Hill number of the eigenvalues of K / tr K."""
    values = np.clip(np.linalg.eigvalsh(kernel / np.trace(kernel)), 0, None)
    return hill_number(np.where(values > 1e-12, values, 0), q=q)


def brute(kernel: np.ndarray, q: float = 1.0) -> np.ndarray:
    return leave_one_out(lambda keep: vendi(kernel[np.ix_(keep, keep)], q), len(kernel))


def gram(g: int, d: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(g, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


KERNELS = {
    "worked": KERNEL,
    "identity": np.eye(5),
    "copies": np.ones((4, 4)),
    "pair": gram(2, 3, 0),
    "wide": gram(16, 8, 1),
    "low rank": gram(12, 3, 2),
    "pairs of copies": np.kron(np.eye(3), np.ones((2, 2))),
    "scaled": np.diag([1.0, 2.0, 3.0]),
    "multiple": 5 * gram(6, 6, 3),
}


@pytest.mark.parametrize("q", [0.5, 1, 2, 3, math.inf])
@pytest.mark.parametrize("name", KERNELS)
def test_vendi_marginals(name: str, q: float) -> None:
    kernel = KERNELS[name]
    found = loo.loo_vendi(kernel, q=q)
    assert found == pytest.approx(brute(kernel, q), abs=1e-8)
    assert np.asarray(loo.loo_vendi(torch.tensor(kernel), q=q)) == pytest.approx(found, abs=1e-8)


def test_worked_vendi_marginals() -> None:
    assert loo.loo_vendi(KERNEL) == pytest.approx([0.132288, 0.132288, 0.934986, 0.934986], abs=1e-6)
    assert loo.loo_vendi(KERNEL, q=2) == pytest.approx([-0.115060, -0.115060, 0.858966, 0.858966], abs=1e-6)


def test_vendi_marginals_are_batched_and_good_in_single_precision() -> None:
    stack = np.stack([gram(16, 32, seed) for seed in range(6)]).reshape(2, 3, 16, 16)
    found = loo.loo_vendi(stack)
    assert found.shape == (2, 3, 16) and found[1, 2] == pytest.approx(brute(stack[1, 2]), abs=1e-8)
    single = loo.loo_vendi(torch.tensor(stack, dtype=torch.float32))
    assert single.dtype == torch.float32 and np.abs(np.asarray(single) - found).max() < 1e-4
    assert loo.loo_vendi(np.zeros((0, 4, 4))).shape == (0, 4) and loo.loo_vendi([[1.0]]).tolist() == [0.0]


def test_a_similarity_that_is_not_finite_is_named() -> None:
    bad = np.stack([KERNEL, KERNEL])
    bad[1, 2, 0] = math.nan
    for function in (loo.loo_vendi, loo.loo_facility):
        with pytest.raises(UserError, match=r"similarity\[1\]\[2\]"):
            function(bad)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9), st.sampled_from([0.0, 0.5, 1.0, 2.0, math.inf]))
@settings(max_examples=60, deadline=None)
def test_hill_marginals(labels: list[int], q: float) -> None:
    def value(keep):
        return hill_number(list(np.unique([labels[i] for i in keep], return_counts=True)[1]), q=q)

    assert loo.loo_hill(labels, q=q) == pytest.approx(leave_one_out(value, len(labels)), abs=1e-9)


@given(st.integers(0, 1000), st.integers(2, 7))
@settings(max_examples=30, deadline=None)
def test_facility_and_coverage_marginals(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    kernel = rng.integers(-2, 4, size=(size, size)) / 2  # with ties
    kernel = (kernel + kernel.T) / 2

    def represented(keep):
        return np.maximum(kernel[:, keep], 0).max(axis=1).sum() if keep else 0.0

    assert loo.loo_facility(kernel) == pytest.approx(leave_one_out(represented, size))
    table = rng.integers(0, 3, size=(size, 5)).astype(float)
    covered = leave_one_out(lambda keep: table[keep].max(axis=0).sum() if keep else 0.0, size)
    assert loo.loo_coverage(table) == pytest.approx(covered)


@given(st.lists(st.sampled_from(["a b c", "a b", "b c a b", "", "c"]), min_size=2, max_size=6))
def test_distinct_marginals(texts: list[str]) -> None:
    found = loo.loo_distinct_n(texts)
    for i, value in enumerate(found):
        rest = distinct_n([*texts[:i], *texts[i + 1 :]])
        expected = distinct_n(texts) - rest
        assert value == pytest.approx(0.0 if math.isnan(expected) else expected)


def test_gains_of_adding() -> None:
    whole = gram(7, 5, 4)
    chosen, rest = [0, 1, 2], [3, 4, 5, 6]
    inside, across, own = whole[np.ix_(chosen, chosen)], whole[np.ix_(rest, chosen)], np.diag(whole)[rest]
    det = [np.linalg.slogdet(whole[np.ix_([*chosen, i], [*chosen, i])] + 0.1 * np.eye(4))[1] for i in rest]
    base = np.linalg.slogdet(inside + 0.1 * np.eye(3))[1]
    assert loo.gain_log_det(inside, across, own, ridge=0.1) == pytest.approx(np.array(det) - base)
    after = [vendi(whole[np.ix_([*chosen, i], [*chosen, i])], 1) for i in rest]
    assert loo.gain_vendi(inside, across, own) == pytest.approx(np.array(after) - vendi(inside, 1))
    assert loo.gain_vendi(np.zeros((0, 0)), np.zeros((2, 0)), np.ones(2)) == pytest.approx([1, 1])
    assert loo.gain_log_det(np.zeros((0, 0)), np.zeros((1, 0)), [1.0], ridge=0) == pytest.approx([0])
    assert loo.loo(lambda items: float(len(set(items))), ["a", "b", "a"]).tolist() == [0, 1, 0]
