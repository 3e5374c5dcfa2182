"""The credit pipeline: stages that read and write the fields of a batch of groups, and what they leave."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.recipe_types import Call
from polypath.core.schedules import value_at
from polypath.credit.inputs import FIELDS, HOW, Provider, Stack, stack
from polypath.credit.memory import Memory
from polypath.credit.metrics import measure
from polypath.credit.spec import parse


@dataclass
class Credit:
    """What a pipeline gives for a batch, one entry per group in the order given.

    `advantages` are (G,), or (G, T) after token credit; `keep` is False for rollouts that take no part (NaN reward,
    dropped by a stage), whose advantage is 0.
    """

    advantages: list[np.ndarray]
    keep: list[np.ndarray]
    metrics: dict[str, float]
    stacked: Stack

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """Every field of every group, inputs and products, for the rollouts that take part; `rows` says which."""
        found: list[dict[str, Any]] = [{"rows": np.zeros(0, dtype=np.int64)} for _ in self.advantages]
        for bucket in self.stacked.buckets:
            for place, (member, rows) in enumerate(zip(bucket.members, bucket.rows, strict=True)):
                found[member] = {"rows": rows, **{name: value[place] for name, value in bucket.fields.items()}}
        return found


@dataclass(frozen=True)
class Stage:
    """A call bound to its function: which fields it must have, may have and gives."""

    call: Call
    function: Any
    required: tuple[str, ...]
    optional: tuple[str, ...]
    returns: tuple[str, ...]
    traits: tuple[str, ...]

    @classmethod
    def bind(cls, call: Call) -> Stage:
        """Look the function up and read its signature: data with a default is optional."""
        function = registry.get(call.kind, call.name)
        entry = registry.entry(call.kind, call.name)
        parameters = inspect.signature(function).parameters
        optional = tuple(name for name in entry.data if parameters[name].default is not inspect.Parameter.empty)
        required = tuple(name for name in entry.data if name not in optional)
        return cls(call, function, required, optional, entry.returns, entry.traits)

    @property
    def where(self) -> str:
        """How errors and reports name the stage."""
        return f"{self.call.kind}.{self.call.name}"

    def at(self, step: int) -> dict[str, Any]:
        """The knobs with every schedule at its value of this step."""
        return {name: value_at(value, step) for name, value in self.call.knobs.items()}


class Pipeline:
    """Stages applied in order to whole batches. Call it with groups; see `build`."""

    def __init__(
        self,
        calls: list[Call],
        *,
        name: str = "inline",
        loss: Call | None = None,
        providers: Mapping[str, Provider] | None = None,
    ) -> None:
        self.name, self.loss, self.providers = name, loss, dict(providers or {})
        self.stages = [Stage.bind(call) for call in calls]
        self.wanted = frozenset(field for stage in self.stages for field in (*stage.required, *stage.optional))
        self._without = _without_diversity(self.stages)
        _check_flow(self.stages, name)

    def __call__(self, groups: Any, *, step: int = 0, memory: Memory | None = None) -> Credit:
        """Advantages for a batch, a group, a mapping of fields or a sequence of either.

        Raises UserError when a stage needs a field that is missing, or when fields of a group differ in length.
        """
        inputs = stack(groups, self.providers, self.wanted)
        _supply(self.stages, inputs, memory)
        without = inputs.copy() if self._without else None
        remembers = any("memory" in stage.required for stage in self._without)
        trial = memory.copy() if memory is not None and remembers else None
        extra = _run(self.stages, inputs, step, memory)
        if without is not None:
            _run(self._without, without, step, trial)
        divides = any("divides_by_spread" in stage.traits for stage in self.stages)
        advantages, keep = _collect(inputs)
        return Credit(advantages, keep, {**measure(inputs, without, divides), **extra}, inputs)

    def describe(self) -> str:
        """One line per stage: kind, function, knobs, and the fields it reads and gives."""
        lines = [f"{self.name}:"]
        for stage in self.stages:
            reads = ", ".join((*stage.required, *(f"[{name}]" for name in stage.optional)))
            lines.append(f"  {_written(stage.call)}: {reads} -> {', '.join(stage.returns)}")
        return "\n".join([*lines, f"  {_written(self.loss)}"] if self.loss else lines)


def build(spec: Any, *, providers: Mapping[str, Provider] | None = None) -> Pipeline:
    """A pipeline from a method's name, `{name: knobs}`, a path to a method file, or a list of stages.

    `providers` compute missing fields from texts, once per batch, as in `{"embeddings": embed}`.
    Raises UserError for unknown names and knobs and for stages in an order that cannot run.

    >>> build("grpo")({"rewards": [1.0, 0.0]}).advantages[0].round(3).tolist()
    [0.707, -0.707]
    """
    name, calls, loss = parse(spec)
    return Pipeline(calls, name=name, loss=loss, providers=providers)


def _written(call: Call) -> str:
    knobs = ", ".join(f"{name}={_written(v) if isinstance(v, Call) else v}" for name, v in call.knobs.items())
    return f"{call.kind} {call.name}({knobs})"


def _check_flow(stages: list[Stage], name: str) -> None:
    """Every field that is read must be an input or the product of an earlier stage, and advantages must come out."""
    have = {*FIELDS, "base_rewards", "memory", "groups"}
    for stage in stages:
        for field in stage.required:
            if field not in have:
                fix = HOW.get(field, f"Put the stage that gives '{field}' before it.")
                raise UserError(f"{name} {stage.where}", f"no stage gives '{field}'", fix)
        have.update(stage.returns)
    if "advantages" not in have:
        raise UserError(name, "no stage gives advantages", "End with a normalise stage, such as {normalise: centre}.")


def _without_diversity(stages: list[Stage]) -> list[Stage]:
    """What remains when the diversity signals and all that needs them are taken out; [] if that changes nothing.

    Stages that no longer lead to advantages or `keep` (such as the signal's representation) go as well.
    """
    have, gone, kept = {*FIELDS, "base_rewards", "memory", "groups"}, set[str](), []
    for stage in stages:
        if stage.call.kind == "signal" or gone.intersection(stage.required):
            gone.update(set(stage.returns) - have)
        else:
            kept.append(stage)
            have.update(stage.returns)
    if len(kept) == len(stages) or "advantages" not in have:
        return []
    needed, used = {"advantages", "keep"}, []
    for stage in reversed(kept):
        if needed.intersection(stage.returns):
            needed.update(stage.required, stage.optional)
            used.append(stage)
    return used[::-1]


def _supply(stages: list[Stage], batch: Stack, memory: Memory | None) -> None:
    """Make sure that every stage finds its inputs, before any of them runs."""
    produced: set[str] = set()
    for stage in stages:
        for field in stage.required:
            if field == "memory" and memory is None:
                raise UserError(stage.where, "needs a memory", HOW["memory"])
            if field in FIELDS and field not in produced:
                batch.supply(field, stage.where)
        produced.update(stage.returns)


def _run(stages: list[Stage], batch: Stack, step: int, memory: Memory | None) -> dict[str, float]:
    """Apply the stages in place; returns the metrics that stages give (their product named `metrics`)."""
    metrics: dict[str, list[np.ndarray]] = {}
    for stage in stages:
        knobs = stage.at(step)
        apply = _apply_whole if "whole_batch" in stage.traits else _apply
        apply(stage, batch, knobs, memory, metrics)
    return {name: float(np.concatenate(values).mean()) for name, values in metrics.items()}


def _apply(stage: Stage, batch: Stack, knobs: dict[str, Any], memory: Memory | None, metrics: Any) -> None:
    for bucket in batch.buckets:
        data = {name: bucket.fields[name] for name in stage.required if name != "memory"}
        data |= {name: bucket.fields[name] for name in stage.optional if name in bucket.fields}
        if "memory" in stage.required:
            data["memory"] = memory
        for name, value in _products(stage, stage.function(**data, **knobs)).items():
            if name == "metrics":
                for key, values in value.items():
                    metrics.setdefault(key, []).append(np.broadcast_to(values, len(bucket.members)))
            elif name == "keep":
                bucket.fields[name] = bucket.fields.get(name, True) & value
            else:
                bucket.fields[name] = value


def _apply_whole(stage: Stage, batch: Stack, knobs: dict[str, Any], memory: Memory | None, metrics: Any) -> None:
    """Run the stage once on all rollouts of the batch, laid end to end; `groups` says which group each is of."""
    if not batch.buckets:
        return
    present = [name for name in stage.optional if all(name in b.fields for b in batch.buckets)]
    data: dict[str, Any] = {n: _flat(batch, n) for n in (*stage.required, *present) if n != "memory"}
    if "memory" in stage.required:
        data["memory"] = memory
    for name, values in _products(stage, stage.function(**data, **knobs)).items():
        if name == "metrics":
            for key, value in values.items():
                metrics.setdefault(key, []).append(np.atleast_1d(value))
            continue
        start = 0
        for bucket in batch.buckets:
            shape = bucket.fields["rewards"].shape
            part = values[start : start + shape[0] * shape[1]].reshape(*shape, *values.shape[1:])
            bucket.fields[name] = bucket.fields.get(name, True) & part if name == "keep" else part
            start += shape[0] * shape[1]


def _flat(batch: Stack, name: str) -> np.ndarray:
    """A field of all rollouts of the batch in one array, in the order of the buckets."""
    if name == "groups":
        return np.concatenate([np.repeat(b.members, len(b.rows[0])) for b in batch.buckets])
    values = [np.asarray(b.fields[name]) for b in batch.buckets]
    return np.concatenate([v.reshape(v.shape[0] * v.shape[1], *v.shape[2:]) for v in values])


def _products(stage: Stage, result: Any) -> dict[str, Any]:
    values = (result,) if len(stage.returns) == 1 else result
    return dict(zip(stage.returns, values, strict=True))


def _collect(batch: Stack) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Advantages and keep per group in the order given, zeros and False where a rollout takes no part."""
    advantages = [np.zeros(size) for size in batch.sizes]
    keep = [np.zeros(size, dtype=bool) for size in batch.sizes]
    for bucket in batch.buckets:
        values = bucket.fields["advantages"]
        kept = np.broadcast_to(bucket.fields.get("keep", True), values.shape[:2])
        values = np.where(kept.reshape(*kept.shape, *[1] * (values.ndim - 2)), values, 0.0)
        for place, (member, rows) in enumerate(zip(bucket.members, bucket.rows, strict=True)):
            own = values[place]
            if values.ndim > 2:
                own = own[:, : batch.widths[member]]
                advantages[member] = np.zeros((batch.sizes[member], own.shape[1]))
            advantages[member][rows] = own
            keep[member][rows] = kept[place]
    return advantages, keep
