"""Group statistics: baselines that a later `minus_baseline` subtracts."""

from __future__ import annotations

from polypath.core.arrays import Array, array_namespace, as_float, divide
from polypath.core.arrays import mean as mean_of
from polypath.core.registry import register


@register("statistics", "mean", returns="baseline")
def mean(rewards: Array) -> Array:
    """The group's mean reward. Shapes: (..., G) -> (..., G)."""
    rewards = as_float(rewards)
    return mean_of(rewards) + rewards * 0.0


@register("statistics", "leave_one_out_mean", returns="baseline")
def leave_one_out_mean(rewards: Array) -> Array:
    """Mean of the other rewards; a group of one has its own reward as baseline. Shapes: (..., G) -> (..., G)."""
    rewards = as_float(rewards)
    size = rewards.shape[-1]
    others = array_namespace(rewards).sum(rewards, axis=-1, keepdims=True) - rewards
    return others / (size - 1) if size > 1 else rewards


@register("statistics", "length_weighted_mean", returns="baseline", paper="arXiv:2505.23585")
def length_weighted_mean(rewards: Array, lengths: Array) -> Array:
    """sum(length * r)/sum(length), the baseline of OPO; equal rewards are their own baseline exactly.

    Shapes: (..., G), (..., G) -> (..., G).

    >>> length_weighted_mean([1, 0, 0, 1, 0], [4, 2, 2, 2, 2]).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5]
    """
    rewards, lengths = as_float(rewards), as_float(lengths)
    xp = array_namespace(rewards)
    first = rewards[..., :1]
    excess = xp.sum((rewards - first) * lengths, axis=-1, keepdims=True)
    return first + divide(excess, xp.sum(lengths, axis=-1, keepdims=True)) + rewards * 0.0
