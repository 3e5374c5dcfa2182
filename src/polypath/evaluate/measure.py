"""Measures of anybody's file of rollouts: a value per group, averaged with an interval, next to length and reward."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polypath import __version__
from polypath.core import registry
from polypath.core.binding import Binder
from polypath.core.document import parse_node
from polypath.core.errors import UserError, UserErrors, did_you_mean
from polypath.core.importers import load_rows
from polypath.core.recipe_types import parse_type
from polypath.core.record import Rollout
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.diversity.features.signature import Signature
from polypath.evaluate import passk
from polypath.evaluate.compare import Comparison, compare
from polypath.evaluate.measure_data import Embed, Group, Sketch, check_data, group_data
from polypath.evaluate.summary import Summary, length

DEFAULT_MEASURES = ("distinct_n", "self_bleu", "pairwise_difference")


@register("measure", "pass_at_k", paper="arXiv:2107.03374", traits={"permutation_invariant"})
def pass_at_k(correct: Sequence[bool], *, k: int = 1) -> float:
    """P(at least one of k samples is correct), unbiased. NaN for fewer than k samples."""
    return float(passk.pass_at_k(len(correct), sum(correct), k))


@register("measure", "distinct_at_k", traits={"permutation_invariant"})
def distinct_at_k(labels: Sequence[Any], correct: Sequence[bool], *, k: int = 16) -> float:
    """Expected number of different correct labels among k samples. NaN for fewer than k samples."""
    right = [label for label, good in zip(labels, correct, strict=True) if good and label is not None]
    return float(passk.distinct_at_k(len(labels), [right.count(label) for label in set(right)], k))


@dataclass(frozen=True)
class Spec:
    """A measure with its knobs, written `name` or `name:knob=value,knob=value`."""

    text: str
    name: str
    knobs: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Raises UserError for an unknown measure, an unknown knob, or a value that the knob cannot have.

        A measure with one leading knob may be written with its value, as in distinct_2, hill_0 or vendi_inf.

        >>> Spec.parse("distinct_n:n=3").knobs, Spec.parse("distinct_2").knobs, Spec.parse("vendi_0.5").knobs
        ({'n': 3}, {'n': 2}, {'q': 0.5})
        """
        name, _, tail = _spelt_out(text).partition(":")
        entry = registry.entry("measure", name, where="-m")
        binder, knobs = Binder(), {}
        written = re.sub(r"(\w+)=", r"\1: ", re.sub(r"=(inf|nan)\b", r"=.\1", tail))  # as YAML writes them
        for knob, node in parse_node(f"{{{written}}}", f"-m {text}").value.items():
            if knob not in entry.knobs:
                raise UserError(f"-m {text}", f"'{name}' has no knob '{knob}'", did_you_mean(knob, entry.knobs))
            knobs[knob] = binder.bind(parse_type(entry.knobs[knob]["type"]), node, knob)
        if binder.errors:
            raise UserErrors(UserError(f"-m {text}", error.what, error.fix) for error in binder.errors)
        return cls(text, name, knobs)

    @property
    def data(self) -> tuple[str, ...]:
        """The names of what it measures."""
        return registry.entry("measure", self.name).data

    def __call__(self, data: Mapping[str, Any]) -> float:
        """The measure of one group; `data` maps the vocabulary to the group's values."""
        function = registry.get("measure", self.name)
        return float(function(**{name: data[name] for name in self.data}, **self.knobs))


def _spelt_out(text: str) -> str:
    """`distinct_2` as `distinct_n:n=2`, `vendi_0.5` as `vendi:q=0.5`; anything else as it is."""
    stem, _, value = text.partition(":")[0].rpartition("_")
    if not stem or not re.fullmatch(r"\d+(\.\d+)?|inf", value) or ":" in text:
        return text
    known = {entry.name: entry for entry in registry.entries("measure")}
    if text in known:
        return text
    for name in (f"{stem}_n", f"{stem}_at_k", stem):
        if name in known and known[name].knobs:
            return f"{name}:{next(iter(known[name].knobs))}={value}"
    return text


def signature(text: str, *, embedder: str = "", proxy: str = "") -> str:
    """How a value was made, to be quoted beside it: measure, all knobs, features, version.

    >>> signature("distinct_2").split("|")[:2], signature("chamfer", embedder="minilm").split("|")[:2]
    (['distinct_n', 'n=2'], ['chamfer', 'embedding:minilm v1 #08b2266c'])
    """
    spec = Spec.parse(text)
    schema = registry.entry("measure", spec.name).knobs
    knobs = [f"{knob}={spec.knobs.get(knob, facts.get('default'))}" for knob, facts in schema.items()]
    embedding, sketch = Signature(f"embedding:{embedder or 'column'}"), Signature(f"gradients:{proxy or 'column'}")
    made = {"texts": Signature("tokens"), "embeddings": embedding, "similarity": embedding, "steps": embedding}
    features = [str({**made, "gradients": sketch}[name]) for name in spec.data if name in made or name == "gradients"]
    return "|".join([spec.name, *knobs, *features, f"polypath {__version__}"])


def default_measures(rollouts: Sequence[Rollout]) -> tuple[str, ...]:
    """What any rows can be measured by; differences of labels where some row has one."""
    labelled = any(rollout.canonical is not None or rollout.answer is not None for rollout in rollouts)
    return DEFAULT_MEASURES if labelled else DEFAULT_MEASURES[:2]


def measure_rollouts(
    rollouts: Sequence[Rollout],
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    group_by: str = "prompt",
    embed: Embed | None = None,
    gradients: Sketch | None = None,
    equal_n: int | None = None,
) -> Summary:
    """A table with one row per group and a column per measure, beside `samples`, `length`, `characters`, `reward`.

    `group_by` is "prompt", "group", "all", or a column of the rows ("step", "run", or one of another framework).
    Most measures grow with the number of items: `equal_n` draws that many of each group, by its name alone, and leaves
    out groups that have fewer. Measures of embeddings take them from the column `embedding`, or from `embed(texts)`;
    what else they need is in `measure_data`. Raises UserError for what is unknown or missing, all at once.
    """
    if not rollouts:
        raise UserError("measure", "there are no rollouts", "Give a file with at least one row.")
    specs = _parse_all(measures)
    groups = group(rollouts, group_by)
    if equal_n is not None:
        groups = equal_groups(groups, equal_n)
    needed = {spec.text: spec.data for spec in specs}
    check_data(needed, rollouts, embed, gradients)
    rows = []
    for members in groups.values():
        data = group_data(members, set().union(*needed.values()), embed, gradients)
        rows.append({**_statistics(members), **{spec.text: spec(data) for spec in specs}})
    columns = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    return Summary(tuple(groups), columns)


def measure_file(
    path: Path | str,
    measures: Sequence[str] = DEFAULT_MEASURES,
    *,
    group_by: str = "prompt",
    embed: Embed | None = None,
) -> Summary:
    """`measure_rollouts` of any file that the importers read."""
    return measure_rollouts(load_rows(Path(path)), measures, group_by=group_by, embed=embed)


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


def equal_groups(groups: Mapping[str, list[Rollout]], n: int) -> dict[str, list[Rollout]]:
    """`n` rollouts of every group that has as many. Raises UserError when no group has."""
    kept = {
        name: [members[i] for i in sorted(rng(0, "equal_n", name).sample(range(len(members)), n))]
        for name, members in groups.items()
        if len(members) >= n
    }
    if not kept:
        most = max(map(len, groups.values()))
        raise UserError("--equal-n", f"no group has {n} rollouts; the largest has {most}", "Choose a smaller number.")
    return kept


def _parse_all(measures: Sequence[str]) -> list[Spec]:
    specs, errors = [], []
    for text in measures:
        try:
            specs.append(Spec.parse(text))
        except UserError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else UserErrors(errors)
    return specs


def _statistics(members: Group) -> dict[str, float]:
    """What every diversity value must be read beside: how many, how long, how good."""
    return {
        "samples": float(len(members)),
        "length": float(np.mean([length(rollout) for rollout in members])),
        "characters": float(np.mean([len(rollout.text) for rollout in members])),
        "reward": float(np.mean([rollout.reward for rollout in members])),
    }
