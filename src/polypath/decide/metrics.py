"""How good decisions are: accuracy, calibration and selective risk, with the number of items behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polypath.core.seeds import derive
from polypath.decide.answers import p_max


def evaluate_decisions(
    probabilities: Sequence[np.ndarray], correct: Sequence[int], *, seed: int = 0
) -> dict[str, float]:
    """All figures of items whose option counts may differ: probabilities (K_i,) and correct indices.

    The ECE of a perfectly calibrated model is not 0 for few items: `ece_floor` is its mean, by simulation.
    """
    hit = np.array([float(np.argmax(p) == i) for p, i in zip(probabilities, correct, strict=True)])
    top = np.array([p_max(p) for p in probabilities])
    return {
        "n": len(hit),
        "accuracy": float(hit.mean()) if len(hit) else math.nan,
        "ece": ece(top, hit),
        "ece_floor": ece_floor(top, seed=seed),
        "brier": brier(probabilities, correct),
        "nll": mean_nll(probabilities, correct),
        "aurc": aurc(top, hit),
        "coverage_at_5%_risk": coverage_at_risk(top, hit, risk=0.05),
    }


def ece(confidence: np.ndarray, correct: np.ndarray, *, bins: int = 10) -> float:
    """Expected calibration error over bins of equal count (ties by order); NaN for no items.

    >>> ece(np.array([0.8, 0.8, 0.6, 0.6]), np.array([1, 1, 0, 1]), bins=2)
    0.15
    """
    n = len(confidence)
    if n == 0:
        return math.nan
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, min(bins, n)) if len(part)]
    gaps = [len(part) / n * abs(np.mean(confidence[part]) - np.mean(correct[part])) for part in parts]
    return round(float(sum(gaps)), 12)


def ece_floor(confidence: np.ndarray, *, bins: int = 10, draws: int = 200, seed: int = 0) -> float:
    """Mean ECE if every answer were right with exactly its stated confidence; NaN for no items."""
    generator = np.random.default_rng(derive(seed, "ece_floor"))
    samples = generator.uniform(size=(draws, len(confidence))) < confidence
    return float(np.mean([ece(confidence, own, bins=bins) for own in samples]))


def brier(probabilities: Sequence[np.ndarray], correct: Sequence[int]) -> float:
    """Mean squared distance of p from the correct option's indicator, between 0 and 2; NaN for no items.

    >>> round(brier([np.array([0.7, 0.3])], [0]), 3)
    0.18
    """
    own = [((p - np.eye(len(p))[i]) ** 2).sum() for p, i in zip(probabilities, correct, strict=True)]
    return float(np.mean(own)) if own else math.nan


def mean_nll(probabilities: Sequence[np.ndarray], correct: Sequence[int]) -> float:
    """Mean -ln p(correct), infinite where a correct option has no mass; NaN for no items."""
    own = [-math.log(p[i]) if p[i] > 0 else math.inf for p, i in zip(probabilities, correct, strict=True)]
    return float(np.mean(own)) if own else math.nan


def _risks(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Error rate among the k most confident, k = 1..n, ties replaced by their mean; and where a tie ends."""
    order = np.argsort(-np.asarray(confidence), kind="stable")
    sure = np.asarray(confidence)[order]
    wrong = 1 - np.asarray(correct, dtype=np.float64)[order]
    _, inverse, counts = np.unique(-sure, return_inverse=True, return_counts=True)
    shared = np.bincount(inverse, weights=wrong) / counts
    ends = np.append(sure[1:] != sure[:-1], True)
    return np.cumsum(shared[inverse]) / np.arange(1, len(sure) + 1), ends


def aurc(confidence: np.ndarray, correct: np.ndarray) -> float:
    """Area under the risk-coverage curve: the mean error rate over all coverages; NaN for no items.

    >>> aurc(np.array([0.9, 0.8, 0.7]), np.array([1, 0, 1])).__round__(4)
    0.2778
    """
    return float(_risks(confidence, correct)[0].mean()) if len(confidence) else math.nan


def coverage_at_risk(confidence: np.ndarray, correct: np.ndarray, *, risk: float = 0.05) -> float:
    """The largest share that can be answered at an error rate of at most `risk`, in hindsight and so optimistic.

    A threshold to use must be fitted on other items: `conformal.accept_threshold`.

    >>> coverage_at_risk(np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, 1, 0, 1]))
    0.5
    """
    n = len(confidence)
    if n == 0:
        return math.nan
    risks, ends = _risks(confidence, correct)
    within = np.flatnonzero((risks <= risk + 1e-12) & ends)
    return float((within[-1] + 1) / n) if len(within) else 0.0
