"""`polypath measure`: how good, how long and how different the rollouts of anybody's file are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.cli.catalogue import names
from polypath.cli.options import pairs
from polypath.cli.output import emit, relative, results_only, say, table, write_table
from polypath.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from polypath.evaluate.measure_report import Report

SHOWN = 6  # rank correlations in the printed summary
ENDINGS = (".json", ".csv", ".parquet")
SOURCES = ("reference", "proxy", "judge", "attribute.NAME")
EXAMPLE = "polypath measure rollouts.jsonl -m distinct_n:n=2 -m self_bleu"


def measures(incomplete: str) -> list[str]:
    """Measure names that begin with `incomplete`, for shell completion."""
    return [name for name in ("all", *names("measure")) if name.startswith(incomplete)]


def command(
    file: Annotated[Path, typer.Argument(help="Rollouts: JSONL, CSV, Parquet or a directory, of any framework.")],
    other: Annotated[Path | None, typer.Argument(help="A second file, to subtract from the first.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("-m", "--measure", help="name, name:knob=value or all; repeatable.", autocompletion=measures),
    ] = None,
    group_by: Annotated[str, typer.Option(help="prompt, group, all, or a column of the rows.")] = "prompt",
    embed: Annotated[
        str, typer.Option(help="hash, openai:URL#MODEL, or an encoder: minilm, a directory, a hub id.")
    ] = "",
    known: Annotated[str, typer.Option(help="Known solutions: a file, or a task that knows all of them.")] = "",
    beside: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="INPUT=VALUE", help="reference=FILE, proxy=MODEL, judge=URL#MODEL, ..."),
    ] = None,
    equal_n: Annotated[int | None, typer.Option(min=1, help="Draw this many of each group; omit smaller ones.")] = None,
    equal_length: Annotated[bool, typer.Option("--equal-length", help="Measure cut texts of one length too.")] = False,
    seed: Annotated[int, typer.Option(help="Of the draws and of the intervals of a comparison.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a row per group: .json, .csv or .parquet.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(metavar="OURS=THEIRS", help="What the file calls a column; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Means over groups with 95 % intervals; pass@k and distinct solutions too where the rows say what is correct."""
    given = sources_of(beside or ())
    if out is not None and out.suffix.lower() not in ENDINGS:
        raise UserError(f"--out {out}", "has an ending that is not known", f"Use one of {', '.join(ENDINGS)}.")
    from polypath.core.importers import load_rows
    from polypath.evaluate.measure_report import Settings, report
    from polypath.evaluate.measure_spec import parse_all, signature

    parse_all([name for name in measure or () if name != "all"])  # told before anything is read
    if measure and "all" in measure and len(measure) > 1:
        raise UserError("-m all", "stands for every measure", "Leave out the others.")
    columns = pairs("--column", column or ())
    with results_only():
        files = {str(path): load_rows(path, columns) for path in (file, other) if path is not None}
        if other is not None and len(files) == 1:
            raise UserError(str(other), "is compared with itself", "Name two files.")
        reference = load_rows(given["reference"], prompts=False) if "reference" in given else []
        sources = _sources(files, measure or (), embed, known, given)
        settings = Settings(group_by, equal_n, equal_length, seed)
        found = report(files, measure or (), sources, settings, reference=reference)
    signed = {name: signature(name.split("@")[0], embedder=embed, proxy=given.get("proxy", "")) for name in found.names}
    result = _result(found, group_by, signed)
    if out is not None:
        _write(out, found, result)
    if as_json:
        emit(result)
    elif found.comparison is None:
        _print_one(found, group_by)
    else:
        _print_two(found)
    if out is not None:
        say(f"Written: {relative(out)}")


def sources_of(given: Sequence[str]) -> dict[str, str]:
    """The inputs named with --with. Raises UserError for one that is not known, or without a value."""
    found = pairs("--with", given)
    for name, value in found.items():
        if name not in SOURCES[:3] and not name.startswith("attribute."):
            raise UserError("--with", f"there is no input '{name}'", did_you_mean(name, SOURCES))
        if not value:
            raise UserError(f"--with {name}", "has no value", f"Write --with {name}=VALUE.")
    return found


def attributes_of(given: Mapping[str, str]) -> dict[str, list[str]]:
    """The declared attributes: their names and possible values. Raises UserError for fewer than two values.

    >>> attributes_of({"attribute.tone": "calm, angry", "judge": "smollm2"})
    {'tone': ['calm', 'angry']}
    """
    found = {}
    for name, text in given.items():
        if name.startswith("attribute."):
            values = [value.strip() for value in text.split(",") if value.strip()]
            if len(set(values)) < 2 or name == "attribute.":
                what = f"'{text}' does not name two values of an attribute"
                raise UserError(f"--with {name}", what, "Write --with attribute.tone=calm,angry.")
            found[name.removeprefix("attribute.")] = values
    return found


def _sources(files: Mapping[str, Any], chosen: Sequence[str], embed: str, known: str, given: Mapping[str, str]) -> Any:
    from polypath.evaluate import measure_models as models
    from polypath.evaluate.measure_sources import Sources

    values = attributes_of(given)
    if values and "judge" not in given:
        raise UserError("--with attribute", "needs a judge that reads it", "Add --with judge=URL#MODEL, or a model.")
    rollouts = [rollout for rows in files.values() for rollout in rows]
    solutions = models.known_solutions(known, rollouts) if known else None
    approaches, attributes = models.judges(given.get("judge", ""), values)
    return Sources(
        embed=models.embedder(embed) if embed else None,
        gradients=models.proxy(given["proxy"]) if "proxy" in given else None,
        reference={} if "reference" in given else None,
        known=solutions,
        approaches=approaches,
        attributes=attributes,
    )


def _result(found: Report, group_by: str, signatures: Mapping[str, str]) -> dict[str, Any]:
    """Everything in plain data."""
    result: dict[str, Any] = {
        "group_by": group_by,
        "common_length": found.length,
        "signatures": dict(signatures),
        "notes": found.notes,
        "not_measured": found.missing,
    }
    if found.comparison is not None:
        return {**result, **found.comparison.to_json(), "unmatched": found.unmatched}
    means = {
        name: {"value": e.value, "low": e.low, "high": e.high, "n": e.n} for name, e in found.first.means().items()
    }
    correlations = [{"a": a, "b": b, "spearman": value} for (a, b), value in found.correlations().items()]
    (name,) = found.summaries
    groups = len(found.first.prompt_ids)
    return {"file": name, "groups": groups, "means": means, **result, "rank_correlations": correlations}


def _write(out: Path, found: Report, result: Mapping[str, Any]) -> None:
    """A row per file and group; a JSON file holds the whole result with it."""
    several = len(found.summaries) > 1
    rows = [
        {**({"file": name} if several else {}), "group": group, **{c: float(v[i]) for c, v in summary.table.items()}}
        for name, summary in found.summaries.items()
        for i, group in enumerate(summary.prompt_ids)
    ]
    write_table(out, rows, result)


def _print_one(found: Report, group_by: str) -> None:
    means = found.first.means()
    rows = [(name, e.value, e.low, e.high, e.n) for name, e in means.items() if e.n or name in found.names]
    print(table(("measure", "mean", "low", "high", "n"), rows))
    say(f"\n{len(found.first.prompt_ids)} groups by {group_by}; 95 % intervals over the n groups that have a value.")
    known = [f"{a} ~ {b} {value:+.2f}" for (a, b), value in found.correlations().items() if not math.isnan(value)]
    if known:
        more = f"; {len(known) - SHOWN} more with --json" if len(known) > SHOWN else ""
        say(f"Rank correlation over the groups: {', '.join(known[:SHOWN])}{more}.")
    undefined = [name for name in found.names if not means[name].n]
    if undefined:
        say(f"Undefined for these rows: {', '.join(undefined)}.")
    _notes(found)


def _print_two(found: Report) -> None:
    from polypath.cli.compare import by_metric

    comparison = found.comparison
    if comparison is None:
        return
    shown = [d.metric for d in comparison.differences if d.n_prompts or d.metric in found.names]
    comparison.differences = [d for d in comparison.differences if d.metric in shown]
    print(by_metric(comparison, shown))
    matched = len(found.first.prompt_ids) - next(iter(found.unmatched.values()))
    only = ", ".join(f"{count} only in {name}" for name, count in found.unmatched.items())
    say(f"\n{matched} groups are in both and paired; {only} (left out of the differences).")
    _notes(found)


def _notes(found: Report) -> None:
    for note in found.notes:
        say(f"Note: {note}.")
    for reason in found.missing:
        say(f"Not measured: {reason}")
