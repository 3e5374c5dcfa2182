"""What credit remembers from step to step: counts, banks, multipliers. Explicit, bounded and checkpointed."""

from __future__ import annotations

import base64
import copy
import hashlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

LONGEST = 64  # characters of a name inside a key


class Memory(MutableMapping[str, Any]):
    """A dictionary of JSON values that forgets the entry written longest ago once it holds more than `capacity`.

    >>> memory = Memory(capacity=2)
    >>> memory["a"], memory["b"], memory["c"] = 1, 2, 3
    >>> dict(memory)
    {'b': 2, 'c': 3}
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self.capacity = capacity
        self._items: dict[str, Any] = {}  # in order of the last write

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._items.pop(key, None)
        self._items[key] = value
        while len(self._items) > self.capacity:
            del self._items[next(iter(self._items))]

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def copy(self) -> Memory:
        """A deep copy, for a trial run that must leave no trace."""
        return copy.deepcopy(self)

    def state_dict(self) -> dict[str, Any]:
        """A JSON-serialisable snapshot that keeps the order of the last writes."""
        return {"capacity": self.capacity, "items": [[key, copy.deepcopy(value)] for key, value in self._items.items()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace everything by a snapshot of `state_dict`."""
        self.capacity = state["capacity"]
        self._items = {key: copy.deepcopy(value) for key, value in state["items"]}


def key(*names: Any) -> str:
    """One key made of several names; a long name is replaced by a digest, so that a bounded memory stays small.

    >>> key("answers", "p1", "42")
    'answers|p1|42'
    """
    return "|".join(_short(str(name)) for name in names)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else "#" + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def pack(rows: np.ndarray) -> str:
    """Rows of numbers as text of half precision, 2.7 characters per number. See `unpack`."""
    return base64.b64encode(np.asarray(rows, dtype="<f2").tobytes()).decode("ascii")


def unpack(text: str, width: int) -> np.ndarray:
    """The rows (n, width) that `pack` wrote, in single precision.

    >>> unpack(pack(np.array([[1.0, 0.5], [0.25, 0.0]])), 2).tolist()
    [[1.0, 0.5], [0.25, 0.0]]
    """
    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float32).reshape(-1, width)
