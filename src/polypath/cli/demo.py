"""`polypath demo`: the quickstart's result from recorded rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath.cli.output import emit, results_only

EXAMPLE = "polypath demo --output report.html"


def command(
    output: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show diversity collapse and its remedy from recorded rollouts: no torch, no network, no waiting."""
    from polypath.report.demo import demo

    with results_only():
        shown = demo(output)
    if as_json:
        emit({"comparison": shown.comparison.to_json(), "report": str(shown.page)})
    else:
        print(shown.text)
