"""One run from a recipe to a trained and evaluated policy: checked before anything heavy loads, resumed when killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from polypath import credit
from polypath.core import environment
from polypath.core.errors import UserError, did_you_mean
from polypath.core.recipe import digest, dump, load_document, resolve
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.rollout import plan as rollout_plan
from polypath.tasks.protocol import Task
from polypath.train.config import ModelConfig, Recipe, seeded_name
from polypath.train.cost import check_fits
from polypath.train.progress import RunProgress

Resume = Literal["auto", "never", "must"]
Summarise = Callable[[list[Rollout], Sequence[int]], dict[str, Any]]


@dataclass(frozen=True)
class RunRequest:
    """What to run and where: a resolved recipe without arms, a directory and what to do when it is not empty."""

    recipe: Recipe
    output: Path
    resume: Resume = "auto"


def plan_credit(recipe: Recipe) -> bool:
    """Whether the recipe's plan names the credit method that it was made for."""
    return recipe.rollout.plan is not None and rollout_plan.build(recipe.rollout.plan).credit is not None


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Resolve a recipe file or packaged name. Raises UserErrors with every mistake at once; loads no model."""
    recipe = resolve(load_document(name, overrides), Recipe)
    check_study(recipe, name)
    if (recipe.train is None) == (recipe.sft is None):
        raise UserError(name, "needs exactly one of the sections train and sft", "Keep the one you mean.")
    if recipe.train is not None and recipe.credit is None and not plan_credit(recipe):
        raise UserError(f"{name} credit", "required key is missing", "Write for example: credit: grpo")
    if recipe.train is not None and not isinstance(recipe.model, ModelConfig):
        raise UserError(f"{name} model.name", "required key is missing", "A model to start from is needed for train.")
    if recipe.train is not None and recipe.rollout.temperature == 0:
        what = "greedy rollouts of a group are all the same, and have no policy gradient"
        raise UserError(f"{name} rollout.temperature", what, "Choose a temperature above 0.")
    return recipe


def check_study(recipe: Recipe, name: str) -> None:
    """Raise UserError for arms and seeds whose runs would share a directory or be compared with nothing."""
    for arm in recipe.arms:
        if not arm.strip(" .") or set(arm) & set("/\\"):
            raise UserError(f"{name} arms", f"'{arm}' cannot be the name of a directory", "Rename the arm.")
    if recipe.arms and recipe.control is not None and recipe.control not in recipe.arms:
        what = f"the recipe has no arm '{recipe.control}'"
        raise UserError(f"{name} control", what, did_you_mean(recipe.control, recipe.arms))
    twice = sorted({seed for seed in recipe.seeds if recipe.seeds.count(seed) > 1})
    if twice:
        raise UserError(f"{name} seeds", f"the seed {twice[0]} is given twice", "Name each seed once.")


def check_credit(recipe: Recipe) -> None:
    """Build the recipe's pipeline once. Raises UserError for stages that cannot follow each other."""
    if recipe.credit is not None:
        credit.build(recipe.credit)


def run(request: RunRequest, *, summarise: Summarise, show_progress: bool = True) -> RunDir:
    """Execute one run. `summarise(rollouts, ks)` turns evaluation rollouts into the metrics that are logged."""
    recipe = request.recipe
    model = recipe.model
    seeded = replace(model, name=seeded_name(model, recipe.seed)) if isinstance(model, ModelConfig) else model
    recipe = replace(recipe, model=seeded, arms={}, seeds=[])
    parameters = _parameters(recipe)
    check_fits(recipe)
    check_credit(recipe)
    task: Task = recipe.task.bind()()
    is_main = int(os.environ.get("RANK", "0")) == 0  # set by `accelerate launch`; only one process writes the run
    if is_main:
        directory = RunDir.open(request.output, dump(recipe), digest(recipe), request.resume, seed=recipe.seed)
    else:
        directory = RunDir(request.output)
    with directory:
        threads = seeded.threads if isinstance(seeded, ModelConfig) else None
        environment.prepare_threads(parameters, threads)
        # Imported late: torch reads the thread settings when it loads.
        from polypath.train.execute import Execution

        steps = recipe.train.steps if recipe.train else recipe.sft.steps if recipe.sft else 0
        with RunProgress(directory, steps, enabled=show_progress and is_main, writes=is_main) as progress:
            Execution(recipe, task, directory, summarise, progress).execute()
    return directory


def _parameters(recipe: Recipe) -> int | None:
    """The model's size where its files say it, fetching an alias first; a model from scratch is small."""
    if not isinstance(recipe.model, ModelConfig):
        return 1_000_000
    from polypath.engines.aliases import resolve_model
    from polypath.engines.memory import num_parameters_of

    path = Path(resolve_model(recipe.model.name))
    return num_parameters_of(path) if any(path.glob("*.safetensors")) else None
