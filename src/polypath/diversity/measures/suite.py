"""How measures themselves behave: under controlled changes of a set, and towards each other ([2.46])."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polypath.core.errors import UserError
from polypath.core.seeds import derive

Measure = Callable[[Sequence[Any]], float]
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)


def rank_correlations(table: Mapping[str, Sequence[float]]) -> dict[tuple[str, str], float]:
    """Spearman correlation of every pair of measures over the same sets, NaN where one of them is constant.

    Measures that disagree say so before one is believed; add a column with an outcome, or an expert's order, to see
    which of them predicts it. Sets where either is NaN are left out; NaN for fewer than three.
    """
    names, found = list(table), {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            pairs = np.array([table[a], table[b]], dtype=float)
            pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
            constant = pairs.shape[1] < 3 or bool((pairs.max(axis=1) == pairs.min(axis=1)).any())
            found[a, b] = math.nan if constant else float(np.corrcoef([_ranks(row) for row in pairs])[0, 1])
    return found


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[where])


def behaviours(
    measures: Mapping[str, Measure],
    items: Sequence[Any],
    *,
    change: Literal["copies", "fewer", "shorter"] = "copies",
    levels: Sequence[float] = LEVELS,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Each measure of the set at rising levels of one change, drawn once and nested, so that levels are comparable.

    `copies` replaces that share of the items by copies of the first, `fewer` drops that share (the first stays),
    `shorter` cuts that share off the end of every text. A measure of diversity should fall with `copies`; one that
    moves with `fewer` or `shorter` must be compared at equal n or length.
    """
    if any(not 0 <= level <= 1 for level in levels):
        raise UserError("levels", f"{list(levels)} are not all in [0, 1]", "Give shares.")
    if len(items) == 0:
        return {name: [math.nan] * len(levels) for name in measures}
    order = np.random.default_rng(derive(seed, "behaviours")).permutation(np.arange(1, len(items))).tolist()
    changed = [_changed(items, order, change, level) for level in levels]
    return {name: [float(measure(one)) for one in changed] for name, measure in measures.items()}


def _changed(items: Sequence[Any], order: Sequence[int], change: str, level: float) -> list[Any]:
    if change == "shorter":
        return [item[: round(len(item) * (1 - level))] for item in items]
    hit = set(order[: round(level * len(order))])
    if change == "fewer":
        return [item for i, item in enumerate(items) if i not in hit]
    return [items[0] if i in hit else item for i, item in enumerate(items)]
