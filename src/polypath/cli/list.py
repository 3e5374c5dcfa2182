"""`polypath list`: what there is, from the static index."""

from __future__ import annotations

from typing import Annotated

import typer

from polypath.cli.catalogue import FILES, catalogue
from polypath.cli.output import emit, say, table
from polypath.core.registry import entries

EXAMPLE = "polypath list method --filter rarity"
SUMMARY_WIDTH = 72


def kinds(incomplete: str) -> list[str]:
    """Kinds that begin with `incomplete`, for shell completion."""
    return sorted(kind for kind in {*FILES, *(entry.kind for entry in entries())} if kind.startswith(incomplete))


def command(
    kind: Annotated[
        str, typer.Argument(help="Only this kind: method, recipe, task, loss, ...", autocompletion=kinds)
    ] = "",
    text: Annotated[str, typer.Option("--filter", help="Only where name, summary or paper contains this.")] = "",
    trait: Annotated[str, typer.Option(help="Only what declares this trait.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List methods, recipes, tasks, losses and every other named part."""
    word = text.casefold()
    items = [
        item
        for item in catalogue(kind)
        if word in f"{item.name} {item.summary} {item.paper}".casefold() and (not trait or trait in item.traits)
    ]
    if as_json:
        keys = ("kind", "name", "summary", "paper", "traits")
        emit({"items": [{key: getattr(item, key) for key in keys} for item in items]})
        return
    rows = [(item.kind, item.name, item.paper, _shorten(item.summary)) for item in items]
    print(table(("kind", "name", "paper", "summary"), rows))
    say(f"\n{len(items)} found. Details: polypath show NAME" if items else "\nNothing matches.")


def _shorten(summary: str) -> str:
    return summary if len(summary) <= SUMMARY_WIDTH else summary[: SUMMARY_WIDTH - 3].rstrip() + "..."
