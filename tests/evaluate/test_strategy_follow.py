"""What strategies explain of rewards, and whether texts give them away: by hand, by brute force, on made-up sets."""

from __future__ import annotations

import math
from itertools import permutations
from statistics import fmean

import numpy as np
import pytest

from polypath.core.record import Rollout
from polypath.evaluate.strategy_follow import context_from_text, reward_share, strategy_follow


def test_shares_by_hand() -> None:
    assert reward_share([[1, 1, 0, 0]], [list("aabb")]).between == 1.0
    assert reward_share([[1, 0, 1, 0]], [list("aabb")]).within == 1.0
    # Two prompts pool their squares: 1/4 of 3/4 in the first, all of 1 in the second.
    pooled = reward_share([[1, 1, 1, 0], [1, 1, 0, 0]], [list("aabb"), list("aabb")])
    assert pooled.between == pytest.approx((0.25 + 1.0) / (0.75 + 1.0)) and pooled.between + pooled.within == 1.0
    equal = reward_share([[1, 1, 1, 1]], [list("aabb")])
    assert math.isnan(equal.between) and math.isnan(equal.chance) and math.isnan(equal.p)


def test_the_chance_share_is_the_mean_over_all_assignments() -> None:
    rewards, names = [0.1, 0.9, 0.4, 0.4, 1.0], list("aabbc")
    every = fmean(reward_share([rewards], [list(p)], shuffles=0).between for p in permutations(names))
    assert reward_share([rewards], [names], shuffles=0).chance == pytest.approx(every)


def test_prediction_by_hand() -> None:
    # "a b" and "a c" share 1 of 5 n-grams; the others share none with them: each is told by its twin.
    assert context_from_text([["a b", "a c", "d e", "d f"]], [[0, 0, 1, 1]]).accuracy == 1.0
    # All texts are equal: every context is as likely, and half of each guess is right.
    assert context_from_text([["a", "a", "a", "a"]], [[0, 0, 1, 1]]).accuracy == 0.5
    # Twins stand in different contexts: every text is told wrong.
    assert context_from_text([["a b", "c d", "a b", "c d"]], [[0, 0, 1, 1]]).accuracy == 0.0
    alone = context_from_text([["a", "b"]], [[0, 1]])
    assert math.isnan(alone.accuracy) and alone.rollouts == 0


def made_up(follows: float, *, seed: int = 0, prompts: int = 24) -> list[Rollout]:
    """Four strategies of four episodes each; with probability `follows` an action and the reward are the strategy's."""
    random, rows = np.random.default_rng(seed), []
    for prompt in range(prompts):
        for strategy in range(4):
            for i in range(4):
                own = random.random(5) < follows
                moves = np.where(own, strategy, random.integers(0, 4, 5))
                reward = float(strategy % 2 if random.random() < follows else random.random() < 0.5)
                turns = [{"action": f"act{move}"} for move in moves]
                rows.append(
                    Rollout(
                        str(prompt),
                        f"0/{prompt}/{strategy}",
                        i,
                        "",
                        rewards={"task": reward},
                        context={"id": str(strategy), "kind": "strategy"},
                        extra={"turns": turns},
                    )
                )
        rows.append(
            Rollout(
                str(prompt),
                f"0/{prompt}/strategies",
                0,
                "plan",
                rewards={"task": 1.0},
                context={"id": "0", "kind": "strategy"},
            )
        )
    return rows


def test_followed_strategies_are_found_and_ignored_ones_are_not() -> None:
    firm, loose = strategy_follow(made_up(0.9)), strategy_follow(made_up(0.0))
    assert firm is not None and loose is not None
    assert firm.prompts == 24 and firm.contexts == 4 and firm.texts.rollouts == 24 * 16
    assert firm.texts.accuracy > 0.9 and firm.texts.p < 0.01 and firm.rewards.between > 0.6 and firm.rewards.p < 0.01
    assert abs(loose.texts.accuracy - loose.texts.chance) < 0.06 and loose.texts.p > 0.05
    assert abs(loose.rewards.between - loose.rewards.chance) < 0.06 and loose.rewards.p > 0.05
    middle = strategy_follow(made_up(0.4))
    assert middle is not None and loose.texts.accuracy < middle.texts.accuracy < firm.texts.accuracy
    assert "share of reward variance between them" in firm.sentence()


def test_shuffles_cry_wolf_as_often_as_they_say() -> None:
    found = [strategy_follow(made_up(0.0, seed=seed, prompts=4), shuffles=60) for seed in range(60)]
    alarms = [sum(p < 0.1 for p in ps) for ps in zip(*[(f.rewards.p, f.texts.p) for f in found if f], strict=True)]
    assert all(1 <= alarms_ <= 14 for alarms_ in alarms)  # 6 expected of 60, +-2.3


def test_without_contexts_there_is_no_report() -> None:
    rows = made_up(0.5, prompts=2)
    for row in rows:
        row.context = None
    assert strategy_follow(rows) is None
    dead = made_up(0.5, prompts=1)
    for row in dead:
        row.rewards = {"task": math.nan}
    assert strategy_follow(dead) is None
