"""Marginals of counts of labels, features and words, by taking one item's counts away; see `pairs` for the rules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from polypath.diversity.features import route
from polypath.diversity.marginals.texts import loo_distinct_n
from polypath.diversity.measures.counts import (
    Attributes,
    Categories,
    attribute_values,
    class_counts,
    declared_categories,
    entropy_of_counts,
    hill_number,
    pair_difference,
)
from polypath.diversity.measures.ngrams import text_ngrams
from polypath.diversity.measures.text import hdd, mtld

Matrix = NDArray[np.float64]


def of_counts(labels: Sequence[Hashable], value: Callable[[list[int]], float]) -> Matrix:
    """Marginal of a function of the class counts: one evaluation per class; 0 for the label None.

    >>> of_counts(["a", "a", "b", None], lambda counts: float(len(counts))).tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    counts = Counter(label for label in labels if label is not None)
    whole = value(list(counts.values()))
    lost = {}
    for label in counts:
        rest = [count - (other == label) for other, count in counts.items()]
        lost[label] = whole - value([count for count in rest if count])
    return np.array([whole - whole if label is None else lost[label] for label in labels], dtype=float)


def loo_entropy_declared(labels: Sequence[Hashable], *, categories: int) -> Matrix:
    """Of `entropy` divided by the log of the declared number of categories."""
    return of_counts(labels, lambda counts: entropy_of_counts(counts) / math.log(categories))


def loo_entropy_corrected(labels: Sequence[Hashable], *, categories: int | None = None) -> Matrix:
    """Of `entropy_corrected`."""
    return of_counts(
        labels,
        lambda c: entropy_of_counts(c) + ((categories or len(c)) - 1) / (2 * sum(c)) if c else math.nan,
    )


def loo_correct_difference(labels: Sequence[Hashable], correct: Sequence[bool]) -> Matrix:
    """Of `correct_difference`: 0 for what is wrong."""
    return of_counts(_correct(labels, correct), pair_difference)


def loo_distinct_correct(labels: Sequence[Hashable], correct: Sequence[bool]) -> Matrix:
    """Of `distinct_correct`: 1 for the only correct item of its class."""
    found = of_counts(_correct(labels, correct), lambda counts: float(len(counts)))
    return found if len(found) > 1 else np.full(len(found), np.nan)


def loo_approach_diversity(approaches: Sequence[Hashable], correct: Sequence[bool], *, q: float = 1.0) -> Matrix:
    """Of `approach_diversity`: 0 for what is wrong; for evaluation only, as the measure."""
    right = sum(map(bool, correct))
    few = right - np.asarray(correct, dtype=bool) < 2  # of the correct, without the item
    found = of_counts(_correct(approaches, correct), lambda counts: hill_number(counts, q=q))
    return np.where(few | (right < 2), np.nan, found)


def _correct(labels: Sequence[Hashable], correct: Sequence[bool]) -> list[Hashable]:
    return [label if good else None for label, good in zip(labels, correct, strict=True)]


def loo_distinct_routes(texts: Sequence[str]) -> Matrix:
    """Of `distinct_routes`: 1 for the only text of its route."""
    found = of_counts([route(text) for text in texts], lambda counts: float(len(counts)))
    return found if len(found) > 1 else np.full(len(found), np.nan)


def loo_known(labels: Sequence[Hashable], known: AbstractSet[Hashable]) -> Matrix:
    """Of `coverage`: for the only item with a known solution, one of them."""
    return loo_features([{label} for label in labels], known)


def loo_features(features: Sequence[AbstractSet[Hashable]], known: AbstractSet[Hashable]) -> Matrix:
    """Of `feature_coverage`: the share of the known features that only this item activates."""
    times = Counter(one for item in features for one in set(item) & set(known))
    only = [sum(times[one] == 1 for one in set(item) & set(known)) for item in features]
    return np.array(only, dtype=float) / len(known)


def loo_attribute_entropy(attributes: Sequence[Attributes], *, categories: Categories = None) -> Matrix:
    """Of `attribute_entropy`: per attribute one evaluation for each of its values."""
    columns = attribute_values(attributes)
    declared = declared_categories(columns, categories)
    whole = {name: _normalised(class_counts(seen), declared.get(name)) for name, seen in columns.items()}
    changed: dict[tuple[Hashable, Hashable], float] = {}
    for name, seen in columns.items():
        counts = Counter(value for value in seen if value is not None)
        for value in counts:
            rest = [count - (other == value) for other, count in counts.items()]
            changed[name, value] = _normalised([count for count in rest if count], declared.get(name))
    found = []
    for item in attributes:
        own = dict(item.items()) if hasattr(item, "items") else dict(enumerate(item))
        left = [changed.get((name, own[name]), score) if name in own else score for name, score in whole.items()]
        found.append(_mean(list(whole.values())) - _mean(left))
    return np.array(found, dtype=float)


def _normalised(counts: Sequence[int], categories: int | None) -> float:
    size = categories or max(2, len(counts))
    return entropy_of_counts(counts) / math.log(size) if counts and size > 1 else math.nan


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan


def loo_ngram_diversity(texts: Sequence[str], *, largest: int = 4) -> Matrix:
    """Of `ngram_diversity`, a sum of `distinct_n`."""
    return np.sum([loo_distinct_n(texts, n=n, undefined=math.nan) for n in range(1, largest + 1)], axis=0)


def loo_prompt_diversity(prompts: Sequence[str], *, largest: int = 4) -> Matrix:
    """Of `prompt_diversity`: the n-grams that no other prompt has."""
    size = len(prompts)
    if size < 2:
        return np.full(size, np.nan)
    found = np.zeros(size)
    for grams in text_ngrams(prompts, largest):
        gram, owner, _ = grams.by_owner(size)
        times = np.bincount(gram) if len(gram) else np.zeros(0, dtype=int)
        only = np.bincount(owner[times[gram] == 1], minlength=size) if len(gram) else np.zeros(size)
        found += math.log1p(grams.distinct) - np.log1p(grams.distinct - only)
    return found


def loo_self_repetition(texts: Sequence[str], *, n: int = 4) -> Matrix:
    """Of `self_repetition`: what each other text shares with this one is shared no more."""
    size = len(texts)
    if size < 3:
        return np.full(size, np.nan)
    *_, grams = text_ngrams(texts, n)
    gram, owner, _ = grams.by_owner(size)
    shared = np.zeros((size, size))
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(gram)], strict=True):
        if stop - start > 1:
            holders = owner[start:stop]
            shared[np.ix_(holders, holders)] += 1
    np.fill_diagonal(shared, 0.0)
    sums = shared.sum(axis=1)
    without = np.log1p(np.maximum(sums[:, None] - shared, 0.0))
    np.fill_diagonal(without, 0.0)
    return np.asarray(np.log1p(sums).mean() - without.sum(axis=0) / (size - 1))


def loo_mtld(texts: Sequence[str], *, threshold: float = 0.72) -> Matrix:
    """Of `mtld`, a mean over texts."""
    return _of_mean([mtld([text], threshold=threshold) for text in texts])


def loo_hdd(texts: Sequence[str], *, draws: int = 42) -> Matrix:
    """Of `hdd`, a mean over texts."""
    return _of_mean([hdd([text], draws=draws) for text in texts])


def _of_mean(values: Sequence[float]) -> Matrix:
    """Marginal of the mean over the defined values: 0 for an undefined one."""
    array = np.array(values, dtype=float)
    defined = np.isfinite(array)
    count = int(defined.sum())
    if count == 0:
        return np.full(len(array), np.nan)
    total = array[defined].sum()
    rest = (total - np.where(defined, array, 0.0)) / np.maximum(count - defined, 1)
    return np.asarray(np.where(count - defined > 0, total / count - rest, np.nan))
