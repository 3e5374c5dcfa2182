"""Run any credit method on one group written by hand, for `polypath credit` and notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.credit.inputs import FIELDS, Provider
from polypath.credit.memory import Memory
from polypath.credit.pipeline import build


def run_method(
    spec: Any, group: Mapping[str, Any], *, step: int = 0, providers: Mapping[str, Provider] | None = None
) -> dict[str, Any]:
    """Advantages and metrics of one group given by its fields, ready for JSON (undefined values are None).

    A reward of None is undefined: that rollout takes no part and gets advantage 0. `memory` among the fields is what
    the method remembers, entry by entry; a group without `prompts` is of one unnamed prompt.
    Raises UserError for an unknown field, for fields of different lengths and for an empty group.

    >>> run_method("dr_grpo", {"rewards": [1, 0, None]})["advantages"]
    [0.5, -0.5, 0.0]
    """
    memory, group = Memory(), dict(group)
    memory.update(group.pop("memory", {}))
    for name in group:
        if name not in FIELDS:
            raise UserError(f"group.{name}", "unknown field", did_you_mean(name, FIELDS))
    rewards = group.get("rewards")
    columns = group.get("reward_columns")
    if rewards is None and isinstance(columns, list | tuple):
        rewards = [math.fsum(column) if None not in column else None for column in columns]
    if not isinstance(rewards, list | tuple):
        raise UserError("group.rewards", "is missing or not a list", "Give one number per rollout.")
    if not rewards:
        raise UserError("group.rewards", "the group is empty", "Give at least one rollout.")
    for place, reward in enumerate(rewards):
        if reward is not None and not isinstance(reward, int | float):
            raise UserError(f"group.rewards[{place}]", f"{reward!r} is not a number", "Use null where it is undefined.")
    fields = {"prompts": [""] * len(rewards), **group}
    fields["rewards"] = [math.nan if reward is None else float(reward) for reward in rewards]
    credit = build(spec, providers=providers)(fields, step=step, memory=memory)
    metrics = {name: None if math.isnan(value) else value for name, value in credit.metrics.items()}
    return {"advantages": credit.advantages[0].tolist(), "keep": credit.keep[0].tolist(), "metrics": metrics}
