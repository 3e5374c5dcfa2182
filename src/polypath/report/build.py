"""From runs to the report: read, compare, draw, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polypath import __version__
from polypath.core.files import atomic_write
from polypath.evaluate.compare import Comparison
from polypath.evaluate.runs import Run, compare_loaded, find_runs, load_run
from polypath.report.figure import Figure
from polypath.report.figures import curve_figures, frontier_figure, frontier_points, frontier_text, pass_at_k_figure
from polypath.report.groups import evaluation_groups, training_groups, within
from polypath.report.html import page
from polypath.report.routes_map import route_pictures


@dataclass
class Report:
    """A comparison with everything that is drawn and browsed beside it."""

    title: str
    comparison: Comparison
    figures: list[Figure]
    curves: list[Figure]
    groups: list[dict[str, Any]]
    pictures: Sequence[str] = ()

    def write(self, path: Path) -> Path:
        """Write the self-contained HTML file."""
        lead = frontier_text(self.comparison) if len(self.comparison.arms) > 1 else ""
        footer = f"Written by polypath {__version__}. This file is complete: it loads nothing."
        html = page(
            self.title,
            self.comparison,
            self.figures,
            self.curves,
            self.groups,
            lead=lead,
            pictures=self.pictures,
            footer=footer,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, html)
        return path

    def write_png(self, directory: Path) -> list[Path]:
        """Write every figure as PNG. Raises UserError when matplotlib is not installed."""
        from polypath.report.png import write_png

        return [write_png(figure, directory / f"{figure.id}.png") for figure in [*self.figures, *self.curves]]


def build_report(
    runs: Sequence[Run],
    *,
    title: str = "Diversity report",
    baseline: str = "",
    pairs: Sequence[tuple[str, str]] | None = None,
    groups: list[dict[str, Any]] | None = None,
) -> Report:
    """Compare the runs and draw them. `groups` are read from the runs unless they are given."""
    comparison = compare_loaded(runs, baseline=baseline, pairs=pairs)
    ordered = sorted(runs, key=lambda run: list(comparison.arms).index(run.arm))
    if groups is None:
        groups = within([*evaluation_groups(ordered), *training_groups(ordered)])
    pictures = route_pictures(ordered)
    curves = curve_figures(runs, comparison.arms)
    return Report(title, comparison, figures_of(comparison), curves, groups, pictures)


def figures_of(comparison: Comparison) -> list[Figure]:
    """The figures of the final evaluation that its columns allow."""
    figures = [pass_at_k_figure(comparison)]
    return [*figures, frontier_figure(comparison)] if frontier_points(comparison) else figures


def write_report(
    paths: Sequence[Path | str], output: Path, *, title: str = "Diversity report", baseline: str = ""
) -> Path:
    """Read runs, studies or files of rollouts and write the report about them."""
    return build_report([load_run(path) for path in find_runs(paths)], title=title, baseline=baseline).write(output)
