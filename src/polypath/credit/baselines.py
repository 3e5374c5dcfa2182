"""Baselines and scales that are not the group's own mean and spread: filters, posteriors, the batch."""

from __future__ import annotations

from typing import Literal

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float
from polypath.core.registry import register


@register("normalise", "plain", returns="advantages", traits={"permutation_equivariant", "duplicates_share"})
def plain(rewards: Array) -> Array:
    """The rewards as they are, for a later whitening over the batch. Shapes: (..., G) -> (..., G)."""
    return as_float(rewards)


@register("normalise", "standardise", returns="advantages", traits={"whole_batch", "divides_by_spread"})
def standardise(advantages: Array, keep: Array | None = None, *, eps: float = 1e-4) -> np.ndarray:
    """Zero mean and unit variance over the kept rollouts of the batch (sample standard deviation, TRL's for GDPO).

    Dropped rollouts get 0. Fewer than two kept, or all equal, give zeros. Runs once over the batch: (N,) -> (N,).
    """
    values = np.asarray(advantages, dtype=float)
    on = np.ones(values.shape, dtype=bool) if keep is None else np.asarray(keep, dtype=bool)
    if on.sum() < 2 or np.ptp(values[on]) == 0.0:
        return np.zeros_like(values)
    return np.where(on, (values - values[on].mean()) / (values[on].std(ddof=1) + eps), 0.0)


@register("normalise", "kalman", returns="advantages", paper="arXiv:2505.07527")
def kalman(
    rewards: Array,
    *,
    process_variance: float = 1e-5,
    measurement_variance: float = 1e-2,
    start_mean: float = 0.0,
    start_variance: float = 1.0,
    order: Literal["sequential", "joint"] = "joint",
    eps: float = 1e-8,
) -> Array:
    """(r - x)/(sqrt(P) + eps), x and P the mean and variance that a scalar Kalman filter gives the group's reward.

    "sequential" feeds the rollouts one by one and judges each by the estimate after itself, as in KRPO's release: the
    credit then depends on the order of the rollouts. "joint" judges all by the estimate from the whole group, its
    mean being one measurement of variance measurement_variance/G. Shapes: (..., G) -> (..., G).

    >>> kalman([1.0, 0.0], order="sequential", process_variance=0.0).round(4).tolist()
    [0.0995, -7.0535]
    """
    rewards = as_float(rewards)
    xp = array_namespace(rewards)
    n = rewards.shape[-1]
    x, p, found = start_mean, start_variance, []
    measured = [xp.mean(rewards, axis=-1)] if order == "joint" else [rewards[..., i] for i in range(n)]
    for z in measured:
        p = p + process_variance
        gain = p / (p + measurement_variance / (n if order == "joint" else 1))
        x, p = x + gain * (z - x), (1.0 - gain) * p
        found.append((x, p**0.5 + eps))
    if order == "joint":
        return (rewards - found[0][0][..., None]) / found[0][1]
    return xp.stack([(rewards[..., i] - x) / scale for i, (x, scale) in enumerate(found)], axis=-1)


@register("normalise", "beta_posterior", returns="advantages", paper="arXiv:2602.14338")
def beta_posterior(correct: Array, *, prior: float = 1.0) -> Array:
    """(r - mu)/sqrt(mu (1 - mu)) with mu = (c + prior)/(G + 2 prior), the posterior mean of the success rate (AERO).

    Groups that are all right or all wrong keep a small credit of one sign. Shapes: bool (..., G) -> (..., G).

    >>> beta_posterior([False] * 8).round(6).tolist()[:1]
    [-0.333333]
    """
    right = as_float(as_array(correct))
    xp = array_namespace(right)
    rate = (xp.sum(right, axis=-1, keepdims=True) + prior) / (right.shape[-1] + 2.0 * prior)
    return (right - rate) / xp.sqrt(rate * (1.0 - rate))


@register("reweight", "live_share", returns="advantages", paper="arXiv:2504.02546", traits={"whole_batch"})
def live_share(advantages: Array, base_rewards: Array, groups: Array) -> np.ndarray:
    """A times rollouts / rollouts in groups whose given rewards differ (GPG), so that dead groups do not thin the step.

    A group is dead by exact equality. Runs once over the batch: (N,) each -> (N,).
    """
    values, rewards, groups = np.asarray(advantages, dtype=float), np.asarray(base_rewards), np.asarray(groups)
    _, places = np.unique(groups, return_inverse=True)
    low, high = np.full(places.max() + 1, np.inf), np.full(places.max() + 1, -np.inf)
    np.minimum.at(low, places, rewards)
    np.maximum.at(high, places, rewards)
    live = (high > low)[places].sum()
    return values * (len(values) / live) if live else values


@register("reweight", "global_blend", returns="advantages", paper="arXiv:2508.04138", traits={"whole_batch"})
def global_blend(
    advantages: Array,
    rewards: Array,
    outcome_entropy: Array,
    groups: Array,
    *,
    slope: float = 10.0,
    centre: float = 0.25,
    eps: float = 1e-4,
) -> np.ndarray:
    """w A + (1 - w) A_global with w = sigmoid(slope (H - centre)) (CoPO): where all rollouts agree, prompts compete.

    A_global is the z-score over the batch of the groups' mean rewards, the same for all rollouts of a group; H is the
    group's outcome entropy in [0, 1]. One group, or groups of equal means, have no global part.
    Runs once over the batch: (N,) each -> (N,).
    """
    _, places, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    means = np.bincount(places, weights=np.asarray(rewards, dtype=float)) / sizes
    flat = len(means) < 2 or np.ptp(means) < 1e-12
    overall = np.zeros_like(means) if flat else (means - means.mean()) / (means.std(ddof=1) + eps)
    local = 1.0 / (1.0 + np.exp(-slope * (np.asarray(outcome_entropy, dtype=float) - centre)))
    return local * np.asarray(advantages, dtype=float) + (1.0 - local) * overall[places]


@register("statistics", "outcome_entropy", returns="outcome_entropy", traits={"permutation_equivariant"})
def outcome_entropy(labels: Array) -> np.ndarray:
    """Entropy of the classes of a group over ln G, in [0, 1], on each of its rollouts; 0 for a group of one.

    Shapes: int (..., G) -> (..., G).

    >>> outcome_entropy([0, 0, 1, 1]).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    labels = np.asarray(labels)
    n = labels.shape[-1]
    share = (labels[..., :, None] == labels[..., None, :]).mean(axis=-1)
    entropy = -np.log(share).mean(axis=-1, keepdims=True) / np.log(max(n, 2))
    return np.broadcast_to(np.abs(entropy), labels.shape)
