"""A browsable sample of groups: what each arm answered to one prompt, equal answers counted once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from polypath.core.files import to_json
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.core.store import to_rollout
from polypath.evaluate.runs import Run

MAX_BYTES = 3_000_000
MAX_TEXT = 4_000  # characters shown of one completion
MAX_ROWS = 48  # different answers shown of one arm
TAIL_BYTES = 4_000_000


def evaluation_groups(runs: Sequence[Run], *, prompts: int = 32) -> list[dict[str, Any]]:
    """The first prompts that every arm answered, with each arm's answers of its lowest seed."""
    first = {run.arm: run for run in sorted(runs, key=lambda run: -run.seed)}  # the lowest seed is set last
    arms = list(dict.fromkeys(run.arm for run in runs))
    answers: dict[str, dict[str, list[Rollout]]] = {arm: {} for arm in arms}
    for arm in arms:
        for rollout in first[arm].rollouts():
            answers[arm].setdefault(rollout.prompt_id, []).append(rollout)
    shared = [p for p in answers[arms[0]] if all(p in answers[arm] for arm in arms)]
    return [
        group_of("evaluation", {f"{arm}, seed {first[arm].seed}": answers[arm][p] for arm in arms})
        for p in shared[:prompts]
    ]


def training_groups(runs: Sequence[Run], *, each: int = 4) -> list[dict[str, Any]]:
    """The first and the last groups of every arm's training with its lowest seed, with their advantages."""
    groups = []
    for arm in dict.fromkeys(run.arm for run in runs):
        run = min((run for run in runs if run.arm == arm), key=lambda run: run.seed)
        path = RunDir(run.path).rollouts
        if path.is_file():
            begin, end = _groups(_head(path)), _groups(_tail(path))
            for rollouts in {g[0].group_id: g for g in [*begin[:each], *end[-each:]]}.values():
                groups.append(group_of(f"training, step {rollouts[0].step}", {f"{arm}, seed {run.seed}": rollouts}))
    return groups


def within(groups: Sequence[dict[str, Any]], limit: int = MAX_BYTES) -> list[dict[str, Any]]:
    """As many groups, from the first on, as fit into `limit` bytes of JSON."""
    kept, size = [], 0
    for group in groups:
        size += len(to_json(group).encode())
        if size > limit:
            break
        kept.append(group)
    return kept


def group_of(kind: str, arms: dict[str, list[Rollout]]) -> dict[str, Any]:
    """One entry of the browser. Solutions are numbered by frequency over all arms, so that colours agree."""
    everyone = [rollout for rollouts in arms.values() for rollout in rollouts]
    ranked = [key for key, _ in Counter(r.canonical for r in everyone if r.correct and r.canonical).most_common()]
    number = {key: i for i, key in enumerate(ranked)}
    known = everyone[0].extra.get("n_solutions")
    return {
        "kind": kind,
        "prompt": everyone[0].prompt[:MAX_TEXT] or everyone[0].prompt_id,
        "solutions": ranked,
        "known": known if isinstance(known, int) else None,
        "arms": [_arm(name, rollouts, number) for name, rollouts in arms.items()],
    }


def _arm(name: str, rollouts: list[Rollout], number: dict[str, int]) -> dict[str, Any]:
    def solution(r: Rollout) -> int | None:
        return number.get(r.canonical) if r.correct and r.canonical else None

    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for r in rollouts:
        key = (r.text, solution(r), r.correct, r.reward if r.rewards else None, r.advantage, r.status)
        row = dict(zip(("text", "solution", "correct", "reward", "advantage", "status"), key, strict=True))
        row["text"] = r.text[:MAX_TEXT]
        merged.setdefault(key, {**row, "count": 0})["count"] += 1
    rows = sorted(merged.values(), key=lambda row: (not row["correct"], -row["count"]))
    shares = Counter(solution(r) for r in rollouts)
    return {
        "name": name,
        "n": len(rollouts),
        "correct": sum(bool(r.correct) for r in rollouts),
        "shares": [[k, shares[k]] for k in sorted(k for k in shares if k is not None)],
        "rows": rows[:MAX_ROWS],
        "more": max(0, len(rows) - MAX_ROWS),
    }


def _groups(rollouts: Iterable[Rollout]) -> list[list[Rollout]]:
    groups: dict[tuple[int, str], list[Rollout]] = {}
    for rollout in rollouts:
        groups.setdefault((rollout.step, rollout.group_id), []).append(rollout)
    return list(groups.values())


def _head(path: Path, rows: int = 256) -> list[Rollout]:
    with path.open("rb") as file:
        lines = list(islice(file, rows))
    return [rollout for line in lines for rollout in _parse(line, path)]


def _tail(path: Path) -> list[Rollout]:
    """The rollouts in the last megabytes of a file that may be large; its first group there may be torn."""
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - TAIL_BYTES)
        file.seek(start)
        lines = file.read().split(b"\n")[1 if start else 0 :]
    return [rollout for line in lines[-1024:] for rollout in _parse(line, path)]


def _parse(line: bytes, path: Path) -> list[Rollout]:
    try:
        row = json.loads(line)
    except ValueError:  # blank, or torn by a kill
        return []
    return [to_rollout(row, str(path))] if isinstance(row, dict) else []
