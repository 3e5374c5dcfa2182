"""Selectors that baselines and filters need: the best, a random subset, the widest, the all-different."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.diversity.measures.sets import EXACT, largest_compatible
from polypath.diversity.selectors.common import Selection, check_chosen, check_k, float_column, float_rows


@register("selector", "top", paper="Best by score: the control", traits={"prefix", "gains_fall"})
def top(quality: ArrayLike, *, k: int) -> Selection:
    """The `k` items of largest quality, ties in order: what every diverse selection is to be compared with.

    >>> top([0.2, 0.9, 0.9, 0.5], k=3).indices
    [1, 2, 3]
    """
    score = float_column(quality, len(np.asarray(quality)), "quality")
    k = check_k(k, len(score), "top")
    picks = [int(i) for i in np.argsort(-score, kind="stable")[:k]]
    return Selection(picks, [float(score[i]) for i in picks])


@register("selector", "random", paper="Uniform sampling: the control", traits={"prefix", "seeded"})
def random(items: Sequence[object], *, k: int, seed: int = 0) -> Selection:
    """`k` items at random without replacement: the control that any selection has to beat. Gains are undefined (NaN).

    A smaller selection of the same seed is its beginning.
    """
    n = len(items)
    k = check_k(k, n, "random")
    order = np.random.default_rng(derive(seed, "random_selection")).permutation(n)
    return Selection([int(i) for i in order[:k]], [math.nan] * k)


@register("selector", "max_variance", paper="D3S (2.67)")
def max_variance(rewards: ArrayLike, *, k: int) -> Selection:
    """The `k` items whose rewards have the largest variance: the lowest i and the highest k - i, for the best i.

    Exact: in a subset of largest variance no chosen reward can lie strictly between two left out on the same side, so
    k + 1 splits are all there is to try. Picks go from the extremes inward; gains are the variance of all of them.
    Not a prefix: a smaller subset has other members. Source: [2.67], arXiv:2504.13818 for the splits.

    >>> found = max_variance([0.0, 0.5, 0.5, 1.0, 0.4], k=2)
    >>> found.indices, found.gains
    ([0, 3], [0.25, 0.25])
    """
    values = float_column(rewards, len(np.asarray(rewards)), "rewards")
    k = check_k(k, len(values), "max_variance")
    order = np.argsort(values, kind="stable")
    splits = [np.concatenate([order[:low], order[len(order) - (k - low) :]]) for low in range(k + 1)]
    spread = [float(values[split].var()) for split in splits]
    best = int(np.argmax(np.array(spread) >= max(spread) - 1e-12))
    low, high = order[:best], order[len(order) - (k - best) :][::-1]
    pairs = [int(side[i]) for i in range(k) for side in (low, high) if i < len(side)]
    return Selection(pairs, [spread[best]] * k)


@register("selector", "compatible", paper="IDEAgent Yield (0.72)", traits={"gains_fall"})
def compatible(
    embeddings: ArrayLike,
    quality: ArrayLike | None = None,
    *,
    k: int,
    least: float = -math.inf,
    similarity: float = 0.8,
) -> Selection:
    """The largest set of items of quality `least` or more whose pairs all have a cosine below `similarity`.

    That is a largest clique of the compatibility graph, exact up to 60 good items and a greedy one above (the reasons
    say which); of a set larger than `k` the best by quality are taken. There may be fewer than `k`; gains are quality.

    >>> E = [(1, 0, 0), (0.9, 0.436, 0), (0.2, 0.98, 0)]
    >>> compatible(E, [0.9, 0.8, 0.7], k=3, least=0.5, similarity=0.6).indices
    [0, 2]
    """
    rows = float_rows(embeddings)
    k = check_k(k, len(rows), "compatible")
    score = float_column(quality, len(rows), "quality")
    good = np.flatnonzero(score >= least)
    good = good[np.argsort(-score[good], kind="stable")]  # of equal cliques the first found has the better items
    exact = len(good) <= EXACT
    part = rows[good].astype(np.float64)
    members = [int(good[i]) for i in largest_compatible(part @ part.T, similarity, exact=exact)] if len(good) else []
    picks = sorted(members, key=lambda i: (-score[i], i))[:k]
    reason = f"one of {len(members)} that are all different ({'exact' if exact else 'greedy bound'})"
    return Selection(picks, [float(score[i]) for i in picks], [reason] * len(picks))


@register("selector", "min_distance", paper="DEITA, arXiv:2312.15685", traits={"prefix", "warm_start", "gains_fall"})
def min_distance(
    embeddings: ArrayLike,
    quality: ArrayLike | None = None,
    *,
    k: int,
    distance: float = 0.1,
    chosen: Sequence[int] = (),
) -> Selection:
    """The best first, each only if its cosine distance to all that are kept is at least `distance`.

    There may be fewer than `k`. O(n k d) at most. Gains are the quality. Raises UserError for a distance below 0.

    >>> min_distance([(1, 0), (1, 0.01), (0, 1)], [0.9, 0.8, 0.1], k=3).indices
    [0, 2]
    """
    rows = float_rows(embeddings)
    n = len(rows)
    k = check_k(k, n, "min_distance")
    if distance < 0:
        raise UserError(
            "min_distance.distance", f"{distance:g} is below 0", "0 keeps everything but nothing is nearer."
        )
    score = float_column(quality, n, "quality")
    picks = check_chosen(chosen, n, "min_distance")[:k]
    kept = np.empty((k, rows.shape[1]), dtype=rows.dtype)
    kept[: len(picks)] = rows[picks]
    for i in np.argsort(-score, kind="stable"):
        if len(picks) == k:
            break
        near = float((kept[: len(picks)] @ rows[i]).max(initial=-1.0))
        if int(i) not in picks and 1 - near >= distance - 1e-9:
            kept[len(picks)] = rows[i]
            picks.append(int(i))
    return Selection(picks, [float(score[i]) for i in picks])
