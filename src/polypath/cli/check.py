"""`polypath check`: every mistake of a recipe at once, or what running it would cost."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.cli.extras import missing_extras, pip_line
from polypath.cli.output import emit, say
from polypath.cli.train import choose_seeds, recipes
from polypath.core import registry
from polypath.core.environment import free_memory
from polypath.core.errors import UserError
from polypath.core.recipe import Call

if TYPE_CHECKING:
    from polypath.train.config import Recipe

EXAMPLE = "polypath check quickstart -o train.steps=10"


def command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or YAML file.", autocompletion=recipes)],
    override: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="key=value", help="Set key.path=value; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a recipe and all its arms without loading a model, and say what it would cost."""
    from polypath.train.run import load_recipe

    overrides = list(override or ())
    loaded = load_recipe(recipe, overrides)
    describe(recipe, overrides, loaded, as_json, seeds=len(choose_seeds(loaded, None)))


def describe(name: str, overrides: Sequence[str], recipe: Recipe, as_json: bool, *, seeds: int) -> None:
    """Print the cost of a checked recipe. Raises UserError when it cannot fit into the memory of this machine."""
    from polypath.train.run import check_credit
    from polypath.train.study import check_arms

    check_credit(recipe)
    check_arms(name, overrides, recipe)
    facts = cost(recipe, seeds)
    if not set(facts["missing_extras"]) - {"train"}:
        recipe.task.bind()()
    need, free = facts["memory_gib"], facts["memory_free_gib"]
    if as_json:
        emit(facts)
    else:
        print("\n".join(_lines(facts)))
    if need and free and need > free:
        what = f"needs about {need:.1f} GiB of memory, and {free:.1f} GiB are free"
        raise UserError(name, what, "Lower train.tokens_per_microbatch, use model.lora, or choose a smaller model.")
    if not as_json:
        say(f"Next: polypath train {name}" + "".join(f" -o '{override}'" for override in overrides))


def cost(recipe: Recipe, seeds: int) -> dict[str, Any]:
    """Runs, steps, rollouts, an upper bound on tokens, memory and missing extras, as JSON data."""
    from polypath.train.cost import memory_needed

    loop, sft, rollout = recipe.train, recipe.sft, recipe.rollout
    facts: dict[str, Any] = {"arms": list(recipe.arms), "seeds": seeds, "runs": max(1, len(recipe.arms)) * seeds}
    if loop:
        group = loop.prompts_per_step * rollout.group_size
        facts |= {"steps": loop.steps, "prompts_per_step": loop.prompts_per_step, "group_size": rollout.group_size}
        facts |= {"max_new_tokens": rollout.max_new_tokens, "rollouts_per_step": group}
        facts["max_tokens_per_run"] = loop.steps * group * rollout.max_new_tokens
    elif sft:
        facts |= {"steps": sft.steps, "demonstrations_per_step": sft.batch}
    if recipe.evaluate:
        facts["evaluation_rollouts"] = recipe.evaluate.prompts * recipe.evaluate.samples
    targets = [registry.entry(call.kind, call.name).target for call in calls(recipe)]
    facts["missing_extras"] = missing_extras(targets)
    if importlib.util.find_spec("torch") is None:
        facts["missing_extras"] = list(dict.fromkeys(["train", *facts["missing_extras"]]))
    need, free = memory_needed(recipe), free_memory()
    facts["memory_gib"] = need and round(need / 2**30, 2)
    facts["memory_free_gib"] = free and round(free / 2**30, 2)
    return facts


def calls(value: Any) -> Iterator[Call]:
    """Every registered function that a recipe names, in depth; papers' methods are files and are left out."""
    if isinstance(value, Call):
        if any(known.name == value.name for known in registry.entries(value.kind)):
            yield value
        yield from calls(list(value.knobs.values()))
    elif is_dataclass(value):
        for field in fields(value):
            yield from calls(getattr(value, field.name))
    elif isinstance(value, dict):
        yield from calls(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from calls(item)


def _lines(facts: dict[str, Any]) -> list[str]:
    arms = f"{len(facts['arms'])} arms ({', '.join(facts['arms'])}) x " if facts["arms"] else ""
    lines = [f"{facts['runs']} run(s): {arms}{facts['seeds']} seed(s), {facts.get('steps', 0)} steps each"]
    if "group_size" in facts:
        lines.append(
            f"a step: {facts['prompts_per_step']} prompts x {facts['group_size']} rollouts x at most "
            f"{facts['max_new_tokens']} tokens; a run: at most {facts['max_tokens_per_run']:,} tokens"
        )
    if "evaluation_rollouts" in facts:
        lines.append(f"final evaluation: {facts['evaluation_rollouts']:,} rollouts a run")
    need, free = facts["memory_gib"], facts["memory_free_gib"]
    known = f"about {need} GiB a run" if need else "not known before the model is there"
    lines.append(f"memory: {known}" + (f", {free} GiB free" if free else ""))
    return lines + [f"missing: {pip_line(extra)}" for extra in facts["missing_extras"]]
