"""Self-BLEU in one pass: exact multi-reference BLEU of every text against all the others, in O(tokens)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from polypath.core.registry import register
from polypath.diversity.features import tokens
from polypath.diversity.measures.traits import INVARIANT, LESS

Ints = NDArray[np.int64]


@register("measure", "self_bleu", paper="arXiv:1802.01886", traits={INVARIANT, LESS})
def self_bleu(texts: Sequence[str], *, n: int = 4, epsilon: float = 0.1) -> float:
    """Mean BLEU of each text against all the others as references, in [0, 1]. NaN for fewer than two texts.

    Counts of zero are smoothed to `epsilon` (method 1 of Chen & Cherry 2014). The clipping count of an n-gram is its
    largest count in the *other* texts: the largest of all, or the second largest for the text that holds it. So one
    pass over the tokens gives the exact multi-reference value.

    >>> round(self_bleu(["the cat sat on the mat", "the cat sat on a mat", "dogs run fast in the park"]), 6)
    0.371798
    """
    if len(texts) < 2:
        return math.nan
    return float(bleu_against_others([tokens(text) for text in texts], n=n, epsilon=epsilon).mean())


def bleu_against_others(documents: Sequence[Sequence[str]], *, n: int = 4, epsilon: float = 0.1) -> NDArray[np.float64]:
    """BLEU of each of two or more token lists with all the others as its references."""
    lengths = np.fromiter(map(len, documents), np.int64, len(documents))
    codes = _codes(documents)
    owners = np.repeat(np.arange(len(documents)), lengths)
    log_precision = np.zeros(len(documents))
    grams, unigrams = codes, np.zeros(len(documents))
    for order in range(1, n + 1):
        if (
            order > 1
        ):  # an n-gram is the pair (its first n - 1 tokens, its last): renumbered densely, so it never overflows
            inside = owners[: len(grams) - 1] == owners[order - 1 :]
            grams = _dense(grams[:-1] * (codes.max(initial=0) + 1) + codes[order - 1 :])
            grams = np.where(inside, grams, -1)
        matches = _clipped_matches(grams, owners[: len(grams)], len(documents))
        totals = np.maximum(1, lengths - order + 1)
        log_precision += np.log(np.where(matches > 0, matches, epsilon) / totals) / n
        unigrams = matches if order == 1 else unigrams
    return np.where(unigrams > 0, _brevity(lengths) * np.exp(log_precision), 0.0)


def _codes(documents: Sequence[Sequence[str]]) -> Ints:
    """All tokens of all documents in order, as integers 0, 1, ... by first appearance."""
    names: dict[str, int] = {}
    return np.fromiter((names.setdefault(word, len(names)) for word in chain.from_iterable(documents)), np.int64)


def _dense(keys: Ints) -> Ints:
    """The same partition of positions with class numbers 0, 1, ..."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _clipped_matches(grams: Ints, owners: Ints, documents: int) -> NDArray[np.float64]:
    """For each document, how many of its n-grams occur in the others, each clipped at its largest count there.

    `grams` numbers the n-gram at each position, -1 for none; `owners` is the document of the position.
    """
    real = grams >= 0
    if not real.any():
        return np.zeros(documents)
    keys, counts = np.unique(grams[real] * documents + owners[real], return_counts=True)
    gram, owner = np.divmod(keys, documents)
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    sizes = np.diff(starts, append=len(gram))
    largest = np.repeat(np.maximum.reduceat(counts, starts), sizes)
    at_top = counts == largest
    alone = at_top & (np.repeat(np.add.reduceat(at_top.astype(np.int64), starts), sizes) == 1)
    second = np.repeat(np.maximum.reduceat(np.where(alone, 0, counts), starts), sizes)
    elsewhere = np.where(alone, second, largest)
    clipped = np.minimum(counts, elsewhere).astype(np.float64)
    return np.bincount(owner, weights=clipped, minlength=documents).astype(np.float64)


def _brevity(lengths: Ints) -> NDArray[np.float64]:
    """BLEU's brevity penalty of each text against the closest length among the others (the shorter one if tied)."""
    values, where, counts = np.unique(lengths, return_inverse=True, return_counts=True)
    far = np.iinfo(np.int64).max // 2
    longer = np.append(values[1:], far) - values
    shorter = values - np.append(-far, values[:-1])
    penalised = (counts == 1) & (longer < shorter) & (values > 0)
    penalty = np.where(penalised, np.exp(-longer / np.maximum(values, 1)), 1.0)
    return np.where(values[where] > 0, penalty[where], 0.0)
