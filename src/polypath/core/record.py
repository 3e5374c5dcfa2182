"""The one record: a `Rollout`, and the groups and batches made of it. Every command reads and writes these rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

SCHEMA_VERSION = 1
Status = Literal["complete", "truncated", "aborted", "pruned", "error"]


@dataclass
class Rollout:
    """One sampled completion with everything needed to score, credit, compare and replay it.

    `rewards` maps a reward's name to its value (NaN where undefined); `reward` is the total that credit works on.
    `canonical` is the task's canonical form of the answer: two correct rollouts with equal canonical forms are the
    same solution. `logp_sampling` are log-probabilities of `ids` under the distribution that sampled them.
    """

    prompt_id: str
    group_id: str
    index: int
    text: str
    prompt: str = ""
    run: str = ""
    step: int = 0
    prompt_ids: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    logp_sampling: list[float] | None = None
    status: Status = "complete"
    rewards: dict[str, float] = field(default_factory=dict)
    correct: bool | None = None
    answer: str | None = None
    canonical: str | None = None
    context: dict[str, Any] | None = None  # {id, kind, level}
    loss_context: Literal["own", "base", "both"] = "own"
    source: dict[str, Any] | None = None  # {name, version}
    parent: str | None = None
    fork_pos: int | None = None
    forced_mask: list[int] | None = None
    spans: dict[str, list[int]] | None = None
    env_snapshot: str | None = None
    keep: bool = True
    drop_reason: str | None = None
    tokens: dict[str, int] = field(default_factory=dict)  # {generated, prefilled, reused}
    seed: int | None = None
    advantage: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # columns of other frameworks, kept as they came

    @property
    def reward(self) -> float:
        """The sum of the rewards, NaN when there is none or any is NaN."""
        return sum(self.rewards.values()) if self.rewards else math.nan

    def to_row(self) -> dict[str, Any]:
        """A flat JSON-ready dictionary; empty optional fields are left out, unknown columns stand beside the known."""
        row = {name: getattr(self, name) for name in _NAMES if name != "extra"}
        row = {name: value for name, value in row.items() if value is not None and value != {}}
        return {"schema": SCHEMA_VERSION, **row, **self.extra}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Rollout:
        """The inverse of `to_row`. Unknown columns go to `extra`; raises KeyError for a missing required column."""
        known = {name: row[name] for name in _NAMES if name in row and name != "extra"}
        missing = [name for name in _REQUIRED if name not in known]
        if missing:
            raise KeyError(", ".join(missing))
        extra = {name: value for name, value in row.items() if name not in _NAMES and name != "schema"}
        return cls(**known, extra=extra)


_NAMES = tuple(f.name for f in fields(Rollout))
_REQUIRED = ("prompt_id", "group_id", "index", "text")


@dataclass
class Group:
    """Rollouts that are compared with each other. Membership is this explicit id, never a position in a batch."""

    group_id: str
    prompt_id: str
    rollouts: list[Rollout]

    def __len__(self) -> int:
        return len(self.rollouts)

    def __iter__(self) -> Iterator[Rollout]:
        return iter(self.rollouts)


@dataclass
class Batch:
    """All groups of one training step; sizes may differ."""

    groups: list[Group]
    step: int = 0

    def rollouts(self) -> list[Rollout]:
        """All rollouts, group after group."""
        return [rollout for group in self.groups for rollout in group]

    @classmethod
    def from_rollouts(cls, rollouts: list[Rollout], step: int = 0) -> Batch:
        """Group rollouts by `group_id`, in order of first appearance."""
        groups: dict[str, Group] = {}
        for rollout in rollouts:
            group = groups.setdefault(rollout.group_id, Group(rollout.group_id, rollout.prompt_id, []))
            group.rollouts.append(rollout)
        return cls(list(groups.values()), step)
