"""What a reasoner would gain on a decision, learnt from items that both answered; and a tree of who is good where.

A low confidence says that the decision may be wrong, not that the reasoner would be right. The gain model predicts
both; the expertise tree chooses among any number of systems by regions of the features, as answers come in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.answers import entropy, log_margin, sigmoid
from polypath.decide.types import Question

KINDS = ("YesNo", "Choice", "Score", "Rank", "Pair")
FEATURES = ("log_margin", "entropy", "options", "state_length", *KINDS)
SURE = 20.0  # a log margin beyond this says no more


def routing_features(question: Question, p: np.ndarray, state: str) -> np.ndarray:
    """The features (9,) named in FEATURES of one decision: probabilities (K,), its question and its state."""
    kind = [float(type(question).__name__ == name) for name in KINDS]
    return np.array([min(log_margin(p), SURE), entropy(p), math.log(len(p)), math.log1p(len(state)), *kind])


def fit_logistic(x: np.ndarray, y: np.ndarray, *, penalty: float = 1.0, steps: int = 50) -> np.ndarray:
    """Weights (d + 1,), the intercept last, that minimise the log loss + penalty/2 |w|^2 (the intercept is free).

    Newton's method with halved steps; x (n, d) should be standardised. One class only gives the smoothed rate
    (k + 1)/(n + 2) and no slopes.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n, d = x.shape
    w = np.zeros(d + 1)
    if y.min() == y.max():
        w[-1] = math.log((y.sum() + 1) / (n - y.sum() + 1))
        return w
    wide = np.hstack([x, np.ones((n, 1))])
    ridge = np.append(np.full(d, penalty), 1e-9)

    def loss(at: np.ndarray) -> float:
        return float(np.logaddexp(0, -(2 * y - 1) * (wide @ at)).sum() + (ridge * at**2).sum() / 2)

    for _ in range(steps):
        p = sigmoid(wide @ w)
        gradient = wide.T @ (p - y) + ridge * w
        move = np.linalg.solve((wide * (p * (1 - p))[:, None]).T @ wide + np.diag(ridge), gradient)
        step = 1.0
        while loss(w - step * move) > loss(w) and step > 1e-6:
            step /= 2
        w = w - step * move
        if np.abs(move).max() < 1e-9:
            break
    return w


@dataclass(frozen=True)
class GainModel:
    """P(the reasoner is right) - P(the decision is right), each by a logistic model on standardised features."""

    centre: np.ndarray
    scale: np.ndarray
    decision: np.ndarray
    reasoner: np.ndarray

    def gain(self, features: np.ndarray) -> np.ndarray:
        """Predicted gains (...,) of features (..., d)."""
        x = (np.asarray(features, dtype=np.float64) - self.centre) / self.scale
        right = [sigmoid(x @ w[:-1] + w[-1]) for w in (self.reasoner, self.decision)]
        return np.asarray(right[0] - right[1])

    def to_json(self) -> dict[str, list[float]]:
        """Plain numbers."""
        return {name: np.asarray(value).tolist() for name, value in vars(self).items()}


def gain_from_json(body: Any, where: str) -> GainModel:
    """The inverse of `GainModel.to_json`. Raises UserError for another shape."""
    try:
        found = GainModel(*(np.array(body[name], dtype=np.float64) for name in GainModel.__dataclass_fields__))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(where, f"is no gain model ({type(error).__name__})", "Fit the router again.") from error
    d = len(found.centre)
    sizes = [value.shape for value in vars(found).values()]
    if sizes != [(d,), (d,), (d + 1,), (d + 1,)] or not all(np.isfinite(v).all() for v in vars(found).values()):
        raise UserError(where, f"its arrays have the shapes {sizes}", "Fit the router again.")
    return found


def fit_gain(
    features: np.ndarray, correct: np.ndarray, reasoner: np.ndarray, *, penalty: float = 1.0, least: int = 30
) -> GainModel:
    """A gain model from features (n, d) and whether decision and reasoner were right (n,).

    Raises UserError for fewer than `least` items, unequal lengths, or features that are not finite.
    """
    x = np.asarray(features, dtype=np.float64)
    if len(x) < least or not len(x) == len(correct) == len(reasoner):
        what = f"{len(x)} features, {len(correct)} decisions, {len(reasoner)} reasoned answers"
        raise UserError("fit_gain", what, f"Give at least {least} items that both answered.")
    if not np.isfinite(x).all():
        raise UserError("fit_gain", "a feature is not finite", "Leave such items out.")
    centre, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 1e-12, scale, 1.0)
    z = (x - centre) / scale
    return GainModel(
        centre, scale, fit_logistic(z, correct, penalty=penalty), fit_logistic(z, reasoner, penalty=penalty)
    )


@dataclass
class _Leaf:
    """Losses of the experts, and of the mixture, since this region exists."""

    losses: np.ndarray
    mixture: float = 0.0
    n: int = 0

    def weights(self, rate: float) -> np.ndarray:
        scaled = -rate * (self.losses - self.losses.min())
        return np.asarray(np.exp(scaled) / np.exp(scaled).sum())

    def learn(self, losses: np.ndarray, rate: float) -> float:
        own = float(self.weights(rate) @ losses)
        self.losses, self.mixture, self.n = self.losses + losses, self.mixture + own, self.n + 1
        return own


class ExpertiseTree:
    """Which of M systems to ask, by region of the features (Abels et al. 2023, arXiv:2305.01063; reconstructed).

    Every region keeps exponential weights over the systems, and for each of its candidate splits two shadow regions
    that learn from the same stream. A region is split where a pair's mean loss undercuts its own by more than
    sqrt(ln(C/delta) / (2n)) after n >= `least` answers, C being its number of candidates. Losses lie in [0, 1].
    """

    def __init__(
        self,
        experts: int,
        cuts: Sequence[tuple[int, float]],
        *,
        rate: float = 0.5,
        delta: float = 0.05,
        least: int = 50,
    ) -> None:
        if experts < 1 or not 0 < delta < 1 or least < 1:
            raise UserError("expertise tree", f"{experts} experts, delta {delta}, least {least}", "Mend them.")
        self.experts, self.cuts, self.rate, self.delta, self.least = experts, list(cuts), rate, delta, least
        self._root: dict[str, Any] = self._region(_Leaf(np.zeros(experts)))

    def _region(self, leaf: _Leaf) -> dict[str, Any]:
        shadows = {cut: (_Leaf(np.zeros(self.experts)), _Leaf(np.zeros(self.experts))) for cut in self.cuts}
        return {"leaf": leaf, "shadows": shadows, "start": (leaf.mixture, leaf.n), "split": None}

    def _find(self, x: np.ndarray) -> dict[str, Any]:
        at = self._root
        while at["split"] is not None:
            (feature, cut), children = at["split"]
            at = children[int(x[feature] > cut)]
        return at

    def weights(self, features: np.ndarray) -> np.ndarray:
        """Weights (M,) of the systems for a decision with features (d,)."""
        return np.asarray(self._find(np.asarray(features))["leaf"].weights(self.rate))

    def learn(self, features: np.ndarray, losses: np.ndarray) -> None:
        """Take the losses (M,) of all systems on one item. Raises UserError for losses outside [0, 1]."""
        x, own = np.asarray(features, dtype=np.float64), np.asarray(losses, dtype=np.float64)
        if own.shape != (self.experts,) or not ((own >= 0) & (own <= 1)).all():
            raise UserError("expertise tree", f"losses {own.tolist()}", f"Give {self.experts} in [0, 1].")
        region = self._find(x)
        region["leaf"].learn(own, self.rate)
        for (feature, cut), pair in region["shadows"].items():
            pair[int(x[feature] > cut)].learn(own, self.rate)
        self._maybe_split(region)

    def _maybe_split(self, region: Mapping[str, Any] | dict[str, Any]) -> None:
        began, before = region["start"]
        n = region["leaf"].n - before
        if n < self.least or not region["shadows"]:
            return
        bound = math.sqrt(math.log(len(region["shadows"]) / self.delta) / (2 * n))
        mean = (region["leaf"].mixture - began) / n
        gaps = {cut: mean - (a.mixture + b.mixture) / n for cut, (a, b) in region["shadows"].items() if a.n and b.n}
        best = max(gaps, key=lambda cut: gaps[cut], default=None)
        if best is not None and gaps[best] > bound:
            region["split"] = (best, [self._region(leaf) for leaf in region["shadows"][best]])  # type: ignore[index]

    def splits(self) -> list[tuple[int, float]]:
        """Feature and threshold of every split, the root's first."""
        found, open_ = [], [self._root]
        while open_:
            at = open_.pop(0)
            if at["split"] is not None:
                found.append(at["split"][0])
                open_ += at["split"][1]
        return found
