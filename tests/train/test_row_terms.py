"""What credit or the record says of single rows reaches the loss: clip ranges, shares of the KL term, other writers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from polypath import credit
from polypath.core.recipe import Call
from polypath.core.record import Batch, Group, Rollout
from polypath.engines.transformers import TransformersPolicy
from polypath.losses.policy import policy_clip
from polypath.losses.ratio import hacpo
from polypath.train.config import OptimConfig, TrainConfig
from polypath.train.learner import Learner
from polypath.train.objective import Objective, Trained
from polypath.train.processes import Processes


def rollouts(**more: object) -> list[Rollout]:
    return [
        Rollout("p", "g", i, "", prompt_ids=[3], ids=[5, 6], logp_sampling=[-1.0, -2.0], **more)  # type: ignore[arg-type]
        for i in range(2)
    ]


def trained(members: list[Rollout], **fields: object) -> Trained:
    found = Trained()
    found.add(Group("g", "p", members), np.array([1.0, -1.0]), np.array([True, True]), 0.0, fields or None)
    return found


def surrogate(loss: Call, rows: Trained, logp: torch.Tensor, old: torch.Tensor, update: int = 0) -> torch.Tensor:
    objective = Objective(None, loss, TrainConfig(steps=1), 1.0)  # type: ignore[arg-type]
    advantages, mask = torch.stack(rows.advantages), torch.stack(rows.masks)
    return objective._surrogate(rows, [0, 1], (logp, old, advantages, mask), update)


LOGP = torch.tensor([[0.3, 0.1], [-0.4, 0.2]])
OLD = torch.zeros(2, 2)


def test_a_row_has_the_clip_range_that_credit_gives_it() -> None:
    rows = trained(rollouts(), rows=np.array([0, 1]), clip=np.array([0.1, 0.25]))
    found = surrogate(Call("loss", "policy_clip", {}), rows, LOGP, OLD)
    parts = [
        policy_clip(LOGP[i : i + 1], OLD[i : i + 1], a, torch.ones(1, 2), low=c, high=c)
        for i, a, c in ((0, torch.ones(1), 0.1), (1, -torch.ones(1), 0.25))
    ]
    assert found.item() == pytest.approx(sum(part.item() for part in parts), abs=1e-6)
    plain = surrogate(Call("loss", "policy_clip", {}), trained(rollouts()), LOGP, OLD)
    whole = policy_clip(LOGP, OLD, torch.tensor([1.0, -1.0]), torch.ones(2, 2))
    assert plain.item() == pytest.approx(whole.item(), abs=1e-6) and found.item() != pytest.approx(plain.item())


def test_what_another_policy_wrote_is_compared_with_that_policy() -> None:
    rows = rollouts()
    rows[1].source = {"name": "other"}
    found = surrogate(Call("loss", "hacpo", {}), trained(rows), LOGP, LOGP, update=2)
    old = torch.tensor([[0.3, 0.1], [-1.0, -2.0]])
    expected = hacpo(LOGP, old, torch.tensor([1.0, -1.0]), torch.ones(2, 2), torch.tensor([False, True]), 2)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    rows[1].logp_sampling = None  # nobody knows: its ratio is to the policy itself
    unknown = surrogate(Call("loss", "hacpo", {}), trained(rows), LOGP, LOGP)
    assert unknown.item() == pytest.approx(0.0, abs=1e-6)


def test_gardo_pulls_only_the_disputed_to_the_reference(start: Path, tmp_path: Path) -> None:
    """Both rewards order the first two alike; the last two change places."""
    columns = [[1.0, 1.0], [0.9, 0.9], [0.2, 0.1], [0.1, 0.2]]
    group = {"reward_columns": columns, "embeddings": np.eye(4)}
    found = credit.build({"gardo": {"share": 0.5}})(group).fields[0]["kl_weight"]
    assert found.tolist() == [0.0, 0.0, 1.0, 1.0]

    def kl(weights: list[float]) -> float:
        policy, reference = (TransformersPolicy.load(str(start)) for _ in range(2))
        with torch.no_grad():
            for parameter in reference.model.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
        processes = Processes.detect("cpu")
        config = TrainConfig(steps=1, kl=1.0)
        objective = Objective(policy, Call("loss", "policy_clip", {}), config, 1.0, reference=reference)
        rows = trained(rollouts(), rows=np.array([0, 1]), kl_weight=np.array(weights))
        objective._score_before(rows)
        seen = []

        class Watch(Learner):
            def update(self, rows, plan, loss, **options):  # type: ignore[no-untyped-def]
                for part in plan:
                    scores = policy.score([rows[i] for i in part], grad=True)
                    seen.append(loss(part, scores)[0].item())
                return {}

        objective._step(Watch(policy, OptimConfig(), 1, processes), rows, 1.0, 0)
        return math.fsum(seen)

    none, one, both = kl([0.0, 0.0]), kl([1.0, 0.0]), kl([1.0, 1.0])
    assert none == pytest.approx(0.0, abs=1e-6)  # the surrogate: +2 and -2 tokens at ratio 1
    assert both == pytest.approx(2 * one, rel=1e-5) and one > 1e-4


def test_hacpo_and_echo_train_on_rollouts_of_two_policies(start: Path) -> None:
    """Echo's clip range arrives at the loss in a real update; a foreign row's gradient is the window's."""
    policy, processes = TransformersPolicy.load(str(start)), Processes.detect("cpu")
    rows = rollouts()
    rows[1].source = {"name": "other"}
    batch = Batch([Group("g", "p", rows)], 0)
    for method, updates, fields in (
        ("hacpo", 1, {"rewards": [1, 0], "sources": [0, 1]}),
        ("echo", 2, {"rewards": [1, 0], **{f: [[0.5, 0.2], [0.1, 0.9]] for f in ("entropy", "confidence")}}),
    ):
        pipeline = credit.build(method)
        found = pipeline({**fields, "mask": np.ones((2, 2)), "prompts": ["p", "p"]}, memory=credit.Memory())
        assert pipeline.loss is not None
        config = TrainConfig(steps=1, updates_per_batch=updates)
        objective = Objective(policy, pipeline.loss, config, 1.0)
        metrics = objective.update(Learner(policy, OptimConfig(), updates, processes), batch, found, processes)
        assert metrics["grad_norm"] > 0 and metrics["trained_tokens"] == 4
