"""Gates: where a diversity signal may act, as a weight in [0, 1] per rollout."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float, mean
from polypath.core.registry import register


@register("gate", "correct", returns="gate", traits={"permutation_equivariant"})
def correct_only(correct: Array) -> Array:
    """1 for correct rollouts, else 0. Shapes: bool (..., G) -> (..., G)."""
    return as_float(as_array(correct))


@register("gate", "wrong", returns="gate", traits={"permutation_equivariant"})
def wrong_only(correct: Array) -> Array:
    """1 for wrong rollouts, else 0. Shapes: bool (..., G) -> (..., G)."""
    return 1.0 - as_float(as_array(correct))


@register("gate", "any", returns="gate", traits={"permutation_equivariant"})
def always(rewards: Array) -> Array:
    """1 for every rollout: the ungated version of a method. Shapes: (..., G) -> (..., G)."""
    rewards = as_float(rewards)
    return array_namespace(rewards).ones_like(rewards)


@register("gate", "reward_above", returns="gate", traits={"permutation_equivariant"})
def reward_above(rewards: Array, *, threshold: float = 0.0) -> Array:
    """1 where the reward is greater than `threshold`. Shapes: (..., G) -> (..., G)."""
    rewards = as_float(rewards)
    return array_namespace(rewards).astype(rewards > threshold, rewards.dtype)


@register("gate", "quality_quantile", returns="gate", traits={"permutation_equivariant"})
def quality_quantile(rewards: Array, *, quantile: float = 0.5) -> np.ndarray:
    """1 where the reward is at least the group's own `quantile` (linear interpolation), so no scale is assumed.

    Shapes: (..., G) -> (..., G). All are 1 in a group of equal rewards.
    """
    rewards = np.asarray(rewards, dtype=float)
    return (rewards >= np.quantile(rewards, quantile, axis=-1, keepdims=True)).astype(float)


@register("gate", "solved_share", returns="gate", paper="DIVER (1.7)", traits={"permutation_equivariant"})
def solved_share(correct: Array) -> Array:
    """The group's share of correct rollouts for the correct ones, 0 for others: on a hard prompt accuracy comes first.

    Shapes: bool (..., G) -> (..., G).

    >>> solved_share([True, True, False, False]).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    right = as_float(as_array(correct))
    return right * mean(right)


@register("gate", "near_best", returns="gate", paper="SMERL (0.54)", traits={"permutation_equivariant"})
def near_best(rewards: Array, *, eps: float = 0.1, best: float | None = None) -> Array:
    """1 where the reward is within `eps` times |best| of the best, which is the group's own unless given.

    Below 0 `(1 - eps) best` would lie above the best; the distance is taken from its size.
    Shapes: (..., G) -> (..., G).

    >>> near_best([95.0, 80.0], best=100.0).tolist()
    [1.0, 0.0]
    """
    rewards = as_float(rewards)
    xp = array_namespace(rewards)
    top = xp.max(rewards, axis=-1, keepdims=True) if best is None else best + 0.0 * rewards
    return xp.astype(rewards >= top - eps * xp.abs(top), rewards.dtype)
