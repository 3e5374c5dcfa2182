"""Gates: where a diversity signal may act, as a weight in [0, 1] per rollout."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float
from polypath.core.registry import register


@register("gate", "correct", returns="gate", traits={"permutation_equivariant"})
def correct_only(correct: Array) -> Array:
    """1 for correct rollouts, else 0. Shapes: bool (..., G) -> (..., G)."""
    return as_float(as_array(correct))


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
