"""Advantages per token are trained on: the same as per rollout where they are equal, and each on its own tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from polypath import credit
from polypath.cli.train import summarise
from polypath.core.recipe import Call
from polypath.core.record import Batch, Rollout
from polypath.core.rundir import RunDir
from polypath.core.store import read_rollouts
from polypath.engines.protocol import Row
from polypath.engines.transformers import TransformersPolicy
from polypath.train.config import OptimConfig, TrainConfig
from polypath.train.learner import Learner
from polypath.train.objective import Objective
from polypath.train.processes import Processes
from polypath.train.run import RunRequest, load_recipe, run

WHOLE = "credit=[{normalise: centre}]"
TOKENS = "credit=[{normalise: centre}, {token_credit: broadcast}]"


def trained(recipe: Path, output: Path, *overrides: str) -> dict[str, torch.Tensor]:
    run(RunRequest(load_recipe(str(recipe), overrides), output), summarise=summarise, show_progress=False)
    return load_file(output / "model" / "model.safetensors")


def test_the_same_advantage_on_every_token_is_that_of_the_rollout(recipe: Path, tmp_path: Path) -> None:
    one = trained(recipe, tmp_path / "whole", WHOLE, "train.steps=3")
    other = trained(recipe, tmp_path / "tokens", TOKENS, "train.steps=3")
    assert max(float((one[name] - other[name]).abs().max()) for name in one) == 0.0


def test_a_tree_is_sampled_credited_and_trained_on(recipe: Path, tmp_path: Path) -> None:
    plan = "rollout.plan={treerpo: {n: 2, depth: 2}}"
    trained(recipe, tmp_path / "run", plan, "credit=treerpo", "train.steps=3")
    rows = RunDir(tmp_path / "run").read_metrics()
    assert all(row["rollouts"] == 16 for row in rows) and any(row.get("grad_norm", 0.0) > 0 for row in rows)
    assert any(row.advantage for row in read_rollouts(RunDir(tmp_path / "run").rollouts))


def test_the_gradient_is_that_of_each_token_times_its_advantage() -> None:
    """Two answers, the first with 1 on its first step and -.5 on its second; the sum is checked against autograd."""
    policy = TransformersPolicy.load("countdown-0")
    prompt = policy.tokenizer("1 2 3 4").input_ids
    rows = [
        Rollout("p", "g", i, "", prompt_ids=list(prompt), ids=ids, rewards={"task": 0.0})
        for i, ids in enumerate([[5, 6, 7], [8, 9]])
    ]
    values = [np.array([[1.0, 1.0, -0.5], [0.25, -2.0, 0.0]])]
    batch = Batch.from_rollouts(rows)
    result = credit.Credit(values, [np.array([True, True])], {}, credit.build("grpo")(batch).stacked)
    learner = Learner(policy, OptimConfig(lr=0.0, grad_norm=0.0), 1, Processes.detect("cpu"))
    objective = Objective(policy, Call("loss", "policy_clip", {"aggregate": "token_mean"}), TrainConfig(steps=1), 1.0)
    objective.update(learner, batch, result, Processes.detect("cpu"))
    found = {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    scored = policy.score([Row(tuple(r.prompt_ids), tuple(r.ids)) for r in rows], grad=True).logp
    total = sum((logp * torch.tensor(adv[: len(logp)])).sum() for logp, adv in zip(scored, values[0], strict=True))
    (-total / 5).backward()
    for name, p in policy.model.named_parameters():
        if p.grad is not None:
            assert torch.allclose(found[name], p.grad, atol=1e-6), name
    assert max(float(grad.abs().max()) for grad in found.values()) > 1e-3
