"""Set measures from distances between embeddings (n, d), by default 1 - cosine.

Every function raises UserError naming a row that is not finite or zero. Undefined values, such as the distance to
others in a set of one, are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.diversity.kernels import check_rows, squared_distances, unit_rows
from polypath.diversity.measures import INVARIANT, LESS, MORE

BLOCK = 1024  # rows of a distance matrix that are held at once


@register("measure", "pairwise_cosine", traits={INVARIANT, MORE})
def pairwise_cosine(embeddings: ArrayLike) -> float:
    """Mean cosine distance over the n(n-1) pairs of different items, in [0, 2] (internal diversity). NaN for n < 2.

    Only the sum of the unit rows is needed: O(n d).

    >>> round(pairwise_cosine([[1, 0], [0.8, 0.6], [0, 1]]), 6)
    0.533333
    """
    rows = unit_rows(embeddings)
    n = len(rows)
    return 1.0 - (float((rows.sum(axis=0) ** 2).sum()) - n) / (n * (n - 1)) if n > 1 else math.nan


@register("measure", "diversity_coefficient", paper="arXiv:2306.13840 [1.97]", traits={INVARIANT, MORE})
def diversity_coefficient(gradients: ArrayLike) -> float:
    """Mean cosine distance between batch embeddings (Task2Vec): one row per batch of texts, the Fisher diagonal.

    NaN for fewer than three batches, for which the paper calls it meaningless.
    """
    rows = check_rows(gradients, "gradients")
    return pairwise_cosine(rows) if len(rows) >= 3 else math.nan


@register("measure", "chamfer", traits={INVARIANT, MORE})
def chamfer(embeddings: ArrayLike) -> float:
    """Mean cosine distance to the nearest other item: 0 when every item has a copy. NaN for n < 2.

    >>> round(chamfer([[1, 0], [0.8, 0.6], [0, 1]]), 6)
    0.266667
    """
    rows = unit_rows(embeddings)
    if len(rows) < 2:
        return math.nan
    return float(np.mean(np.concatenate([distance.min(axis=1) for _, distance in distance_blocks(rows)])))


def distance_blocks(rows: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """(first row, cosine distances of a block of rows to all rows), the distance to itself being infinite."""
    for first in range(0, len(rows), BLOCK):
        distance = np.maximum(1.0 - rows[first : first + BLOCK] @ rows.T, 0.0)
        own = np.arange(first, min(first + BLOCK, len(rows)))
        distance[own - first, own] = np.inf
        yield first, distance


@register("measure", "order_parameter", paper="Ideation diversity (0.118)", traits={INVARIANT, LESS})
def order_parameter(embeddings: ArrayLike) -> float:
    """Length of the mean unit row, in [0, 1]: 1 when all point the same way, 0 when they cancel. NaN for none.

    >>> round(order_parameter([[1, 0], [0.8, 0.6], [0, 1]]), 6)
    0.802773
    """
    rows = unit_rows(embeddings)
    return float(np.linalg.norm(rows.mean(axis=0))) if len(rows) else math.nan


@register("measure", "mst_span", paper="Value diversity (0.15)", traits={INVARIANT, MORE})
def mst_span(embeddings: ArrayLike) -> float:
    """Mean edge of the minimum spanning tree over cosine distances. NaN for n < 2."""
    rows = unit_rows(embeddings)
    return span(np.maximum(1.0 - rows @ rows.T, 0.0)) if len(rows) > 1 else math.nan


def span(distance: NDArray[np.float64]) -> float:
    """Mean edge of the minimum spanning tree of a distance matrix (n, n), by Prim's algorithm; copies are at 0."""
    n = len(distance)
    best = np.array(distance[0], dtype=float)
    inside = np.zeros(n, dtype=bool)
    inside[0] = True
    total = 0.0
    for _ in range(n - 1):
        nearest = int(np.argmin(np.where(inside, np.inf, best)))
        total += float(best[nearest])
        inside[nearest] = True
        best = np.minimum(best, distance[nearest])
    return total / (n - 1)


@register("measure", "knn_novelty", paper="Novelty search (1.34)", traits={INVARIANT, MORE})
def knn_novelty(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 15) -> float:
    """Mean Euclidean distance to the k nearest of reference and the other items; with fewer than k, to all of them."""
    rows, known = check_rows(embeddings), check_rows(reference, "reference")
    everything = np.concatenate([rows, known]) if len(known) else rows
    if len(rows) == 0 or len(everything) < 2:
        return math.nan
    distance = np.sqrt(squared_distances(rows, everything))
    distance[np.arange(len(rows)), np.arange(len(rows))] = np.inf
    count = min(k, len(everything) - 1)
    return float(np.partition(distance, count - 1, axis=1)[:, :count].mean())


@register("measure", "coverage_knn", paper="arXiv:2002.09797", traits={INVARIANT, MORE})
def coverage_knn(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 5) -> float:
    """Share of reference items with an item inside their ball to the k-th nearest other reference item.

    NaN for no items, or k or fewer reference items. Compare sets of equal size.
    """
    rows, known = check_rows(embeddings), check_rows(reference, "reference")
    if len(rows) == 0 or len(known) <= k:
        return math.nan
    radius = np.sort(squared_distances(known), axis=1)[:, k]
    return float((squared_distances(known, rows).min(axis=1) <= radius).mean())


@register("measure", "mmd", paper="Gretton et al. 2012", traits={INVARIANT})
def mmd(embeddings: ArrayLike, reference: ArrayLike, *, bandwidth: float | None = None) -> float:
    """Unbiased squared maximum mean discrepancy with an RBF kernel; may be slightly negative. NaN for n or m < 2.

    `bandwidth` is the median distance in the reference unless given.
    """
    rows, known = check_rows(embeddings), check_rows(reference, "reference")
    n, m = len(rows), len(known)
    if n < 2 or m < 2:
        return math.nan
    within = squared_distances(known)
    if bandwidth is None:
        middle = float(np.median(within[np.triu_indices(m, 1)]))
        bandwidth = math.sqrt(middle) if middle > 0 else 1.0
    x, y, xy = (
        np.exp(-s / (2 * bandwidth**2)) for s in (squared_distances(rows), within, squared_distances(rows, known))
    )
    return float((x.sum() - n) / (n * (n - 1)) + (y.sum() - m) / (m * (m - 1)) - 2 * xy.mean())


@register("measure", "energy_distance", paper="Szekely and Rizzo 2013", traits={INVARIANT})
def energy_distance(embeddings: ArrayLike, reference: ArrayLike) -> float:
    """2 E|x - y| - E|x - x'| - E|y - y'| over Euclidean distances, unbiased (no self pairs). NaN for n or m < 2."""
    rows, known = check_rows(embeddings), check_rows(reference, "reference")
    n, m = len(rows), len(known)
    if n < 2 or m < 2:
        return math.nan
    x, y, xy = (np.sqrt(s) for s in (squared_distances(rows), squared_distances(known), squared_distances(rows, known)))
    return float(2 * xy.mean() - x.sum() / (n * (n - 1)) - y.sum() / (m * (m - 1)))


@register("measure", "novel_sum", paper="NovelSum (0.69)", traits={INVARIANT, MORE})
def novel_sum(
    embeddings: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.5,
    k: int = 10,
    with_self: bool = True,
    density: Sequence[float] | None = None,
) -> float:
    """Mean over items of the proximity-weighted, density-scaled distance to all items. NaN for an empty set.

    Item i: the distances sigma_i d_ij in rising order have weights rank^-alpha (normalised); sigma_i is the mean
    squared Euclidean distance to its k nearest others to the power -beta, or `density` as given. `with_self` counts
    the distance 0 to itself as the nearest, as in the paper's numbers.

    >>> round(novel_sum([[1, 0], [0.8, 0.6], [0, 1]], density=[1, 2, 1]), 6)
    0.260606
    """
    rows = unit_rows(embeddings)
    n = len(rows)
    if n == 0 or (n == 1 and not with_self):
        return math.nan
    weights = (
        np.arange(1, n + with_self, dtype=float) ** -alpha if with_self else np.arange(1, n, dtype=float) ** -alpha
    )
    weights = weights[:n] / weights[:n].sum()
    total = 0.0
    for first, distance in distance_blocks(rows):
        near = np.sort(distance, axis=1)[:, : n - 1]
        if density is not None:
            sigma = np.asarray(density, dtype=float)[first : first + len(near)]
        elif beta and n > 1:
            sigma = (2 * near[:, : min(k, n - 1)].mean(axis=1) + 1e-9) ** -beta  # |x - y|^2 = 2 (1 - cos)
        else:
            sigma = np.ones(len(near))
        if with_self:
            near = np.concatenate([np.zeros((len(near), 1)), near], axis=1)
        total += float((sigma * (near @ weights)).sum())
    return total / n


@register("measure", "creative_utility", paper="Set-level ideation (2.74)", traits={MORE})
def creative_utility(embeddings: ArrayLike, rewards: Sequence[float]) -> float:
    """sum over items, in order, of reward times the least cosine distance to the earlier ones (1 for the first).

    A copy of an earlier item is worth nothing. NaN for an empty set.

    >>> round(creative_utility([[1, 0], [0, 1], [1, 0]], [0.9, 0.5, 0.8]), 6)
    1.4
    """
    rows = unit_rows(embeddings)
    if len(rows) == 0:
        return math.nan
    distance = np.maximum(1.0 - rows @ rows.T, 0.0)
    novelty = [1.0, *(float(distance[i, :i].min()) for i in range(1, len(rows)))]
    return float(np.dot(novelty, np.asarray(rewards, dtype=float)))


@register("measure", "yield_size", paper="IDEAgent Yield (0.72)", traits={INVARIANT, MORE})
def yield_size(
    embeddings: ArrayLike, rewards: Sequence[float], *, quality: float = 0.5, similarity: float = 0.8
) -> float:
    """Size of the largest subset of reward >= `quality` whose pairs all have a cosine below `similarity`.

    Exact, by the largest clique (up to 60 items of that quality). 0 when none is good enough; NaN for an empty set.
    Raises UserError for more items, and for a missing networkx.
    """
    rows = unit_rows(embeddings)
    if len(rows) == 0:
        return math.nan
    good = np.asarray(rewards, dtype=float) >= quality
    kernel = (rows @ rows.T)[np.ix_(good, good)]
    return float(len(largest_compatible(kernel, similarity)))


def largest_compatible(kernel: NDArray[np.float64], similarity: float) -> list[int]:
    """A largest set of items whose pairs are all below `similarity`: indices in order, the first such set."""
    n = len(kernel)
    if n > 60:
        raise UserError("yield_size", f"{n} good items are too many for an exact answer", "Group by prompt, or sample.")
    try:
        import networkx
    except ImportError:
        raise missing_extra("measure yield_size", "networkx", "measure") from None
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((i, j) for i in range(n) for j in range(i) if kernel[i, j] < similarity)
    cliques = [sorted(clique) for clique in networkx.find_cliques(graph)]
    return min((clique for clique in cliques), key=lambda clique: (-len(clique), clique), default=[])
