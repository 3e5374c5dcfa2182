"""`polypath select`: a diverse, good subset of a dataset, with the reason for each pick."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath.cli.catalogue import names
from polypath.cli.options import knob_values, pairs
from polypath.cli.output import emit, relative, results_only, say, table
from polypath.core.errors import UserError

EXAMPLE = "polypath select data.jsonl --k 100 --method dpp --quality score"
ENDINGS = (".jsonl", ".csv", ".parquet")


def selectors(incomplete: str) -> list[str]:
    """Selectors and recipes whose names begin with `incomplete`, for shell completion."""
    return [name for name in (*names("selector"), *names("selection")) if name.startswith(incomplete)]


def command(
    file: Annotated[Path, typer.Argument(help="A dataset: JSONL, JSON, CSV or Parquet.")],
    k: Annotated[int, typer.Option("--k", min=1, help="How many rows to pick, with --include those too.")] = 100,
    method: Annotated[
        str, typer.Option(help="A selector or a paper's recipe (polypath list selector).", autocompletion=selectors)
    ] = "dpp",
    override: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="knob=value", help="Set a knob of the method.")
    ] = None,
    embed: Annotated[str, typer.Option(help="hash, column:NAME, or a model such as minilm.")] = "hash",
    quality: Annotated[str, typer.Option(help="The column with a score of each row.")] = "",
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="OURS=THEIRS", help="What the file calls a field: text=body, labels=topic; repeatable."),
    ] = None,
    group_by: Annotated[str, typer.Option(help="Pick --k rows within every group of this column.")] = "",
    include: Annotated[str, typer.Option(help="Begin with these: a file of rows, or numbers or ids: 3,17.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the picks: .jsonl, .csv or .parquet.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print every pick with its reason.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Pick rows that are good and different. Output rows keep their columns and gain rank, gain and reason."""
    from polypath.evaluate import selection as chosen_from
    from polypath.evaluate.tables import load_table

    if out is not None and out.suffix not in ENDINGS:
        raise UserError(str(out), "has an ending that is not known", f"Use one of {', '.join(ENDINGS)}.")
    if out is not None and out.exists():
        raise UserError(str(out), "exists already", "Name another file with --out, or remove it.")
    columns = pairs("--column", column or ()) | ({"quality": quality} if quality else {})
    rows = load_table(file)
    with results_only():
        encoder: Any = embed if embed == "hash" or embed.startswith("column:") else _encoder(embed)
        features = chosen_from.Features(encoder, columns)
        chosen = _included(include, rows)
        spec = {method: knob_values(override or ())}
        done = chosen_from.select(rows, spec, features, k=k, chosen=chosen, by=group_by)
        reasons = chosen_from.explain(done)
    found = done.found
    added = [
        {"rank": place + 1, "gain": found.gains[place], "reason": reasons[place], "row": index}
        for place, index in enumerate(found.indices)
    ]
    picked = [{**row, **more} for row, more in zip(rows.take(found.indices), added, strict=True)]
    if out is not None:
        write(out, picked)
    if as_json:
        listed = {name: [row[name] for row in added] for name in ("row", "gain", "reason")}
        groups = {"group": [str(group) for group in done.groups]} if group_by else {}
        emit({"file": str(file), "method": method, "n": len(rows), "k": len(picked), **listed, **groups})
        return
    if explain or out is None:
        print(table(("rank", "row", "gain", "reason"), [(r["rank"], r["row"], r["gain"], r["reason"]) for r in added]))
    say(f"{len(picked)} of {len(rows)} rows by {method}" + (f": {relative(out)}" if out else ""))


def _included(include: str, rows: Any) -> list[int]:
    from polypath.core.importers import read_rows
    from polypath.evaluate.selection import included

    path = Path(include)
    if not include or not path.suffix or not (path.exists() or path.suffix in ENDINGS):
        return included(include, rows)
    return included(include, rows, [dict(row) for _, row in read_rows(path)])


def write(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as JSONL, CSV or Parquet, by the file's ending."""
    if out.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), out)
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        if out.suffix == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
            return
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def _encoder(name: str) -> Any:
    from polypath.engines.embed import Embedder

    return Embedder.load(name)
