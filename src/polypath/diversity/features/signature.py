"""Features with their signature: values are comparable only when they were made in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any


@dataclass(frozen=True)
class Signature:
    """How features were made. Two sets may be compared when their signatures are equal.

    `version` rises when the numbers change for the same input; `knobs` are settings, model names and weight hashes.

    >>> str(Signature("hashed_ngrams", "1", 1024, {"orders": [1, 2]}))
    'hashed_ngrams v1 d=1024 #4fb56df7'
    """

    name: str
    version: str = "1"
    dims: int | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits of everything above."""
        text = json.dumps([self.name, self.version, self.dims, dict(self.knobs)], sort_keys=True, default=str)
        return blake2b(text.encode(), digest_size=4).hexdigest()

    def __str__(self) -> str:
        dims = "" if self.dims is None else f" d={self.dims}"
        return f"{self.name} v{self.version}{dims} #{self.hash}"


@dataclass(frozen=True)
class Features:
    """One value per item (rows of an array, sets, strings, ...) and the signature of how they were made."""

    values: Any
    signature: Signature

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.array(self.values, dtype=dtype, copy=copy)


def embedded(values: Any, model: str, *, version: str = "1", **knobs: Any) -> Features:
    """Embeddings (n, d) of any encoder as features named after the model.

    >>> str(embedded([[1.0, 0.0]], "minilm").signature).split(" #")[0]
    'embedding:minilm v1 d=2'
    """
    dims = len(values[0]) if len(values) else 0
    return Features(values, Signature(f"embedding:{model}", version, dims, knobs))
