"""`polypath train`: one run, or a study of arms and seeds with its comparison and report."""

from __future__ import annotations

import importlib.util
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polypath.cli.catalogue import RECIPE, names
from polypath.cli.output import emit, relative, results_only, say
from polypath.core.errors import ExitCode, UserError, missing_extra

if TYPE_CHECKING:
    from polypath.core.record import Rollout
    from polypath.train.config import Recipe
    from polypath.train.study import Job

EXAMPLE = "polypath train quickstart --seeds 1"
Resume = Literal["auto", "never", "must"]


def recipes(incomplete: str) -> list[str]:
    """Recipe names that begin with `incomplete`, for shell completion."""
    return [name for name in names(RECIPE) if name.startswith(incomplete)]


def command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or YAML file.", autocompletion=recipes)],
    override: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="key=value", help="Set key.path=value; repeatable.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="The run's directory [default: runs/RECIPE].")] = None,
    resume: Annotated[Resume, typer.Option(help="When the directory holds this run already.")] = "auto",
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds [default: the recipe's].")] = None,
    arms: Annotated[str, typer.Option(help="Only these arms, separated by commas.")] = "",
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time [default: one per core].")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, print the plan and its cost, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train by a recipe. A killed or interrupted run continues when the same command is given again."""
    from polypath.train.run import load_recipe

    overrides = list(override or ())
    loaded = load_recipe(recipe, overrides)
    target = output or default_output(recipe, overrides)
    chosen = choose_seeds(loaded, seeds)
    single = not (loaded.arms or len(chosen) > 1)
    if dry_run:
        from polypath.cli.check import describe

        describe(recipe, overrides, loaded, as_json, seeds=len(chosen))
        return
    if importlib.util.find_spec("torch") is None:
        raise missing_extra("train", "torch", "train")
    if single:
        result = train_one(replace(loaded, seed=chosen[0]), target, resume)
    else:
        result = train_study(recipe, overrides, loaded, target, resume, chosen, arms, workers, not as_json)
    if as_json:
        emit(result)
    raise typer.Exit(result["exit"])


def default_output(recipe: str, overrides: Sequence[str]) -> Path:
    """`runs/RECIPE`, with a mark of the overrides when there are any, so that the same command finds its run again."""
    stem = Path(recipe).stem
    if not overrides:
        return Path("runs", stem)
    import hashlib

    return Path("runs", f"{stem}-{hashlib.sha256(' '.join(sorted(overrides)).encode()).hexdigest()[:6]}")


def choose_seeds(recipe: Recipe, count: int | None) -> list[int]:
    """The first `count` of the recipe's seeds, or 0, 1, ... where it names fewer."""
    listed = recipe.seeds or [recipe.seed]
    if count is None:
        return listed
    return listed[:count] if len(listed) >= count else list(range(count))


def train_one(recipe: Recipe, output: Path, resume: Resume) -> dict[str, Any]:
    """One run in this process. Its traceback goes to run.log when it fails."""
    from polypath.train.run import RunRequest, run

    with RunLog(output), results_only():
        run(RunRequest(recipe, output, resume), summarise=summarise)
    say(f"The run is in {relative(output)}. Next: polypath report {relative(output)}")
    return {"run": str(output), "exit": int(ExitCode.DONE)}


def summarise(rollouts: list[Rollout], ks: Sequence[int]) -> dict[str, float]:
    """Means over prompts of the evaluation's columns."""
    from polypath.evaluate.summary import summarise as per_prompt

    return {name: estimate.value for name, estimate in per_prompt(rollouts, ks=ks).means().items()}


def train_study(
    name: str,
    overrides: Sequence[str],
    recipe: Recipe,
    output: Path,
    resume: Resume,
    seeds: Sequence[int],
    arms: str,
    workers: int | None,
    show: bool,
) -> dict[str, Any]:
    """All arms and seeds, then the paired comparison and the report of those that finished."""
    from polypath.core.environment import physical_cores
    from polypath.core.progress import Progress
    from polypath.train.study import TICKS, check_models, failure, plan_study, run_study

    wanted = [arm.strip() for arm in arms.split(",") if arm.strip()]
    jobs = plan_study(name, overrides, output, seeds=seeds, arms=wanted)
    check_models(jobs)
    say(f"{len(jobs)} runs in {relative(output)}, {workers or physical_cores()} at a time. Ctrl-C keeps what is done.")
    with RunLog(output), Progress(TICKS * len(jobs), Path(name).stem) as progress:
        failed = run_study(jobs, workers=workers or physical_cores(), resume=resume, progress=progress)
    for job in failed:
        say(f"{job.arm} seed {job.seed} failed: {failure(job)}")
    done = [job for job in jobs if job not in failed]
    result: dict[str, Any] = {"study": str(output), "runs": [str(job.output) for job in done]}
    result["failed"] = [str(job.output) for job in failed]
    result["exit"] = int(ExitCode.FAILED if not done else ExitCode.PARTIAL if failed else ExitCode.DONE)
    if done and recipe.evaluate is not None:
        result |= conclude(done, recipe, output, show)
    return result


def conclude(jobs: Sequence[Job], recipe: Recipe, output: Path, show: bool) -> dict[str, Any]:
    """Print the comparison of finished runs, and write report.html beside them."""
    from polypath.cli.compare import show as show_comparison
    from polypath.evaluate.runs import load_run
    from polypath.report.build import build_report

    runs = [load_run(job.output) for job in jobs]
    control = recipe.control if any(job.arm == recipe.control for job in jobs) else None  # it may be left out by --arms
    report = build_report(runs, title=recipe.summary or "Diversity report", baseline=control or "")
    page = report.write(output / "report.html")
    if show:
        show_comparison(report.comparison, as_json=False)
        print(f"\nReport: {relative(page)}")
    return {"comparison": report.comparison.to_json(), "report": str(page)}


class RunLog:
    """Within it, a failure leaves its traceback in the run's run.log, and says so in a note on the exception."""

    def __init__(self, output: Path) -> None:
        self.output = output

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        started = (self.output / "run.json").exists() or any(self.output.glob("*/*/run.json"))
        if error is None or not started:
            return
        log = self.output / "run.log"
        with log.open("a", encoding="utf-8") as file:
            file.write("".join(traceback.format_exception(error)))
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"What is done is kept in {relative(self.output)}; the same command continues it.")
        elif not isinstance(error, UserError):
            error.add_note(f"Traceback in {relative(log)}.")
