"""Weights that are found while training: Lagrange multipliers of constraints, a bandit over reward mixtures."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.credit.memory import Memory


@register("fuse", "lagrangian", returns="rewards metrics", paper="DiveR-CT (0.50)", traits={"whole_batch"})
def lagrangian(
    rewards: Array,
    diversity: Array,
    memory: Memory,
    reward_columns: Array | None = None,
    gate: Array | None = None,
    *,
    thresholds: list[float],
    rate: float = 0.1,
    momentum: float = 0.1,
    largest: float = 100.0,
) -> tuple[np.ndarray, dict[str, float]]:
    """(gate d + sum_m lambda_m r_m) / (1 + sum_m lambda_m): diversity is the goal, each reward has to reach a mean.

    The multiplier lambda_m = exp(x_m) starts at 1 and grows while the batch's mean of r_m is below its threshold:
    after use x_m moves by the velocity v = momentum * v + rate * lambda_m * (threshold_m - mean r_m). `reward_columns`
    are the constrained rewards, or `rewards` where there is one. An undefined one counts as the mean of the defined.
    Runs once over the batch: (N,), (N,), (N, M), (N,) -> (N,). Kept in memory["lagrangian"].
    Raises UserError when there are not as many thresholds as rewards.
    """
    columns = np.asarray(rewards, dtype=float)[:, None] if reward_columns is None else np.asarray(reward_columns)
    known = np.isfinite(columns)
    means = np.where(known, columns, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    columns = np.where(known, columns, means)
    goals = np.asarray(thresholds, dtype=float)
    if len(goals) != columns.shape[-1]:
        fix = "Give one per reward column, in the order of their names."
        raise UserError("fuse.lagrangian.thresholds", f"{len(goals)} for {columns.shape[-1]} rewards", fix)
    x, velocity = (np.array(part) for part in memory.get("lagrangian", [[0.0] * len(goals)] * 2))
    multipliers = np.exp(x)
    goal = np.asarray(diversity, dtype=float) * (1.0 if gate is None else np.asarray(gate, dtype=float))
    fused = (goal + columns @ multipliers) / (1.0 + multipliers.sum())
    velocity = momentum * velocity + rate * multipliers * np.where(known.any(axis=0), goals - means, 0.0)
    x = np.clip(x + velocity, -np.log(largest), np.log(largest))
    memory["lagrangian"] = [x.tolist(), velocity.tolist()]
    return fused, {f"multiplier_{m}": float(value) for m, value in enumerate(multipliers)}


@register("fuse", "bandit_mixture", returns="rewards metrics", paper="arXiv:2002.00632 [0.68]", traits={"whole_batch"})
def bandit_mixture(
    rewards: Array,
    diversity: Array,
    memory: Memory,
    gate: Array | None = None,
    *,
    arms: list[float] = [0.0, 0.5],  # noqa: B006  (never written)
    window: int = 50,
    warmup: int = 5,
    seed: int = 0,
) -> tuple[np.ndarray, dict[str, float]]:
    """(1 - w) r + w gate d, w drawn from `arms` by Thompson sampling on whether it improved the best mean reward.

    An arm's chance is Beta(1 + wins, 1 + losses) over the last `window` batches; a batch wins for the arm that the
    batch *before* it was credited with when its mean reward is the best so far. The first `warmup` draws are uniform.
    Runs once over the batch: (N,), (N,) -> (N,). Kept in memory["bandit"].
    """
    values = np.asarray(rewards, dtype=float)
    turn, last, best, history = memory.get("bandit", [0, None, None, []])
    level = float(values.mean())
    if last is not None:
        history = [*history, [last, level > best]][-window:]
    draw = rng(seed, "bandit", turn)
    results = [[won for arm, won in history if arm == place] for place in range(len(arms))]
    chances = [draw.betavariate(1 + sum(won), 1 + len(won) - sum(won)) for won in results]
    choice = draw.randrange(len(arms)) if turn < warmup else int(np.argmax(chances))
    memory["bandit"] = [turn + 1, choice, level if best is None else max(best, level), history]
    weight = arms[choice]
    bonus = np.asarray(diversity, dtype=float) * (1.0 if gate is None else np.asarray(gate, dtype=float))
    return (1.0 - weight) * values + weight * bonus, {"diversity_weight": weight}
