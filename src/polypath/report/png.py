"""A figure as PNG, through matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polypath.core.errors import missing_extra
from polypath.report.figure import Figure, Series, log_ticks

COLOURS = ("#5f6b7a", "#0b6bb8", "#c8500a", "#00805c", "#a8489a", "#9a7000", "#2a8fbf", "#6d4bc4")
MARKERS = "osD^"


def write_png(figure: Figure, path: Path, *, dpi: int = 160) -> Path:
    """Draw the figure into a file. Raises UserError when matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise missing_extra(str(path), "matplotlib", "report") from None
    canvas = Canvas(figsize=(6.4, 4.3), layout="constrained")
    axes = canvas.subplots()
    for series in figure.series:
        _draw(axes, series)
    if figure.log_x:
        axes.set_xscale("log", base=2)
        axes.set_xticks(log_ticks(*figure.x_range()), [f"{x:g}" for x in log_ticks(*figure.x_range())])
    axes.set(xlabel=figure.x_label, ylabel=figure.y_label, title=figure.title, ylim=figure.y_range())
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=dpi)
    return path


def _draw(axes: Any, series: Series) -> None:
    colour, marker = COLOURS[series.colour % len(COLOURS)], MARKERS[series.colour % len(MARKERS)]
    name = "_" if series.faint or series.kind == "front" else series.name  # no place in the legend
    if series.kind == "front":
        axes.plot(series.x, series.y, "--", color="0.5", zorder=1, label=name)
    elif series.kind == "points":
        size, alpha = (18, 0.5) if series.faint else (64, 1.0)
        axes.scatter(series.x, series.y, s=size, alpha=alpha, color=colour, marker=marker, label=name, zorder=2)
    else:
        width, alpha = (0.8, 0.4) if series.faint else (2.0, 1.0)
        shown = marker if len(series.x) <= 24 and not series.faint else ""
        axes.plot(series.x, series.y, marker=shown, ms=4, lw=width, alpha=alpha, color=colour, label=name)
        if series.low:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, lw=0)
