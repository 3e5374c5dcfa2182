"""A system's answers to labelled items: every figure with an interval over groups, and two systems on equal items."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.answers import p_max
from polypath.decide.baseline import baseline_probabilities
from polypath.decide.group_metrics import (
    auroc,
    order_accuracy,
    pair_accuracy,
    pair_accuracy_fitted,
    ranked_probability_score,
)
from polypath.decide.metrics import aurc, brier, coverage_at_risk, ece, ece_floor, mean_nll
from polypath.decide.probe import Item
from polypath.decide.readout import ask
from polypath.decide.types import Question, Score, YesNo
from polypath.evaluate.resample import McNemar, bootstrap, mcnemar, members_of
from polypath.evaluate.stats import Estimate

if TYPE_CHECKING:
    from polypath.engines.transformers import TransformersPolicy


@dataclass(frozen=True)
class Told:
    """Labelled items and the probabilities (K_i,) that one system gave to their options."""

    items: Sequence[Item]
    probabilities: Sequence[np.ndarray]

    def __post_init__(self) -> None:
        for place, (item, p) in enumerate(zip(self.items, self.probabilities, strict=True)):
            count = len(item.question.options)
            if len(p) != count or not np.isfinite(p).all() or (p < 0).any():
                what = f"the probabilities {np.asarray(p).tolist()} do not belong to {count} options"
                raise UserError(f"item {place}", what, "Give a finite number, not negative, for each option.")

    @property
    def hits(self) -> np.ndarray:
        """Whether the most probable option is the correct one, per item."""
        return np.array([float(np.argmax(p) == item.correct) for item, p in self.pairs()])

    @property
    def units(self) -> list[Hashable]:
        """What is resampled: the contrast group of an item, or its state, whose questions share their luck."""
        return [("group", item.group) if item.group else ("state", item.state) for item in self.items]

    def pairs(self) -> list[tuple[Item, np.ndarray]]:
        """Items with their probabilities."""
        return list(zip(self.items, self.probabilities, strict=True))


def figures(told: Told, *, draws: int = 1000, seed: int = 0) -> dict[str, Estimate]:
    """All figures with 95 % intervals over groups; NaN with n = 0 where no item can show them.

    `ece_floor` is the ECE that perfectly calibrated answers would show on as many items.
    """
    members = members_of(told.units)
    found = {
        name: bootstrap(own, len(members), n=n, draws=draws, seed=seed) for name, (own, n) in statistics(told).items()
    }
    sure = np.array([p_max(p) for p in told.probabilities])
    floor = Estimate(ece_floor(sure, seed=seed), math.nan, math.nan, len(sure))
    none = Estimate(math.nan, math.nan, math.nan, 0)
    return {name: own if own.n else none for name, own in found.items()} | {"ece_floor": floor}


def statistics(told: Told) -> dict[str, tuple[Callable[[np.ndarray], float], int]]:
    """Per figure: its value on resampled groups, by their numbers, and the number of observations behind it."""
    members = members_of(told.units)
    sure = np.array([p_max(p) for p in told.probabilities])
    hit, p, y = told.hits, list(told.probabilities), [item.correct for item in told.items]
    brier_each = np.array([brier([own], [i]) for own, i in zip(p, y, strict=True)])
    nll_each = np.array([mean_nll([own], [i]) for own, i in zip(p, y, strict=True)])
    level = np.array([isinstance(item.question, Score) for item in told.items], dtype=bool)
    rps_each = np.array([ranked_probability_score(o, i) if s else 0.0 for o, i, s in zip(p, y, level, strict=True)])
    asked = np.array([isinstance(item.question, YesNo) for item in told.items], dtype=bool)
    says_yes = np.array([own[0] if yes else math.nan for own, yes in zip(p, asked, strict=True)])
    is_yes = np.array(y) == 0

    def over(items: Callable[[np.ndarray], float], where: np.ndarray | None = None) -> Callable[[np.ndarray], float]:
        kept = members if where is None else [own[where[own]] for own in members]
        return lambda groups: items(np.concatenate([kept[g] for g in groups])) if len(groups) else math.nan

    n = len(hit)
    found: dict[str, tuple[Callable[[np.ndarray], float], int]] = {
        "accuracy": (over(lambda i: mean(hit[i])), n),
        "brier": (over(lambda i: mean(brier_each[i])), n),
        "nll": (over(lambda i: mean(nll_each[i])), n),
        "ece": (over(lambda i: ece(sure[i], hit[i])), n),
        "aurc": (over(lambda i: aurc(sure[i], hit[i])), n),
        "failure_auroc": (over(lambda i: auroc(sure[i], hit[i])), n),
        "coverage_at_5%_risk": (over(lambda i: coverage_at_risk(sure[i], hit[i], risk=0.05)), n),
        "auroc": (over(lambda i: auroc(says_yes[i], is_yes[i]), asked), int(asked.sum())),
        "rps": (over(lambda i: mean(rps_each[i]), level), int(level.sum())),
    }
    return found | contrast_statistics(told, members, hit)


def contrast_statistics(
    told: Told, members: Sequence[np.ndarray], hit: np.ndarray
) -> dict[str, tuple[Callable[[np.ndarray], float], int]]:
    """Figures of contrast groups: all members right, and yes/no pairs of one group with opposite labels."""
    grouped = [bool(told.items[own[0]].group) and len(own) > 1 for own in members]
    whole = np.array([all(hit[own]) if yes else math.nan for own, yes in zip(members, grouped, strict=True)])
    pairs: list[list[tuple[float, float]]] = []
    for own, yes in zip(members, grouped, strict=True):
        sides: tuple[list[float], list[float]] = ([], [])
        for i in own if yes else ():
            if isinstance(told.items[i].question, YesNo):
                sides[told.items[i].correct].append(float(told.probabilities[i][0]))
        pairs.append([(plus, minus) for plus in sides[0] for minus in sides[1]])

    def paired(of: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[np.ndarray], float]:
        def value(groups: np.ndarray) -> float:
            drawn = np.array([pair for g in groups for pair in pairs[g]]).reshape(-1, 2)
            return of(drawn[:, 0], drawn[:, 1])

        return value

    count = sum(map(len, pairs))
    return {
        "group_accuracy": (lambda g: mean(whole[g][~np.isnan(whole[g])]), sum(grouped)),
        "order_accuracy": (paired(order_accuracy), count),
        "pair_accuracy": (paired(pair_accuracy), count),
        "pair_accuracy_fitted": (paired(pair_accuracy_fitted), count),
    }


def mean(values: np.ndarray) -> float:
    """NaN for none."""
    return float(values.mean()) if len(values) else math.nan


def compare(first: Told, second: Told, *, draws: int = 1000, seed: int = 0) -> tuple[dict[str, Estimate], McNemar]:
    """Second minus first for every figure, over the same resampled groups, and McNemar's test on the items.

    Raises UserError when the two did not answer the same items in the same order.
    """
    if list(first.items) != list(second.items):
        raise UserError("compare", "the two systems answered different items", "Evaluate both on the same file.")
    one, other = statistics(first), statistics(second)
    count = len(members_of(first.units))

    def gap(name: str) -> Callable[[np.ndarray], float]:
        return lambda groups: other[name][0](groups) - one[name][0](groups)

    found = {name: bootstrap(gap(name), count, n=n, draws=draws, seed=seed) for name, (_, n) in one.items() if n}
    return found, mcnemar(first.hits.tolist(), second.hits.tolist())


def answers_of(policy: TransformersPolicy, items: Sequence[Item], *, readout: str, length: str) -> Told:
    """The model's answers; all questions about one state share one forward pass."""
    by_state: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        by_state.setdefault(item.state, []).append(i)
    found: list[np.ndarray] = [np.empty(0)] * len(items)
    for state, members in by_state.items():
        answers = ask(policy, state, {str(i): items[i].question for i in members}, readout=readout, length=length)
        for i in members:
            found[i] = answers[str(i)].probabilities
    return Told(items, found)


def baseline_of(items: Sequence[Item], *, seed: int = 0) -> Told:
    """TF-IDF with a ridge head per question, out of fold; the members of a contrast group share a fold."""
    by_question: dict[Question, list[int]] = {}
    for i, item in enumerate(items):
        by_question.setdefault(item.question, []).append(i)
    found: list[np.ndarray] = [np.empty(0)] * len(items)
    for question, members in by_question.items():
        states, labels = [items[i].state for i in members], [items[i].correct for i in members]
        units = [items[i].group or items[i].state for i in members]
        count = len(question.options)
        if len(set(units)) < 2:  # nothing to learn from
            rows = np.full((len(members), count), 1 / count)
        else:
            rows = baseline_probabilities(states, labels, classes=count, groups=units, seed=seed)
        for i, row in zip(members, rows, strict=True):
            found[i] = row
    return Told(items, found)
