"""`polypath list`: what there is, from the static index."""

from __future__ import annotations

from typing import Annotated

import typer

from polypath.cli import catalogue
from polypath.cli.output import emit, say, table

EXAMPLE = "polypath list credit --filter rarity"


def kinds(incomplete: str) -> list[str]:
    """Kinds that begin with `incomplete`, for shell completion."""
    return [kind for kind in catalogue.kinds() if kind.startswith(incomplete)]


def command(
    kind: Annotated[
        str,
        typer.Argument(help="Only this kind: credit (the methods), recipe, task, ...", autocompletion=kinds),
    ] = "",
    text: Annotated[str, typer.Option("--filter", help="Only where name, summary or paper contains this.")] = "",
    trait: Annotated[str, typer.Option(help="Only what declares this trait.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List methods, recipes, tasks, losses and every other named part."""
    if kind not in catalogue.kinds() and kind.removesuffix("s") in catalogue.kinds():
        kind = kind.removesuffix("s")  # `polypath list environments` reads better
    word = text.casefold()
    items = [
        item
        for item in catalogue.catalogue(kind)
        if word in f"{item.name} {item.summary} {item.paper}".casefold() and (not trait or trait in item.traits)
    ]
    if as_json:
        keys = ("kind", "name", "summary", "paper", "traits")
        emit({"items": [{key: getattr(item, key) for key in keys} for item in items]})
        return
    rows = [(item.kind, item.name, _shorten(item.paper, 24), _shorten(item.summary, 72)) for item in items]
    print(table(("kind", "name", "paper", "summary"), rows))
    say(f"\n{len(items)} found. Details: polypath show NAME" if items else "\nNothing matches.")


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."
