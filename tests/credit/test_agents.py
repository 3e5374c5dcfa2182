"""Agents of different strength, and the rubric that is being learnt."""

import numpy as np
import pytest

from polypath import credit
from polypath.credit import Memory
from polypath.credit.agents import capability_scaled, pivot_rubric

R1, R2 = [1, 1, 0, 1], [0, 1, 0, 0]


def test_the_other_published_example():
    """Means .75 and .25: baselines .75 and .25, spread .5; what 1 learns from 2 counts a third."""
    memory = Memory()
    found = capability_scaled([*R1, *R2], [0] * 4 + [1] * 4, [0] * 8, memory)
    np.testing.assert_allclose(found[:4], [0.5, 0.5, -1.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(found[4:], np.array([-0.5, 1.5, -0.5, -0.5]) / 3, atol=1e-6)
    other = capability_scaled([*R1, *R2], [0] * 4 + [1] * 4, [0] * 8, memory, learner=1)
    np.testing.assert_allclose(other[4:], found[4:] * 3)
    np.testing.assert_allclose(other[:4], found[:4] * 3)


def test_equal_agents_are_one_group_and_a_lone_agent_is_grpo():
    rewards = [1, 0, 1, 0]
    found = capability_scaled(rewards, [0, 0, 1, 1], [0] * 4, Memory())
    np.testing.assert_allclose(found, [1, -1, 1, -1], atol=1e-6)
    alone = capability_scaled([1, 0, 0, 0], [0] * 4, [0] * 4, Memory())
    np.testing.assert_allclose(alone, np.array([3, -1, -1, -1]) / 3**0.5, atol=1e-6)


def test_strength_is_that_of_the_last_batches_and_survives_a_checkpoint():
    memory = Memory()
    for rewards in ([0, 0], [1, 1], [1, 1]):
        capability_scaled(rewards, [0, 0], [0, 0], memory, window=2)
    assert memory["hacpo/0"] == [1.0, 1.0]
    again = Memory()
    again.load_state_dict(memory.state_dict())
    assert again["hacpo/0"] == [1.0, 1.0]


def test_an_agent_that_never_succeeds_has_the_least_strength_and_a_bounded_ratio():
    """P = 1/3 and 0 -> .05: the ratio 6.7 is cut to 4; the learner's baseline is (1 + 0)/6 and the spread sqrt(5)/6."""
    found = capability_scaled([1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0] * 6, Memory())
    assert found[0] == pytest.approx((5 / 6) / (5**0.5 / 6), rel=1e-6)
    # For agent 1 the learner's success counts a quarter: baseline 1/24; its own failures then weigh a quarter.
    assert found[3] == pytest.approx(-(1 / 24) / (5**0.5 / 6) / 4, rel=1e-6)


def test_without_a_history_all_rubrics_count_alike_and_nothing_is_dropped():
    columns = [[1, 0], [0, 0], [1, 1], [0, 1]]
    advantages, keep = pivot_rubric(columns, [0] * 4, Memory(), eps=0.0)
    np.testing.assert_allclose(advantages, np.array([0, -1, 1, 0]) * 3**0.5 / 2)
    assert keep.all()


def test_the_rubric_above_its_trend_is_the_pivot():
    """Means (.0, .5), (.1, .5) predict (.2, .5); the batch has (.5, .5), so that the residual is (.3, 0).

    Weights 1/(1 + e^-1.5) = .817574 and .182426. z is ±.5/.57735 = ±.866025 in both columns. Rollout 0 is good in the
    pivot: +(.817574 - .182426) .866025 = .550055. None has the pivot against it.
    """
    memory = Memory()
    memory["moa/means"] = [[0.0, 0.5], [0.1, 0.5]]
    advantages, keep = pivot_rubric([[1, 0], [0, 0], [1, 1], [0, 1]], [0] * 4, memory, eps=0.0)
    np.testing.assert_allclose(advantages, [0.550055, -0.866025, 0.866025, -0.550055], atol=1e-6)
    assert keep.all() and memory["moa/means"][-1] == [0.5, 0.5]


def test_what_is_good_in_all_but_the_pivot_is_left_out():
    """Three rubrics, the first a little above its trend: the last two rollouts are bad in it and best in the others."""
    memory = Memory()
    memory["moa/means"] = [[0.0, 0.5, 0.5]]
    columns = [[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1]]
    advantages, keep = pivot_rubric(columns, [0] * 4, memory, sharpness=0.1)
    assert keep.tolist() == [True, True, False, False] and advantages[2] > 0
    sharp, kept = pivot_rubric(columns, [0] * 4, Memory(), sharpness=50.0)
    assert kept.all() and sharp[2] > 0


def test_undefined_rubrics_count_nothing_and_the_pipeline_remembers():
    pipeline, memory = credit.build("moa"), Memory()
    group = {"reward_columns": [[1, 0], [0, None], [0, 1]], "rewards": [1, 0, 1]}
    found = pipeline(group, memory=memory).advantages[0]
    # First column 1, 0, 0: z = (2/3, -1/3, -1/3)/.577450; second 0 and 1 alone: ±.5/.707207; half of each.
    np.testing.assert_allclose(found, [0.577250 - 0.353503, -0.288625, -0.288625 + 0.353503], atol=2e-6)
    assert len(memory["moa/means"]) == 1
    pipeline(group, memory=memory)
    assert len(memory["moa/means"]) == 2
