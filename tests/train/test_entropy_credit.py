"""Credit by the policy's own entropy: the loop computes it where a method asks for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from polypath.cli.train import summarise
from polypath.core.record import Batch, Group, Rollout
from polypath.core.rundir import RunDir
from polypath.credit import Memory
from polypath.engines.transformers import TransformersPolicy
from polypath.train.run import RunRequest, load_recipe, run
from polypath.train.scores import SCORED, with_scores


@pytest.mark.parametrize("method", ["top_entropy", "d3s", "unlikeliness", "kl_cov", "pkpo", "echo", "cd_rlhf"])
def test_methods_by_token_and_with_other_losses_train(recipe: Path, tmp_path: Path, method: str) -> None:
    request = RunRequest(load_recipe(str(recipe), (f"credit={method}", "train.steps=2")), tmp_path / "run")
    run(request, summarise=summarise, show_progress=False)
    rows = RunDir(tmp_path / "run").read_metrics()
    assert len(rows) == 2 and any(row.get("grad_norm", 0.0) > 0 for row in rows)


def test_what_credit_asks_of_the_policy_is_what_the_model_says(start: Path) -> None:
    """Against the full logits of the model: entropy, the mean of the five largest probabilities, and the states."""
    policy = TransformersPolicy.load(str(start))
    rows = [Rollout("p", "g", i, "", prompt_ids=[3, 4, 5], ids=ids) for i, ids in enumerate(([6, 7, 2], [], [8, 2]))]
    batch, memory = Batch([Group("g", "p", rows)], 0), Memory()
    (found,) = with_scores(policy, batch, frozenset(SCORED | {"rewards"}), temperature=0.7, memory=memory)
    assert found["confidence"][1] == found["entropy"][1] == found["curiosity"][1] == []
    for i in (0, 2):
        ids = [3, 4, 5, *rows[i].ids]
        logits = policy.model(torch.tensor([ids[:-1]])).logits[0, 2:].float() / 0.7
        share = logits.softmax(-1)
        np.testing.assert_allclose(found["confidence"][i], share.topk(5).values.mean(-1).detach(), atol=1e-5)
        entropy = -(share * logits.log_softmax(-1)).sum(-1).detach()
        np.testing.assert_allclose(found["entropy"][i], entropy, atol=1e-4)  # logits are in the tens
        assert found["curiosity"][i][-1] == 0.0 and min(found["curiosity"][i][:-1]) > 0
    before = np.sum(found["curiosity"][0])
    for _ in range(20):
        (found,) = with_scores(policy, batch, frozenset({"curiosity"}), temperature=1.0, memory=memory)
    assert np.sum(found["curiosity"][0]) < 0.5 * before  # what was seen before is no news
    assert "entropy" not in found
    assert with_scores(policy, batch, frozenset({"rewards"}), temperature=1.0, memory=memory) is batch
