"""A rollout plan: operators in order, from a batch of prompts to groups of rollouts.

>>> from polypath.rollout.plan import build
>>> print(build({"grpo": {"n": 4}}).describe())
grpo:
  source policy(n=4)
  comparator whole()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polypath.core import registry
from polypath.core.document import packaged
from polypath.core.errors import UserError, did_you_mean
from polypath.core.presets import read_document, substitute, with_knobs
from polypath.core.recipe_types import Call
from polypath.core.record import Batch, Rollout
from polypath.core.schedules import value_at
from polypath.core.stages import parse_stage
from polypath.engines.protocol import Policy, SamplingParams
from polypath.rollout.forest import Forest
from polypath.rollout.records import ledger
from polypath.rollout.tools import MorePrompts, Tools
from polypath.tasks.protocol import Prompt, Task
from polypath.tasks.verify import Failures

KINDS = ("conditioner", "source", "brancher", "pruner", "allocator", "comparator")
KEYS = ("summary", "paper", "choices", "knobs", "traits", "plan", "credit", "smoke", "examples")


@dataclass(frozen=True)
class Plan:
    """A composition of operators. `credit` names the credit method that the plan was made for, where it has one.

    Operators change the forest in place; the last one, the comparator, turns its leaves into records and says who is
    compared with whom. Every number of an operator may be a schedule over steps.
    """

    name: str
    operators: tuple[Call, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    credit: Any = None
    sources: Mapping[str, Policy] = field(default_factory=dict)
    max_tokens: int | None = None
    summary: str = ""

    def __post_init__(self) -> None:
        _check_composition(self.name, self.operators)

    def collect(
        self,
        policy: Policy,
        task: Task,
        prompts: Sequence[tuple[int, Prompt]],
        *,
        seed: int,
        step: int,
        purpose: str = "train",
        memory: MutableMapping[str, Any] | None = None,
        more_prompts: MorePrompts | None = None,
        embedder: Callable[[Sequence[str]], Any] | None = None,
    ) -> tuple[Batch, Failures]:
        """Grow, verify and group one batch. `prompts` are (position in the batch, prompt).

        Raises UserError for a source, an encoder or further prompts that an operator needs and are not there, and
        when the token budget cannot hold one rollout.
        """
        if self.max_tokens is not None and self.max_tokens < self.params.max_new_tokens:
            what = f"a budget of {self.max_tokens} tokens cannot hold one rollout of {self.params.max_new_tokens}"
            raise UserError("rollout.max_tokens", what, "Raise it, or lower rollout.max_new_tokens.")
        tools = Tools(
            policy,
            task,
            self.params,
            seed,
            step,
            purpose,
            sources=self.sources,
            memory={} if memory is None else memory,
            more_prompts=more_prompts,
            embedder=embedder,
            max_tokens=self.max_tokens,
        )
        before = (policy.ledger.generated, policy.ledger.prefilled, policy.ledger.reused)
        forest = Forest.plant(list(prompts))
        rollouts: list[Rollout] = []
        for call in self.operators:
            rollouts = apply(call, forest, tools)
        batch = Batch.from_rollouts(rollouts, step)
        _share_ledger(batch, ledger(policy, before))
        return batch, tools.failures

    def describe(self) -> str:
        """The composition, one operator a line."""
        lines = [f"  {call.kind} {call.name}({_knobs(call)})" for call in self.operators]
        return "\n".join([f"{self.name}:", *lines])


def apply(call: Call, forest: Forest, tools: Tools) -> list[Rollout]:
    """Run one operator, every knob at its value of this step; a comparator returns the records."""
    function = registry.get(call.kind, call.name, where=call.where)
    knobs = {name: value_at(value, tools.step) for name, value in call.knobs.items()}
    return function(forest, tools, **knobs) or []


def build(
    spec: Any,
    *,
    params: SamplingParams | None = None,
    sources: Mapping[str, Policy] | None = None,
    max_tokens: int | None = None,
) -> Plan:
    """A plan from a preset's name, `{name: knobs}`, a path to a plan file, a call, or a list of operators.

    A list without a comparator compares the whole group. Raises UserError for unknown names and knobs, and for
    operators in an order that cannot run.
    """
    options: dict[str, Any] = {"params": params or SamplingParams(), "sources": sources or {}, "max_tokens": max_tokens}
    if isinstance(spec, Call) and spec.kind not in KINDS:
        spec = {spec.name: spec.knobs}
    if isinstance(spec, str):
        spec = {spec: {}}
    if isinstance(spec, Mapping) and not (len(spec) == 1 and next(iter(spec)) in KINDS):
        if len(spec) != 1:
            raise UserError(
                "plan", f"cannot read {dict(spec)!r}", "Write a name, {name: knobs}, or a list of operators."
            )
        ((name, knobs),) = spec.items()
        document = load_preset(str(name))
        where = f"plan {Path(name).stem}"
        values = with_knobs(document.get("knobs") or {}, knobs or {}, where)
        stages = substitute(list(document["plan"]), values, where)
        calls = _parse(stages, where)
        credit = substitute(document.get("credit"), values, where)
        return Plan(Path(name).stem, calls, credit=credit, summary=document.get("summary", ""), **options)
    stages = spec if isinstance(spec, Sequence) else [spec]
    return Plan("inline", _parse(stages, "plan"), **options)


def load_preset(name: str) -> dict[str, Any]:
    """The content of a preset of the package by name, or of a YAML file by its path. Raises UserError."""
    presets = packaged("plans")
    path = Path(name) if name.endswith((".yaml", ".yml")) else presets.get(name)
    if path is None or not path.is_file():
        raise UserError("plan", f"there is no plan named '{name}'", did_you_mean(name, presets))
    document = read_document(path, "plan")
    for key in document:
        if key not in KEYS:
            raise UserError(f"{path}: {key}", "unknown key", did_you_mean(str(key), KEYS))
    if not document.get("plan"):
        raise UserError(str(path), "has no plan", "List its operators under the key plan.")
    return document


def _parse(stages: Sequence[Any], where: str) -> tuple[Call, ...]:
    calls = [parse_stage(stage, where, KINDS) for stage in stages]
    if not any(call.kind == "comparator" for call in calls):
        calls.append(Call("comparator", "whole"))
    return tuple(calls)


def _check_composition(name: str, calls: Sequence[Call]) -> None:
    kinds = [call.kind for call in calls]
    if kinds.count("comparator") > 1 or kinds[-1] != "comparator":
        raise UserError(f"plan {name}", "the comparator must be the last operator, and the only one")
    if not {"source", "brancher", "allocator"}.intersection(kinds):
        raise UserError(f"plan {name}", "nothing draws any text", "Add a source, such as {source: {policy: {n: 8}}}.")


def _share_ledger(batch: Batch, total: Mapping[str, int]) -> None:
    """Write what the engine prefilled and reused for the batch into its records, in equal shares.

    Shared prefixes belong to nobody alone; the sums over a batch are exact, and `discarded` is what was drawn for
    text that is in no record.
    """
    rollouts = batch.rollouts()
    if not rollouts:
        return
    drawn = sum(rollout.tokens["generated"] for rollout in rollouts)
    shares = {
        "prefilled": total["prefilled"],
        "reused": total["reused"],
        "discarded": max(total["generated"] - drawn, 0),
    }
    for name, amount in shares.items():
        share, rest = divmod(amount, len(rollouts))
        for place, rollout in enumerate(rollouts):
            rollout.tokens[name] = share + (place < rest)


def _knobs(call: Call) -> str:
    return ", ".join(f"{name}={_written(value)}" for name, value in call.knobs.items())


def _written(value: Any) -> str:
    return f"{value.name}({_knobs(value)})" if isinstance(value, Call) else str(value)
