"""The uniform control: every prompt gets the same number of independent rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from polypath.core.record import Batch, Rollout
from polypath.core.seeds import derive
from polypath.engines.chat import decode, encode_prompt
from polypath.engines.protocol import Policy, Sample, SamplingParams
from polypath.tasks.protocol import Prompt, Score, Task
from polypath.tasks.verify import Failures, verify_all


@dataclass(frozen=True)
class FlatPlan:
    """`group_size` rollouts per prompt from one sampling distribution.

    A draw is keyed by (seed, purpose, step, position, index), so two arms with the same seed see the same noise on the
    same prompts, and a resumed run draws what the uninterrupted one would have drawn.
    """

    group_size: int
    params: SamplingParams = field(default_factory=SamplingParams)

    def collect(
        self,
        policy: Policy,
        task: Task,
        prompts: Sequence[tuple[int, Prompt]],
        *,
        seed: int,
        step: int,
        purpose: str = "train",
    ) -> tuple[Batch, Failures]:
        """Sample and verify one batch. `prompts` are (position in the batch, prompt): one group for each."""
        encoded = [encode_prompt(policy.tokenizer, prompt.text, task.chat) for _, prompt in prompts]
        order = [(p, i) for p in range(len(prompts)) for i in range(self.group_size)]
        seeds = [derive(seed, purpose, step, prompts[p][0], i) for p, i in order]
        samples = policy.sample([encoded[p] for p, _ in order], self.params, seeds)
        texts = [decode(policy.tokenizer, sample.ids) for sample in samples]
        failures = Failures()
        scores = verify_all(task, [prompts[p][1] for p, _ in order], texts, failures)
        rollouts = [
            _record(prompts[p][1], f"{step}/{prompts[p][0]}", i, encoded[p], sample, text, score, step, draw)
            for (p, i), sample, text, score, draw in zip(order, samples, texts, scores, seeds, strict=True)
        ]
        return Batch.from_rollouts(rollouts, step), failures


def _record(
    prompt: Prompt,
    group_id: str,
    index: int,
    prompt_ids: list[int],
    sample: Sample,
    text: str,
    score: Score,
    step: int,
    seed: int,
) -> Rollout:
    return Rollout(
        prompt_id=prompt.id,
        group_id=group_id,
        index=index,
        text=text,
        prompt=prompt.text,
        step=step,
        prompt_ids=list(prompt_ids),
        ids=sample.ids,
        logp_sampling=[round(value, 6) for value in sample.logp],
        status="complete" if sample.finished else "truncated",
        rewards={"task": score.reward},
        correct=score.correct,
        answer=score.answer,
        canonical=score.canonical,
        tokens={"generated": len(sample.ids)},
        seed=seed,
    )
