"""Set measures from the spectrum of a kernel: how many independent directions a set has.

Embeddings are (n, d); every function raises UserError naming a row that is not finite or, where directions are
compared, zero. All of these grow with n: compare sets of equal size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels import check_rows, kernel_spectrum, row_spectrum, unit_rows
from polypath.diversity.measures import INVARIANT, MORE, hill_number


@register("measure", "vendi", paper="arXiv:2210.02410 [1.86, 1.114]", traits={INVARIANT, MORE})
def vendi(embeddings: ArrayLike, *, q: float = 1.0) -> float:
    """Vendi score of order `q` with the cosine kernel: the effective number of different items, in [1, n].

    The Hill number of order q of the eigenvalues of K/n; a small q counts rare items, a large one common ones. Order 2
    needs no eigenvalues: n^2 / |K|^2. NaN for an empty set.

    >>> round(vendi([[1, 0], [1, 0], [0, 1]]), 6)
    1.889882
    """
    rows = unit_rows(embeddings)
    n, d = rows.shape
    if n == 0:
        return math.nan
    if q == 2:
        gram = rows @ rows.T if n <= d else rows.T @ rows
        return float(n**2 / (gram**2).sum())
    return hill_number(row_spectrum(rows), q=q)


def vendi_of_kernel(similarity: ArrayLike, *, q: float = 1.0, weights: ArrayLike | None = None) -> float:
    """Vendi score of order `q` of any similarity (n, n), with weights of the items (uniform unless given).

    >>> K = [[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1]]
    >>> round(vendi_of_kernel(K), 6), round(vendi_of_kernel(K, weights=[0.4, 0.1, 0.25, 0.25]), 6)
    (3.092286, 3.002409)
    """
    return hill_number(kernel_spectrum(similarity, weights), q=q)


@register("measure", "vendi_quality", paper="arXiv:2405.02449 [0.47]", traits={INVARIANT, MORE})
def vendi_quality(embeddings: ArrayLike, rewards: Sequence[float], *, q: float = 1.0) -> float:
    """Mean reward times the Vendi score: diversity that is worth nothing without quality. NaN for an empty set."""
    rows = unit_rows(embeddings)
    return float(np.mean(rewards)) * vendi(rows, q=q) if len(rows) else math.nan


@register("measure", "vendi_correct", paper="arXiv:2504.12522", traits={INVARIANT, MORE})
def vendi_correct(embeddings: ArrayLike, correct: Sequence[bool], *, q: float = 1.0) -> float:
    """Vendi score of the correct items alone: 0 when none is correct, NaN for an empty set."""
    rows = check_rows(embeddings)
    if len(rows) == 0:
        return math.nan
    kept = rows[np.asarray(correct, dtype=bool)]
    return vendi(kept, q=q) if len(kept) else 0.0


@register("measure", "effective_channels", paper="Agent scaling (0.5)", traits={INVARIANT, MORE})
def effective_channels(embeddings: ArrayLike) -> float:
    """K*, the Hill number of order 1 of the spectrum scaled to trace 1: how many independent channels answer.

    Unlike Vendi the rows keep their length. One row per agent: the mean embedding of its texts. NaN for no rows, or
    rows of zeros alone. The paper's conditional forms are K* of the correct rows, and K*_correct - K*_wrong / 2.
    """
    rows = check_rows(embeddings)
    return hill_number(row_spectrum(rows), q=1.0) if len(rows) else math.nan


@register("measure", "gradient_vendi", paper="arXiv:2505.20161 [2.60]", traits={INVARIANT, MORE})
def gradient_vendi(gradients: ArrayLike) -> float:
    """G-Vendi: the Vendi score of per-example gradient sketches (n, d); rows of zeros, which teach nothing, are left
    out. NaN when none is left.
    """
    rows = check_rows(gradients, "gradients")
    rows = rows[np.linalg.norm(rows, axis=1) > 0]
    return vendi(rows) if len(rows) else math.nan


@register("measure", "log_det", paper="Determinantal processes (0.53, 0.68)", traits={INVARIANT, MORE})
def log_det(embeddings: ArrayLike, *, ridge: float = 1e-3) -> float:
    """log det(K + ridge I) of the cosine kernel, the log-volume that the items span; `ridge` is part of the measure.

    Without a ridge a set of more than d items has volume 0. NaN for an empty set.
    """
    rows = unit_rows(embeddings)
    if len(rows) == 0:
        return math.nan
    return log_volume(rows, ridge)


def log_volume(rows: NDArray[np.float64], ridge: float) -> float:
    """log det(R R^T + ridge I) from the smaller Gram matrix. Raises UserError when it is singular."""
    n, d = rows.shape
    if ridge < 0 or (ridge == 0 and n > d):
        raise UserError("ridge", f"{ridge:g} leaves {n} rows of {d} numbers without volume", "Use a ridge above 0.")
    if n <= d:
        sign, value = np.linalg.slogdet(rows @ rows.T + ridge * np.eye(n))
        return float(value) if sign > 0 else -math.inf
    sign, value = np.linalg.slogdet(rows.T @ rows / ridge + np.eye(d))
    return float(value + n * math.log(ridge))


@register("measure", "log_det_distance", paper="arXiv:2402.02318 [2.116]", traits={INVARIANT})
def log_det_distance(embeddings: ArrayLike, *, ridge: float = 1e-3) -> float:
    """(log-volume of n orthogonal items - that of the items) / n: 0 for the most diverse set, more for less diverse.

    NaN for an empty set.

    >>> round(log_det_distance([[1, 0], [0.9, 0.19**0.5]], ridge=0), 6)
    0.830366
    """
    rows = unit_rows(embeddings)
    n = len(rows)
    return (n * math.log(1.0 + ridge) - log_volume(rows, ridge)) / n if n else math.nan
