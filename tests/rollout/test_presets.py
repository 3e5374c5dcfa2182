"""What each preset promises: who is conditioned on what, how often is drawn, and what is left out."""

from __future__ import annotations

import pytest

from polypath.core.errors import UserError
from polypath.core.record import Batch
from polypath.core.schedules import value_at
from polypath.engines.protocol import SamplingParams
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout.forest import Forest
from polypath.rollout.plan import build
from polypath.rollout.slots import nudge
from polypath.rollout.sources import foreign_count
from polypath.rollout.tools import Tools
from polypath.tasks.protocol import Prompt, Task

PARAMS = SamplingParams(max_new_tokens=16)
Prompts = list[tuple[int, Prompt]]


def collect(spec: object, policy: TransformersPolicy, task: Task, prompts: Prompts) -> Batch:
    plan = build(spec, params=PARAMS, sources={"small": policy})
    return plan.collect(policy, task, prompts, seed=3, step=2)[0]


def test_hints_that_are_lost_make_one_bare_part(policy: TransformersPolicy, task: Task, prompts: Prompts) -> None:
    batch = collect({"nudge": {"n": 3}}, policy, task, prompts)
    for group, (_, prompt) in zip(batch.groups, prompts, strict=True):
        assert len(group) == 6  # k * n, whatever was lost
        for row in group:
            assert row.context is not None and (row.context["id"] == "bare") == (row.prompt == prompt.text)
    names = {row.context["id"] for row in batch.rollouts() if row.context}
    assert names == {"bare", "0", "1"}


@pytest.mark.parametrize(("dropout", "names"), [(0.0, ["0", "0", "1", "1"]), (1.0, ["bare"] * 4)])
def test_hint_dropout_at_its_ends(
    dropout: float, names: list[str], policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    forest = Forest.plant(prompts[:1])
    nudge(forest, Tools(policy, task, PARAMS, 0, 0), hints=["x", "y"], k=2, n=2, dropout=dropout)
    assert [node.context["id"] for node in forest.frontier if node.context] == names


def test_small_model_leaves_on_a_line() -> None:
    """S2L-PO: G = 8 over five steps: 8, 6, 4, 2, 0 from the small model."""
    (mix, _) = build({"s2l": {"steps": 4}}).operators
    assert [foreign_count(value_at(mix.knobs["share"], step), 8) for step in range(5)] == [8, 6, 4, 2, 0]


def test_rescue_stops_at_a_success_and_rejects_the_surplus(
    policy: TransformersPolicy, task: Task, prompts: Prompts
) -> None:
    for group in collect({"aero": {"n": 2, "more": 2, "cap": 6}}, policy, task, prompts).groups:
        right = [row for row in group if row.correct]
        assert len(group) in (2, 4, 6)
        assert right or len(group) == 6
        if len(group) > 2:  # drawn two at a time: nothing was right before the last two
            assert not any(row.correct for row in list(group)[:-2] if row.keep) or len(right) <= 2
        kept = [row for row in group if row.keep]
        if 0 < len(right) < len(group):
            fewer = min(len(right), len(group) - len(right))
            assert sum(bool(row.correct) for row in kept) == fewer == sum(not row.correct for row in kept)
        else:
            assert len(kept) == len(group)


def test_drawn_contexts_follow_their_shares(policy: TransformersPolicy, task: Task, prompts: Prompts) -> None:
    batch = collect(
        [
            {"conditioner": {"drawn": {"axes": [{"a": 1.0, "b": 0.0}, {"c": 0.5, "d": 0.5}], "n": 8}}},
            {"source": {"policy": {"n": 1}}},
        ],
        policy,
        task,
        prompts,
    )
    assert {row.context["id"] for row in batch.rollouts() if row.context} == {"0/0", "0/1"}
    assert all("\na\n" in row.prompt + "\n" and "\nb\n" not in row.prompt for row in batch.rollouts())
    with pytest.raises(UserError, match="is no distribution"):
        collect([{"conditioner": {"drawn": {"axes": [{"a": 0.7}]}}}, {"source": "policy"}], policy, task, prompts)
    with pytest.raises(UserError, match="1 hints for k = 2"):
        collect({"nudge": {"hints": ["x"]}}, policy, task, prompts)
    with pytest.raises(UserError, match="less than the first 4"):
        collect({"aero": {"cap": 2}}, policy, task, prompts)
