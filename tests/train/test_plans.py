"""Every plan trains: one step of a real policy, with the credit that the plan was made for."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from polypath.core.document import packaged
from polypath.rollout.plan import load_preset


@pytest.mark.parametrize("name", sorted(packaged("plans")))
def test_one_step_of_each_plan(name: str, tmp_path: Path) -> None:
    from polypath.cli.train import summarise
    from polypath.train.run import RunRequest, load_recipe, run

    recipe = {
        "task": {"countdown": {"numbers": 4, "min_solutions": 3}},
        "model": {"name": "countdown-0", "threads": 1},
        "rollout": {"plan": {name: load_preset(name).get("smoke") or {}}, "max_new_tokens": 64},
        "train": {"steps": 1, "prompts_per_step": 4, "prompt_pool": 40},
    }
    recipe["rollout"]["sources"] = {"small": "countdown-1"}
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    run(RunRequest(load_recipe(str(path)), tmp_path / "run"), summarise=summarise, show_progress=False)
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(line)
    assert metrics["groups"] >= 4
    assert metrics["dead_groups"] == metrics["groups"] or math.isfinite(metrics["loss"])
