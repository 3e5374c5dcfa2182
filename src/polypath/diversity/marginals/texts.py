"""Marginals of measures of n-grams, from one sorted table of counts for the whole batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.features import tokens
from polypath.diversity.marginals.common import EQUIVARIANT

Texts = Sequence[str] | Sequence[Sequence[str]]


class Counts(NamedTuple):
    """n-grams of one order: which text holds which how often, sorted by n-gram, the largest counts first."""

    gram: np.ndarray  # (P,) number of the n-gram; n-grams of different groups have different numbers
    text: np.ndarray  # (P,) the text that holds it, numbered through the batch
    times: np.ndarray  # (P,)
    first: np.ndarray  # (P,) where the n-gram's entries start
    last: np.ndarray  # (P,) and end


@register("signal", "loo_distinct_n", returns="diversity", paper="arXiv:1510.03055", traits=EQUIVARIANT)
def loo_distinct_n(texts: Texts, *, n: int = 2, undefined: float = 0.0) -> np.ndarray:
    """Marginal of distinct-n of the pooled texts, by decrementing counts.

    Shapes: G texts, or B lists of G -> (..., G). `undefined` where no n-gram is left, with or without the text.

    >>> loo_distinct_n(["a b c", "a b c", "d e f"]).round(6).tolist()  # 4 of 6 n-grams; without one, 4 of 4 or 2 of 4
    [-0.333333, -0.333333, 0.166667]
    """
    shape, words = _batch(texts)
    groups, size = shape if len(shape) == 2 else (1, *shape)
    *_, table = _orders(words, size, n)
    total = np.bincount(table.text, weights=table.times, minlength=len(words)).reshape(groups, size)
    alone = table.last - table.first == 1
    only = np.bincount(table.text[alone], minlength=len(words)).reshape(groups, size)
    distinct = np.bincount(table.text[table.first == np.arange(len(table.first))] // max(size, 1), minlength=groups)
    pool, unique = total.sum(axis=1, keepdims=True), distinct[:groups, None]
    rest = pool - total
    share = unique / np.maximum(pool, 1) - (unique - only) / np.maximum(rest, 1)
    return np.where((rest > 0) & (pool > 0), share, undefined).reshape(shape)


@register("signal", "loo_self_bleu", returns="diversity", paper="arXiv:1802.01886", traits=EQUIVARIANT)
def loo_self_bleu(texts: Texts, *, n: int = 4, epsilon: float = 0.1, undefined: float = 0.0) -> np.ndarray:
    """Marginal of 1 - self-BLEU, so that more is more diverse: self-BLEU(all but i) - self-BLEU(all).

    Without text k only those texts change whose best reference for an n-gram, or for the length, k alone was; they fall
    back to the second best. So one sorted table of counts serves all removals: O(tokens + G^2) per group.
    Shapes: G texts, or B lists of G -> (..., G). `undefined` for G < 3, where no pair remains. See `self_bleu`.
    """
    shape, words = _batch(texts)
    groups, size = shape if len(shape) == 2 else (1, *shape)
    if size < 3 or groups == 0:
        return np.full(shape, undefined)
    lengths = np.fromiter(map(len, words), np.int64, len(words)).reshape(groups, size)
    logs = np.zeros((groups, size, size))  # [g, i, k]: of text i without k; k = i with all
    some = np.zeros((groups, size, size), dtype=bool)
    for order, table in enumerate(_orders(words, size, n), 1):
        matches = _matches(table, groups, size)
        precision = np.where(matches > 0, matches, epsilon) / np.maximum(1, lengths - order + 1)[..., None]
        logs += np.log(precision) / n
        some = matches > 0 if order == 1 else some
    bleu = np.where(some, _brevity(lengths) * np.exp(logs), 0.0)
    own = np.diagonal(bleu, axis1=1, axis2=2)
    without = (bleu.sum(axis=1) - own) / (size - 1)
    return (without - own.mean(axis=1, keepdims=True)).reshape(shape)


def _batch(texts: Texts) -> tuple[tuple[int, ...], list[list[str]]]:
    """The shape (G,) or (B, G), and the tokens of all texts laid end to end. Raises UserError for unequal groups."""
    nested = len(texts) > 0 and not isinstance(texts[0], str)
    groups = [list(group) for group in texts] if nested else [list(texts)]
    if len({len(group) for group in groups}) > 1:
        raise UserError("texts", "come in groups of different sizes", "Give one list of groups per size.")
    words = [tokens(text) for group in groups for text in group]  # type: ignore[arg-type]
    return (len(groups), len(groups[0])) if nested else (len(groups[0]),), words


def _orders(words: Sequence[Sequence[str]], size: int, longest: int) -> Iterator[Counts]:
    """The table of counts of each order 1..longest; texts of one group are `size` in a row."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    names: dict[str, int] = {}
    codes = np.fromiter((names.setdefault(w, len(names)) for w in chain.from_iterable(words)), np.int64)
    owners = np.repeat(np.arange(len(words)), lengths)
    codes = _dense(codes + (owners // max(size, 1)) * (len(names) + 1))  # the same word in two groups is two
    grams = codes
    for order in range(1, longest + 1):
        if order > 1:  # an n-gram is the pair (its first n - 1 tokens, its last), renumbered so that it never overflows
            grams = _dense(grams[: len(grams) - 1] * (codes.max(initial=0) + 1) + codes[order - 1 :])
        inside = owners[: len(grams)] == owners[order - 1 : order - 1 + len(grams)]
        yield _count(grams[inside], owners[: len(grams)][inside], len(words))


def _count(grams: np.ndarray, owners: np.ndarray, texts: int) -> Counts:
    keys, count = np.unique(grams * texts + owners, return_counts=True)
    gram, text = np.divmod(keys, max(texts, 1))
    order = np.lexsort((-count, gram))
    gram, text, count = gram[order], text[order], count[order]
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    sizes = np.diff(starts, append=len(gram))
    first = np.repeat(starts, sizes)
    return Counts(gram, text, count, first, first + np.repeat(sizes, sizes))


def _dense(keys: np.ndarray) -> np.ndarray:
    """The same partition of positions with numbers 0, 1, ..."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _matches(table: Counts, groups: int, size: int) -> np.ndarray:
    """[g, i, k]: n-grams of text i that occur in the other texts but k, clipped at their largest count there."""
    place = np.arange(len(table.gram))
    rank = place - table.first

    def other(number: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the `number`-th largest count in another text stands, and that count, 0 if there is none."""
        at = table.first + number + (rank <= number)
        there = at < table.last
        return np.where(there, at, 0), np.where(there, table.times[np.where(there, at, 0)], 0)

    if len(place) == 0:
        return np.zeros((groups, size, size))
    best_at, best = other(0)
    _, second = other(1)
    with_all = np.minimum(table.times, best)
    lost = with_all - np.minimum(table.times, second)
    base = np.bincount(table.text, weights=with_all, minlength=groups * size).reshape(groups, size, 1)
    holder = table.text[best_at] % size
    loss = np.bincount(table.text * size + holder, weights=lost, minlength=groups * size * size)
    return base - loss.reshape(groups, size, size)


def _brevity(lengths: np.ndarray) -> np.ndarray:
    """[g, i, k]: brevity penalty of text i against the closest length of the others but k (the shorter one if tied)."""
    size = lengths.shape[1]
    own = lengths[:, :, None]
    distance = np.abs(lengths[:, None, :] - own) * 2 + (lengths[:, None, :] > own)  # the shorter wins a tie
    distance = np.where(np.eye(size, dtype=bool), np.iinfo(np.int64).max, distance)
    order = np.argsort(distance, axis=-1, kind="stable")
    nearest = np.take_along_axis(np.broadcast_to(lengths[:, None, :], distance.shape), order[..., :2], axis=-1)
    is_nearest = order[..., :1] == np.arange(size)
    closest = np.where(is_nearest, nearest[..., 1:2], nearest[..., :1])
    penalty = np.where(own >= closest, 1.0, np.exp(1 - closest / np.maximum(own, 1)))
    return np.where(own > 0, penalty, 0.0)
