"""`polypath select`: a diverse, good subset of a dataset, with the reason for each pick."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath.cli.catalogue import names
from polypath.cli.options import knob_values
from polypath.cli.output import emit, relative, results_only, say, table
from polypath.core.errors import UserError

EXAMPLE = "polypath select data.jsonl --k 100 --method dpp --quality score"
ENDINGS = (".jsonl", ".csv", ".parquet")


def selectors(incomplete: str) -> list[str]:
    """Selector names that begin with `incomplete`, for shell completion."""
    return [name for name in names("selector") if name.startswith(incomplete)]


def command(
    file: Annotated[Path, typer.Argument(help="A dataset: JSONL, JSON, CSV or Parquet.")],
    k: Annotated[int, typer.Option("--k", min=1, help="How many rows to pick.")] = 100,
    method: Annotated[str, typer.Option(help="A selector (polypath list selector).", autocompletion=selectors)] = "dpp",
    override: Annotated[
        list[str] | None, typer.Option("-o", "--override", metavar="knob=value", help="Set a knob of the selector.")
    ] = None,
    embed: Annotated[str, typer.Option(help="hash, column:NAME, or a model such as minilm.")] = "hash",
    text: Annotated[str, typer.Option(help="The column with the texts [default: the usual names].")] = "",
    quality: Annotated[str, typer.Option(help="The column with a score of each row.")] = "",
    labels: Annotated[str, typer.Option(help="The column with each row's class or cluster.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the picks: .jsonl, .csv or .parquet.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print every pick with its reason.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Pick rows that are good and different. Output rows keep their columns and gain rank, gain and reason."""
    from polypath.evaluate import selection as chosen_from

    if out is not None and out.suffix not in ENDINGS:
        raise UserError(str(out), "has an ending that is not known", f"Use one of {', '.join(ENDINGS)}.")
    if out is not None and out.exists():
        raise UserError(str(out), "exists already", "Name another file with --out, or remove it.")
    rows = chosen_from.load_table(file)
    with results_only():
        encoder: Any = embed if embed == "hash" or embed.startswith("column:") else _encoder(embed)
        features = chosen_from.Features(encoder, text, quality, labels)
        found, data = chosen_from.select(rows, {method: knob_values(override or ())}, features, k=k)
        reasons = chosen_from.explain(found, data)
    picked = [
        {**row, "rank": place + 1, "gain": found.gains[place], "reason": reasons[place], "row": found.indices[place]}
        for place, row in enumerate(rows.take(found.indices))
    ]
    if out is not None:
        write(out, picked)
    if as_json:
        columns = {name: [row[name] for row in picked] for name in ("row", "gain", "reason")}
        emit({"file": str(file), "method": method, "n": len(rows), "k": len(picked), **columns})
        return
    if explain or out is None:
        print(table(("rank", "row", "gain", "reason"), [(r["rank"], r["row"], r["gain"], r["reason"]) for r in picked]))
    say(f"{len(picked)} of {len(rows)} rows by {method}" + (f": {relative(out)}" if out else ""))


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
