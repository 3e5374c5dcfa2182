"""Measures of a set against a reference set: what of the reference it reaches, and how far it stays away."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.vector import given_rows, median_distance, pair_of_rows, squared_distances
from polypath.diversity.kernels.view import Matrix, parts
from polypath.diversity.measures.traits import INVARIANT, MORE

NAMES = ("embeddings", "reference")


@register("measure", "coverage_knn", paper="arXiv:2002.09797", traits={INVARIANT, MORE})
def coverage_knn(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 5) -> float:
    """Share of reference points that have an item inside the ball to their `k`-th nearest reference neighbour.

    Euclidean distances. Compare sets of equal size. NaN for no items or for fewer than k + 1 reference points.
    """
    centres, points, defined = _balls(reference, embeddings, k, NAMES[::-1])
    if not defined:
        return math.nan
    return sum(int(inside.any(axis=1).sum()) for inside in _inside(centres, points, k)) / len(centres)


@register("measure", "density_knn", paper="arXiv:2002.09797", traits={INVARIANT})
def density_knn(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 5) -> float:
    """Mean number of reference balls (as in `coverage_knn`) that hold an item, divided by `k`.

    Above 1 in dense regions. High for items in typical places: fidelity, not diversity. NaN as in `coverage_knn`.
    """
    centres, points, defined = _balls(reference, embeddings, k, NAMES[::-1])
    if not defined:
        return math.nan
    return sum(int(inside.sum()) for inside in _inside(centres, points, k)) / (k * len(points))


@register("measure", "recall_knn", paper="arXiv:1904.06991", traits={INVARIANT})
def recall_knn(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 5) -> float:
    """Share of reference points inside the ball of some item, to that item's `k`-th nearest other item.

    One outlier with a large ball can cover much. NaN for no reference points or for fewer than k + 1 items.
    """
    centres, points, defined = _balls(embeddings, reference, k, NAMES)
    if not defined:
        return math.nan
    reached = np.zeros(len(points), dtype=bool)
    for inside in _inside(centres, points, k):
        reached |= inside.any(axis=0)
    return float(reached.mean())


@register("measure", "mmd", paper="Gretton et al. 2012", traits={INVARIANT})
def mmd(embeddings: ArrayLike, reference: ArrayLike, *, bandwidth: float | None = None) -> float:
    """Unbiased squared maximum mean discrepancy with an RBF kernel; may be slightly negative. NaN for n or m < 2.

    k = exp(-d^2 / (2 bandwidth^2)), by default with the median distance within the reference, among at most 1000 evenly
    spaced points. Raises UserError for a bandwidth of 0.
    """
    rows, known = pair_of_rows(embeddings, reference)
    if min(len(rows), len(known)) < 2:
        return math.nan
    width = median_distance(known) if bandwidth is None else float(bandwidth)
    if not width > 0:
        raise UserError("measure mmd", f"the bandwidth is {width:g}", "Give a positive bandwidth.")
    return _two_sample(rows, known, lambda squares: np.exp(squares / (-2 * width**2)))


@register("measure", "energy_distance", paper="Szekely and Rizzo 2013", traits={INVARIANT})
def energy_distance(embeddings: ArrayLike, reference: ArrayLike) -> float:
    """2 E|x - y| - E|x - x'| - E|y - y'| over Euclidean distances, unbiased (no self pairs). NaN for n or m < 2."""
    rows, known = pair_of_rows(embeddings, reference)
    if min(len(rows), len(known)) < 2:
        return math.nan
    return _two_sample(rows, known, lambda squares: -np.sqrt(squares))


@register("measure", "frechet_distance", paper="arXiv:1706.08500 [2.46]", traits={INVARIANT})
def frechet_distance(embeddings: ArrayLike, reference: ArrayLike) -> float:
    """Squared Frechet distance of Gaussians fitted to both sets (FID, of any embeddings): 0 for equal moments.

    |mean - mean'|^2 + tr(C + C' - 2 (C C')^1/2). Biased upwards for small sets: compare at equal n, above the number of
    dimensions. NaN for fewer than two of either.
    """
    rows, known = (one.astype(np.float64) for one in pair_of_rows(embeddings, reference))
    if min(len(rows), len(known)) < 2:
        return math.nan
    first, second = (np.atleast_2d(np.cov(one, rowvar=False)) for one in (rows, known))
    values, vectors = np.linalg.eigh(first)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    mixed = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ second @ root), 0.0)).sum()
    shift = ((rows.mean(axis=0) - known.mean(axis=0)) ** 2).sum()
    return float(shift + np.trace(first) + np.trace(second) - 2 * mixed)


def _two_sample(rows: NDArray[Any], known: NDArray[Any], kernel: Callable[[Matrix], Matrix]) -> float:
    """E k(x, x') + E k(y, y') - 2 E k(x, y) without self pairs, k a function of squared distances."""

    def total(a: NDArray[Any], b: NDArray[Any]) -> float:
        return sum(float(kernel(squared_distances(a[part], b)).sum()) for part in parts(len(a), len(b)))

    n, m = len(rows), len(known)
    itself = float(kernel(np.zeros(1))[0])
    within = (total(rows, rows) - n * itself) / (n * (n - 1)) + (total(known, known) - m * itself) / (m * (m - 1))
    return within - 2 * total(rows, known) / (n * m)


def _balls(
    centres: ArrayLike, points: ArrayLike, k: int, names: tuple[str, str]
) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Centres and points, and whether balls to the k-th nearest other centre are defined and there are points."""
    a, b = given_rows(centres, names[0], zeros=True), given_rows(points, names[1], zeros=True)
    if k < 1:
        raise UserError("k", f"is {k}", "Give at least one neighbour.")
    return a, b, len(a) > k and len(b) > 0


def ball_members(centres: ArrayLike, points: ArrayLike, k: int) -> Iterator[NDArray[np.bool_]] | None:
    """By blocks of reference centres, which items lie in their balls, (block, n); None where that is undefined."""
    a, b, defined = _balls(centres, points, k, NAMES[::-1])
    return _inside(a, b, k) if defined else None


def _inside(centres: NDArray[Any], points: NDArray[Any], k: int) -> Iterator[NDArray[np.bool_]]:
    """By blocks of centres, bool (block, points): inside the ball of a centre to its k-th nearest other centre."""
    for part in parts(len(centres), max(len(centres), len(points))):
        radius = np.partition(squared_distances(centres[part], centres), k, axis=1)[:, k]  # place 0 is itself
        yield squared_distances(centres[part], points) <= radius[:, None]
