"""What fits: memory before a run, batches by tokens, threads by size (no torch here)."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from polypath.core.errors import UserError

FLOAT = 4  # bytes
SMALL_MODEL = 5_000_000  # parameters below which a second thread costs more than it brings


def estimate_memory(
    num_parameters: int, trainable: int, tokens_per_microbatch: int, vocab: int, hidden: int, layers: int
) -> int:
    """Bytes that training in float32 needs at its peak, without the interpreter (about 0.5 GB with torch).

    Weights once; gradients and two AdamW moments for the trainable ones; per token and layer about 34 hidden-sized
    activations are kept for the backward pass (Korthikanti et al. 2022, arXiv:2205.05198, without the attention
    matrix, which fused attention does not store: 34 bytes at 2 bytes a value make 17 values, doubled here for layers
    that are less fused); logits three times (values, probabilities, gradient).

    >>> estimate_memory(1000, 1000, 0, 10, 10, 1)
    16000
    """
    weights = FLOAT * (num_parameters + 3 * trainable)
    activations = FLOAT * 34 * tokens_per_microbatch * hidden * layers
    logits = FLOAT * 3 * tokens_per_microbatch * vocab
    return weights + activations + logits


def num_parameters_of(path: str | Path) -> int:
    """Parameters stored in a model directory, from the safetensors headers, without loading any weight.

    Raises UserError when the directory holds no safetensors file, or a damaged one.
    """
    files = sorted(Path(path).glob("*.safetensors"))
    if not files:
        raise UserError(f"model '{path}'", "has no .safetensors file", "Save it with save_pretrained first.")
    return sum(_count(file) for file in files)


def _count(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(size))
    except (struct.error, ValueError, OverflowError, MemoryError) as error:
        raise UserError(f"file '{file}'", "is not a safetensors file", "Download or save the model again.") from error
    total = 0
    for name, entry in header.items():
        if name != "__metadata__":
            count = 1
            for length in entry["shape"]:
                count *= length
            total += count
    return total


def choose_threads(num_parameters: int, cores: int | None = None) -> int:
    """Torch threads for a model on a CPU: one for a small model, else one per core, up to 16."""
    cores = cores or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if num_parameters < SMALL_MODEL else min(cores, 16)


def by_length(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices in batches of similar length whose padded size is at most `max_tokens` (never less than one).

    >>> by_length([1, 5, 2, 4], 8)
    [[1], [3, 2], [0]]
    """
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
