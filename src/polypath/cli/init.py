"""`polypath init`: a commented recipe of the installed version, copied to a file of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath.cli.catalogue import RECIPE, catalogue, names
from polypath.cli.output import emit, relative, say
from polypath.core.errors import UserError, did_you_mean

EXAMPLE = "polypath init quickstart --output mine.yaml"


def recipes(incomplete: str) -> list[str]:
    """Recipe names that begin with `incomplete`, for shell completion."""
    return [name for name in names(RECIPE) if name.startswith(incomplete)]


def command(
    name: Annotated[str, typer.Argument(help="A recipe's name (polypath list recipe).", autocompletion=recipes)],
    output: Annotated[Path | None, typer.Option("--output", help="Where to write it [default: NAME.yaml].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Copy a commented recipe to a file of your own. Never overwrites."""
    known = {item.name: item for item in catalogue(RECIPE)}
    if name not in known:
        raise UserError("NAME", f"there is no recipe named '{name}'", did_you_mean(name, known))
    path = output or Path(f"{name}.yaml")
    if path.is_dir():
        path /= f"{name}.yaml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(known[name].text())
    except FileExistsError:
        raise UserError(str(path), "exists already", "Name another file with --output.") from None
    except FileNotFoundError:
        raise UserError(str(path), "its folder does not exist", f"Run: mkdir -p '{path.parent}'") from None
    if as_json:
        emit({"path": str(path)})
    else:
        print(relative(path))
        say(f"Next: polypath check {relative(path)}")
