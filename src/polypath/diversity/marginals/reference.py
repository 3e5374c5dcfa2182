"""Marginals of the distance between a set and a reference set: what an item brings the set away from the reference."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError
from polypath.diversity.kernels.vector import median_distance, pair_of_rows, squared_distances


def loo_mmd(embeddings: ArrayLike, reference: ArrayLike, *, bandwidth: float | None = None) -> np.ndarray:
    """Marginal of the unbiased squared MMD to a reference set with an RBF kernel: (n, d), (m, d) -> (n,).

    Negative for an item that brings the set closer to the reference. NaN for n < 3 or m < 2, where the measure or its
    rest is undefined. See the measure `mmd`.
    """
    rows, known = pair_of_rows(embeddings, reference)
    if len(rows) < 3 or len(known) < 2:
        return np.full(len(rows), np.nan)
    width = median_distance(known) if bandwidth is None else float(bandwidth)
    if not width > 0:
        raise UserError("mmd", f"the bandwidth is {width:g}", "Give a positive bandwidth.")
    within, across = (np.exp(squared_distances(rows, other) / (-2 * width**2)) for other in (rows, known))
    return _two_sample(within, across)


def loo_energy_distance(embeddings: ArrayLike, reference: ArrayLike) -> np.ndarray:
    """Marginal of the energy distance to a reference set: (n, d), (m, d) -> (n,). NaN for n < 3 or m < 2.

    Negative for an item that brings the set closer to the reference. See the measure `energy_distance`.
    """
    rows, known = pair_of_rows(embeddings, reference)
    if len(rows) < 3 or len(known) < 2:
        return np.full(len(rows), np.nan)
    within, across = (-np.sqrt(squared_distances(rows, other)) for other in (rows, known))
    return _two_sample(within, across)


def _two_sample(within: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Marginal of the mean over pairs within minus twice the mean across; the reference's own part cancels."""
    n = len(within)
    rows, near = within.sum(axis=1) - np.diagonal(within), across.mean(axis=1)
    total = rows.sum()
    pairs = total / (n * (n - 1)) - (total - 2 * rows) / ((n - 1) * (n - 2))
    return pairs - 2 * (near.mean() - (near.sum() - near) / (n - 1))
