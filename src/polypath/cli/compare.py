"""`polypath compare`: paired differences between arms, with intervals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.cli.output import emit, results_only, say, table

if TYPE_CHECKING:
    from polypath.evaluate.compare import Comparison
    from polypath.evaluate.stats import Estimate

EXAMPLE = "polypath compare runs/grpo runs/rarity"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, whole studies, or files of rollouts.")],
    baseline: Annotated[str, typer.Option(help="The arm to subtract [default: the first].")] = "",
    metric: Annotated[
        list[str] | None, typer.Option("-m", "--metric", help="Only this metric; repeatable [default: all].")
    ] = None,
    samples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 4000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare runs of equal seeds on equal prompts. Arm and seed are read from the paths, as in grpo/seed-1."""
    from polypath.evaluate.runs import compare_runs

    with results_only():
        comparison = compare_runs(runs, baseline=baseline, metrics=metric, samples=samples, seed=seed)
    show(comparison, as_json)


def show(comparison: Comparison, as_json: bool) -> None:
    """Print a comparison: a row per arm and metric, then the paired differences with both intervals."""
    if as_json:
        emit(comparison.to_json())
        return
    metrics = list(dict.fromkeys(d.metric for d in comparison.differences))
    rows = [(metric, *(comparison.value(arm, metric).value for arm in comparison.arms)) for metric in metrics]
    print(table(("metric", *comparison.arms), rows))
    if comparison.differences:
        lines = [
            (f"{d.arm} - {d.baseline}", d.metric, d.value, _interval(d.t), _interval(d.bootstrap), d.unit, d.n_prompts)
            for d in comparison.differences
        ]
        print("\n" + table(("difference", "metric", "mean", "t 95 %", "bootstrap 95 %", "over", "prompts"), lines))
    for note in comparison.notes:
        say(f"note: {note}")


def _interval(estimate: Estimate) -> str:
    return "-" if math.isnan(estimate.low) else f"[{estimate.low:+.3f}, {estimate.high:+.3f}]"
