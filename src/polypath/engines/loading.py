"""From a directory to a model and its tokenizer, and what its configuration says about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, did_you_mean, missing_extra

RECURRENT = ("ssm_cfg", "state_size", "mamba_d_state", "linear_num_key_heads")  # marks of state-space layers
PLAIN_ATTENTION = {"full_attention", "global", None}


@dataclass(frozen=True)
class LoraSpec:
    """Low-rank adapters (Hu et al. 2021, arXiv:2106.09685) on the modules of `target`; `seed` draws their weights."""

    r: int = 8
    alpha: int = 16
    target: str | tuple[str, ...] = "all-linear"
    seed: int = 0


def load_pair(base: str | Path, tokenizer_from: Path | None, dtype: str, attention: str) -> tuple[Any, Any, str]:
    """The causal model at `base`, its tokenizer, and the dtype it is stored in.

    Raises UserError when one of them cannot be loaded.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    try:
        with no_progress_bars():
            tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_from or base))
            config = AutoConfig.from_pretrained(str(base))
            stored = str(config.dtype or "float32").removeprefix("torch.")
            model = AutoModelForCausalLM.from_pretrained(
                str(base), config=config, dtype=dtype, attn_implementation=attention
            )
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        if "attn_implementation" in str(error):
            raise UserError(f"model '{base}'", f"does not support attention: {attention}", "Use eager.") from error
        fix = "Check the name, the connection and the files, or use an alias such as smollm2."
        raise UserError(f"model '{base}'", reason, fix) from error
    return model, tokenizer, stored


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep transformers' bars (one per load) out of the user's output."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def add_lora(model: Any, spec: LoraSpec) -> Any:
    """The model with trainable adapters and everything else frozen."""
    import torch

    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise missing_extra("lora", "peft", "train") from error
    target = spec.target if isinstance(spec.target, str) else list(spec.target)
    config = LoraConfig(
        r=spec.r,
        lora_alpha=spec.alpha,
        target_modules=target,
        task_type="CAUSAL_LM",
        fan_in_fan_out=model.config.model_type == "gpt2",  # its layers store transposed weights
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        return get_peft_model(model, config)


def lora_spec(options: LoraSpec | dict[str, Any] | None) -> LoraSpec | None:
    """A LoraSpec from recipe options. Raises UserError for an option that it does not have."""
    if options is None or isinstance(options, LoraSpec):
        return options
    known = asdict(LoraSpec())
    for key in options:
        if key not in known:
            raise UserError("lora", f"no option named '{key}'", did_you_mean(key, known))
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    return replace(LoraSpec(), **values)


def full_attention(config: Any) -> bool:
    """Whether every layer is plain causal attention, so that packed and left-padded sequences are exact."""
    kinds = set(getattr(config, "layer_types", None) or getattr(config, "attention_layers", None) or [None])
    sliding = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    recurrent = any(
        hasattr(config, name) for name in ("ssm_cfg", "state_size", "mamba_d_state", "linear_num_key_heads")
    )
    alibi = getattr(config, "alibi", False) or config.model_type in {"bloom", "mpt"}
    # layer_types is the finer statement: a config may carry a window that none of its layers uses.
    plain = kinds <= PLAIN_ATTENTION and (kinds != {None} or not sliding)
    masked = getattr(config, "_attn_implementation", "sdpa") in {"sdpa", "eager"}  # flash kernels take no 4-D mask
    return masked and plain and not recurrent and not alibi and not getattr(config, "attention_chunk_size", None)


def stop_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The end-of-sequence ids of the tokenizer and of the model's generation settings."""
    found = {tokenizer.eos_token_id}
    extra = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    found |= set(extra) if isinstance(extra, (list, tuple)) else {extra}
    return tuple(sorted(i for i in found if i is not None))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, or an empty one when there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
