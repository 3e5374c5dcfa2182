"""Kernels of feature vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.view import Index, Kernel, Matrix, detached, parts

MEDIAN_ROWS = 1000  # of how many rows the median distance is taken


def check_rows(embeddings: Any, name: str = "embeddings") -> Matrix:
    """Rows (n, d) as float64; an empty list has none. Raises UserError for another shape, and for a row that is not
    finite, naming the row.
    """
    return given_rows(embeddings, name, zeros=True).astype(np.float64, copy=False)


def unit_rows(embeddings: Any, name: str = "embeddings") -> Matrix:
    """Rows scaled to norm 1. Raises UserError as `check_rows`, and for a row of zeros, which has no direction."""
    return _scaled(given_rows(embeddings, name))


def given_rows(embeddings: Any, name: str = "embeddings", *, zeros: bool = False) -> NDArray[Any]:
    """The rows in their own precision, checked as in `check_rows` or, without `zeros`, as in `unit_rows`."""
    rows = np.asarray(detached(embeddings))
    if rows.size == 0:
        return np.empty((rows.shape[0] if rows.ndim == 2 else 0, rows.shape[1] if rows.ndim == 2 else 0))
    if rows.ndim != 2:
        raise UserError(name, f"have the shape {rows.shape}, not (n, d)", "Give one row of numbers per item.")
    if rows.dtype.kind != "f" or rows.dtype.itemsize < 4:
        rows = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    if not np.isfinite(squares).all() or (squares == 0).any():  # or so it seems in single precision
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    if not np.isfinite(squares).all():
        bad = int(np.argmin(np.isfinite(squares)))
        raise UserError(f"{name}[{bad}]", "is not finite", "Drop that item, or embed it again.")
    if not zeros and (squares == 0).any():
        raise UserError(f"{name}[{int(np.argmin(squares))}]", "is zero and has no direction", "Drop that item.")
    return rows


def pair_of_rows(embeddings: Any, reference: Any, *, zeros: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
    """`given_rows` of both. Raises UserError when their widths differ; an empty set fits any width."""
    a, b = given_rows(embeddings, zeros=zeros), given_rows(reference, "reference", zeros=zeros)
    if len(a) and len(b) and a.shape[1] != b.shape[1]:
        raise UserError("reference", f"has {b.shape[1]} dimensions, embeddings have {a.shape[1]}", "Embed both alike.")
    return a, b


def _scaled(rows: NDArray[Any]) -> Matrix:
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@register("kernel", "linear", returns="similarity")
def linear_kernel(embeddings: Any, *, ridge: float = 0.0) -> Kernel:
    """Inner products x . y, plus `ridge` on the diagonal; rows keep their length."""
    rows = given_rows(embeddings, zeros=True)

    def factor(index: Index) -> Matrix:
        return rows[index].astype(np.float64)

    diagonal = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return Kernel(_products(factor), diagonal, "linear", factor, rows.shape[1], ridge)


@register("kernel", "cosine", returns="similarity")
def cosine_kernel(embeddings: Any, *, ridge: float = 0.0) -> Kernel:
    """Cosine similarity, plus `ridge` on the diagonal. Raises UserError for a row of zeros or NaN.

    >>> cosine_kernel([[1.0, 0.0], [3.0, 4.0]], ridge=0.1).rows([0]).round(3).tolist()
    [[1.1, 0.6]]
    """
    rows = given_rows(embeddings)

    def factor(index: Index) -> Matrix:
        return _scaled(rows[index])

    return Kernel(_products(factor), np.ones(len(rows)), "cosine", factor, rows.shape[1], ridge)


@register("kernel", "rbf", returns="similarity")
def rbf_kernel(embeddings: Any, *, bandwidth: float | None = None) -> Kernel:
    """Gaussian exp(-d^2 / (2 bandwidth^2)) of the Euclidean distance; of full rank for different rows.

    By default the bandwidth is the median distance among at most 1000 evenly spaced rows, or 1 when that is 0.
    """
    rows = given_rows(embeddings, zeros=True)
    width = float(bandwidth) if bandwidth is not None else (median_distance(rows) if len(rows) > 1 else 1.0) or 1.0
    if not width > 0:
        raise UserError("kernel rbf", f"the bandwidth is {width:g}", "Give a positive number.")

    def block_of(i: Index, j: Index) -> Matrix:
        return np.exp(squared_distances(rows[i], rows[j]) / (-2 * width**2))

    return Kernel(block_of, np.ones(len(rows)), "rbf")


@register("kernel", "inverse_distance", returns="similarity")
def inverse_distance_kernel(embeddings: Any) -> Kernel:
    """1 / (1 + Euclidean distance).

    >>> inverse_distance_kernel([[0.0, 0.0], [3.0, 4.0]]).rows([0]).round(4).tolist()
    [[1.0, 0.1667]]
    """
    rows = given_rows(embeddings, zeros=True)

    def block_of(i: Index, j: Index) -> Matrix:
        return 1 / (1 + np.sqrt(squared_distances(rows[i], rows[j])))

    return Kernel(block_of, np.ones(len(rows)), "inverse_distance")


def squared_distances(rows: NDArray[Any], others: NDArray[Any] | None = None) -> Matrix:
    """Squared Euclidean distances (n, m), of the rows among themselves unless `others` are given.

    Those below rounding are exactly 0, among them all of equal rows.
    """
    a = rows.astype(np.float64, copy=False)
    b = a if others is None else others.astype(np.float64, copy=False)
    square_a, square_b = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    out = np.empty((len(a), len(b)))
    for part in parts(len(a), len(b)):
        squares = np.matmul(a[part], b.T, out=out[part])
        squares *= -2.0
        squares += square_a[part, None]
        squares += square_b
        rounding = 8 * np.finfo(float).eps * (square_a[part] + square_b.max(initial=0.0))
        squares[squares <= rounding[:, None]] = 0.0
    return out


def _products(factor: Any) -> Any:
    def block_of(i: Index, j: Index) -> Matrix:
        return factor(i) @ factor(j).T

    return block_of


def median_distance(rows: NDArray[Any]) -> float:
    """Median Euclidean distance over pairs among at most 1000 evenly spaced rows; NaN for fewer than two."""
    some = rows[:: max(1, -(-len(rows) // MEDIAN_ROWS))]
    if len(some) < 2:
        return float("nan")
    return float(np.median(np.sqrt(squared_distances(some)[np.triu_indices(len(some), 1)])))
