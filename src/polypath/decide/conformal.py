"""Sets and thresholds with a finite-sample guarantee, for data exchangeable with the held-out items behind them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.debias import binomial_upper


def conformal_quantile(scores: np.ndarray, alpha: float) -> float:
    """The ceil((n + 1)(1 - alpha))-th smallest score; infinite where n is too small for alpha.

    >>> conformal_quantile(np.arange(1.0, 20), 0.1), conformal_quantile(np.arange(8.0), 0.1)
    (18.0, inf)
    """
    if not 0 < alpha < 1:
        raise UserError("alpha", f"{alpha} is no error rate", "Choose it between 0 and 1.")
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def aps_scores(p: np.ndarray) -> np.ndarray:
    """Mass (..., K) of all options at least as probable as each, itself included (Romano et al. 2020, without noise).

    >>> aps_scores(np.array([0.1, 0.7, 0.2])).round(3).tolist()
    [1.0, 0.7, 0.9]
    """
    p = np.asarray(p, dtype=np.float64)
    return ((p[..., None, :] >= p[..., :, None]) * p[..., None, :]).sum(-1)


def ordinal_scores(p: np.ndarray) -> np.ndarray:
    """Mass (..., K) of the interval that has grown greedily from the mode when it reaches each level.

    The sets are intervals of levels: at every step the more probable neighbour joins, the lower one of equals.

    >>> ordinal_scores(np.array([0.3, 0.1, 0.4, 0.2])).round(3).tolist()
    [1.0, 0.7, 0.4, 0.6]
    """
    p = np.asarray(p, dtype=np.float64)
    return np.apply_along_axis(_grow, -1, p)


def _grow(p: np.ndarray) -> np.ndarray:
    low = high = int(np.argmax(p))
    mass = np.empty(len(p))
    total = mass[low] = p[low]
    while high - low < len(p) - 1:
        left = p[low - 1] if low > 0 else -1.0
        right = p[high + 1] if high < len(p) - 1 else -1.0
        if left >= right:
            low, joined = low - 1, low - 1
        else:
            high, joined = high + 1, high + 1
        total += p[joined]
        mass[joined] = total
    return mass


def fit_conformal(
    p: np.ndarray,
    correct: Sequence[int],
    *,
    alpha: float = 0.1,
    ordinal: bool = False,
    groups: Sequence[Hashable] | None = None,
) -> dict[Hashable, float]:
    """Thresholds of conformal sets from held-out probabilities (n, K) and correct indices (n,).

    One threshold for all (key None), or one a group (Mondrian), which holds the coverage within every group.
    """
    scores = (ordinal_scores if ordinal else aps_scores)(p)[np.arange(len(correct)), np.asarray(correct)]
    keys = [None] * len(scores) if groups is None else list(groups)
    return {key: conformal_quantile(scores[[own == key for own in keys]], alpha) for key in dict.fromkeys(keys)}


def conformal_set(p: np.ndarray, threshold: float, *, ordinal: bool = False) -> list[int]:
    """Indices of the options in the set, never empty: the most probable one always belongs.

    >>> conformal_set(np.array([0.1, 0.7, 0.2]), 0.9)
    [1, 2]
    """
    scores = (ordinal_scores if ordinal else aps_scores)(p)
    inside = scores <= threshold + 1e-12
    inside[int(np.argmax(p))] = True
    return [int(i) for i in np.flatnonzero(inside)]


def accept_threshold(confidence: np.ndarray, correct: np.ndarray, *, risk: float = 0.05, level: float = 0.95) -> float:
    """The lowest confidence from which answers may be accepted with an error rate of at most `risk`, certified.

    Candidates are the deciles of the confidence, tested from the highest down with an exact binomial bound; the
    search ends at the first that fails, so that no correction for many tests is due (fixed sequence). Candidates that
    accept too few items to pass even without an error (59 for the defaults) are skipped. Infinite, which accepts
    nothing, when none passes.
    """
    confidence = np.asarray(confidence, dtype=np.float64)
    wrong = ~np.asarray(correct, dtype=bool)
    certified = math.inf
    for candidate in np.unique(np.quantile(confidence, np.arange(10) / 10))[::-1] if len(confidence) else []:
        accepted = confidence >= candidate
        if binomial_upper(0, int(accepted.sum()), level) > risk:
            continue
        if binomial_upper(int(wrong[accepted].sum()), int(accepted.sum()), level) > risk:
            break
        certified = float(candidate)
    return certified
