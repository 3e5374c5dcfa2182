"""Evaluation rollouts: the same prompts and noise for every arm of a study, written beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    plan = build({"grpo": {"n": samples}}, params=params)
    per_slice = max(1, ROWS_AT_ONCE // samples)
    rollouts = []
    with RolloutWriter(partial) as writer:
        for first in range(0, len(prompts), per_slice):
            positions = list(enumerate(prompts))[first : first + per_slice]
            batch, _ = plan.collect(policy, task, positions, seed=seed, step=step, purpose="evaluate")
            rows = [_lean(rollout, run) for rollout in batch.rollouts()]
            if isinstance(task, Enumerable):
                known = {prompt.id: len(task.solutions(prompt)) for _, prompt in positions}
                for row in rows:
                    row.extra["n_solutions"] = known[row.prompt_id]
            writer.write(rows)
            rollouts.extend(rows)
    partial.replace(path)
    return rollouts


def _lean(rollout: Rollout, run: str) -> Rollout:
    rollout.run = run
    rollout.ids, rollout.prompt_ids, rollout.logp_sampling, rollout.seed = [], [], None, None
    return rollout
