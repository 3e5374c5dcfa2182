"""The default engine: any causal language model of Hugging Face transformers, on this machine."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.engines.aliases import resolve_model
from polypath.engines.cache import ModelCache, RowCache
from polypath.engines.loading import LoraSpec, add_lora, full_attention, load_pair, lora_spec, read_json, stop_ids
from polypath.engines.memory import by_length, choose_threads
from polypath.engines.protocol import Row, Sample, SamplingParams, Scores, TokenLedger
from polypath.engines.sampling import Limits, sample_rows
from polypath.engines.scoring import score_rows

STATE = "polypath.json"  # what a saved policy adds to a transformers directory: its version


class TransformersPolicy:
    """A causal language model that is sampled, scored, trained and saved (see `engines.protocol.Policy`).

    The model stays in eval mode: a dropout would make scores differ from the sampling distribution. `version` counts
    the updates of the weights; whoever trains raises it. `limits` bounds what one sampling batch holds, `max_tokens`
    the padded tokens of one scoring forward.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "",
        packing: Literal["auto", "packed", "dense"] = "auto",
        limits: Limits | None = None,
        max_tokens: int = 16_384,
    ) -> None:
        self.model, self.tokenizer, self.name, self.packing = model.eval(), tokenizer, name, packing
        self.stored_dtype = ""
        self.ledger, self.version, self.max_tokens = TokenLedger(), 0, max_tokens
        causal = model.get_base_model() if hasattr(model, "peft_config") else model
        self._trunk, self._lm_head, config = (
            causal.base_model,
            causal.get_output_embeddings(),
            causal.config.get_text_config(),
        )
        accepted = inspect.signature(self._trunk.forward).parameters
        # The name changed in transformers 5.2x. A model with neither keeps its state elsewhere and can only be scored.
        self._cache_name = next((n for n in ("cache", "past_key_values", "cache_params") if n in accepted), "")
        self.width, self.vocab_size = int(config.hidden_size), int(config.vocab_size)
        self.max_positions = int(getattr(config, "max_position_embeddings", 0) or 2**31)
        self.full_attention = "position_ids" in accepted and full_attention(config)
        self._scale = float(getattr(config, "logit_scale", None) or 1) / float(
            getattr(config, "logits_scaling", None) or 1
        )
        self._softcap = getattr(config, "final_logit_softcapping", None)
        self.stop_ids = stop_ids(model, tokenizer)
        self.limits = limits or Limits()
        self.config = config

    @classmethod
    def load(
        cls,
        name_or_path: str,
        *,
        dtype: str = "auto",
        device: str = "auto",
        lora: LoraSpec | dict[str, Any] | None = None,
        attention: str = "sdpa",
        packing: Literal["auto", "packed", "dense"] = "auto",
        threads: int | Literal["auto"] = "auto",
    ) -> TransformersPolicy:
        """Load an alias, a hub id, or a directory that holds a model or (after `save` with LoRA) an adapter.

        `dtype="auto"` is float32 on a CPU and the checkpoint's own elsewhere; `threads="auto"` leaves a set
        OMP_NUM_THREADS alone and else suits the model's size. Raises UserError when the model cannot be had.
        """
        path = Path(resolve_model(name_or_path))
        state = read_json(path / STATE)
        adapter = read_json(path / "adapter_config.json")
        given = str(path.resolve()) if path.is_dir() and Path(name_or_path).expanduser().is_dir() else name_or_path
        base = str(adapter["base_model_name_or_path"]) if adapter else given
        device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        kind = "float32" if dtype == "auto" and device == "cpu" else dtype
        model, tokenizer, stored = load_pair(resolve_model(base), path if adapter else None, kind, attention)
        if adapter:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(path), is_trainable=True)
        elif (spec := lora_spec(lora)) is not None:
            model = add_lora(model, spec)
        policy = cls(model.to(device), tokenizer, name=base, packing=packing)
        policy.version, policy.stored_dtype = int(state.get("version", 0)), stored
        if device == "cpu" and (threads != "auto" or "OMP_NUM_THREADS" not in os.environ):
            torch.set_num_threads(choose_threads(policy.num_parameters) if threads == "auto" else threads)
        return policy

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self._lm_head.weight.dtype

    @property
    def num_parameters(self) -> int:
        """All weights, tied ones once."""
        return sum(p.numel() for p in self.model.parameters())

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The trainable weights."""
        return (p for p in self.model.parameters() if p.requires_grad)

    def describe(self) -> str:
        """One line: the model, its size, and the device, dtype, threads and packing that were chosen."""
        trainable = sum(p.numel() for p in self.parameters())
        size = f"{self.num_parameters / 1e6:.3g} M parameters ({trainable / 1e6:.3g} M trainable)"
        kind = str(self.dtype).removeprefix("torch.")
        where = f"{kind} on {self.device}"
        if self.device.type == "cpu":
            where += f" with {torch.get_num_threads()} thread(s)"
        packing = self.packing if self.full_attention else "dense"
        note = f" (checkpoint stored in {self.stored_dtype})" if self.stored_dtype not in ("", kind) else ""
        return f"{self.name or self.config.model_type}: {size}, {where}{note}, packing {packing}"

    def new_cache(self, rows: int) -> RowCache | ModelCache:
        """An empty cache for `rows` rows. Raises UserError for a model that takes none."""
        if not self._cache_name:
            kind = self.config.model_type
            raise UserError("sample", f"models of type {kind} take no key-value cache", "Choose another model.")
        if self.full_attention:
            return RowCache.empty(rows, self.device)
        from transformers import DynamicCache

        return ModelCache(DynamicCache(config=self.config))

    def hidden(
        self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: RowCache | ModelCache | None = None
    ) -> Tensor:
        """Last-layer states (B, S, d) of tokens (B, S); the cache, when given, is read and extended."""
        store = cache.cache if isinstance(cache, ModelCache) else cache
        if mask is not None and self.config._attn_implementation == "eager":  # which adds its mask to the logits
            mask = torch.zeros_like(mask, dtype=self.dtype).masked_fill(~mask, torch.finfo(self.dtype).min)
        extra: dict[str, Any] = {} if store is None else {self._cache_name: store}
        if self.full_attention:
            extra["position_ids"] = positions
        return self._trunk(input_ids=ids, attention_mask=mask, use_cache=store is not None, **extra)[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits (..., V) of states (..., d), with the model's own scaling and soft cap."""
        logits = self._lm_head(hidden).float()
        if self._scale != 1:
            logits = logits * self._scale
        return logits if self._softcap is None else torch.tanh(logits / self._softcap) * self._softcap

    @property
    def no_scores(self) -> Tensor:
        """The scores of a row without ids."""
        return torch.zeros(0, device=self.device)

    def sample(self, prefixes: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int]) -> list[Sample]:
        """One sample per prefix, drawn with `seeds[i]` alone; equal and nested prefixes are prefilled once."""
        return sample_rows(self, prefixes, params, seeds)

    def score(
        self,
        rows: Sequence[Row],
        *,
        need: frozenset[str] = frozenset({"logp"}),
        temperature: float = 1.0,
        grad: bool = False,
    ) -> Scores:
        """Log-probabilities, entropies and predicting states of each row's ids, differentiable when `grad`."""
        return score_rows(self, rows, need, temperature, grad)

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """Mean of the last layer's states over a text's tokens, unit norm, float32, shape (n, d).

        An empty text is embedded as the end-of-sequence token; texts are cut at 512 tokens or the context.
        """
        most = min(512, self.max_positions)
        ids = [list(self.tokenizer(text)["input_ids"])[:most] or [self.stop_ids[0]] for text in texts]
        out = torch.zeros(len(ids), self.width)
        for part in by_length([len(row) for row in ids], self.max_tokens):
            width = max(len(ids[i]) for i in part)
            tokens = torch.tensor([ids[i] + ids[i][:1] * (width - len(ids[i])) for i in part], device=self.device)
            sizes = torch.tensor([len(ids[i]) for i in part], device=self.device)[:, None]
            positions = torch.arange(width, device=self.device).expand_as(tokens)
            states = self.hidden(tokens, positions, None).float() * (positions < sizes)[:, :, None]
            mean = states.sum(1) / sizes
            out[part] = torch.nn.functional.normalize(mean, dim=-1).cpu()
        return out

    def save(self, path: str) -> None:
        """Write the model (or the adapter with a reference to its base), the tokenizer and the version.

        Raises UserError for an adapter whose base has no name to load it from again.
        """
        if hasattr(self.model, "peft_config"):
            if not self.name:
                raise UserError("save", "the adapter's base model has no name", "Save the base, then load it by path.")
            for config in self.model.peft_config.values():
                config.base_model_name_or_path = self.name
            # "auto" would ask the hub for the base by its name; an adapter of ours never holds embeddings.
            self.model.save_pretrained(path, save_embedding_layers=False)
        else:
            self.model.save_pretrained(path)
        self.tokenizer.save_pretrained(path)
        Path(path, STATE).write_text(json.dumps({"version": self.version}) + "\n", encoding="utf-8")


@register("engine", "transformers")
def transformers_engine(
    model: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    lora: dict[str, Any] | None = None,
    attention: str = "sdpa",
    packing: Literal["auto", "packed", "dense"] = "auto",
    threads: int | Literal["auto"] = "auto",
) -> TransformersPolicy:
    """A transformers model on this machine: an alias, a hub id or a directory; `lora` as in LoraSpec."""
    return TransformersPolicy.load(
        model, dtype=dtype, device=device, lora=lora, attention=attention, packing=packing, threads=threads
    )
