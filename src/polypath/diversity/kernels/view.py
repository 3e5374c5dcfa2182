"""A similarity of n items that is computed where it is looked at, so that no n x n array need exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError

Matrix = NDArray[np.float64]
Index = Any  # an integer array or a slice
MAX_BYTES = 2**30  # the largest n x n array that `Kernel.matrix` builds without being told to
BLOCK, CELLS = 1024, 2**23  # rows computed at once, and numbers (64 MiB)


@dataclass(frozen=True)
class Kernel:
    """Similarities K + `ridge` I of n items, by block; `diagonal` is that of K without the ridge.

    `factor(I)` gives rows F_I (|I|, `rank`) with K = F F^T for kernels that have such a form: then the non-zero
    eigenvalues of K are those of the small Gram matrix F^T F.
    """

    block_of: Callable[[Index, Index], Matrix]  # (I, J) -> K_IJ (|I|, |J|)
    diagonal: Matrix  # (n,)
    name: str = "similarity"
    factor: Callable[[Index], Matrix] | None = None
    rank: int = 0
    ridge: float = 0.0
    is_psd: bool = True

    @property
    def size(self) -> int:
        """The number of items n."""
        return len(self.diagonal)

    @property
    def rank_bound(self) -> int:
        """The rank cannot exceed this: n, or the number of features when there is no ridge."""
        return self.size if self.factor is None or self.ridge > 0 else min(self.size, self.rank)

    def block(self, rows: Index, columns: Index) -> Matrix:
        """K + ridge I at the given rows and columns (integer arrays or slices)."""
        values = self.block_of(rows, columns)
        if self.ridge == 0:
            return values
        every = np.arange(self.size)
        return values + self.ridge * (every[rows][:, None] == every[columns][None, :])

    def rows(self, index: Index) -> Matrix:
        """Whole rows of the kernel: (|index|, n)."""
        return self.block(index, slice(None))

    def blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """All rows in turn, a block at a time, as (slice, rows)."""
        for part in parts(self.size, self.size):
            yield part, self.rows(part)

    def matrix(self, *, max_bytes: int = MAX_BYTES) -> Matrix:
        """The whole n x n array. Raises UserError when it would take more than `max_bytes`."""
        need = 8 * self.size**2
        if need > max_bytes:
            raise UserError(
                f"kernel {self.name}",
                f"a {self.size} x {self.size} array needs {need / 2**30:.1f} GiB, above the limit of "
                f"{max_bytes / 2**30:.1f} GiB",
                "Take a sample of the items, a kernel with a factor (cosine, label), or raise max_bytes.",
            )
        return self.rows(slice(None))

    def gram_dual(self, weights: ArrayLike | None = None) -> Matrix:
        """F^T diag(weights) F, (rank, rank), added up by block; weights default to 1. Leaves the ridge out.

        Raises ValueError for a kernel without a factor.
        """
        if self.factor is None:
            raise ValueError(f"kernel {self.name} has no factor, so it has no dual")
        scale = None if weights is None else np.sqrt(np.asarray(weights, dtype=float))
        gram = np.zeros((self.rank, self.rank))
        for part in parts(self.size, self.rank):
            rows = self.factor(part)
            rows = rows if scale is None else rows * scale[part, None]
            gram += rows.T @ rows
        return gram


def dense_kernel(similarity: ArrayLike, *, name: str = "similarity", is_psd: bool = False) -> Kernel:
    """A view of a given matrix (n, n). Whether it is positive semi-definite is not checked here but declared.

    Raises UserError for an array that is not square, has NaN or is not symmetric.

    >>> dense_kernel([[1.0, 0.5], [0.5, 1.0]]).rows([1]).tolist()
    [[0.5, 1.0]]
    """
    matrix = to_numpy(similarity)
    if matrix.size == 0:
        matrix = np.empty((0, 0))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise UserError("similarity", f"has the shape {matrix.shape}, not (n, n)", "Give k(x_i, x_j) for all pairs.")
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        raise UserError(f"similarity[{int(np.argmax(bad))}]", "is not finite", "Drop that item, or compare it again.")
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-8):
        raise UserError("similarity", "is not symmetric", "Average it with its transpose, if that is what is meant.")

    def block_of(rows: Index, columns: Index) -> Matrix:
        return matrix[rows][:, columns]

    return Kernel(block_of, matrix.diagonal().copy(), name, is_psd=is_psd)


def parts(n: int, width: int) -> Iterator[slice]:
    """Slices that make up range(n), each of so few rows that a block of `width` columns stays small.

    >>> [one.stop for one in parts(2000, 3)], next(parts(10**6, 10**6))
    ([1024, 2000], slice(0, 16, None))
    """
    step = max(16, min(BLOCK, CELLS // max(1, width)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def to_numpy(values: Any) -> Matrix:
    """A float64 numpy array of a list, a numpy array or a tensor of any device."""
    return np.asarray(detached(values), dtype=np.float64)


def detached(values: Any) -> Any:
    """A tensor as one that numpy can read (on the CPU, without gradient, of 32 bits at least); others as they are."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor


def per_item(values: Any, n: int, name: str) -> Matrix:
    """One finite number per item, as float64. Raises UserError for another number of them, or NaN."""
    array = to_numpy(values)
    if array.shape != (n,):
        raise UserError(name, f"have the shape {array.shape} for {n} items", "Give one number per item.")
    if not np.isfinite(array).all():
        raise UserError(f"{name}[{int(np.argmin(np.isfinite(array)))}]", "is not finite", "Give one number per item.")
    return array
