"""`polypath report`: one self-contained HTML page, and PNG figures on request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath.cli.output import emit, relative, results_only

EXAMPLE = "polypath report runs/quickstart --output report.html --png figures"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, whole studies, or files of rollouts.")],
    output: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    png: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every figure as PNG, in here.")] = None,
    baseline: Annotated[str, typer.Option(help="The arm to subtract [default: the first].")] = "",
    title: Annotated[str, typer.Option(help="The page's heading.")] = "Diversity report",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a page with the comparison, curves, the frontier and groups to browse. It loads nothing from anywhere."""
    from polypath.evaluate.runs import find_runs, load_run
    from polypath.report.build import build_report

    with results_only():
        report = build_report([load_run(path) for path in find_runs(runs)], title=title, baseline=baseline)
        page = report.write(output)
        figures = report.write_png(png) if png else []
    if as_json:
        emit({"report": str(page), "figures": [str(path) for path in figures]})
    else:
        print("\n".join(relative(path) for path in (page, *figures)))
