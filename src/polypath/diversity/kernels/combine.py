"""New kernels from given ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError
from polypath.diversity.kernels.view import Index, Kernel, Matrix, dense_kernel


def product(*kernels: Kernel) -> Kernel:
    """Elementwise product: similar only where all are (PSD if all are)."""
    _same_size(kernels)

    def block_of(i: Index, j: Index) -> Matrix:
        return reduce(np.multiply, [kernel.block(i, j) for kernel in kernels])

    diagonal = reduce(np.multiply, [kernel.diagonal + kernel.ridge for kernel in kernels])
    name = "*".join(kernel.name for kernel in kernels)
    return Kernel(block_of, diagonal, name, is_psd=all(kernel.is_psd for kernel in kernels))


def weighted_sum(kernels: Sequence[Kernel], weights: ArrayLike) -> Kernel:
    """sum_m w_m K_m. Keeps the factored form when all have one and no weight is negative."""
    _same_size(kernels)
    w = np.asarray(weights, dtype=float)
    if w.shape != (len(kernels),):
        raise UserError("kernel weights", f"{w.size} for {len(kernels)} kernels", "Give one weight per kernel.")

    def block_of(i: Index, j: Index) -> Matrix:
        return np.sum([x * kernel.block_of(i, j) for x, kernel in zip(w, kernels, strict=True)], axis=0)

    def factor(index: Index) -> Matrix:
        parts = [np.sqrt(x) * k.factor(index) for x, k in zip(w, kernels, strict=True) if k.factor is not None]
        return np.hstack(parts)

    factored = all(kernel.factor is not None for kernel in kernels) and (w >= 0).all()
    return Kernel(
        block_of,
        np.sum([x * kernel.diagonal for x, kernel in zip(w, kernels, strict=True)], axis=0),
        "+".join(kernel.name for kernel in kernels),
        factor if factored else None,
        sum(kernel.rank for kernel in kernels) if factored else 0,
        float(np.dot(w, [kernel.ridge for kernel in kernels])),
        all(kernel.is_psd for kernel in kernels) and bool((w >= 0).all()),
    )


def quality_scaled(kernel: Kernel, quality: ArrayLike) -> Kernel:
    """diag(q) (K + ridge I) diag(q), the quality-diversity kernel of determinantal selection.

    >>> from polypath.diversity.kernels import cosine_kernel
    >>> quality_scaled(cosine_kernel([[1.0, 0.0], [3.0, 4.0]]), [1.0, 2.0]).rows([1]).round(3).tolist()
    [[1.2, 4.0]]
    """
    q = np.asarray(quality, dtype=float)
    if q.shape != (kernel.size,) or not np.isfinite(q).all():
        raise UserError("quality", f"has shape {q.shape} or NaN values", f"Give one number for {kernel.size} items.")

    def block_of(i: Index, j: Index) -> Matrix:
        return q[i][:, None] * kernel.block(i, j) * q[j][None, :]

    diagonal = (kernel.diagonal + kernel.ridge) * q**2
    inner = kernel.factor
    if inner is None or kernel.ridge > 0:  # a ridge that differs by item is no longer a multiple of I
        return Kernel(block_of, diagonal, f"{kernel.name} by quality", is_psd=kernel.is_psd)

    def factor(index: Index) -> Matrix:
        return q[index][:, None] * inner(index)

    return Kernel(block_of, diagonal, f"{kernel.name} by quality", factor, kernel.rank)


def log_euclid(
    kernels: Sequence[Kernel], weights: ArrayLike | None = None, *, ridge: float = 1e-3, norm: float | None = None
) -> Kernel:
    """Log-Euclidean combination exp(sum_m w_m log(K_m + ridge I)) of several sources, equal weights by default.

    A negative weight makes a source count towards sameness instead of difference. With `norm` every logarithm is
    first scaled to that Frobenius norm, so that no source outvotes the others. Eigenvalues <= 0 become 1 before the
    logarithm. Dense, O(m n^3): meant for a retrieved list of up to about 1000 items. Source: multi-source DPP.

    >>> k = log_euclid([dense_kernel([[1, 0.5], [0.5, 1]]), dense_kernel([[1, 0], [0, 1]])], ridge=0.0)
    >>> k.matrix().round(6).tolist()
    [[0.965926, 0.258819], [0.258819, 0.965926]]
    """
    _same_size(kernels)
    w = np.full(len(kernels), 1 / len(kernels)) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (len(kernels),):
        raise UserError("kernel weights", f"{w.size} for {len(kernels)} kernels", "Give one weight per kernel.")
    total = np.zeros((kernels[0].size, kernels[0].size))
    for weight, kernel in zip(w, kernels, strict=True):
        values, vectors = np.linalg.eigh(kernel.matrix() + ridge * np.eye(kernel.size))
        logs = np.log(np.where(values > 0, values, 1.0))
        length = np.linalg.norm(logs)  # the Frobenius norm of the logarithm
        scale = norm / length if norm is not None and length > 0 else 1.0
        total += weight * scale * (vectors * logs) @ vectors.T
    values, vectors = np.linalg.eigh(total)
    matrix = (vectors * np.exp(values)) @ vectors.T
    return dense_kernel((matrix + matrix.T) / 2, name="log_euclid", is_psd=True)


def _same_size(kernels: Sequence[Kernel]) -> None:
    sizes = [kernel.size for kernel in kernels]
    if not sizes or len(set(sizes)) > 1:
        raise UserError("kernels", f"of {sizes} items cannot be combined", "Give kernels of the same items.")
