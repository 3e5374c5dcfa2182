"""Rewards from graded evidence: how far off, how many steps, how much of the way was right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polypath.core.arrays import Array
from polypath.core.errors import UserError
from polypath.core.registry import register

EQUIVARIANT = frozenset({"permutation_equivariant"})


@register("fuse", "fuzzy", returns="rewards", paper="FGRPR (1.24)", traits=EQUIVARIANT)
def fuzzy(distance: Array, *, top: float = 1.5, largest: float = 0.5) -> np.ndarray:
    """top - e where the relative error e is below `largest`, else 0; an unreadable answer (NaN) gives 0 (FGRPR).

    `distance` is |y - target|/|target|; a task with a target of 0 must say what its distance is.
    Shapes: (..., G) -> (..., G).

    >>> fuzzy([0.0, 0.1, 0.4, 0.51, 0.4]).round(4).tolist()
    [1.5, 1.4, 1.1, 0.0, 1.1]
    """
    error = _distance(distance, "fuse.fuzzy")
    return np.where(error < largest, top - error, 0.0)


@register("fuse", "tiers", returns="rewards", paper="Sweet-spot learning (1.66)", traits=EQUIVARIANT)
def tiers(
    distance: Array, correct: Array | None = None, *, thresholds: Sequence[float] = (0.05, 0.15, 0.3)
) -> np.ndarray:
    """Share of the thresholds that the distance stays within, 0 for a wrong rollout: closer is better, success first.

    Shapes: (..., G) -> (..., G).

    >>> tiers([0.02, 0.1, 0.2, 0.5]).round(4).tolist()
    [1.0, 0.6667, 0.3333, 0.0]
    """
    error = _distance(distance, "fuse.tiers")
    share = (error[..., None] <= np.asarray(thresholds, dtype=float)).mean(axis=-1)
    return share if correct is None else share * np.asarray(correct, dtype=float)


def _distance(distance: Array, where: str) -> np.ndarray:
    """Distances with infinity for unreadable answers. Raises UserError for a negative one."""
    values = np.asarray(distance, dtype=float)
    if (values < 0).any():
        raise UserError(where, "a distance is negative", "Give |y - target| in the task's units.")
    return np.where(np.isnan(values), np.inf, values)


@register("fuse", "step_prior", returns="rewards", paper="PSPO* (2.79)", traits=EQUIVARIANT)
def step_prior(rewards: Array, steps: Array, *, shape: float = 2.0, scale: float = 8.0) -> np.ndarray:
    """Process reward times a Weibull density of the number of steps, scaled to 1 at its top: neither short nor long.

    The density (n/scale)^(shape-1) exp(-(n/scale)^shape) peaks at scale ((shape-1)/shape)^(1/shape); `shape` above 1.
    Negative rewards are first shifted by the group's minimum, so that an odd length never helps a bad rollout.
    Shapes: (..., G), (..., G) -> (..., G).
    """
    if shape <= 1.0:
        raise UserError("fuse.step_prior.shape", f"{shape} gives no peak", "Choose a shape above 1.")
    values, n = np.asarray(rewards, dtype=float), np.asarray(steps, dtype=float) / scale
    values = values - np.minimum(values.min(axis=-1, keepdims=True), 0.0)
    peak = (shape - 1.0) / shape
    return values * (n ** (shape - 1.0) * np.exp(-(n**shape))) / (peak**peak * np.exp(-peak))


@register("fuse", "failed_progress", returns="rewards", paper="All-negative groups (1.59)", traits=EQUIVARIANT)
def failed_progress(
    rewards: Array, correct: Array, progress: Array, *, slope: float = 10.0, centre: float = 0.5
) -> np.ndarray:
    """In a group without any correct rollout, -1 + sigmoid(slope (progress - centre)); other groups are left alone.

    `progress` is the share of steps before the first wrong one, by steps and not by tokens. Further is never worse.
    Shapes: (..., G) each -> (..., G).
    """
    failed = ~np.asarray(correct, dtype=bool).any(axis=-1, keepdims=True)
    graded = -1.0 + 1.0 / (1.0 + np.exp(slope * (centre - np.asarray(progress, dtype=float))))
    return np.where(failed, graded, np.asarray(rewards, dtype=float))
