"""Blocked lazy greedy: exact greedy selection for scores that only fall as the selection grows.

The best items are an active block that stays in the processor's cache. Only it is updated pick by pick; the best score
outside it is a bound that no item there can pass. When the block's best falls to the bound, or enough picks wait, all
items are brought up to date by one matrix product, and a new block is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.selectors.common import Selection, check_chosen, check_k, float_column, float_rows

ACTIVE, WAITING, BLOCK = 384, 96, 4096  # rows of the block, picks before all are updated, rows of one product

Rows = NDArray[np.floating]


class State(Protocol):
    """Scores of all items and how a pick changes them. `value` may only fall."""

    rows: Rows
    value: NDArray[np.floating]

    def pick(self, j: int) -> NDArray[np.floating]:
        """Choose item j: returns the vector (d,) that tells the others of it."""
        ...

    def update(self, index: NDArray[np.int64], products: NDArray[np.floating]) -> None:
        """Lower the values of `index` by products (len(index), b) of their rows with b such vectors."""
        ...

    def gain(self, j: int) -> float:
        """What picking j gains now."""
        ...


def lazy_greedy(state: State, k: int, chosen: Sequence[int]) -> Selection:
    """`k` picks in all, the given ones first. Ties go to the lowest index."""
    n = len(state.rows)
    free = np.ones(n, dtype=bool)
    picks: list[int] = []
    gains: list[float] = []
    for j in chosen:
        _take(state, int(j), free, picks, gains)
        _update_all(state, [state.pick(int(j))], free)
    while len(picks) < k:
        candidates = np.flatnonzero(free)
        active, bound = _best(state.value, candidates)
        block = state.rows[active]
        waiting: list[NDArray[np.floating]] = []
        fresh = True
        while len(picks) < k and len(waiting) < WAITING:
            values = np.where(free[active], state.value[active], -np.inf)
            place = int(np.argmax(values))
            if not fresh and not values[place] > bound:
                break
            j = int(active[place])
            _take(state, j, free, picks, gains)
            vector = state.pick(j)
            state.update(active, (block @ vector)[:, None])
            waiting.append(vector)
            fresh = False
        stale = free.copy()
        stale[active] = False
        _update_all(state, waiting, stale)
    return Selection(picks, gains)


def _take(state: State, j: int, free: NDArray[np.bool_], picks: list[int], gains: list[float]) -> None:
    gains.append(state.gain(j))
    picks.append(j)
    free[j] = False


def _update_all(state: State, vectors: Sequence[NDArray[np.floating]], stale: NDArray[np.bool_]) -> None:
    """Bring the stale items up to date; rows are multiplied where they lie, since picking them out would copy all."""
    if not vectors:
        return
    stacked = np.stack(vectors, axis=1)
    for first in range(0, len(stale), BLOCK):
        inside = np.flatnonzero(stale[first : first + BLOCK])
        if len(inside):
            products = state.rows[first : first + BLOCK] @ stacked
            state.update(first + inside, products[inside])


def _best(value: NDArray[np.floating], candidates: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """The candidates of largest value (lowest index first among equals), in rising order, and the best of the rest."""
    if len(candidates) <= ACTIVE:
        return candidates, -math.inf
    values = value[candidates]
    order = np.argpartition(-values, ACTIVE)
    bound = float(values[order[ACTIVE]])
    above = candidates[values > bound]
    equal = candidates[values == bound][: max(ACTIVE - len(above), 1)]
    return np.sort(np.concatenate([above, equal])), bound


class Dpp:
    """Conditional variances of L = diag(q)(E E^T + ridge I)diag(q), in d dimensions.

    s_i = e_i^T M e_i with M = (ridge I + E_S^T E_S)^-1; picking j lowers s_i by (e_i^T u)^2, u = M e_j / sqrt(1 + s_j).
    """

    def __init__(self, rows: Rows, quality: NDArray[np.float64], ridge: float, *, unit: bool) -> None:
        self.rows, self.ridge = rows, ridge
        self.scale = (quality**2 * ridge).astype(rows.dtype)
        self.matrix = np.eye(rows.shape[1], dtype=rows.dtype) / rows.dtype.type(ridge)
        self.recent = np.empty((WAITING, rows.shape[1]), rows.dtype)  # directions not yet taken out of the matrix
        self.count = 0
        # A unit row's own similarity is 1, whatever rounding makes of it: equal qualities are a tie, not a lottery.
        squares = np.ones(len(rows), rows.dtype) if unit else np.einsum("ij,ij->i", rows, rows)
        self.variance = squares / rows.dtype.type(ridge)
        self.value: Rows = self.scale * (1 + self.variance)

    def pick(self, j: int) -> NDArray[np.floating]:
        """The direction u that j takes out of the others."""
        if self.count == len(self.recent):
            self.matrix -= self.recent.T @ self.recent
            self.count = 0
        row, recent = self.rows[j], self.recent[: self.count]
        vector = self.matrix @ row - (recent @ row) @ recent
        vector /= math.sqrt(1 + max(float(row @ vector), 0.0))
        self.recent[self.count] = vector
        self.count += 1
        return vector

    def update(self, index: NDArray[np.int64], products: NDArray[np.floating]) -> None:
        """Take the squared products from the variances."""
        self.variance[index] -= np.einsum("ij,ij->i", products, products)
        self.value[index] = self.scale[index] * (1 + np.maximum(self.variance[index], 0))

    def gain(self, j: int) -> float:
        """The log-determinant's increment."""
        value = float(self.value[j])
        return math.log(value) if value > 0 else -math.inf


class Nearest:
    """Scores a_i - b * (largest cosine to the chosen), times w_i: k-center, weighted k-center and MMR."""

    def __init__(self, rows: Rows, offset: NDArray[np.float64], slope: NDArray[np.float64], start: float) -> None:
        self.rows = rows
        self.offset, self.slope = offset.astype(rows.dtype), slope.astype(rows.dtype)
        self.nearest = np.full(len(rows), start, dtype=rows.dtype)
        self.value: Rows = self.offset - self.slope * self.nearest

    def pick(self, j: int) -> NDArray[np.floating]:
        """The row of j."""
        return self.rows[j]

    def update(self, index: NDArray[np.int64], products: NDArray[np.floating]) -> None:
        """Raise the largest cosines."""
        self.nearest[index] = np.maximum(self.nearest[index], products.max(axis=1))
        self.value[index] = self.offset[index] - self.slope[index] * self.nearest[index]

    def gain(self, j: int) -> float:
        """The score."""
        return float(self.value[j])


@register("selector", "dpp", paper="arXiv:1709.05135 [2.116]")
def dpp(
    embeddings: ArrayLike, quality: ArrayLike | None = None, *, k: int, ridge: float = 0.1, chosen: Sequence[int] = ()
) -> Selection:
    """Greedy MAP of a determinantal process: the subset of largest log det of diag(q)(K + ridge I)diag(q), cosine K.

    Gains are the increments of the log-determinant. Cost O(n d) a pick whatever was picked before. A linear kernel has
    rank d, and picks beyond it are decided by the ridge alone. Raises UserError for a ridge of 0 or less and for a
    quality that is not above 0.

    >>> E = [(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)]
    >>> dpp(E, k=3).indices, [round(gain, 4) for gain in dpp(E, k=3).gains]
    ([0, 3, 2], [0.0953, 0.0953, -1.656])
    """
    rows = float_rows(embeddings)
    k = check_k(k, len(rows), "dpp")
    if not ridge > 0:
        fix = "Use a ridge above 0: without one at most d picks mean anything."
        raise UserError("dpp.ridge", f"{ridge:g} is not above 0", fix)
    q = float_column(quality, len(rows), "quality")
    if (q <= 0).any():
        raise UserError(f"quality[{int(np.argmin(q))}]", f"{q.min():g} is not above 0", "Use exp of a score.")
    return lazy_greedy(Dpp(rows, q, ridge, unit=True), k, check_chosen(chosen, len(rows), "dpp"))


@register("selector", "k_center", paper="Gonzalez 1985")
def k_center(
    embeddings: ArrayLike,
    quality: ArrayLike | None = None,
    *,
    k: int,
    first: int = 0,
    chosen: Sequence[int] = (),
) -> Selection:
    """Farthest first: next the item whose cosine distance to the nearest chosen one, times its quality, is largest.

    The first pick is `first` unless some are `chosen`; its gain is infinite. With a quality that is D3's weighted
    coreset (1.117).

    >>> k_center([(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)], k=3).indices
    [0, 4, 2]
    """
    rows = float_rows(embeddings)
    k = check_k(k, len(rows), "k_center")
    q = float_column(quality, len(rows), "quality")
    given = check_chosen(chosen or [first], len(rows), "k_center")
    found = lazy_greedy(Nearest(rows, q, q, start=-1.0), k, given[:k])
    gains = [math.inf if place == 0 else gain for place, gain in enumerate(found.gains)]
    return Selection(found.indices, gains)


@register("selector", "mmr", paper="doi:10.1145/290941.291025")
def mmr(
    embeddings: ArrayLike, quality: ArrayLike, *, k: int, trade_off: float = 0.5, chosen: Sequence[int] = ()
) -> Selection:
    """Maximal marginal relevance: next the largest trade_off * quality - (1 - trade_off) * largest cosine to a chosen.

    >>> E = [(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)]
    >>> [mmr(E, [0.9, 0.95, 0.5, 0.7, 0.6], k=3, trade_off=t).indices for t in (0.7, 0.3)]
    [[1, 4, 0], [1, 4, 3]]
    """
    rows = float_rows(embeddings)
    k = check_k(k, len(rows), "mmr")
    if not 0 <= trade_off <= 1:
        raise UserError(
            "mmr.trade_off", f"{trade_off:g} is not in [0, 1]", "1 is quality alone, 0 is difference alone."
        )
    relevance = trade_off * float_column(quality, len(rows), "quality")
    given = check_chosen(chosen, len(rows), "mmr")
    state = Nearest(rows, relevance, np.full(len(rows), 1 - trade_off), start=-1.0)
    if given:
        return lazy_greedy(state, k, given)
    first = int(np.argmax(relevance))  # nothing is near anything yet: the best quality comes first
    found = lazy_greedy(state, k, [first])
    return Selection(found.indices, [float(relevance[first]), *found.gains[1:]])
