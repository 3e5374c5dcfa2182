"""Measures of class counts: labels are canonical solutions, answers, clusters; the label None belongs to no class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels.view import to_numpy
from polypath.diversity.measures.traits import EVALUATION_ONLY, INVARIANT, MORE

Attributes = Mapping[str, Hashable] | Sequence[Hashable]
Categories = Mapping[Hashable, int] | Sequence[int] | int | None


def pair_difference(counts: Sequence[int]) -> float:
    """P(two different draws fall into different classes), unbiased: no self pairs; NaN for fewer than two draws.

    >>> round(pair_difference([2, 1]), 4)
    0.6667
    """
    n = sum(counts)
    return 1.0 - sum(m * (m - 1) for m in counts) / (n * (n - 1)) if n > 1 else math.nan


@register("measure", "pairwise_difference", traits={INVARIANT, MORE})
def pairwise_difference(labels: Sequence[Hashable]) -> float:
    """Probability that two items differ in their label (Gini-Simpson without self pairs). NaN for fewer than two."""
    return pair_difference(class_counts(labels))


@register("measure", "correct_difference", traits={INVARIANT, MORE})
def correct_difference(labels: Sequence[Hashable], correct: Sequence[bool]) -> float:
    """Probability that two correct items differ in their label. NaN for fewer than two correct ones."""
    return pair_difference(class_counts(correct_only(labels, correct)))


@register("measure", "distinct", traits={INVARIANT, MORE})
def distinct(labels: Sequence[Hashable]) -> float:
    """How many different labels occur. NaN for an empty set."""
    return float(len(class_counts(labels))) if len(labels) else math.nan


@register("measure", "distinct_correct", traits={INVARIANT, MORE})
def distinct_correct(labels: Sequence[Hashable], correct: Sequence[bool]) -> float:
    """How many different labels occur among the correct items: 0 when none is correct, NaN for an empty set."""
    return float(len(class_counts(correct_only(labels, correct)))) if len(labels) else math.nan


@register("measure", "coverage", traits={INVARIANT, MORE})
def coverage(labels: Sequence[Hashable], known: AbstractSet[Hashable]) -> float:
    """Share of the known solutions that occur, in [0, 1]. Raises UserError when none is known.

    >>> coverage(["a", "a", "b", "x"], {"a", "b", "c", "d"})
    0.5
    """
    if not known:
        raise UserError("known", "is empty", "Give the known solutions of the prompt.")
    return len(set(labels) & set(known)) / len(known)


@register("measure", "feature_coverage", paper="arXiv:2602.10388 [2.83]", traits={INVARIANT, MORE})
def feature_coverage(features: Sequence[AbstractSet[Hashable]], known: AbstractSet[Hashable]) -> float:
    """Feature activation coverage: the share of the `known` (task-relevant) features that some item activates.

    `features` holds the set of active features of each item, see `features.active_features`. Raises UserError when
    nothing is known.

    >>> feature_coverage([{1, 2}, {2, 3}], {2, 4})
    0.5
    """
    if not known:
        raise UserError("known", "is empty", "Give the features of an anchor corpus.")
    return 1.0 - len(missing_features(features, known)) / len(known)


def missing_features(features: Sequence[AbstractSet[Hashable]], known: AbstractSet[Hashable]) -> set[Hashable]:
    """The known features that no item activates: what data should be synthesised for."""
    return set(known).difference(*features)


@register("measure", "entropy", traits={INVARIANT, MORE})
def entropy(labels: Sequence[Hashable], *, categories: int | None = None) -> float:
    """Shannon entropy of the label shares in nats; divided by log(categories) when that number is declared.

    Raises UserError for more labels than declared. NaN for an empty set and for fewer than two categories.

    >>> round(entropy("aaaabbcc", categories=3), 6)
    0.946395
    """
    counts = class_counts(labels)
    if not counts or (categories is not None and categories < 2):
        return math.nan
    _declared(counts, categories)
    value = entropy_of_counts(counts)
    return value / math.log(categories) if categories else value


def entropy_of_counts(counts: Sequence[int]) -> float:
    """Shannon entropy of shares in nats; NaN for none."""
    return math.log(hill_number(counts, q=1.0)) if counts else math.nan


@register("measure", "entropy_corrected", paper="Miller 1955", traits={INVARIANT, MORE})
def entropy_corrected(labels: Sequence[Hashable], *, categories: int | None = None) -> float:
    """Shannon entropy in nats with the Miller-Madow correction, + (classes - 1) / (2 n). NaN for an empty set.

    The plug-in value is too low by about that much. The classes are the declared `categories`, or those that occur.

    >>> round(entropy_corrected("aabb"), 6), round(entropy_corrected("aabb", categories=4), 6)
    (0.818147, 1.068147)
    """
    counts = class_counts(labels)
    if not counts:
        return math.nan
    _declared(counts, categories)
    return entropy_of_counts(counts) + ((categories or len(counts)) - 1) / (2 * sum(counts))


def _declared(counts: Sequence[int], categories: int | None) -> None:
    if categories is not None and len(counts) > categories:
        raise UserError("categories", f"are {categories}, but {len(counts)} labels occur", "Declare all of them.")


@register("measure", "hill", paper="doi:10.2307/1934352", traits={INVARIANT, MORE})
def hill(labels: Sequence[Hashable], *, q: float = 1.0) -> float:
    """Effective number of classes, the Hill number of order `q` of the label shares. NaN for an empty set.

    >>> [round(hill("aaaabbcc", q=q), 6) for q in (0, 1, 2)]
    [3.0, 2.828427, 2.666667]
    """
    return hill_number(class_counts(labels), q=q)


def hill_number(weights: ArrayLike, *, q: float) -> float:
    """(sum p^q)^(1/(1-q)) of weights >= 0 after scaling to sum 1; q = 1 and q = inf are the limits. NaN for none."""
    if not q >= 0:
        raise UserError("order q", f"is {q}", "Give a number >= 0, or inf.")
    p = np.asarray(weights, dtype=float)
    p = p[p > 0]
    if p.size == 0:
        return math.nan
    p = p / p.sum()
    if q == 1:
        return float(np.exp(-(p * np.log(p)).sum()))
    return float(1 / p.max()) if math.isinf(q) else float((p**q).sum() ** (1 / (1 - q)))


@register("measure", "attribute_entropy", paper="GRADE, arXiv:2410.22592 [1.72]", traits={INVARIANT, MORE})
def attribute_entropy(attributes: Sequence[Attributes], *, categories: Categories = None) -> float:
    """Mean over attributes of the entropy of their values divided by log(number of possible values), in [0, 1].

    `attributes` holds a mapping of attribute to value per item, or a row with one value per attribute; "none" is a
    value, a missing attribute is left out. `categories` is how many values each can take, fixed before reading: by
    attribute, in order, or one number for all. Without it those that occur are counted, which raises the value. An
    attribute of one category is left out. NaN for no items or no attribute.

    >>> round(attribute_entropy([["round"]] * 49 + [["square"]], categories=[2]), 6)
    0.141441
    """
    scores = attribute_entropies(attributes, categories=categories).values()
    defined = [score for score in scores if not math.isnan(score)]
    return float(np.mean(defined)) if defined else math.nan


def attribute_entropies(attributes: Sequence[Attributes], *, categories: Categories = None) -> dict[Hashable, float]:
    """The normalised entropy of each attribute, NaN for one declared to have a single category."""
    columns = attribute_values(attributes)
    declared = declared_categories(columns, categories)
    return {
        name: entropy(seen, categories=declared.get(name) or max(2, len(class_counts(seen))))
        for name, seen in columns.items()
    }


def declared_categories(columns: Mapping[Hashable, object], categories: Categories) -> dict[Hashable, int | None]:
    """The declared number of values of each attribute, None where none is. Raises UserError for too many or few."""
    if isinstance(categories, Mapping):
        return {name: categories.get(name) for name in columns}
    if not isinstance(categories, Sequence):
        return dict.fromkeys(columns, categories)
    if columns and len(categories) != len(columns):
        what = f"are {len(categories)} for {len(columns)} attributes"
        raise UserError("categories", what, "Give one per attribute.")
    return dict(zip(columns, categories, strict=False))


def default_behaviours(attributes: Sequence[Attributes], *, share: float = 0.8) -> dict[Hashable, Hashable]:
    """The attributes of which one value makes up at least `share` of the items, with that value.

    >>> default_behaviours([{"shape": "round"}] * 49 + [{"shape": "square"}])
    {'shape': 'round'}
    """
    found = {}
    for name, seen in attribute_values(attributes).items():
        value, count = Counter(seen).most_common(1)[0]
        if count >= share * len(seen):
            found[name] = value
    return found


def attribute_values(attributes: Sequence[Attributes]) -> dict[Hashable, list[Hashable]]:
    """The values of each attribute over the items; attributes of plain rows are named 0, 1, ..."""
    found: dict[Hashable, list[Hashable]] = {}
    for item in attributes:
        for name, value in item.items() if isinstance(item, Mapping) else enumerate(item):
            found.setdefault(name, []).append(value)
    return found


@register("measure", "approach_diversity", paper="[0.9]", traits={INVARIANT, MORE, EVALUATION_ONLY})
def approach_diversity(approaches: Sequence[Hashable], correct: Sequence[bool], *, q: float = 1.0) -> float:
    """Effective number (Hill number of order `q`) of approaches among the correct solutions. NaN for fewer than two.

    `approaches` are a judge's groups, see `features.approaches`. For evaluation only: a policy that is rewarded
    by this judge learns to please the judge. q = 0 counts the approaches; `pairwise_difference` of the same groups is
    the share of pairs that differ.
    """
    right = correct_only(approaches, correct)
    return hill_number(class_counts(right), q=q) if len(right) >= 2 else math.nan


@register("measure", "inception_score", paper="arXiv:1606.03498 [2.46]", traits={INVARIANT, MORE})
def inception_score(probabilities: ArrayLike) -> float:
    """exp of the mean divergence of each item's class probabilities from their mean, in [1, classes].

    High when a classifier is sure of each item and the items differ: it cannot tell variety from confidence. Shapes:
    (n, classes), rows summing to 1. NaN for no items. Raises UserError for rows that are no probabilities.

    >>> inception_score([[1, 0], [0, 1]]), inception_score([[0.5, 0.5], [0.5, 0.5]])
    (2.0, 1.0)
    """
    p = to_numpy(probabilities)
    if p.size == 0:
        return math.nan
    if p.ndim != 2 or not (p >= 0).all() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-3):
        raise UserError("probabilities", f"of shape {p.shape} do not sum to 1 in each row", "Give softmax(logits).")
    shared = np.broadcast_to(p.mean(axis=0), p.shape)
    return float(np.exp((p[p > 0] * np.log(p[p > 0] / shared[p > 0])).sum() / len(p)))


def class_counts(labels: Sequence[Hashable]) -> list[int]:
    """How often each label occurs, in order of first appearance; None is left out."""
    return list(Counter(label for label in labels if label is not None).values())


def correct_only(labels: Sequence[Hashable], correct: Sequence[bool]) -> list[Hashable]:
    """The labels of the correct items. Raises ValueError for different lengths."""
    return [label for label, right in zip(labels, correct, strict=True) if right]
