"""Sentence embeddings from a small encoder: mean pooling, unit norm."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

from polypath.core.errors import UserError
from polypath.engines.aliases import resolve_model
from polypath.engines.loading import no_progress_bars
from polypath.engines.memory import by_length

MOST_TOKENS = 256  # what all-MiniLM-L6-v2 was trained for


class Embedder:
    """Texts to unit vectors by the mean of an encoder's last states (Reimers and Gurevych 2019, arXiv:1908.10084).

    Vectors are remembered by the hash of their text, the `cache_size` used last.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int = 8192, cache_size: int = 50_000) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.batch_tokens, self.cache_size = batch_tokens, cache_size
        self.width = int(model.config.hidden_size)
        self._cache: OrderedDict[bytes, np.ndarray] = OrderedDict()

    @classmethod
    def load(cls, name_or_path: str = "minilm", *, device: str = "cpu") -> Embedder:
        """Load an encoder by alias, directory or hub id. Raises UserError when it cannot be had."""
        from transformers import AutoModel, AutoTokenizer

        path = str(resolve_model(name_or_path))
        try:
            with no_progress_bars():
                tokenizer = AutoTokenizer.from_pretrained(path)
                model = AutoModel.from_pretrained(path, dtype=torch.float32)
        except (OSError, ValueError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise UserError(f"model '{name_or_path}'", reason, "Check the name, or use the alias minilm.") from error
        return cls(model.to(device), tokenizer)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings (n, d), float32, unit norm. An empty text is what the encoder makes of its special tokens."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        vectors: dict[bytes, np.ndarray] = {}
        missing: dict[bytes, str] = {}
        for key, text in zip(keys, texts, strict=True):
            if key in self._cache:
                self._cache.move_to_end(key)
                vectors[key] = self._cache[key]
            else:
                missing[key] = text
        for key, vector in zip(missing, self._embed(list(missing.values())), strict=True):
            vectors[key] = self._cache[key] = vector
        while len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)
        return np.stack([vectors[key] for key in keys]) if keys else np.zeros((0, self.width), dtype=np.float32)

    @torch.no_grad()
    def _embed(self, texts: list[str]) -> np.ndarray:
        clean = [text.encode("utf-8", "replace").decode() for text in texts]  # lone surrogates break tokenizers
        ids = self.tokenizer(clean, truncation=True, max_length=MOST_TOKENS)["input_ids"] if clean else []
        out = np.zeros((len(ids), self.width), dtype=np.float32)
        for part in by_length([len(row) for row in ids], self.batch_tokens):
            batch = self.tokenizer.pad({"input_ids": [ids[i] for i in part]}, return_tensors="pt")
            batch = {name: tensor.to(self.model.device) for name, tensor in batch.items()}
            states = self.model(**batch)[0]
            mask = batch["attention_mask"][:, :, None]
            mean = (states * mask).sum(1) / mask.sum(1)
            out[part] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return out
