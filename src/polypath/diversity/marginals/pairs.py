"""Marginals of measures of distances: means over pairs, nearest neighbours, ranks.

Functions take what the measure of the same name takes and return D(all) - D(all but i), (n,), in the measure's sign;
NaN where the measure is undefined with or without the item. Those of matrices take any leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.diversity.features import route, tokens
from polypath.diversity.kernels.structural import as_strings, lcs_kernel, rouge_l_block, rpd_kernel
from polypath.diversity.kernels.vector import cosine_kernel, given_rows, pair_of_rows, squared_distances, unit_rows
from polypath.diversity.kernels.view import dense_kernel
from polypath.diversity.measures.agents import rating_distances
from polypath.diversity.measures.distance import density_factor

Matrix = NDArray[np.float64]


def of_pairs(values: Matrix) -> Matrix:
    """Marginal of the mean over pairs of different items: (..., G, G), whatever the diagonal -> (..., G).

    NaN for G < 3. Infinite pairs make the mean infinite, with the item or without it.

    >>> of_pairs(np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0.0]])).tolist()  # 2 against 3, 2 and 1
    [-1.0, 0.0, 1.0]
    """
    size = values.shape[-1]
    off = np.where(np.eye(size, dtype=bool), 0.0, values)
    if size < 3:
        return np.full(values.shape[:-1], np.nan)
    infinite = np.isinf(off)
    total, rest = _with_and_without(np.where(infinite, 0.0, off))
    copies, left = _with_and_without(infinite.astype(float))
    whole = np.where(copies > 0, np.inf, total / (size * (size - 1)))
    without = np.where(left > 0, np.inf, rest / ((size - 1) * (size - 2)))
    with np.errstate(invalid="ignore"):
        return whole - without


def _with_and_without(off: Matrix) -> tuple[Matrix, Matrix]:
    """The sum of a symmetric matrix without its diagonal, (..., 1), and that without each item, (..., G)."""
    rows = off.sum(axis=-1)
    total = rows.sum(axis=-1, keepdims=True)
    return total, total - 2 * rows


def without_each(values: Matrix, without: Matrix) -> Matrix:
    """Mean of per-item values, minus that over the others, [i, j] being that of i without j; NaN for one item."""
    size = len(values)
    if size < 2:
        return np.full(size, np.nan)
    others = np.where(np.eye(size, dtype=bool), 0.0, without)
    return np.asarray(values.mean() - others.sum(axis=0) / (size - 1))


def loo_internal_diversity(similarity: ArrayLike, *, power: float = 1.0, self_pairs: bool = False) -> Matrix:
    """Of `internal_diversity`, by taking a row and a column off the sum."""
    powers = dense_kernel(similarity).matrix() ** power
    n, own = len(powers), powers.diagonal()
    if n < 3:
        return np.full(n, np.nan)
    rows = powers.sum(axis=1) if self_pairs else powers.sum(axis=1) - own
    total = rows.sum()
    rest = total - 2 * rows + (own if self_pairs else 0.0)
    pairs = (n * n, (n - 1) ** 2) if self_pairs else (n * (n - 1), (n - 1) * (n - 2))
    return (rest / pairs[1]) ** (1 / power) - (total / pairs[0]) ** (1 / power)


def loo_order_parameter(embeddings: ArrayLike) -> Matrix:
    """Of `order_parameter`: the length of the sum of the unit rows without one."""
    rows = unit_rows(embeddings)
    n, total = len(rows), rows.sum(axis=0)
    if n < 2:
        return np.full(n, np.nan)
    return np.asarray(np.linalg.norm(total) / n - np.linalg.norm(total - rows, axis=1) / (n - 1))


def loo_energy(embeddings: ArrayLike, *, s: float = 1.0) -> Matrix:
    """Of `energy`, a mean over pairs."""
    rows = unit_rows(embeddings)
    with np.errstate(divide="ignore"):
        distances = np.sqrt(squared_distances(rows, rows))
        return of_pairs(-np.log(distances) if s == 0 else distances**-s)


def loo_chamfer(embeddings: ArrayLike) -> Matrix:
    """Of `chamfer`: whose nearest item it was falls back to the second nearest."""
    n = len(given_rows(embeddings))
    if n < 3:
        return np.full(n, np.nan)
    distance = np.maximum(1.0 - cosine_kernel(embeddings).matrix(), 0.0)
    np.fill_diagonal(distance, np.inf)
    order = np.argsort(distance, axis=1)[:, :2]
    first, second = np.take_along_axis(distance, order, axis=1).T
    lost = np.bincount(order[:, 0], weights=second - first, minlength=n)
    return np.asarray(first.mean() - (first.sum() - first + lost) / (n - 1))


def loo_knn_novelty(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 15) -> Matrix:
    """Of `knn_novelty`: among the k nearest of another item, the next takes its place."""
    rows, archive = pair_of_rows(embeddings, reference)
    pool = np.concatenate([rows, archive]) if len(rows) and len(archive) else rows
    n, before, after = len(rows), min(k, len(pool) - 1), min(k, len(pool) - 2)
    if n < 2 or after < 1:
        return np.full(n, np.nan)
    distance = np.sqrt(squared_distances(rows, pool))
    distance[np.arange(n), np.arange(n)] = np.inf
    order = np.argsort(distance, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(distance, order[:, : after + 1], axis=1), axis=1)
    near = np.argsort(order, axis=1)[:, :n] < after  # [i, j]: j among the nearest of i
    without = np.where(near, sums[:, after, None] - np.where(near, distance[:, :n], 0.0), sums[:, after - 1, None])
    return without_each(sums[:, before - 1] / before, without / after)


def loo_novel_sum_against(
    embeddings: ArrayLike,
    reference: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.5,
    k: int = 10,
    with_self: bool = True,
) -> Matrix:
    """Of `novel_sum_against`: in every other row what is farther moves up a rank."""
    rows, pool = pair_of_rows(embeddings, reference, zeros=False)
    return _loo_novelty(rows, density_factor(rows, pool, beta=beta, k=k), alpha, with_self)


def loo_novel_sum(embeddings: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0, with_self: bool = True) -> Matrix:
    """Of `novel_sum` without densities (beta = 0), which would depend on the item as well."""
    rows = given_rows(embeddings)
    return _loo_novelty(rows, np.ones(len(rows)), alpha, with_self)


def _loo_novelty(rows: Matrix, sigma: Matrix, alpha: float, with_self: bool) -> Matrix:
    n, skip = len(rows), 0 if with_self else 1
    if n < 3:
        return np.full(n, np.nan)
    distance = np.maximum(1.0 - cosine_kernel(rows).matrix(), 0.0)
    np.fill_diagonal(distance, 0.0 if with_self else -np.inf)
    order = np.argsort(distance, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1) - skip
    ordered = np.take_along_axis(distance, order, axis=1)[:, skip:]
    weights = np.arange(1.0, n + 1 - skip) ** -alpha
    same = np.cumsum(ordered * weights, axis=1)
    moved = np.cumsum(ordered * np.concatenate([[0.0], weights[:-1]]), axis=1)  # everything one rank up
    at = np.maximum(ranks, 0)
    nearer = np.take_along_axis(np.pad(same, ((0, 0), (1, 0))), at, axis=1)  # the sum over ranks before the item's
    farther = moved[:, -1:] - np.take_along_axis(moved, at, axis=1)
    without = sigma[:, None] * (nearer + farther) / weights[:-1].sum()
    return without_each(sigma * same[:, -1] / weights.sum(), without)


def loo_reasoning_path_divergence(steps: Sequence[ArrayLike], *, reduce: Literal["max", "mean"] = "max") -> Matrix:
    """Of `reasoning_path_divergence`, from the sums of each row."""
    n = len(steps)
    if n < 3:
        return np.full(n, np.nan)
    distance = 1.0 - rpd_kernel(steps).matrix()
    if reduce == "mean":
        return of_pairs(distance)
    sums = distance.sum(axis=1)
    without = np.where(np.eye(n, dtype=bool), -np.inf, (sums[:, None] - distance) / (n - 2))
    return np.asarray(sums.max() / (n - 1) - without.max(axis=0))


def loo_route_diversity(texts: Sequence[str]) -> Matrix:
    """Of `route_diversity`, a mean over pairs."""
    return of_pairs(1.0 - lcs_kernel([route(text) for text in texts]).matrix()) if len(texts) else np.empty(0)


def loo_rouge_l(texts: Sequence[str]) -> Matrix:
    """Of `rouge_l`, a mean over pairs: over all of them, whatever their number."""
    strings = as_strings([tokens(text) for text in texts])
    return of_pairs(np.asarray(rouge_l_block(strings, strings), dtype=float).reshape(len(texts), len(texts)))


def loo_diversity_coefficient(gradients: ArrayLike) -> Matrix:
    """Of `diversity_coefficient`, a mean over pairs; NaN for fewer than four batches."""
    rows = unit_rows(gradients, "gradients")
    return of_pairs(1.0 - rows @ rows.T) if len(rows) > 3 else np.full(len(rows), np.nan)


def loo_cross_diversity(gradients: ArrayLike, reference: ArrayLike) -> Matrix:
    """Of `cross_diversity`: the mean of the rows without one."""
    a, b = unit_rows(gradients, "gradients"), unit_rows(reference, "reference")
    n = len(a)
    if n < 4 or len(b) < 3:
        return np.full(n, np.nan)
    near = a @ b.mean(axis=0)
    return np.asarray((near.sum() - near) / (n - 1) - near.mean())


def loo_value_diversity(ratings: ArrayLike, *, options: Sequence[int]) -> Matrix:
    """Of `value_diversity` with declared options, the mean over the pairs that share a question."""
    distance = rating_distances(ratings, options)
    n = len(distance)
    shared = np.isfinite(distance) & ~np.eye(n, dtype=bool)
    total, rest = _with_and_without(np.where(shared, distance, 0.0))
    count, left = _with_and_without(shared.astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / count - rest / left)
