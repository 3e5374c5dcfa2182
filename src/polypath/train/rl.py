"""The reinforcement-learning loop: sample, credit, update. It knows no method by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.record import Batch, Rollout
from polypath.core.rundir import RunDir
from polypath.core.store import RolloutWriter
from polypath.credit import Credit, Memory, Pipeline
from polypath.engines.transformers import TransformersPolicy
from polypath.rollout.plan import Plan
from polypath.tasks.protocol import Prompt, Task
from polypath.train.checkpoint import save_checkpoint
from polypath.train.config import EarlyStop, Recipe, TrainConfig
from polypath.train.data import prompts_at, refill
from polypath.train.learner import Learner
from polypath.train.objective import Objective
from polypath.train.processes import Processes
from polypath.train.scores import with_scores

Watch = Callable[[int, dict[str, float]], None]


@dataclass
class Session:
    """Everything that one run is made of."""

    recipe: Recipe
    policy: TransformersPolicy
    task: Task
    pool: Sequence[Prompt]
    plan: Plan
    pipeline: Pipeline
    learner: Learner
    objective: Objective
    run: RunDir
    writer: RolloutWriter | None  # None on the processes that do not write
    processes: Processes
    memory: Memory = field(default_factory=Memory)
    start: int = 0

    @property
    def config(self) -> TrainConfig:
        """The loop's settings."""
        if self.recipe.train is None:
            raise UserError("train", "the recipe has no train section", "Add train: {steps: ...}.")
        return self.recipe.train


def run_rl(session: Session, *, evaluate: Callable[[int], dict[str, Any]], watch: Watch) -> int:
    """Train from `session.start` to the last step; returns the number of steps that were done.

    `evaluate(step)` measures the policy and returns metrics for the curves; `watch(step, metrics)` sees every step.
    """
    config, seen = session.config, session.run.read_metrics()
    if stops(session, seen):  # it had stopped before it was started again
        return session.start
    every = session.recipe.evaluate.every if session.recipe.evaluate else None
    for step in range(session.start, config.steps):
        if every and step % every == 0 and session.processes.is_main:
            seen.append({"step": step, **evaluate(step)})
            session.run.append_metrics(seen[-1])
        began = time.perf_counter()
        metrics = train_step(session, step)
        metrics["length_drift"] = length_drift([row["length"] for row in seen if "length" in row], metrics["length"])
        seen.append(metrics)
        if session.processes.is_main:
            session.run.append_metrics(metrics)
        watch(step, {**metrics, "seconds": time.perf_counter() - began})
        done = step + 1
        stop = stops(session, seen)
        if session.processes.is_main and (done % config.save_every == 0 or done == config.steps or stop):
            save_checkpoint(session.run.checkpoints, done, session.policy, session.learner, session.memory)
        session.processes.wait()
        if stop:
            return done
    return config.steps


def train_step(session: Session, step: int) -> dict[str, float]:
    """One step: the prompts' groups, their credit and the update. Returns the step's metrics."""
    config, processes = session.config, session.processes
    prompts = processes.share(prompts_at(session.pool, step, config.prompts_per_step, session.recipe.seed))
    local, failures = session.plan.collect(
        session.policy,
        session.task,
        prompts,
        seed=session.recipe.seed,
        step=step,
        memory=session.memory,
        more_prompts=refill(session.pool, step, config.prompts_per_step, session.recipe.seed, processes.rank),
        embedder=session.policy.embed,
    )
    failed = processes.sum_metrics({"failed": float(failures.count)})["failed"]
    # Credit sees every group whole, on every rank: memory and batch statistics stay the same everywhere.
    batch = Batch(processes.gather_dealt(local.groups), step)
    check_failures(failed, len(batch.rollouts()), config.failure_tolerance, failures.first)
    wanted, temperature = session.pipeline.wanted, session.objective.temperature
    scored = with_scores(session.policy, batch, wanted, temperature=temperature, memory=session.memory)
    credit = session.pipeline(scored, step=step, memory=session.memory)
    attach(batch, credit)
    if session.writer is not None and step % config.rollouts_every == 0:
        session.writer.write(batch.rollouts())
    update = session.objective.update(session.learner, batch, credit, processes)
    return {"step": step, **rollout_metrics(batch.rollouts()), **credit.metrics, **update}


def attach(batch: Batch, credit: Credit) -> None:
    """Write each rollout's advantage (its mean over tokens when it varies) and keep flag into its record."""
    for group, advantages, keep in zip(batch.groups, credit.advantages, credit.keep, strict=True):
        for rollout, advantage, kept in zip(group, advantages, keep, strict=True):
            rollout.advantage = round(float(advantage.mean()), 6)
            if not kept and rollout.keep:
                rollout.keep, rollout.drop_reason = False, rollout.drop_reason or "credit"


def rollout_metrics(rollouts: list[Rollout]) -> dict[str, float]:
    """Mean reward over the verified rollouts, share correct, response length, how they ended and what they cost.

    `sampled_entropy` is the mean of -log p over the tokens that were drawn, an unbiased estimate of the entropy per
    token in nats, at the temperature of the sampling. `invalid` is the share without an answer, `foreign` that of the
    tokens which another source wrote, `discarded` that of the drawn tokens which are in no rollout.
    """
    rewards = [r.reward for r in rollouts if not math.isnan(r.reward)]
    n = len(rollouts)
    written = sum(len(r.ids) for r in rollouts)
    drawn = {kind: sum(r.tokens.get(kind, 0) for r in rollouts) for kind in ("generated", "discarded")}
    parsed = any(r.canonical is not None or r.answer is not None for r in rollouts)
    return {
        "reward": fmean(rewards) if rewards else math.nan,
        "correct": sum(bool(r.correct) for r in rollouts) / n,
        "length": fmean(len(r.ids) for r in rollouts),
        "truncated": sum(r.status == "truncated" for r in rollouts) / n,
        "invalid": sum(r.canonical is None and r.answer is None for r in rollouts) / n if parsed else math.nan,
        "failed": sum(math.isnan(r.reward) for r in rollouts) / n,
        "rollouts": float(n),
        "generated_tokens": float(sum(drawn.values())),
        "discarded": drawn["discarded"] / max(sum(drawn.values()), 1),
        "foreign": sum(len(r.ids) for r in rollouts if r.source) / max(written, 1),
        "sampled_entropy": sampled_entropy(rollouts),
    }


def sampled_entropy(rollouts: list[Rollout]) -> float:
    """Mean of -log p over the tokens that the policy drew; NaN when none has a recorded log-probability."""
    total, count = 0.0, 0
    for rollout in rollouts:
        if rollout.logp_sampling is not None and not rollout.source:
            forced = sum(rollout.forced_mask or ())  # their log-probability is recorded as 0
            total, count = total - math.fsum(rollout.logp_sampling), count + len(rollout.logp_sampling) - forced
    return total / count if count else math.nan


def length_drift(before: list[float], now: float, *, first: int = 10) -> float:
    """Mean length now relative to that of the first steps, minus 1.

    >>> length_drift([10.0, 10.0], 13.0, first=2)
    0.3
    """
    start = [*before, now][:first]
    return round(now / fmean(start) - 1.0, 6) if fmean(start) else math.nan


def check_failures(failed: float, total: int, tolerance: float, first: str) -> None:
    """Raise UserError when more than the tolerated share of rollouts could not be verified."""
    if failed > tolerance * total:
        cause = first.strip().splitlines()[-1] if first.strip() else "on another process"
        raise UserError(
            "task.verify",
            f"{failed:.0f} of {total} rollouts could not be verified ({cause})",
            "Fix the verifier, or raise train.failure_tolerance. Finished steps are kept; the run can be resumed.",
        )


def stops(session: Session, metrics: list[dict[str, Any]]) -> bool:
    """Whether the run stops early. The main process decides: only it has the evaluations."""
    rule = session.config.early_stop
    return rule is not None and session.processes.agree(session.processes.is_main and should_stop(metrics, rule))


def should_stop(metrics: list[dict[str, Any]], rule: EarlyStop) -> bool:
    """Whether the last `patience` values of the metric all stayed below the best earlier one plus `min_delta`.

    A function of the metrics alone, so a resumed run stops where the uninterrupted one would. Undefined values do not
    count. Raises UserError for a metric that no row has.
    """
    known = {name for row in metrics for name in row}
    if metrics and rule.metric not in known:
        what = f"there is no metric '{rule.metric}'"
        raise UserError("train.early_stop.metric", what, did_you_mean(rule.metric, known))
    found = [row[rule.metric] for row in metrics if rule.metric in row]
    values = [value for value in found if value is not None and not math.isnan(value)]
    if len(values) <= rule.patience:
        return False
    return max(values[-rule.patience :]) < max(values[: -rule.patience]) + rule.min_delta
