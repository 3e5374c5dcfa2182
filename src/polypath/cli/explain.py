"""`polypath explain`: what is wrong with a run, the numbers that say so, and what to try."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.cli.output import emit, relative, say
from polypath.core.errors import UserError

if TYPE_CHECKING:
    from polypath.evaluate.diagnose import Findings

EXAMPLE = "polypath explain runs/quickstart/grpo/seed-0"


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or a study with several.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Name what goes wrong in a training run, with the evidence and what to try against it.

    Reads metrics.jsonl and both ends of rollouts.jsonl; works on a run that is still going.
    """
    from polypath.evaluate.diagnose import diagnose
    from polypath.evaluate.trace import Trace

    findings = [diagnose(Trace.read(path)) for path in find(runs)]
    if as_json:
        emit({"runs": [found.to_json() for found in findings]})
        return
    print("\n\n".join(render(found) for found in findings))
    unknown = sorted({name for found in findings for name in found.unknown})
    if unknown:
        say(f"\nNot checked, for want of data: {', '.join(unknown)}.")


def find(paths: list[Path]) -> list[Path]:
    """The run directories among and below the given paths. Raises UserError when there is none."""
    found = [file.parent for path in paths for file in sorted(path.rglob("metrics.jsonl")) if path.is_dir()]
    if not found:
        raise UserError(str(paths[0]), "holds no run", "Give a directory that polypath train wrote.")
    return list(dict.fromkeys(found))


def render(found: Findings) -> str:
    """The findings of one run as text."""
    head = f"{relative(Path(found.run))}: {found.steps} steps, {len(found.diagnoses)} of "
    head += f"{len(found.diagnoses) + len(found.healthy)} checks found something."
    parts = [head]
    for each in found.diagnoses:
        tried = "\n".join(textwrap.indent(f"- {remedy}", "    ") for remedy in each.remedies)
        parts.append(f"{each.name} ({each.stage}): {each.meaning}\n  Evidence: {each.evidence}.\n  Try:\n{tried}")
    if found.strategies is not None:
        parts.append(textwrap.fill(found.strategies.sentence(), 100))
    return "\n\n".join(parts)
