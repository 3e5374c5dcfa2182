"""Closed-form readouts for a fixed set of labels: a ridge or LDA head on features, and nearness of embeddings.

A head needs labels (60 and more, 5 of each) and answers for those labels only; label trees take any labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.readout import branch_rows, describe, label_tree
from polypath.decide.types import Question

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy


@dataclass(frozen=True)
class Head:
    """An affine map from features (..., d) to scores (..., K)."""

    weights: np.ndarray
    bias: np.ndarray

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores (..., K) of features (..., d)."""
        return np.asarray(features, dtype=np.float64) @ self.weights + self.bias


def fit_head(
    embeddings: np.ndarray,
    labels: Sequence[int],
    *,
    classes: int,
    kind: Literal["ridge", "lda"] = "lda",
    shrink: float = 0.1,
) -> Head:
    """A head from features (n, d) and class indices (n,).

    "lda": Gaussian classes with one covariance (1 - shrink) S + shrink tr(S)/d I; its softmax is the posterior.
    "ridge": least squares on one-hot targets of centred features, penalty shrink tr(X'X)/min(n, d); its scores are no
    log-odds, so fit a temperature. Raises UserError for a class without items, NaN features or shrink outside (0, 1].
    """
    x, y = np.asarray(embeddings, dtype=np.float64), np.asarray(labels)
    counts = np.bincount(y, minlength=classes) if len(y) else np.zeros(classes, dtype=int)
    if len(counts) != classes or (counts == 0).any() or len(x) != len(y):
        what = f"{len(x)} features, {len(y)} labels, and these counts of {classes} classes: {counts.tolist()}"
        raise UserError("fit_head", what, "Give one label a row, and every class at least one.")
    if not np.isfinite(x).all() or not 0 < shrink <= 1:
        raise UserError("fit_head", "features are not finite, or shrink is not in (0, 1]", "Mend them.")
    means = np.stack([x[y == k].mean(0) for k in range(classes)])
    if kind == "ridge":
        centre = x.mean(0)
        target = np.eye(classes)[y]
        weights = _ridge(x - centre, target - target.mean(0), shrink)
        return Head(weights, target.mean(0) - centre @ weights)
    within = x - means[y]
    covariance = within.T @ within / len(x)
    covariance = (1 - shrink) * covariance + (shrink * np.trace(covariance) / x.shape[1] + 1e-12) * np.eye(x.shape[1])
    weights = np.linalg.solve(covariance, means.T)
    return Head(weights, np.log(counts / len(y)) - 0.5 * (means.T * weights).sum(0))


def _ridge(x: np.ndarray, target: np.ndarray, shrink: float) -> np.ndarray:
    """Through the smaller of the two Gram matrices: (X'X + aI)^-1 X'Y = X'(XX' + aI)^-1 Y."""
    n, d = x.shape
    penalty = shrink * (x**2).sum() / min(n, d) + 1e-12
    if d <= n:
        return np.linalg.solve(x.T @ x + penalty * np.eye(d), x.T @ target)
    return x.T @ np.linalg.solve(x @ x.T + penalty * np.eye(n), target)


def hidden_features(policy: TransformersPolicy, states: Sequence[str], question: Question) -> np.ndarray:
    """Last-layer states (n, d) at the place where the answer would begin."""
    branches = label_tree(question)[:1]
    rows = [branch_rows(policy.tokenizer, policy.stop_ids[0], state, branches)[0] for state in states]
    hidden = policy.score(rows, need=frozenset({"hidden"})).hidden or []
    return np.stack([own[0].double().cpu().numpy() for own in hidden])


def embedding_scores(
    policy: TransformersPolicy, states: Sequence[str], question: Question, *, temperature: float = 0.05
) -> np.ndarray:
    """Cosines (n, K) of states with options (label and description), divided by the temperature.

    It compares and does not read: weak wherever the question sets a rule.
    """
    found = policy.embed([*states, *map(describe, question.options)]).double().cpu().numpy()
    return found[: len(states)] @ found[len(states) :].T / temperature
