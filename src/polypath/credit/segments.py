"""Credit per part of the text: parts are named spans of tokens, such as a plan, a solution and a stated confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from polypath.core.arrays import Array
from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.credit.stratify import compare, together

Spans = Sequence[Any]  # G mappings of a name to [start, end], or B lists of them


def part_masks(spans: Spans, mask: Array, names: Sequence[str]) -> np.ndarray:
    """Which tokens belong to each named part; the empty name is all that no other named part holds.

    Shapes: G mappings, (..., G, T) -> bool (..., G, T, names). A part that a rollout lacks has no tokens there.

    >>> part_masks([{"plan": [0, 1]}], [[1, 1, 0]], ["plan", ""])[0].astype(int).tolist()
    [[1, 0], [0, 1], [0, 0]]
    """
    on = np.asarray(mask, dtype=bool)
    found = np.zeros((*on.shape, len(names)), dtype=bool)
    flat = found.reshape(-1, on.shape[-1], len(names))
    rows = [row for group in spans for row in group] if on.ndim > 2 else list(spans)
    for place, row in enumerate(rows):
        for column, name in enumerate(names):
            if name and name in row:
                flat[place, row[name][0] : row[name][1], column] = True
    if "" in names:
        found[..., names.index("")] = ~found.any(axis=-1)
    return found & on[..., None]


def _weighted(parts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum over the parts that a token is in: bool (..., T, M), (..., 1, M) or (M,) -> (..., T)."""
    return sum(parts[..., m] * weights[..., m] for m in range(parts.shape[-1]))


@register("token_credit", "blocks", returns="advantages", paper="arXiv:2602.10231", traits={"permutation_equivariant"})
def blocks(column_advantages: Array, spans: Spans, mask: Array, *, names: list[str]) -> np.ndarray:
    """Each column's advantage on the tokens of its own part alone; `names` are the columns' parts, in order.

    The empty name is the rest of the text. Tokens of no part get 0, tokens of two get the sum.
    Shapes: (..., G, M), G mappings, (..., G, T) -> (..., G, T). Raises UserError unless there is a name per column.
    """
    columns = np.asarray(column_advantages, dtype=float)
    if columns.shape[-1] != len(names):
        what = f"{len(names)} names for {columns.shape[-1]} columns"
        raise UserError("token_credit.blocks.names", what, "Name the part of the text that each column is for.")
    return _weighted(part_masks(spans, mask, names), columns[..., None, :])


@register(
    "token_credit", "segment_weights", returns="advantages", paper="SAGE (0.33)", traits={"permutation_equivariant"}
)
def segment_weights(
    advantages: Array,
    spans: Spans,
    mask: Array,
    *,
    weights: dict[str, float],
    rest: float = 1.0,
    renormalise: bool = False,
) -> np.ndarray:
    """The rollout's advantage times the weight of the part that a token is in, `rest` outside of all parts.

    `renormalise` scales a rollout's weights to mean 1, so that the size of its update stays.
    Shapes: (..., G), G mappings, (..., G, T) -> (..., G, T).

    >>> segment_weights([1.0], [{"strategy": [0, 2]}], [[1, 1, 1, 1]], weights={"strategy": 2.0}).tolist()
    [[2.0, 2.0, 1.0, 1.0]]
    """
    on = np.asarray(mask, dtype=bool)
    parts = part_masks(spans, on, [*weights, ""])
    factor = _weighted(parts, np.array([*weights.values(), rest]))
    if renormalise:
        total = factor.sum(axis=-1, keepdims=True)
        factor = np.where(total > 0, factor * on.sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1.0), factor)
    return np.asarray(advantages, dtype=float)[..., None] * factor


@register(
    "token_credit", "shaped_part", returns="advantages", paper="arXiv:2602.24110", traits={"permutation_equivariant"}
)
def shaped_part(
    advantages: Array, spans: Spans, mask: Array, logp: Array, *, span: str = "corrected", gamma: float = 0.1
) -> np.ndarray:
    """The rollout's advantage, on the tokens of `span` times gamma pi/(pi + gamma)^2, pi their probability.

    That is the gradient of the objective A pi/(pi + gamma) for a part that another model wrote: tokens near pi = gamma
    are learnt, neither those that are all but impossible nor those that are known. At most 1/4 of the advantage.
    Shapes: (..., G), G mappings, (..., G, T) twice -> (..., G, T). `logp` is the policy's own.

    >>> logs = [[np.log(0.1), np.log(0.9), -50.0]]
    >>> shaped_part([1.0], [{"corrected": [0, 3]}], np.ones((1, 3)), logs).round(3).tolist()
    [[0.25, 0.09, 0.0]]
    """
    inside = part_masks(spans, mask, [span])[..., 0]
    share = np.exp(np.minimum(np.asarray(logp, dtype=float), 0.0))
    factor = np.where(inside, gamma * share / (share + gamma) ** 2, 1.0)
    return np.asarray(advantages, dtype=float)[..., None] * factor * np.asarray(mask, dtype=bool)


@register(
    "token_credit", "minus_flagged", returns="advantages", paper="StraTA (0.1)", traits={"permutation_equivariant"}
)
def minus_flagged(advantages: Array, flags: Array | None = None, *, penalty: float = 0.1) -> np.ndarray:
    """`penalty` less on the tokens of flagged steps, after all normalising: never a bonus for the others.

    Nothing changes where nothing was judged. Shapes: (..., G, T), bool (..., G, T) -> (..., G, T).

    >>> minus_flagged([[1.0, 1.0]], [[False, True]]).tolist()
    [[1.0, 0.9]]
    """
    values = np.asarray(advantages, dtype=float)
    return values if flags is None else values - penalty * np.asarray(flags, dtype=bool)


@register(
    "normalise",
    "outcome_conditioned",
    returns="column_advantages",
    paper="arXiv:2602.10231",
    traits={"permutation_equivariant"},
)
def outcome_conditioned(
    reward_columns: Array, correct: Array, *, scale: Literal["std", "none"] = "none", eps: float = 1e-4, ddof: int = 1
) -> np.ndarray:
    """An advantage per reward column: the first against the group, the later ones against rollouts of equal outcome.

    What a later part should be depends on whether the part before was right; compared with everybody, low confidence
    in a right answer would be credited. A rollout alone with its outcome is compared with the group. An undefined
    reward gives 0 and is no rival. Shapes: (..., G, M), bool (..., G) -> (..., G, M).

    >>> outcome_conditioned([[1, -0.01], [1, -0.16], [0, -0.64], [0, -0.09]], [1, 1, 0, 0])[:, 1].round(4).tolist()
    [0.075, -0.075, -0.275, 0.275]
    """
    columns, outcome = np.asarray(reward_columns, dtype=float), np.asarray(correct)
    found = np.zeros(columns.shape)
    for column in range(columns.shape[-1]):
        known = np.isfinite(columns[..., column])
        values = np.where(known, columns[..., column], 0.0)
        anybody = known[..., None, :] & known[..., :, None]
        alike = anybody & together(outcome)
        rivals = anybody if column == 0 else np.where(alike.sum(axis=-1, keepdims=True) > 1, alike, anybody)
        found[..., column] = compare(values, rivals, known.astype(float), scale=scale, eps=eps, ddof=ddof)
    return found
