"""What a recipe needs, from its numbers and the model's files alone: nothing is loaded."""

from __future__ import annotations

import json

from polypath.core.environment import free_memory
from polypath.core.errors import UserError
from polypath.engines.aliases import on_disk
from polypath.engines.memory import estimate_memory, num_parameters_of
from polypath.train.config import ModelConfig, Recipe, seeded_name

RUNTIME = 2**29  # bytes of the interpreter with torch, before any weight
PROMPT_TOKENS = 256  # assumed per prompt; how long prompts are is known only to the tokenizer


def memory_needed(recipe: Recipe) -> int | None:
    """Estimated peak memory of one run in bytes; None while the model's files are not here."""
    loop = recipe.train or recipe.sft
    if loop is None or not isinstance(recipe.model, ModelConfig):
        return None
    path = on_disk(seeded_name(recipe.model, recipe.seed))
    if path is None or not any(path.glob("*.safetensors")):
        return None
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    if "vocab_size" not in config:
        return None
    tokens = loop.tokens_per_microbatch
    if recipe.train:
        group = PROMPT_TOKENS + recipe.rollout.group_size * recipe.rollout.max_new_tokens
        # A micro-batch holds at least a whole group, and never more than the step.
        tokens = max(group, min(tokens, recipe.train.prompts_per_step * group))
    parameters = num_parameters_of(path)
    trainable = parameters // 100 if recipe.model.lora else parameters
    hidden, layers = (
        config.get(a, config.get(b)) for a, b in (("hidden_size", "n_embd"), ("num_hidden_layers", "n_layer"))
    )
    if hidden is None or layers is None:
        return None
    return estimate_memory(parameters, trainable, tokens, config["vocab_size"], hidden, layers) + RUNTIME


def check_fits(recipe: Recipe) -> None:
    """Raise UserError when the run's estimated memory is more than this machine has free."""
    need, free = memory_needed(recipe), free_memory()
    if need is not None and free is not None and need > free:
        raise UserError(
            "model.name",
            f"a run needs about {need / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free",
            "Lower train.tokens_per_microbatch or rollout.group_size, use model.lora, or choose a smaller model.",
        )
