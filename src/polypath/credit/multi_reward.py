"""Several rewards per rollout, `reward_columns` (..., G, M): normalised apart, combined, filtered by conflict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from polypath.core.arrays import Array
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.credit.memory import Memory


@register(
    "normalise",
    "each_column",
    returns="column_advantages",
    paper="GDPO (1.112)",
    traits={"permutation_equivariant", "divides_by_spread"},
)
def each_column(reward_columns: Array, *, eps: float = 1e-4, ddof: int = 1, min_std: float = 0.0) -> np.ndarray:
    """The z-score of every reward column inside the group, so that no combination of rewards hides another.

    A column of equal rewards, or whose spread is below `min_std` (else a nearly constant one is blown up to unit
    variance), gives zeros; so does an undefined reward, which counts in no mean. Shapes: (..., G, M) -> (..., G, M).
    """
    columns = np.asarray(reward_columns, dtype=float)
    known = np.isfinite(columns)
    count = known.sum(axis=-2, keepdims=True)
    filled = np.where(known, columns, 0.0)
    centred = np.where(known, filled - filled.sum(axis=-2, keepdims=True) / np.maximum(count, 1), 0.0)
    std = np.sqrt((centred**2).sum(axis=-2, keepdims=True) / np.maximum(count - ddof, 1))
    low = np.where(known, columns, np.inf).min(axis=-2, keepdims=True)
    high = np.where(known, columns, -np.inf).max(axis=-2, keepdims=True)
    live = (high > low) & (std >= min_std)
    return np.where(live, centred / (std + eps), 0.0)


@register("normalise", "sum_columns", returns="advantages", paper="GDPO (1.112)", traits={"permutation_equivariant"})
def sum_columns(column_advantages: Array, *, weights: list[float] | None = None) -> np.ndarray:
    """The weighted sum of the columns' advantages, all weights 1 by default. Shapes: (..., G, M) -> (..., G).

    Raises UserError when there are not as many weights as columns.
    """
    columns = np.asarray(column_advantages, dtype=float)
    return columns @ _weights(weights, columns.shape[-1], "normalise.sum_columns")


def _weights(weights: Sequence[float] | None, columns: int, where: str) -> np.ndarray:
    if weights is not None and len(weights) != columns:
        raise UserError(f"{where}.weights", f"{len(weights)} weights for {columns} columns", "Give one per column.")
    return np.ones(columns) if weights is None else np.asarray(weights, dtype=float)


@register("reweight", "conflict", returns="advantages keep", paper="GD2PO (0.48)", traits={"permutation_equivariant"})
def conflict(
    advantages: Array,
    column_advantages: Array,
    *,
    mode: Literal["ratio", "hard"] = "ratio",
    tau: float = 0.2,
    eps: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray]:
    """Drop rollouts whose columns pull both ways, and weigh the group by the share that is kept (GD2PO).

    "hard" drops every conflict; "ratio" only those with |sum Z| < tau sum |Z|, where the columns nearly cancel.
    Shapes: (..., G), (..., G, M) -> (..., G), bool (..., G).
    """
    columns = np.asarray(column_advantages, dtype=float)
    torn = (columns.max(axis=-1) > eps) & (columns.min(axis=-1) < -eps)
    if mode == "ratio":
        torn &= np.abs(columns.sum(axis=-1)) < tau * (np.abs(columns).sum(axis=-1) + eps)
    keep = ~torn
    return np.asarray(advantages, dtype=float) * keep.mean(axis=-1, keepdims=True) * keep, keep


@register("reweight", "pareto_front", returns="keep", paper="Parrot (1.116)", traits={"permutation_equivariant"})
def pareto_front(reward_columns: Array) -> np.ndarray:
    """Keep the rollouts that no other of the group dominates: at least as good in all columns and better in one.

    Exact duplicates stay together. An undefined reward counts as the worst. Shapes: (..., G, M) -> bool (..., G).

    >>> pareto_front([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]]).tolist()
    [True, True, False]
    """
    columns = np.nan_to_num(np.asarray(reward_columns, dtype=float), nan=-np.inf)
    other, own = columns[..., None, :, :], columns[..., :, None, :]
    return ~((other >= own).all(axis=-1) & (other > own).any(axis=-1)).any(axis=-1)


@register("fuse", "ensemble", returns="rewards", paper="Reward ensembles (1.110)", traits={"permutation_equivariant"})
def ensemble(
    reward_columns: Array,
    *,
    combine: Literal["mean", "median", "min", "mean_minus_std"] = "mean_minus_std",
    strength: float = 1.0,
) -> np.ndarray:
    """One reward from several models of the *same* quality: a policy that fools one of them gains less.

    "mean_minus_std" takes off `strength` population standard deviations. Errors that all models share stay.
    Undefined columns are left out; shapes: (..., G, M) -> (..., G).

    >>> ensemble([[0.9, 0.2, 0.8], [0.6, 0.6, 0.6]]).round(6).tolist()
    [0.324213, 0.6]
    """
    columns = np.asarray(reward_columns, dtype=float)
    if combine == "mean_minus_std":
        return np.nanmean(columns, axis=-1) - strength * np.nanstd(columns, axis=-1)
    reductions: dict[str, Callable[..., Any]] = {"mean": np.nanmean, "median": np.nanmedian, "min": np.nanmin}
    return np.asarray(reductions[combine](columns, axis=-1))


@register("fuse", "rubric_share", returns="rewards", paper="CaT (2.105)", traits={"permutation_equivariant"})
def rubric_share(reward_columns: Array, *, weights: list[float] | None = None) -> np.ndarray:
    """Weighted share of the rubric's criteria that a judge marks as met (1) or not (0), undefined ones left out.

    Shapes: (..., G, M) -> (..., G).
    """
    columns = np.asarray(reward_columns, dtype=float)
    scale = _weights(weights, columns.shape[-1], "fuse.rubric_share") * ~np.isnan(columns)
    return (np.nan_to_num(columns) * scale).sum(axis=-1) / np.maximum(scale.sum(axis=-1), 1e-12)


@register("fuse", "gated_columns", returns="rewards", traits={"permutation_equivariant"})
def gated_columns(reward_columns: Array, *, threshold: float = 0.0, weights: list[float] | None = None) -> np.ndarray:
    """The first column, and the others added only where the first is above `threshold`: easy rewards wait for the hard.

    Shapes: (..., G, M) -> (..., G).
    """
    columns = np.asarray(reward_columns, dtype=float)
    scale = _weights(weights, columns.shape[-1], "fuse.gated_columns")
    met = columns[..., :1] > threshold
    return columns[..., 0] * scale[0] + (np.where(met, columns[..., 1:], 0.0) @ scale[1:])


@register("fuse", "aligned_blend", returns="rewards metrics", paper="arXiv:2310.19007 [1.73]", traits={"whole_batch"})
def aligned_blend(
    reward_columns: Array, groups: Array, memory: Memory, *, start: float = 1.0, rate: float = 0.1, largest: float = 2.0
) -> tuple[np.ndarray, dict[str, float]]:
    """First column plus learned weights in [0, largest] times the others; a misaligned auxiliary reward fades out.

    After use each weight moves by `rate` times the correlation, inside the groups, of its column with the first: the
    sign of the bi-level gradient when every rollout's policy gradient is taken as orthogonal to the others'. An
    undefined correlation moves nothing. Runs once over the batch: (N, M), (N,) -> (N,). Kept in memory["blend"].
    """
    columns = np.asarray(reward_columns, dtype=float)
    weights = np.array(memory.get("blend", [start] * (columns.shape[-1] - 1)))
    _, places, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(places, weights=c) / sizes for c in columns.T], axis=-1)
    centred = columns - means[places]
    norm = np.sqrt((centred**2).sum(axis=0))
    scale = norm[0] * norm[1:]
    agreement = np.where(scale > 1e-12, centred[:, 0] @ centred[:, 1:] / np.maximum(scale, 1e-12), 0.0)
    memory["blend"] = np.clip(weights + rate * agreement, 0.0, largest).tolist()
    names = {f"blend_weight_{i + 1}": float(w) for i, w in enumerate(weights)}
    return columns[:, 0] + columns[:, 1:] @ weights, names
