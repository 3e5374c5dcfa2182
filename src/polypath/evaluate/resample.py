"""Paired and grouped comparisons: a bootstrap over groups, and McNemar's exact test on items."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from polypath.core.seeds import derive
from polypath.evaluate.stats import Estimate

DRAWS = 1000


def members_of(groups: Sequence[Hashable]) -> list[np.ndarray]:
    """Indices of each group's members, groups in order of first appearance."""
    found: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        found.setdefault(group, []).append(i)
    return [np.array(own) for own in found.values()]


def draw_groups(count: int, *, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Group numbers (draws, count), drawn with replacement. The same seed gives two systems the same draws."""
    return np.random.default_rng(derive(seed, "bootstrap")).integers(count, size=(draws, count))


def bootstrap(
    statistic: Callable[[np.ndarray], float],
    count: int,
    *,
    n: int | None = None,
    draws: int = DRAWS,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """`statistic(indices of groups)` of all `count` groups, with a percentile interval over resampled ones.

    `n` is the number behind the figure (`count` unless given). Draws on which it is undefined are left out; below two
    groups, and where more than half of the draws are undefined, there is no interval.
    """
    shown = count if n is None else n
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(statistic(np.arange(count)))
    if count < 2 or math.isnan(value):
        return Estimate(value, math.nan, math.nan, shown)
    drawn = np.array([statistic(own) for own in draw_groups(count, draws=draws, seed=seed)], dtype=np.float64)
    drawn = drawn[np.isfinite(drawn)]
    if 2 * len(drawn) <= draws:
        return Estimate(value, math.nan, math.nan, shown)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), shown)


@dataclass(frozen=True)
class McNemar:
    """Items that only the first and only the second system got right, and the exact two-sided p (NaN for no items)."""

    only_first: int
    only_second: int
    p: float
    n: int


def mcnemar(first: Sequence[float], second: Sequence[float]) -> McNemar:
    """Exact test that two systems are right equally often on the same items (McNemar 1947, binomial form).

    It takes items as independent; for items in groups, trust the bootstrap over groups.

    >>> mcnemar([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1, 0])
    McNemar(only_first=5, only_second=0, p=0.0625, n=7)
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    ours, theirs = int((a & ~b).sum()), int((~a & b).sum())
    if not len(a):
        return McNemar(0, 0, math.nan, 0)
    total, least = ours + theirs, min(ours, theirs)
    tail = sum(math.comb(total, k) for k in range(least + 1))
    return McNemar(ours, theirs, min(1.0, 2 * tail / 2**total), len(a))
