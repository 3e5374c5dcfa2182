"""Pairwise similarity: the group's kernel of the credit pipeline, and kernels of any set with their spectra."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.arrays import Array, array_namespace, as_array, as_float, divide
from polypath.core.errors import UserError
from polypath.core.registry import register


@register("representation", "cosine", returns="similarity")
def cosine(
    embeddings: Array, correct: Array | None = None, *, between: Literal["same_outcome", "all"] = "same_outcome"
) -> Array:
    """Cosine similarity of the rollouts of one group; similarities never cross groups.

    With `between="same_outcome"` a correct and a wrong rollout have similarity 0, so that a correct answer is not
    punished for resembling a wrong one. Without `correct` all outcomes count as the same.
    Shapes: (..., G, d) -> (..., G, G). A zero vector is similar to nothing but itself.

    >>> cosine([[1.0, 0.0], [0.6, 0.8]]).round(3).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """
    embeddings = as_float(embeddings)
    xp = array_namespace(embeddings)
    unit = divide(embeddings, xp.sqrt(xp.sum(embeddings**2, axis=-1, keepdims=True)))
    similarity = unit @ xp.matrix_transpose(unit)
    itself = xp.eye(similarity.shape[-1], dtype=xp.bool)
    similarity = xp.where(itself, xp.ones_like(similarity), similarity)
    return mask_outcomes(similarity, correct) if between == "same_outcome" and correct is not None else similarity


def mask_outcomes(similarity: Array, correct: Array) -> Array:
    """Set the similarity of rollouts with different outcomes to 0: (..., G, G), bool (..., G) -> (..., G, G)."""
    correct = as_array(correct)
    xp = array_namespace(similarity)
    return xp.where(correct[..., :, None] == correct[..., None, :], similarity, xp.zeros_like(similarity))


def check_rows(embeddings: ArrayLike, name: str = "embeddings") -> NDArray[np.float64]:
    """Rows (n, d) as float64. Raises UserError for another shape and for a row that is not finite, naming the row."""
    rows = np.asarray(embeddings, dtype=float)
    if rows.ndim != 2:
        raise UserError(name, f"have the shape {rows.shape}, not (n, d)", "Give one row of numbers per item.")
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise UserError(f"{name}[{int(np.argmax(bad))}]", "is not finite", "Drop that item, or embed it again.")
    return rows


def unit_rows(embeddings: ArrayLike, name: str = "embeddings") -> NDArray[np.float64]:
    """Rows scaled to norm 1. Raises UserError as `check_rows`, and for a row of zeros, which has no direction."""
    rows = check_rows(embeddings, name)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any():
        raise UserError(f"{name}[{int(np.argmin(norms))}]", "is zero and has no direction", "Drop that item.")
    return rows / norms


def kernel_spectrum(similarity: ArrayLike, weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """Eigenvalues (n,) of diag(p)^1/2 K diag(p)^1/2, clipped at 0 and scaled to sum 1; p is uniform unless given.

    A kernel of edit distances and the like need not be positive semi-definite: a warning says how much of the
    spectrum was clipped. Raises UserError for a matrix that is not square, symmetric and finite, or without trace.
    """
    kernel = check_rows(similarity, "similarity")
    n = len(kernel)
    if kernel.shape != (n, n) or not np.allclose(kernel, kernel.T, atol=1e-6):
        raise UserError("similarity", f"of shape {kernel.shape} is not symmetric", "Give k(x_i, x_j) for all pairs.")
    root = np.sqrt(item_shares(n, weights))
    values = np.linalg.eigvalsh(kernel * root[:, None] * root[None, :])
    negative = float(-values[values < 0].sum())
    total = float(values.sum())
    if n and total <= 0:
        raise UserError("similarity", "has no positive trace", "Items must be similar to themselves.")
    if negative > 1e-8 * max(total, 1.0):
        share = negative / (negative + float(values[values > 0].sum()))
        warnings.warn(
            f"the similarity is not positive semi-definite: {share:.3g} of its spectrum clipped", stacklevel=3
        )
    values = np.clip(values, 0.0, None)
    noise = n * np.finfo(float).eps * (values.max() if n else 0.0)  # small orders would count it as items
    values = np.where(values > noise, values, 0.0)
    return np.asarray(values / values.sum() if n else values, dtype=np.float64)


def row_spectrum(rows: NDArray[np.float64], weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """The non-zero spectrum of the linear kernel of rows (n, d), from the smaller of the two Gram matrices.

    The same numbers as `kernel_spectrum(rows @ rows.T, weights)`, in O(n d^2) time and O(d^2) memory when d < n.
    """
    n, d = rows.shape
    scaled = rows * np.sqrt(item_shares(n, weights))[:, None]
    values = np.clip(np.linalg.eigvalsh(scaled @ scaled.T if n <= d else scaled.T @ scaled), 0.0, None)
    noise = min(n, d) * np.finfo(float).eps * (values.max() if values.size else 0.0)
    values = np.where(values > noise, values, 0.0)
    return np.asarray(values / values.sum() if values.size and values.sum() > 0 else values, dtype=np.float64)


def item_shares(n: int, weights: ArrayLike | None) -> NDArray[np.float64]:
    """Weights scaled to sum 1, uniform for None. Raises UserError for a wrong number, a negative one, or a sum of 0."""
    if weights is None:
        return np.full(n, 1.0 / max(n, 1), dtype=np.float64)
    p: NDArray[np.float64] = np.asarray(weights, dtype=np.float64)
    if p.shape != (n,) or not np.isfinite(p).all() or (p < 0).any() or (n and p.sum() == 0):
        raise UserError("weights", f"are not {n} numbers of at least 0", "Give one weight per item.")
    return np.asarray(p / max(p.sum(), 1e-300), dtype=np.float64)


def rbf(embeddings: ArrayLike, *, bandwidth: float | None = None) -> NDArray[np.float64]:
    """exp(-|x - y|^2 / (2 h^2)), (n, d) -> (n, n). `bandwidth` h is the median distance of different pairs if None."""
    squares = squared_distances(check_rows(embeddings))
    if bandwidth is None:
        off = squares[np.triu_indices(len(squares), 1)]
        bandwidth = math.sqrt(float(np.median(off))) if off.size and np.median(off) > 0 else 1.0
    return np.exp(-squares / (2 * bandwidth**2))


def inverse_distance(embeddings: ArrayLike) -> NDArray[np.float64]:
    """1 / (1 + |x - y|), (n, d) -> (n, n)."""
    return 1.0 / (1.0 + np.sqrt(squared_distances(check_rows(embeddings))))


def squared_distances(rows: NDArray[np.float64], others: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Squared Euclidean distances (n, m) by one matrix product, never below 0; exactly 0 on the diagonal."""
    other = rows if others is None else others
    squares = (rows**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2.0 * rows @ other.T
    squares = np.maximum(squares, 0.0)
    if others is None:
        np.fill_diagonal(squares, 0.0)
    return squares


def same_label(labels: Sequence[Hashable]) -> NDArray[np.float64]:
    """1 for equal labels, else 0: (n, n). None equals only itself."""
    n = len(labels)
    same = [[i == j or (labels[i] is not None and labels[i] == labels[j]) for j in range(n)] for i in range(n)]
    return np.array(same, dtype=float).reshape(n, n)


def jaccard(sets: Sequence[AbstractSet[Hashable]]) -> NDArray[np.float64]:
    """|A & B| / |A | B| of sets, two empty ones being the same: (n, n)."""
    n = len(sets)
    values = [[len(a & b) / len(a | b) if a or b else 1.0 for b in sets] for a in sets]
    return np.array(values, dtype=float).reshape(n, n)


def product(*kernels: ArrayLike) -> NDArray[np.float64]:
    """Elementwise product of kernels (Schur: positive semi-definite if they are), or of one."""
    return np.prod(np.stack([np.asarray(kernel, dtype=float) for kernel in kernels]), axis=0)


def weighted_sum(kernels: Sequence[ArrayLike], weights: Sequence[float]) -> NDArray[np.float64]:
    """sum w K of kernels. Raises ValueError for another number of weights."""
    terms = [w * np.asarray(kernel, dtype=float) for w, kernel in zip(weights, kernels, strict=True)]
    return np.sum(np.stack(terms), axis=0)


def log_euclidean_mean(kernels: Sequence[ArrayLike], *, ridge: float = 1e-6) -> NDArray[np.float64]:
    """exp(mean log(K + ridge I)): the multi-source kernel of MS-DPP (0.74), which keeps log-volumes additive.

    Source: Arsigny et al. 2007, doi:10.1137/050637996.
    """
    logs = []
    for kernel in kernels:
        values, vectors = np.linalg.eigh(np.asarray(kernel, dtype=float) + ridge * np.eye(len(np.asarray(kernel))))
        logs.append((vectors * np.log(np.maximum(values, ridge))) @ vectors.T)
    values, vectors = np.linalg.eigh(np.mean(np.stack(logs), axis=0))
    return (vectors * np.exp(values)) @ vectors.T


def scale_by_quality(similarity: ArrayLike, quality: ArrayLike) -> NDArray[np.float64]:
    """diag(q) K diag(q): the kernel of a determinantal process over items of different quality."""
    q = np.asarray(quality, dtype=float)
    return np.asarray(similarity, dtype=float) * q[:, None] * q[None, :]
