"""Keys and values of a batch of rows, pre-allocated, with rows of different length, selection and growth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import Cache, DynamicCache


class RowCache(Cache):
    """A transformers cache for full-attention models whose slots may be empty for some rows.

    `valid` (R, capacity) says which slots hold a real token. A slot is written for every row at once, so a row that
    has nothing to write there leaves a hole, which the attention mask hides; positions come from the row's own count
    of real tokens. That makes left padding, nested prefixes and row selection one and the same thing.
    """

    def __init__(self, valid: Tensor) -> None:
        super().__init__(layers=[])
        self.valid = valid
        self.length = self.start = 0
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    @classmethod
    def empty(cls, rows: int, device: torch.device) -> RowCache:
        """A cache of `rows` rows without a slot."""
        return cls(torch.zeros(rows, 0, dtype=torch.bool, device=device))

    def open(self, valid: Tensor) -> Tensor | None:
        """Reserve slots for the next forward, `valid` (R, q), and return its attention mask (R, 1, q, slots).

        None stands for a whole batch without padding, where plain causal attention says the same faster.
        """
        start = self.start = self.length
        self.length += valid.shape[1]
        if self.length > self.valid.shape[1]:
            self._grow(max(self.length, self.valid.shape[1] * 3 // 2))
        self.valid[:, start : self.length] = valid
        known, width = self.valid[:, : self.length], valid.shape[1]
        if width == 1:
            return known[:, None, None, :]
        if start == 0 and bool(known.all()):
            return None
        slots = torch.arange(self.length, device=valid.device)
        own = slots[start:, None]
        # A padding query sees itself, or its softmax over nothing would be NaN.
        return ((known[:, None, :] & (slots <= own)) | (slots == own))[:, None]

    def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> Any:
        """Write the new keys and values (R, H, q, D) of one layer; return all that the layer holds."""
        width = key_states.shape[2]
        if layer_idx == len(self.keys):
            rows, capacity = self.valid.shape
            self.keys.append(key_states.new_empty(rows, key_states.shape[1], capacity, key_states.shape[3]))
            self.values.append(value_states.new_empty(rows, value_states.shape[1], capacity, value_states.shape[3]))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[:, :, self.length - width : self.length] = key_states
        values[:, :, self.length - width : self.length] = value_states
        return keys[:, :, : self.length], values[:, :, : self.length]

    def select(self, index: Tensor, room: int = 0) -> RowCache:
        """The rows `index` (which may repeat), with capacity for `room` more slots."""
        valid = self.valid.new_zeros(len(index), self.length + room)
        valid[:, : self.length] = self.valid[index, : self.length]
        picked = RowCache(valid)
        picked.length = self.length
        picked.keys = [_moved(t, index, self.length, room) for t in self.keys]
        picked.values = [_moved(t, index, self.length, room) for t in self.values]
        return picked

    def _grow(self, capacity: int) -> None:
        room = capacity - self.valid.shape[1]
        self.valid = torch.nn.functional.pad(self.valid, (0, room))
        self.keys = [torch.nn.functional.pad(t, (0, 0, 0, room)) for t in self.keys]
        self.values = [torch.nn.functional.pad(t, (0, 0, 0, room)) for t in self.values]

    @classmethod
    def stack(cls, caches: Sequence[RowCache]) -> RowCache:
        """All rows of several caches, one below the other, aligned at the last slot."""
        if len(caches) == 1:
            return caches[0]
        length = max(cache.length for cache in caches)

        def aligned(tensors: list[Tensor]) -> Tensor:
            padded = [
                torch.nn.functional.pad(t[:, :, : c.length], (0, 0, length - c.length, 0))
                for t, c in zip(tensors, caches, strict=True)
            ]
            return torch.cat(padded)

        valid = [torch.nn.functional.pad(c.valid[:, : c.length], (length - c.length, 0)) for c in caches]
        stacked = cls(torch.cat(valid))
        stacked.length = length
        stacked.keys = [aligned([c.keys[i] for c in caches]) for i in range(len(caches[0].keys))]
        stacked.values = [aligned([c.values[i] for c in caches]) for i in range(len(caches[0].values))]
        return stacked

    # What transformers asks of a cache when it builds its own mask (only where `open` returned None).
    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots before the current forward, for the model's own position and mask arithmetic."""
        return self.start

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """The slot of the first query."""
        return self.start

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """(number of key slots, first key slot)."""
        return self.length, 0

    @property
    def is_compileable(self) -> bool:
        """Never: shapes change with every step."""
        return False


def _moved(tensor: Tensor, index: Tensor, length: int, room: int) -> Tensor:
    _, heads, _, width = tensor.shape
    out = tensor.new_empty(len(index), heads, length + room, width)
    out[:, :, :length] = tensor[:, :, :length].index_select(0, index)
    return out


class ModelCache:
    """The model's own cache (sliding windows, linear attention, ...), for rows of one length without holes."""

    def __init__(self, cache: DynamicCache) -> None:
        self.cache = cache

    def open(self, valid: Tensor) -> None:
        """Nothing to mask: every slot of every row is real."""

    def select(self, index: Tensor, room: int = 0) -> ModelCache:
        """Keep the rows `index` (which may repeat), in place."""
        self.cache.reorder_cache(cast(torch.LongTensor, index))
        return self
