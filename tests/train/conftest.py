"""A laboratory small enough for a test: few Countdown problems and a tiny policy trained on them for seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

TASK = {"countdown": {"numbers": 3, "problems": 60, "min_solutions": 1, "high": 5}}


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved policy that solves some of the problems."""
    from polypath.cli.train import summarise
    from polypath.train.run import RunRequest, load_recipe, run

    folder = tmp_path_factory.mktemp("start")
    recipe = folder / "sft.yaml"
    recipe.write_text(
        yaml.safe_dump(
            {
                "task": TASK,
                "model": {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_inner": 64},
                "sft": {"steps": 400, "batch": 64},
                "optim": {"lr": 0.01, "schedule": "cosine"},
            }
        )
    )
    run(RunRequest(load_recipe(str(recipe)), folder / "run"), summarise=summarise, show_progress=False)
    return folder / "run" / "model"


@pytest.fixture
def recipe(start: Path, tmp_path: Path) -> Path:
    """A reinforcement-learning recipe on that policy."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "task": TASK,
                "model": {"name": str(start), "threads": 1},
                "rollout": {"group_size": 8, "max_new_tokens": 12},
                "credit": {"rarity": {"alpha": 0.5}},
                "train": {"steps": 6, "prompts_per_step": 4, "save_every": 2},
                "optim": {"lr": 0.001, "warmup_steps": 2},
            }
        )
    )
    return path
