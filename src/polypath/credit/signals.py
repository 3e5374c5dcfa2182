"""Diversity signals: one number per rollout, from what it shares with its group. All are equal for exact duplicates."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, TypeVar

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float
from polypath.core.registry import register
from polypath.diversity.features import tokens, unshared_ngrams
from polypath.diversity.marginals import DUPLICATE_SAFE, loo_logdet
from polypath.diversity.partitions import class_sizes

Item = TypeVar("Item", bound=Hashable)


@register("signal", "distinctness", returns="diversity", paper="arXiv:2509.02534", traits=DUPLICATE_SAFE)
def distinctness(labels: Array, *, floor: float = 0.0) -> Array:
    """Share of the other rollouts that are in another class, (G - f)/(G - 1), at least `floor`; 1 for a group of one.

    Shapes: (..., G) -> (..., G).

    >>> distinctness([0, 0, 0, 1]).round(4).tolist()
    [0.3333, 0.3333, 0.3333, 1.0]
    """
    sizes = as_float(class_sizes(labels))
    xp = array_namespace(sizes)
    size = sizes.shape[-1]
    share = (size - sizes) / (size - 1) if size > 1 else xp.ones_like(sizes)
    return xp.where(share < floor, floor * xp.ones_like(share), share)


@register("signal", "uniqueness", returns="diversity", paper="Uniqueness-aware RL (0.6)", traits=DUPLICATE_SAFE)
def uniqueness(labels: Array, *, alpha: float = 1.0) -> Array:
    """Inverse size of the own class, f^-alpha. Shapes: (..., G) -> (..., G).

    >>> uniqueness([0, 0, 1]).tolist()
    [0.5, 0.5, 1.0]
    """
    return as_float(class_sizes(labels)) ** -alpha


@register("signal", "rarity", returns="diversity", traits=DUPLICATE_SAFE)
def rarity(labels: Array, correct: Array, *, alpha: float = 0.5) -> Array:
    """m^-alpha with m the number of *correct* rollouts of the same class; 0 for a wrong rollout.

    A wrong rollout neither gets credit nor makes a correct one common. Shapes: (..., G), bool (..., G) -> (..., G).

    >>> rarity([0, 0, 1, 1], [True, True, True, False], alpha=1.0).tolist()
    [0.5, 0.5, 1.0, 0.0]
    """
    counts = as_float(class_sizes(labels, among=correct))
    xp = array_namespace(counts)
    correct = as_array(correct)
    return xp.where(correct, xp.where(correct, counts, xp.ones_like(counts)) ** -alpha, xp.zeros_like(counts))


@register("signal", "inverse_redundancy", returns="diversity", paper="DRA-GRPO (0.83)", traits=DUPLICATE_SAFE)
def inverse_redundancy(
    similarity: Array,
    *,
    information: Literal["graph_cut", "facility", "log_det"] = "graph_cut",
    eps: float = 1e-6,
    ridge: float = 1e-2,
) -> Array:
    """1/(1 + I + eps), I the submodular mutual information of a rollout with the others of its group.

    "graph_cut": the sum of its similarities to them; "facility": the largest of them; "log_det": log K_ii minus the
    rollout's marginal of log det(K + ridge I). A negative similarity counts as 0 in the first two.
    Shapes: (..., G, G), with diagonal 1 -> (..., G).
    """
    similarity = as_float(similarity)
    xp = array_namespace(similarity)
    if information == "log_det":
        shared = math.log1p(ridge) - loo_logdet(similarity, ridge=ridge)
    else:
        itself = xp.eye(similarity.shape[-1], dtype=xp.bool)
        others = xp.where(itself, xp.zeros_like(similarity), xp.clip(similarity, min=0.0))
        shared = xp.sum(others, axis=-1) if information == "graph_cut" else xp.max(others, axis=-1)
    return 1.0 / (1.0 + shared + eps)


@register("signal", "ngram_unique_share", returns="diversity", paper="DPWriter (0.8)", traits=DUPLICATE_SAFE)
def ngram_unique_share(
    texts: Sequence[str], *, shortest: int = 2, longest: int = 4, minmax: bool = True, floor: float = 0.0
) -> np.ndarray:
    """Number of n-grams that no other text of the group has, per token; with `minmax` rescaled to [floor, 1].

    Equal shares give 1 for all under `minmax`. An empty text has share 0.
    Shapes: G texts, or B lists of G -> (..., G). Source: the release of DPWriter (2-, 3- and 4-grams).

    >>> ngram_unique_share(["a b c d", "a b c e", "x y z w v"], minmax=False).tolist()
    [0.75, 0.75, 1.8]
    """
    nested = len(texts) > 0 and isinstance(texts[0], list | tuple)
    words = [[tokens(text) for text in group] for group in (texts if nested else [texts])]
    lengths = np.array([[max(len(row), 1) for row in group] for group in words])
    share = unshared_ngrams(words, range(shortest, longest + 1)) / lengths
    share = share if nested else share[0]
    if not minmax:
        return np.maximum(share, floor)
    low, high = share.min(axis=-1, keepdims=True), share.max(axis=-1, keepdims=True)
    scaled = np.where(high > low, (share - low) / np.where(high > low, high - low, 1.0), 1.0)
    return floor + (1.0 - floor) * scaled


def unshared(sets: Sequence[set[Item]]) -> list[set[Item]]:
    """What each set has that no other of them has.

    >>> unshared([{1, 2}, {2, 3}, {4}])
    [{1}, {3}, {4}]
    """
    seen: set[Item] = set()
    shared: set[Item] = set()
    for own in sets:
        shared |= seen & own
        seen |= own
    return [own - shared for own in sets]
