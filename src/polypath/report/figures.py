"""Which pictures a comparison gets: pass@k, the frontier of accuracy against diversity, the curves of training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from polypath.evaluate.compare import Comparison
from polypath.evaluate.runs import Run
from polypath.report.figure import Figure, Series, number

CURVES = {  # column of metrics.jsonl -> what the reader calls it
    "correct": "share correct in training",
    "eval/pass@1": "pass@1",
    "eval/distinct": "distinct correct solutions",
    "eval/pairwise_difference": "P(two correct differ)",
    "entropy": "entropy per token (nats)",
    "length": "response length (tokens)",
}
BINS = 60  # points per curve: single steps are noise


def pass_at_k_figure(comparison: Comparison) -> Figure:
    """pass@k of every arm with bootstrap intervals over seeds and prompts, k on a logarithmic axis."""
    series = []
    for colour, (arm, runs) in enumerate(comparison.arms.items()):
        ks = sorted(set.intersection(*(set(summary.ks) for summary in runs.values())))
        spread = [comparison.spread(arm, f"pass@{k}") for k in ks]
        values, low, high = ([getattr(e, name) for e in spread] for name in ("value", "low", "high"))
        series.append(Series(arm, [float(k) for k in ks], values, low, high, colour))
    ends = "; ".join(
        f"{s.name} from {number(s.y[0])} at k = {s.x[0]:.0f} to {number(s.y[-1])} at k = {s.x[-1]:.0f}"
        for s in series
        if s.x
    )
    title = "Success within k samples"
    return Figure("passk", title, "k, samples per problem", "pass@k", series, log_x=True, text=f"{title}: {ends}.")


def frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The non-dominated names: no other is at least as good in both coordinates and better in one. By x ascending.

    >>> frontier({"a": (1.0, 0.3), "b": (2.0, 0.29), "c": (1.5, 0.2)})
    ['a', 'b']
    """
    known = {name: p for name, p in points.items() if not any(map(math.isnan, p))}

    def dominated(p: tuple[float, float]) -> bool:
        return any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in known.values())

    return sorted((name for name, p in known.items() if not dominated(p)), key=lambda name: known[name])


def frontier_points(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """Each arm's mean (distinct correct solutions, pass@1)."""
    if not all({"distinct", "pass@1"} <= s.table.keys() for runs in comparison.arms.values() for s in runs.values()):
        return {}
    value = comparison.value
    points = {arm: (value(arm, "distinct").value, value(arm, "pass@1").value) for arm in comparison.arms}
    return {arm: p for arm, p in points.items() if not any(map(math.isnan, p))}


def frontier_figure(comparison: Comparison) -> Figure:
    """pass@1 against distinct correct solutions: every seed, every arm's mean, and the line of the best trade-offs."""
    points = frontier_points(comparison)
    best = frontier(points)
    line = Series("frontier", [points[a][0] for a in best], [points[a][1] for a in best], kind="front")
    series = [line] if len(best) > 1 else []
    for colour, (arm, runs) in enumerate(comparison.arms.items()):
        if arm not in points:
            continue
        x_seeds = [s.mean("distinct").value for s in runs.values()]
        y_seeds = [s.mean("pass@1").value for s in runs.values()]
        if len(runs) > 1:
            series.append(Series(f"{arm}, one seed", x_seeds, y_seeds, colour=colour, kind="points", faint=True))
        x, y = points[arm]
        series.append(Series(arm, [x], [y], colour=colour, kind="points", label=arm))
    return Figure(
        "frontier",
        "Accuracy against diversity",
        "distinct correct solutions per problem",
        "pass@1",
        series,
        text=frontier_text(comparison),
        zero=False,
    )


def frontier_text(comparison: Comparison) -> str:
    """A sentence that names the arms on the Pareto line and the arms that another arm beats in both."""
    points = frontier_points(comparison)
    best = frontier(points)
    if not best:
        return "Accuracy or distinct solutions are undefined, so there is no frontier."
    named = ", ".join(f"{a} ({number(points[a][0])} distinct, pass@1 {number(points[a][1])})" for a in best)
    text = f"On the Pareto line, from accurate to diverse: {named}."
    worse = [a for a in points if a not in best]
    if worse:
        verb = "is" if len(worse) == 1 else "are"
        text += f" {', '.join(worse)} {verb} dominated: another arm is at least as good in both."
    return text


def curve_figures(runs: Sequence[Run], arms: Iterable[str]) -> list[Figure]:
    """Curves over training steps, one figure per logged metric: thin lines are seeds, thick their mean."""
    colours = {arm: i for i, arm in enumerate(arms)}
    largest = max((k for run in runs for k in _logged_ks(run.metrics)), default=1)
    wanted = (
        dict(list(CURVES.items())[:2]) | ({f"eval/pass@{largest}": f"pass@{largest}"} if largest > 1 else {}) | CURVES
    )
    figures = []
    for column, label in wanted.items():
        curves = [(run, curve(run.metrics, column)) for run in runs]
        series = []
        for arm, colour in colours.items():
            own = [c for run, c in curves if run.arm == arm and len(c[0]) > 1]
            if len(own) > 1:
                series += [Series(f"{arm}, one seed", x, y, colour=colour, faint=True) for x, y in own]
            if own:
                series.append(Series(arm, *mean_curve(own), colour=colour))
        if series:
            name = "curve-" + column.replace("/", "-").replace("@", "")
            zero = column.startswith("eval/") or column == "correct"
            text = f"{label} over training steps, one line per arm."
            figures.append(
                Figure(name, label[0].upper() + label[1:], "training step", "", series, text=text, zero=zero)
            )
    return figures


def curve(rows: Sequence[Mapping[str, Any]], column: str) -> tuple[list[float], list[float]]:
    """Steps and values of a logged column, averaged in equal bins when there are many."""
    logged = [(float(row["step"]), float(row[column])) for row in rows if row.get(column) is not None]
    if not logged:
        return [], []
    bins = np.array_split(np.array(logged), min(BINS, len(logged)))
    means = [part.mean(axis=0) for part in bins]
    return [float(m[0]) for m in means], [float(m[1]) for m in means]


def mean_curve(curves: Sequence[tuple[list[float], list[float]]]) -> tuple[list[float], list[float]]:
    """The mean over seeds at the steps of the first curve, as far as all curves reach."""
    end = min(x[-1] for x, _ in curves)
    steps = [step for step in curves[0][0] if step <= end]
    values = np.mean([np.interp(steps, x, y) for x, y in curves], axis=0)
    return steps, [float(v) for v in values]


def _logged_ks(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    return {int(name.removeprefix("eval/pass@")) for row in rows for name in row if name.startswith("eval/pass@")}
