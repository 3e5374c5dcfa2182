"""Marginals of the Vendi score of any order from one eigendecomposition per group, by resolvent quadrature.

For a symmetric matrix A >= 0 with eigenvalues l, sums of f(l) are integrals over the resolvent R(t) = (A + t)^-1:

    x log x = int_0^inf [x / (1 + t) - x / (x + t)] dt
    x^q     = sin(pi q) / pi  int_0^inf t^(q - 1) x / (x + t) dt                  (0 < q < 1)

and what row and column i change in tr A R(t) is known by Schur's complement: e_i / a_i with a = diag R and
e = diag(R A R). Taking out the tail w/(c + t) with the c that matches two moments makes the rest fall like 1/t^3, which
carries the second formula to 0 < q < 2. In u = log t the integrands are analytic for |Im u| < pi, so that the
trapezoid rule of step h errs by about exp(-2 pi^2 / h).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from array_api_compat import device

from polypath.core.arrays import Array, array_namespace, as_float
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.marginals.common import (
    EQUIVARIANT,
    as_like,
    by_blocks,
    check_rows,
    check_similarity,
    constant_like,
)

STEP = 1.0  # between the nodes in log t; the error is about 1e-7 in Vendi units
CLIPPED = 1e-6  # a larger negative share of a spectrum is worth a warning


@register("signal", "loo_vendi", returns="diversity", paper="arXiv:2210.02410 [1.86, 1.114, 0.12]", traits=EQUIVARIANT)
def loo_vendi(similarity: Array, *, q: float = 1.0, double: bool = True, undefined: float = 0.0) -> Array:
    """Marginal of the Vendi score of order `q`, the effective number of different rollouts.

    It may be negative, since dropping a copy can raise the score: gate it, or use it as a penalty. Orders in (0, 2)
    take one eigendecomposition per group (error about 1e-7), order 2 none; other orders decompose every minor,
    O(G^4), with a warning. `double` computes in float64 whatever the input, else in the input's float32 (error about
    2e-5, a third faster). Torch tensors that require gradients are differentiated through Cholesky factors, since the
    gradient of `eigh` is undefined for repeated eigenvalues.

    Shapes: (..., G, G) positive semi-definite -> (..., G). `undefined` for G = 1 and for groups without anything but
    zeros. A matrix that is not positive semi-definite stands for its nearest one that is (negative eigenvalues set to
    0), with a warning; order 2 takes it as it is. Raises UserError for NaN, naming group and row.

    >>> K = [[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0.2, 1]]
    >>> loo_vendi(K).round(6).tolist(), loo_vendi(K, q=2).round(6).tolist()
    ([0.132288, 0.132288, 0.934986, 0.934986], [-0.11506, -0.11506, 0.858966, 0.858966])
    """
    return by_blocks(lambda part: _loo_vendi(part, q, double, undefined), check_similarity(similarity))


def _loo_vendi(given: Array, q: float, double: bool, undefined: float) -> Array:
    xp = array_namespace(given)
    kernel = given if given.dtype == xp.float64 or not double else xp.astype(given, xp.float64)
    own = xp.linalg.diagonal(kernel)
    if kernel.shape[-1] < 2 or 0 in kernel.shape:
        return constant_like(xp.linalg.diagonal(given), undefined)
    trace = xp.sum(own, axis=-1, keepdims=True)
    defined = (trace > 0) & (trace - own > 1e-12 * trace)
    scaled = kernel / _positive(trace)[..., None]
    if q == 2:
        value = _order_two(scaled)
    elif 0 < q < 2:
        value = _by_quadrature(scaled, q)
    else:
        value = _by_minors(scaled, q)
    return xp.astype(xp.where(defined, value, constant_like(value, undefined)), given.dtype)


def _order_two(a: Array) -> Array:
    """1/|A|^2 - (1 - A_ii)^2 / |A_-i|^2 with squared Frobenius norms."""
    xp = array_namespace(a)
    own, squares = xp.linalg.diagonal(a), xp.sum(a**2, axis=-1)
    total = xp.sum(squares, axis=-1, keepdims=True)
    rest = total - 2 * squares + own**2
    return 1 / _positive(total) - (1 - own) ** 2 / _positive(rest)


def _by_quadrature(a: Array, q: float) -> Array:
    """Vendi_q(A) - Vendi_q(A_-i), tr A = 1, for 0 < q < 2."""
    xp = array_namespace(a)
    t = nodes(a, q)
    if getattr(a, "requires_grad", False):
        own, second, ratio, whole = _resolvents_by_cholesky(a, t, q)
    else:
        own, second, ratio, whole = _resolvents_by_eigenvalues(a, t, q)
    change = spectral_sum(own, second, ratio, t, q)
    left = _positive(1 - own)
    return hill_of_sum(whole, xp.ones_like(whole), q) - hill_of_sum(whole - change, left, q)


def _resolvents_by_eigenvalues(a: Array, t: Array, q: float) -> tuple[Array, Array, Array, Array]:
    """A_ii, the second moment 2 (A^2)_ii - A_ii^2, e_i(t)/a_i(t) (..., G, nodes), and the sum of f(l) (..., 1)."""
    xp = array_namespace(a)
    values, vectors = xp.linalg.eigh(a)
    values = clip_spectrum(values)
    values = values / _positive(xp.sum(values, axis=-1, keepdims=True))
    share = vectors**2
    resolvent = 1 / (values[..., :, None] + t)
    own, square = (share @ power[..., None] for power in (values, values**2))
    own, square = own[..., 0], square[..., 0]
    ratio = (share @ (resolvent * (values[..., :, None] * resolvent))) / (share @ resolvent)
    return own, 2 * square - own**2, ratio, sum_of(values, q)


def _resolvents_by_cholesky(a: Any, t: Any, q: float) -> tuple[Any, Any, Any, Any]:
    """The same for torch, without eigenvectors and so with gradients: one inverse per node."""
    import torch

    shifted = a[..., None, :, :] + t[:, None, None] * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(shifted))  # (..., nodes, G, G)
    product = inverse @ a[..., None, :, :]
    response = (product * inverse).sum(-1)
    ratio = (response / inverse.diagonal(dim1=-2, dim2=-1)).mT  # (..., G, nodes)
    own, square = a.diagonal(dim1=-2, dim2=-1), (a**2).sum(-1)
    whole_ratio = product.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, :]
    trace, norm = own.sum(-1, keepdim=True), square.sum(-1, keepdim=True)
    return own, 2 * square - own**2, ratio, spectral_sum(trace, norm, whole_ratio, t, q)


def nodes(like: Array, q: float) -> Array:
    """The nodes t for eigenvalues of sum 1; small orders reach further down, large ones further up."""
    log_t = np.arange(-20.0, 11.0, STEP) if q == 1 else np.arange(-30.0, 14.0, STEP)
    return as_like(np.exp(log_t), like)


def spectral_sum(first: Array, second: Array, ratio: Array, t: Array, q: float) -> Array:
    """The part of sum l log l (q = 1) or sum l^q whose trace is `first`, sum of squares `second` and tr A R `ratio`.

    Shapes: (..., G), (..., G), (..., G, nodes) -> (..., G). What has no trace contributes nothing.
    """
    xp = array_namespace(first)
    c = xp.where((first > 0) & (second > 0), second / _positive(first), xp.ones_like(first))
    excess = (ratio - first[..., None] / (c[..., None] + t)) * t
    if q == 1:
        return first * xp.log(c) - STEP * xp.sum(excess, axis=-1)
    power = excess * t ** (q - 1)
    tail = power[..., 0] * (1 / (1 - math.exp(-q * STEP)) - 1)  # below the first node the integrand is e^(q u) times it
    weight = math.sin(math.pi * q) / math.pi
    return first * c ** (q - 1) + weight * STEP * (xp.sum(power, axis=-1) + tail)


def sum_of(values: Array, q: float) -> Array:
    """sum l log l (q = 1) or sum l^q over the last axis, kept; zeros contribute nothing."""
    xp = array_namespace(values)
    positive = _positive(values)
    terms = values * xp.log(positive) if q == 1 else xp.where(values > 0, positive**q, xp.zeros_like(values))
    return xp.sum(terms, axis=-1, keepdims=True)


def hill_of_sum(total: Array, trace: Array, q: float) -> Array:
    """Hill number of order q of eigenvalues with that trace, from sum l log l (q = 1) or sum l^q."""
    if q == 1:
        return trace * array_namespace(total).exp(-total / trace)
    return (_positive(total) / trace**q) ** (1 / (1 - q))


def clip_spectrum(values: Array) -> Array:
    """Eigenvalues with the negative ones, and those below rounding, set to 0; warns when that was more."""
    xp = array_namespace(values)
    noise = values.shape[-1] * float(xp.finfo(values.dtype).eps) * xp.max(values, axis=-1, keepdims=True)
    negative = xp.sum(xp.where(values < -noise, -values, xp.zeros_like(values)), axis=-1)
    share = negative / (xp.sum(xp.abs(values), axis=-1) + 1e-30)
    if bool(xp.any(share > CLIPPED)):
        what = f"{float(xp.max(share)):.2g} of its spectrum is negative and counts as 0"
        warnings.warn(f"a similarity is not positive semi-definite: {what}", stacklevel=2)
    return xp.where(values > noise, values, xp.zeros_like(values))


def _by_minors(a: Array, q: float) -> Array:
    """Any order by the eigenvalues of every minor."""
    xp = array_namespace(a)
    size = a.shape[-1]
    warnings.warn(
        f"leave-one-out Vendi of order {q:g} has no closed form here: every minor is decomposed, O(G^4) per group",
        stacklevel=2,
    )

    def score(matrix: Array) -> Array:
        values = clip_spectrum(xp.linalg.eigvalsh(matrix))
        trace = xp.sum(values, axis=-1, keepdims=True)
        p = values / _positive(trace)
        if math.isinf(q):
            return 1 / xp.max(p, axis=-1)
        return hill_of_sum(sum_of(p, q), xp.ones_like(trace), q)[..., 0]

    rows = [xp.asarray([j for j in range(size) if j != i], device=device(a)) for i in range(size)]
    minors = [xp.take(xp.take(a, keep, axis=-1), keep, axis=-2) for keep in rows]
    return score(a)[..., None] - xp.stack([score(minor) for minor in minors], axis=-1)


def gain_vendi(similarity: Array, candidates: Array, own: Array, *, q: float = 1.0) -> Array:
    """Vendi score of order `q` in (0, 2] after adding each candidate to a set, minus that of the set.

    One eigendecomposition of the set serves all candidates: with k the similarities of x to the set, bordering changes
    tr A R(t) by (x - k'Rk - t k'R^2 k) / (x + t - k'Rk). An empty set has score 0, so that the first pick gains 1.
    Raises UserError for another order.
    Shapes: similarity of the set (..., S, S), of the candidates to it (..., n, S), their own (..., n) -> (..., n).
    """
    if not 0 < q <= 2:
        raise UserError("gain_vendi", f"has no order {q:g}", "Give an order above 0 and at most 2.")
    kernel, k, own = check_similarity(similarity), as_float(candidates), as_float(own)
    check_rows(k, "candidates")
    xp = array_namespace(kernel)
    if kernel.shape[-1] == 0:
        return xp.astype(own > 0, own.dtype)
    values, vectors = xp.linalg.eigh(kernel)
    values = clip_spectrum(values)
    trace = _positive(xp.sum(values, axis=-1, keepdims=True))
    values, k, own = values / trace, k / trace[..., None], own / trace
    before = sum_of(values, q)
    t = nodes(kernel, q)
    weights = (k @ vectors) ** 2
    resolvent = 1 / (values[..., :, None] + t)
    bordered = weights @ resolvent
    lost = weights @ (resolvent * ((values[..., :, None] + 2 * t) * resolvent))
    ratio = (own[..., None] - lost) / (own[..., None] + t - bordered)
    second = 2 * xp.sum(k**2, axis=-1) + own**2
    after = before + spectral_sum(own, second, ratio, t, q)
    return hill_of_sum(after, 1 + own, q) - hill_of_sum(before, xp.ones_like(before), q)


def _positive(values: Array) -> Array:
    """The values with 1 in place of those that nothing may be divided by."""
    xp = array_namespace(values)
    return xp.where(values > 0, values, xp.ones_like(values))
