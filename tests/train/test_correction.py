"""Importance correction in the loop: rollouts of a sampler that is not quite the policy."""

from __future__ import annotations

import numpy as np
import pytest
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

SHIFT = np.log([4.0, 0.6, 0.1])  # the policy finds the first token 4 times as likely as the sampler did


@pytest.mark.parametrize(
    ("knobs", "weights"),
    [
        (None, [1, 1, 1]),
        ({}, [2, 0.6, 0.1]),  # truncated at 2
        ({"mode": "mask"}, [0, 0.6, 0]),  # kept within [.5, 2]
        ({"level": "sequence"}, [0.24] * 3),
    ],
)
def test_each_token_is_weighed_by_what_the_sampler_made_of_it(knobs, weights) -> None:
    policy = TransformersPolicy.load("countdown-0")
    prompt = policy.tokenizer("1 2 3 4").input_ids
    ids = [5, 6, 7]
    logp = policy.score([Row(tuple(prompt), tuple(ids))]).logp[0]
    sampled = (logp - torch.tensor(SHIFT, dtype=torch.float32)).tolist()
    rows = [
        Rollout("p", "g", 0, "", prompt_ids=list(prompt), ids=ids, logp_sampling=sampled, rewards={"task": 1.0}),
        Rollout("p", "g", 1, "", prompt_ids=list(prompt), ids=[8, 9], rewards={"task": 0.0}),  # sampler unknown
    ]
    batch = Batch.from_rollouts(rows)
    result = credit.build("dr_grpo")(batch)
    call = None if knobs is None else Call("correction", "importance", knobs)
    learner = Learner(policy, OptimConfig(lr=0.0, grad_norm=0.0), 1, Processes.detect("cpu"))
    config = TrainConfig(steps=1, correction=call)
    Objective(policy, Call("loss", "policy_clip"), config, 1.0).update(learner, batch, result, Processes.detect("cpu"))
    found = {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    scored = policy.score([Row(tuple(r.prompt_ids), tuple(r.ids)) for r in rows], grad=True).logp
    total = 0.5 * (scored[0] * torch.tensor(weights, dtype=torch.float32)).sum() - 0.5 * scored[1].sum()
    (-total / 5).backward()
    for name, p in policy.model.named_parameters():
        if p.grad is not None:
            assert torch.allclose(found[name], p.grad, atol=1e-5), name
