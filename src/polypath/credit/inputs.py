"""From groups of rollouts to stacked fields: groups of equal shape become one bucket of `(B, G, ...)` arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polypath.core.errors import UserError
from polypath.core.record import Batch, Group
from polypath.credit.structure import PADDING, TOKENWISE, is_spans, number_names, pad, structure_of
from polypath.diversity.partitions import first_appearance

FIELDS = (
    "rewards",
    "correct",
    "texts",
    "answers",
    "labels",
    "embeddings",
    "similarity",
    "logp",
    "entropy",
    "mask",
    "lengths",
    "solutions",  # G canonical forms of the solutions, None where there is none; `labels` number them in the group
    "prompts",  # G times the name of the prompt, by which memory is kept
    "reward_columns",  # (G, M): several rewards per rollout, whose sum is `rewards` unless that is given
    "baseline",  # (G,): a value to subtract, known beforehand, such as the reference policy's mean reward
    "ranks",  # (G,): place of the rollout in its group by a judge, 1 is best
    "sources",  # (G,): which agent wrote the rollout; 0 is the policy itself
    "contexts",  # (G,): what it was shown beside the prompt; 0 is nothing
    "spans",  # G mappings of a part's name to its [start, end] in tokens
    "flags",  # (G, T): tokens of steps that a judge found useless
    "nodes",  # (G, D): its ancestors in the tree of the group, from the first fork to itself; -1 fills up
    "starts",  # (G, D): the token at which each node or step starts
    "states",  # (G, D): the state before each step, equal numbers being the same state
    "actions",  # (G, D): what was done there
    "reference",  # G answers: what an anchor takes to be right
    "progress",  # (G,): share of correct steps before the first wrong one
    "distance",  # (G,): how far the answer is from its target, at least 0
    "steps",  # (G,): number of reasoning steps
    "success",  # (G, items): how well the rollout does on each of several items
    "confidence",  # (G, T): mean probability of the likeliest tokens
    "candidate_rewards",  # (G, C, M): rewards of each of several candidates written in one rollout, NaN if missing
    "candidate_embeddings",  # (G, C, d): a vector for each of them
    "beliefs",  # (G, D, K): probabilities of K hypotheses at the start and after each step; NaN fills up
    "curiosity",  # (G, T): error of a forward model at each token
)
TEXTUAL = ("texts", "answers", "prompts", "solutions", "reference", "spans")  # kept as lists
RELATIVE = ("similarity", "ranks")  # known only by looking at a whole group: their providers are asked group by group
VERDICTS = ("correct",)  # true or false, and nothing that merely counts as one of them
UNDEFINED = ("rewards", "reward_columns", "distance")  # may hold None or NaN
DTYPES = {
    "correct": bool,
    "mask": bool,
    "flags": bool,
    **dict.fromkeys(("labels", "sources", "contexts", *PADDING), np.int64),
}
LONG = {**TOKENWISE, **PADDING}
Provider = Callable[[Sequence[str]], Any]
HOW = {
    "correct": "Give `correct`, or rewards that are all 0/1 (or all -1/1), or use a gate by reward.",
    "labels": "Let the task set `canonical`, give `labels`, or start with the partition same_answer or same_text.",
    "answers": "Let the task set `answer`, or give `answers`, null where there is none.",
    "embeddings": 'Pass providers={"embeddings": embed}, where embed(texts) gives one vector per text.',
    "similarity": "Add the stage {representation: cosine} before it, or give `similarity`.",
    "diversity": "Add a signal stage before it.",
    "advantages": "Add a normalise stage before it.",
    "memory": "Pass memory=Memory() and keep it from step to step.",
    "solutions": "Let the task set `canonical`, or give `solutions`, null where there is none.",
    "prompts": "Give `prompts`, the name of the group's prompt once per rollout.",
    "reward_columns": "Let the task give several named rewards, or give `reward_columns`, one row per rollout.",
    "baseline": "Give `baseline`, the reference policy's mean reward on the prompt, once per rollout.",
    "ranks": 'Pass providers={"ranks": judge}, where judge(texts of a group) gives places, or use reward_ranks.',
    "sources": "Give `sources`, the name or number of the agent that wrote each rollout.",
    "contexts": "Sample with a plan that conditions the prompt, or give `contexts`, one number or name per rollout.",
    "spans": 'Give `spans`, per rollout a mapping such as {"plan": [0, 12]} in tokens.',
    "nodes": "Sample with a branching plan, or give `nodes` and `starts`, one row per rollout.",
    "states": "Give `states`, `actions` and `starts`: per rollout its steps, and the token where each starts.",
    "entropy": "Give `entropy`, the policy's entropy in nats at each token; training computes it by itself.",
    "mask": "Give `mask`, a row of true and false per rollout, one for each of its tokens.",
}


def fields_of(group: Group, wanted: Container[str] = ()) -> dict[str, Any]:
    """The fields of one group that its rollouts hold; those that any rollout lacks are left out.

    Fields with a value per token are made only where they are `wanted`.

    A rollout that was pruned (`keep` false) gets the reward NaN and so takes no part. Labels number the canonical
    forms; a rollout without one is a class of its own. Lengths are generated tokens. Reward columns are in the order
    of the rewards' names.
    """
    rows = group.rollouts
    found: dict[str, Any] = {
        "rewards": [row.reward if row.keep else math.nan for row in rows],
        "texts": [row.text for row in rows],
        "prompts": [group.prompt_id] * len(rows),
    }
    if all(row.correct is not None for row in rows):
        found["correct"] = [row.correct for row in rows]
    columns = sorted({name for row in rows for name in row.rewards})
    if len(columns) > 1:
        found["reward_columns"] = [[row.rewards.get(name, math.nan) for name in columns] for row in rows]
    if any(row.answer is not None for row in rows):
        found["answers"] = [row.answer for row in rows]
    # A wrong rollout often has no form; without a single correct one, a group of those is still a verified group.
    judged = all(row.canonical is not None or row.correct is False for row in rows)
    if judged or any(row.canonical is not None for row in rows):
        found["solutions"] = [row.canonical for row in rows]
        found["labels"] = first_appearance(found["solutions"])
    if any(row.ids for row in rows):
        found["lengths"] = [len(row.ids) for row in rows]
    elif rows and all("generated" in row.tokens for row in rows):
        found["lengths"] = [row.tokens["generated"] for row in rows]
    return {**found, **structure_of(rows, wanted)}


@dataclass
class Bucket:
    """Groups of one shape. `members` are their places in the batch, `rows` the rollouts that take part, per group."""

    members: list[int]
    rows: list[np.ndarray]
    fields: dict[str, Any]


@dataclass
class Stack:
    """A whole batch: buckets, the shape of every group before exclusions and padding, the lazily computed fields."""

    buckets: list[Bucket]
    sizes: list[int]
    widths: list[int]  # tokens of the longest rollout, 0 where no field is by token
    providers: Mapping[str, Provider] = field(default_factory=dict)

    def supply(self, name: str, stage: str) -> None:
        """Make sure every bucket has the field, asking its provider once for the whole batch.

        Raises UserError naming the field, the stage that needs it and how to supply it.
        """
        lacking = [bucket for bucket in self.buckets if name not in bucket.fields]
        if not lacking:
            return
        if name not in self.providers or any("texts" not in bucket.fields for bucket in lacking):
            raise UserError(stage, f"needs the field '{name}', which is missing", HOW.get(name, f"Give `{name}`."))
        if name in RELATIVE:
            for bucket in lacking:
                bucket.fields[name] = np.stack([self.providers[name](group) for group in bucket.fields["texts"]])
            return
        texts = [text for bucket in lacking for group in bucket.fields["texts"] for text in group]
        values = np.asarray(self.providers[name](texts))
        if len(values) != len(texts):
            raise UserError(stage, f"the provider of '{name}' gave {len(values)} rows for {len(texts)} texts")
        start = 0
        for bucket in lacking:
            groups, size = len(bucket.members), len(bucket.rows[0])
            part = values[start : start + groups * size]
            bucket.fields[name] = part.reshape(groups, size, *values.shape[1:])
            start += groups * size

    def copy(self) -> Stack:
        """The same fields in new dictionaries, for a second run over the same inputs."""
        buckets = [Bucket(b.members, b.rows, dict(b.fields)) for b in self.buckets]
        return Stack(buckets, self.sizes, self.widths, self.providers)


def as_mappings(groups: Any, wanted: Container[str] = ()) -> list[Mapping[str, Any]]:
    """One mapping of fields per group, from a batch, a group, a mapping or a sequence of either."""
    if isinstance(groups, Batch):
        groups = groups.groups
    elif isinstance(groups, Group | Mapping):
        groups = [groups]
    return [fields_of(group, wanted) if isinstance(group, Group) else group for group in groups]


def stack(groups: Any, providers: Mapping[str, Provider], wanted: Container[str] = ()) -> Stack:
    """Drop rollouts without a finite reward, then stack groups of equal shape. Raises UserError for unequal lengths.

    Fields by token or by step are filled up to the longest of the batch, so that they do not tear it apart.
    """
    mappings = number_names(as_mappings(groups, wanted))
    checked = [_arrays(mapping, f"group {place}") for place, mapping in enumerate(mappings)]
    _derive_correct(checked)
    widths = [max([0, *(group[name].shape[1] for name in TOKENWISE if name in group)]) for group in checked]
    _level(checked)
    buckets: dict[Any, Bucket] = {}
    for place, fields in enumerate(checked):
        valid = np.isfinite(fields["rewards"])
        if not valid.any():
            continue
        rows = np.flatnonzero(valid)
        if len(rows) < len(valid):
            fields = {name: _take(name, value, rows) for name, value in fields.items()}
        shapes = {name: value.shape[1:] for name, value in fields.items() if name not in TEXTUAL}
        key = (len(rows), tuple(sorted(fields)), tuple(sorted(shapes.items())))
        bucket = buckets.setdefault(key, Bucket([], [], {name: [] for name in fields}))
        bucket.members.append(place)
        bucket.rows.append(rows)
        for name, value in fields.items():
            bucket.fields[name].append(value)
    for bucket in buckets.values():
        for name, values in bucket.fields.items():
            bucket.fields[name] = values if name in TEXTUAL else np.stack(values)
        bucket.fields["base_rewards"] = bucket.fields["rewards"]
    return Stack(list(buckets.values()), [len(fields["rewards"]) for fields in checked], widths, providers)


def _arrays(mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    fields = {name: _array(name, values, where) for name, values in mapping.items() if values is not None}
    if "reward_columns" in fields:
        fields["reward_columns"] = fields["reward_columns"].reshape(len(fields["reward_columns"]), -1)
        fields.setdefault("rewards", fields["reward_columns"].sum(axis=-1))
    if "rewards" not in fields:
        raise UserError(where, "has no rewards", "Every group needs `rewards`, one number per rollout.")
    size = len(fields["rewards"])
    for name, values in fields.items():
        if len(values) != size:
            raise UserError(where, f"{name} has {len(values)} entries, rewards has {size}", "Give one per rollout.")
    return fields


def _array(name: str, values: Any, where: str) -> Any:
    """One field as an array of its type; a list may hold text labels, and None where a value can be missing."""
    if isinstance(values, str | Mapping) or not hasattr(values, "__len__"):
        raise UserError(where, f"{name} is not a list", "Give one entry per rollout.")
    if name == "spans" and not all(is_spans(parts) for parts in values):
        raise UserError(where, "spans needs a mapping per rollout", HOW["spans"])
    if name == "texts" and not all(isinstance(text, str) for text in values):
        raise UserError(where, "texts has an entry that is no text", 'Write "" for an empty completion.')
    if name in TEXTUAL:
        return list(values)
    if isinstance(values, list | tuple):
        if name in VERDICTS and not all(value in (True, False, None) for value in values):
            raise UserError(where, "correct has an entry that is neither true nor false", "Give a verdict each.")
        if name == "labels" and not all(isinstance(value, int) for value in values):
            return first_appearance(values)
        if name in LONG:
            values = _rows(name, values, where)
        if name not in UNDEFINED and any(value is None for value in values):
            raise UserError(where, f"{name} has a missing entry", "Leave the field out, or give one per rollout.")
    try:
        return np.asarray(values, dtype=DTYPES.get(name, np.float64))
    except (ValueError, TypeError) as error:
        raise UserError(where, f"{name} is not an array ({error})", "Pad ragged rows and mask the padding.") from None


def _rows(name: str, values: Any, where: str) -> Any:
    """The rows of a field by token or by step, filled up. Raises UserError when an entry is not a row."""
    if not all(isinstance(row, list | tuple | np.ndarray) for row in values):
        raise UserError(where, f"{name} needs a list per rollout", "Give one row per rollout.")
    return pad(values, LONG[name])


def _level(groups: list[dict[str, Any]]) -> None:
    """Fill the fields by token or by step up to the longest row of the batch."""
    for names in ([*TOKENWISE], ["nodes"], ["states", "actions"], ["starts"]):
        present = [(group, name) for group in groups for name in names if name in group]
        width = max((group[name].shape[1] for group, name in present), default=0)
        for group, name in present:
            short = width - group[name].shape[1]
            if short:
                group[name] = np.pad(group[name], ((0, 0), (0, short)), constant_values=LONG[name])


def _take(name: str, value: Any, rows: np.ndarray) -> Any:
    if name in TEXTUAL:
        return [value[row] for row in rows]
    return value[np.ix_(rows, rows)] if name == "similarity" else value[rows]


def _derive_correct(groups: list[dict[str, Any]]) -> None:
    """Where no group says what is correct and every reward of the batch is 0/1 or -1/1, the reward does."""
    if any("correct" in fields for fields in groups) or not groups:
        return
    values = np.unique(np.concatenate([fields["rewards"] for fields in groups]))
    values = values[np.isfinite(values)]
    if np.isin(values, (0.0, 1.0)).all() or np.isin(values, (-1.0, 1.0)).all():
        for fields in groups:
            fields["correct"] = fields["rewards"] == 1.0
