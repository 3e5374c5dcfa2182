"""What a decision says: scores per option, probabilities, and statistics under distinct names.

`confidence` means different things to different programs, so every statistic carries the name of its formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polypath.decide.types import MultiLabel, Question, Score


@dataclass(frozen=True)
class Answer:
    """Scores (K,) in the question's own order, before and after calibration.

    `label_mass` is the probability that the model gives to the labels at all, NaN where that is not defined.
    """

    question: Question
    logits: np.ndarray
    probabilities: np.ndarray
    label_mass: float = float("nan")

    @property
    def best(self) -> int:
        """Index of the most probable option, the first of equals."""
        return int(np.argmax(self.probabilities))


def make_answer(
    question: Question, logits: np.ndarray, *, temperature: float = 1.0, label_mass: float = float("nan")
) -> Answer:
    """Probabilities of scores: a softmax, or one sigmoid an option where several may hold."""
    logits = np.asarray(logits, dtype=np.float64)
    link = sigmoid if isinstance(question, MultiLabel) else softmax
    return Answer(question, logits, link(logits / temperature), label_mass)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis; a row with a NaN gives NaN.

    >>> softmax(np.log([1.0, 3.0])).round(12).tolist()
    [0.25, 0.75]
    """
    return np.exp(log_softmax(logits))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    shifted = np.asarray(logits, dtype=np.float64) - np.max(logits, axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1 + np.tanh(np.asarray(logits, dtype=np.float64) / 2))


def statistics(answer: Answer) -> dict[str, float]:
    """All that can be said of one answer's certainty: p_max, log_margin, entropy, the two public confidences."""
    p = answer.probabilities
    if isinstance(answer.question, MultiLabel):
        return {}
    found = {"p_max": p_max(p), "log_margin": log_margin(p), "entropy": entropy(p)}
    confidence = score_confidence(p) if isinstance(answer.question, Score) else choice_confidence(p)
    return {**found, "confidence": confidence, "entropy_confidence": entropy_confidence(p)}


def p_max(p: np.ndarray) -> float:
    """The largest probability."""
    return float(np.max(p))


def log_margin(p: np.ndarray) -> float:
    """Log-probability of the best minus that of the second; infinite for one option.

    >>> round(log_margin(np.array([.1, .7, .2])), 4)
    1.2528
    """
    if len(p) < 2:
        return float("inf")
    second, first = np.sort(p)[-2:]
    return float(np.log(first) - np.log(second)) if second > 0 else float("inf")


def entropy(p: np.ndarray) -> float:
    """In nats; 0 log 0 is 0."""
    return float(-np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0 * p)))


def choice_confidence(p: np.ndarray) -> float:
    """(p_max - 1/n) / (1 - 1/n), as System One reports it for choices; 1 for one option.

    >>> round(choice_confidence(np.array([.1, .7, .2])), 4)
    0.55
    """
    n = len(p)
    return 1.0 if n == 1 else float((np.max(p) - 1 / n) / (1 - 1 / n))


def score_confidence(p: np.ndarray) -> float:
    """1 - sum_i p_i |i - mode| / D, at least 0, with D = mean_i |i - (n-1)/2|, as System One reports it for scores.

    >>> round(score_confidence(np.array([.1, .7, .2])), 4)
    0.55
    """
    n = len(p)
    if n == 1:
        return 1.0
    index = np.arange(n)
    spread = np.abs(index - (n - 1) / 2).mean()
    return float(max(0.0, 1 - np.sum(p * np.abs(index - np.argmax(p))) / spread))


def entropy_confidence(p: np.ndarray) -> float:
    """1 - entropy / ln n, what some servers report as confidence; 1 for one option.

    >>> round(entropy_confidence(np.array([.1, .7, .2])), 3)
    0.27
    """
    return 1.0 if len(p) == 1 else 1 - entropy(p) / float(np.log(len(p)))
