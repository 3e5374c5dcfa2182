"""StraTA's three ingredients with a language model in the real simulators: candidates, two levels, self-judgement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from polypath.core import registry
from polypath.credit import build as build_credit
from polypath.engines.protocol import SamplingParams
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout.plan import build

WORLDS: dict[str, dict[str, object]] = {
    "scienceworld": {"game": "find-non-living-thing", "show": 4},
    "textworld": {"rooms": 2, "objects": 3, "quest": 2, "show": 4},
}
STRATA = {"strategies": 2, "answers": 2, "candidates": 3, "max_new": 8, "by": "embeddings", "encoder": "policy"}


@pytest.fixture(scope="module")
def smollm2() -> Iterator[TransformersPolicy]:
    yield TransformersPolicy.load("smollm2", threads=torch.get_num_threads())


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("name", sorted(WORLDS))
def test_strata_in_a_real_simulator(name: str, smollm2: TransformersPolicy) -> None:
    task = registry.get("task", name)(**WORLDS[name], turns=2, action_tokens=6, workers=2)
    plan = build({"strata": {**STRATA, "judge": "self"}}, params=SamplingParams(16))
    batch, failures = plan.collect(
        smollm2, task, list(enumerate(task.prompts("train", n=1))), seed=0, step=0, embedder=smollm2.embed
    )
    task.close()
    assert failures.count == 0
    strategies = [row for row in batch.rollouts() if row.group_id.endswith("/strategies")]
    episodes = [row for row in batch.rollouts() if not row.group_id.endswith("/strategies")]
    assert len({row.text.strip() for row in strategies}) == len(strategies) == 2
    assert len(episodes) == 4
    for row in episodes:
        assert row.context is not None and row.context["text"] in row.prompt
        mask = row.forced_mask or [0] * len(row.ids)
        assert len(row.extra["turns"]) == 1 or any(mask), "what the simulator wrote is masked"
        assert row.tokens["generated"] == mask.count(0) <= 12
        assert len(row.extra["flagged"]) <= len(row.extra["turns"]) / 2, "a judge flags at most half"
        assert all(not any(mask[first:last]) for first, last in row.extra["flagged"])
    for row in strategies:
        own = sorted((e.reward for e in episodes if e.context and e.context["id"] == row.context["id"]), reverse=True)  # type: ignore[index]
        assert row.reward == own[0], "the best half of two"
    credit = build_credit("strata_groups")(batch)
    for group, advantages in zip(batch.groups, credit.advantages, strict=True):
        for row, values in zip(group, advantages, strict=True):
            assert all(values[k] == 0 for k, put in enumerate(row.forced_mask or []) if put)
