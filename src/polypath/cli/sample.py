"""`polypath sample`: rollouts of any plan from any model, with their provenance, into a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.cli.catalogue import PLAN, names
from polypath.cli.options import knob_values
from polypath.cli.output import emit, relative, results_only, say, table
from polypath.core.errors import UserError

if TYPE_CHECKING:
    from polypath.rollout.plan import Plan
    from polypath.tasks.protocol import Task

EXAMPLE = "polypath sample --plan treerpo --task countdown --model countdown-0 --out rollouts.jsonl"


def plans(incomplete: str) -> list[str]:
    """Plan names that begin with `incomplete`, for shell completion."""
    return [name for name in names(PLAN) if name.startswith(incomplete)]


def command(
    prompts: Annotated[list[str] | None, typer.Argument(help="Prompts of your own, or none with --task.")] = None,
    plan: Annotated[str, typer.Option(help="A plan's name or YAML file.", autocompletion=plans)] = "grpo",
    override: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="knob=value", help="Set a knob of the plan.")
    ] = None,
    model: Annotated[str, typer.Option(help="An alias, a directory or a hub id.")] = "smollm2",
    task: Annotated[str, typer.Option(help="A task: a name, or {name: {knob: value}}.")] = "",
    n: Annotated[int, typer.Option("-n", min=1, help="How many of the task's prompts.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 64,
    temperature: Annotated[float, typer.Option(min=0, help="Of the sampling distribution.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed draws the same rollouts.")] = 0,
    out: Annotated[Path, typer.Option(help="The JSONL file to write.")] = Path("rollouts.jsonl"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the tree and its token bound; no model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw rollouts by a plan. The same plans serve training: rollout: {plan: NAME} in a recipe."""
    from polypath.engines.protocol import SamplingParams
    from polypath.rollout.plan import build

    params = SamplingParams(max_new_tokens, temperature)
    chosen = build({plan: knob_values(override or ())}, params=params)
    source = choose_task(prompts or [], task)
    if dry_run:
        show_dry_run(chosen, as_json)
        return
    if out.exists():
        raise UserError(str(out), "exists already", "Name another file with --out, or remove it.")
    result = draw(chosen, source, model, n, seed, out)
    if as_json:
        emit(result)
        return
    say(f"{result['rollouts']} rollouts in {result['groups']} groups: {relative(out)}")
    print(table(("tokens", "count"), list(result["tokens"].items())))
    say(f"Next: polypath measure {relative(out)}")


def choose_task(prompts: Sequence[str], task: str) -> Task:
    """The prompts given, or the named task. Raises UserError for both or neither, and for what is no task."""
    from polypath.core.document import parse_value
    from polypath.core.stages import parse_stage
    from polypath.tasks.protocol import Unverified

    if bool(prompts) == bool(task):
        what = "give prompts or --task, not both" if task else "there is nothing to sample from"
        raise UserError("sample", what, 'For example: polypath sample "Name a colour." or --task countdown')
    if prompts:
        return Unverified(list(prompts))
    return parse_stage({"task": parse_value(task, "--task")}, "--task", ("task",)).bind()()


def show_dry_run(plan: Plan, as_json: bool) -> None:
    """What the plan would do to one prompt."""
    from polypath.rollout.dry import dry_run

    found = dry_run(plan)
    facts = {"answers": found.answers, "groups": found.groups, "token_bound": found.bound}
    if as_json:
        emit({"plan": plan.describe(), "tree": found.tree().splitlines(), **facts})
        return
    print(f"{plan.describe()}\n\n{found.tree()}\n")
    print(table(("a prompt has", "at most"), list(facts.items())))


def draw(plan: Plan, task: Task, model: str, n: int, seed: int, out: Path) -> dict[str, Any]:
    """Sample prompt after prompt, each written when it is done."""
    from polypath.core.environment import prepare_threads

    prepare_threads(None, None)
    from polypath.core.progress import Progress
    from polypath.core.store import RolloutWriter
    from polypath.engines.transformers import TransformersPolicy

    prompts = task.prompts("test", n=n, seed=seed)
    with results_only():
        policy = TransformersPolicy.load(model)
    say(policy.describe())
    total = {"generated": 0, "discarded": 0, "prefilled": 0, "reused": 0}
    rollouts = groups = 0
    with Progress(len(prompts), "sample") as progress, RolloutWriter(out) as writer:
        for position, prompt in enumerate(prompts):
            batch, failures = plan.collect(
                policy, task, [(position, prompt)], seed=seed, step=0, purpose="sample", embedder=policy.embed
            )
            writer.write(batch.rollouts())
            for name in total:
                total[name] += sum(rollout.tokens.get(name, 0) for rollout in batch.rollouts())
            rollouts, groups = rollouts + len(batch.rollouts()), groups + len(batch.groups)
            progress.update()
            if failures.count:
                say(f"{failures.count} verdicts could not be made: {failures.first.strip().splitlines()[-1]}")
    return {"out": str(out), "prompts": len(prompts), "rollouts": rollouts, "groups": groups, "tokens": total}
