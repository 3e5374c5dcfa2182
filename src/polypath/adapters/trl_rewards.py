"""Reward functions for TRL's own GRPOTrainer, for those who stay on it: a diversity bonus, or a fused reward.

    bonus = group_reward([{"partition": "same_text"}, {"signal": "distinctness"}, {"gate": "correct"}],
                         num_generations=8, reward=accuracy)
    GRPOTrainer(model, [accuracy, bonus], GRPOConfig(reward_weights=[1.0, 0.2], scale_rewards="none"), ...)

TRL normalises afterwards: with `scale_rewards="group"` a tiny bonus among equal rewards is blown up to unit variance.
`polypath.adapters.trl` has neither that problem nor the one that processes see parts of groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polypath import credit
from polypath.adapters.trl_checks import check_whole_groups
from polypath.adapters.trl_groups import Canonical, group_fields, text_of
from polypath.core.errors import UserError
from polypath.credit.inputs import Provider
from polypath.tasks.protocol import Task

RewardFunction = Callable[..., list[float | None]]


def group_reward(
    stages: Sequence[Any],
    *,
    num_generations: int,
    reward: RewardFunction | None = None,
    canonical: Canonical | Task | None = None,
    correct_threshold: float | None = None,
    providers: Mapping[str, Provider] | None = None,
    name: str = "diversity",
) -> RewardFunction:
    """A TRL reward function that looks at whole groups, made of partition, representation, signal, gate, fuse stages.

    Its value is the bonus gate * diversity, to stand beside other reward functions; with a fuse stage it is the fused
    reward, which takes the place of `reward`. `reward` is your reward function, whose values the gate and the fusion
    work on. `canonical`, `correct_threshold` and `providers` are as for DiverseGRPOTrainer; `name` is for TRL's log.

    A group is `num_generations` rows of one prompt, and TRL shows a reward function the rows of its own process alone.
    Raises UserError when these are not whole groups, and when no stage gives a diversity.
    """
    pipeline = credit.build([*stages, {"normalise": "plain"}], providers=providers)
    given = {field for stage in pipeline.stages for field in stage.returns}
    if not given & {"diversity", "rewards"}:
        raise UserError("group_reward", "no stage gives a diversity", "Add a signal, such as {signal: distinctness}.")

    def of_groups(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        ids = [[]] * len(prompts) if completion_ids is None else completion_ids
        rows = [{**_row(columns, i), "prompt": prompt} for i, prompt in enumerate(prompts)]
        check_whole_groups(rows, num_generations, "train")
        values = np.zeros(len(prompts))
        if reward is not None:
            own = reward(prompts=prompts, completions=completions, completion_ids=completion_ids, **columns)
            values = np.array([math.nan if value is None else value for value in own], dtype=float)
        texts = [text_of(completion) for completion in completions]
        groups = []
        for start in range(0, len(rows), num_generations):
            part = slice(start, start + num_generations)
            group = {**group_fields(texts[part], ids[part], rows[start], canonical), "rewards": values[part]}
            if correct_threshold is not None:
                group["correct"] = values[part] >= correct_threshold
            groups.append(group)
        step = getattr(columns.get("trainer_state"), "global_step", 0)
        found: list[float | None] = [None] * len(rows)
        for place, fields in enumerate(pipeline(groups, step=step).fields):
            if len(fields["rows"]):
                paid = fields["rewards"] if "rewards" in given else fields["diversity"] * fields.get("gate", 1.0)
                for row, value in zip(fields["rows"], paid, strict=True):
                    found[place * num_generations + row] = float(value)
        return found

    of_groups.__name__ = name
    return of_groups


def _row(columns: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The dataset's columns of one row, without what TRL adds (its state and its log functions)."""
    return {name: values[place] for name, values in columns.items() if isinstance(values, list)}
