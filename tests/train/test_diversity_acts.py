"""On real groups of the shipped starts: which methods with a diversity signal give exactly GRPO's credit, and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polypath import credit
from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.record import Batch
from polypath.engines.protocol import SamplingParams
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout import plan as rollout_plan
from polypath.train.run import load_recipe
from polypath.train.scores import SCORED, with_scores

ALWAYS = {
    "meds": "no prompt came back",
    "oni": "no judge has given an opinion",
    "dvd": "the bandit draws the arm without diversity in this step",
}
SILENT = {"quickstart": ALWAYS, "routes": {**ALWAYS, "diver": "moves are no formulas"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", SILENT)
def test_methods_that_claim_diversity_are_not_grpo_under_another_name(name: str) -> None:
    recipe = load_recipe(name, [])
    task = registry.get("task", recipe.task.name)(**recipe.task.knobs)
    policy = TransformersPolicy.load(Path(recipe.model.name).name.replace("{seed}", "0"))  # type: ignore[union-attr]
    plan = rollout_plan.build({"grpo": {"n": 16}}, params=SamplingParams(recipe.rollout.max_new_tokens))
    batches, fields = [], frozenset(SCORED | {"logp", "mask"})
    for step in range(2):  # some methods compare with what was written before
        prompts = list(enumerate(task.prompts("train", n=16, seed=step)))
        local, _ = plan.collect(policy, task, prompts, seed=0, step=step, memory=credit.Memory(), embedder=policy.embed)
        batch = Batch(local.groups, step)
        batches.append(with_scores(policy, batch, fields, temperature=1.0, memory=credit.Memory()))

    def advantages(method: str) -> np.ndarray:
        pipeline, memory = credit.build(method, providers={"embeddings": policy.embed}), credit.Memory()
        for step, groups in enumerate(batches):
            found = pipeline(groups, step=step, memory=memory).advantages
        return np.concatenate([a if a.ndim == 1 else a.mean(axis=1) for a in found])

    same, grpo = set(), advantages("grpo")
    for method in credit.methods():
        if not any(stage.call.kind == "signal" for stage in credit.build(method).stages):
            continue
        try:
            same |= {method} if np.array_equal(advantages(method), grpo) else set()
        except UserError as error:  # contexts, several rewards, candidates: not of a plain plan
            assert "needs the field" in str(error)
    assert same == set(SILENT[name]) and grpo.any()
