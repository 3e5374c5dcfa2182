"""The baseline that every decision model should have to beat: TF-IDF features and a closed-form ridge head."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from polypath.core.errors import UserError
from polypath.core.seeds import rng
from polypath.decide.answers import softmax
from polypath.decide.head import fit_head

WORD = re.compile(r"\w+", re.UNICODE)
SHARPEN = 5.0  # one-hot regression scores lie near 0 to 1; as logits they would be nearly uniform


def tfidf(texts: Sequence[str], fitted_on: Sequence[str]) -> np.ndarray:
    """Rows (n, V) of unit norm over the words of `fitted_on`: (1 + ln tf) (1 + ln((1 + N) / (1 + df))).

    >>> tfidf(["a b", "c"], ["a b", "b"]).round(3).tolist()
    [[0.815, 0.58], [0.0, 0.0]]
    """
    document_counts = Counter(word for text in fitted_on for word in set(words(text)))
    column = {word: i for i, word in enumerate(sorted(document_counts))}
    out = np.zeros((len(texts), len(column)))
    for row, text in zip(out, texts, strict=True):
        for word, count in Counter(words(text)).items():
            if word in column:
                rarity = 1 + math.log((1 + len(fitted_on)) / (1 + document_counts[word]))
                row[column[word]] = (1 + math.log(count)) * rarity
    norm = np.linalg.norm(out, axis=1, keepdims=True)
    return out / np.where(norm > 0, norm, 1)


def words(text: str) -> list[str]:
    """Lower-case words."""
    return WORD.findall(text.lower())


def baseline_probabilities(
    states: Sequence[str],
    labels: Sequence[int],
    *,
    classes: int,
    groups: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
) -> np.ndarray:
    """Out-of-fold probabilities (n, K): each item is answered by a head that has not seen it.

    Equal states share a fold, or those of one group where `groups` are given. Raises UserError for fewer items than
    two folds hold.
    """
    units = states if groups is None else groups
    distinct = sorted(set(units))
    if len(distinct) < 2:
        raise UserError("baseline", f"{len(distinct)} different states", "Give at least two.")
    rng(seed, "baseline").shuffle(distinct)
    fold = {unit: i % min(folds, len(distinct)) for i, unit in enumerate(distinct)}
    own = np.array([fold[unit] for unit in units])
    y = np.asarray(labels)
    out = np.full((len(states), classes), np.nan)
    for k in range(max(own) + 1):
        train, test = np.flatnonzero(own != k), np.flatnonzero(own == k)
        known = [int(c) for c in np.unique(y[train])]  # a class that no training item has gets no score of its own
        seen = [states[int(i)] for i in train]
        head = fit_head(
            tfidf(seen, seen), [known.index(c) for c in y[train]], classes=len(known), kind="ridge", shrink=0.3
        )
        scores = np.zeros((len(test), classes))
        scores[:, known] = head.scores(tfidf([states[int(i)] for i in test], seen))
        out[test] = softmax(SHARPEN * scores)
    return out
