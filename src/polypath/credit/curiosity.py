"""A forward model of the policy's own states, whose error is the field `curiosity` of CD-RLHF (0.98)."""

from __future__ import annotations

import numpy as np

from polypath.core.arrays import Array
from polypath.credit.banks import compress
from polypath.credit.memory import Memory


def forward_error(
    hidden: Array, embedded: Array, mask: Array, memory: Memory, *, ridge: float = 1.0, decay: float = 0.99
) -> np.ndarray:
    """Half the squared error of predicting the next token's state from this state and token, before it is learnt.

    `hidden` are states, `embedded` the tokens' input embeddings, both scaled to length 1 and projected to at most 64
    numbers. The model is linear, fitted by ridge regression on all earlier batches, each of which fades by `decay`;
    the last token of a rollout, which nothing follows, has error 0. Give the result as `curiosity`.
    Shapes: (N, T, d), (N, T, e), (N, T) -> (N, T). Kept in memory["forward_model"].
    """
    states, taken = compress(hidden), compress(embedded)
    on = np.asarray(mask, dtype=bool)
    followed = on[:, :-1] & on[:, 1:]
    given = np.concatenate([states, taken, np.ones_like(states[..., :1])], axis=-1)[:, :-1][followed]
    target = states[:, 1:][followed]
    empty = [np.zeros((given.shape[-1], w)).tolist() for w in (given.shape[-1], target.shape[-1])]
    gram, cross = (np.array(part) for part in memory.get("forward_model", empty))
    weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
    error = np.zeros(on.shape)
    error[:, :-1][followed] = 0.5 * ((target - given @ weights) ** 2).sum(axis=-1)
    memory["forward_model"] = [(decay * gram + given.T @ given).tolist(), (decay * cross + given.T @ target).tolist()]
    return error
