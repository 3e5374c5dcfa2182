"""The schema of a training recipe. Every field is one key of the YAML file; nothing else is accepted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from polypath.core.recipe import Call, Kind, Kinds, Range
from polypath.credit.spec import KINDS
from polypath.rollout.plan import KINDS as OPERATORS


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters on the modules of `target`."""

    r: Annotated[int, Range(1, None)] = 8
    alpha: float = 16.0
    target: str | list[str] = "all-linear"


@dataclass(frozen=True)
class ModelConfig:
    """Which model, and how it runs. `{seed}` in the name is replaced by the run's seed."""

    name: str
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    threads: Annotated[int, Range(1, None)] | None = None
    packing: Literal["auto", "packed", "dense"] = "auto"
    lora: LoraConfig | None = None


def seeded_name(model: ModelConfig, seed: int) -> str:
    """The model's name with `{seed}` filled in; other braces are part of the name."""
    return model.name.replace("{seed}", str(seed))


@dataclass(frozen=True)
class TinyModelConfig:
    """A GPT-2 trained from scratch on the task's own word-level vocabulary (supervised training only)."""

    n_embd: int = 96
    n_layer: int = 3
    n_head: int = 4
    n_inner: int = 192


@dataclass(frozen=True)
class RolloutConfig:
    """How each prompt is turned into groups of rollouts.

    `plan` is a preset or a list of operators; without one, `group_size` independent answers. `sources` are further
    models by the names that the plan uses; `max_tokens` bounds what is drawn for a prompt.
    """

    plan: Annotated[Call, Kind("plan")] | Annotated[list[Call], Kinds(*OPERATORS)] | None = None
    sources: dict[str, str] = field(default_factory=dict)
    max_tokens: Annotated[int, Range(1, None)] | None = None
    group_size: Annotated[int, Range(1, None)] = 8
    max_new_tokens: Annotated[int, Range(1, None)] = 64
    temperature: Annotated[float, Range(0.0, None)] = 1.0
    top_p: Annotated[float, Range(0.0, 1.0)] = 1.0
    top_k: Annotated[int, Range(0, None)] = 0


@dataclass(frozen=True)
class OptimConfig:
    """AdamW with a warm-up. Gradients are clipped to `grad_norm` over all trained parameters."""

    lr: Annotated[float, Range(0.0, None)] = 1e-5
    betas: tuple[float, float] = (0.9, 0.99)
    eps: Annotated[float, Range(0.0, None)] = 1e-8
    weight_decay: Annotated[float, Range(0.0, None)] = 0.0
    warmup_steps: Annotated[int, Range(0, None)] = 0
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    grad_norm: Annotated[float, Range(0.0, None)] = 1.0


@dataclass(frozen=True)
class EarlyStop:
    """Stop when the mean of `metric` over `patience` steps has not risen by `min_delta` above its best."""

    metric: str = "reward"
    patience: Annotated[int, Range(1, None)] = 50
    min_delta: float = 0.0


@dataclass(frozen=True)
class TrainConfig:
    """The loop. A batch is `prompts_per_step` prompts times `rollout.group_size` rollouts; the rest is derived.

    `prompt_pool` bounds how many training prompts are used; `kl` pulls towards the starting policy; `correction`
    weighs advantages for a sampler that is not quite the policy, as in {importance: {mode: mask}}.
    """

    steps: Annotated[int, Range(0, None)]
    prompts_per_step: Annotated[int, Range(1, None)] = 8
    prompt_pool: Annotated[int, Range(1, None)] = 100_000
    updates_per_batch: Annotated[int, Range(1, None)] = 1
    tokens_per_microbatch: Annotated[int, Range(1, None)] = 256
    skip_dead_groups: bool = True
    bare_weight: Annotated[float, Range(0.0, None)] = 0.1  # of the term that loss_context "both" adds
    denominator: Literal["all", "live"] = "all"
    kl: Annotated[float, Range(0.0, None)] = 0.0
    entropy: float = 0.0
    correction: Annotated[Call, Kind("correction")] | None = None
    save_every: Annotated[int, Range(1, None)] = 100
    rollouts_every: Annotated[int, Range(1, None)] = 1
    failure_tolerance: Annotated[float, Range(0.0, 1.0)] = 0.05
    early_stop: EarlyStop | None = None


@dataclass(frozen=True)
class SftConfig:
    """Supervised training on the task's demonstrations; `per_prompt` solutions of each of `prompts` problems."""

    steps: Annotated[int, Range(0, None)]
    batch: Annotated[int, Range(1, None)] = 64
    prompts: Annotated[int, Range(1, None)] = 10_000
    per_prompt: Annotated[int, Range(1, None)] = 24
    tokens_per_microbatch: Annotated[int, Range(1, None)] = 256
    save_every: Annotated[int, Range(1, None)] = 1000


@dataclass(frozen=True)
class EvaluateConfig:
    """Sampling for the curves (`every` steps, split "dev") and for the final table (`split`, "dev" to tune on).

    `plan` is how answers are drawn where that is not plain sampling, as after training with strategies; the `n` of its
    first operator that has one becomes the number of samples.
    """

    prompts: Annotated[int, Range(1, None)] = 64
    samples: Annotated[int, Range(1, None)] = 16
    split: Literal["dev", "test"] = "test"
    ks: list[Annotated[int, Range(1, None)]] = field(default_factory=lambda: [1, 4, 16])
    every: Annotated[int, Range(1, None)] | None = None
    curve_prompts: Annotated[int, Range(1, None)] = 32
    curve_samples: Annotated[int, Range(1, None)] = 16
    temperature: Annotated[float, Range(0.0, None)] = 1.0
    plan: Annotated[list[Call], Kinds(*OPERATORS)] | None = None


@dataclass(frozen=True)
class Recipe:
    """One training run, or a study when `arms` or several `seeds` are given.

    An arm maps key paths to values, exactly as `-o key.path=value` would: the arms of a study differ in nothing else.
    """

    task: Annotated[Call, Kind("task")]
    model: ModelConfig | TinyModelConfig
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    credit: Annotated[Call, Kind("credit")] | Annotated[list[Call], Kinds(*KINDS)] | None = None
    loss: Annotated[Call, Kind("loss")] | None = None
    train: TrainConfig | None = None
    sft: SftConfig | None = None
    optim: OptimConfig = field(default_factory=OptimConfig)
    evaluate: EvaluateConfig | None = None
    seed: int = 0
    seeds: list[int] = field(default_factory=list)
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    control: str | None = None
    summary: str = ""
    smoke: dict[str, Any] = field(default_factory=dict)
