"""Selectors by coverage and by sums: facility location, graph cut, dispersion, sets of features, portfolios."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels import check_rows
from polypath.diversity.selectors.common import Selection, check_chosen, check_k, float_column, float_rows

Gain = Callable[[int], float]
BATCH = 64
TIE = 1e-7  # gains whose relative difference is less are equal but for rounding: the lowest index comes first
LARGE = 2_000_000  # similarities above which compiling pays


def celf(
    n: int, k: int, gain: Gain, take: Callable[[int], None], start: NDArray[np.float64] | None = None
) -> Selection:
    """Greedy for a submodular objective: an item's old gain bounds its new one, so most are never computed again.

    Ties go to the lowest index. `start` holds the gains at the beginning. Source: Leskovec et al. 2007 (CELF).
    """
    first = start if start is not None else [gain(i) for i in range(n)]
    heap = [(-float(value), i, 0) for i, value in enumerate(first)]
    heapq.heapify(heap)
    picks: list[int] = []
    gains: list[float] = []
    while heap and len(picks) < k:
        value, i, when = heapq.heappop(heap)
        if when == len(picks):
            take(i)
            picks.append(i)
            gains.append(-value)
        else:
            heapq.heappush(heap, (-gain(i), i, len(picks)))
    return Selection(picks, gains)


def batched_celf(
    start: NDArray[np.float64], k: int, gains_of: Callable[[NDArray[np.int64]], NDArray[np.float64]], take: Gain
) -> Selection:
    """`celf` over batches: the items of largest bound are brought up to date together until none can be better.

    Gains that differ by rounding are ties.
    """
    bound = start.astype(np.float64)
    fresh = np.zeros(len(bound), dtype=bool)
    found = Selection([], [])
    while len(found) < k:
        best = float(bound[fresh].max(initial=-np.inf))
        level = best - TIE * abs(best) if best > -np.inf else best
        stale = np.flatnonzero(~fresh & (bound >= level) & (bound > -np.inf))
        if len(stale):
            if len(stale) > BATCH:
                stale = stale[np.argpartition(-bound[stale], BATCH)[:BATCH]]
            bound[stale] = gains_of(stale)
            fresh[stale] = True
            continue
        pick = int(np.argmax(fresh & (bound >= level)))
        found.indices.append(pick)
        found.gains.append(float(bound[pick]))
        take(pick)
        bound[pick] = -np.inf
        fresh[:] = False
    return found


@cache
def compile_gains() -> Callable[..., NDArray[np.float64]] | None:
    """sum_j max(kernel[i, j] - best[j], 0) for every index i in one pass over memory; None without numba."""
    try:
        import numba
    except ImportError:
        return None

    def gains(kernel: Any, best: Any, index: Any) -> Any:
        out = np.zeros(len(index))
        for place in range(len(index)):
            i, total = index[place], 0.0
            for j in range(len(best)):
                above = kernel[i, j] - best[j]
                total += above if above > 0 else 0.0
            out[place] = total
        return out

    compiled: Callable[..., NDArray[np.float64]] = numba.njit(gains, fastmath={"reassoc", "nsz"})
    return compiled


@register(
    "selector", "facility_location", paper="Facility location (0.13)", traits={"prefix", "warm_start", "gains_fall"}
)
def facility_location(similarity: ArrayLike, *, k: int, chosen: Sequence[int] = ()) -> Selection:
    """Every target is represented by its most similar pick: greedy for sum_j max over picks s of max(0, K_sj).

    Rows (n, m) are what can be picked, columns what is to be represented: the items themselves for a square K.

    >>> E = np.array([(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)])
    >>> found = facility_location(E @ E.T, k=2)
    >>> found.indices, [round(gain, 4) for gain in found.gains]
    ([2, 3], [3.4272, 0.72])
    """
    given = np.asarray(similarity)
    kernel = given if given.dtype == np.float32 else check_rows(similarity, "similarity")
    n, m = kernel.shape
    k = check_k(k, n, "facility_location")
    best = np.zeros(m, dtype=kernel.dtype)
    compiled = compile_gains() if m * n >= LARGE else None

    def gains_of(index: NDArray[np.int64]) -> NDArray[np.float64]:
        if compiled is not None:
            return np.asarray(compiled(kernel, best, index), dtype=np.float64)
        above = kernel[index]
        np.subtract(above, best, out=above)
        np.maximum(above, 0, out=above)
        return np.asarray(above.sum(axis=1, dtype=np.float64))

    def take(i: int) -> float:
        np.maximum(best, kernel[i], out=best)
        return 0.0

    warm = Selection([], [])
    for i in check_chosen(chosen, n, "facility_location")[:k]:
        warm.gains.append(float(gains_of(np.array([i]))[0]))
        warm.indices.append(i)
        take(i)
    start = np.concatenate([gains_of(np.arange(at, min(at + BATCH, n))) for at in range(0, n, BATCH)])
    start[warm.indices] = -np.inf
    found = batched_celf(start, k - len(warm), gains_of, take)
    return Selection(warm.indices + found.indices, warm.gains + found.gains)


@register("selector", "graph_cut", paper="Graph cut (0.83)", traits={"prefix", "gains_fall"})
def graph_cut(similarity: ArrayLike, *, k: int, penalty: float = 0.5) -> Selection:
    """Similar to all and not to each other: greedy for sum_is K+_is - penalty * sum over pairs of picks K+_ss'.

    >>> E = np.array([(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)])
    >>> graph_cut(E @ E.T, k=3, penalty=0.4).indices
    [2, 1, 3]
    """
    kernel = np.maximum(check_rows(similarity, "similarity"), 0)
    k = check_k(k, len(kernel), "graph_cut")
    value = kernel.sum(axis=0) - penalty * np.diag(kernel)
    found = Selection([], [])
    for _ in range(k):
        pick = int(np.argmax(value))
        found.indices.append(pick)
        found.gains.append(float(value[pick]))
        value = value - 2 * penalty * kernel[pick]
        value[found.indices] = -np.inf
    return found


@register("selector", "max_sum", paper="Max-sum dispersion", traits={"prefix"})
def max_sum(embeddings: ArrayLike, quality: ArrayLike | None = None, *, k: int, weight: float = 0.0) -> Selection:
    """Greedy for the sum of cosine distances between picks, plus `weight` times their quality.

    The first pick has the largest sum of distances to all items.
    """
    rows = float_rows(embeddings)
    n = len(rows)
    k = check_k(k, n, "max_sum")
    bonus = weight * float_column(quality, n, "quality", default=0.0)
    total = n - rows @ rows.sum(axis=0) + bonus
    found = Selection([], [])
    value = bonus.copy()
    for place in range(k):
        scores = total if place == 0 else value
        scores = scores.astype(np.float64)
        scores[found.indices] = -np.inf
        pick = int(np.argmax(scores))
        found.gains.append(float(value[pick]))
        found.indices.append(pick)
        value = value + (1 - rows @ rows[pick])
    return found


@register("selector", "features", paper="Feature coverage (2.83)", traits={"prefix", "gains_fall"})
def features(
    sets: Sequence[AbstractSet[Hashable]],
    *,
    k: int,
    cost: ArrayLike | None = None,
    per_feature: Literal["once", "sqrt"] = "once",
) -> Selection:
    """Greedy coverage of features: each counts once, or by the square root of how many picks have it.

    With a `cost` the gain per cost decides. Gains are of the objective, without the cost.

    >>> features([{1, 2}, {2, 3, 4}, {5}], k=2).indices
    [1, 0]
    """
    n = len(sets)
    k = check_k(k, n, "features")
    price = float_column(cost, n, "cost")
    if (price <= 0).any():
        raise UserError(f"cost[{int(np.argmin(price))}]", "is not above 0", "Give every item a positive cost.")
    counts: dict[Hashable, int] = {}
    step = {"once": lambda c: float(c == 0), "sqrt": lambda c: math.sqrt(c + 1) - math.sqrt(c)}[per_feature]

    def gain(i: int) -> float:
        return sum(step(counts.get(name, 0)) for name in sets[i]) / price[i]

    def take(i: int) -> None:
        for name in sets[i]:
            counts[name] = counts.get(name, 0) + 1

    found = celf(n, k, gain, take)
    return Selection(found.indices, [gain * price[i] for i, gain in zip(found.indices, found.gains, strict=True)])


@register("selector", "portfolio", paper="FlowBank (0.13)", traits={"prefix", "gains_fall"})
def portfolio(success: ArrayLike, *, k: int, cost: ArrayLike | None = None, price: float = 0.0) -> Selection:
    """Few candidates that together solve most: greedy for sum over queries of the best success, minus price * cost.

    `success` is (candidates, queries). Stops early when no candidate gains anything.

    >>> portfolio([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], k=3).indices
    [0, 2]
    """
    table = check_rows(success, "success")
    n = len(table)
    k = check_k(k, n, "portfolio")
    charge = price * float_column(cost, n, "cost")
    best = np.zeros(table.shape[1])

    def take(i: int) -> None:
        np.maximum(best, table[i], out=best)

    found = celf(n, k, lambda i: float(np.maximum(table[i] - best, 0).sum() - charge[i]), take)
    useful = [place for place, gain in enumerate(found.gains) if gain > 0]
    return Selection([found.indices[p] for p in useful], [found.gains[p] for p in useful])


@register("selector", "novel", paper="NovelSelect (0.69)", traits={"prefix"})
def novel(
    embeddings: ArrayLike, density: ArrayLike | None = None, *, k: int, alpha: float = 1.0, first: int = 0
) -> Selection:
    """NovelSelect: next the item of largest mean over the picks of rank^-alpha * distance * (its + their density).

    Ranks are by distance to the item, the nearest first. O(n k^2 log k).
    """
    rows = float_rows(embeddings).astype(np.float64)
    n = len(rows)
    k = check_k(k, n, "novel")
    sigma = float_column(density, n, "density")
    found = Selection([first], [math.inf])
    distance = np.maximum(1 - rows @ rows[first], 0)[:, None]
    while len(found) < k:
        order = np.argsort(distance, axis=1, kind="stable")
        near = np.take_along_axis(distance, order, axis=1)
        both = sigma[:, None] + sigma[np.asarray(found.indices)][order]
        weights = np.arange(1, near.shape[1] + 1, dtype=float) ** -alpha
        value = (near * both * weights).mean(axis=1)
        value[found.indices] = -np.inf
        pick = int(np.argmax(value))
        found.indices.append(pick)
        found.gains.append(float(value[pick]))
        distance = np.concatenate([distance, np.maximum(1 - rows @ rows[pick], 0)[:, None]], axis=1)
    return found
