"""What one rollout adds to its group: D(all) - D(all but i), in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float
from polypath.core.registry import register
from polypath.diversity.partitions import class_sizes

EQUIVARIANT = frozenset({"permutation_equivariant", "duplicates_share"})
DUPLICATE_SAFE = EQUIVARIANT | {
    "duplicate_never_raises"
}  # an exact copy in the group never raises a rollout's own value


def leave_one_out(set_function: Callable[[Sequence[int]], float], size: int) -> np.ndarray:
    """The brute force: `set_function(all) - set_function(all but i)` for every i of `range(size)`.

    >>> leave_one_out(len, 3).tolist()
    [1.0, 1.0, 1.0]
    """
    everyone = list(range(size))
    total = set_function(everyone)
    return np.array([total - set_function(everyone[:i] + everyone[i + 1 :]) for i in everyone], dtype=float)


@register("signal", "loo_pairs", returns="diversity", traits=EQUIVARIANT)
def loo_pairs(similarity: Array) -> Array:
    """Marginal of the mean pairwise distance 1 - similarity.

    With s_i = sum_j d_ij and S = sum_i s_i: S/(G(G-1)) - (S - 2 s_i)/((G-1)(G-2)). Zero for G < 3, where the mean
    over the remaining pairs is undefined. Shapes: (..., G, G) -> (..., G). Marginals of a mean shrink as the group
    grows, so a copy can raise a *negative* one.
    """
    distance = 1.0 - as_float(similarity)
    xp = array_namespace(distance)
    size = distance.shape[-1]
    rows = xp.sum(distance, axis=-1) - xp.linalg.diagonal(distance)
    if size < 3:
        return xp.zeros_like(rows)
    total = xp.sum(rows, axis=-1, keepdims=True)
    return total / (size * (size - 1)) - (total - 2 * rows) / ((size - 1) * (size - 2))


@register("signal", "loo_logdet", returns="diversity", traits=DUPLICATE_SAFE)
def loo_logdet(similarity: Array, *, ridge: float = 1e-3) -> Array:
    """Marginal of the log-volume log det(K + ridge I): the log of 1/[(K + ridge I)^-1]_ii.

    `ridge` is part of the definition: an exact duplicate adds about log(2 ridge). Raises a LinAlgError of the array
    library for a similarity that is not positive semi-definite. Shapes: (..., G, G) -> (..., G).
    """
    kernel = as_float(similarity)
    xp = array_namespace(kernel)
    inverse = xp.linalg.inv(kernel + ridge * xp.eye(kernel.shape[-1], dtype=kernel.dtype))
    return -xp.log(xp.linalg.diagonal(inverse))


@register("signal", "loo_classes", returns="diversity", traits=DUPLICATE_SAFE)
def loo_classes(labels: Array) -> Array:
    """Marginal of the number of distinct classes: 1 for the only member of its class, else 0.

    Shapes: (..., G) -> (..., G).
    """
    sizes = class_sizes(labels)
    xp = array_namespace(sizes)
    return xp.astype(sizes == 1, as_float(sizes).dtype)


@register("signal", "loo_entropy", returns="diversity", traits=EQUIVARIANT)
def loo_entropy(labels: Array) -> Array:
    """Marginal of the entropy (nats) of the class shares, by decrementing one count.

    With F = sum over classes of f log f: H = log G - F/G. Removing a member of a class of size f changes F by
    (f-1) log(f-1) - f log f. Shapes: (..., G) -> (..., G). Zero for a group of one.
    """
    sizes = as_float(class_sizes(as_array(labels)))
    xp = array_namespace(sizes)
    size = sizes.shape[-1]
    if size < 2:
        return xp.zeros_like(sizes)
    before = xp.sum(xp.log(sizes), axis=-1, keepdims=True)  # each class of f contributes f times log f
    smaller = xp.where(sizes > 1, sizes - 1, xp.ones_like(sizes))
    after = before + smaller * xp.log(smaller) - sizes * xp.log(sizes)
    one = xp.ones_like(before)
    return (xp.log(size * one) - before / size) - (xp.log((size - 1) * one) - after / (size - 1))
