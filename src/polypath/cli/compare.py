"""`polypath compare`: paired differences between arms, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.cli.output import emit, results_only, table

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
    show(comparison, as_json, metric or ())


def show(comparison: Comparison, as_json: bool, metrics: Sequence[str] = ()) -> None:
    """Print a comparison: the table of the report, or, where `metrics` are named, a row for each of them."""
    if as_json:
        emit(comparison.to_json())
    elif metrics:
        print(by_metric(comparison, metrics))
    else:
        from polypath.report.console import render

        print(render(comparison))


def by_metric(comparison: Comparison, metrics: Sequence[str]) -> str:
    """The arms' means and the paired differences in the given metrics."""
    rows = [(metric, *(comparison.value(arm, metric).value for arm in comparison.arms)) for metric in metrics]
    lines = [
        (f"{d.arm} - {d.baseline}", d.metric, d.value, _interval(d.t), _interval(d.bootstrap), d.n_prompts)
        for d in comparison.differences
    ]
    headers = ("difference", "metric", "mean", "t 95 %", "bootstrap 95 %", "prompts")
    notes = [f"Note: {note}." for note in comparison.notes]
    return "\n".join([table(("metric", *comparison.arms), rows), "", table(headers, lines), *notes])


def _interval(estimate: Estimate) -> str:
    return "-" if math.isnan(estimate.low) else f"[{estimate.low:+.3f}, {estimate.high:+.3f}]"
