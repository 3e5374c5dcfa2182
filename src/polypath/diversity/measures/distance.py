"""Measures of distances between items: means, nearest neighbours, trees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.vector import cosine_kernel, given_rows, pair_of_rows, squared_distances, unit_rows
from polypath.diversity.kernels.view import dense_kernel, parts, per_item
from polypath.diversity.measures.traits import INVARIANT, LESS, MORE


@register("measure", "pairwise_cosine", traits={INVARIANT, MORE})
def pairwise_cosine(embeddings: ArrayLike) -> float:
    """Mean cosine distance over the n(n-1) pairs of different items (remote clique), in [0, 2]. NaN for fewer than two.

    Shapes: `embeddings` (n, d). Only the sum of the unit rows is needed: O(n d). Raises UserError for a zero row.

    >>> round(pairwise_cosine([[1, 0], [0.8, 0.6], [0, 1]]), 6)
    0.533333
    """
    rows = given_rows(embeddings)
    n = len(rows)
    return 1.0 - (float((_sum_of_units(rows) ** 2).sum()) - n) / (n * (n - 1)) if n > 1 else math.nan


@register("measure", "order_parameter", paper="[0.118]", traits={INVARIANT, LESS})
def order_parameter(embeddings: ArrayLike) -> float:
    """Length of the mean of the unit rows, in [0, 1]: 1 when all point one way. NaN for no items.

    >>> round(order_parameter([[1, 0], [0.8, 0.6], [0, 1]]), 6)
    0.802773
    """
    rows = given_rows(embeddings)
    return float(np.linalg.norm(_sum_of_units(rows) / len(rows))) if len(rows) else math.nan


@register("measure", "internal_diversity", paper="arXiv:1811.12823", traits={INVARIANT, MORE})
def internal_diversity(similarity: ArrayLike, *, power: float = 1.0, self_pairs: bool = False) -> float:
    """1 - (mean similarity^power)^(1/power) over pairs of different items. NaN for fewer than two.

    `self_pairs=True` also averages the n pairs of an item with itself, as MOSES does for molecules: that lowers the
    value of small sets. Similarities must be >= 0 unless `power` is 1.

    >>> round(internal_diversity([[1, 0.5], [0.5, 1]]), 6), internal_diversity([[1, 0.5], [0.5, 1]], self_pairs=True)
    (0.5, 0.25)
    """
    kernel = dense_kernel(similarity)
    n = kernel.size
    if n < 2:
        return math.nan
    powers = kernel.matrix() ** power
    total = float(powers.sum()) - (0.0 if self_pairs else float(powers.trace()))
    return 1.0 - (total / (n * n if self_pairs else n * (n - 1))) ** (1 / power)


@register("measure", "energy", traits={INVARIANT, LESS})
def energy(embeddings: ArrayLike, *, s: float = 1.0) -> float:
    """Riesz s-energy of the unit rows: mean of 1 / d^s over pairs, d their Euclidean distance; s = 0 mean of -log d.

    Dominated by the closest pairs: inf when two items coincide. NaN for fewer than two. Raises UserError for zero rows.

    >>> round(energy([[1, 0], [0, 1], [-1, 0]]), 6)  # (2 / sqrt 2 + 1/2) / 3
    0.638071
    """
    unit = unit_rows(embeddings)
    n, total = len(unit), 0.0
    if n < 2:
        return math.nan
    for part in parts(n, n):
        distances = np.sqrt(squared_distances(unit[part], unit))
        with np.errstate(divide="ignore"):
            terms = -np.log(distances) if s == 0 else distances**-s
        terms[np.arange(len(terms)), np.arange(n)[part]] = 0.0
        total += float(terms.sum())
    return total / (n * (n - 1))


@register("measure", "chamfer", traits={INVARIANT, MORE})
def chamfer(embeddings: ArrayLike) -> float:
    """Mean cosine distance to the nearest other item: 0 when every item has a copy. NaN for fewer than two.

    >>> round(chamfer([[1, 0], [0.8, 0.6], [0, 1]]), 6)
    0.266667
    """
    kernel, total = cosine_kernel(embeddings), 0.0
    if kernel.size < 2:
        return math.nan
    for part, similarity in kernel.blocks():
        similarity[np.arange(len(similarity)), np.arange(kernel.size)[part]] = -np.inf
        total += float(np.maximum(1.0 - similarity.max(axis=1), 0.0).sum())
    return total / kernel.size


@register("measure", "knn_novelty", paper="Novelty search [1.34]", traits={INVARIANT, MORE})
def knn_novelty(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 15) -> float:
    """Mean Euclidean distance to the k nearest of reference (an archive) and the other items; see `novelties`."""
    found = novelties(embeddings, reference, k=k)
    return float(found.mean()) if len(found) else math.nan


def novelties(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 15) -> NDArray[np.float64]:
    """Per item, the mean Euclidean distance to its `k` nearest among reference and the other items: (n, d) -> (n,).

    With fewer than `k` of them, to all; NaN when there is none.

    >>> novelties([[0.0], [1.0]], [[5.0]], k=1).tolist()
    [1.0, 1.0]
    """
    rows, archive = pair_of_rows(embeddings, reference)
    pool = np.concatenate([rows, archive]) if len(rows) and len(archive) else rows
    found, count = np.full(len(rows), np.nan), min(k, len(pool) - 1)
    if count < 1:
        return found
    for part in parts(len(rows), len(pool)):
        distance = np.sqrt(squared_distances(rows[part], pool))
        distance[np.arange(len(distance)), np.arange(len(rows))[part]] = np.inf
        found[part] = np.partition(distance, count - 1, axis=1)[:, :count].mean(axis=1)
    return found


@register("measure", "mst_span", paper="Value diversity [0.15]", traits={INVARIANT, MORE})
def mst_span(embeddings: ArrayLike) -> float:
    """Mean edge of the minimum spanning tree over cosine distances. NaN for fewer than two.

    >>> round(mst_span([[1, 0], [0.8, 0.6], [0, 1]]), 6)  # (0.2 + 0.4) / 2
    0.3
    """
    kernel = cosine_kernel(embeddings)
    return span(np.maximum(1.0 - kernel.matrix(), 0.0)) if kernel.size > 1 else math.nan


def span(distances: ArrayLike) -> float:
    """Mean edge of the minimum spanning tree of a full distance matrix (n, n), by Prim's algorithm in O(n^2).

    Distances of 0 are edges like any other. Infinite ones are no edges: inf for a graph that they cut. NaN below two.
    """
    matrix = np.asarray(distances, dtype=float)
    n = len(matrix)
    if n < 2:
        return math.nan
    nearest, outside, total = matrix[0].copy(), np.arange(1, n), 0.0
    while outside.size:
        at = int(np.argmin(nearest[outside]))
        item = outside[at]
        total += float(nearest[item])
        outside = np.delete(outside, at)
        nearest = np.minimum(nearest, matrix[item])
    return total / (n - 1)


@register("measure", "novel_sum", paper="arXiv:2502.17184 [0.69]", traits={INVARIANT, MORE})
def novel_sum(
    embeddings: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.5,
    k: int = 10,
    with_self: bool = True,
    density: ArrayLike | None = None,
) -> float:
    """NovelSum: mean distance to the others, weighted towards the near ones and by the density around the item.

    Item i: its cosine distances d_ij in rising order have weights rank^-alpha (normalised), and sigma_i scales their
    mean. sigma_i is `density_factor` with the set itself as the reference, or `density` (n,) as given; beta = 0 leaves
    it out. `with_self` counts the distance 0 to itself as the nearest, as in the paper's numbers. NaN for n < 2.

    >>> round(novel_sum([[1, 0], [0.8, 0.6], [0, 1]], density=[1, 2, 1]), 6)
    0.260606
    """
    rows = given_rows(embeddings)
    if density is not None:
        sigma = per_item(density, len(rows), "density")
    else:
        sigma = density_factor(rows, rows, beta=beta, k=k)
    return _weighted_novelty(rows, sigma, alpha, with_self)


@register("measure", "novel_sum_against", paper="arXiv:2502.17184 [0.69]", traits={INVARIANT, MORE})
def novel_sum_against(
    embeddings: ArrayLike,
    reference: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.5,
    k: int = 10,
    with_self: bool = True,
) -> float:
    """`novel_sum` with densities measured in a reference set, the pool that the items were selected from."""
    rows, pool = pair_of_rows(embeddings, reference, zeros=False)
    return _weighted_novelty(rows, density_factor(rows, pool, beta=beta, k=k), alpha, with_self)


def _weighted_novelty(rows: NDArray[Any], sigma: NDArray[np.float64], alpha: float, with_self: bool) -> float:
    n, skip = len(rows), 0 if with_self else 1
    if n < 2:
        return math.nan
    weights = (np.arange(1.0, n + 1 - skip) ** -alpha).astype(rows.dtype)
    unit = unit_rows(rows).astype(rows.dtype)  # in the precision given, because sorting is most of the work
    total = 0.0
    for part in parts(n, n):
        distance = unit[part] @ unit.T
        np.subtract(1.0, distance, out=distance)
        np.maximum(distance, 0.0, out=distance)
        distance[np.arange(len(distance)), np.arange(n)[part]] = 0.0 if with_self else -np.inf
        distance.sort(axis=1)
        total += float(sigma[part] @ (distance[:, skip:] @ weights))
    return total / (n * float(weights.sum()))


def density_factor(
    rows: NDArray[Any], reference: NDArray[Any], *, beta: float = 0.5, k: int = 10
) -> NDArray[np.float64]:
    """(mean squared Euclidean distance to the `k` nearest reference points + 1e-9)^-beta: (n,).

    Large where it is dense. Lengths count. Copies within the reference, and of the item in it, are no neighbours.
    """
    if beta == 0 or len(rows) == 0:
        return np.ones(len(rows))
    if len(reference) == 0:
        raise UserError("reference", "is empty", "Give reference items, or set beta=0.")
    pool = np.unique(reference, axis=0)
    found = np.empty(len(rows))
    for part in parts(len(rows), len(pool)):
        squares = squared_distances(rows[part], pool)
        squares[squares == 0] = np.inf
        nearest = np.partition(squares, min(k, len(pool)) - 1, axis=1)[:, : min(k, len(pool))]
        real = np.isfinite(nearest)
        found[part] = np.where(real, nearest, 0.0).sum(axis=1) / np.maximum(1, real.sum(axis=1))
    return (found + 1e-9) ** -beta


def _sum_of_units(rows: NDArray[Any]) -> NDArray[np.float64]:
    total = np.zeros(rows.shape[1])
    for part in parts(*rows.shape):
        block = rows[part].astype(np.float64)
        total += (1.0 / np.sqrt(np.einsum("ij,ij->i", block, block))) @ block
    return total
