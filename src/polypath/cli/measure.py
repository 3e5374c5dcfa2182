"""`polypath measure`: how good, how long and how different the rollouts of anybody's file are."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.cli.catalogue import names
from polypath.cli.options import pairs
from polypath.cli.output import emit, results_only, say, table

if TYPE_CHECKING:
    from polypath.core.record import Rollout
    from polypath.evaluate.summary import Summary

SHOWN = 6  # rank correlations in the printed summary
EXAMPLE = "polypath measure rollouts.jsonl -m distinct_n:n=2 -m self_bleu"


def measures(incomplete: str) -> list[str]:
    """Measure names that begin with `incomplete`, for shell completion."""
    return [name for name in names("measure") if name.startswith(incomplete)]


def command(
    file: Annotated[Path, typer.Argument(help="Rollouts: JSONL, CSV or Parquet, of any framework.")],
    other: Annotated[Path | None, typer.Argument(help="A second file, to subtract from the first.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("-m", "--measure", help="name or name:knob=value; repeatable.", autocompletion=measures),
    ] = None,
    group_by: Annotated[str, typer.Option(help="prompt, group, all, or a column of the rows.")] = "prompt",
    embedder: Annotated[str, typer.Option("--embed", help="Model for measures of embeddings, such as minilm.")] = "",
    proxy: Annotated[
        str, typer.Option("--proxy", help="Model whose gradients tell examples apart, such as smollm2.")
    ] = "",
    equal_n: Annotated[
        int | None, typer.Option(min=1, help="Draw this many of each group; leave out smaller groups.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(metavar="OURS=THEIRS", help="What the file calls a column; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Means over groups with 95 % intervals; pass@k and distinct solutions too where the rows say what is correct."""
    from polypath.core.importers import load_rows
    from polypath.diversity.measures.suite import rank_correlations
    from polypath.evaluate.measure import default_measures, measure_difference, signature

    embed, sketch = _embedder(embedder) if embedder else None, _sketcher(proxy) if proxy else None
    columns = pairs("--column", column or ())
    with results_only():
        files = [load_rows(path, columns) for path in (file, other) if path is not None]
        chosen = measure or default_measures([rollout for rows in files for rollout in rows])
        summaries = [_summary(rows, chosen, group_by, embed, sketch, equal_n) for rows in files]
        first, second = summaries[0], summaries[1] if other is not None else None
    if second is not None and other is not None:
        comparison = measure_difference(first, second, names=(str(file), str(other)))
        from polypath.cli.compare import show

        show(comparison, as_json, [d.metric for d in comparison.differences if d.n_prompts])
        return
    means = {name: {"value": e.value, "low": e.low, "high": e.high, "n": e.n} for name, e in first.means().items()}
    agreement = rank_correlations({name: first.table[name].tolist() for name in chosen})
    if as_json:
        signatures = {name: signature(name, embedder=embedder, proxy=proxy) for name in chosen}
        pairs_of = [{"a": a, "b": b, "spearman": value} for (a, b), value in agreement.items()]
        found = {"file": str(file), "groups": len(first.prompt_ids), "means": means}
        emit({**found, "signatures": signatures, "rank_correlations": pairs_of})
        return
    rows = [(name, *estimate.values()) for name, estimate in means.items() if estimate["n"]]
    print(table(("measure", "mean", "low", "high", "n"), rows))
    say(f"\n{len(first.prompt_ids)} groups by {group_by}; 95 % intervals over the n groups that have a value.")
    known = [f"{a} ~ {b} {value:+.2f}" for (a, b), value in agreement.items() if not math.isnan(value)]
    if known:
        more = f"; {len(known) - SHOWN} more with --json" if len(known) > SHOWN else ""
        say(f"Rank correlation over the groups: {', '.join(known[:SHOWN])}{more}.")
    undefined = [name for name, estimate in means.items() if not estimate["n"]]
    if undefined:
        say(f"Undefined for these rows: {', '.join(undefined)}.")


def _summary(
    rollouts: list[Rollout], measures: Any, group_by: str, embed: Any, sketch: Any, equal_n: int | None
) -> Summary:
    """The chosen measures, and the columns of success for rows with a known `correct` grouped by prompt."""
    from polypath.evaluate.measure import measure_rollouts
    from polypath.evaluate.summary import Summary, summarise

    found = measure_rollouts(rollouts, measures, group_by=group_by, embed=embed, gradients=sketch, equal_n=equal_n)
    if equal_n is not None or group_by != "prompt" or any(rollout.correct is None for rollout in rollouts):
        return found
    success = summarise(rollouts)
    return Summary(found.prompt_ids, {**success.table, **found.table})  # a chosen measure of the same name wins


def _embedder(name: str) -> Any:
    from polypath.engines.embed import Embedder

    return Embedder.load(name)


def _sketcher(name: str) -> Any:
    from polypath.engines.gradients import gradient_sketches
    from polypath.engines.transformers import TransformersPolicy

    return partial(gradient_sketches, TransformersPolicy.load(name))
