"""What happens inside a run once torch may load: build the session, train, evaluate, save."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
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
from polypath.rollout.flat import FlatPlan
from polypath.tasks.protocol import Prompt, Task
from polypath.train.checkpoint import checkpoints, load_state
from polypath.train.config import EvaluateConfig, ModelConfig, OptimConfig, Recipe, TinyModelConfig
from polypath.train.learner import Learner
from polypath.train.objective import Objective
from polypath.train.processes import Processes
from polypath.train.progress import RunProgress
from polypath.train.rl import Session, run_rl
from polypath.train.sampling import sample_evaluation
from polypath.train.sft import Sft, demonstration_rows

Summarise = Callable[[list[Rollout], Any], dict[str, Any]]


def execute(recipe: Recipe, task: Task, run: RunDir, *, summarise: Summarise, progress: RunProgress) -> None:
    """Train (or resume), then sample the final evaluation, and leave the policy in `run/model`."""
    torch.manual_seed(derive(recipe.seed, "torch"))
    disable_progress_bar()  # its bars would break ours, once for every file that is written
    with progress.phase("loading the model"):
        policy, saved = load_policy(recipe, task, run)
    progress.note(policy.describe())
    processes = Processes.detect(str(policy.device))
    if recipe.sft is not None:
        train_supervised(recipe, task, policy, run, processes, saved, progress)
    elif recipe.train is not None and recipe.train.steps > 0:
        train_reinforced(recipe, task, policy, run, processes, saved, summarise, progress)
    if processes.is_main:
        policy.save(str(run.path / "model"))
        if recipe.evaluate is not None:
            with progress.phase("final evaluation"):
                finish(recipe, recipe.evaluate, task, policy, run, summarise)


def load_policy(recipe: Recipe, task: Task, run: RunDir) -> tuple[TransformersPolicy, dict[str, Any] | None]:
    """The policy to continue with, and the saved state when the run has a checkpoint."""
    done = checkpoints(run.checkpoints)
    if isinstance(recipe.model, TinyModelConfig):
        if done:
            return TransformersPolicy.load(str(done[-1] / "model")), load_state(done[-1])
        return scratch_policy(recipe.model, task, recipe.seed), None
    config: ModelConfig = recipe.model
    lora = LoraSpec(**vars(config.lora)) if config.lora else None
    name = str(done[-1] / "model") if done else config.name
    policy = TransformersPolicy.load(
        name, dtype=config.dtype, device=config.device, packing=config.packing, lora=None if done else lora
    )
    return policy, load_state(done[-1]) if done else None


def scratch_policy(config: TinyModelConfig, task: Task, seed: int) -> TransformersPolicy:
    """A GPT-2 over the task's vocabulary. Raises UserError when the task has none."""
    vocabulary = getattr(task, "vocabulary", None)
    if vocabulary is None:
        raise UserError("model", f"task '{task.name}' has no word-level vocabulary", "Name a model: model: {name: ...}")
    return build_gpt2(vocabulary(), **vars(config), seed=derive(seed, "model"))


def train_reinforced(
    recipe: Recipe,
    task: Task,
    policy: TransformersPolicy,
    run: RunDir,
    processes: Processes,
    saved: dict[str, Any] | None,
    summarise: Summarise,
    progress: RunProgress,
) -> None:
    """The reinforcement-learning part of a run."""
    if processes.is_main:
        truncate(run, saved["step"] if saved else 0)
    processes.wait()
    session = build_session(recipe, task, policy, run, processes, saved)
    curve = task.prompts("dev", n=recipe.evaluate.curve_prompts, seed=0) if recipe.evaluate else []

    def evaluate(step: int) -> dict[str, Any]:
        config = recipe.evaluate or EvaluateConfig()
        path = run.path / "evaluation" / f"step-{step:06d}.jsonl"
        return evaluation(recipe, config, task, policy, curve, config.curve_samples, path, step, summarise)

    def watch(step: int, metrics: dict[str, float]) -> None:
        shown = {"reward": "reward", "distinct_per_correct_set": "distinct", "length": "length"}
        progress.step(step + 1, **{label: metrics[name] for name, label in shown.items() if name in metrics})

    done = run_rl(session, evaluate=evaluate, watch=watch)
    if recipe.evaluate and recipe.evaluate.every and processes.is_main and done == session.config.steps:
        run.append_metrics({"step": done, **evaluate(done)})


def build_session(
    recipe: Recipe,
    task: Task,
    policy: TransformersPolicy,
    run: RunDir,
    processes: Processes,
    saved: dict[str, Any] | None = None,
) -> Session:
    """Put the parts of a reinforcement-learning run together, at the step where `saved` left off."""
    config = recipe.train
    if config is None or recipe.credit is None:
        raise UserError("recipe", "needs the sections train and credit", "See polypath show quickstart.")
    pool: list[Prompt] = task.prompts("train", n=config.prompt_pool, seed=0)
    pipeline = credit.build(recipe.credit, providers={"embeddings": policy.embed})
    params = sampling_params(recipe)
    loss = with_length(recipe.loss or pipeline.loss or Call("loss", "policy_clip", {}), params.max_new_tokens)
    learner = Learner(policy, recipe.optim, config.steps * config.updates_per_batch, processes)
    session = Session(
        recipe=recipe,
        policy=policy,
        task=task,
        pool=pool,
        plan=FlatPlan(recipe.rollout.group_size, params),
        pipeline=pipeline,
        learner=learner,
        objective=Objective(policy, loss, config, params.temperature, reference=starting_policy(recipe)),
        run=run,
        writer=RolloutWriter(run.rollouts) if processes.is_main else None,
        processes=processes,
    )
    if saved is not None:
        learner.load_state_dict(saved["learner"])
        session.memory.load_state_dict(saved["memory"])
        session.start = saved["step"]
    return session


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


def truncate(run: RunDir, step: int) -> None:
    """Drop the rows that a killed run wrote after its last checkpoint."""
    truncate_to(run.rollouts, step)
    truncate_to(run.metrics, step)


def train_supervised(
    recipe: Recipe,
    task: Task,
    policy: TransformersPolicy,
    run: RunDir,
    processes: Processes,
    saved: dict[str, Any] | None,
    progress: RunProgress,
) -> None:
    """The supervised part of a run."""
    config = recipe.sft
    if config is None:
        raise UserError("sft", "the recipe has no sft section", "Add sft: {steps: ...}.")
    prompts = task.prompts("train", n=config.prompts, seed=0)
    rows = demonstration_rows(policy, task, prompts, config.per_prompt, recipe.seed)
    optim: OptimConfig = recipe.optim
    sft = Sft(config, policy, Learner(policy, optim, config.steps, processes), rows, run, recipe.seed)
    if saved is not None:
        sft.learner.load_state_dict(saved["learner"])
        sft.start = saved["step"]
    truncate(run, sft.start)
    sft.train(lambda step, metrics: progress.step(step + 1, loss=metrics["loss"]))


def sampling_params(recipe: Recipe) -> SamplingParams:
    """The rollout section as sampling parameters."""
    config = recipe.rollout
    return SamplingParams(config.max_new_tokens, config.temperature, config.top_p, config.top_k)


def evaluation(
    recipe: Recipe,
    config: EvaluateConfig,
    task: Task,
    policy: TransformersPolicy,
    prompts: list[Prompt],
    samples: int,
    path: Path,
    step: int,
    summarise: Summarise,
) -> dict[str, Any]:
    """Sample `prompts` and summarise; metrics are named `eval/...`."""
    params = SamplingParams(recipe.rollout.max_new_tokens, config.temperature)
    rollouts = sample_evaluation(policy, task, prompts, samples, path, params=params, seed=recipe.seed, step=step)
    ks = [k for k in config.ks if k <= samples]
    metrics = summarise(rollouts, ks)
    return {f"eval/{name}": value for name, value in metrics.items() if not _is_nan(value)}


def finish(
    recipe: Recipe,
    config: EvaluateConfig,
    task: Task,
    policy: TransformersPolicy,
    run: RunDir,
    summarise: Summarise,
) -> None:
    """The final table's rollouts, on the test split, into `evaluation/final.jsonl`."""
    prompts = task.prompts("test", n=config.prompts, seed=0)
    steps = recipe.train.steps if recipe.train else recipe.sft.steps if recipe.sft else 0
    path = run.path / "evaluation" / "final.jsonl"
    # Every arm draws with the same noise, whatever number of steps it took.
    metrics = evaluation(recipe, config, task, policy, prompts, config.samples, path, 0, summarise)
    atomic_write(run.path / "final.json", to_json({"step": steps, **metrics}) + "\n")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
