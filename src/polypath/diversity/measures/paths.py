"""Measures of how solutions get there: reasoning steps and routes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from numpy.typing import ArrayLike

from polypath.core.registry import register
from polypath.diversity.features.routes import route
from polypath.diversity.kernels.structural import lcs_kernel, rpd_kernel
from polypath.diversity.kernels.vector import given_rows, unit_rows
from polypath.diversity.measures.distance import pairwise_cosine
from polypath.diversity.measures.traits import INVARIANT, MORE


@register("measure", "reasoning_path_divergence", paper="arXiv:2510.26122 [0.91]", traits={INVARIANT, MORE})
def reasoning_path_divergence(steps: Sequence[ArrayLike], *, reduce: Literal["max", "mean"] = "max") -> float:
    """How differently the solutions of one problem proceed: the largest (or mean) distance of one to all others.

    `steps` holds one (steps, d) array per solution, of short descriptions of its steps. The distance is
    `kernels.path_divergence`, made symmetric by the larger direction. `max` is the published score of a problem.
    NaN for fewer than two.
    """
    n = len(steps)
    if n < 2:
        return math.nan
    distance = 1.0 - rpd_kernel(steps).matrix()
    means = distance.sum(axis=1) / (n - 1)
    return float(means.max() if reduce == "max" else means.mean())


@register("measure", "route_diversity", paper="Route diversity [2.6]", traits={INVARIANT, MORE})
def route_diversity(texts: Sequence[str]) -> float:
    """Mean over pairs of 1 - LCS / longer length of the route fingerprints, in [0, 1]. NaN for fewer than two.

    Reconstructed: the rules are ours. See `features.route`.
    """
    n = len(texts)
    if n < 2:
        return math.nan
    similar = sum(float(rows.sum()) for _, rows in lcs_kernel([route(text) for text in texts]).blocks()) - n
    return 1.0 - similar / (n * (n - 1))


@register("measure", "distinct_routes", paper="Route diversity [2.6]", traits={INVARIANT, MORE})
def distinct_routes(texts: Sequence[str]) -> float:
    """How many different route fingerprints there are. NaN for an empty set."""
    return float(len({route(text) for text in texts})) if len(texts) else math.nan


@register("measure", "diversity_coefficient", paper="arXiv:2306.13840 [1.97]", traits={INVARIANT, MORE})
def diversity_coefficient(gradients: ArrayLike) -> float:
    """Mean cosine distance between batch embeddings (Task2Vec): one row per batch of texts, the Fisher diagonal.

    See `features.head_fisher`. NaN for fewer than three batches, for which the paper calls it meaningless; resample
    batches, not pairs, for an interval.
    """
    rows = given_rows(gradients, "gradients")
    return pairwise_cosine(rows) if len(rows) >= 3 else math.nan


@register("measure", "cross_diversity", paper="arXiv:2306.13840 [1.97]", traits={INVARIANT})
def cross_diversity(gradients: ArrayLike, reference: ArrayLike) -> float:
    """Mean cosine distance between batches of two datasets, over all pairs. NaN for fewer than three of either."""
    a, b = unit_rows(gradients, "gradients"), unit_rows(reference, "reference")
    return 1.0 - float(a.mean(axis=0) @ b.mean(axis=0)) if min(len(a), len(b)) >= 3 else math.nan
