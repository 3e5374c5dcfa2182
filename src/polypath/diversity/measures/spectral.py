"""Measures of the eigenvalues of a kernel: how many different directions the items fill, and how much volume."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.vector import cosine_kernel, given_rows
from polypath.diversity.kernels.view import Kernel, dense_kernel, per_item, to_numpy
from polypath.diversity.measures.counts import hill_number
from polypath.diversity.measures.traits import INVARIANT, LESS, MORE

CLIPPED = 1e-9  # a larger share of negative eigenvalues is worth a warning


def spectrum(kernel: Kernel, weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """Eigenvalues of K scaled by sqrt(p p^T), divided by their sum: shares >= 0 that sum to 1 (empty for no items).

    Taken from the smaller of the (n, n) kernel and its (rank, rank) dual, whose non-zero eigenvalues are equal. Values
    below rounding are 0. A kernel that is not positive semi-definite warns with the share that was clipped.
    """
    n = kernel.size
    p = _shares(weights, n)
    if n == 0:
        return np.empty(0)
    if kernel.factor is not None and kernel.rank < n and kernel.ridge == 0:
        values = np.linalg.eigvalsh(kernel.gram_dual(p))
    else:
        root = np.sqrt(p)
        values = np.linalg.eigvalsh(kernel.matrix() * root[:, None] * root[None, :])
    noise = n * np.finfo(float).eps * float(np.abs(values).max())  # orders below 1 would count it as items
    clipped = -float(values[values < -noise].sum()) / float(np.abs(values).sum() or 1.0)
    if clipped > CLIPPED:
        warnings.warn(
            f"kernel {kernel.name} is not positive semi-definite: {clipped:.3g} of its spectrum was negative and "
            "clipped to 0",
            stacklevel=2,
        )
    values = np.where(values > noise, values, 0.0)
    return values / values.sum()


def kernel_vendi(kernel: Kernel, *, q: float = 1.0, weights: ArrayLike | None = None) -> float:
    """Vendi score of order `q` of any kernel view, with item weights. NaN for no items.

    Order 2 needs no eigenvalues, (tr K_p)^2 / |K_p|_F^2, and no n x n array.
    """
    if kernel.size == 0:
        return math.nan
    return _order_two(kernel, weights) if q == 2 else hill_number(spectrum(kernel, weights), q=q)


@register("measure", "vendi", paper="arXiv:2210.02410 [1.86]", traits={INVARIANT, MORE})
def vendi(embeddings: ArrayLike, *, q: float = 1.0, weights: ArrayLike | None = None) -> float:
    """Vendi score of order `q` with the cosine kernel: the effective number of different items, in [1, n].

    Shapes: `embeddings` (n, d), rows are normalised here; `weights` (n,) >= 0. Small orders notice rare items, large
    ones the dominant (arXiv:2310.12952). It grows with n: compare sets of equal size. Needs O(d^2) memory when n > d.
    NaN for an empty set. Raises UserError for a row of zeros or NaN.

    >>> round(vendi([[1, 0], [1, 0], [0, 1]]), 6)
    1.889882
    """
    return kernel_vendi(cosine_kernel(embeddings), q=q, weights=weights)


@register("measure", "vendi_of_kernel", paper="arXiv:2210.02410 [1.86]", traits={INVARIANT, MORE})
def vendi_of_kernel(similarity: ArrayLike, *, q: float = 1.0, weights: ArrayLike | None = None) -> float:
    """Vendi score of order `q` of a similarity matrix (n, n) with unit diagonal, in [1, n]. NaN for no items.

    Warns with the clipped share when the matrix is not positive semi-definite, as of edit distances.
    """
    return kernel_vendi(dense_kernel(similarity), q=q, weights=weights)


@register("measure", "vendi_quality", paper="arXiv:2405.02449 [0.47]", traits={INVARIANT, MORE})
def vendi_quality(embeddings: ArrayLike, rewards: ArrayLike, *, q: float = 1.0) -> float:
    """Mean reward times the Vendi score: diversity that is worth nothing without quality. NaN for an empty set."""
    rows = given_rows(embeddings)
    quality = per_item(rewards, len(rows), "rewards")
    return float(quality.mean()) * vendi(rows, q=q) if len(rows) else math.nan


@register("measure", "vendi_gated", paper="arXiv:2504.12522 [0.47]", traits={INVARIANT, MORE})
def vendi_gated(embeddings: ArrayLike, rewards: ArrayLike, *, gate: float = 0.5, q: float = 1.0) -> float:
    """Vendi score of the items whose reward is at least `gate`: 0 when none passes, NaN for an empty set.

    It counts only what is good enough; read it beside the share that passes.
    """
    rows = given_rows(embeddings)
    return _vendi_of(rows, per_item(rewards, len(rows), "rewards") >= gate, q)


@register("measure", "vendi_correct", paper="arXiv:2504.12522", traits={INVARIANT, MORE})
def vendi_correct(embeddings: ArrayLike, correct: Sequence[bool], *, q: float = 1.0) -> float:
    """Vendi score of the correct items alone: 0 when none is correct, NaN for an empty set."""
    rows = given_rows(embeddings)
    return _vendi_of(rows, per_item(correct, len(rows), "correct") != 0, q)


def _vendi_of(rows: NDArray[Any], kept: NDArray[np.bool_], q: float) -> float:
    if len(rows) == 0:
        return math.nan
    return vendi(rows[kept], q=q) if kept.any() else 0.0


@register("measure", "gradient_vendi", paper="arXiv:2505.20161 [2.60]", traits={INVARIANT, MORE})
def gradient_vendi(gradients: ArrayLike, *, q: float = 1.0) -> float:
    """G-Vendi: Vendi score of per-example gradients of a fixed proxy model, (n, d).

    Give sketches of the whole gradient or of the output head alone (`features.head_gradients`) and say which. An
    example whose gradient is zero teaches the proxy nothing and is left out. NaN when none is left.
    """
    rows = given_rows(gradients, "gradients", zeros=True)
    return vendi(rows[np.any(rows != 0, axis=1)], q=q)


@register("measure", "log_det", traits={INVARIANT, MORE})
def log_det(embeddings: ArrayLike, *, ridge: float = 1e-3) -> float:
    """Log-volume log det(K + ridge I) of the cosine kernel; `ridge` is part of the definition. NaN for no items.

    Taken from the (d, d) dual when n > d. Raises UserError without a ridge for more than d items, whose volume is 0.

    >>> round(log_det([[1.0, 0.0], [0.6, 0.8]], ridge=0.0), 6)  # log(1 - 0.36)
    -0.446287
    """
    return kernel_log_det(cosine_kernel(embeddings), ridge=ridge)


def kernel_log_det(kernel: Kernel, *, ridge: float = 0.0) -> float:
    """log det(K + ridge I), the kernel's own ridge added; -inf for a determinant of 0. NaN for no items.

    Raises UserError for more items than the rank of the kernel without a ridge.
    """
    n, total = kernel.size, ridge + kernel.ridge
    if total < 0 or (total == 0 and kernel.rank_bound < n):
        raise UserError("ridge", f"{total:g} leaves {n} items in {kernel.rank} dimensions without volume", "Raise it.")
    if n == 0:
        return math.nan
    if kernel.factor is not None and kernel.rank < n:
        small = kernel.gram_dual() + total * np.eye(kernel.rank)
        return float(np.linalg.slogdet(small)[1]) + (n - kernel.rank) * math.log(total)
    sign, value = np.linalg.slogdet(kernel.matrix() + ridge * np.eye(n))
    return float(value) if sign > 0 else -math.inf


@register("measure", "log_det_distance", paper="arXiv:2402.02318 [2.116]", traits={INVARIANT, LESS})
def log_det_distance(
    embeddings: ArrayLike, *, ridge: float = 1e-3, reference: Literal["orthogonal", "sphere"] = "orthogonal"
) -> float:
    """How much log-volume per item a set lacks to a maximally diverse one of its size; 0 is best. NaN for no items.

    (log det(K_ref + ridge I) - log det(K + ridge I)) / n with the cosine kernel. `orthogonal` is the upper bound K = I;
    `sphere` takes n directions drawn uniformly (seed 0) in the same d, which is what is attainable when n > d.

    >>> round(log_det_distance([[1.0, 0.0], [0.9, 0.19**0.5]], ridge=0.0), 6)  # -log(1 - 0.81) / 2
    0.830366
    """
    rows = given_rows(embeddings)
    if len(rows) == 0:
        return math.nan
    best = len(rows) * math.log1p(ridge)
    if reference == "sphere":
        best = log_det(np.random.default_rng(0).normal(size=rows.shape), ridge=ridge)
    return (best - log_det(rows, ridge=ridge)) / len(rows)


@register("measure", "similarity_entropy", paper="doi:10.1890/10-2402.1", traits={INVARIANT, MORE})
def similarity_entropy(similarity: ArrayLike, *, q: float = 1.0) -> float:
    """Similarity-sensitive effective number of order `q` of equally frequent items (Leinster and Cobbold 2012).

    With z_i the mean similarity of item i to all, itself included: q = 1 gives exp(-mean log z). It needs no
    eigenvalues and no positive semi-definite matrix. Similarities must be >= 0. NaN for no items.

    >>> similarity_entropy([[1, 0], [0, 1]]), similarity_entropy([[1, 1], [1, 1]])
    (2.0, 1.0)
    """
    kernel = dense_kernel(similarity)
    if kernel.size == 0:
        return math.nan
    matrix = kernel.matrix()
    if (matrix < 0).any():
        raise UserError("similarity", "has negative entries", "Clip them at 0, or use a Vendi score.")
    z = matrix.mean(axis=1)
    if q == 1:
        return float(np.exp(-np.log(z).mean()))
    return float(1 / z.max()) if math.isinf(q) else float((z ** (q - 1)).mean() ** (1 / (1 - q)))


def _order_two(kernel: Kernel, weights: ArrayLike | None) -> float:
    p = _shares(weights, kernel.size)
    if kernel.factor is not None and kernel.rank < kernel.size and kernel.ridge == 0:
        gram = kernel.gram_dual(p)
        return float(np.trace(gram) ** 2 / (gram**2).sum())
    squares = sum(float((p[part, None] * rows**2 * p).sum()) for part, rows in kernel.blocks())
    return float(p @ (kernel.diagonal + kernel.ridge)) ** 2 / squares


def _shares(weights: ArrayLike | None, n: int) -> NDArray[np.float64]:
    if weights is None:
        return np.full(n, 1 / max(1, n))
    p = to_numpy(weights)
    if p.shape != (n,) or not (p >= 0).all() or not np.isfinite(p).all() or not p.sum() > 0:
        raise UserError("weights", f"are not {n} numbers of at least 0", "Give one weight per item, not all 0.")
    return p / p.sum()
