"""Selectors in rounds: over capabilities and styles, over clusters little seen, into sparse regions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.diversity.kernels import check_rows
from polypath.diversity.selectors.common import Selection, check_chosen, check_k, float_column, float_rows


@register("selector", "capability_rounds", paper="mmSSR (0.55)")
def capability_rounds(scores: ArrayLike, labels: Sequence[Hashable], *, k: int, least: float = -math.inf) -> Selection:
    """Rounds over capabilities with equal shares of what is left, and in each round the same number from every style.

    `scores` (items, capabilities), higher is better; `labels` holds an item's style, or a list of several. A round goes
    through the styles, the smallest first: the best of each by that capability, what a small style cannot give passing
    to the next. A capability that gives nothing of score `least` or more is dropped. Not a prefix. Gains are the score
    that an item was taken for.

    >>> capability_rounds([[5, 0], [4, 0], [0, 5], [0, 1]], ["a", "b", "a", "b"], k=2).indices
    [0, 2]
    """
    table = check_rows(scores, "scores")
    n, capabilities = table.shape
    k = check_k(k, n, "capability_rounds")
    if len(labels) != n:
        raise UserError("labels", f"number {len(labels)} for {n} items", "Give one per item.")
    several = [list(label) if isinstance(label, list | tuple | set) else [label] for label in labels]
    styles = Counter(style for row in several for style in row)
    active = list(range(capabilities))
    found = Selection([], [], [])
    taken: set[int] = set()
    while active and len(found) < k:
        share = max((k - len(found)) // len(active), 1)
        for capability in list(active):
            budget = min(share, k - len(found))
            picks = _round(table[:, capability], several, styles, budget, taken, least)
            if not picks:
                active.remove(capability)
            for i, style in picks:
                found.indices.append(i)
                found.gains.append(float(table[i, capability]))
                found.reasons.append(f"capability {capability}, style {style}")
    return found


def _round(
    score: NDArray[np.float64],
    styles_of: Sequence[Sequence[Hashable]],
    styles: Counter[Hashable],
    budget: int,
    taken: set[int],
    least: float,
) -> list[tuple[int, Hashable]]:
    """The best of every style by one score, the smallest style first; `taken` grows. One at least, while there is."""
    order = sorted((i for i in range(len(score)) if i not in taken and score[i] >= least), key=lambda i: (-score[i], i))
    picks: list[tuple[int, Hashable]] = []
    debt = 0
    for style in sorted(styles, key=lambda style: (styles[style], str(style))):
        wanted = budget // len(styles) + debt
        members = [i for i in order if style in styles_of[i] and i not in taken][:wanted]
        debt = wanted - len(members)
        taken.update(members)
        picks += [(i, style) for i in members]
    for i in order:  # the remainder of the division, and what no style could give
        if len(picks) >= budget:
            break
        if i not in taken:
            taken.add(i)
            picks.append((i, styles_of[i][0] if styles_of[i] else None))
    return picks


@register("selector", "explore_clusters", paper="Adaptive exploration (1.22)", traits={"prefix", "seeded"})
def explore_clusters(
    quality: ArrayLike, labels: Sequence[Hashable], *, k: int, epsilon: float = 0.3, seed: int = 0
) -> Selection:
    """Re-ranking: the best that is left or, with probability `epsilon`, the best of the cluster seen least so far.

    `epsilon` is the user's wish to explore: 0 ranks by quality alone, 1 visits the clusters in turn. Clusters seen
    equally often go by their best item. The draw of every place depends on the seed and the place alone.

    >>> explore_clusters([0.9, 0.8, 0.7, 0.1], ["a", "a", "a", "b"], k=3, epsilon=1.0).indices
    [0, 3, 1]
    """
    n = len(labels)
    score = float_column(quality, n, "quality")
    k = check_k(k, n, "explore_clusters")
    if not 0 <= epsilon <= 1:
        raise UserError("explore_clusters.epsilon", f"{epsilon:g} is not in [0, 1]", "0 is quality alone.")
    waiting: dict[Hashable, list[int]] = {label: [] for label in labels}
    for i in np.argsort(-score, kind="stable"):
        waiting[labels[int(i)]].append(int(i))
    seen: Counter[Hashable] = Counter()
    found = Selection([], [], [])
    while len(found) < k:
        heads = {label: rows[0] for label, rows in waiting.items() if rows}
        draw = np.random.default_rng(derive(seed, "explore_clusters", len(found))).random()
        explores = bool(draw < epsilon)
        label = min(heads, key=lambda a: (seen[a] if explores else 0, -score[heads[a]], heads[a]))
        pick = waiting[label].pop(0)
        found.indices.append(pick)
        found.gains.append(float(score[pick]))
        found.reasons.append(f"{'explores' if explores else 'best'}, cluster {label} seen {seen[label]} times")
        seen[label] += 1
    return found


@register("selector", "sparse", paper="Prismatic synthesis, arXiv:2505.20161 (2.60)", traits={"warm_start", "seeded"})
def sparse(
    embeddings: ArrayLike,
    *,
    k: int,
    clusters: int = 16,
    batch: int = 0,
    keep: float = 0.5,
    seed: int = 0,
    chosen: Sequence[int] = (),
) -> Selection:
    """Fill sparse regions: cluster what is kept, keep candidates that land in a sparse cluster or far from all; repeat.

    `chosen` is the data set at the start (else the first pick is drawn). In a round k-means makes `clusters` of what
    is kept, the `keep` share of them with the fewest members are sparse, and up to `batch` candidates (k / 8 when 0)
    are taken: those outside every cluster's radius first, the farthest first, then those in sparse clusters, the
    sparsest first. Where none lands there the farthest is taken, so that k are found. Gains are the cosine distance to
    the nearest centroid. Raises UserError without scikit-learn.
    """
    rows = float_rows(embeddings).astype(np.float64)
    n = len(rows)
    k = check_k(k, n, "sparse")
    given = check_chosen(chosen, n, "sparse")[:k]
    found = Selection(given, [math.nan] * len(given), ["given"] * len(given))
    if not given:
        first = int(np.random.default_rng(derive(seed, "sparse")).integers(n))
        found = Selection([first], [math.nan], ["drawn"])
    size = batch or max(k // 8, 1)
    while len(found) < k:
        kept = rows[found.indices]
        free = np.setdiff1d(np.arange(n), found.indices)
        centres, counts, radius = _clusters(kept, clusters, derive(seed, "sparse", len(found)))
        cosine = rows[free] @ centres.T
        nearest = cosine.argmax(axis=1)
        distance = 1 - cosine.max(axis=1)
        outside = distance > radius[nearest] + 1e-9
        limit = np.sort(counts)[max(math.ceil(keep * len(counts)) - 1, 0)]
        good = outside | (counts[nearest] <= limit)
        order = np.lexsort((free, -distance.round(12), np.where(outside, 0, counts[nearest]), ~good))
        wanted = [p for p in order if good[p]][: min(size, k - len(found))] or [int(np.argmax(distance))]
        for place in wanted:
            found.indices.append(int(free[place]))
            found.gains.append(float(distance[place]))
            where = "outside all clusters" if outside[place] else f"cluster of {counts[nearest[place]]}"
            found.reasons.append(where)
    return found


def _clusters(rows: NDArray[np.float64], most: int, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Unit centroids (c, d), their sizes, and the cosine distance of the farthest member of each."""
    try:
        from sklearn.cluster import KMeans
    except ImportError:
        raise missing_extra("selector sparse", "scikit-learn", "measure") from None
    distinct = len(np.unique(rows, axis=0))
    model = KMeans(min(most, distinct), n_init=1, random_state=seed % 2**32).fit(rows)
    norms = np.linalg.norm(model.cluster_centers_, axis=1, keepdims=True)
    centres = model.cluster_centers_ / np.where(norms > 0, norms, 1.0)
    counts = np.bincount(model.labels_, minlength=len(centres))
    radius = np.zeros(len(centres))
    np.maximum.at(radius, model.labels_, 1 - np.einsum("ij,ij->i", rows, centres[model.labels_]))
    return centres, counts, radius
