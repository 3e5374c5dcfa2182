"""Supervised training on a task's demonstrations: the start that reinforcement learning sharpens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from polypath.core.errors import UserError
from polypath.core.rundir import RunDir
from polypath.core.seeds import derive, rng
from polypath.credit import Memory
from polypath.engines.chat import encode_prompt
from polypath.engines.protocol import Row, Scores
from polypath.engines.scoring import plan_microbatches
from polypath.engines.transformers import TransformersPolicy
from polypath.tasks.environments.task import EnvironmentTask
from polypath.tasks.protocol import Enumerable, Prompt, Task
from polypath.train.checkpoint import save_checkpoint
from polypath.train.config import SftConfig
from polypath.train.imitation import imitation_rows
from polypath.train.learner import Learner


@dataclass
class Sft:
    """A supervised run over (prompt, demonstration) pairs, drawn uniformly with a seed."""

    config: SftConfig
    policy: TransformersPolicy
    learner: Learner
    rows: list[Row]
    run: RunDir
    seed: int
    start: int = 0

    def train(self, watch: Callable[[int, dict[str, float]], None]) -> None:
        """Run from `start` to the last step; `watch` sees every step's metrics."""
        for step in range(self.start, self.config.steps):
            metrics = {"step": step, **self.train_step(step)}
            self.run.append_metrics(metrics)
            watch(step, metrics)
            done = step + 1
            if done % self.config.save_every == 0 or done == self.config.steps:
                save_checkpoint(self.run.path / "checkpoints", done, self.policy, self.learner, Memory())

    def train_step(self, step: int) -> dict[str, float]:
        """One update on `batch` rows, token-mean cross-entropy."""
        order = rng(self.seed, "sft", step)
        rows = [self.rows[order.randrange(len(self.rows))] for _ in range(self.config.batch)]
        total = sum(len(row.ids) for row in rows)

        def loss(indices: list[int], scores: Scores) -> tuple[torch.Tensor, dict[str, float]]:
            return -torch.cat(scores.logp).sum() / total, {}

        plan = plan_microbatches([[row] for row in rows], self.config.tokens_per_microbatch)
        return self.learner.update(rows, plan, loss, need=frozenset({"logp"}))


def demonstration_rows(
    policy: TransformersPolicy, task: Task, prompts: Sequence[Prompt], per_prompt: int, seed: int
) -> list[Row]:
    """Up to `per_prompt` demonstrations of each prompt as rows that end with the end-of-sequence token.

    Raises UserError for a task that has no demonstrations.
    """
    if isinstance(task, EnvironmentTask):
        return imitation_rows(policy.tokenizer, task, prompts, per_prompt, seed)
    if not isinstance(task, Enumerable):
        raise UserError("task", f"'{task.name}' has no demonstrations to learn from", "Use a task that has some.")
    end = policy.tokenizer.eos_token_id
    rows = []
    for prompt in prompts:
        texts = list(task.demonstrations(prompt))
        if len(texts) > per_prompt:
            texts = rng(derive(seed, "demonstrations"), prompt.id).sample(texts, per_prompt)
        prefix = tuple(encode_prompt(policy.tokenizer, prompt.text, task.chat))
        answers = policy.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        rows += [Row(prefix, (*answer, end)) for answer in answers]
    if not rows:
        raise UserError("task", f"'{task.name}' has no demonstrations for its training prompts", "Check the task.")
    return rows
