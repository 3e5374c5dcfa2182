"""Selectors over any similarity: farthest first, largest mean distance, and greedy Vendi scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels import check_rows
from polypath.diversity.marginals import gain_vendi
from polypath.diversity.selectors.common import Selection, check_chosen, check_k, float_column, float_rows

TIE = 1e-9  # differences that are rounding
BLOCK = 2048  # candidates whose gains are computed at once


def square(similarity: ArrayLike, name: str = "similarity") -> NDArray[np.float64]:
    """A square, finite similarity. Raises UserError for another shape."""
    kernel = check_rows(similarity, name)
    if kernel.shape[0] != kernel.shape[1]:
        raise UserError(name, f"has the shape {kernel.shape}", "Give one row and one column per item.")
    return kernel


def first_largest(values: NDArray[np.float64]) -> int:
    """The first place of the largest value, rounding aside."""
    return int(np.argmax(values >= values.max() - TIE))


@register("selector", "farthest", paper="Route diversity (2.6)", traits={"prefix", "warm_start", "gains_fall"})
def farthest(
    similarity: ArrayLike, quality: ArrayLike | None = None, *, k: int, chosen: Sequence[int] = ()
) -> Selection:
    """Farthest first over any similarity (1 - distance): next the item whose nearest pick is most distant.

    It begins with the best quality (the first item without one); ties in distance go to the better, then the earlier.
    The first gain is infinite. `k_center` does the same for cosines without an n x n array.

    >>> farthest([[1, 0.75, 0], [0.75, 1, 0.5], [0, 0.5, 1]], k=3).indices
    [0, 2, 1]
    """
    kernel = square(similarity)
    n = len(kernel)
    k = check_k(k, n, "farthest")
    score = float_column(quality, n, "quality", default=0.0)
    given = check_chosen(chosen, n, "farthest")[:k] or [first_largest(score)]
    found = Selection([], [])
    near = np.full(n, -math.inf)
    while len(found) < k:
        gap = 1 - near
        if len(found) < len(given):
            pick = given[len(found)]
        else:
            gap[found.indices] = -math.inf
            tied = np.flatnonzero(gap >= gap.max() - TIE)
            pick = int(tied[first_largest(score[tied])])
        found.indices.append(pick)
        found.gains.append(float(1 - near[pick]))
        near = np.maximum(near, kernel[pick])
    return found


@register("selector", "mean_farthest", paper="RPD, arXiv:2510.26122 (0.91)", traits={"prefix", "warm_start"})
def mean_farthest(similarity: ArrayLike, *, k: int, chosen: Sequence[int] = ()) -> Selection:
    """One problem, several solutions: first the item of largest mean distance to all others, then to those chosen.

    Gains are these mean distances (1 - similarity); the first one ranks problems against each other. Ties in order.

    >>> K = [[1, 0.9, 0.2], [0.9, 1, 0.4], [0.2, 0.4, 1]]
    >>> found = mean_farthest(K, k=2)
    >>> found.indices, [round(gain, 6) for gain in found.gains]
    ([2, 0], [0.7, 0.8])
    """
    distance = 1 - square(similarity)
    np.fill_diagonal(distance, 0.0)
    n = len(distance)
    k = check_k(k, n, "mean_farthest")
    given = check_chosen(chosen, n, "mean_farthest")[:k]
    found = Selection([], [])
    total = np.zeros(n)
    while len(found) < k:
        mean = total / len(found) if len(found) else distance.sum(axis=1) / max(n - 1, 1)
        mean[found.indices] = -math.inf
        pick = given[len(found)] if len(found) < len(given) else first_largest(mean)
        found.indices.append(pick)
        found.gains.append(float(mean[pick]))
        total += distance[pick]
    return found


@register(
    "selector", "vendi", paper="arXiv:2210.02410, arXiv:2310.12952 (1.86, 1.114)", traits={"prefix", "warm_start"}
)
def vendi(
    embeddings: ArrayLike,
    quality: ArrayLike | None = None,
    *,
    k: int,
    q: float = 1.0,
    weight: float = 0.0,
    chosen: Sequence[int] = (),
) -> Selection:
    """Greedy for the Vendi score of order `q` in (0, 2]: next what raises it most, plus `weight` times its quality.

    The gain of every candidate comes from one eigendecomposition of the picks' kernel (cosine). A gain below 0 is a
    copy. O(n s (d + s)) for pick number s: for thousands of picks use dpp.

    >>> found = vendi([(1, 0), (1, 0), (0, 1)], k=3)
    >>> found.indices, [round(gain, 6) for gain in found.gains]
    ([0, 2, 1], [1.0, 1.0, -0.110118])
    """
    rows = float_rows(embeddings).astype(np.float64)
    n = len(rows)
    k = check_k(k, n, "vendi")
    if not 0 < q <= 2:
        raise UserError("vendi.q", f"{q:g} is not in (0, 2]", "Use 1, or 2 for what is dominant.")
    bonus = weight * float_column(quality, n, "quality", default=0.0)
    given = check_chosen(chosen, n, "vendi")[:k]
    found = Selection([], [])
    toward = np.empty((n, k))  # cosines to the picks
    while len(found) < k:
        s = len(found)
        gain = _gains(toward[found.indices, :s], toward[:, :s], q)
        value = gain + bonus
        value[found.indices] = -math.inf
        pick = given[s] if s < len(given) else first_largest(value)
        found.indices.append(pick)
        found.gains.append(float(gain[pick]))
        toward[:, s] = rows @ rows[pick]
    return found


def _gains(inside: NDArray[Any], toward: NDArray[Any], q: float) -> NDArray[np.float64]:
    kernel = (inside + inside.T) / 2
    np.fill_diagonal(kernel, 1.0)
    blocks = [toward[at : at + BLOCK] for at in range(0, len(toward), BLOCK)]
    return np.concatenate([np.asarray(gain_vendi(kernel, block, np.ones(len(block)), q=q)) for block in blocks])
