"""Success within a budget of k samples, estimated without bias from n >= k samples (Chen et al., arXiv:2107.03374).

Every function takes counts per prompt (`n` samples, `c` of them correct), broadcasts over prompts and returns NaN where
the estimate is undefined: a budget larger than the sample is never guessed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def log_factorials(largest: int) -> Floats:
    """log(i!) for i = 0..largest."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])


def miss_probability(n: ArrayLike, m: ArrayLike, k: ArrayLike) -> Floats:
    """C(n-m, k) / C(n, k): the probability that k of n samples, drawn without replacement, miss all m marked ones.

    NaN where k > n or a count is negative. Raises ValueError when m > n.
    """
    n, m, k = np.broadcast_arrays(*(np.asarray(x, dtype=np.int64) for x in (n, m, k)))
    if np.any(m > n):
        raise ValueError("more marked samples than samples")
    log_fact = log_factorials(int(n.max(initial=0)))
    defined = (k >= 0) & (k <= n) & (m >= 0)
    possible = defined & (k <= n - m)
    n, m, k = np.where(possible, n, 0), np.where(possible, m, 0), np.where(possible, k, 0)
    log_ratio = log_fact[n - m] - log_fact[n - m - k] - log_fact[n] + log_fact[n - k]
    return np.where(possible, np.exp(log_ratio), np.where(defined, 0.0, np.nan))


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """P(at least one of k samples is correct), unbiased; NaN for k > n.

    >>> round(float(pass_at_k(10, 3, 2)), 4)
    0.5333
    """
    return 1.0 - miss_probability(n, c, k)


def pass_at_k_variance(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """Unbiased sampling variance of `pass_at_k`, NaN for 2k > n.

    It may be slightly negative for one prompt; keep the sign when summing over prompts and clip only the total.

    >>> round(float(pass_at_k_variance(10, 3, 2)), 5)
    0.05111
    """
    return miss_probability(n, c, k) ** 2 - miss_probability(n, c, 2 * np.asarray(k))


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats:
    """P(all k samples are correct), `pass^k`, unbiased; NaN for k > n.

    >>> round(float(pass_hat_k(8, 5, 4)), 4)
    0.0714
    """
    return miss_probability(n, np.asarray(n) - np.asarray(c), k)


def distinct_at_k(n: int, counts: ArrayLike, k: ArrayLike) -> Floats:
    """Expected number of distinct correct solutions among k of n samples.

    Shapes: `counts` (C,), how often each correct solution was drawn; `k` scalar or (K,) -> the shape of `k`.

    >>> [round(float(x), 4) for x in distinct_at_k(8, [3, 1, 1], [1, 2, 4, 8])]
    [0.625, 1.1429, 1.9286, 3.0]
    """
    k = np.asarray(k)
    hit = 1.0 - miss_probability(n, np.asarray(counts, dtype=np.int64), k[..., None])
    return np.where(k > n, np.nan, hit.sum(axis=-1))


def bayesian_pass_at_k(n: ArrayLike, c: ArrayLike, k: int, *, prior: tuple[float, float] = (1.0, 1.0)) -> Floats:
    """Posterior mean of 1 - (1-p)^k when p has a Beta prior; defined for every k, also for k > n.

    >>> round(float(bayesian_pass_at_k(10, 3, 2)), 4)
    0.5385
    """
    n, c = np.asarray(n, dtype=float), np.asarray(c, dtype=float)
    alpha, beta = prior[0] + c, prior[1] + n - c
    steps = np.arange(k, dtype=float)  # B(a, b+k) / B(a, b) = prod_i (b+i) / (a+b+i)
    return 1.0 - np.prod((beta[..., None] + steps) / ((alpha + beta)[..., None] + steps), axis=-1)


def upper_bound_when_none(n: ArrayLike, *, level: float = 0.95) -> Floats:
    """Upper confidence bound of the success probability after n samples of which none was correct.

    >>> round(float(upper_bound_when_none(10)), 4)
    0.2589
    """
    n = np.asarray(n, dtype=float)
    return np.where(n > 0, 1.0 - (1.0 - level) ** (1.0 / np.maximum(n, 1.0)), np.nan)
