"""`polypath credit`: what a method would pay each rollout of a group, from a JSON file."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath.cli.catalogue import METHOD, names
from polypath.cli.options import knob_values
from polypath.cli.output import emit, say, table
from polypath.core.errors import UserError

EXAMPLE = """echo '{"rewards": [1, 1, 1, 0], "labels": [0, 0, 1, 0]}' | polypath credit rarity -"""
# Fields of one value per rollout, for the table
SHOWN = ("rewards", "correct", "labels", "answers", "lengths", "contexts", "sources")


def methods(incomplete: str) -> list[str]:
    """Method names that begin with `incomplete`, for shell completion."""
    return [name for name in names(METHOD) if name.startswith(incomplete)]


def command(
    method: Annotated[
        str, typer.Argument(help="A method (polypath list credit), or a YAML file.", autocompletion=methods)
    ],
    group: Annotated[str, typer.Argument(metavar="GROUP.json", help="The group's fields, or - for standard input.")],
    override: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="knob=value", help="Set one knob; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the advantages that a credit method gives to the rollouts of one group.

    GROUP.json holds the fields by name: rewards, and as the method needs them correct, texts, answers, labels,
    embeddings, similarity, logp, entropy, mask, lengths, contexts, spans, nodes, starts and so on; one entry per
    rollout. An undefined reward is null. Credit per token is shown as "value x tokens".
    """
    fields = read_group(group)
    from polypath.credit.explain import run_method

    result = run_method({method: knob_values(override or ())}, fields)
    if as_json:
        emit(result)
        return
    columns = [name for name in SHOWN if name in fields]
    advantages = [runs(value) if isinstance(value, list) else value for value in result["advantages"]]
    rows = [(i, *(fields[name][i] for name in columns), advantages[i]) for i in range(len(advantages))]
    print(table(("rollout", *columns, "advantage"), rows))
    say("\n" + table(("metric", "value"), list(result["metrics"].items())))


def read_group(source: str) -> dict[str, Any]:
    """The JSON object of a file, or of standard input for "-". Raises UserError when there is none."""
    where = "standard input" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(where, f"cannot be read ({reason})", "Give a JSON file, or - for standard input.") from None
    if not text.strip():
        raise UserError(where, "is empty", 'Expected an object such as {"rewards": [1, 0], "texts": ["a", "b"]}.')
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}:{error.lineno}", f"is not JSON ({error.msg})", "Check it near that line.") from None
    if not isinstance(fields, dict):
        raise UserError(where, f"holds a {type(fields).__name__}, not an object", 'Write {"rewards": [...]}.')
    return fields


def runs(values: list[float]) -> str:
    """An advantage per token, equal neighbours together.

    >>> runs([0.5, 0.5, -1.0])
    '0.5 x 2, -1 x 1'
    """
    return ", ".join(f"{value:.4g} x {len(list(group))}" for value, group in groupby(values))
