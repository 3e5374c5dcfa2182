"""The numbers inside operators, against brute force and the worked examples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.diversity.features import ngrams
from polypath.rollout.branchers import fork_points
from polypath.rollout.comparators import best_share
from polypath.rollout.pruners import farthest_first, greedy_new_share, jaccard, max_variance_subset, most_unlike
from polypath.rollout.sources import foreign_count


def test_strategy_reward_is_the_mean_of_the_best_share() -> None:
    """StraTA: R = [[1,1],[1,0],[0,0]]; with half of two the best one counts, with all of them the mean."""
    returns = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert [best_share(row, 0.5) for row in returns] == [1.0, 1.0, 0.0]
    assert [best_share(row, 1.0) for row in returns] == [1.0, 0.5, 0.0]
    assert math.isnan(best_share([], 0.5)) and math.isnan(best_share([1.0, math.nan], 0.5))


def test_farthest_first_on_the_worked_vectors() -> None:
    e = np.array([[1, 0], [0.98, 0.199], [0, 1], [-0.6, 0.8]])
    assert farthest_first(e @ e.T, 3) == [0, 3, 2]
    assert farthest_first(np.zeros((0, 0)), 3) == [] and farthest_first(np.eye(2), 5) == [0, 1]
    assert sorted(farthest_first(np.ones((3, 3)), 3)) == [0, 1, 2]  # all the same: nothing is chosen twice


def test_small_models_leave_the_group_on_a_line() -> None:
    """S2L-PO: G = 8, T_mix = 5, alpha = 1 - (step - 1)/4."""
    assert [foreign_count(1 - (step - 1) / 4, 8) for step in range(1, 6)] == [8, 6, 4, 2, 0]


def test_planning_picks_of_the_worked_texts() -> None:
    """DPWriter: each text has 3 + 2 + 1 n-grams; b shares 3 of 6 with a, d shares "a b" and "x y"."""
    texts = ["a b c d", "a b c e", "x y z w", "a b x y"]
    assert greedy_new_share([ngrams(text.split(), (2, 3, 4)) for text in texts], 2) == [0, 2]
    assert most_unlike([["a b c d", "a b x y"], ["x y z w", "a b c e"]], "ngrams") == [1, 0]


@given(st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=2, max_size=8), st.data())
def test_the_subset_of_largest_variance_by_brute_force(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    picked = max_variance_subset(values, k)
    best = max(float(np.var(part)) for part in itertools.combinations(values, k))
    assert len(set(picked)) == k and np.var([values[i] for i in picked]) == pytest.approx(best)


def test_jaccard_and_fork_points() -> None:
    assert jaccard(set(), set()) == 1.0 and jaccard({("a",)}, set()) == 0.0
    assert fork_points([0.1, 0.9, 0.8, 0.2, 0.7], k=2, gap=2) == [1, 4]
    assert fork_points([0.5, 0.5], k=5) == [0, 1] and fork_points([], k=2) == []
    assert fork_points([0.0] * 9 + [1.0], k=1, skip_last=0.1) == [0]
