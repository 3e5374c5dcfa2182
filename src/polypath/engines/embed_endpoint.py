"""Embeddings from any OpenAI-compatible endpoint, each text sent once: kept on disk by address, model and text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from polypath.core.errors import UserError
from polypath.core.files import JsonlWriter, numbered_rows
from polypath.engines.aliases import cache_dir
from polypath.engines.endpoint import Endpoint, key_of_environment

BATCH = 64  # texts a request


@dataclass
class EndpointEmbedder:
    """Texts to unit vectors by `POST <url>/embeddings`; an empty text is sent as one blank, which servers accept.

    Vectors are kept in `cache`, a JSONL file that grows by a request at a time, so that nothing paid for is lost when a
    later one fails. Without one they are kept in memory.
    """

    url: str
    model: str
    cache: str | Path | None = None
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    retries: int = 3
    pause: float = 0.2
    _known: dict[str, np.ndarray] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._endpoint = Endpoint(self.url, self.key, self.timeout, self.retries, self.pause, "--embed")
        if self.cache is not None and Path(self.cache).exists():
            for _, row, _ in numbered_rows(Path(self.cache)):
                self._known[row["key"]] = np.frombuffer(base64.b64decode(row["vector"]), dtype="<f4")

    @classmethod
    def of(cls, name: str) -> EndpointEmbedder:
        """An embedder of `URL#MODEL`, with a cache beside the models and the key of the environment."""
        url, _, model = name.partition("#")
        if not model:
            raise UserError("--embed", f"'{name}' names no model", "Write openai:http://host:port/v1#MODEL.")
        digest = hashlib.sha256(f"{url.rstrip('/')}#{model}".encode()).hexdigest()[:16]
        return cls(url, model, cache=cache_dir() / "embeddings" / f"{digest}.jsonl", key=key_of_environment())

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings (n, d), float32, unit norm. Raises UserError for what is no answer with one vector per text."""
        keys = [self._hash(text) for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        names = list(missing)
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            self._remember(some, self._send([missing[name] for name in some]))
        rows = [self._known[key] for key in keys]
        if len({len(row) for row in rows}) > 1:
            widths = ", ".join(map(str, sorted({len(row) for row in rows})))
            what = f"gave vectors of different width ({widths}) under one name"
            raise UserError(self.url, what, f"Remove {self.cache} if the model was changed.")
        return np.stack(rows) if rows else np.zeros((0, 1), dtype=np.float32)

    def _hash(self, text: str) -> str:
        body = json.dumps([self._endpoint.url, self.model, text])
        return hashlib.sha256(body.encode()).hexdigest()[:32]

    def _send(self, texts: list[str]) -> np.ndarray:
        clean = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        raw = self._endpoint.post("embeddings", {"model": self.model, "input": clean, "encoding_format": "float"})
        try:
            items = sorted(json.loads(raw)["data"], key=lambda item: item["index"])
            rows = np.array([item["embedding"] for item in items], dtype=np.float32)
        except (ValueError, KeyError, TypeError):
            rows = np.zeros(0, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            what = f"answered what is not one vector for each of {len(texts)} texts: {raw[:80]!r}"
            raise UserError(self.url, what, "Is it the base of an OpenAI-compatible endpoint, such as .../v1?")
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(norms > 0, norms, 1.0)

    def _remember(self, keys: list[str], rows: np.ndarray) -> None:
        self._known |= dict(zip(keys, rows.astype("<f4"), strict=True))
        if self.cache is not None:
            Path(self.cache).parent.mkdir(parents=True, exist_ok=True)
            with JsonlWriter(self.cache) as writer:
                writer.write([{"key": k, "vector": base64.b64encode(self._known[k].tobytes()).decode()} for k in keys])
