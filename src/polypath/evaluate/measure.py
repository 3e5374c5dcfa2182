"""Measures of anybody's file of rollouts: a value per group, averaged with an interval, next to length and reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polypath.core import registry
from polypath.core.errors import UserError, UserErrors, did_you_mean
from polypath.core.importers import load_rows
from polypath.core.record import Rollout
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.evaluate import passk
from polypath.evaluate.compare import Comparison, compare
from polypath.evaluate.measure_data import group_data, missing
from polypath.evaluate.measure_length import words
from polypath.evaluate.measure_sources import Rows, Sources
from polypath.evaluate.measure_spec import Spec, parse_all
from polypath.evaluate.summary import Summary, length

DEFAULT_MEASURES = ("distinct_n", "self_bleu", "pairwise_difference")
ALL = "all"  # in place of names: every measure whose inputs are there


@register("measure", "pass_at_k", paper="arXiv:2107.03374", traits={"permutation_invariant"})
def pass_at_k(correct: Sequence[bool], *, k: int = 1) -> float:
    """P(at least one of k samples is correct), unbiased. NaN for fewer than k samples."""
    return float(passk.pass_at_k(len(correct), sum(correct), k))


@register("measure", "distinct_at_k", traits={"permutation_invariant"})
def distinct_at_k(labels: Sequence[Any], correct: Sequence[bool], *, k: int = 16) -> float:
    """Expected number of different correct labels among k samples. NaN for fewer than k samples."""
    right = [label for label, good in zip(labels, correct, strict=True) if good and label is not None]
    return float(passk.distinct_at_k(len(labels), [right.count(label) for label in set(right)], k))


def default_measures(rollouts: Sequence[Rollout]) -> tuple[str, ...]:
    """What any rows can be measured by; differences of labels where some row has one."""
    labelled = any(rollout.canonical is not None or rollout.answer is not None for rollout in rollouts)
    return DEFAULT_MEASURES if labelled else DEFAULT_MEASURES[:2]


def measure_rollouts(
    rollouts: Sequence[Rollout],
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    group_by: str = "prompt",
    sources: Sources | None = None,
    equal_n: int | None = None,
    seed: int = 0,
    unmeasured: Callable[[UserError], None] | None = None,
) -> Summary:
    """A table with a row per group: a column per measure beside `samples`, `words`, `characters`, `length`, `reward`.

    `group_by` is "prompt", "group", "all", or a column of the rows ("step", "run", or one of another framework).
    Most measures grow with the number of items: `equal_n` draws that many of each group, by `seed` and its name alone,
    and leaves out groups that have fewer. Inputs that the rows do not have come from `sources`; see `measure_inputs`.
    A group where an input is undefined, such as one reward that is unknown, has the value NaN. Raises UserError for
    what is unknown or missing, all at once; `unmeasured` takes those of missing inputs, and of groups that a measure
    refuses, instead.
    """
    if not rollouts:
        raise UserError("measure", "there are no rollouts", "Give a file with at least one row.")
    sources = sources or Sources()
    groups = group(rollouts, group_by)
    if equal_n is not None:
        groups = equal_groups(groups, equal_n, seed)
    specs = available(parse_all(measures), Rows.of(rollouts, group_by), sources, unmeasured)
    table: dict[str, list[float]] = {}
    refused: set[str] = set()
    for name, members in groups.items():
        for column, value in _statistics(members).items():
            table.setdefault(column, []).append(value)
        cache: dict[str, Any] = {}
        for spec in specs:
            try:
                value = spec(group_data(members, name, spec.data, sources, cache))
            except UserError as error:
                told = UserError(f"-m {spec.text}, {_named(group_by, name)}: {error.where}", error.what, error.fix)
                if unmeasured is None:
                    raise told from error
                if spec.text not in refused:
                    unmeasured(told)
                refused.add(spec.text)
                value = math.nan
            table.setdefault(spec.text, []).append(value)
    return Summary(tuple(groups), {name: np.array(values, dtype=float) for name, values in table.items()})


def available(
    specs: Sequence[Spec], rows: Rows, sources: Sources, unmeasured: Callable[[UserError], None] | None = None
) -> list[Spec]:
    """The measures whose inputs can be had. The others are told to `unmeasured`, or raised all at once."""
    found, errors = [], []
    for spec in specs:
        error = missing(spec.data, rows, sources)
        if error is None:
            found.append(spec)
        else:
            errors.append(UserError(f"-m {spec.text}", error.what, error.fix))
    for error in errors if unmeasured is not None else ():
        unmeasured(error)  # type: ignore[misc]
    if errors and unmeasured is None:
        raise errors[0] if len(errors) == 1 else UserErrors(errors)
    return found


def every_measure() -> list[str]:
    """The names of all measures."""
    return [entry.name for entry in registry.entries("measure")]


def measure_file(
    path: Path | str,
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    group_by: str = "prompt",
    sources: Sources | None = None,
) -> Summary:
    """`measure_rollouts` of any file that the importers read."""
    return measure_rollouts(load_rows(Path(path)), measures, group_by=group_by, sources=sources)


def measure_difference(a: Summary, b: Summary, *, names: tuple[str, str] = ("a", "b"), seed: int = 0) -> Comparison:
    """a - b in every measure, paired over the groups that both files have."""
    metrics = [name for name in a.table if name in b.table and name != "samples"]
    return compare({names[1]: {0: b}, names[0]: {0: a}}, metrics=metrics, seed=seed)


def group(rollouts: Sequence[Rollout], by: str) -> dict[str, list[Rollout]]:
    """Rollouts by the value of a column, in order of first appearance. Raises UserError for an unknown column."""
    column = {"prompt": "prompt_id", "group": "group_id"}.get(by, by)
    groups: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        row = {**vars(rollout), **rollout.extra}
        if column != "all" and column not in row:
            raise UserError(
                "--group-by", f"the rows have no column '{by}'", did_you_mean(by, ["prompt", "group", *row])
            )
        groups.setdefault("all" if column == "all" else str(row[column]), []).append(rollout)
    return groups


def equal_groups(groups: Mapping[str, list[Rollout]], n: int, seed: int = 0) -> dict[str, list[Rollout]]:
    """`n` rollouts of every group that has as many. Raises UserError when no group has."""
    kept = {
        name: [members[i] for i in sorted(rng(seed, "equal_n", name).sample(range(len(members)), n))]
        for name, members in groups.items()
        if len(members) >= n
    }
    if not kept:
        most = max(map(len, groups.values()))
        raise UserError("--equal-n", f"no group has {n} rollouts; the largest has {most}", "Choose a smaller number.")
    return kept


def _named(group_by: str, name: str) -> str:
    return "all rows" if group_by == "all" else f"{group_by} {name}"


def _statistics(members: Sequence[Rollout]) -> dict[str, float]:
    """How many, how long and how good: what every diversity is to be read beside."""
    return {
        "samples": float(len(members)),
        "words": float(np.mean([words(rollout.text) for rollout in members])),
        "characters": float(np.mean([len(rollout.text) for rollout in members])),
        "length": float(np.mean([length(rollout) for rollout in members])),
        "reward": float(np.mean([rollout.reward for rollout in members])),
    }
