"""Selections by recipe: features, kernels, classes and scores, then one selector, each by name; also within groups.

A recipe is a list of stages `{kind: name}` or `{kind: {name: knobs}}`. A stage takes the fields that its function's
parameters name and adds one. `from: {parameter: field}` takes a field of another name, `as: field` names what it adds.
The papers' recipes are `selections/*.yaml`.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polypath.core import registry
from polypath.core.document import packaged
from polypath.core.errors import UserError, did_you_mean
from polypath.core.presets import read_document, substitute, with_knobs
from polypath.core.recipe_types import Call
from polypath.core.stages import parse_stage
from polypath.diversity.features import Features
from polypath.diversity.kernels import Kernel
from polypath.diversity.selectors.common import Selection

KINDS = ("features", "kernel", "partition", "quality", "selector")
RANKS = ("first_gain", "total_gain", "distinct", "order")
SHARED = ("embed", "target")  # fields that are not one value per item
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Stage:
    """One function of a recipe, the fields that it takes, and the one that it adds."""

    call: Call
    takes: Mapping[str, str]  # parameter -> field
    optional: frozenset[str]
    adds: str

    def spared(self, given: AbstractSet[str]) -> bool:
        """Whether what it would add is there already (a stage that changes a field is never spared)."""
        return self.call.kind != "selector" and self.adds in given and self.adds not in self.takes.values()


@dataclass(frozen=True)
class Recipe:
    """Stages with a selector at the end; `keep` groups at most, in order of `rank`, where it selects within groups."""

    name: str
    stages: tuple[Stage, ...]
    keep: int | None = None
    rank: str = "order"

    def needs(self, given: AbstractSet[str] = frozenset()) -> dict[str, bool]:
        """The fields that must be given (True) or may be (False), when some of what stages would add is `given`."""
        known: set[str] = set(given)
        found: dict[str, bool] = {}
        for stage in self.stages:
            if stage.spared(given):
                continue
            for parameter, name in stage.takes.items():
                if name not in known:
                    found[name] = found.get(name, False) or parameter not in stage.optional
            known.add(stage.adds)
        return found

    def knobs(self) -> frozenset[str]:
        """The knobs of the selector: `chosen` where it can continue a selection, `seed` where it draws."""
        return frozenset(registry.entry("selector", self.stages[-1].call.name).knobs)


def build(spec: str | Mapping[str, Any], where: str = "select") -> Recipe:
    """A recipe from a selector's or a recipe's name, `{name: knobs}`, or the path of a file.

    Raises UserError for an unknown name or knob, and for stages that are not a chain that ends in a selector.
    """
    named = {spec: {}} if isinstance(spec, str) else dict(spec)
    if len(named) != 1:
        raise UserError(where, f"cannot read {named!r}", "Write a name or {name: knobs}.")
    ((name, knobs),) = named.items()
    recipes = packaged("selections")
    path = Path(name) if str(name).endswith((".yaml", ".yml")) else recipes.get(name)
    if path is None:
        selectors = {entry.name for entry in registry.entries("selector")}
        if name not in selectors:
            raise UserError(where, f"there is no selector named '{name}'", did_you_mean(name, selectors | set(recipes)))
        return Recipe(name, (_stage({"selector": {name: {"k": 1, **(knobs or {})}}}, where),))
    if not path.is_file():
        raise UserError(str(path), "is not a file", "Is the path right?")
    document = read_document(path, "selection")
    values = with_knobs(document.get("knobs") or {}, knobs or {}, name)
    stages = substitute(list(document.get("select") or ()), values, name)
    parsed = tuple(_stage(item, name) for item in stages)
    if [stage.call.kind == "selector" for stage in parsed] != [False] * (len(parsed) - 1) + [True]:
        raise UserError(name, "does not end in its one selector", "Let the last stage be `selector: ...`.")
    groups = substitute(document.get("groups") or {}, values, name)
    return Recipe(path.stem, parsed, groups.get("keep"), groups.get("rank", "order"))


def _stage(item: Mapping[str, Any], where: str) -> Stage:
    body = {key: value for key, value in item.items() if key not in ("as", "from")}
    kind, inner = next(iter(body.items()), ("", None))
    if kind == "selector":  # how many is said when the recipe runs
        body = {kind: {inner: {"k": 1}} if isinstance(inner, str) else _with_k(inner)}
    call = parse_stage(body, where, KINDS)
    entry = registry.entry(call.kind, call.name)
    function = registry.get(call.kind, call.name)
    parameters = inspect.signature(function).parameters
    optional = frozenset(p for p in entry.data if parameters[p].default is not inspect.Parameter.empty)
    renamed = dict(item.get("from") or {})
    for name in renamed:
        if name not in entry.data:
            raise UserError(f"{where} {call.name}.from", f"takes no '{name}'", did_you_mean(name, entry.data))
    takes = {p: renamed.get(p, p) for p in entry.data}
    return Stage(call, takes, optional, item.get("as") or (entry.returns[0] if entry.returns else call.kind))


def _with_k(inner: Any) -> Any:
    return {name: {"k": 1, **(knobs or {})} for name, knobs in inner.items()} if isinstance(inner, Mapping) else inner


def run(recipe: Recipe, fields: Fields, *, k: int, chosen: Sequence[int] = ()) -> Selection:
    """`k` picks of the items whose fields these are, those `chosen` first. Raises UserError for a missing field."""
    known = dict(fields)  # what a stage would add and is given already is taken as it is
    for stage in recipe.stages[:-1]:
        if stage.spared(fields.keys()):
            continue
        known[stage.adds] = plain(stage.call.bind()(**_arguments(recipe, stage, known)))
    stage = recipe.stages[-1]
    knobs: dict[str, Any] = {**stage.call.knobs, "k": k}
    if chosen:
        if "chosen" not in recipe.knobs():
            able = [e.name for e in registry.entries("selector") if "warm_start" in e.traits]
            raise UserError(recipe.name, "cannot continue a selection", f"These can: {', '.join(able)}.")
        knobs["chosen"] = list(chosen)
    call = Call(stage.call.kind, stage.call.name, knobs)
    found: Selection = call.bind()(**_arguments(recipe, stage, known))
    return found


def _arguments(recipe: Recipe, stage: Stage, known: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for parameter, name in stage.takes.items():
        if name == "similarity" and name not in known and "embeddings" in known:
            rows = np.asarray(known["embeddings"], dtype=np.float64)
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            known[name] = (rows / np.where(norms > 0, norms, 1)) @ (rows / np.where(norms > 0, norms, 1)).T
        if name in known:
            found[parameter] = known[name]
        elif parameter not in stage.optional:
            raise UserError(f"{recipe.name} {stage.call.name}", f"needs {name}", f"Give a field or column '{name}'.")
    return found


def plain(value: Any) -> Any:
    """What a selector takes: a kernel as its matrix, features as their values."""
    if isinstance(value, Kernel):
        return value.matrix()
    return value.values if isinstance(value, Features) else value


@dataclass(frozen=True)
class Group:
    """The picks of one group: indices into the whole, and the score that ranks it among the others."""

    label: Hashable
    found: Selection
    score: float


def run_groups(
    recipe: Recipe,
    fields: Fields,
    groups: Sequence[Hashable],
    *,
    k: int,
    chosen: Sequence[int] = (),
    mapped: Callable[[Callable[[Any], Any], list[Any]], list[Any]] | None = None,
) -> list[Group]:
    """At most `k` picks within every group, the groups in order of the recipe's rank, at most `keep` of them.

    `mapped(function, items)` may run the groups elsewhere; by default one after another. Ranks: `first_gain` and
    `total_gain` of a group's picks, `distinct` (picks that gain more than 0 after the first), `order` of appearance.
    """
    members: dict[Hashable, list[int]] = {}
    for i, label in enumerate(groups):
        members.setdefault(label, []).append(i)
    given = set(chosen)
    work = [(label, index, [i for i, j in enumerate(index) if j in given]) for label, index in members.items()]
    parts = [(recipe, restrict(fields, index, len(groups)), k, inside) for _, index, inside in work]
    results = (mapped or _in_turn)(run_part, parts)
    found = [
        Group(label, Selection([index[i] for i in one.indices], one.gains, one.reasons), _score(one, recipe.rank))
        for (label, index, _), one in zip(work, results, strict=True)
    ]
    if recipe.rank != "order":
        found.sort(key=lambda group: -group.score)  # stable: equal groups in order of appearance
    return found[: recipe.keep] if recipe.keep else found


def run_part(part: tuple[Recipe, Fields, int, list[int]]) -> Selection:
    """The selection within one group. A group with fewer than `k` items gives all it has, without a warning."""
    recipe, fields, k, chosen = part
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*all are taken")
        return run(recipe, fields, k=k, chosen=chosen)


def _in_turn(function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    return [function(item) for item in items]


def _score(found: Selection, rank: str) -> float:
    gains = [gain if math.isfinite(gain) else 0.0 for gain in found.gains]
    scores = {
        "first_gain": lambda: gains[0] if gains else -math.inf,
        "total_gain": lambda: math.fsum(gains),
        "distinct": lambda: 1.0 + sum(gain > 1e-9 for gain in found.gains[1:]),
    }
    return scores[rank]() if rank in scores else 0.0


def restrict(fields: Fields, index: Sequence[int], n: int) -> dict[str, Any]:
    """The fields of some of `n` items. Raises UserError for a field that is not one value per item."""
    return {name: value if name in SHARED else _part(name, value, index, n) for name, value in fields.items()}


def _part(name: str, value: Any, index: Sequence[int], n: int) -> Any:
    if name == "similarity":
        return np.asarray(value)[np.ix_(index, index)]
    if len(value) != n:
        raise UserError(name, f"holds {len(value)} values for {n} items", "Selecting within groups needs one per item.")
    return value[list(index)] if isinstance(value, np.ndarray) else [value[i] for i in index]
