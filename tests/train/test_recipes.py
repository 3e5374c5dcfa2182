"""Every shipped recipe resolves with all its arms, and runs in its smoke form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polypath.cli.train import summarise
from polypath.core.document import packaged
from polypath.core.rundir import RunDir
from polypath.train.run import RunRequest, load_recipe, run
from polypath.train.study import arm_overrides, plan_study

RECIPES = sorted(packaged("recipes"))


def test_there_are_recipes() -> None:
    assert {"quickstart", "routes", "smollm2_colours", "smollm2_reasoning_gym"} <= set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_it_resolves_with_all_arms(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    assert recipe.summary and recipe.smoke
    jobs = plan_study(name, [], tmp_path, seeds=[])
    assert len(jobs) == max(1, len(recipe.arms)) * max(1, len(recipe.seeds))


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", RECIPES)
def test_it_runs(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    arm = list(recipe.arms.values())[-1] if recipe.arms else {}
    small = load_recipe(name, [*arm_overrides(arm), *arm_overrides(recipe.smoke)])
    directory = run(RunRequest(small, tmp_path / "run"), summarise=summarise, show_progress=False)
    steps = small.train.steps if small.train else small.sft.steps
    assert [row["step"] for row in directory.read_metrics() if "grad_norm" in row or "groups" in row] == [*range(steps)]
    final = json.loads((directory.path / "final.json").read_text())
    assert 0.0 <= final["eval/pass@1"] <= 1.0
    assert (RunDir(directory.path).path / "model").is_dir()
