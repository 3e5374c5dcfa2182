"""Weights by how hard a prompt is, and which rollouts of a group are worth training on."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float
from polypath.core.registry import register


@register("reweight", "focal", returns="advantages", paper="arXiv:2602.06717", traits={"permutation_equivariant"})
def focal(advantages: Array, correct: Array, *, gamma: float = 0.5, prior: float = 0.0) -> Array:
    """A times (1 - p)^gamma, p the group's success rate (F-GRPO): hard prompts weigh more, solved ones nothing.

    `prior` adds that many successes and as many failures, which steadies p in small groups.
    Shapes: (..., G), bool (..., G) -> (..., G).

    >>> focal([1.0, -1.0], [True, False], gamma=2.0).tolist()
    [0.25, -0.25]
    """
    advantages, right = as_float(advantages), as_float(as_array(correct))
    return advantages * (1.0 - success_rate(right, prior)) ** gamma


@register("reweight", "logistic_difficulty", returns="advantages", traits={"permutation_equivariant"})
def logistic_difficulty(
    advantages: Array,
    correct: Array,
    *,
    floor: float = 0.4,
    height: float = 1.1,
    slope: float = 10.0,
    centre: float = 0.75,
) -> Array:
    """A times w(p) where A > 0 and w(1 - p) elsewhere, w(p) = floor + height/(1 + exp(slope (p - centre))) (GRPO-LEAD).

    Shapes: (..., G), bool (..., G) -> (..., G).
    """
    advantages, right = as_float(advantages), as_float(as_array(correct))
    xp = array_namespace(advantages)
    rate = success_rate(right, 0.0)
    hardness = xp.where(advantages > 0, rate + 0.0 * advantages, 1.0 - rate)
    return advantages * (floor + height / (1.0 + xp.exp(slope * (hardness - centre))))


def success_rate(right: Array, prior: float) -> Array:
    """Share of correct rollouts with `prior` successes and failures added, kept: (..., G) -> (..., 1)."""
    right_of_all = array_namespace(right).sum(right, axis=-1, keepdims=True)
    return (right_of_all + prior) / (right.shape[-1] + 2.0 * prior)


def missed_tail(*, mean: float, tail: float, size: int) -> float:
    """Chance that a group of `size` has both outcomes and yet no rollout of the rare correct kind.

    `mean` is the success rate and `tail` the part of it that is rare: (1 - tail)^N - (1 - mean)^N - (mean - tail)^N.
    Such a group pushes the rare kind down. It is worst at practical sizes (F-GRPO, arXiv:2602.06717).

    >>> [round(missed_tail(mean=0.5, tail=0.05, size=n), 3) for n in (2, 8, 32, 128)]
    [0.45, 0.658, 0.194, 0.001]
    """
    return (1.0 - tail) ** size - (1.0 - mean) ** size - (mean - tail) ** size


@register("reweight", "max_variance", returns="keep", paper="D3S (2.67)")
def max_variance(advantages: Array, *, share: float = 0.5) -> np.ndarray:
    """Keep the round(share G), at least two, rollouts whose advantages have the largest variance.

    They are the i largest and the others smallest for some i: O(G log G). Kept advantages stay those of the full group.
    Equal advantages are kept in the order of the rollouts. Shapes: (..., G) -> bool (..., G).

    >>> max_variance([1.8, 0.5, 0.4, -0.1, -0.6, -2.0], share=4 / 6).tolist()
    [True, True, False, False, True, True]
    """
    values = np.asarray(advantages, dtype=float)
    n = values.shape[-1]
    m = min(n, max(2, round(share * n)))
    order = np.argsort(values, axis=-1, kind="stable")
    ascending = np.take_along_axis(values, order, axis=-1)
    ascending = ascending - ascending.mean(axis=-1, keepdims=True)
    zero = np.zeros((*values.shape[:-1], 1))
    sums = np.concatenate([zero, np.cumsum(ascending, axis=-1)], axis=-1)
    squares = np.concatenate([zero, np.cumsum(ascending**2, axis=-1)], axis=-1)
    top = np.arange(m + 1)  # how many of the largest; the m - top smallest join them
    total, square = (s[..., m - top] + s[..., -1:] - s[..., n - top] for s in (sums, squares))
    best = np.argmax(square / m - (total / m) ** 2, axis=-1)[..., None]
    place = np.argsort(order, axis=-1, kind="stable")
    return (place < m - best) | (place >= n - best)
