"""Self-BLEU in one pass: exact multi-reference BLEU of every text against all the others, in O(tokens)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polypath.core.registry import register
from polypath.diversity.features import tokens
from polypath.diversity.measures.ngrams import Ints, NGrams, numbered_ngrams
from polypath.diversity.measures.traits import INVARIANT, LESS


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
    log_precision, unigrams = np.zeros(len(documents)), np.zeros(len(documents))
    for grams in numbered_ngrams(documents, n):
        matches = _clipped_matches(grams, len(documents))
        totals = np.maximum(1, lengths - grams.order + 1)
        log_precision += np.log(np.where(matches > 0, matches, epsilon) / totals) / n
        unigrams = matches if grams.order == 1 else unigrams
    return np.where(unigrams > 0, _brevity(lengths) * np.exp(log_precision), 0.0)


def _clipped_matches(grams: NGrams, documents: int) -> NDArray[np.float64]:
    """For each document, how many of its n-grams occur in the others, each clipped at its largest count there."""
    if len(grams.codes) == 0:
        return np.zeros(documents)
    gram, owner, counts = grams.by_owner(documents)
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    sizes = np.diff(starts, append=len(gram))
    largest = np.repeat(np.maximum.reduceat(counts, starts), sizes)
    at_top = counts == largest
    alone = at_top & (np.repeat(np.add.reduceat(at_top.astype(np.int64), starts), sizes) == 1)
    second = np.repeat(np.maximum.reduceat(np.where(alone, 0, counts), starts), sizes)
    clipped = np.minimum(counts, np.where(alone, second, largest)).astype(np.float64)
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
