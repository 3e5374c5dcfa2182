"""Hints for prompts that fail: which answers they replace, how much they show, and what is remembered."""

from __future__ import annotations

from typing import Any

import pytest

from polypath.engines.protocol import SamplingParams
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout.hints import beginning, next_level
from polypath.rollout.plan import build
from polypath.tasks.protocol import Prompt, Task

Prompts = list[tuple[int, Prompt]]


def test_level_moves_of_the_worked_example() -> None:
    """SAGE-light: accuracy .05 up, .2 stay, .5 down; the bounds themselves are .1 (up) and .35 (stay)."""
    assert [next_level(1, accuracy) for accuracy in (0.05, 0.1, 0.2, 0.35, 0.5)] == [2, 2, 1, 1, 0]
    assert next_level(3, 0.0) == 3 and next_level(0, 1.0) == 0


def test_a_hint_never_shows_a_whole_solution() -> None:
    assert [beginning("1 + 2 = 3", share) for share in (0.25, 0.5, 1.0)] == ["1", "1 +", "1 + 2 ="]
    assert beginning("7", 0.9) == ""


@pytest.mark.parametrize("length", [1, 16])
def test_only_failures_are_answered_again(
    length: int, policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    """One token solves nothing, so that every prompt climbs to the last level."""
    plan = build({"sage": {"n": 2, "levels": 2}}, params=SamplingParams(max_new_tokens=length))
    batch = plan.collect(policy, task, prompts, seed=3, step=2)[0]
    assert len(batch.groups) == len(prompts)
    for group in batch.groups:
        kept = [row for row in group if row.keep]
        gone = [row for row in group if not row.keep]
        assert len(kept) == 2 and {row.drop_reason for row in gone} <= {"replaced_with_hint"}
        assert all(row.reward == 0 for row in gone)
        level = (kept[0].context or {}).get("level", 0)
        assert len(gone) == 2 * level and (level == 2 or any(row.reward > 0 for row in kept))
        assert (level == 2) or length > 1


def test_the_level_is_carried_to_the_next_visit(policy: TransformersPolicy, task: Task, prompts: Prompts) -> None:
    memory: dict[str, Any] = {}
    plan = build({"sage_light": {"n": 2}}, params=SamplingParams(max_new_tokens=1))
    seen = []
    for step in range(3):
        rows = plan.collect(policy, task, prompts[:1], seed=0, step=step, memory=memory)[0].rollouts()
        seen.append([(row.context or {}).get("level", 0) for row in rows])
    assert seen == [[0, 0], [1, 1], [2, 2]]
