"""What `measure` says of one file or two: a table per file, the paired differences, and what is to be read beside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.record import Rollout
from polypath.diversity.features.steps import reasoning_steps
from polypath.diversity.measures.suite import rank_correlations
from polypath.diversity.measures.traits import EVALUATION_ONLY
from polypath.evaluate.compare import Comparison
from polypath.evaluate.measure import (
    ALL,
    available,
    default_measures,
    every_measure,
    group,
    measure_difference,
    measure_rollouts,
)
from polypath.evaluate.measure_data import from_text, reference_by_group
from polypath.evaluate.measure_length import common_length, cut, words
from polypath.evaluate.measure_models import embed_once
from polypath.evaluate.measure_sources import Rows, Sources
from polypath.evaluate.measure_spec import Spec, parse_all
from polypath.evaluate.summary import Summary, summarise

Files = Mapping[str, Sequence[Rollout]]
JUDGED = {"approaches", "attributes"}  # inputs that a judge is asked for, once


@dataclass(frozen=True)
class Settings:
    """How files are measured."""

    group_by: str = "prompt"
    equal_n: int | None = None
    equal_length: bool = False
    seed: int = 0


@dataclass
class Report:
    """A summary per file, the names of the measures in it, and notes for the reader."""

    names: list[str]
    summaries: dict[str, Summary]
    notes: list[str] = field(default_factory=list)
    length: int | None = None  # the common length in tokens, of the columns that end in @length
    missing: list[str] = field(default_factory=list)  # what could not be measured, and why
    comparison: Comparison | None = None
    unmatched: dict[str, int] = field(default_factory=dict)  # groups that only this file has

    @property
    def first(self) -> Summary:
        """The summary of the first file."""
        return next(iter(self.summaries.values()))

    def correlations(self) -> dict[tuple[str, str], float]:
        """Rank correlations of the measures over the groups of the first file."""
        return rank_correlations({name: self.first.table[name].tolist() for name in self.names})


def report(
    files: Files,
    measures: Sequence[str],
    sources: Sources,
    settings: Settings,
    *,
    reference: Sequence[Rollout] = (),
    show: bool = True,
) -> Report:
    """Measure one file, or two and their paired difference. `measures` may be ["all"], or none for the usual ones.

    Raises UserError for a measure that was named and cannot be computed; of "all", those are listed in `missing`.
    """
    everyone = [rollout for rows in files.values() for rollout in rows]
    everything = list(measures) == [ALL]
    usual = [*default_measures(everyone), *(["coverage"] if sources.known is not None else [])]
    specs = parse_all(every_measure() if everything else list(measures) or usual)
    found = Report([], {})
    rows = Rows.of(everyone, settings.group_by)
    keep = _noting(found) if everything else None
    specs = available(specs, rows, sources, keep)
    length = common_length(list(files.values())) if settings.equal_length else None
    recut = [spec for spec in specs if from_text(spec.data, rows) and not JUDGED & set(spec.data)] if length else []
    shorter = {name: cut(some, length) for name, some in files.items()} if length else {}
    texts = _texts(specs, rows, [*everyone, *reference, *(r for some in shorter.values() for r in some)])
    if sources.embed is not None and texts:
        sources = replace(sources, embed=embed_once(sources.embed, texts, show=show))
    for name, some in files.items():
        table = _summary(some, specs, sources, settings, reference, keep)
        if length:
            table = _with_cut(table, shorter[name], recut, length, (sources, settings, reference, keep))
        found.summaries[name] = table
    found.length = length
    found.names = [spec.text for spec in specs] + [f"{spec.text}@{length}" for spec in recut]
    found.notes = [*_reading(files, sources, specs), *_cut_notes(files, shorter, length)]
    if len(files) == 2:
        _compare(found, settings.seed)
    return found


def _noting(found: Report) -> Any:
    def note(error: UserError) -> None:
        if str(error) not in found.missing:
            found.missing.append(str(error))

    return note


def _summary(
    rollouts: Sequence[Rollout],
    specs: Sequence[Spec],
    sources: Sources,
    settings: Settings,
    reference: Sequence[Rollout],
    keep: Any,
) -> Summary:
    """The chosen measures, and the columns of success for rows with verdicts grouped by prompt."""
    by = settings.group_by
    if reference:
        groups = group(reference, by) if _has(reference, by) else {"": list(reference)}
        sources = replace(sources, reference=reference_by_group(groups, group(rollouts, by)))
    found = measure_rollouts(
        rollouts,
        [spec.text for spec in specs],
        group_by=by,
        sources=sources,
        equal_n=settings.equal_n,
        seed=settings.seed,
        unmeasured=keep,
    )
    if settings.equal_n is not None or by != "prompt" or not any(r.correct is not None for r in rollouts):
        return found
    known = {r.prompt_id: frozenset((sources.known or {}).get(r.prompt_id, ())) for r in rollouts}
    success = summarise(rollouts, solutions=known if sources.known is not None else None)
    return Summary(found.prompt_ids, {**success.table, **found.table})  # a chosen measure of the same name wins


def _has(rollouts: Sequence[Rollout], by: str) -> bool:
    return by in ("prompt", "group", "all") or all(by in r.extra or hasattr(r, by) for r in rollouts)


def _with_cut(table: Summary, rollouts: Sequence[Rollout], specs: Sequence[Spec], length: int, rest: Any) -> Summary:
    """The table with a column for each of the measures of the texts cut to `length`; NaN for groups without any."""
    sources, settings, reference, keep = rest
    if not rollouts or not specs:
        return table
    # A text cut short keeps its verdict and its rewards, so that only the text has changed.
    groups = {name for name, some in group(rollouts, settings.group_by).items() if len(some) >= (settings.equal_n or 1)}
    if not groups:
        return table
    other = _summary(rollouts, specs, sources, replace(settings, seed=settings.seed), reference, keep)
    where = {name: i for i, name in enumerate(other.prompt_ids)}
    columns = {}
    for spec in specs:
        values = other.table[spec.text]
        columns[f"{spec.text}@{length}"] = np.array(
            [values[where[name]] if name in where else math.nan for name in table.prompt_ids]
        )
    return Summary(table.prompt_ids, {**table.table, **columns})


def _texts(specs: Sequence[Spec], rows: Rows, rollouts: Sequence[Rollout]) -> list[str]:
    """What the measures will have embedded: the texts, and their steps."""
    needed = {name for spec in specs for name in spec.data if name not in rows.columns}
    found = [r.text for r in rollouts] if needed & {"embeddings", "similarity"} else []
    return found + ([step for r in rollouts for step in reasoning_steps(r.text)] if "steps" in needed else [])


def _reading(files: Files, sources: Sources, specs: Sequence[Spec]) -> list[str]:
    notes = []
    for name, rows in files.items():
        lengths = np.array([words(r.text) for r in rows])
        low, middle, high = np.quantile(lengths, [0.1, 0.5, 0.9]).round().astype(int)
        empty = int((lengths == 0).sum())
        none = f", {empty} empty" if empty else ""
        spread = f"80 % of them of {low} to {high}" if low < high else "nearly all of that length"
        notes.append(f"{name}: {len(rows)} texts, median {middle} words, {spread}{none}")
        unknown = sum(math.isnan(r.reward) for r in rows if r.rewards)
        if unknown:
            notes.append(f"{name}: {unknown} of {len(rows)} rows have no reward; their groups have none either")
    for spec in specs:
        if EVALUATION_ONLY in registry.entry("measure", spec.name).traits:
            notes.append(f"{spec.text} is a judge's opinion, for evaluation only: a policy trained on it pleases it")
    if sources.known is not None:
        told = {r.prompt_id for rows in files.values() for r in rows}
        without = sum(prompt_id not in sources.known for prompt_id in told)
        if without:
            notes.append(f"{without} of {len(told)} prompts have no known solutions")
    return notes


def _cut_notes(files: Files, shorter: Files, length: int | None) -> list[str]:
    if length is None:
        return []
    notes = [f"columns ending in @{length} are measured on texts cut to their first {length} words"]
    for name, rows in files.items():
        lost = len(rows) - len(shorter[name])
        if lost:
            notes.append(f"{name}: {lost} shorter texts are left out of them")
    return notes


def _compare(found: Report, seed: int) -> None:
    (a, first), (b, second) = found.summaries.items()
    found.unmatched = {
        a: len(set(first.prompt_ids) - set(second.prompt_ids)),
        b: len(set(second.prompt_ids) - set(first.prompt_ids)),
    }
    found.comparison = measure_difference(first, second, names=(a, b), seed=seed)
