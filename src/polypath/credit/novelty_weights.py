"""Weights for good rollouts that are unlike their group, and gates by what several judges disagree on."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register
from polypath.credit.rank import places
from polypath.diversity.marginals import DUPLICATE_SAFE

EQUIVARIANT = frozenset({"permutation_equivariant"})


@register("signal", "nearest_distance", returns="diversity", paper="arXiv:2512.24138", traits=DUPLICATE_SAFE)
def nearest_distance(similarity: Array) -> np.ndarray:
    """1 - similarity to the most similar *other* rollout of the group; 1 for a group of one.

    Shapes: (..., G, G) -> (..., G).

    >>> nearest_distance([[1.0, 0.2], [0.2, 1.0]]).tolist()
    [0.8, 0.8]
    """
    matrix = np.array(similarity, dtype=float)
    size = matrix.shape[-1]
    if size == 1:
        return np.ones(matrix.shape[:-1])
    matrix[..., np.arange(size), np.arange(size)] = -np.inf
    return 1.0 - matrix.max(axis=-1)


@register("signal", "likelihood_rank", returns="diversity", paper="arXiv:2506.02355", traits=EQUIVARIANT)
def likelihood_rank(logp: Array, mask: Array) -> np.ndarray:
    """Place by sequence log-probability over G, from 0 for the most likely to (G - 1)/G; ties share their mean place.

    With the gate `correct` and fuse multiplicative at strength b it is the unlikeliness reward r (1 - b (G - rank)/G).
    Shapes: (..., G, T), (..., G, T) -> (..., G).

    >>> likelihood_rank([[-1.0], [-2.0], [-3.0], [-4.0]], [[1], [1], [1], [1]]).tolist()
    [0.0, 0.25, 0.5, 0.75]
    """
    total = np.where(np.asarray(mask, dtype=bool), np.asarray(logp, dtype=float), 0.0).sum(axis=-1)
    return (places(-total) - 1.0) / total.shape[-1]


@register("reweight", "weight_positive", returns="advantages", paper="arXiv:2512.24138")
def weight_positive(advantages: Array, diversity: Array, *, lowest: float = 0.5, highest: float = 2.0) -> np.ndarray:
    """A times d / mean d, within [lowest, highest], where A > 0; what is at or below 0 stays (GARDO).

    An exact duplicate has distance 0, so without `lowest` it would lose all its credit. Where all distances are 0 the
    advantages stay. Shapes: (..., G), (..., G) -> (..., G).
    """
    values, weights = np.asarray(advantages, dtype=float), np.asarray(diversity, dtype=float)
    mean = weights.mean(axis=-1, keepdims=True)
    scaled = np.where(mean > 0, np.clip(weights / np.where(mean > 0, mean, 1.0), lowest, highest), 1.0)
    return np.where(values > 0, values * scaled, values)


@register("gate", "disputed", returns="gate", paper="arXiv:2512.24138", traits=EQUIVARIANT)
def disputed(reward_columns: Array, *, share: float = 0.25) -> np.ndarray:
    """1 for rollouts whose place by the first column is furthest from their mean place by the others (GARDO).

    Those at or above the group's 1 - `share` quantile of that distance count, unless nothing is disputed at all.
    Shapes: (..., G, M) -> (..., G).
    """
    columns = np.moveaxis(np.asarray(reward_columns, dtype=float), -1, 0)
    ranks = np.stack([places(-column) for column in columns])
    gap = np.abs(ranks[0] - ranks[1:].mean(axis=0))
    return ((gap > 0) & (gap >= np.quantile(gap, 1.0 - share, axis=-1, keepdims=True))).astype(float)


@register("gate", "kl_disputed", returns="kl_weight", paper="arXiv:2512.24138", traits=EQUIVARIANT)
def kl_disputed(rewards: Array, reward_columns: Array | None = None, *, share: float = 0.25) -> np.ndarray:
    """The share of the KL term that a rollout has: 1 where its first reward is `disputed`, else 0 (GARDO).

    With a single reward there is nothing that could dispute it, and all are pulled to the reference alike.
    Shapes: (..., G), (..., G, M) -> (..., G).

    >>> kl_disputed([1.0, 0.0]).tolist()
    [1.0, 1.0]
    """
    return np.ones(np.shape(rewards)) if reward_columns is None else disputed(reward_columns, share=share)
