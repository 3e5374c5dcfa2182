"""Marginals and gains of measures of a similarity matrix that need no eigenvalues."""

from __future__ import annotations

from array_api_compat import device

from polypath.core.arrays import Array, array_namespace, as_float
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.marginals.common import (
    DUPLICATE_SAFE,
    EQUIVARIANT,
    by_blocks,
    check_rows,
    check_similarity,
    constant_like,
    place_of,
)


@register("signal", "loo_pairs", returns="diversity", traits=EQUIVARIANT)
def loo_pairs(similarity: Array, *, undefined: float = 0.0) -> Array:
    """Marginal of the mean pairwise distance 1 - similarity.

    With s_i = sum_j d_ij and S = sum_i s_i: S/(G(G-1)) - (S - 2 s_i)/((G-1)(G-2)). `undefined` for G < 3, where no
    pair remains. Shapes: (..., G, G) -> (..., G). Marginals of a mean shrink as the group grows, so a copy can raise a
    *negative* one.
    """
    distance = 1.0 - check_similarity(similarity)
    xp = array_namespace(distance)
    size = distance.shape[-1]
    rows = xp.sum(distance, axis=-1) - xp.linalg.diagonal(distance)
    if size < 3:
        return constant_like(rows, undefined)
    total = xp.sum(rows, axis=-1, keepdims=True)
    return total / (size * (size - 1)) - (total - 2 * rows) / ((size - 1) * (size - 2))


def gain_pairs(similarity: Array, candidates: Array, own: Array | None = None, *, undefined: float = 0.0) -> Array:
    """Mean pairwise distance after adding each candidate to a set, minus that of the set.

    `undefined` for a set of fewer than two. Shapes: similarity of the set (..., S, S), of the candidates to it
    (..., n, S) -> (..., n); `own` is not needed.
    """
    distance, apart = 1.0 - check_similarity(similarity), 1.0 - as_float(candidates)
    xp = array_namespace(distance)
    size = distance.shape[-1]
    new = xp.sum(apart, axis=-1)
    if size < 2:
        return constant_like(new, undefined)
    total = xp.sum(distance, axis=(-2, -1)) - xp.sum(xp.linalg.diagonal(distance), axis=-1)
    total = total[..., None]
    return (total + 2 * new) / (size * (size + 1)) - total / (size * (size - 1))


@register("signal", "loo_logdet", returns="diversity", traits=DUPLICATE_SAFE)
def loo_logdet(similarity: Array, *, ridge: float = 1e-3) -> Array:
    """Marginal of the log-volume log det(K + ridge I): the log of 1/[(K + ridge I)^-1]_ii.

    `ridge` is part of the definition: an exact duplicate adds about log(2 ridge). The volume of nothing is 1, its log
    0. Raises UserError naming the group when K + ridge I is not positive definite. Shapes: (..., G, G) -> (..., G).
    """
    kernel = check_similarity(similarity)
    xp = array_namespace(kernel)
    return by_blocks(lambda part: -xp.log(xp.sum(inverse_of_lower(cholesky(part, ridge)) ** 2, axis=-2)), kernel)


def gain_logdet(similarity: Array, candidates: Array, own: Array, *, ridge: float = 1e-3) -> Array:
    """log det gain of adding each candidate to a set, by Schur's complement: log(own + ridge - k'(K + ridge I)^-1 k).

    Shapes: similarity of the set (..., S, S), of the candidates to it (..., n, S), their own (..., n) -> (..., n).
    Raises UserError when K + ridge I is not positive definite.
    """
    kernel, k = check_similarity(similarity), as_float(candidates)
    xp = array_namespace(kernel)
    alone = as_float(own) + ridge
    if kernel.shape[-1] == 0:
        return xp.log(alone)
    half = xp.linalg.solve(cholesky(kernel, ridge), xp.matrix_transpose(k))
    return xp.log(alone - xp.sum(half**2, axis=-2))


def cholesky(kernel: Array, ridge: float) -> Array:
    """Lower factor of K + ridge I. Raises UserError naming the first group where there is none."""
    xp = array_namespace(kernel)
    shifted = kernel + ridge * _identity(kernel)
    try:
        return xp.linalg.cholesky(shifted)
    except (ValueError, RuntimeError):  # the LinAlgError of numpy is the one, that of torch the other
        least = xp.linalg.eigvalsh(shifted)[..., 0]
        raise _not_positive(least, ridge) from None


def inverse_of_lower(lower: Array) -> Array:
    """Inverse of lower triangular matrices (..., n, n) by halves, which is mostly products: L = [[A, 0], [B, C]]."""
    xp = array_namespace(lower)
    size = lower.shape[-1]
    if size <= 16:
        return xp.linalg.inv(lower)
    half = size // 2
    upper_left, lower_right = inverse_of_lower(lower[..., :half, :half]), inverse_of_lower(lower[..., half:, half:])
    lower_left = -(lower_right @ (lower[..., half:, :half] @ upper_left))
    zeros = xp.zeros_like(lower[..., :half, half:])
    top = xp.concat([upper_left, zeros], axis=-1)
    return xp.concat([top, xp.concat([lower_left, lower_right], axis=-1)], axis=-2)


def _not_positive(least: Array, ridge: float) -> UserError:
    xp = array_namespace(least)
    value, faults = float(xp.min(least)), least == xp.min(least)
    group = place_of(faults).replace("row", "group") if faults.ndim else ""
    what = f"plus the ridge {ridge:g} is not positive definite: its least eigenvalue is {value:.2g}"
    return UserError(f"similarity{group}", what, "Raise the ridge, or use a positive semi-definite kernel.")


def _identity(kernel: Array) -> Array:
    return array_namespace(kernel).eye(kernel.shape[-1], dtype=kernel.dtype, device=device(kernel))


@register("signal", "loo_kernel_entropy", returns="diversity", paper="arXiv:2602.01062 [1.30]", traits=EQUIVARIANT)
def loo_kernel_entropy(similarity: Array, *, undefined: float = 0.0) -> Array:
    """Marginal of the similarity-sensitive entropy -mean_i log z_i, z_i the mean similarity of i to all (SetPO).

    A similarity below 0 counts as 0; no positive semi-definite matrix is needed. `undefined` for G = 1. Raises
    UserError for a diagonal that is not positive. Shapes: (..., G, G) -> (..., G).

    >>> K = [[1, 0.9, 0.9, 0.1], [0.9, 1, 0.9, 0.1], [0.9, 0.9, 1, 0.1], [0.1, 0.1, 0.1, 1]]
    >>> loo_kernel_entropy(K).round(6).tolist()
    [-0.05357, -0.05357, -0.05357, 0.453177]
    """
    kernel = check_similarity(similarity, symmetric=False)
    xp = array_namespace(kernel)
    size = kernel.shape[-1]
    own = xp.linalg.diagonal(kernel)
    if 0 in kernel.shape or size < 2:
        return constant_like(own, undefined)
    if bool(xp.any(own <= 0)):
        raise UserError(f"similarity{place_of(own <= 0)}", "is not similar to itself", "Set the diagonal to 1.")
    total, rest = sums_without(xp.where(kernel > 0, kernel, xp.zeros_like(kernel)))
    whole = xp.log(size * xp.ones_like(total)) - xp.log(total)
    logs = xp.where(_identity(kernel) > 0, xp.zeros_like(rest), xp.log(rest))  # [i, k]: i's sum without k
    after = xp.log((size - 1) * xp.ones_like(total)) - xp.sum(logs, axis=-2) / (size - 1)
    return xp.mean(whole, axis=-1, keepdims=True) - after


def sums_without(kernel: Array) -> tuple[Array, Array]:
    """Row sums (..., G), and [i, k] the sum of row i without k, never less than its own entry; the diagonal is 1."""
    xp = array_namespace(kernel)
    total = xp.sum(kernel, axis=-1)
    own = xp.linalg.diagonal(kernel)[..., :, None]
    rest = total[..., :, None] - kernel
    rest = xp.where(rest < own, own + xp.zeros_like(rest), rest)
    return total, xp.where(_identity(kernel) > 0, xp.ones_like(rest), rest)


@register("signal", "loo_facility", returns="diversity", paper="Facility location (0.83)", traits=DUPLICATE_SAFE)
def loo_facility(similarity: Array) -> Array:
    """Marginal of facility location, sum_i max_j K_ij: how much worse the group is represented without this one.

    A similarity below 0 represents nothing. Shapes: (..., G, G) -> (..., G).
    """
    kernel = check_similarity(similarity, symmetric=False)
    xp = array_namespace(kernel)
    return xp.sum(only_best(xp.where(kernel > 0, kernel, xp.zeros_like(kernel))), axis=-2)


def gain_facility(similarity: Array, candidates: Array) -> Array:
    """Facility location gained by each candidate: sum over the items of max(0, K_ic - best K_is in the set).

    Shapes: similarity of m items to the set (..., m, S), to the candidates (..., m, n) -> (..., n).
    """
    chosen, new = as_float(similarity), as_float(candidates)
    check_rows(chosen, "similarity")
    check_rows(new, "candidates")
    xp = array_namespace(new)
    best = xp.zeros_like(new[..., :1]) if chosen.shape[-1] == 0 else xp.max(chosen, axis=-1, keepdims=True)
    best = xp.where(best > 0, best, xp.zeros_like(best))
    return xp.sum(xp.where(new > best, new - best, xp.zeros_like(new)), axis=-2)


def only_best(table: Array) -> Array:
    """By how much each entry exceeds all others of its row, 0 unless it is the only largest: (..., m, n) -> same.

    In a row of one entry, by how much it exceeds 0.
    """
    xp = array_namespace(table)
    if table.shape[-1] < 2:
        return table
    ordered = xp.sort(table, axis=-1)
    best, second = ordered[..., -1:], ordered[..., -2:-1]
    return xp.where(table == best, best - second, xp.zeros_like(table))
