"""Surface features of a set of texts: n-gram sets and hashed n-gram counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.registry import register
from polypath.diversity.features.signature import Features, Signature
from polypath.diversity.features.words import ngrams, tokens
from polypath.diversity.kernels.view import detached

SEPARATOR = "\x1f"  # between the words of an n-gram; no token holds it


@register("features", "ngram_sets", returns="features")
def ngram_sets(texts: Sequence[str], *, orders: Sequence[int] = (1, 2, 3)) -> Features:
    """The set of word n-grams of each text, for the Jaccard kernel. An empty text has the empty set."""
    values = [ngrams(tokens(text), orders) for text in texts]
    return Features(values, Signature("ngram_sets", knobs={"orders": list(orders)}))


@register("features", "hashed_ngrams", returns="features")
def hashed_ngrams(
    texts: Sequence[str],
    *,
    orders: Sequence[int] = (1, 2),
    dims: int = 1024,
    unit: Literal["word", "character"] = "word",
) -> Features:
    """Counts of n-grams hashed with random signs into `dims` buckets (Weinberger et al. 2009, arXiv:0902.2206).

    Inner products equal those of the full count vectors in expectation. The hash is the same on every machine.
    Values: (n, dims); a text without n-grams is a row of zeros.
    """
    rows = np.zeros((len(texts), dims))
    for row, text in zip(rows, texts, strict=True):
        units = tokens(text) if unit == "word" else list(text)
        grams = [SEPARATOR.join(units[start : start + n]) for n in orders for start in range(len(units) - n + 1)]
        codes = np.array([crc32(gram.encode("utf-8", "surrogatepass")) for gram in grams], dtype=np.int64)
        np.add.at(row, (codes >> 1) % dims, np.where(codes & 1, 1.0, -1.0))
    return Features(rows, Signature("hashed_ngrams", dims=dims, knobs={"orders": list(orders), "unit": unit}))


@register("features", "active_features", returns="features", paper="arXiv:2602.10388 [2.83]")
def active_features(activations: ArrayLike, *, threshold: float = 0.0) -> Features:
    """The set of features of each item whose activation exceeds `threshold`, for `measures.feature_coverage`.

    Shapes: `activations` (n, f), of a sparse autoencoder the largest over an item's tokens, or any sparse feature map.
    Longer texts activate more: cap their tokens.

    >>> active_features([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]], threshold=1.0).values
    [{1}, set()]
    """
    values = [set(np.flatnonzero(row > threshold).tolist()) for row in np.asarray(detached(activations))]
    return Features(values, Signature("active_features", knobs={"threshold": threshold}))
