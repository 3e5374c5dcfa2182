"""Which elites become parents: probabilities over the elites, from quality and from what became of their children.

`tries` counts an elite's children, `accepted` those that entered the archive.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polypath.core.errors import UserError
from polypath.core.registry import register

Weights = NDArray[np.float64]


@register("sampler", "uniform", returns="probabilities")
def uniform(quality: ArrayLike) -> Weights:
    """Every elite alike."""
    n = len(np.asarray(quality))
    return np.full(n, 1.0 / n)


@register("sampler", "softmax_fitness", returns="probabilities", paper="LEVI [0.117]")
def softmax_fitness(quality: ArrayLike, *, temperature: float = 0.3) -> Weights:
    """exp(q / temperature) for the quality scaled to [0, 1]: the better the likelier.

    >>> [softmax_fitness([0.2, 0.6, 1.0], temperature=t).round(6).tolist() for t in (1.2, 0.15)]
    [[0.20756, 0.314848, 0.477592], [0.001227, 0.034403, 0.96437]]
    """
    q = np.asarray(quality, dtype=float)
    spread = np.ptp(q)
    return _softmax((q - q.min()) / spread if spread > 0 else np.zeros_like(q), temperature)


@register("sampler", "inverse_fitness", returns="probabilities", paper="Ferret, arXiv:2408.10701 [1.41]")
def inverse_fitness(quality: ArrayLike, *, temperature: float = 0.1) -> Weights:
    """exp((1 - q) / temperature): weak cells first.

    >>> inverse_fitness([0.0, 0.5, 1.0]).round(6).tolist()
    [0.993262, 0.006693, 4.5e-05]
    """
    return _softmax(1 - np.asarray(quality, dtype=float), temperature)


@register("sampler", "annealed_fitness", returns="probabilities", paper="LEVI [0.117]")
def annealed_fitness(
    quality: ArrayLike, *, progress: float = 0.0, cycles: int = 4, hot: float = 1.2, cold: float = 0.15
) -> Weights:
    """`softmax_fitness` whose temperature falls from `hot` to `cold` in every cycle; `progress` runs from 0 to 1.

    The fall is linear, our choice: the source names its ends and the number of cycles. Raises UserError for a progress
    outside [0, 1].
    """
    if not 0 <= progress <= 1:
        raise UserError("annealed_fitness.progress", f"{progress:g} is not in [0, 1]", "Give step / steps.")
    phase = math.modf(progress * cycles)[0] if progress < 1 else 1.0
    return softmax_fitness(quality, temperature=hot + (cold - hot) * phase)


@register("sampler", "ucb", returns="probabilities", paper="LEVI [0.117]")
def ucb(tries: ArrayLike, accepted: ArrayLike, *, exploration: float = 2.0) -> Weights:
    """The elites of the largest `acceptance_bound`, alike among equals."""
    bound = acceptance_bound(tries, accepted, exploration=exploration)
    best = bound == bound.max()
    return best / best.sum()


def acceptance_bound(tries: ArrayLike, accepted: ArrayLike, *, exploration: float = 2.0) -> Weights:
    """accepted / tries + exploration sqrt(ln(N + 1) / tries), N all tries; infinite for an elite never tried.

    >>> acceptance_bound([10, 40], [4, 0])[0].round(6)
    np.float64(1.654085)
    """
    n, s = np.asarray(tries, dtype=float), np.asarray(accepted, dtype=float)
    tried = np.maximum(n, 1)
    return np.where(n > 0, s / tried + exploration * np.sqrt(np.log(n.sum() + 1) / tried), np.inf)


@register("sampler", "curiosity", returns="probabilities", paper="Cully and Demiris 2018; LLMatic [0.93]")
def curiosity(
    tries: ArrayLike, accepted: ArrayLike, *, gain: float = 1.0, loss: float = 0.5, least: float = 0.1
) -> Weights:
    """In proportion to 1 + gain * accepted - loss * (tries - accepted), at least `least`.

    >>> curiosity([0, 2, 4], [0, 2, 0]).round(3).tolist()
    [0.244, 0.732, 0.024]
    """
    n, s = np.asarray(tries, dtype=float), np.asarray(accepted, dtype=float)
    weights = np.maximum(1 + gain * s - loss * (n - s), least)
    return weights / weights.sum()


def _softmax(values: Weights, temperature: float) -> Weights:
    if not temperature > 0:
        raise UserError("sampler.temperature", f"{temperature:g} is not above 0", "Use a small one for the best alone.")
    weights = np.exp((values - values.max()) / temperature)
    return weights / weights.sum()
