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

ACTIVE, WAITING, BLOCK = 384, 256, 4096  # least rows of the block, picks before all are updated, rows of one product
SPREAD = 15.0  # of weight * quality: its squared exponential stays in the range of single precision
TRAITS = {"prefix", "warm_start", "gains_fall"}
TIE = {"float32": 1e-6, "float64": 1e-12}  # relative differences that are rounding
MOST, SHARE = 4096, 128  # of many items, one in SHARE is in the block, up to MOST: what they save is in fewer products

Rows = NDArray[np.floating]
Where = NDArray[np.int64] | slice


class State(Protocol):
    """Scores of all items and how a pick changes them. `value` may only fall; it follows from `memory`."""

    rows: Rows
    memory: NDArray[np.floating]
    value: NDArray[np.floating]

    def pick(self, j: int) -> NDArray[np.floating]:
        """Choose item j: returns the vector (d,) that tells the others of it."""
        ...

    def update(self, where: Where, products: NDArray[np.floating]) -> None:
        """Lower the values there by the products (items, b) of their rows with b such vectors."""
        ...

    def gain(self, j: int) -> float:
        """What picking j gains now."""
        ...


def lazy_greedy(state: State, k: int, chosen: Sequence[int]) -> Selection:
    """`k` picks in all, the given ones first. Values that differ by rounding are ties; they go to the lowest index."""
    n = len(state.rows)
    free = np.ones(n, dtype=bool)
    found = Selection([], [])
    for j in chosen:
        _take(state, int(j), free, found)
        _update_all(state, [state.pick(int(j))], np.zeros(0, dtype=np.int64))
    while len(found) < k:
        active, bound = _best(state.value, np.flatnonzero(free))
        block = state.rows[active]
        waiting: list[NDArray[np.floating]] = []
        while len(found) < k and len(waiting) < WAITING:
            values = np.where(free[active], state.value[active], -np.inf)
            place, level = first_best(values)
            if waiting and not level > bound:
                break
            j = int(active[place])
            _take(state, j, free, found)
            vector = state.pick(j)
            state.update(active, (block @ vector)[:, None])
            waiting.append(vector)
        if len(found) < k:
            _update_all(state, waiting, active)
    return found


def first_best(values: NDArray[np.floating]) -> tuple[int, float]:
    """The first place whose value is the largest up to rounding, and the least value that counts as equal to it."""
    top = float(values.max())
    level = top - TIE[values.dtype.name] * abs(top)
    return int(np.argmax(values >= level)), level


def _take(state: State, j: int, free: NDArray[np.bool_], found: Selection) -> None:
    found.gains.append(state.gain(j))
    found.indices.append(j)
    free[j] = False


def _update_all(state: State, vectors: Sequence[NDArray[np.floating]], done: NDArray[np.int64]) -> None:
    """Bring all items up to date but those that are `done`: all rows where they lie, then the done ones put back."""
    kept = state.memory[done], state.value[done]
    stacked = np.stack(vectors, axis=1)
    for first in range(0, len(state.rows), BLOCK):
        where = slice(first, first + BLOCK)
        state.update(where, state.rows[where] @ stacked)
    state.memory[done], state.value[done] = kept


def _best(value: NDArray[np.floating], candidates: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """The candidates of largest value in rising order, the first of the best among them, and the best of the rest."""
    size = max(ACTIVE, min(len(value) // SHARE, MOST))
    if len(candidates) <= size:
        return candidates, -math.inf
    values = value[candidates]
    order = np.argpartition(-values, size)
    bound = float(values[order[size]])
    above = candidates[values > bound]
    equal = candidates[values == bound][: max(size - len(above), 1)]
    return np.unique(np.concatenate([above, equal, candidates[[first_best(values)[0]]]])), bound


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
        self.memory = squares / rows.dtype.type(ridge)
        self.value: Rows = self.scale * (1 + self.memory)

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

    def update(self, where: Where, products: NDArray[np.floating]) -> None:
        """Take the squared products from the variances."""
        self.memory[where] -= np.einsum("ij,ij->i", products, products)
        self.value[where] = self.scale[where] * (1 + np.maximum(self.memory[where], 0))

    def gain(self, j: int) -> float:
        """The log-determinant's increment."""
        value = float(self.value[j])
        return math.log(value) if value > 0 else -math.inf


class Nearest:
    """Scores a_i - b * (largest cosine to the chosen), times w_i: k-center, weighted k-center and MMR."""

    def __init__(self, rows: Rows, offset: NDArray[np.float64], slope: NDArray[np.float64], start: float) -> None:
        self.rows = rows
        self.offset, self.slope = offset.astype(rows.dtype), slope.astype(rows.dtype)
        self.memory = np.full(len(rows), start, dtype=rows.dtype)
        self.value: Rows = self.offset - self.slope * self.memory

    def pick(self, j: int) -> NDArray[np.floating]:
        """The row of j."""
        return self.rows[j]

    def update(self, where: Where, products: NDArray[np.floating]) -> None:
        """Raise the largest cosines."""
        self.memory[where] = np.maximum(self.memory[where], products.max(axis=1))
        self.value[where] = self.offset[where] - self.slope[where] * self.memory[where]

    def gain(self, j: int) -> float:
        """The score."""
        return float(self.value[j])


@register("selector", "dpp", paper="arXiv:1709.05135 [2.116]", traits=TRAITS)
def dpp(
    embeddings: ArrayLike,
    quality: ArrayLike | None = None,
    *,
    k: int,
    weight: float = 1.0,
    ridge: float = 0.1,
    chosen: Sequence[int] = (),
) -> Selection:
    """Greedy MAP of a determinantal process: the subset of largest log det of diag(q)(K + ridge I)diag(q), cosine K.

    Any score may be the quality: it enters as q = exp(weight * quality), so that it adds 2 * weight * quality to a
    gain. Gains are the increments of the log-determinant. Cost O(n d) a pick whatever was picked before. A linear
    kernel has rank d, and picks beyond it are decided by the ridge alone. Raises UserError for a ridge of 0 or less and
    for qualities so far apart that their exponentials leave the range of numbers.

    >>> E = [(1, 0), (0.98, 0.199), (0.6, 0.8), (0, 1), (-0.6, 0.8)]
    >>> dpp(E, k=3).indices, [round(gain, 4) for gain in dpp(E, k=3).gains]
    ([0, 3, 2], [0.0953, 0.0953, -1.656])
    """
    rows = float_rows(embeddings)
    k = check_k(k, len(rows), "dpp")
    if not ridge > 0:
        fix = "Use a ridge above 0: without one at most d picks mean anything."
        raise UserError("dpp.ridge", f"{ridge:g} is not above 0", fix)
    q, shift = exp_quality(quality, len(rows), weight, "dpp")
    found = lazy_greedy(Dpp(rows, q, ridge, unit=True), k, check_chosen(chosen, len(rows), "dpp")[:k])
    return Selection(found.indices, [gain + shift for gain in found.gains])


def exp_quality(quality: ArrayLike | None, n: int, weight: float, selector: str) -> tuple[NDArray[np.float64], float]:
    """exp(weight * quality) divided by its largest, and the log of what its square was divided by.

    Raises UserError where the least of them would be rounded to 0.
    """
    log = weight * float_column(quality, n, "quality", default=0.0)
    top = float(log.max(initial=-math.inf)) if n else 0.0
    if n and top - float(log.min()) > SPREAD:
        what = f"weight * quality spans {top - float(log.min()):.3g}, and its exponential more than numbers hold"
        raise UserError(
            f"{selector}.weight",
            what,
            f"Lower the weight to {SPREAD / (top - float(log.min())) * abs(weight):.2g} or less, or scale the quality.",
        )
    return np.exp(log - top), 2 * top


@register("selector", "k_center", paper="Gonzalez 1985; D3 (1.117)", traits=TRAITS)
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


@register("selector", "mmr", paper="doi:10.1145/290941.291025", traits={"prefix", "warm_start"})
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
    given = check_chosen(chosen, len(rows), "mmr")[:k]
    state = Nearest(rows, relevance, np.full(len(rows), 1 - trade_off), start=-1.0)
    if given:
        return lazy_greedy(state, k, given)
    first = int(np.argmax(relevance))  # nothing is near anything yet: the best quality comes first
    found = lazy_greedy(state, k, [first])
    return Selection(found.indices, [float(relevance[first]), *found.gains[1:]])
