"""Removing what a readout prefers before it has read the state: positions of options, and labels as such."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polypath.core.errors import UserError
from polypath.decide.answers import log_softmax

CONTENT_FREE = ("N/A", "", "[MASK]")  # states that say nothing (Zhao et al. 2021)
DEFAULT_MARGIN = 8.5  # log margin at which rotations stop before a certificate has been fitted


def rotation_mean(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities (K,) averaged over rotations (R, K) that are already mapped back, and normalised again.

    If option i at position j scores c_i + b_j, all K rotations give softmax(c) exactly; a mean of probabilities
    does not.

    >>> c, b = np.array([1, 0.5, 0]), np.array([1.2, 0, -0.4])
    >>> read = [[c[i] + b[(i - shift) % 3] for i in range(3)] for shift in range(3)]
    >>> np.exp(rotation_mean(np.array(read))).round(4).tolist()
    [0.5065, 0.3072, 0.1863]
    """
    return log_softmax(log_softmax(np.asarray(logits, dtype=np.float64)).mean(axis=-2))


def spread_order(n: int) -> list[int]:
    """0 to n - 1 in van der Corput order, so that any beginning covers the range evenly.

    >>> spread_order(8), spread_order(3)
    ([0, 4, 2, 6, 1, 5, 3, 7], [0, 2, 1])
    """
    bits = max(1, (n - 1).bit_length())
    reverse = [int(format(i, f"0{bits}b")[::-1], 2) for i in range(2**bits)]
    return [i for i in reverse if i < n]


def rotated(read: Callable[[list[int]], np.ndarray], n: int, *, margin: float = math.inf) -> tuple[np.ndarray, int]:
    """Rotation log-mean (n,) and the number of reads, stopped early once the log margin passes `margin`.

    `read(order)` gives the scores of options shown in that order, in that order. Two rotations are read at least.
    """
    found: list[np.ndarray] = []
    for shift in spread_order(n):
        order = [(position + shift) % n for position in range(n)]
        back = np.empty(n)
        back[order] = read(order)
        found.append(back)
        mean = rotation_mean(np.array(found))
        if 2 <= len(found) < n and _margin(mean) > margin:
            break
    return mean, len(found)


def _margin(logp: np.ndarray) -> float:
    second, first = np.sort(logp)[-2:]
    return float(first - second)


def fit_margin(logits: np.ndarray, *, risk: float = 0.01, level: float = 0.95, least: int = 300) -> float:
    """The smallest margin at which early stopping disagrees with all rotations on at most `risk` of states, certified.

    `logits` (n, K, K): per state, rotations in `spread_order`, mapped back. No labels are needed. The margin is
    infinite (never stop) when no margin's Clopper-Pearson upper bound is within `risk`. Margins are tried in a fixed
    sequence (20, 19.5, ... 0) up to the first that fails, so that no correction for many tests is due. Raises
    UserError for fewer than `least` states.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if len(logits) < least:
        raise UserError("fit_margin", f"{len(logits)} states", f"Give at least {least}; they need no labels.")
    running = np.cumsum(log_softmax(logits), axis=1) / np.arange(1, logits.shape[1] + 1)[:, None]
    ordered = np.sort(running, axis=-1)
    margins, best = ordered[..., -1] - ordered[..., -2], running.argmax(-1)
    certified = math.inf
    for margin in np.arange(40, -1, -1) / 2:  # from the strictest down: the first that fails ends the search
        stops = margins > margin
        stops[:, 0], stops[:, -1] = False, True
        at = stops.argmax(axis=1)
        wrong = int((best[np.arange(len(best)), at] != best[:, -1]).sum())
        if binomial_upper(wrong, len(best), level) > risk:
            break
        certified = float(margin)
    return certified


def binomial_upper(failures: int, n: int, level: float = 0.95) -> float:
    """One-sided Clopper-Pearson upper bound on a failure rate: so few failures then have 1 - level; NaN for n = 0.

    >>> round(binomial_upper(0, 300), 4), round(binomial_upper(1, 300), 4)
    (0.0099, 0.0157)
    """
    if n == 0:
        return math.nan
    if failures >= n:
        return 1.0
    low, high = failures / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _binomial_cdf(failures, n, middle) > 1 - level else (low, middle)
    return high


def _binomial_cdf(k: int, n: int, p: float) -> float:
    if p <= 0:
        return 1.0
    if p >= 1:
        return float(k >= n)
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in range(k + 1)
    ]
    return math.fsum(math.exp(term) for term in logs)


def fit_prior(logits: np.ndarray, *, least: int = 8) -> np.ndarray:
    """Mean distribution (K,) over states (n, K): of real ones (batch calibration) or of content-free ones.

    Content-free states are few by nature: give `least=1`. Raises UserError for fewer than `least` states.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if len(logits) < least:
        raise UserError("fit_prior", f"{len(logits)} states", f"Give at least {least}.")
    return np.exp(log_softmax(logits)).mean(axis=0)


def divide_prior(logits: np.ndarray, prior: np.ndarray, *, strength: float = 0.75) -> np.ndarray:
    """Log-probabilities of p / prior^strength, normalised (Zhao et al. 2021 with strength 1; Zhou et al. 2024).

    Wrong where the labels themselves are skewed: the prior then takes away what is true.

    >>> p, prior = np.log([0.8, 0.2]), np.array([0.9, 0.1])
    >>> [np.exp(divide_prior(p, prior, strength=s)).round(4).tolist() for s in (1, 0.5)]
    [[0.3077, 0.6923], [0.5714, 0.4286]]
    """
    return log_softmax(np.asarray(logits, dtype=np.float64) - strength * np.log(prior))
