"""The term that carries what was found in a context over to the bare prompt."""

from __future__ import annotations

import torch

from polypath import credit
from polypath.core.recipe import Call
from polypath.core.record import Batch, Rollout
from polypath.engines.protocol import Row
from polypath.engines.transformers import TransformersPolicy
from polypath.train.config import OptimConfig, TrainConfig
from polypath.train.learner import Learner
from polypath.train.objective import Objective
from polypath.train.processes import Processes


def test_both_adds_the_good_rollouts_under_the_bare_prompt() -> None:
    """Advantages .5 and -.5 over 5 tokens: -(.5 lp0 - .5 lp1 + .2 x .5 lp0 under the bare prompt)/5."""
    policy = TransformersPolicy.load("countdown-0")
    shown, bare = (policy.tokenizer(text).input_ids for text in ("1 2 3 4", "4 3"))
    rows = [
        Rollout("p", "g", i, "", prompt_ids=list(shown), ids=ids, rewards={"task": reward}, loss_context="both")
        for i, (ids, reward) in enumerate([([5, 6, 7], 1.0), ([8, 9], 0.0)])
    ]
    for row in rows:
        row.extra["base_prompt_ids"] = list(bare)
    batch = Batch.from_rollouts(rows)
    learner = Learner(policy, OptimConfig(lr=0.0, grad_norm=0.0), 1, Processes.detect("cpu"))
    config = TrainConfig(steps=1, bare_weight=0.2)
    result = credit.build("dr_grpo")(batch)
    Objective(policy, Call("loss", "policy_clip"), config, 1.0).update(learner, batch, result, Processes.detect("cpu"))
    found = {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    scored = policy.score(
        [Row(tuple(shown), (5, 6, 7)), Row(tuple(shown), (8, 9)), Row(tuple(bare), (5, 6, 7))], grad=True
    ).logp
    total = 0.5 * scored[0].sum() - 0.5 * scored[1].sum() + 0.2 * 0.5 * scored[2].sum()
    (-total / 5).backward()
    for name, p in policy.model.named_parameters():
        if p.grad is not None:
            assert torch.allclose(found[name], p.grad, atol=1e-5), name
