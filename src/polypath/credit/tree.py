"""Credit per step: rollouts that share a beginning or a state are compared where they part.

A step's advantage stands on all tokens of that step. `nodes`, `states`, `actions` and `starts` are (..., G, D): what
the rollout passed through at each of its steps, -1 after the last one, and the token at which each step starts.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register
from polypath.credit.stratify import Scale, compare, together

Value = Literal["leaves", "children"]
Count = Literal["leaf", "node"]
STEPS = frozenset({"permutation_equivariant", "duplicates_share"})


def node_values(rewards: np.ndarray, nodes: np.ndarray, value: Value) -> np.ndarray:
    """What each node on a rollout's way is worth: the mean over its leaves, or over its children's values.

    The two differ where siblings have unequal numbers of leaves. Shapes: (..., G), (..., G, D) -> (..., G, D).
    """
    values = np.zeros(nodes.shape)
    below, weights = rewards, np.ones_like(rewards)
    for depth in reversed(range(nodes.shape[-1])):
        here = nodes[..., depth]
        same = together(here) & (here >= 0)[..., None]
        share = same * weights[..., None, :]
        mean = (share * below[..., None, :]).sum(axis=-1) / np.maximum(share.sum(axis=-1), 1e-12)
        values[..., depth] = np.where(here >= 0, mean, 0.0)
        if value == "children":
            below = np.where(here >= 0, mean, below)
            weights = np.where(here >= 0, 1.0 / np.maximum(same.sum(axis=-1), 1), weights)
    return values.round(12)  # so that equal means of different rewards are equal


def _compare_nodes(
    rewards: Array, nodes: Array, *, siblings: bool, value: Value, count: Count, scale: Scale, eps: float, ddof: int
) -> np.ndarray:
    values, nodes = np.asarray(rewards, dtype=float), np.asarray(nodes)
    worth = node_values(values, nodes, value)
    found = np.zeros(worth.shape)
    same_parent = np.ones((*values.shape, values.shape[-1]), dtype=bool)
    for depth in range(nodes.shape[-1]):
        here = nodes[..., depth]
        leaves = np.maximum((together(here) & (here >= 0)[..., None]).sum(axis=-1), 1)
        rivals = (same_parent if siblings else True) & (here >= 0)[..., None, :] & (here >= 0)[..., :, None]
        alive = np.where(here >= 0, 1.0 / leaves, 0.0)
        step = compare(worth[..., depth], rivals, alive, scale=scale, eps=eps, ddof=ddof)
        found[..., depth] = np.where(here >= 0, step / (leaves if count == "node" else 1.0), 0.0)
        same_parent = same_parent & together(here)
    return found


@register("normalise", "siblings", returns="step_advantages", paper="arXiv:2506.05183", traits=STEPS)
def siblings(
    rewards: Array,
    nodes: Array,
    *,
    value: Literal["leaves", "children"] = "children",
    count: Literal["leaf", "node"] = "leaf",
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-4,
    ddof: int = 1,
) -> np.ndarray:
    """Each node's value against those of its siblings, every node once (TreeRPO). Equal siblings give 0.

    `count`: a node is in the rollouts of all its leaves, and so trained as often; "node" divides by their number.
    Shapes: (..., G), int (..., G, D) -> (..., G, D).

    >>> siblings([1, 0, 0, 0], [[0, 2], [0, 3], [1, 4], [1, 5]], ddof=0, eps=0.0)[::2].tolist()
    [[1.0, 1.0], [-1.0, 0.0]]
    """
    return _compare_nodes(rewards, nodes, siblings=True, value=value, count=count, scale=scale, eps=eps, ddof=ddof)


@register("normalise", "depthwise", returns="step_advantages", paper="BranchGRPO (0.114)", traits=STEPS)
def depthwise(
    rewards: Array,
    nodes: Array,
    *,
    value: Literal["leaves", "children"] = "leaves",
    count: Literal["leaf", "node"] = "leaf",
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-6,
    ddof: int = 1,
) -> np.ndarray:
    """Each node's value against all nodes of the same depth, every node once (BranchGRPO). Knobs as in `siblings`.

    Shapes: (..., G), int (..., G, D) -> (..., G, D).

    >>> depthwise([1, 0, 0, 0], [[0, 2], [0, 3], [1, 4], [1, 5]], eps=1e-9)[:2].round(4).tolist()
    [[0.7071, 1.5], [0.7071, -0.5]]
    """
    return _compare_nodes(rewards, nodes, siblings=False, value=value, count=count, scale=scale, eps=eps, ddof=ddof)


@register("normalise", "state_action", returns="step_advantages", paper="arXiv:2604.11037", traits=STEPS)
def state_action(
    rewards: Array,
    states: Array,
    actions: Array,
    *,
    smoothing: float = 1.0,
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-4,
) -> np.ndarray:
    """Q(s, a) - V(s) at every step, from the rollouts that pass through the same state (RTMC).

    V and Q are mean rewards, each rollout counted once, with `smoothing` visits of prior value: for V the value of the
    state before, at first the group's mean; for Q it is V. `scale` divides by the spread of the group's rewards.
    Shapes: (..., G), int (..., G, D) twice -> (..., G, D).

    >>> states, actions = [[0, 1], [0, 1], [0, 2], [0, 1]], [[0, 0], [0, 1], [1, 0], [0, 0]]
    >>> state_action([1, 0, 0, 1], states, actions, smoothing=0.0, scale="none").round(4).tolist()
    [[0.1667, 0.3333], [0.1667, -0.6667], [-0.5, 0.0], [0.1667, 0.3333]]
    """
    values, shape = np.asarray(rewards, dtype=float), np.asarray(states).shape
    at, did = (np.asarray(each).reshape(-1, shape[-1]) for each in (states, actions))
    row, step = np.nonzero(at >= 0)
    state = _number(row // values.shape[-1], at[row, step])
    pair = _number(state, did[row, step])
    value = state_values(values, row, step, state, smoothing)[state]
    visits, total = _visits(pair, row, values.reshape(-1))
    found = np.zeros(at.shape)
    found[row, step] = (total[pair] + smoothing * value) / (visits[pair] + smoothing) - value
    tied = values.max(axis=-1) == values.min(axis=-1)
    spread = values.std(axis=-1) + eps if scale == "std" else np.ones(values.shape[:-1])
    return np.where(tied[..., None, None], 0.0, found.reshape(shape) / spread[..., None, None])


def state_values(
    values: np.ndarray, row: np.ndarray, step: np.ndarray, state: np.ndarray, smoothing: float
) -> np.ndarray:
    """V of every state, by number; `row`, `step` and `state` list the visits.

    The state before is that of the visitors who were there first, so that a state never waits for itself.
    """
    visits, total = _visits(state, row, values.reshape(-1))
    first = np.full(len(visits), step.max(initial=0))
    np.minimum.at(first, state, step)
    number = np.zeros((values.size, step.max(initial=0) + 1), dtype=np.int64)
    number[row, step] = state
    start = np.repeat(values.mean(axis=-1).reshape(-1), values.shape[-1])
    found = np.zeros(len(visits))
    for depth in range(number.shape[1]):
        new = (step == depth) & (first[state] == depth)
        before = start[row[new]] if depth == 0 else found[number[row[new], depth - 1]]
        count = np.bincount(state[new], minlength=len(visits))
        prior = np.bincount(state[new], weights=before, minlength=len(visits)) / np.maximum(count, 1)
        found = np.where(count > 0, (total + smoothing * prior) / (visits + smoothing), found)
    return found


def _visits(key: np.ndarray, row: np.ndarray, rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many rollouts have each key at some step, and the sum of their rewards."""
    key, row = np.divmod(np.unique(key * len(rewards) + row), len(rewards))
    return np.bincount(key), np.bincount(key, weights=rewards[row])


def _number(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """One number per distinct pair of whole numbers."""
    low, high = other.min(initial=0), other.max(initial=0)
    return np.unique(one * (high - low + 1) + (other - low), return_inverse=True)[1]


@register("token_credit", "steps", returns="advantages", traits={"permutation_equivariant"})
def steps(step_advantages: Array, starts: Array, mask: Array) -> np.ndarray:
    """Each step's advantage on its tokens, 0 before the first step and on padding.

    Shapes: (..., G, D), int (..., G, D), (..., G, T) -> (..., G, T).

    >>> steps([[0.5, -1.0]], [[0, 2]], [[1, 1, 1, 0]]).tolist()
    [[0.5, 0.5, -1.0, 0.0]]
    """
    starts, on = np.asarray(starts), np.asarray(mask, dtype=bool)
    place = np.full(on.shape, -1)
    for begin in np.moveaxis(starts, -1, 0)[..., None]:
        place += (begin >= 0) & (begin <= np.arange(on.shape[-1]))
    found = np.take_along_axis(np.asarray(step_advantages, dtype=float), np.maximum(place, 0), axis=-1)
    return np.where(on & (place >= 0), found, 0.0)
