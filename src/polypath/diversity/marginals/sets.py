"""Marginals of measures that combine a spectrum with quality, outcomes or a reference; see `pairs` for the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.diversity.kernels.structural import bag_kernel
from polypath.diversity.kernels.vector import cosine_kernel, given_rows, unit_rows
from polypath.diversity.kernels.view import dense_kernel, parts, per_item, to_numpy
from polypath.diversity.marginals.kernels import loo_logdet
from polypath.diversity.marginals.spectra import loo_vendi
from polypath.diversity.measures.agents import effective_channels, voters_worth
from polypath.diversity.measures.reference import ball_members
from polypath.diversity.measures.sets import utilities
from polypath.diversity.measures.spectral import log_det, similarity_entropy, vendi
from polypath.diversity.measures.text import bags_of

Matrix = NDArray[np.float64]


def _vendi_of_rows(rows: Matrix, q: float) -> Matrix:
    unit = unit_rows(rows)
    return np.asarray(loo_vendi(unit @ unit.T, q=q, undefined=np.nan))


def loo_vendi_quality(embeddings: ArrayLike, rewards: ArrayLike, *, q: float = 1.0) -> Matrix:
    """Of `vendi_quality`: the mean reward and the Vendi score, both without one."""
    rows = given_rows(embeddings)
    quality = per_item(rewards, len(rows), "rewards")
    n = len(rows)
    if n < 2:
        return np.full(n, np.nan)
    whole = vendi(rows, q=q)
    rest = (quality.sum() - quality) / (n - 1) * (whole - _vendi_of_rows(rows, q))
    return np.asarray(quality.mean() * whole - rest)


def loo_vendi_gated(embeddings: ArrayLike, rewards: ArrayLike, *, gate: float = 0.5, q: float = 1.0) -> Matrix:
    """Of `vendi_gated`: 0 for what does not pass."""
    rows = given_rows(embeddings)
    return _loo_kept(rows, per_item(rewards, len(rows), "rewards") >= gate, q)


def loo_vendi_correct(embeddings: ArrayLike, correct: Sequence[bool], *, q: float = 1.0) -> Matrix:
    """Of `vendi_correct`: 0 for what is wrong."""
    rows = given_rows(embeddings)
    return _loo_kept(rows, per_item(correct, len(rows), "correct") != 0, q)


def _loo_kept(rows: Matrix, kept: NDArray[np.bool_], q: float) -> Matrix:
    if len(rows) < 2:
        return np.full(len(rows), np.nan)
    found = np.zeros(len(rows))
    if kept.sum() == 1:
        found[kept] = 1.0  # one item against none
    elif kept.any():
        found[kept] = _vendi_of_rows(rows[kept], q)
    return found


def loo_gradient_vendi(gradients: ArrayLike, *, q: float = 1.0) -> Matrix:
    """Of `gradient_vendi`: 0 for an example whose gradient is zero."""
    rows = given_rows(gradients, "gradients", zeros=True)
    some = np.any(rows != 0, axis=1)
    found = np.full(len(rows), 0.0 if some.any() else np.nan)
    if some.any():
        found[some] = _vendi_of_rows(rows[some], q)
    return found


def loo_effective_channels(embeddings: ArrayLike) -> Matrix:
    """Of `effective_channels`: 0 for a silent agent."""
    rows = given_rows(embeddings, zeros=True).astype(np.float64)
    some = np.any(rows != 0, axis=1)
    found = np.full(len(rows), 0.0 if some.any() else np.nan)
    if some.any():
        found[some] = loo_vendi(rows[some] @ rows[some].T, undefined=np.nan)
    return found


def loo_effective_channels_by_outcome(
    embeddings: ArrayLike, correct: ArrayLike, *, of: Literal["correct", "wrong", "net"] = "net"
) -> Matrix:
    """Of `effective_channels_by_outcome`, from the marginals within the correct and the wrong agents."""
    rows, right = given_rows(embeddings, zeros=True), np.asarray(correct, dtype=bool)
    sides = []
    for chosen in (right, ~right):
        whole = effective_channels(rows[chosen])
        rest = np.full(len(rows), whole)
        rest[chosen] -= loo_effective_channels(rows[chosen])
        sides.append((whole, rest))
    (good, good_rest), (bad, bad_rest) = sides
    if of != "net":
        whole, rest = sides[0 if of == "correct" else 1]
        return np.asarray(whole - rest)
    net = good if np.isnan(bad) else good - 0.5 * bad
    return np.asarray(net - np.where(np.isnan(bad_rest), good_rest, good_rest - 0.5 * bad_rest))


def loo_effective_size(outcomes: ArrayLike) -> Matrix:
    """Of `effective_size`: the mean correlation over the pairs without one voter."""
    matrix = to_numpy(outcomes)
    n = len(matrix)
    found = np.full(n, np.nan)
    if matrix.ndim != 2 or n < 3 or matrix.shape[1] < 3:
        return found
    varied = matrix.std(axis=1) > 0
    v = int(varied.sum())
    if v < 2:
        return found
    correlation = np.corrcoef(matrix[varied])
    rows = correlation.sum(axis=1) - correlation.diagonal()
    mean = float(rows.sum() / (v * (v - 1)))
    whole = voters_worth(n, mean)
    found[~varied] = whole - voters_worth(n - 1, mean)
    if v > 2:
        rest = (rows.sum() - 2 * rows) / ((v - 1) * (v - 2))
        found[varied] = [whole - voters_worth(n - 1, float(one)) for one in rest]
    return found


def loo_log_det_distance(
    embeddings: ArrayLike, *, ridge: float = 1e-3, reference: Literal["orthogonal", "sphere"] = "orthogonal"
) -> Matrix:
    """Of `log_det_distance`, from one inverse; its reference is that of one item less."""
    rows = unit_rows(embeddings)
    n = len(rows)
    if n < 2:
        return np.full(n, np.nan)

    def best(size: int) -> float:
        if reference == "sphere":
            return log_det(np.random.default_rng(0).normal(size=(size, rows.shape[1])), ridge=ridge)
        return float(size * np.log1p(ridge))

    whole = log_det(rows, ridge=ridge)
    rest = whole - np.asarray(loo_logdet(rows @ rows.T, ridge=ridge))
    return (best(n) - whole) / n - (best(n - 1) - rest) / (n - 1)


def loo_similarity_entropy(similarity: ArrayLike, *, q: float = 1.0) -> Matrix:
    """Of `similarity_entropy`: mean similarities without one item's column."""
    matrix = dense_kernel(similarity).matrix()
    n = len(matrix)
    if n < 2 or math.isnan(similarity_entropy(matrix, q=q)):  # which refuses what has no such entropy
        return np.full(n, np.nan)
    sums = matrix.sum(axis=1)
    rest = np.maximum(sums[:, None] - matrix, matrix.diagonal()[:, None]) / (n - 1)  # [i, j]: of i without j
    others = ~np.eye(n, dtype=bool)
    z = np.stack([rest[others[:, j], j] for j in range(n)])
    return np.asarray(_of_means(sums[None, :] / n, q) - _of_means(z, q))


def _of_means(z: Matrix, q: float) -> Matrix:
    if q == 1:
        return np.asarray(np.exp(-np.log(z).mean(axis=1)))
    return np.asarray(1 / z.max(axis=1) if np.isinf(q) else (z ** (q - 1)).mean(axis=1) ** (1 / (1 - q)))


def loo_ngram_vendi(texts: Sequence[str], *, largest: int = 2, q: float = 1.0) -> Matrix:
    """Of `ngram_vendi`, from one eigendecomposition."""
    return np.asarray(loo_vendi(bag_kernel(bags_of(texts, largest)).matrix(), q=q, undefined=np.nan))


def loo_creative_utility(embeddings: ArrayLike, rewards: ArrayLike) -> Matrix:
    """Of `creative_utility`: later items whose nearest predecessor it was fall back to the second nearest."""
    rows = given_rows(embeddings)
    terms = utilities(rows, rewards)
    n = len(terms)
    if n < 2:
        return np.full(n, np.nan)
    scores = per_item(rewards, n, "rewards")
    distance = np.where(np.tri(n, k=-1, dtype=bool), 1.0 - cosine_kernel(rows).matrix(), np.inf)
    order = np.argsort(distance[1:], axis=1, kind="stable")[:, :2]
    first, second = np.take_along_axis(distance[1:], order, axis=1).T
    second[0] = 1.0  # without the first item the second is the first
    change = scores[1:] * (np.maximum(second, 0.0) - np.maximum(first, 0.0))
    return np.asarray(terms - np.bincount(order[:, 0], weights=change, minlength=n))


def loo_coverage_knn(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 5) -> Matrix:
    """Of `coverage_knn`: the balls that hold no other item."""
    inside = _inside(embeddings, reference, k)
    if inside is None or inside.shape[1] < 2:
        return np.full(len(given_rows(embeddings, zeros=True)), np.nan)
    alone = inside.sum(axis=1) == 1
    return np.asarray(inside[alone].sum(axis=0) / len(inside))


def loo_density_knn(embeddings: ArrayLike, reference: ArrayLike, *, k: int = 5) -> Matrix:
    """Of `density_knn`: a mean over items of the balls that hold each."""
    inside = _inside(embeddings, reference, k)
    n = len(given_rows(embeddings, zeros=True))
    if inside is None or n < 2:
        return np.full(n, np.nan)
    own = inside.sum(axis=0) / k
    return np.asarray(own.mean() - (own.sum() - own) / (n - 1))


def _inside(embeddings: Any, reference: Any, k: int) -> NDArray[np.bool_] | None:
    found = ball_members(reference, embeddings, k)
    return None if found is None else np.concatenate(list(found))


def loo_inception_score(probabilities: ArrayLike) -> Matrix:
    """Of `inception_score`: the mean distribution and the mean entropy without one item."""
    p = to_numpy(probabilities)
    n = len(p)
    if n < 2:
        return np.full(n, np.nan)
    own = _negative_entropy(p)
    whole = own.mean() - _negative_entropy(p.mean(axis=0, keepdims=True))
    rest = np.empty(n)
    for part in parts(*p.shape):
        shared = np.maximum(p.sum(axis=0) - p[part], 0.0) / (n - 1)
        rest[part] = (own.sum() - own[part]) / (n - 1) - _negative_entropy(shared)
    return np.asarray(np.exp(whole) - np.exp(rest))


def _negative_entropy(p: Matrix) -> Matrix:
    return np.asarray((p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1))
