"""Who is compared with whom: strata inside a group, contexts, strategies and sources."""

from __future__ import annotations

from typing import Literal

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register
from polypath.credit.normalise import CENTRED, z_score

Scale = Literal["std", "none"]


@register("partition", "by_context", returns="strata", traits={"permutation_equivariant"})
def by_context(contexts: Array) -> np.ndarray:
    """One stratum per context that the rollouts were written in. Shapes: int (..., G) -> int (..., G)."""
    return np.asarray(contexts, dtype=np.int64)


@register("partition", "by_class", returns="strata", traits={"permutation_equivariant"})
def by_class(labels: Array) -> np.ndarray:
    """One stratum per class of solutions. Shapes: int (..., G) -> int (..., G)."""
    return np.asarray(labels, dtype=np.int64)


@register("partition", "by_agent", returns="strata", traits={"permutation_equivariant"})
def by_agent(sources: Array) -> np.ndarray:
    """One stratum per agent that wrote the rollouts. Shapes: int (..., G) -> int (..., G)."""
    return np.asarray(sources, dtype=np.int64)


def compare(
    values: np.ndarray, same: np.ndarray, weights: np.ndarray, *, scale: Scale, eps: float, ddof: int
) -> np.ndarray:
    """Each value minus the weighted mean of those it is compared with, over their spread unless `scale` is "none".

    `same` says who is compared with whom, (..., G, G); `weights` (..., G) how much each counts, summing to the number
    of members. Equal values, and one alone, give exactly 0, decided by equality. Shapes: (..., G) -> (..., G).
    """
    others = np.broadcast_to(values[..., None, :], same.shape)
    tied = np.where(same, others, -np.inf).max(axis=-1) <= np.where(same, others, np.inf).min(axis=-1)
    share = same * weights[..., None, :]
    size = np.maximum(share.sum(axis=-1), 1e-12)
    mean = (share * others).sum(axis=-1) / size
    centred = np.where(tied, 0.0, values - mean)
    if scale == "none":
        return centred
    square = (share * (others - mean[..., None]) ** 2).sum(axis=-1)
    spread = np.sqrt(square / np.maximum(size - ddof, 1e-12))
    return centred / np.where(tied, 1.0, spread + eps)


def together(strata: np.ndarray) -> np.ndarray:
    """Which rollouts share a stratum: (..., G) -> bool (..., G, G)."""
    return strata[..., :, None] == strata[..., None, :]


@register("normalise", "within_strata", returns="advantages", traits=CENTRED | {"divides_by_spread"})
def within_strata(
    rewards: Array,
    strata: Array,
    *,
    blend: float = 1.0,
    alone: Literal["zero", "group"] = "zero",
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-4,
    ddof: int = 1,
) -> np.ndarray:
    """blend * (advantage inside the own stratum) + (1 - blend) * (advantage in the whole group).

    A stratum of one has nobody to be compared with: 0, or with `alone="group"` its advantage in the group (the sum
    is then no longer 0). Shapes: (..., G), int (..., G) -> (..., G).

    >>> within_strata([0.9, 0.7, 0.4, 0.2], [0, 0, 1, 1], scale="none").round(6).tolist()
    [0.1, -0.1, 0.1, -0.1]
    """
    values, same = np.asarray(rewards, dtype=float), together(np.asarray(strata))
    ones = np.ones_like(values)
    inside = compare(values, same, ones, scale=scale, eps=eps, ddof=ddof)
    if blend == 1.0 and alone == "zero":
        return inside
    overall = compare(values, np.ones_like(same), ones, scale=scale, eps=eps, ddof=ddof)
    if alone == "group":
        inside = np.where(same.sum(axis=-1) == 1, overall, inside)
    return blend * inside + (1.0 - blend) * overall


@register("normalise", "nudged", returns="advantages", paper="NudgeRL (0.2)", traits=CENTRED | {"divides_by_spread"})
def nudged(rewards: Array, contexts: Array, *, between: float = 1.1, eps: float = 1e-5) -> np.ndarray:
    """(r - context mean) + between * (context mean - group mean), then whitened over the group (population std).

    Rollouts of the bare prompt (context 0) are compared with the whole group.
    Shapes: (..., G), int (..., G) -> (..., G).

    >>> nudged([1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 2, 2]).round(4).tolist()
    [0.9366, -0.9366, 1.0302, 1.0302, -1.0302, -1.0302]
    """
    values, contexts = np.asarray(rewards, dtype=float), np.asarray(contexts)
    ones, same = np.ones_like(values), together(contexts)
    overall = compare(values, np.ones_like(same), ones, scale="none", eps=0.0, ddof=0)
    inside = compare(values, same, ones, scale="none", eps=0.0, ddof=0)
    mixed = np.where(contexts == 0, overall, inside + between * (overall - inside))
    return z_score(mixed, eps=eps, ddof=0)


@register(
    "normalise", "two_levels", returns="column_advantages", paper="StraTA (0.1)", traits={"permutation_equivariant"}
)
def two_levels(
    rewards: Array,
    strata: Array,
    *,
    top: float = 0.5,
    count: Literal["leaf", "node"] = "node",
    eps: float = 1e-8,
    ddof: int = 0,
) -> np.ndarray:
    """Two columns per rollout: its stratum (a strategy) among the strata, and itself among those of its stratum.

    A stratum's value is the mean of the best ceil(top * M) of its M rewards: what it can lead to. Both columns are
    z-scores. The rollouts of a stratum repeat its text: "node" divides the first column by M, so that it counts once.
    Shapes: (..., G), int (..., G) -> (..., G, 2).

    >>> two_levels([1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 2, 2], count="leaf").round(4)[::2].tolist()
    [[0.7071, 0.0], [0.7071, 1.0], [-1.4142, 0.0]]
    """
    values, same = np.asarray(rewards, dtype=float), together(np.asarray(strata))
    size = same.sum(axis=-1)
    potential = best_of_stratum(values, same, top)
    once = 1.0 / size
    between = compare(potential, np.ones_like(same), once, scale="std", eps=eps, ddof=ddof)
    within = compare(values, same, np.ones_like(values), scale="std", eps=eps, ddof=ddof)
    return np.stack([between * once if count == "node" else between, within], axis=-1)


def best_of_stratum(values: np.ndarray, same: np.ndarray, top: float) -> np.ndarray:
    """Mean of the best ceil(top * M) of the M values in each rollout's stratum: (..., G), (..., G, G) -> (..., G)."""
    descending = -np.sort(-np.where(same, values[..., None, :], -np.inf), axis=-1)
    size = same.sum(axis=-1, keepdims=True)
    chosen = np.arange(values.shape[-1]) < np.maximum(np.ceil(top * size - 1e-9), 1)
    mean = np.where(chosen, descending, 0.0).sum(axis=-1) / chosen.sum(axis=-1)
    return mean.round(12)  # so that equal means of different rewards are equal


@register("normalise", "per_source", returns="advantages", paper="ERILS (0.26)", traits={"permutation_equivariant"})
def per_source(
    rewards: Array,
    sources: Array,
    *,
    weight: float = 1.0,
    baseline: float | None = 0.5,
    eps: float = 1e-4,
    ddof: int = 1,
) -> np.ndarray:
    """The policy's own rollouts (source 0) z-scored among themselves; the others' weight * (r - baseline).

    Never both together: a stronger source would make every own failure worse and be copied blindly. `baseline` None
    z-scores each other source too, which gives nothing where it is always right.
    Shapes: (..., G), int (..., G) -> (..., G).

    >>> per_source([0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1], ddof=0, eps=0.0).round(3).tolist()
    [-0.577, -0.577, -0.577, 1.732, 0.5, 0.5]
    """
    values, sources = np.asarray(rewards, dtype=float), np.asarray(sources)
    inside = compare(values, together(sources), np.ones_like(values), scale="std", eps=eps, ddof=ddof)
    foreign = inside if baseline is None else values - baseline
    return np.where(sources == 0, inside, weight * foreign)
