"""Which decisions go to a slower reasoner: thresholds on a confidence, the curve behind them, and what was recovered.

A decision is routed when its confidence is at most the threshold, so equal confidences are routed together or not at
all. Any statistic serves: `p_max`, `log_margin`, minus the entropy, or minus the gain that `gain.fit_gain` predicts.
Thresholds are chosen on one set of items and reported on another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.conformal import accept_threshold

NONE = -math.inf  # the threshold that routes nothing


@dataclass(frozen=True)
class Curve:
    """Every threshold that tells items apart, from none routed to all: (M,) arrays, the shares increasing.

    `accuracy` is that of the whole, of decisions that are kept and of the reasoner's answers to those that are routed.
    """

    threshold: np.ndarray
    share: np.ndarray
    accuracy: np.ndarray


def routing_curve(confidence: np.ndarray, correct: np.ndarray, reasoner: np.ndarray) -> Curve:
    """The curve from confidences (N,), whether each decision is right and whether the reasoner is (N,).

    Raises UserError for no items, unequal lengths and NaN.

    >>> curve = routing_curve(np.array([0.9, 0.6, 0.6]), np.array([1, 0, 1]), np.array([1, 1, 1]))
    >>> curve.share.round(3).tolist(), curve.accuracy.round(3).tolist()
    ([0.0, 0.667, 1.0], [0.667, 1.0, 1.0])
    """
    confidence, correct, reasoner = _checked(confidence, correct, reasoner)
    values, inverse = np.unique(confidence, return_inverse=True)
    sizes = np.bincount(inverse)
    gained = np.bincount(inverse, weights=reasoner - correct)
    n = len(confidence)
    share = np.concatenate([[0], np.cumsum(sizes)]) / n
    accuracy = correct.mean() + np.concatenate([[0], np.cumsum(gained)]) / n
    return Curve(np.concatenate([[NONE], values]), share, accuracy)


def _checked(*columns: np.ndarray) -> list[np.ndarray]:
    found = [np.asarray(column, dtype=np.float64) for column in columns]
    if not len(found[0]) or len({len(column) for column in found}) > 1:
        what = f"columns of {[len(column) for column in found]} items"
        raise UserError("route", what, "Give the same items, at least one, to every column.")
    if any(np.isnan(column).any() for column in found):
        raise UserError("route", "a confidence or an outcome is NaN", "Leave out items that were not answered.")
    return found


def budget_threshold(confidence: np.ndarray, *, share: float) -> float:
    """The highest threshold that routes at most `share` of the items; -inf where even the first tie is too large.

    >>> budget_threshold(np.array([0.5, 0.5, 0.7, 0.9]), share=0.5)
    0.5
    """
    if not 0 <= share <= 1:
        raise UserError("share", f"{share} is no share", "Choose it between 0 and 1.")
    (confidence,) = _checked(confidence)
    values, counts = np.unique(confidence, return_counts=True)
    within = np.flatnonzero(np.cumsum(counts) <= share * len(confidence) + 1e-9)
    return float(values[within[-1]]) if len(within) else NONE


def risk_threshold(confidence: np.ndarray, correct: np.ndarray, *, risk: float = 0.05, level: float = 0.95) -> float:
    """Route whatever may not be kept at an error rate of at most `risk`, certified (`conformal.accept_threshold`).

    Infinite, which routes everything, where nothing can be certified. Says nothing of the reasoner's own errors.
    """
    confidence, correct = _checked(confidence, correct)
    accept = accept_threshold(confidence, correct, risk=risk, level=level)
    return float(np.nextafter(accept, NONE)) if math.isfinite(accept) else math.inf


def utility_threshold(*, error_cost: float, routing_cost: float, reasoner_error: float) -> float:
    """The largest p_max at which routing pays: (1 - p_max - reasoner_error) error_cost > routing_cost.

    Costs are in one unit, whichever. Right as far as p_max is calibrated. Raises UserError for costs that are not
    positive.

    >>> round(utility_threshold(error_cost=10, routing_cost=1, reasoner_error=0.08), 6)
    0.82
    """
    if not error_cost > 0 or not routing_cost >= 0 or not 0 <= reasoner_error <= 1:
        what = f"error_cost {error_cost}, routing_cost {routing_cost}, reasoner_error {reasoner_error}"
        raise UserError("utility", what, "Give a positive cost of an error, one of routing from 0, a rate in [0, 1].")
    return float(np.nextafter(1 - reasoner_error - routing_cost / error_cost, NONE))


def gain_threshold(*, error_cost: float, routing_cost: float) -> float:
    """The same for the confidence "minus the predicted gain": routing pays where gain * error_cost > routing_cost."""
    if not error_cost > 0 or not routing_cost >= 0:
        raise UserError("utility", f"error_cost {error_cost}, routing_cost {routing_cost}", "Give positive costs.")
    return float(np.nextafter(-routing_cost / error_cost, NONE))


def recover_threshold(
    confidence: np.ndarray, correct: np.ndarray, reasoner: np.ndarray, *, recovered: float = 0.9
) -> float:
    """The threshold with the smallest share that recovers so much of the reasoner's lead.

    -inf where the reasoner is not better: routing then recovers nothing.
    """
    curve = routing_curve(confidence, correct, reasoner)
    lead = curve.accuracy[-1] - curve.accuracy[0]
    if not lead > 0:
        return NONE
    reached = curve.accuracy - curve.accuracy[0] >= recovered * lead - 1e-12
    return float(curve.threshold[int(np.argmax(reached))])


def recovered_share(decided: float, routed: float, reasoned: float) -> float:
    """(routed - decided) / (reasoned - decided) of three accuracies; NaN where the reasoner is not better.

    It is the performance gap recovered of RouteLLM (Ong et al. 2024, arXiv:2406.18665).

    >>> round(recovered_share(0.72, 0.83, 0.85), 3)
    0.846
    """
    return (routed - decided) / (reasoned - decided) if reasoned > decided else math.nan


def mean_recovered(curve: Curve) -> float:
    """Area under the recovered share over the share routed (APGR), 0.5 for routing at random; NaN without a lead.

    >>> mean_recovered(Curve(np.zeros(3), np.array([0, 0.5, 1]), np.array([0.5, 1.0, 1.0])))
    0.75
    """
    lead = curve.accuracy[-1] - curve.accuracy[0]
    if not lead > 0:
        return math.nan
    return float(np.trapezoid((curve.accuracy - curve.accuracy[0]) / lead, curve.share))


def share_for(curve: Curve, recovered: float) -> float:
    """The smallest share that must be routed to recover so much (CPT); NaN without a lead."""
    lead = curve.accuracy[-1] - curve.accuracy[0]
    if not lead > 0:
        return math.nan
    return float(curve.share[int(np.argmax(curve.accuracy - curve.accuracy[0] >= recovered * lead - 1e-12))])


def routing_figures(
    confidence: np.ndarray,
    correct: np.ndarray,
    reasoner: np.ndarray,
    threshold: float,
    *,
    decision_cost: float = math.nan,
    reasoner_cost: float = math.nan,
) -> dict[str, float]:
    """What a threshold does to these items; costs are those of one decision and of one reasoned answer.

    `damaged` counts decisions that were right and became wrong; `random_accuracy` is that of routing as many by lot.
    """
    confidence, correct, reasoner = _checked(confidence, correct, reasoner)
    sent = confidence <= threshold
    final = np.where(sent, reasoner, correct)
    curve, share = routing_curve(confidence, correct, reasoner), float(sent.mean())
    cost = decision_cost + share * reasoner_cost
    kept = ~sent
    return {
        "n": len(sent),
        "share": share,
        "accuracy": float(final.mean()),
        "decision_accuracy": float(correct.mean()),
        "reasoner_accuracy": float(reasoner.mean()),
        "random_accuracy": float((1 - share) * correct.mean() + share * reasoner.mean()),
        "kept_error": float(1 - correct[kept].mean()) if kept.any() else math.nan,
        "recovered": recovered_share(float(correct.mean()), float(final.mean()), float(reasoner.mean())),
        "mean_recovered": mean_recovered(curve),
        "damaged": int((sent & (correct > reasoner)).sum()),
        "mended": int((sent & (correct < reasoner)).sum()),
        "cost": cost,
        "cost_share": cost / (decision_cost + reasoner_cost),
        "cost_per_correct": cost / float(final.mean()) if final.any() else math.nan,
    }
