"""Credit methods as advantage estimators on padded token tensors, the form that verl and SkyRL share.

`token_advantages` is the whole of it; `estimator` gives it the signature that those engines call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polypath import credit
from polypath.core.errors import UserError
from polypath.core.recipe_types import Call
from polypath.credit.inputs import FIELDS
from polypath.credit.structure import TOKENWISE

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "polypath_"
Estimator = Callable[..., "tuple[Tensor, Tensor]"]
RENAMED = {"canonical": "labels", "acc": "correct"}  # an engine's column -> our field


def token_advantages(
    pipeline: credit.Pipeline,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    *,
    fields: Mapping[str, Sequence[Any]] | None = None,
    correct_threshold: float | None = None,
) -> Tensor:
    """Advantages (N, T) of N padded rollouts, 0 outside of the mask; `index` says which group each row is of.

    A row's reward is the sum of its token rewards, and its length the number of its tokens in the mask. `fields` are
    further fields with a value per row, such as labels or answers; `correct_threshold` calls rewards of at least that
    correct. Raises UserError when the method needs a field that is not there.
    """
    rewards = token_level_rewards.detach().sum(dim=-1).double().cpu().numpy()
    mask = response_mask.detach().bool().cpu().numpy()
    rows: dict[Any, list[int]] = {}
    for row, name in enumerate(index):
        rows.setdefault(name, []).append(row)
    needed = {name for stage in pipeline.stages for name in (*stage.required, *stage.optional)}
    known = {"rewards": rewards, "lengths": mask.sum(axis=-1), **dict(fields or {})}
    if correct_threshold is not None:
        known["correct"] = rewards >= correct_threshold
    if needed & TOKENWISE.keys():
        known["mask"] = mask
    groups = [{name: _take(values, members) for name, values in known.items()} for members in rows.values()]
    found = np.zeros(mask.shape)
    for members, part in zip(rows.values(), pipeline(groups).advantages, strict=True):
        found[members] = part if part.ndim == 2 else part[:, None]
    return (token_level_rewards.new_tensor(found) * response_mask).to(token_level_rewards.dtype)


def estimator(method: Any) -> Estimator:
    """An advantage estimator of a credit method: `(token_level_rewards, response_mask, index, ...)` to a pair (N, T).

    Knobs, and `correct_threshold`, are read from the entry `polypath` of the engine's algorithm configuration.
    `reward_baselines` is the field baseline. Rows of `non_tensor_batch`, where an engine hands it over, are fields
    too (canonical as labels, acc as correct). Both results are the advantages, as for verl's own group estimators.
    """

    def estimate(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Sequence[Any] | None = None,
        config: Any = None,
        reward_baselines: Tensor | None = None,
        non_tensor_batch: Mapping[str, Sequence[Any]] | None = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        if index is None:
            raise UserError(f"{PREFIX}{method}", "the rows have no uid", "Sample several rollouts per prompt.")
        knobs = dict((config.get("polypath") if config is not None else None) or {})
        threshold = knobs.pop("correct_threshold", None)
        pipeline = expressible(method, knobs)
        fields: dict[str, Any] = {RENAMED.get(name, name): values for name, values in (non_tensor_batch or {}).items()}
        fields = {name: values for name, values in fields.items() if name in FIELDS}
        if reward_baselines is not None:
            fields["baseline"] = reward_baselines.detach().double().cpu().numpy()
        advantages = token_advantages(
            pipeline, token_level_rewards, response_mask, index, fields=fields, correct_threshold=threshold
        )
        return advantages, advantages

    return estimate


def expressible(method: Any, knobs: Mapping[str, Any]) -> credit.Pipeline:
    """The method's pipeline. Raises UserError when it needs what an estimator has not: a memory, or the step."""
    pipeline = credit.build({method: dict(knobs)} if knobs else method)
    for stage in pipeline.stages:
        moving = any(isinstance(value, Call) and value.kind == "schedule" for value in stage.call.knobs.values())
        if "memory" in stage.required or moving:
            what = f"{stage.where} needs {'the step' if moving else 'a memory'}, which an estimator has not"
            raise UserError(f"{PREFIX}{method}", what, "Train it with polypath train, or with the TRL adapter.")
    return pipeline


def _take(values: Sequence[Any], rows: Sequence[int]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values[list(rows)]
    return [values[row] for row in rows]
