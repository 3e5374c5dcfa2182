"""`polypath compare`: paired differences between arms, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.cli.output import emit, results_only, table

if TYPE_CHECKING:
    from polypath.evaluate.compare import Comparison
    from polypath.evaluate.shift_share import ShiftShare
    from polypath.evaluate.stats import Estimate

EXAMPLE = "polypath compare runs/grpo runs/rarity"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, whole studies, or files of rollouts.")],
    baseline: Annotated[str, typer.Option(help="The arm to subtract [default: the first].")] = "",
    metric: Annotated[
        list[str] | None, typer.Option("-m", "--metric", help="Only this metric; repeatable [default: all].")
    ] = None,
    branch_words: Annotated[
        int,
        typer.Option(min=0, help="Also split each success rate's difference by the branch that the first N words are."),
    ] = 0,
    samples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 4000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare runs of equal seeds on equal prompts. Arm and seed are read from the paths, as in grpo/seed-1."""
    from polypath.evaluate.runs import compare_loaded, find_runs, load_run
    from polypath.evaluate.shift_share import shift_of_runs

    with results_only():
        loaded = [load_run(path) for path in find_runs(runs)]
        comparison = compare_loaded(loaded, baseline=baseline, metrics=metric, samples=samples, seed=seed)
        pairs = dict.fromkeys((d.arm, d.baseline) for d in comparison.differences) if branch_words else {}
        shifts = {pair: shift_of_runs(loaded, *pair, words=branch_words) for pair in pairs}
    if as_json:
        split = [{"arm": a, "baseline": b, **asdict(shift)} for (a, b), shift in shifts.items()]
        emit({**comparison.to_json(), **({"branches": split} if branch_words else {})})
        return
    show(comparison, False, metric or ())
    if branch_words:
        print("\n" + by_branch(shifts, branch_words))


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


def by_branch(shifts: Mapping[tuple[str, str], ShiftShare], words: int) -> str:
    """Each difference of success rates as allocation (where answers begin) plus skill (how they go on)."""
    rows = [
        (f"{arm} - {base}", *(f"{e.value:+.3f} {_interval(e)}" for e in list(shift)[:3]), shift.unmatched.value)
        for (arm, base), shift in shifts.items()
    ]
    title = f"Success rate, split by the first {words} words: allocation to branches, skill within them."
    return title + "\n" + table(("difference", "success rate", "allocation", "skill", "in unmatched branches"), rows)


def _interval(estimate: Estimate) -> str:
    return "-" if math.isnan(estimate.low) else f"[{estimate.low:+.3f}, {estimate.high:+.3f}]"
