"""Strata, contexts, strategies and sources: against loops over the members, and at the edges."""

import numpy as np
import pytest

from polypath import credit
from polypath.credit.stratify import best_of_stratum, compare, nudged, per_source, together, two_levels, within_strata


def by_loops(rewards, strata, *, eps=1e-4, ddof=1, scale="std"):
    """The z-score of each reward among those of its stratum, member by member."""
    found = []
    for own, stratum in zip(rewards, strata, strict=True):
        members = [r for r, s in zip(rewards, strata, strict=True) if s == stratum]
        if len(set(members)) == 1:
            found.append(0.0)
            continue
        spread = np.std(members, ddof=ddof) + eps if scale == "std" else 1.0
        found.append((own - np.mean(members)) / spread)
    return found


@pytest.mark.parametrize("scale", ["std", "none"])
@pytest.mark.parametrize("seed", range(5))
def test_within_strata_is_a_z_score_of_each_stratum(seed, scale):
    rng = np.random.default_rng(seed)
    rewards, strata = rng.integers(0, 4, 9) / 4, rng.integers(0, 4, 9)
    found = within_strata(rewards, strata, scale=scale)
    np.testing.assert_allclose(found, by_loops(rewards, strata, scale=scale), atol=1e-12)
    batch = within_strata(np.stack([rewards, rewards[::-1]]), np.stack([strata, strata[::-1]]), scale=scale)
    np.testing.assert_allclose(batch, [found, found[::-1]], atol=1e-12)


def test_one_stratum_for_all_is_grpo_and_blend_0_ignores_the_strata():
    rewards = [1.0, 0.0, 0.5, 0.25]
    grpo = credit.run_method("grpo", {"rewards": rewards})["advantages"]
    np.testing.assert_allclose(within_strata(rewards, [3] * 4), grpo)
    np.testing.assert_allclose(within_strata(rewards, [0, 1, 1, 0], blend=0.0), grpo)


def test_a_stratum_of_one_gives_zero_or_its_place_in_the_group():
    """Mean of 1, 0, 0 is 1/3: the lone rollout is 2/3 above it; its neighbours are tied."""
    assert within_strata([1, 0, 0], [0, 1, 1], scale="none").tolist() == [0, 0, 0]
    found = within_strata([1, 0, 0], [0, 1, 1], scale="none", alone="group")
    np.testing.assert_allclose(found, [2 / 3, 0, 0])


def test_equal_rewards_that_round_apart_are_equal():
    assert not within_strata([0.1] * 3 + [0.7], [0, 0, 0, 1]).any()
    assert not nudged([0.1] * 7, [0, 0, 1, 1, 1, 2, 2]).any()
    assert not two_levels([0.1] * 5, [0, 0, 0, 1, 1]).any()


def test_nudged_between_0_is_within_the_context_and_1_is_the_whole_group():
    """With between 1 the two parts add up to r - mean r; whitened by the population's spread that is GRPO's."""
    rewards, contexts = [1, 1, 0, 1, 0, 0], [1, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(nudged(rewards, contexts, between=1.0, eps=0.0), [1, 1, -1, 1, -1, -1])
    only_within = nudged(rewards, contexts, between=0.0, eps=0.0)
    assert only_within[3] > only_within[0] > 0  # the same success is worth more where success is rare


def test_a_strategy_is_worth_the_best_of_its_rollouts():
    """1, 0, 0 in the first stratum and .6, .6 in the second. All: 1/3, .6; the best half: ceil(1.5) = 2 and 1."""
    values, same = np.array([1, 0, 0, 0.6, 0.6]), together(np.array([0, 0, 0, 1, 1]))
    np.testing.assert_allclose(best_of_stratum(values, same, 1.0), [1 / 3] * 3 + [0.6] * 2)
    np.testing.assert_allclose(best_of_stratum(values, same, 0.5), [0.5] * 3 + [0.6] * 2)
    np.testing.assert_allclose(best_of_stratum(values, same, 0.1), [1.0] * 3 + [0.6] * 2)


def test_a_strategy_counts_once_however_many_rollouts_repeat_it():
    rewards, strata = [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]
    by_leaf = two_levels(rewards, strata, count="leaf")[:, 0]
    by_node = two_levels(rewards, strata)[:, 0]
    np.testing.assert_allclose(by_leaf, [1, 1, 1, -1, -1])
    np.testing.assert_allclose(by_node, [1 / 3] * 3 + [-1 / 2] * 2)
    assert not two_levels(rewards, [0] * 5)[:, 0].any()  # one strategy has no rival


def test_sources_are_not_compared_with_each_other():
    """Joint z-scores of 0, 0, 0, 1 and 1, 1 would be -1 for every own failure; alone they are -.577."""
    rewards, sources = [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]
    apart = per_source(rewards, sources, baseline=None, ddof=0, eps=0.0)
    np.testing.assert_allclose(apart, [-(3**-0.5)] * 3 + [3**0.5, 0, 0])
    joint = compare(np.array(rewards, dtype=float), np.ones((6, 6), bool), np.ones(6), scale="std", eps=0.0, ddof=0)
    np.testing.assert_allclose(joint, [-1, -1, -1, 1, 1, 1])
    assert per_source([1, 0], [1, 1], weight=0.5).tolist() == [0.25, -0.25]


def test_contexts_of_records_reach_the_strata():
    from polypath.core.record import Group, Rollout

    rows = [
        Rollout("p", "g", i, "", rewards={"task": r}, context={"id": c, "kind": "style"})
        for i, (r, c) in enumerate([(0.9, "0"), (0.7, "0"), (0.4, "1"), (0.2, "1")])
    ]
    found = credit.build({"arc": {"scale": "none"}})(Group("g", "p", rows)).advantages[0]
    np.testing.assert_allclose(found, [0.1, -0.1, 0.1, -0.1])
