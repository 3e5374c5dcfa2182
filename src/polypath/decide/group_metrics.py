"""Figures that item accuracy hides: whole contrast groups, orders of pairs, ranks of probabilities, ordinal distance.

Contrast groups and the gap between order and pair accuracy: DecisionPivot (arXiv:2610.28522).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np


def group_hits(correct: Sequence[float], groups: Sequence[Hashable]) -> dict[Hashable, bool]:
    """Whether every member of a group is right, by group in order of first appearance.

    >>> group_hits([1, 1, 1, 0], ["a", "a", "b", "b"])
    {'a': True, 'b': False}
    """
    found: dict[Hashable, bool] = {}
    for own, group in zip(correct, groups, strict=True):
        found[group] = found.get(group, True) and bool(own)
    return found


def group_accuracy(correct: Sequence[float], groups: Sequence[Hashable]) -> float:
    """Share of groups with every member right; NaN for none.

    >>> group_accuracy([1, 1, 1, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3])
    0.5
    """
    hits = group_hits(correct, groups)
    return sum(hits.values()) / len(hits) if hits else math.nan


def order_accuracy(positive: np.ndarray, negative: np.ndarray) -> float:
    """Share of pairs whose positive member has the higher p(yes); a tie is half right; NaN for none.

    >>> order_accuracy(np.array([0.9, 0.6, 0.45, 0.3]), np.array([0.2, 0.55, 0.4, 0.35]))
    0.75
    """
    positive, negative = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(positive):
        return math.nan
    if np.isnan(positive).any() or np.isnan(negative).any():
        return math.nan
    return float(np.mean((positive > negative) + 0.5 * (positive == negative)))


def pair_accuracy(positive: np.ndarray, negative: np.ndarray, *, threshold: float = 0.5) -> float:
    """Share of pairs of which both members are right at the threshold, p = threshold being a yes; NaN for none.

    >>> pair_accuracy(np.array([0.9, 0.6, 0.45, 0.3]), np.array([0.2, 0.55, 0.4, 0.35]))
    0.25
    """
    positive, negative = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not len(positive) or np.isnan(positive).any() or np.isnan(negative).any():
        return math.nan
    return float(np.mean((positive >= threshold) & (negative < threshold)))


def pair_accuracy_fitted(positive: np.ndarray, negative: np.ndarray) -> float:
    """Pair accuracy at one threshold fitted on the other half of the pairs (even and odd places); NaN below two.

    It tells a wrong threshold, which one number mends, from a wrong order, which none does.
    """
    positive, negative = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if len(positive) < 2:
        return math.nan
    even = np.arange(len(positive)) % 2 == 0
    parts = []
    for fit, test in ((even, ~even), (~even, even)):
        threshold = best_threshold(positive[fit], negative[fit])
        parts.append(pair_accuracy(positive[test], negative[test], threshold=threshold) * test.sum())
    return float(sum(parts) / len(positive))


def best_threshold(positive: np.ndarray, negative: np.ndarray) -> float:
    """The middle of the first gap at which most members are on their side of the threshold; NaN for NaN inputs.

    >>> round(best_threshold(np.array([0.9, 0.4]), np.array([0.2, 0.1])), 3)
    0.3
    """
    values = np.unique(np.concatenate([positive, negative]))
    if np.isnan(values).any():
        return math.nan
    cuts = np.concatenate([[values[0]], (values[1:] + values[:-1]) / 2, [np.nextafter(values[-1], np.inf)]])
    right = [np.sum(positive >= cut) + np.sum(negative < cut) for cut in cuts]
    return float(cuts[int(np.argmax(right))])


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """P(score of a positive > score of a negative), ties half; NaN for one class only, or a NaN score.

    >>> auroc(np.array([0.9, 0.4, 0.6, 0.1]), np.array([1, 1, 0, 0]))
    0.75
    """
    scores, labels = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    ones = int(labels.sum())
    zeros = len(labels) - ones
    if not ones or not zeros or np.isnan(scores).any():
        return math.nan
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # mean rank of ties, from 1
    return float((ranks[labels].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def ranked_probability_score(p: np.ndarray, correct: int) -> float:
    """Mean squared distance of the cumulative p (K,) from that of the correct level, over K - 1 cuts; NaN for K = 1.

    >>> round(ranked_probability_score(np.array([0.1, 0.2, 0.6, 0.1]), 2), 4)
    0.0367
    """
    if len(p) < 2:
        return math.nan
    cumulative = np.cumsum(np.asarray(p, dtype=np.float64))[:-1]
    return float(np.mean((cumulative - (np.arange(len(p) - 1) >= correct)) ** 2))


def group_spread(probabilities: Sequence[float], groups: Sequence[Hashable]) -> float:
    """Mean over groups of the largest minus the smallest p among the members; NaN without a group of two.

    Of groups whose members should be treated alike, such as counterfactual ones.

    >>> round(group_spread([0.9, 0.6, 0.5, 0.5, 0.1], ["a", "a", "b", "b", "c"]), 4)
    0.15
    """
    members: dict[Hashable, list[float]] = {}
    for p, group in zip(probabilities, groups, strict=True):
        members.setdefault(group, []).append(p)
    spreads = [max(own) - min(own) for own in members.values() if len(own) > 1]
    return float(np.mean(spreads)) if spreads else math.nan
