"""Selectors: worked picks, plain greedy and brute force as oracles, prefixes, ties and what cannot be selected."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from polypath.core.errors import UserError
from polypath.diversity.selectors import coverage, lazy, scored, structured
from polypath.diversity.selectors.common import Selection

E = np.array([(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)])


def rows_of(n: int, d: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def plain_dpp(rows: np.ndarray, quality: np.ndarray, k: int, ridge: float) -> Selection:
    """Greedy by determinants, nothing remembered."""
    kernel = (rows @ rows.T + ridge * np.eye(len(rows))) * np.outer(quality, quality)
    picks: list[int] = []
    gains, before = [], 0.0
    for _ in range(k):
        value = {
            i: np.linalg.slogdet(kernel[np.ix_([*picks, i], [*picks, i])])[1]
            for i in range(len(rows))
            if i not in picks
        }
        pick = max(value, key=lambda i: (round(value[i], 10), -i))
        gains.append(value[pick] - before)
        before = value[pick]
        picks.append(pick)
    return Selection(picks, gains)


def test_worked_determinantal_picks() -> None:
    """L = K + .1 I: log 1.1 twice; with quality exp(rel/2) the second vector is first, log(1.1 e^.95)."""
    found = lazy.dpp(E, k=3)
    assert found.indices == [0, 3, 2] and found.gains == pytest.approx([0.09531, 0.09531, -1.655958], abs=1e-5)
    relevance = np.array([0.9, 0.95, 0.5, 0.7, 0.6])
    found = lazy.dpp(E, relevance, k=3, weight=0.5)
    assert found.indices == [1, 3, 0] and found.gains == pytest.approx([1.04531, 0.762035, -0.722682], abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_lazy_greedy_is_greedy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a block of four and two waiting picks every path through the blocks is taken."""
    monkeypatch.setattr(lazy, "ACTIVE", 4)
    monkeypatch.setattr(lazy, "WAITING", 2)
    monkeypatch.setattr(lazy, "BLOCK", 3)
    rows = rows_of(40, 6, seed)
    quality = np.random.default_rng(seed).uniform(0.5, 2, size=40)
    expected = plain_dpp(rows, quality, 15, 0.1)
    found = lazy.dpp(rows, np.log(quality), k=15)
    assert found.indices == expected.indices and found.gains == pytest.approx(expected.gains, abs=1e-9)
    nearest = lazy.k_center(rows, k=15).indices
    picks = [0]
    while len(picks) < 15:
        distance = (1 - rows @ rows[picks].T).min(axis=1)
        distance[picks] = -1
        picks.append(int(np.argmax(distance)))
    assert nearest == picks
    relevant = lazy.mmr(rows, quality, k=15, trade_off=0.3).indices
    picks = [int(np.argmax(quality))]
    while len(picks) < 15:
        score = 0.3 * quality - 0.7 * (rows @ rows[picks].T).max(axis=1)
        score[picks] = -np.inf
        picks.append(int(np.argmax(score)))
    assert relevant == picks


def test_the_large_blocks_agree_with_single_precision() -> None:
    rows = rows_of(3000, 24, seed=5)
    double, single = (lazy.dpp(rows.astype(kind), k=200) for kind in (np.float64, np.float32))
    assert sum(double.gains) == pytest.approx(sum(single.gains), abs=1e-2)
    assert len(set(double.indices)) == 200 and all(a >= b - 1e-9 for a, b in itertools.pairwise(double.gains))


@pytest.mark.parametrize("select", [lazy.dpp, lazy.k_center, lambda rows, **o: lazy.mmr(rows, rows[:, 0] + 2, **o)])
def test_a_beginning_is_a_selection_and_can_be_continued(select) -> None:
    rows = rows_of(60, 5, seed=2)
    whole = select(rows, k=20)
    assert select(rows, k=8).indices == whole.indices[:8]
    assert select(rows, k=20, chosen=whole.indices[:8]).indices == whole.indices
    order = np.random.default_rng(0).permutation(60)
    if select is lazy.dpp:  # row order decides nothing but ties (all first picks are tied here)
        first = int(np.flatnonzero(order == whole.indices[0])[0])
        assert [int(order[i]) for i in select(rows[order], k=20, chosen=[first]).indices] == whole.indices


def test_worked_picks_of_the_others() -> None:
    assert lazy.k_center(E, k=3).indices == [0, 4, 2]
    relevance = [0.9, 0.95, 0.5, 0.7, 0.6]
    assert [lazy.mmr(E, relevance, k=3, trade_off=t).indices for t in (0.7, 0.3)] == [[1, 4, 0], [1, 4, 3]]
    unit = E / np.linalg.norm(E, axis=1, keepdims=True)
    kernel = unit @ unit.T
    found = coverage.facility_location(kernel, k=3)  # the first two items gain the same at the third pick
    assert found.indices == [2, 3, 0] and found.gains == pytest.approx([3.4272, 0.72, 0.6328], abs=1e-4)
    found = coverage.graph_cut(kernel, k=3, penalty=0.4)
    assert found.indices == [2, 1, 3] and found.gains == pytest.approx([3.0272, 1.928439, 1.5998], abs=1e-4)


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_facility_location_is_plain_greedy(seed: int, k: int) -> None:
    kernel = np.random.default_rng(seed).normal(size=(7, 9))
    picks: list[int] = []
    for _ in range(k):
        value = [np.maximum(kernel[[*picks, i]], 0).max(axis=0).sum() if i not in picks else -1 for i in range(7)]
        picks.append(int(np.argmax(np.round(value, 12))))
    found = coverage.facility_location(kernel, k=k)
    total = np.maximum(kernel[found.indices], 0).max(axis=0).sum()
    assert sum(found.gains) == pytest.approx(total)
    assert total == pytest.approx(np.maximum(kernel[picks], 0).max(axis=0).sum())
    assert coverage.facility_location(kernel, k=k, chosen=found.indices[:1]).indices == found.indices


def test_sums_sets_and_portfolios() -> None:
    found = coverage.max_sum(E, k=3)
    distance = 1 - E / np.linalg.norm(E, axis=1, keepdims=True) @ (E / np.linalg.norm(E, axis=1, keepdims=True)).T
    assert sum(found.gains) == pytest.approx(distance[np.ix_(found.indices, found.indices)].sum() / 2)
    assert found.indices[0] == int(np.argmax(distance.sum(axis=1)))
    sets = [{1, 2}, {2, 3, 4}, {5}, set()]
    assert coverage.features(sets, k=4).indices == [1, 0, 2, 3]  # 3, then 1 and 1 (lowest index first), then nothing
    assert coverage.features(sets, k=1, cost=[1, 9, 1, 1]).indices == [0]
    assert coverage.features([{1}, {1}, {2}], k=2, per_feature="sqrt").gains == pytest.approx([1, 1])
    success = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert coverage.portfolio(success, k=3).indices == [0, 2]  # the second adds nothing to both
    assert coverage.portfolio(success, k=3, cost=[1, 1, 1], price=2.5).indices == []
    assert coverage.novel(E, k=3).indices[0] == 0 and len(set(coverage.novel(E, k=5).indices)) == 5


def test_quotas_share_and_pass_on() -> None:
    labels, score = list("aaaaabbc"), [5, 4, 3, 2, 1, 9, 8, 7]
    assert Counter(labels[i] for i in structured.quota(labels, score, k=3).indices) == {"a": 1, "b": 1, "c": 1}
    found = structured.quota(labels, score, k=6)
    assert Counter(labels[i] for i in found.indices) == {"a": 3, "b": 2, "c": 1} and 0 in found.indices
    assert structured.quota(["x"], [1.0], k=1).reasons == ["class x"]


def test_sampled_subsets_have_the_right_probabilities() -> None:
    """All pairs of four vectors: frequencies against det(L_S) / sum."""
    rows = rows_of(4, 3, seed=3)
    exact = {pair: np.linalg.det(rows[list(pair)] @ rows[list(pair)].T) for pair in itertools.combinations(range(4), 2)}
    total = sum(exact.values())
    drawn = Counter(tuple(sorted(structured.k_dpp(rows, k=2, seed=s).indices)) for s in range(3000))
    for pair, weight in exact.items():
        p = weight / total
        assert drawn[pair] / 3000 == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 3000) + 1e-9)
    with pytest.raises(UserError, match="rank 3"):
        structured.k_dpp(rows, k=4)
    assert structured.k_dpp(rows, k=2, seed=1).indices == structured.k_dpp(rows, k=2, seed=1).indices


def test_the_bandit_goes_where_the_reward_is() -> None:
    labels = ["bad"] * 100 + ["good"] * 100
    value = [0.0] * 100 + [1.0] * 100
    asked: list[int] = []

    def ask(indices):
        asked.extend(indices)
        return [value[i] for i in indices]

    found = structured.cluster_bandit(labels, ask, k=50, threshold=0.5, exploration=0.5)
    assert len(found) == 50 and all(i >= 100 for i in found.indices) and sum(i < 100 for i in asked) <= 32
    assert structured.cluster_bandit(labels, value, k=200, threshold=0.5).indices == list(range(100, 200))
    assert structured.upper_bound([0.3] * 10, 100) == pytest.approx(0.3 + math.sqrt(2 * math.log(100) / 10))


def test_swaps_reach_the_target_shares() -> None:
    people = [["f"], ["m"], ["m"], ["m"], ["f"], ["m"]]
    found = structured.swap(people, k=4, target={"f": (0.5, 1.0)})
    assert sum("f" in people[i] for i in found.indices) == 2 and found.gains == [1.0] * 4
    best = max(
        min(1 - max(0.75 - sum("f" in people[i] for i in s) / 4, 0), 1) for s in itertools.combinations(range(6), 4)
    )
    assert structured.swap(people, k=4, target={"f": (0.75, 1.0), "unknown": (1, 1)}).gains[0] == pytest.approx(best)


def test_scores_of_models_and_columns() -> None:
    p = [[(0.9, 0.1), (0.8, 0.2)], [(0.5, 0.5), (0.5, 0.5)], [(0.2, 0.8), (0.9, 0.1)]]
    found = scored.disagreement(p, k=3)
    assert found.indices == [2, 0, 1] and found.gains == pytest.approx([1.7, 1.1, 1.0])
    found = scored.disagreement(p, k=3, score="jensen_shannon")
    assert found.gains == pytest.approx([0.275396, 0.009966, 0.0], abs=1e-6)
    with pytest.raises(UserError, match="not probabilities"):
        scored.disagreement([[(2.0, 1.0)]], k=1)
    graph = np.array([[0, 0.5, 0.2], [0.5, 0, 0.4], [0.2, 0.4, 0]])
    r = 0.9 / np.abs(np.linalg.eigvals(graph)).max()
    paths = sum(np.linalg.matrix_power(r * graph, length) for length in range(1, 400)).sum(axis=1)
    assert scored.path_energy(graph) == pytest.approx(paths)
    assert scored.path_energy(graph) == pytest.approx([8.818313, 10.132732, 7.736814], abs=1e-5)
    table = np.random.default_rng(0).normal(size=(50, 4)) * [1, 5, 1, 0]
    assert scored.infinite(table, k=4).indices[0] == 1
    rewards = np.array([[0.1, 0.9, 0.5], [0.2, 0.9, 0.5], [0.9, 0.9, 0.5]])
    assert scored.crowd(rewards.T, ["a", "a", "b"], k=2, sizes=[[0, 1, 2]]).indices == [2, 0]
    for a, b in (([0.0, 1, 2], [0.1, 0.2, 0.2]), ([0.0, 1, 2, 3], [3.0, 1, 1, 0])):  # ties take mean ranks
        assert scored._spearman(np.array(a), np.array(b)) == pytest.approx(spearmanr(a, b).statistic)


def test_several_kernels_become_one() -> None:
    """The log-Euclidean mean of [[1,.5],[.5,1]] and I: eigenvalues sqrt(1.5) and sqrt(.5), without the ridge."""
    a, b = np.array([[1, 0.5], [0.5, 1]]), np.eye(2)
    mean = scored.log_mean([a, a])
    values = np.linalg.eigvalsh(mean)
    assert np.exp(values) == pytest.approx([0.501, 1.501])
    assert scored.log_mean([b, b]) == pytest.approx(np.log(1.001) * np.eye(2))
    kernel = rows_of(12, 4) @ rows_of(12, 4).T
    found = scored.multi_source_dpp([kernel, np.eye(12)], k=4)
    assert len(set(found.indices)) == 4
    feedback = [[1, math.nan], [math.nan, 10], [0, 0], [0.5, 5]]
    assert scored.heterogeneous(rows_of(4, 3), feedback, k=1).indices == [0]
    with pytest.raises(UserError, match=r"feedback\[1\]"):
        scored.heterogeneous(rows_of(2, 3), [[1.0], [math.nan]], k=1)


@pytest.mark.parametrize("select", [lazy.dpp, lazy.k_center, coverage.max_sum])
def test_what_cannot_be_selected(select) -> None:
    with pytest.warns(UserWarning, match="all are taken"):
        assert sorted(select(E, k=9).indices) == [0, 1, 2, 3, 4]
    with pytest.raises(UserError, match="Pick at least one"):
        select(E, k=0)
    for bad, message in ((math.nan, "not finite"), (None, "is zero")):
        rows = E.copy()
        rows[3] = 0 if bad is None else bad
        with pytest.raises(UserError, match=rf"embeddings\[3\].*{message}"):
            select(rows, k=2)
    assert select(np.ones((4, 2)), k=4).indices == [0, 1, 2, 3]  # all the same: in order, none twice


def test_settings_without_meaning() -> None:
    with pytest.raises(UserError, match="ridge"):
        lazy.dpp(E, k=3, ridge=0)
    with pytest.raises(UserError, match=r"dpp.weight.*Lower the weight to 0.015"):
        lazy.dpp(E, [1, -999, 1, 1, 1], k=3)
    with pytest.raises(UserError, match="trade_off"):
        lazy.mmr(E, [1] * 5, k=2, trade_off=2)
    with pytest.raises(UserError, match="chosen"):
        lazy.dpp(E, k=3, chosen=[1, 1])
    with pytest.raises(UserError, match="cost"):
        coverage.features([{1}], k=1, cost=[0])
