"""Credit with a history: agents of different strength, and rewards of which one is learnt fastest."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register
from polypath.credit.memory import Memory

WHOLE = frozenset({"whole_batch", "permutation_equivariant"})


@register("normalise", "capability_scaled", returns="advantages", paper="arXiv:2603.02604", traits=WHOLE)
def capability_scaled(
    rewards: Array,
    sources: Array,
    groups: Array,
    memory: Memory,
    *,
    learner: int = 0,
    window: int = 5,
    floor: float = 0.05,
    largest: float = 4.0,
    eps: float = 1e-8,
) -> np.ndarray:
    """Advantages for agent `learner` from the rollouts of all agents of a group (HACPO).

    P_j is agent j's mean reward over the last `window` batches, at least `floor`; w(k, j) = P_k/P_j within
    [1/largest, largest]. A rollout of j is compared with mu_j, the group's mean of w(j, i) r over all agents i, divided
    by the group's spread (population), and scaled by w(j, learner) where j is another agent. Equal rewards give 0.
    Runs once over the batch: (N,), int (N,) twice -> (N,).

    >>> r, s = [1, 0, 0, 0, 1, 1, 1, 0], [0] * 4 + [1] * 4
    >>> capability_scaled(r, s, [0] * 8, Memory()).round(4).tolist()
    [1.5, -0.5, -0.5, -0.5, 1.5, 1.5, 1.5, -4.5]
    """
    values, sources = np.asarray(rewards, dtype=float), np.asarray(sources)
    names, agent = np.unique(np.append(sources, learner), return_inverse=True)
    own, agent = agent[-1], agent[:-1]
    strength = np.array([_capability(memory, f"hacpo/{name}", values[sources == name], window) for name in names])
    strength = np.maximum(strength, floor)
    ratio = np.clip(strength[:, None] / strength[None, :], 1.0 / largest, largest)  # w(k, j)
    _, group, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    found = np.zeros(len(values))
    for place in range(len(names)):
        mean = np.bincount(group, weights=ratio[place][agent] * values) / size
        mine = agent == place
        found[mine] = (values - mean[group])[mine] * (1.0 if place == own else ratio[place][own])
    spread = _spread(values, group, size, ddof=0)
    return np.where(spread[group] > 0, found / np.where(spread > 0, spread + eps, 1.0)[group], 0.0)


def _capability(memory: Memory, key: str, rewards: np.ndarray, window: int) -> float:
    """Mean over the last `window` batches of the agent's mean reward, this one included; 0 when it was never seen."""
    past = list(memory.get(key, []))
    if len(rewards):
        past = [*past, float(rewards.mean())][-window:]
        memory[key] = past
    return float(np.mean(past)) if past else 0.0


@register("normalise", "pivot_rubric", returns="advantages keep", paper="arXiv:2512.09756", traits=WHOLE)
def pivot_rubric(
    reward_columns: Array,
    groups: Array,
    memory: Memory,
    *,
    window: int = 10,
    sharpness: float = 5.0,
    eps: float = 1e-4,
    ddof: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum over the columns of weight times z-score in the group, and the rollouts that do not oppose the pivot (MOA).

    A column's weight is a softmax of `sharpness` times how far its batch mean lies above the line through its last
    `window` means; the pivot is the column of largest weight. Dropped is a rollout that would be reinforced although
    it is below its group in the pivot. Without a history the weights are equal, there is no pivot and nothing is
    dropped. An undefined reward counts 0.
    Runs once over the batch: (N, M), int (N,) -> (N,), bool (N,).
    """
    columns = np.asarray(reward_columns, dtype=float)
    _, group, size = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    scores = np.stack([_z(column, group, size, eps, ddof) for column in columns.T], axis=-1)
    history = [list(row) for row in memory.get("moa/means", []) if len(row) == columns.shape[-1]]
    means = [float(np.mean(column[np.isfinite(column)])) if np.isfinite(column).any() else 0.0 for column in columns.T]
    memory["moa/means"] = [*history, means][-window:]
    residual = np.zeros(len(means)) if not history else np.array(means) - _expected(np.array(history))
    weights = np.exp(sharpness * (residual - residual.max()))
    weights = weights / weights.sum()
    advantages = scores @ weights
    if np.ptp(residual) < 1e-12:
        return advantages, np.ones(len(advantages), dtype=bool)
    return advantages, (scores[:, int(np.argmax(weights))] >= 0) | (advantages <= 0)


def _expected(history: np.ndarray) -> np.ndarray:
    """The next row by a straight line through the rows, per column; a single row is expected to repeat."""
    steps = np.arange(len(history)) - (len(history) - 1) / 2
    slope = (steps @ history) / max(float(steps @ steps), 1e-12)
    return history.mean(axis=0) + slope * (len(history) + 1) / 2


def _z(values: np.ndarray, group: np.ndarray, size: np.ndarray, eps: float, ddof: int) -> np.ndarray:
    """z-scores inside groups; 0 in a group of equal values, and for an undefined value, which is nobody's rival."""
    known = np.isfinite(values)
    count = np.bincount(group, weights=known, minlength=len(size))
    filled = np.where(known, values, 0.0)
    centred = filled - (np.bincount(group, weights=filled, minlength=len(size)) / np.maximum(count, 1))[group]
    spread = _spread(np.where(known, values, np.nan), group, count, ddof=ddof)
    return np.where(known & (spread[group] > 0), centred / (spread + eps)[group], 0.0)


def _spread(values: np.ndarray, group: np.ndarray, count: np.ndarray, *, ddof: int) -> np.ndarray:
    """Standard deviation per group of the known values; exactly 0 where they are equal."""
    known = np.isfinite(values)
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    np.minimum.at(low, group[known], values[known])
    np.maximum.at(high, group[known], values[known])
    total = np.bincount(group[known], weights=values[known], minlength=len(count))
    gap = values[known] - (total / np.maximum(count, 1))[group[known]]
    square = np.bincount(group[known], weights=gap**2, minlength=len(count))
    return np.where(high > low, np.sqrt(square / np.maximum(count - ddof, 1)), 0.0)
