"""What one rollout adds to its group, for measures whose closed form takes more than a line.

Each function is `D(all) - D(all but i)` for every i, over any leading axes; see `marginals` for the simple ones. All of
them are exact (the Vendi quadrature to its stated error), and zero for groups that are too small for a difference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polypath.core.arrays import Array, array_namespace, as_array, as_float, per_group
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.features import tokens
from polypath.diversity.marginals import DUPLICATE_SAFE, EQUIVARIANT, leave_one_out
from polypath.diversity.partitions import class_sizes

NODES = np.arange(-26.0, 16.25, 0.75)  # log t of the quadrature: 57 nodes, error about 1e-10 in Vendi units


def check_similarity(similarity: Array) -> Array:
    """The similarity as floats. Raises UserError naming the group and row of a value that is not finite."""
    kernel = as_float(similarity)
    xp = array_namespace(kernel)
    finite = xp.all(xp.isfinite(kernel), axis=-1)
    if not bool(xp.all(finite)):
        place = np.argwhere(~np.asarray(finite))[0].tolist()
        where = "similarity" + "".join(f"[{i}]" for i in place)
        raise UserError(where, "is not finite", "Embed that text again, or leave it out.")
    return kernel


@register("signal", "loo_vendi", returns="diversity", paper="arXiv:2210.02410 [1.86, 0.12]", traits=EQUIVARIANT)
def loo_vendi(similarity: Array, *, q: float = 1.0) -> Array:
    """Marginal of the Vendi score of order `q`; it may be negative, since dropping a copy can raise the score.

    Order 1 takes one eigendecomposition per group: the entropy's change is an integral over resolvents,
    A_ii log c + int [A_ii/(c+t) - e_i(t)/a_i(t)] dt with a_i = sum_j V_ij^2/(l_j+t), e_i = sum_j V_ij^2 l_j/(l_j+t)^2
    and A = K / tr K = V diag(l) V', by the trapezoid rule in log t (error below 1e-9). Order 2 needs no eigenvalues.
    Other orders decompose every minor, O(G^4). Shapes: (..., G, G), positive semi-definite -> (..., G); 0 for G = 1.

    >>> K = [[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1]]
    >>> loo_vendi(K).round(6).tolist(), loo_vendi(K, q=2).round(6).tolist()
    ([0.132288, 0.132288, 0.934986, 0.934986], [-0.11506, -0.11506, 0.858966, 0.858966])
    """
    kernel = check_similarity(similarity)
    xp = array_namespace(kernel)
    size = kernel.shape[-1]
    own = xp.linalg.diagonal(kernel)
    if size < 2 or 0 in own.shape:
        return xp.zeros_like(own)
    trace = xp.sum(own, axis=-1, keepdims=True)
    if q == 2:
        squares = xp.sum(kernel**2, axis=-1)
        total = xp.sum(squares, axis=-1, keepdims=True)
        return trace**2 / total - (trace - own) ** 2 / (total - 2 * squares + own**2)
    if q == 1:
        return _vendi_one(kernel / trace[..., None], own / trace)
    whole = _hill_of_spectrum(kernel, q)
    rest = [
        _hill_of_spectrum(xp.take(xp.take(kernel, keep, axis=-1), keep, axis=-2), q)
        for keep in (xp.asarray([j for j in range(size) if j != i]) for i in range(size))
    ]
    return whole[..., None] - xp.stack(rest, axis=-1)


def _vendi_one(a: Array, own: Array) -> Array:
    xp = array_namespace(a)
    values, vectors = xp.linalg.eigh(a)
    values = xp.where(values > 0, values, xp.zeros_like(values))
    share = vectors**2
    second = xp.sum(share * (values**2)[..., None, :], axis=-1)  # (A^2)_ii
    c = (2 * second - own**2) / own  # takes the 1/t^2 tail out of the integrand
    t = xp.asarray(np.exp(NODES), dtype=a.dtype)
    resolvent = 1 / (values[..., :, None] + t)
    a_t = share @ resolvent
    e_t = share @ (values[..., :, None] * resolvent**2)
    integrand = own[..., None] / (c[..., None] + t) - e_t / a_t
    integral = float(NODES[1] - NODES[0]) * xp.sum(integrand * t, axis=-1)
    change = own * xp.log(c) + integral  # tr(A log A) - tr(A_-i log A_-i)
    positive = xp.where(values > 0, values, xp.ones_like(values))
    entropy = xp.sum(values * xp.log(positive), axis=-1, keepdims=True)
    left = 1 - own
    rest = xp.log(left) - (entropy - change) / left
    return xp.exp(-entropy) - xp.exp(rest)


def _hill_of_spectrum(kernel: Array, q: float) -> Array:
    xp = array_namespace(kernel)
    values = xp.linalg.eigvalsh(kernel)
    noise = kernel.shape[-1] * float(xp.finfo(kernel.dtype).eps) * xp.max(values, axis=-1, keepdims=True)
    values = xp.where(values > noise, values, xp.zeros_like(values))
    p = values / xp.sum(values, axis=-1, keepdims=True)
    if math.isinf(q):
        return 1 / xp.max(p, axis=-1)
    powers = xp.where(p > 0, xp.where(p > 0, p, xp.ones_like(p)) ** q, xp.zeros_like(p))
    return xp.sum(powers, axis=-1) ** (1 / (1 - q))


@register("signal", "loo_hill", returns="diversity", traits=EQUIVARIANT)
def loo_hill(labels: Array, *, q: float = 1.0) -> Array:
    """Marginal of the Hill number of order `q` of the class shares, by decrementing one count.

    Shapes: (..., G) -> (..., G). Zero for G = 1.
    """
    sizes = as_float(class_sizes(as_array(labels)))
    xp = array_namespace(sizes)
    n = sizes.shape[-1]
    if n < 2:
        return xp.zeros_like(sizes)
    if q == 1:
        logs = xp.sum(xp.log(sizes), axis=-1, keepdims=True)  # a class of f contributes f log f, a member its share
        smaller = xp.where(sizes > 1, sizes - 1, xp.ones_like(sizes))
        after = logs + smaller * xp.log(smaller) - sizes * xp.log(sizes)
        return n * xp.exp(-logs / n) - (n - 1) * xp.exp(-after / (n - 1))
    if math.isinf(q):
        largest = xp.max(sizes, axis=-1, keepdims=True)
        alone = xp.sum(xp.astype(sizes == largest, sizes.dtype), axis=-1, keepdims=True) == largest
        after = xp.where((sizes == largest) & alone, _largest_without(sizes, largest), largest)
        return n / largest - (n - 1) / after
    power = xp.sum(sizes ** (q - 1), axis=-1, keepdims=True)  # sum over classes of f^q
    smaller = xp.where(sizes > 1, xp.where(sizes > 1, sizes - 1, xp.ones_like(sizes)) ** q, xp.zeros_like(sizes))
    after = power - sizes**q + smaller
    return (power / n**q) ** (1 / (1 - q)) - (after / (n - 1) ** q) ** (1 / (1 - q))


def _largest_without(sizes: Array, largest: Array) -> Array:
    """The largest class once a member of the only largest one is gone."""
    xp = array_namespace(sizes)
    others = xp.max(xp.where(sizes == largest, xp.zeros_like(sizes), sizes), axis=-1, keepdims=True)
    return xp.where(largest - 1 > others, largest - 1, others)


@register("signal", "loo_facility", returns="diversity", paper="Facility location (0.83)", traits=DUPLICATE_SAFE)
def loo_facility(similarity: Array) -> Array:
    """Marginal of facility location, sum_i max_j K_ij: how much worse the group is represented without this one.

    A similarity below 0 represents nothing. Shapes: (..., G, G) -> (..., G).
    """
    kernel = check_similarity(similarity)
    xp = array_namespace(kernel)
    kernel = xp.where(kernel > 0, kernel, xp.zeros_like(kernel))
    if kernel.shape[-1] < 2:
        return xp.sum(kernel, axis=-1)
    ordered = xp.sort(kernel, axis=-1)
    best, second = ordered[..., -1], ordered[..., -2]
    first = xp.argmax(kernel, axis=-1)
    mine = first[..., :, None] == xp.arange(kernel.shape[-1])
    return xp.sum(xp.where(mine, (best - second)[..., :, None], xp.zeros_like(kernel)), axis=-2)


@register("signal", "loo_coverage", returns="diversity", paper="Portfolios (0.13)", traits=DUPLICATE_SAFE)
def loo_coverage(success: Array) -> Array:
    """Marginal of the coverage sum over items of the best success: (..., G, items) -> (..., G)."""
    table = as_float(success)
    xp = array_namespace(table)
    if table.shape[-2] < 2:
        return xp.sum(table, axis=-1)
    ordered = xp.sort(table, axis=-2)
    best, second = ordered[..., -1:, :], ordered[..., -2:-1, :]
    only = (table == best) & (best > second)
    return xp.sum(xp.where(only, best - second, xp.zeros_like(table)), axis=-1)


@register("signal", "loo_distinct_n", returns="diversity", paper="arXiv:1510.03055", traits=EQUIVARIANT)
def loo_distinct_n(texts: Sequence[str], *, n: int = 2) -> np.ndarray:
    """Marginal of distinct-n of the pooled texts, by decrementing counts; 0 where it is undefined with or without.

    Shapes: G texts, or B lists of G -> (..., G).
    """

    def one(group: Sequence[str]) -> np.ndarray:
        counts = [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in map(tokens, group)]
        pool: Counter[Any] = sum(counts, Counter())
        total, unique = sum(pool.values()), len(pool)
        values = []
        for own in counts:
            left = total - sum(own.values())
            kept = unique - sum(pool[gram] == c for gram, c in own.items())
            values.append(unique / total - kept / left if total and left else 0.0)
        return np.array(values)

    return per_group(one, texts)


def gain_log_det(similarity: Array, candidates: Array, own: Array, *, ridge: float = 1e-3) -> Array:
    """log det gain of adding each candidate to a set: log(own + ridge - k' (K + ridge I)^-1 k).

    Shapes: similarity of the set (S, S), of candidates to it (n, S), own similarities (n,) -> (n,).
    """
    kernel, k = check_similarity(similarity), as_float(candidates)
    xp = array_namespace(kernel)
    own = as_float(own) + ridge
    if kernel.shape[-1] == 0:
        return xp.log(own)
    solved = xp.linalg.solve(kernel + ridge * xp.eye(kernel.shape[-1], dtype=kernel.dtype), xp.matrix_transpose(k))
    return xp.log(own - xp.sum(k * xp.matrix_transpose(solved), axis=-1))


def gain_vendi(similarity: Array, candidates: Array, own: Array) -> np.ndarray:
    """Vendi score (order 1) after adding each candidate to a set, minus that of the set, by bordered decompositions.

    Shapes as in `gain_log_det`. The score of an empty set is 0.
    """
    kernel = np.asarray(check_similarity(similarity), dtype=float)
    rows, diagonal = np.asarray(candidates, dtype=float), np.asarray(own, dtype=float)
    s, n = len(kernel), len(diagonal)
    before = float(_exp_entropy(kernel)) if s else 0.0
    bordered = np.empty((n, s + 1, s + 1))
    bordered[:, :s, :s], bordered[:, s, s] = kernel, diagonal
    bordered[:, :s, s] = bordered[:, s, :s] = rows.reshape(n, s)
    return _exp_entropy(bordered) - before


def _exp_entropy(kernel: np.ndarray) -> np.ndarray:
    values = np.clip(np.linalg.eigvalsh(kernel), 0, None)
    p = values / values.sum(axis=-1, keepdims=True)
    return np.exp(-np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(axis=-1))


def loo(measure: Callable[[Sequence[Any]], float], items: Sequence[Any]) -> np.ndarray:
    """Marginals of any measure of a list, by brute force: what a measure without a closed form costs, (n,)."""
    return leave_one_out(lambda keep: measure([items[i] for i in keep]), len(items))
