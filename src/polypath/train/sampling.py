"""Evaluation rollouts: the same prompts and noise for every arm of a study, written beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.recipe import Call
from polypath.core.record import Rollout
from polypath.core.store import RolloutWriter, read_rollouts
from polypath.engines.protocol import Policy, SamplingParams
from polypath.rollout.plan import build
from polypath.tasks.protocol import Enumerable, Prompt, Task

ROWS_AT_ONCE = 4096  # verified and written in slices, so that memory does not grow with the number of samples


def sample_evaluation(
    policy: Policy,
    task: Task,
    prompts: Sequence[Prompt],
    samples: int,
    path: Path,
    *,
    params: SamplingParams,
    seed: int,
    step: int,
    run: str = "",
    plan: Sequence[Call] | None = None,
) -> list[Rollout]:
    """`samples` verified rollouts of each prompt, also written to `path`; a complete file is read, not redone.

    Token ids and log-probabilities are left out of these rows: nothing trains on them. A prompt whose solutions are
    known carries their number, from which coverage is computed.
    """
    expected = len(prompts) * samples
    if path.exists():
        rollouts = read_rollouts(path)
        if len(rollouts) == expected:
            return rollouts
        path.unlink()
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen = build(_drawing(plan, samples) if plan else {"grpo": {"n": samples}}, params=params)
    per_slice = max(1, ROWS_AT_ONCE // samples)
    rollouts = []
    with RolloutWriter(partial) as writer:
        for first in range(0, len(prompts), per_slice):
            positions = list(enumerate(prompts))[first : first + per_slice]
            batch, _ = chosen.collect(policy, task, positions, seed=seed, step=step, purpose="evaluate")
            rows = [_lean(rollout, run) for rollout in batch.rollouts()]
            if isinstance(task, Enumerable):
                known = {prompt.id: len(task.solutions(prompt)) for _, prompt in positions}
                for row in rows:
                    row.extra["n_solutions"] = known[row.prompt_id]
            writer.write(rows)
            rollouts.extend(rows)
    partial.replace(path)
    return rollouts


def _drawing(plan: Sequence[Call], samples: int) -> list[Call]:
    """The operators, the first that draws a number drawing `samples`. Raises UserError when none does."""
    first = next((i for i, call in enumerate(plan) if "n" in registry.entry(call.kind, call.name).knobs), None)
    if first is None:
        raise UserError("evaluate.plan", "has no operator that draws a number n", "Add {source: policy}.")
    changed = replace(plan[first], knobs={**plan[first].knobs, "n": samples})
    return [*plan[:first], changed, *plan[first + 1 :]]


def _lean(rollout: Rollout, run: str) -> Rollout:
    rollout.run = run
    rollout.ids, rollout.prompt_ids, rollout.logp_sampling, rollout.seed = [], [], None, None
    return rollout
