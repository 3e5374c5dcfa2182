"""Selectors with structure: quotas, sampled subsets, clusters explored by a bandit, shares of attributes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.diversity.selectors.common import Selection, check_k, float_column, float_rows
from polypath.diversity.selectors.lazy import exp_quality


@register("selector", "quota", paper="mmSSR (0.55)")
def quota(labels: Sequence[Hashable], quality: ArrayLike, *, k: int) -> Selection:
    """The same number from every class, the best of it first; what a small class cannot give goes to larger ones.

    Classes in order of size, the smallest first; ties by first appearance. Gains are the quality.

    >>> quota(["a", "a", "a", "b"], [3, 2, 1, 0], k=3).indices
    [3, 0, 1]
    """
    n = len(labels)
    k = check_k(k, n, "quota")
    score = float_column(quality, n, "quality")
    members: dict[Hashable, list[int]] = defaultdict(list)
    for i in sorted(range(n), key=lambda i: (-score[i], i)):
        members[labels[i]].append(i)
    first = {label: place for place, label in reversed(list(enumerate(labels)))}
    classes = sorted(members, key=lambda label: (len(members[label]), first[label]))
    picks: list[int] = []
    left = k
    for place, label in enumerate(classes):
        share = left // (len(classes) - place)
        taken = members[label][:share]
        picks += taken
        left -= len(taken)
    rest = sorted((i for i in range(n) if i not in set(picks)), key=lambda i: (-score[i], i))
    picks += rest[: k - len(picks)]
    return Selection(picks, [float(score[i]) for i in picks], [f"class {labels[i]}" for i in picks])


@register("selector", "k_dpp", paper="Kulesza and Taskar 2011", traits={"seeded"})
def k_dpp(
    embeddings: ArrayLike, quality: ArrayLike | None = None, *, k: int, weight: float = 1.0, seed: int = 0
) -> Selection:
    """A random subset of k items with probability proportional to det of diag(q) K diag(q), through the (d, d) dual.

    Quality enters as q = exp(weight * quality), as in `dpp`; gains are undefined (NaN).

    Raises UserError when k is above the rank of the kernel, where every such subset has probability 0.
    """
    rows = float_rows(embeddings).astype(np.float64)
    n, d = rows.shape
    k = check_k(k, n, "k_dpp")
    rows = rows * exp_quality(quality, n, weight, "k_dpp")[0][:, None]
    values, vectors = np.linalg.eigh(rows.T @ rows)
    kept = values > values.max() * max(n, d) * np.finfo(float).eps
    values, vectors = values[kept], vectors[:, kept]
    if k > len(values):
        raise UserError("k_dpp.k", f"{k} picks of a kernel of rank {len(values)}", "Lower k, or use dpp with a ridge.")
    rng = np.random.default_rng(derive(seed, "k_dpp"))
    chosen = _eigenvectors(values, k, rng)
    basis = rows @ (vectors[:, chosen] / np.sqrt(values[chosen]))
    picks: list[int] = []
    for _ in range(k):
        weights = np.maximum((basis**2).sum(axis=1), 0)
        weights[picks] = 0
        pick = int(rng.choice(n, p=weights / weights.sum()))
        picks.append(pick)
        pivot = int(np.argmax(np.abs(basis[pick])))
        column = basis[:, pivot] / basis[pick, pivot]
        basis = np.delete(basis - np.outer(column, basis[pick]), pivot, axis=1)
        basis = np.linalg.qr(basis)[0] if basis.shape[1] else basis
    return Selection(picks, [math.nan] * k)


def _eigenvectors(values: NDArray[np.float64], k: int, rng: np.random.Generator) -> list[int]:
    """k eigenvalues with probability proportional to their product, by elementary symmetric polynomials."""
    m = len(values)
    scaled = values / values.mean()  # ratios are all that counts; the polynomials stay in range
    e = np.zeros((k + 1, m + 1))
    e[0] = 1.0
    for size in range(1, k + 1):
        for i in range(1, m + 1):
            e[size, i] = e[size, i - 1] + scaled[i - 1] * e[size - 1, i - 1]
    chosen, left = [], k
    for i in range(m, 0, -1):
        if left == 0:
            break
        if rng.random() < scaled[i - 1] * e[left - 1, i - 1] / e[left, i]:
            chosen.append(i - 1)
            left -= 1
    return chosen


@register("selector", "cluster_bandit", paper="Quad (2.64)", traits={"prefix"})
def cluster_bandit(
    labels: Sequence[Hashable],
    value: Callable[[Sequence[int]], Sequence[float]] | Sequence[float],
    *,
    k: int,
    per_pull: int = 8,
    exploration: float = 1.0,
    threshold: float = -math.inf,
) -> Selection:
    """Evaluate items cluster by cluster, where an upper confidence bound is highest, until k are above `threshold`.

    `value(indices)` may be expensive (an influence, a judge) and is asked for `per_pull` items at a time, in order;
    or give all values. The bound is mean + exploration * sqrt(2 ln N / n), infinite before the first pull.
    """
    n = len(labels)
    k = check_k(k, n, "cluster_bandit")
    ask = value if callable(value) else lambda indices: [value[i] for i in indices]
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for i, label in enumerate(labels):
        waiting[label].append(i)
    seen: dict[Hashable, list[float]] = {label: [] for label in waiting}
    found = Selection([], [], [])
    while len(found) < k and any(waiting.values()):
        total = sum(len(values) for values in seen.values())
        arm = max(
            (label for label in waiting if waiting[label]), key=lambda a: upper_bound(seen[a], total, exploration)
        )
        batch, waiting[arm] = waiting[arm][:per_pull], waiting[arm][per_pull:]
        values = [float(v) for v in ask(batch)]
        seen[arm] += values
        for i, v in zip(batch, values, strict=True):
            if v > threshold and len(found) < k:
                found.indices.append(i)
                found.gains.append(v)
                found.reasons.append(f"cluster {arm}")
    return found


def upper_bound(values: Sequence[float], total: int, exploration: float = 1.0) -> float:
    """mean + exploration * sqrt(2 ln total / n); infinite for an arm that was never pulled.

    >>> round(upper_bound([0.3] * 10, 100), 6)
    1.259705
    """
    if not values:
        return math.inf
    return float(np.mean(values)) + exploration * math.sqrt(2 * math.log(max(total, 1)) / len(values))


@register("selector", "swap", paper="Diversity and inclusion (1.49)")
def swap(
    attributes: Sequence[Sequence[Hashable]],
    *,
    k: int,
    target: dict[str, tuple[float, float]],
    rule: Literal["mean", "min", "leximin"] = "min",
    rounds: int = 100,
) -> Selection:
    """A subset whose shares of attributes lie in their target intervals, improved by single swaps.

    `target` maps an attribute's value to (low, high); its score is 1 inside and falls linearly with the distance
    outside. Scores are aggregated by their mean (utilitarian), least (egalitarian) or sorted order (leximin).
    Attributes that nobody has count as missing. Starts from the first k items; gains are the aggregate at the end.
    """
    n = len(attributes)
    k = check_k(k, n, "swap")
    if not target:
        raise UserError("swap.target", "there is no target", "Give one, such as target={woman: [0.4, 0.6]}.")
    names = [name for name in target if any(name in row for row in attributes)]
    has = np.array([[name in row for name in names] for row in attributes], dtype=float).reshape(n, len(names))
    low, high = (np.array([target[name][side] for name in names]) for side in (0, 1))

    def score(members: list[int]) -> tuple[float, ...]:
        share = has[members].mean(axis=0)
        presence = 1 - np.maximum(np.maximum(low - share, share - high), 0)
        ordered = tuple(float(value) for value in np.sort(presence))
        if not ordered:
            return (1.0,)
        return {"mean": (float(presence.mean()),), "min": ordered[:1], "leximin": ordered}[rule]

    chosen = list(range(k))
    best = score(chosen)
    for _ in range(rounds):
        outside = [i for i in range(n) if i not in set(chosen)]
        trials = [(score([*chosen[:p], i, *chosen[p + 1 :]]), -p, -i) for p in range(k) for i in outside]
        top = max(trials, default=(best, 0, 0))
        if not top[0] > best:
            break
        best, chosen[-top[1]] = top[0], -top[2]
    return Selection(chosen, [best[0]] * k)
