"""Selectors by scores of many models, of several kernels, of columns, and of feedback in several forms."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.diversity.kernels import check_rows, unit_rows
from polypath.diversity.selectors.common import Selection, check_k
from polypath.diversity.selectors.lazy import Dpp, exp_quality, lazy_greedy, mmr
from polypath.diversity.selectors.spread import square
from polypath.diversity.selectors.structured import quota


@register("selector", "infinite", paper="Infinite feature selection (2.63)", traits={"prefix", "gains_fall"})
def infinite(columns: ArrayLike, *, k: int, balance: float = 0.5) -> Selection:
    """Columns of (samples, columns) by the weight of all paths through them in a graph of spread and decorrelation.

    A_ij = balance * max(s_i, s_j) + (1 - balance)(1 - |Spearman_ij|), s being standard deviations scaled to [0, 1]; the
    energies are the row sums of (I - r A)^-1 - I with r = .9 over the spectral radius. Raises UserError without scipy.
    """
    try:
        from scipy.stats import rankdata
    except ImportError:
        raise missing_extra("selector infinite", "scipy", "measure") from None
    table = check_rows(columns, "columns")
    k = check_k(k, table.shape[1], "infinite")
    ranks = np.apply_along_axis(rankdata, 0, table)
    ranks = ranks - ranks.mean(axis=0)
    norms = np.linalg.norm(ranks, axis=0)
    unit = np.divide(ranks, norms, out=np.zeros_like(ranks), where=norms > 0)
    spread = table.std(axis=0)
    range_ = float(np.ptp(spread))
    spread = (spread - spread.min()) / range_ if range_ > 0 else np.ones_like(spread)
    graph = balance * np.maximum.outer(spread, spread) + (1 - balance) * (1 - np.abs(unit.T @ unit))
    np.fill_diagonal(graph, 0.0)
    energy = path_energy(graph)
    picks = [int(i) for i in np.argsort(-energy, kind="stable")[:k]]
    return Selection(picks, [float(energy[i]) for i in picks])


def path_energy(graph: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row sums of (I - r A)^-1 - I, r = .9 / spectral radius: the weight of all paths of all lengths.

    >>> path_energy(np.array([[0, 0.5, 0.2], [0.5, 0, 0.4], [0.2, 0.4, 0]])).round(4).tolist()
    [8.8183, 10.1327, 7.7368]
    """
    radius = float(np.abs(np.linalg.eigvals(graph)).max())
    if radius == 0:
        return np.zeros(len(graph))
    return np.asarray((np.linalg.inv(np.eye(len(graph)) - 0.9 / radius * graph) - np.eye(len(graph))).sum(axis=1))


@register("selector", "disagreement", paper="DISCO (0.80)", traits={"prefix", "gains_fall"})
def disagreement(
    probabilities: ArrayLike, *, k: int, score: Literal["predictive", "jensen_shannon"] = "predictive"
) -> Selection:
    """Items on which models disagree most: probabilities (items, models, classes).

    "predictive" is the sum over classes of the largest probability that any model gives (1 for full agreement);
    "jensen_shannon" the mean divergence of the models from their average, in nats.

    >>> P = [[(0.9, 0.1), (0.8, 0.2)], [(0.5, 0.5), (0.5, 0.5)], [(0.2, 0.8), (0.9, 0.1)]]
    >>> [round(g, 6) for g in disagreement(P, k=3).gains]
    [1.7, 1.1, 1.0]
    """
    p = np.asarray(probabilities, dtype=float)
    if p.ndim != 3 or (p < 0).any() or not np.allclose(p.sum(axis=-1), 1, atol=1e-4):
        what = f"of shape {p.shape} are not probabilities over the last axis"
        raise UserError("probabilities", what, "Give (items, models, classes), soft-maxed.")
    k = check_k(k, len(p), "disagreement")
    if score == "predictive":
        value = p.max(axis=1).sum(axis=-1)
    else:
        mean = p.mean(axis=1, keepdims=True)
        terms = np.where(p > 0, p * (np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(mean, 1e-300))), 0.0)
        value = terms.sum(axis=-1).mean(axis=1)
    picks = [int(i) for i in np.argsort(-value, kind="stable")[:k]]
    return Selection(picks, [float(value[i]) for i in picks])


@register("selector", "crowd", paper="CrowdSelect (2.65)")
def crowd(
    rewards: ArrayLike,
    labels: Sequence[Hashable],
    *,
    k: int,
    sizes: Sequence[Sequence[int]] = (),
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> Selection:
    """The best of every cluster by z-scored difficulty, separability and stability of many models' rewards.

    `rewards` (items, models); difficulty is -mean, separability the standard deviation, stability the mean over the
    families in `sizes` (models from small to large) of the rank correlation of size and reward. Undefined is 0.
    """
    table = check_rows(rewards, "rewards")
    n = len(table)
    stability = np.zeros(n)
    for family in sizes:
        part = table[:, list(family)]
        if len(family) > 1:
            order = np.arange(len(family), dtype=float)
            stability += np.nan_to_num([_spearman(order, part[i]) for i in range(n)]) / len(sizes)
    columns = [-table.mean(axis=1), table.std(axis=1), stability]
    total = sum(w * _z(column) for w, column in zip(weights, columns, strict=True))
    return quota(labels, total, k=k)


def _z(values: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


def _spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Rank correlation with mean ranks for ties; NaN where one side is constant."""
    ranks = [(values[:, None] > values).sum(1) + (values[:, None] == values).sum(1) / 2 for values in (a, b)]
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        return math.nan
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


@register("selector", "multi_source_dpp", paper="MS-DPP (0.74)", traits={"prefix", "gains_fall"})
def multi_source_dpp(
    sources: Sequence[ArrayLike], quality: ArrayLike | None = None, *, k: int, theta: float = 0.5, sign: int = 1
) -> Selection:
    """Greedy MAP of one kernel made of several: the exponential of the mean of their logarithms, each of one norm.

    `sources` holds an (n, n) similarity for each attribute, positive semi-definite up to clipping. `sign=-1`
    makes picks alike in these attributes. Quality enters as exp(theta / (2 (1 - theta)) quality), theta at most .95:
    1 would divide by zero. O(sources n^3): meant for a shortlist.
    """
    kernels = [square(kernel, f"sources[{m}]") for m, kernel in enumerate(sources)]
    if len({len(kernel) for kernel in kernels}) != 1:
        what = f"have {[len(kernel) for kernel in kernels]} items"
        raise UserError("sources", what, "Give one or more similarities of the same items.")
    n = len(kernels[0])
    k = check_k(k, n, "multi_source_dpp")
    if not 0 <= theta <= 0.95:
        raise UserError("multi_source_dpp.theta", f"{theta:g} is not in [0, .95]", "1 would divide by zero.")
    mean = log_mean(kernels)
    values, vectors = np.linalg.eigh(sign * mean)
    factor = vectors * np.exp(values / 2)
    q, shift = exp_quality(quality, n, theta / (2 * (1 - theta)), "multi_source_dpp")
    found = lazy_greedy(Dpp(np.ascontiguousarray(factor), q, 1e-6, unit=False), k, [])
    return Selection(found.indices, [gain + shift for gain in found.gains])


def log_mean(kernels: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mean of log(K + 1e-3 I) over kernels, each scaled to the norm of the first that is not zero."""
    logs = []
    for kernel in kernels:
        values, vectors = np.linalg.eigh(kernel + 1e-3 * np.eye(len(kernel)))
        logs.append((vectors * np.log(np.where(values > 0, values, 1.0))) @ vectors.T)
    norms = [float(np.linalg.norm(log)) for log in logs]
    unit = next((norm for norm in norms if norm > 0), 1.0)
    return np.asarray(
        np.mean([log * (unit / norm if norm > 0 else 1.0) for log, norm in zip(logs, norms, strict=True)], 0)
    )


@register("selector", "heterogeneous", paper="Heterogeneous feedback (2.5)", traits={"prefix"})
def heterogeneous(
    embeddings: ArrayLike, feedback: Sequence[Sequence[float]], *, k: int, trade_off: float = 0.5
) -> Selection:
    """Feedback of several forms on one scale, then maximal marginal relevance.

    Each column of `feedback` (items, forms), NaN where an item has none, is scaled to [0, 1] over what is there; an
    item's quality is the mean of what it has. Raises UserError for an item without any.
    """
    table = np.asarray(feedback, dtype=float)
    low, high = np.nanmin(table, axis=0), np.nanmax(table, axis=0)
    scaled = (table - low) / np.where(high > low, high - low, 1.0)
    none = ~np.isfinite(scaled).any(axis=1)
    if none.any():
        raise UserError(f"feedback[{int(np.argmax(none))}]", "has no feedback at all", "Drop that item.")
    return mmr(unit_rows(embeddings), np.nanmean(scaled, axis=1), k=k, trade_off=trade_off)
