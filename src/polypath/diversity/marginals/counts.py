"""Marginals of measures of classes and of tables of success: decrement a count, or fall back to the second best."""

from __future__ import annotations

import math

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.diversity.marginals.common import DUPLICATE_SAFE, EQUIVARIANT, as_like, check_rows, constant_like
from polypath.diversity.marginals.kernels import only_best
from polypath.diversity.partitions import class_sizes


@register("signal", "loo_classes", returns="diversity", traits=DUPLICATE_SAFE)
def loo_classes(labels: Array) -> Array:
    """Marginal of the number of distinct classes: 1 for the only member of its class, else 0.

    Shapes: (..., G) -> (..., G).
    """
    sizes = class_sizes(labels)
    xp = array_namespace(sizes)
    return xp.astype(sizes == 1, as_float(sizes).dtype)


@register("signal", "loo_entropy", returns="diversity", traits=EQUIVARIANT)
def loo_entropy(labels: Array, *, undefined: float = 0.0) -> Array:
    """Marginal of the entropy (nats) of the class shares, by decrementing one count.

    With F = sum over classes of f log f: H = log G - F/G. Removing a member of a class of size f changes F by
    (f-1) log(f-1) - f log f. Shapes: (..., G) -> (..., G). `undefined` for a group of one.
    """
    sizes = as_float(class_sizes(as_array(labels)))
    xp = array_namespace(sizes)
    size = sizes.shape[-1]
    if size < 2:
        return constant_like(sizes, undefined)
    before, after = _logs(sizes)
    one = xp.ones_like(before)
    return (xp.log(size * one) - before / size) - (xp.log((size - 1) * one) - after / (size - 1))


def _logs(sizes: Array) -> tuple[Array, Array]:
    """sum over classes of f log f, (..., 1), and the same without each one, (..., G)."""
    xp = array_namespace(sizes)
    before = xp.sum(xp.log(sizes), axis=-1, keepdims=True)  # each class of f contributes f times log f
    smaller = xp.where(sizes > 1, sizes - 1, xp.ones_like(sizes))
    return before, before + smaller * xp.log(smaller) - sizes * xp.log(sizes)


@register("signal", "loo_label_pairs", returns="diversity", traits=EQUIVARIANT)
def loo_label_pairs(labels: Array, *, undefined: float = 0.0) -> Array:
    """Marginal of the probability that two rollouts differ in their class (Gini-Simpson without self pairs).

    A member of a class of f takes G - f pairs that differ with it. Shapes: (..., G) -> (..., G). `undefined` for
    G < 3, where no pair remains.

    >>> loo_label_pairs([0, 0, 1]).round(6).tolist()  # 2/3 against 1, 1 and 0
    [-0.333333, -0.333333, 0.666667]
    """
    sizes = as_float(class_sizes(as_array(labels)))
    xp = array_namespace(sizes)
    size = sizes.shape[-1]
    if size < 3:
        return constant_like(sizes, undefined)
    total = xp.sum(size - sizes, axis=-1, keepdims=True)
    return total / (size * (size - 1)) - (total - 2 * (size - sizes)) / ((size - 1) * (size - 2))


@register("signal", "loo_hill", returns="diversity", paper="doi:10.2307/1934352", traits=EQUIVARIANT)
def loo_hill(labels: Array, *, q: float = 1.0, undefined: float = 0.0) -> Array:
    """Marginal of the Hill number of order `q` of the class shares, by decrementing one count.

    Shapes: (..., G) -> (..., G). `undefined` for G = 1.
    """
    sizes = as_float(class_sizes(as_array(labels)))
    xp = array_namespace(sizes)
    n = sizes.shape[-1]
    if n < 2:
        return constant_like(sizes, undefined)
    if q == 1:
        before, after = _logs(sizes)
        return n * xp.exp(-before / n) - (n - 1) * xp.exp(-after / (n - 1))
    if math.isinf(q):
        largest = xp.max(sizes, axis=-1, keepdims=True)
        return n / largest - (n - 1) / _largest_without(sizes, largest)
    power = xp.sum(sizes ** (q - 1), axis=-1, keepdims=True)  # sum over classes of f^q
    smaller = xp.where(sizes > 1, xp.where(sizes > 1, sizes - 1, xp.ones_like(sizes)) ** q, xp.zeros_like(sizes))
    after = power - sizes**q + smaller
    return (power / n**q) ** (1 / (1 - q)) - (after / (n - 1) ** q) ** (1 / (1 - q))


def _largest_without(sizes: Array, largest: Array) -> Array:
    """Size of the largest class without each one: one less only for the members of the only largest class."""
    xp = array_namespace(sizes)
    top = sizes == largest
    alone = top & (xp.sum(xp.astype(top, sizes.dtype), axis=-1, keepdims=True) == largest)
    others = xp.max(xp.where(top, xp.zeros_like(sizes), sizes), axis=-1, keepdims=True)
    return xp.where(alone, xp.where(largest - 1 > others, largest - 1, others), largest)


@register("signal", "loo_coverage", returns="diversity", paper="Portfolios (0.13)", traits=DUPLICATE_SAFE)
def loo_coverage(success: Array) -> Array:
    """Marginal of the coverage sum over items of the best success, 0 being none: (..., G, items) -> (..., G).

    >>> loo_coverage([[1, 1, 0], [0, 1, 0]]).tolist()
    [1.0, 0.0]
    """
    table = as_float(success)
    check_rows(table, "success")
    xp = array_namespace(table)
    return xp.sum(xp.matrix_transpose(only_best(xp.matrix_transpose(table))), axis=-1)


def gain_coverage(success: Array, candidates: Array) -> Array:
    """Coverage gained by each candidate: success of the set (..., S, items), of candidates (..., n, items) -> (..., n).

    That of an empty set is 0.
    """
    table, new = as_float(success), as_float(candidates)
    check_rows(table, "success")
    check_rows(new, "candidates")
    xp = array_namespace(new)
    if table.shape[-2] == 0:
        return xp.sum(new, axis=-1)
    best = xp.max(table, axis=-2, keepdims=True)
    return xp.sum(xp.where(new > best, new - best, xp.zeros_like(new)), axis=-1)


@register("signal", "loo_scalarised", returns="diversity", paper="arXiv:2605.22817 [0.106]", traits=DUPLICATE_SAFE)
def loo_scalarised(
    reward_columns: Array, *, samples: int = 64, concentration: float = 1.0, seed: int = 0, undefined: float = 0.0
) -> Array:
    """Marginal of the mean over random weights w of the best w.R in the group (VPO): being the best for some taste.

    The Dirichlet weights are the same for every group, so that none is lucky. An undefined reward counts 0. Bring the
    rewards to one scale first. Shapes: (..., G, M) -> (..., G). `undefined` for G = 1: nothing has no best.
    """
    columns = as_float(reward_columns)
    draw = np.random.default_rng(derive(seed, "scalarisations", columns.shape[-1]))
    weights = as_like(draw.dirichlet(np.full(columns.shape[-1], concentration), samples), columns)
    found = best_of_tastes(columns, weights)
    return constant_like(found, undefined) if columns.shape[-2] < 2 else found


def best_of_tastes(reward_columns: Array, weights: Array) -> Array:
    """`loo_scalarised` for given weights (W, M): (..., G, M) -> (..., G); the value of nothing is 0.

    >>> R, W = [[1.0, 0.0], [0.0, 1.0], [0.9, 0.0]], [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    >>> best_of_tastes(R, W).round(6).tolist()
    [0.033333, 0.333333, 0.0]
    """
    columns = as_float(reward_columns)
    xp = array_namespace(columns)
    columns = xp.where(xp.isnan(columns), xp.zeros_like(columns), columns)
    tastes = as_like(np.asarray(weights), columns) if isinstance(weights, list | np.ndarray) else weights
    return loo_coverage(columns @ xp.matrix_transpose(tastes)) / tastes.shape[-2]
