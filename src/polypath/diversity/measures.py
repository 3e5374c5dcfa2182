"""How diverse a set is, in one number. Undefined is NaN: an empty pool has no diversity, it does not have none.

All functions take one set (the rollouts of one prompt, say) and return a float. `labels` are class names, such as
canonical solutions or cluster ids; an item with the label None belongs to no known class and is left out.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.registry import register
from polypath.diversity.features import tokens

MORE, LESS = "more_is_diverse", "less_is_diverse"
INVARIANT = "permutation_invariant"


@register("measure", "distinct_n", paper="arXiv:1510.03055", traits={INVARIANT, MORE})
def distinct_n(texts: Sequence[str], *, n: int = 2) -> float:
    """Unique n-grams divided by all n-grams of the pooled texts, in (0, 1]; it falls with length.

    n-grams never cross from one text into the next. NaN when no text has n tokens.

    >>> round(distinct_n(["the cat sat on the mat", "the cat sat on a mat", "dogs run fast in the park"], n=1), 6)
    0.611111
    """
    pool = [gram for text in texts for gram in _grams(tokens(text), n)]
    return len(set(pool)) / len(pool) if pool else math.nan


@register("measure", "ngram_diversity", paper="arXiv:2306.05871", traits={INVARIANT, MORE})
def ngram_diversity(texts: Sequence[str], *, largest: int = 4) -> float:
    """The sum of `distinct_n` for n = 1..largest, in (0, largest]."""
    return sum(distinct_n(texts, n=n) for n in range(1, largest + 1))


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
    documents = [tokens(text) for text in texts]
    matches = np.empty((len(texts), n))
    totals = np.empty((len(texts), n))
    for order in range(1, n + 1):
        counts = [Counter(_grams(words, order)) for words in documents]
        matches[:, order - 1] = list(_clipped_matches(counts))
        totals[:, order - 1] = [max(1, sum(count.values())) for count in counts]
    precision = np.where(matches > 0, matches, epsilon) / totals
    scores = _brevity([len(words) for words in documents]) * np.exp(np.log(precision).mean(axis=1))
    return float(np.where(matches[:, 0] > 0, scores, 0.0).mean())


def _clipped_matches(counts: Sequence[Counter[tuple[str, ...]]]) -> Iterator[int]:
    """For each text, how many of its n-grams occur in the others, each clipped at its largest count there."""
    largest: dict[tuple[str, ...], tuple[int, int, int]] = {}  # n-gram -> (largest, its owner, second largest)
    for i, count in enumerate(counts):
        for gram, c in count.items():
            first, owner, second = largest.get(gram, (0, -1, 0))
            largest[gram] = (c, i, first) if c > first else (first, owner, max(second, c))
    for i, count in enumerate(counts):
        yield sum(min(c, largest[gram][2 if largest[gram][1] == i else 0]) for gram, c in count.items())


def _brevity(lengths: Sequence[int]) -> NDArray[np.float64]:
    """BLEU's brevity penalty of each text against the closest length among the others (the shorter one if tied)."""
    ordered = sorted(lengths)
    penalties = []
    for own in lengths:
        at = bisect_left(ordered, own)
        others = ordered[max(0, at - 1) : at] + ordered[at + 1 : at + 2]
        closest = min(others, key=lambda other: (abs(other - own), other))
        penalties.append(1.0 if own >= closest else math.exp(1 - closest / own) if own else 0.0)
    return np.array(penalties)


@register("measure", "compression_ratio", paper="arXiv:2403.00553", traits={INVARIANT, LESS})
def compression_ratio(texts: Sequence[str], *, level: int = 9) -> float:
    """Bytes of the joined texts divided by their zlib-compressed bytes. NaN without text.

    The texts are ordered by hash, so that their order has no influence; the size of the set has.
    """
    blocks = sorted((text.encode() for text in texts), key=lambda block: hashlib.blake2b(block).digest())
    raw = b"\n".join(blocks)
    return len(raw) / len(zlib.compress(raw, level)) if any(blocks) else math.nan


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
    return pair_difference(_counts(labels))


@register("measure", "correct_difference", traits={INVARIANT, MORE})
def correct_difference(labels: Sequence[Hashable], correct: Sequence[bool]) -> float:
    """Probability that two correct items differ in their label. NaN for fewer than two correct ones."""
    return pair_difference(_counts(_correct_only(labels, correct)))


@register("measure", "distinct", traits={INVARIANT, MORE})
def distinct(labels: Sequence[Hashable]) -> float:
    """How many different labels occur. NaN for an empty set."""
    return float(len(_counts(labels))) if len(labels) else math.nan


@register("measure", "distinct_correct", traits={INVARIANT, MORE})
def distinct_correct(labels: Sequence[Hashable], correct: Sequence[bool]) -> float:
    """How many different labels occur among the correct items: 0 when none is correct, NaN for an empty set."""
    return float(len(_counts(_correct_only(labels, correct)))) if len(labels) else math.nan


@register("measure", "entropy", traits={INVARIANT, MORE})
def entropy(labels: Sequence[Hashable], *, categories: int | None = None) -> float:
    """Shannon entropy of the label shares in nats; divided by log(categories) when that number is declared.

    >>> round(entropy("aaaabbcc", categories=3), 6)
    0.946395
    """
    counts = _counts(labels)
    if not counts or (categories is not None and categories < 2):
        return math.nan
    value = math.log(hill_number(counts, q=1.0))
    return value / math.log(categories) if categories else value


@register("measure", "hill", paper="doi:10.2307/1934352", traits={INVARIANT, MORE})
def hill(labels: Sequence[Hashable], *, q: float = 1.0) -> float:
    """Effective number of classes, the Hill number of order `q` of the label shares. NaN for an empty set.

    >>> [round(hill("aaaabbcc", q=q), 6) for q in (0, 1, 2)]
    [3.0, 2.828427, 2.666667]
    """
    return hill_number(_counts(labels), q=q)


def hill_number(weights: ArrayLike, *, q: float) -> float:
    """(sum p^q)^(1/(1-q)) of weights >= 0 after scaling to sum 1; q = 1 and q = inf are the limits. NaN for none."""
    p = np.asarray(weights, dtype=float)
    p = p[p > 0]
    if p.size == 0:
        return math.nan
    p = p / p.sum()
    if q == 1:
        return float(np.exp(-(p * np.log(p)).sum()))
    return float(1 / p.max()) if math.isinf(q) else float((p**q).sum() ** (1 / (1 - q)))


def _grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All n-grams with their repetitions."""
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def _counts(labels: Sequence[Hashable]) -> list[int]:
    return list(Counter(label for label in labels if label is not None).values())


def _correct_only(labels: Sequence[Hashable], correct: Sequence[bool]) -> list[Hashable]:
    return [label for label, right in zip(labels, correct, strict=True) if right]
