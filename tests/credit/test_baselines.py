"""Baselines that are not the group's mean: worked numbers, and the traps of batch and leave-one-out spreads."""

import numpy as np
import pytest

from polypath import credit
from polypath.core import registry
from polypath.credit.baselines import beta_posterior, global_blend, kalman, live_share, outcome_entropy, standardise
from polypath.credit.normalise import leave_one_out, whiten, z_score


def close(values, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(values), expected, atol=tolerance)


TWO = [{"rewards": [1, 0, 0, 1], "lengths": [2, 1, 1, 2]}, {"rewards": [1, 1, 1, 0], "lengths": [1, 1, 2, 2]}]


def test_batch_methods_by_hand():
    # all rewards: 5 of 8, sample std .517549; .5, .25 and .75 over .517649
    found = np.concatenate(credit.build("batch_std")(TWO).advantages)
    close(found, [0.965905, -0.965905, -0.965905, 0.965905, *[0.482953] * 3, -1.448858])
    # 12 tokens of mean .041667 and sample variance .259470 (brute force in test_stages)
    found = np.concatenate(credit.build("reinforce_pp_baseline")(TWO).advantages)
    close(found, [0.899784, -1.063381, -1.063381, 0.899784, *[0.408993] * 3, -1.554172])
    # no group mean: 8 of 12 tokens are 1, sample variance (12/11)(2/3)(1/3) = .242424; (1/3)/.492366, (2/3)/.492366
    found = np.concatenate(credit.build("reinforce_pp")(TWO).advantages)
    up, down = (1 / 3) / 0.492366, -(2 / 3) / 0.492366
    tokens = [1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0]
    assert np.var(tokens, ddof=1) == pytest.approx(0.2424242)
    close(found, [up, down, down, up, up, up, up, down], 1e-5)


def test_a_dead_group_is_recognised_by_its_own_rewards_never_by_the_spread_of_the_batch():
    groups = [{"rewards": [0.1, 0.1, 0.1], "lengths": [1, 1, 1]}, {"rewards": [1, 0, 1], "lengths": [1, 1, 1]}]
    result = credit.build("batch_std")(groups)
    assert result.metrics["frac_tied"] == 0.5 and result.advantages[0].tolist() == [0.0, 0.0, 0.0]
    assert credit.build("dapo")(groups).keep[0].tolist() == [False] * 3


def test_one_correct_among_wrong_ones_is_not_taken_for_a_dead_group():
    """The spread of the *others* is 0 for the one correct rollout of [1, 0, 0, 0]; a filter on it drops its signal."""
    rewards = [1.0, 0.0, 0.0, 0.0]
    assert np.std([0.0, 0.0, 0.0]) == 0.0  # the trap, seen from rollout 0
    assert leave_one_out(rewards)[0] == pytest.approx(1.0)
    for name in ("rloo", "dapo", "grpo"):
        result = credit.build(name)({"rewards": rewards, "lengths": [1] * 4})
        assert result.keep[0].all() and result.advantages[0][0] > 0
        assert result.metrics["frac_tied"] == 0.0


def test_whiten_and_standardise_leave_dropped_rollouts_out():
    close(whiten([1.0, 9.0, 0.0], [1, 5, 1], [True, False, True]), [0.707107, 0.0, -0.707107])
    close(standardise([1.0, 9.0, 0.0], [True, False, True], eps=0.0), [0.707107, 0.0, -0.707107])
    assert whiten([0.1] * 3, [1, 2, 3]).tolist() == standardise([0.1] * 3).tolist() == [0.0] * 3
    assert whiten([5.0], [1]).tolist() == standardise([5.0]).tolist() == [0.0]
    assert whiten([5.0, 1.0], [1, 1], [False, False]).tolist() == [0.0, 0.0]


def test_the_kalman_release_depends_on_the_order_and_the_joint_estimate_does_not():
    rewards = np.array([1.0, 0.0, 0.5, 0.0])
    one, two = (kalman(r, order="sequential") for r in (rewards, rewards[::-1]))
    assert np.abs(one - two[::-1]).max() > 1
    close(kalman(rewards), kalman(rewards[::-1])[::-1])


def test_the_joint_estimate_is_the_posterior_of_a_gaussian_mean():
    # prior variance 1, four measurements of variance .01: precision 401, mean 400/401 times the sample mean
    found = kalman([1.0, 0.0, 0.5, 0.5], process_variance=0.0, eps=0.0)
    close(found, (np.array([1.0, 0.0, 0.5, 0.5]) - 0.5 * 400 / 401) * np.sqrt(401))
    last = kalman([1.0, 0.0, 0.5, 0.5], process_variance=0.0, eps=0.0, order="sequential")[-1]
    close(found[-1], last)  # the release's last rollout has seen the whole group


def test_beta_posterior_is_bounded_in_every_group():
    for right, expected in (([True] * 8, 1 / 3), ([False] * 8, -1 / 3)):
        close(beta_posterior(right), [expected] * 8)  # mu .9 or .1: .1/sqrt(.09)
    assert beta_posterior([True]).tolist() == pytest.approx([(1 / 3) / np.sqrt(2 / 9)])


def test_live_share_counts_groups_by_exact_equality():
    # three of eight rollouts are live
    close(
        live_share([1, -1, 0, 0, 0, 0, 0, 0], [1, 0, 0.5, *[0.1] * 5], [0, 0, 0, *[1] * 5]), [8 / 3, -8 / 3, *[0] * 6]
    )
    assert live_share([0.0, 0.0], [1, 1], [0, 0]).tolist() == [0.0, 0.0]


def test_global_blend_by_hand():
    # means 1, 0, .5: z of means 1, -1, 0; entropies 0, 0, .5: weights .075858 (local) and .924142
    local = np.concatenate([np.zeros(8), z_score([1, 1, 0, 0])])
    rewards, groups = [*[1] * 4, *[0] * 4, 1, 1, 0, 0], np.repeat([0, 1, 2], 4)
    entropy = np.repeat([0.0, 0.0, 0.5], 4)
    found = global_blend(local, rewards, entropy, groups, eps=0.0)
    close(found, [*[0.924142] * 4, *[-0.924142] * 4, 0.800192, 0.800192, -0.800192, -0.800192])
    answers = [list("aaaa"), list("bcbb"), list("aabb")]  # the failed prompt has two outcomes
    batch = [{"rewards": rewards[4 * g : 4 * g + 4], "answers": answers[g]} for g in range(3)]
    assert credit.build("copo")(batch).advantages[0][0] == pytest.approx(0.92405, abs=1e-4)


def test_outcome_entropy():
    close(outcome_entropy([[0, 1, 2, 3], [7, 7, 7, 7]]), [[1.0] * 4, [0.0] * 4])


def test_every_whole_batch_stage_is_declared():
    stages = [e for kind in ("normalise", "reweight", "fuse") for e in registry.entries(kind)]
    takes_groups = {e.name for e in stages if "groups" in e.data}
    assert takes_groups <= {e.name for e in stages if "whole_batch" in e.traits}
