"""Features that a judge gives: attributes of texts, groups of approaches; and outcomes as vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.features.signature import Features, Signature
from polypath.diversity.partitions import union_find

AttributeJudge = Callable[[str, str, Sequence[str]], str]  # (text, attribute, values) -> one of the values
OTHER = "other"


def judged_attributes(texts: Sequence[str], judge: AttributeJudge, values: Mapping[str, Sequence[str]]) -> Features:
    """Read the attributes of each text with `judge`: one mapping per text, for `measures.attribute_entropy` ([1.72]).

    `values` declares what each attribute can be, before anything is read; an answer outside of it counts as "other".
    """
    if not values or any(len(options) < 2 for options in values.values()):
        raise UserError(
            "judged_attributes", "an attribute needs at least two values", "Declare attribute: [a, b, ...]."
        )
    found = [
        {
            name: answer if answer in options else OTHER
            for name, options in values.items()
            for answer in [judge(text, name, options)]
        }
        for text in texts
    ]
    return Features(
        found, Signature("judged_attributes", knobs={name: list(options) for name, options in values.items()})
    )


def approaches(
    texts: Sequence[str], judge: Callable[[Sequence[str]], Sequence[Hashable]], *, orders: int = 3
) -> list[int]:
    """Approach labels by a judge that groups texts; a pair is the same when most of `orders` rotations say so.

    Transitive closure, labels by first appearance. Source: approach-level diversity (0.9). For evaluation only: the
    paper shows that a policy trained on this judge exploits it. Raises ValueError when the judge skips a text.
    """
    n = len(texts)
    votes = np.zeros((n, n))
    for turn in range(orders):
        order = [(i + turn * max(1, n // orders)) % n for i in range(n)]
        named = judge([texts[i] for i in order])
        if len(named) != n:
            raise ValueError(f"the judge labelled {len(named)} of {n} texts")
        for i, a in zip(order, named, strict=True):
            for j, b in zip(order, named, strict=True):
                votes[i, j] += a == b
    return [int(label) for label in union_find(votes * 2 > orders)] if n else []


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    """Agreement of two raters beyond chance, (p_o - p_e) / (1 - p_e). NaN for no items or when chance agrees fully.

    >>> round(cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0]), 6)  # p_o = 3/4, p_e = 1/2 * 1/4 + 1/2 * 3/4
    0.5
    """
    n = len(a)
    if n == 0:
        return float("nan")
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / n
    left, right = Counter(a), Counter(b)
    chance = sum(left[label] * right[label] for label in left) / n**2
    return (observed - chance) / (1 - chance) if chance < 1 else float("nan")


@register("features", "outcome_vectors", returns="features")
def outcome_vectors(outcomes: ArrayLike) -> Features:
    """Outcomes (items, models or tests) of 0 and 1 centred per column and scaled to unit length, for the cosine kernel.

    Items with the same pattern of successes coincide; NaN (not run) counts as the column's mean. An item that behaves
    like the mean everywhere is a row of zeros.
    """
    matrix = np.array(outcomes, dtype=float)
    if matrix.ndim != 2:
        raise UserError("outcomes", f"have shape {matrix.shape}", "Give one row per item.")
    run = ~np.isnan(matrix)
    means = np.where(run, matrix, 0.0).sum(axis=0) / np.maximum(1, run.sum(axis=0))
    centred = np.where(run, matrix - means, 0.0)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    values: Any = centred / np.where(norms > 0, norms, 1.0)
    return Features(values, Signature("outcome_vectors", dims=matrix.shape[1]))
