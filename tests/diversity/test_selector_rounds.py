"""Controls, cliques, votes, rounds and sparse regions: worked picks and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.diversity import measures
from polypath.diversity.selectors import covers, rounds, simple, spread


def unit(n: int, d: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=3, max_size=8), st.integers(1, 8))
def test_the_widest_subset_is_the_widest(rewards: list[float], k: int) -> None:
    k = min(k, len(rewards))
    found = simple.max_variance(rewards, k=k)
    best = max(float(np.var(part)) for part in itertools.combinations(rewards, k))
    assert found.gains == pytest.approx([best] * k, abs=1e-12)
    assert np.var([rewards[i] for i in found.indices]) == pytest.approx(best, abs=1e-12)


def test_binary_rewards_are_balanced() -> None:
    """Six right and two wrong of eight, four wanted: both wrong and two right, variance 1/4."""
    found = simple.max_variance([1, 1, 1, 0, 1, 0, 1, 1], k=4)
    assert {3, 5} < set(found.indices) and found.gains == [0.25] * 4


def test_a_clique_is_the_largest() -> None:
    """q = (.9, .8, .7, .3), least .5; cosines .9 (0, 1), .2 (0, 2), .1 (1, 2); below .6: {0, 2} of size 2."""
    kernel = np.array([[1, 0.9, 0.2, 0], [0.9, 1, 0.1, 0], [0.2, 0.1, 1, 0], [0, 0, 0, 1]])
    rows = np.linalg.cholesky(kernel)
    found = simple.compatible(rows, [0.9, 0.8, 0.7, 0.3], k=4, least=0.5, similarity=0.6)
    assert (
        found.indices == [0, 2] and found.gains == [0.9, 0.7] and "2 that are all different (exact)" in found.reasons[0]
    )
    assert simple.compatible(rows, [0.9, 0.8, 0.7, 0.3], k=1, least=0.5, similarity=0.6).indices == [0]
    assert simple.compatible(rows, [0.1] * 4, k=2, least=0.5).indices == []
    many = unit(80, 3)
    found = simple.compatible(many, k=80, similarity=0.5)
    assert "greedy" in found.reasons[0] and len(found) > 1
    part = many[found.indices]
    assert (part @ part.T - np.eye(len(part)) < 0.5).all()


def test_farthest_over_routes() -> None:
    """LCS similarities DSVC/DVC .75, DSVC/EZ 0, DVC/EZ 0: after the first comes EZ at distance 1, then .25."""
    kernel = np.array([[1, 0.75, 0], [0.75, 1, 0], [0, 0, 1.0]])
    found = spread.farthest(kernel, k=3)
    assert found.indices == [0, 2, 1] and found.gains == [math.inf, 1.0, 0.25]
    assert spread.farthest(kernel, [0, 1, 0], k=1).indices == [1]
    assert spread.farthest(np.ones((3, 3)), [0, 1, 0.5], k=3).indices == [1, 2, 0]  # ties by quality
    with pytest.raises(UserError, match="one column per item"):
        spread.farthest([[1, 0]], k=1)


def test_one_problem_several_solutions() -> None:
    """Distances .1 (0, 1), .8 (0, 2), .6 (1, 2): means .45, .35, .7; then to item 2: .8 against .6."""
    kernel = 1 - np.array([[0, 0.1, 0.8], [0.1, 0, 0.6], [0.8, 0.6, 0]])
    found = spread.mean_farthest(kernel, k=3)
    assert found.indices == [2, 0, 1] and found.gains == pytest.approx([0.7, 0.8, 0.35])


@pytest.mark.parametrize("q", [0.5, 1.0, 2.0])
def test_greedy_vendi_is_greedy(q: float) -> None:
    rows = unit(14, 4, seed=2)
    picks: list[int] = []
    gains, before = [], 0.0
    for _ in range(6):
        value = {i: measures.vendi(rows[[*picks, i]], q=q) for i in range(14) if i not in picks}
        top = max(value.values())
        pick = min(i for i, v in value.items() if v >= top - 1e-9)
        gains.append(value[pick] - before)
        before = value[pick]
        picks.append(pick)
    found = spread.vendi(rows, k=6, q=q)
    assert found.indices == picks and found.gains == pytest.approx(gains, abs=2e-5)
    with pytest.raises(UserError, match=r"vendi\.q"):
        spread.vendi(rows, k=2, q=3)


def test_the_deita_filter_keeps_its_distance() -> None:
    rows = [(1, 0), (0.99, 0.141), (0, 1), (-1, 0)]
    assert simple.min_distance(rows, [0.5, 0.9, 0.1, 0.3], k=4, distance=0.1).indices == [1, 3, 2]
    assert simple.min_distance(rows, [0.5, 0.9, 0.1, 0.3], k=4, distance=0).indices == [1, 0, 3, 2]
    with pytest.raises(UserError, match="below 0"):
        simple.min_distance(rows, k=2, distance=-1)


def test_votes_and_covers() -> None:
    """Three candidates each right on another two of three queries: alone 2/3, two still 2/3 (two ties), three all;
    with the fourth the means are 3/4, 1/2, 1/2: 2/3 again."""
    table = [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0]]
    found = covers.ensemble(table, k=4)
    assert found.indices == [0, 1, 2, 3] and found.gains == pytest.approx([2 / 3, 0, 1 / 3, -1 / 3], abs=1e-9)
    assert found.reasons[2] == "vote 1, best single 0.667"
    assert covers.ensemble(table, k=2, seeds=2).indices == [0, 1]
    with pytest.raises(UserError, match=r"outside of \[0, 1\]"):
        covers.ensemble([[2.0]], k=1)
    with pytest.raises(UserError, match="seeds"):
        covers.ensemble(table, k=2, seeds=3)
    sets = [{1, 2}, {2, 3, 4}, {5}, {3}]
    assert covers.set_cover(sets, k=4).indices == [1, 0, 2]
    assert covers.set_cover(sets, k=4, share=0.6).indices == [1]  # three of five
    assert covers.set_cover(sets, k=4, cost=[1, 9, 1, 1]).indices[0] == 0
    assert covers.set_cover([set(), set()], k=2).indices == []


def test_arms_that_lower_the_value_are_closed() -> None:
    """Pulls of two: a .9 is kept; b would make it (.9 + .1) / 2 = .5 and is closed."""
    found = covers.subset_bandit(list("aabb"), [0.9, 0.9, 0.1, 0.1], k=4, per_pull=2)
    assert found.indices == [0, 1] and found.gains == [0.9, 0.9] and found.reasons == ["subset a: 0.9"] * 2
    asked: list[list[int]] = []

    def worth(indices):
        asked.append(list(indices))
        return len({"aabbcc"[i] for i in indices}) / 3  # how many subsets are covered

    found = covers.subset_bandit(list("aabbcc"), worth, k=3, per_pull=1)
    assert found.indices == [0, 2, 4] and asked == [[0], [0, 2], [0, 2, 4]]
    with pytest.raises(UserError, match="3 numbers for 2 items"):
        covers.subset_bandit(["a", "b"], [1.0, 2.0, 3.0], k=1)


def test_rounds_over_capabilities_and_styles() -> None:
    """Budget 4, two capabilities, two each. Capability 0: styles b (2 items) then a (4) give one each: the best of b is
    item 5 (2), of a item 0 (5). Capability 1 takes from the rest: b item 4 (1), a item 3 (5)."""
    scores = [[5, 0], [4, 0], [3, 1], [0, 5], [1, 1], [2, 0]]
    found = rounds.capability_rounds(scores, list("aaaabb"), k=4)
    assert found.indices == [5, 0, 4, 3] and found.gains == [2, 5, 1, 5]
    assert found.reasons[0] == "capability 0, style b"
    both = rounds.capability_rounds(scores, [["a"], ["a", "b"], ["a"], ["a"], ["b"], ["b"]], k=2)
    assert len(set(both.indices)) == 2
    assert rounds.capability_rounds(scores, list("aaaabb"), k=6, least=4).indices == [0, 1, 3]
    with pytest.raises(UserError, match="2 for 6 items"):
        rounds.capability_rounds(scores, ["a", "b"], k=1)


def test_exploration_visits_what_is_seldom_seen() -> None:
    quality, labels = [0.9, 0.8, 0.7, 0.1, 0.05], list("aaabb")
    assert rounds.explore_clusters(quality, labels, k=5, epsilon=0).indices == [0, 1, 2, 3, 4]
    assert rounds.explore_clusters(quality, labels, k=5, epsilon=1).indices == [0, 3, 1, 4, 2]
    shares = [rounds.explore_clusters(quality, labels, k=2, epsilon=0.3, seed=s).indices[1] == 3 for s in range(300)]
    assert np.mean(shares) == pytest.approx(0.3, abs=0.08)
    with pytest.raises(UserError, match="epsilon"):
        rounds.explore_clusters(quality, labels, k=1, epsilon=2)


def test_sparse_regions_are_filled() -> None:
    """Forty kept items around one direction; of the pool only five point elsewhere, and they come first."""
    rng = np.random.default_rng(0)
    crowd = np.array([1.0, 0, 0]) + 0.05 * rng.normal(size=(80, 3))
    rare = np.array([0, 1.0, 0]) + 0.05 * rng.normal(size=(5, 3))
    rows = np.concatenate([crowd, rare])
    found = rounds.sparse(rows, k=45, clusters=4, chosen=list(range(40)))
    assert {80, 81, 82, 83, 84} <= set(found.indices[40:45])
    assert found.reasons[:1] == ["given"] and found.reasons[40] == "outside all clusters"
    assert sorted(rounds.sparse(np.ones((5, 3)), k=5).indices) == list(range(5))
