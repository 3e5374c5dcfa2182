"""Normalisers: rewards to advantages. A group of equal rewards, or of one rollout, gives zeros in all of them."""

from __future__ import annotations

from typing import Annotated, Literal

from polypath.core.arrays import Array, array_namespace, as_array, as_float, divide, mean, spread, tied
from polypath.core.recipe_types import Range
from polypath.core.registry import register

CENTRED = frozenset({"zero_mean", "permutation_equivariant", "duplicates_share"})


@register("normalise", "centre", returns="advantages", paper="arXiv:2503.20783", traits=CENTRED)
def centre(rewards: Array) -> Array:
    """r - mean r (Dr. GRPO). Shapes: (..., G) -> (..., G).

    >>> centre([1.0, 0.0, 0.0, 1.0, 0.0]).round(4).tolist()
    [0.6, -0.4, -0.4, 0.6, -0.4]
    """
    rewards = as_float(rewards)
    return array_namespace(rewards).where(tied(rewards), rewards - rewards, rewards - mean(rewards))


@register(
    "normalise", "z_score", returns="advantages", paper="arXiv:2402.03300", traits=CENTRED | {"divides_by_spread"}
)
def z_score(rewards: Array, *, eps: Annotated[float, Range(0, None)] = 1e-4, ddof: Literal[0, 1] = 1) -> Array:
    """(r - mean r)/(std r + eps), GRPO. Shapes: (..., G) -> (..., G).

    `ddof` 1 is the sample standard deviation (TRL, verl), 0 that of the population.

    >>> z_score([1.0, 0.0, 0.0, 1.0, 0.0]).round(6).tolist()
    [1.095245, -0.730163, -0.730163, 1.095245, -0.730163]
    """
    rewards = as_float(rewards)
    return divide(centre(rewards), spread(rewards, ddof=ddof) + eps)


@register("normalise", "leave_one_out", returns="advantages", paper="arXiv:2402.14740", traits=CENTRED)
def leave_one_out(rewards: Array) -> Array:
    """r minus the mean of the *other* rewards, G/(G-1) (r - mean r) (RLOO). Shapes: (..., G) -> (..., G).

    >>> leave_one_out([1.0, 0.0, 0.0, 1.0, 0.0]).round(4).tolist()
    [0.75, -0.5, -0.5, 0.75, -0.5]
    """
    rewards = as_float(rewards)
    size = rewards.shape[-1]
    return centre(rewards) * (size / max(size - 1, 1))


@register("normalise", "reward_spread", returns="advantages", traits=CENTRED)
def reward_spread(rewards: Array, base_rewards: Array, *, eps: Annotated[float, Range(0, None)] = 1e-6) -> Array:
    """Centre the fused rewards and divide by the spread of the rewards *as given* (population std).

    So a small difference in diversity is never blown up to unit variance. Where the given rewards are all equal there
    is no spread to divide by: the centred fused rewards stand as they are.
    Shapes: (..., G), (..., G) -> (..., G).
    """
    base = as_float(base_rewards)
    xp = array_namespace(base)
    scale = spread(base)
    return centre(rewards) / xp.where(tied(base), xp.ones_like(scale), scale + eps)


@register("normalise", "minus_baseline", returns="advantages", traits={"permutation_equivariant"})
def minus_baseline(rewards: Array, baseline: Array) -> Array:
    """r - baseline, with the baseline of a statistics stage. Shapes: (..., G), (..., G or 1) -> (..., G)."""
    return as_float(rewards) - as_float(baseline)


@register("normalise", "batch_spread", returns="advantages", traits={"whole_batch", "divides_by_spread"})
def batch_spread(
    advantages: Array, rewards: Array, *, eps: Annotated[float, Range(0, None)] = 1e-4, ddof: Literal[0, 1] = 1
) -> Array:
    """Divide centred advantages by the standard deviation of all rewards of the batch (TRL's scale_rewards="batch").

    Runs once over the whole batch: (N,), (N,) -> (N,).
    """
    return divide(as_float(advantages), spread(as_float(rewards), ddof=ddof) + eps)


@register("normalise", "whiten", returns="advantages", paper="arXiv:2501.03262", traits={"whole_batch"})
def whiten(
    advantages: Array, lengths: Array, keep: Array | None = None, *, eps: Annotated[float, Range(0, None)] = 1e-8
) -> Array:
    """Zero mean and unit variance over all *tokens* of the batch (REINFORCE++): a rollout counts by its length.

    Variance with Bessel's correction n/(n-1), n tokens. Dropped rollouts count nothing and get 0; equal advantages
    give zeros. Runs once over the whole batch: (N,), (N,) -> (N,).
    """
    values, lengths = as_float(advantages), as_float(lengths)
    xp = array_namespace(values)
    on = xp.ones_like(values) if keep is None else as_float(as_array(keep))
    lengths = lengths * on
    count = xp.sum(lengths, axis=-1, keepdims=True)
    first = xp.max(values, axis=-1, keepdims=True)  # differences to it are exact zeros where all are equal
    centred = values - first - divide(xp.sum(lengths * (values - first), axis=-1, keepdims=True), count)
    variance = divide(xp.sum(lengths * centred**2, axis=-1, keepdims=True), count - 1.0)
    return on * centred / xp.sqrt(variance + eps)


@register("normalise", "verdict", returns="advantages", paper="arXiv:2506.01347", traits={"permutation_equivariant"})
def verdict(
    rewards: Array,
    base_rewards: Array,
    *,
    positive: Annotated[float, Range(0, None)] = 0.1,
    negative: Annotated[float, Range(0, None)] = 1.0,
) -> Array:
    """`positive` times the fused reward where the reward as given is above 0, and -`negative` elsewhere; no baseline.

    Pushing wrong answers down spreads their probability over all others in proportion, so the correct ones keep their
    ratios; pushing correct ones up favours those that are already likely. Shapes: (..., G), (..., G) -> (..., G).

    >>> verdict([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]).tolist()
    [0.1, -1.0, -1.0]
    """
    fused, base = as_float(rewards), as_float(base_rewards)
    xp = array_namespace(fused)
    return xp.where(base > 0, positive * fused, base * 0.0 - negative) + 0.0 * fused
