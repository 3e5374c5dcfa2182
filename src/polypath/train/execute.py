"""What happens inside a run once torch may load: build the session, train, evaluate, save."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from polypath import credit
from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.files import atomic_write, to_json
from polypath.core.recipe import Call
from polypath.core.record import Rollout
from polypath.core.rundir import RunDir
from polypath.core.seeds import derive
from polypath.core.store import RolloutWriter, truncate_to
from polypath.engines.protocol import SamplingParams
from polypath.engines.tiny import build_gpt2
from polypath.engines.transformers import LoraSpec, TransformersPolicy
from polypath.rollout import plan as rollout_plan
from polypath.tasks.protocol import Prompt, Task
from polypath.train.checkpoint import checkpoints, load_state
from polypath.train.config import EvaluateConfig, ModelConfig, Recipe, SftConfig, TinyModelConfig, TrainConfig
from polypath.train.learner import Learner
from polypath.train.objective import Objective
from polypath.train.processes import Processes
from polypath.train.progress import RunProgress, Silence
from polypath.train.rl import Session, run_rl
from polypath.train.sampling import sample_evaluation
from polypath.train.sft import Sft, demonstration_rows

Summarise = Callable[[list[Rollout], Any], dict[str, Any]]


@dataclass
class Execution:
    """One run of a resolved recipe, from its start or its last checkpoint to the saved policy."""

    recipe: Recipe
    task: Task
    run: RunDir
    summarise: Summarise
    progress: RunProgress

    def execute(self) -> None:
        """Train (or resume), leave the policy in `run/model`, and sample the final evaluation."""
        torch.manual_seed(derive(self.recipe.seed, "torch"))
        disable_progress_bar()  # its bars would break ours, once for every file that is written
        with self.progress.phase("loading the model"):
            policy = self.policy
        shared = f"; {self.processes.size} processes share the prompts" if self.processes.size > 1 else ""
        self.progress.note(policy.describe() + shared)
        if self.processes.is_main:  # what a killed run wrote after its last checkpoint is done again
            for path in (self.run.rollouts, self.run.metrics):
                truncate_to(path, self.saved["step"] if self.saved else 0)
        self.processes.wait()
        if self.recipe.sft is not None:
            self.train_supervised(self.recipe.sft)
        elif self.recipe.train is not None and self.recipe.train.steps > 0:
            self.train_reinforced(self.recipe.train)
        if self.processes.is_main:
            policy.save(str(self.run.path / "model"))
            if self.recipe.evaluate is not None:
                with self.progress.phase("final evaluation"):
                    self.finish(self.recipe.evaluate)

    @cached_property
    def checkpoint(self) -> Path | None:
        """The last complete checkpoint of this run."""
        done = checkpoints(self.run.checkpoints)
        return done[-1] if done else None

    @cached_property
    def saved(self) -> dict[str, Any] | None:
        """The state of the checkpoint to continue from; None at the start."""
        return load_state(self.checkpoint) if self.checkpoint else None

    @cached_property
    def policy(self) -> TransformersPolicy:
        """The policy to train: the checkpoint's, the recipe's, or a new one on the task's vocabulary."""
        config, resumed = self.recipe.model, self.checkpoint
        if isinstance(config, TinyModelConfig):
            return TransformersPolicy.load(str(resumed / "model")) if resumed else self._from_scratch(config)
        lora = LoraSpec(**vars(config.lora)) if config.lora and not resumed else None
        name = str(resumed / "model") if resumed else config.name
        return TransformersPolicy.load(
            name, dtype=config.dtype, device=config.device, packing=config.packing, lora=lora
        )

    def _from_scratch(self, config: TinyModelConfig) -> TransformersPolicy:
        vocabulary = getattr(self.task, "vocabulary", None)
        if vocabulary is None:
            what = f"task '{self.task.name}' has no word-level vocabulary"
            raise UserError("model", what, "Name a model: model: {name: ...}")
        return build_gpt2(vocabulary(), **vars(config), seed=derive(self.recipe.seed, "model"))

    @cached_property
    def processes(self) -> Processes:
        """This process among those that `accelerate launch` started."""
        return Processes.detect(str(self.policy.device))

    def train_reinforced(self, config: TrainConfig) -> None:
        """The reinforcement-learning loop with its curves."""
        session = build_session(self.recipe, self.task, self.policy, self.run, self.processes)
        if self.saved is not None:
            session.learner.load_state_dict(self.saved["learner"])
            session.memory.load_state_dict(self.saved["memory"])
            session.start = self.saved["step"]

        silent = Silence(config.steps - session.start)

        def watch(step: int, metrics: dict[str, float]) -> None:
            if told := silent.tell(metrics):
                self.progress.note(told)
            shown = {"reward": "reward", "distinct_per_correct_set": "distinct", "length": "length"}
            self.progress.step(step + 1, **{label: metrics[name] for name, label in shown.items() if name in metrics})

        done = run_rl(session, evaluate=self.curve_point, watch=watch)
        if self.recipe.evaluate and self.recipe.evaluate.every and self.processes.is_main and done == config.steps:
            self.run.append_metrics({"step": done, **self.curve_point(done)})

    def train_supervised(self, config: SftConfig) -> None:
        """The supervised loop."""
        prompts = self.task.prompts("train", n=config.prompts, seed=0)
        rows = demonstration_rows(self.policy, self.task, prompts, config.per_prompt, self.recipe.seed)
        learner = Learner(self.policy, self.recipe.optim, config.steps, self.processes)
        sft = Sft(config, self.policy, learner, rows, self.run, self.recipe.seed)
        if self.saved is not None:
            learner.load_state_dict(self.saved["learner"])
            sft.start = self.saved["step"]
        sft.train(lambda step, metrics: self.progress.step(step + 1, loss=metrics["loss"]))

    def curve_point(self, step: int) -> dict[str, Any]:
        """Metrics of the policy as it is, on a few prompts of the dev split."""
        config = self.recipe.evaluate or EvaluateConfig()
        prompts = self.task.prompts("dev", n=config.curve_prompts, seed=0)
        return self.evaluate(config, prompts, config.curve_samples, f"step-{step:06d}", step)

    def finish(self, config: EvaluateConfig) -> None:
        """The final table's rollouts into `evaluation/final.jsonl`; their means to `final.json`."""
        prompts = self.task.prompts(config.split, n=config.prompts, seed=0)
        # Every arm draws with the same noise, whatever number of steps it took.
        metrics = self.evaluate(config, prompts, config.samples, "final", 0)
        loop = self.recipe.train or self.recipe.sft
        atomic_write(self.run.path / "final.json", to_json({"step": loop.steps if loop else 0, **metrics}) + "\n")

    def evaluate(
        self, config: EvaluateConfig, prompts: Sequence[Prompt], samples: int, name: str, step: int
    ) -> dict[str, Any]:
        """Sample `prompts` from the whole distribution and summarise; metrics are named `eval/...`."""
        rollouts = sample_evaluation(
            self.policy,
            self.task,
            prompts,
            samples,
            self.run.path / "evaluation" / f"{name}.jsonl",
            params=SamplingParams(self.recipe.rollout.max_new_tokens, config.temperature),
            seed=self.recipe.seed,
            step=step,
            plan=config.plan,
        )
        metrics = self.summarise(rollouts, [k for k in config.ks if k <= samples])
        return {f"eval/{name}": value for name, value in metrics.items() if not math.isnan(value)}


def build_session(recipe: Recipe, task: Task, policy: TransformersPolicy, run: RunDir, processes: Processes) -> Session:
    """The parts of the reinforcement-learning loop, at step 0. Raises UserError when the recipe is not for it."""
    config, rollout = recipe.train, recipe.rollout
    params = SamplingParams(rollout.max_new_tokens, rollout.temperature, rollout.top_p, rollout.top_k)
    plan = rollout_plan.build(
        rollout.plan or {"grpo": {"n": rollout.group_size}},
        params=params,
        sources={name: TransformersPolicy.load(model) for name, model in rollout.sources.items()},
        max_tokens=rollout.max_tokens,
    )
    method = recipe.credit or plan.credit
    if config is None or method is None:
        raise UserError("recipe", "needs the sections train and credit", "See polypath show quickstart.")
    pipeline = credit.build(method, providers={"embeddings": policy.embed})
    loss = with_length(recipe.loss or pipeline.loss or Call("loss", "policy_clip", {}), params.max_new_tokens)
    return Session(
        recipe=recipe,
        policy=policy,
        task=task,
        pool=task.prompts("train", n=config.prompt_pool, seed=0),
        plan=plan,
        pipeline=pipeline,
        learner=Learner(policy, recipe.optim, config.steps * config.updates_per_batch, processes),
        objective=Objective(policy, loss, config, params.temperature, reference=starting_policy(recipe)),
        run=run,
        writer=RolloutWriter(run.rollouts) if processes.is_main else None,
        processes=processes,
    )


def with_length(loss: Call, max_new_tokens: int) -> Call:
    """Fill a loss's `constant_length` with the longest completion there can be, where the recipe leaves it open."""
    knobs = registry.entry(loss.kind, loss.name).knobs
    if "constant_length" not in knobs or loss.knobs.get("constant_length") is not None:
        return loss
    return replace(loss, knobs={**loss.knobs, "constant_length": max_new_tokens})


def starting_policy(recipe: Recipe) -> TransformersPolicy | None:
    """The frozen start that a KL term needs, unless it is the base under an adapter."""
    config = recipe.model
    if not (recipe.train and recipe.train.kl > 0 and isinstance(config, ModelConfig) and config.lora is None):
        return None
    return TransformersPolicy.load(config.name, dtype=config.dtype, device=config.device, packing=config.packing)
