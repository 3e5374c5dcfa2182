"""The few statistics that intervals and paired tests need, in numpy and the standard library alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval and the number of observations behind it; NaN where undefined."""

    value: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero (False when there is no interval)."""
        return self.low > 0 or self.high < 0


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by Lentz's continued fraction (DLMF 8.17.22)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges fast only on the other side
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    tiny = 1e-300
    numerator, denominator, result = 1.0, 0.0, 1.0
    for i in range(10_000):
        m = i // 2
        if i == 0:
            term = 1.0
        elif i % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        denominator = 1.0 / (1.0 + term * denominator or tiny)
        numerator = 1.0 + term / numerator or tiny
        result *= numerator * denominator
        if abs(1.0 - numerator * denominator) < 1e-15:
            break
    return math.exp(log_front) * (result - 1.0) / a


def t_two_sided(t: float, df: float) -> float:
    """P(|T| >= |t|) for Student's t with `df` degrees of freedom; NaN for a NaN `t` or df < 1."""
    if math.isnan(t) or df < 1:
        return math.nan
    return 1.0 if t == 0 else incomplete_beta(df / 2.0, 0.5, df / (df + t * t))


@lru_cache(maxsize=256)
def t_quantile(p: float, df: float) -> float:
    """The p-quantile of Student's t (0.5 < p < 1), by bisection; NaN for df < 1.

    >>> round(t_quantile(0.975, 4), 4)
    2.7764
    """
    if df < 1:
        return math.nan
    low, high = 0.0, 1.0
    while t_two_sided(high, df) > 2.0 * (1.0 - p):
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if t_two_sided(middle, df) > 2.0 * (1.0 - p) else (low, middle)
    return (low + high) / 2.0


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean and t interval of the finite values: NaN mean for none, NaN bounds for one."""
    x = np.asarray(values, dtype=float).ravel()
    x = x[np.isfinite(x)]
    n = len(x)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(x.mean())
    half = t_quantile((1 + level) / 2, n - 1) * float(x.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(mean, mean - half, mean + half, n)


def t_test(values: ArrayLike) -> float:
    """Two-sided p-value that the mean of the finite values is zero; NaN for fewer than two."""
    x = np.asarray(values, dtype=float).ravel()
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return math.nan
    se = float(x.std(ddof=1)) / math.sqrt(len(x))
    if se == 0.0:
        return 1.0 if x[0] == 0.0 else 0.0
    return t_two_sided(float(x.mean()) / se, len(x) - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the given order. NaN stays NaN and is not counted as a test.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted = [math.nan] * len(p_values)
    order = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted
