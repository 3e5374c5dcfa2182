"""Held-out splits: a problem's split is a function of its content, never of a seed, an order or a file's length."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from polypath.core.errors import UserError, did_you_mean
from polypath.core.seeds import rng
from polypath.tasks.protocol import Prompt

SPLITS = ("train", "dev", "test")
Pools = Mapping[str, Sequence[Prompt]]


def content_id(*parts: str) -> str:
    """Sixteen hex digits that identify a content, the same on every machine."""
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def split_of(content: str, dev: float = 0.1, test: float = 0.1) -> str:
    """The split of a content, by its hash: with the defaults 1 in 5 is held out, half for dev and half for test.

    >>> [split_of(str(i)) for i in range(1000)].count("train") in range(760, 840)
    True
    """
    place = int(content_id("split", content), 16) / 2**64
    return "test" if place < test else "dev" if place < test + dev else "train"


def pools(prompts: Iterable[Prompt], splits: Iterable[str]) -> dict[str, list[Prompt]]:
    """Prompts by split, in their order; a repeated prompt (by id) is dropped."""
    found: dict[str, dict[str, Prompt]] = {split: {} for split in SPLITS}
    for prompt, split in zip(prompts, splits, strict=True):
        found[split].setdefault(prompt.id, prompt)
    return {split: list(unique.values()) for split, unique in found.items()}


def check_split(where: str, split: str) -> None:
    """Raise UserError unless `split` is one of SPLITS."""
    if split not in SPLITS:
        raise UserError(where, f"there is no split named '{split}'", did_you_mean(split, SPLITS))


def draw(where: str, pool: Pools, split: str, n: int, seed: int) -> list[Prompt]:
    """At most `n` prompts of a split in an order given by `seed`; a larger `n` extends the list and keeps its start.

    Raises UserError for an unknown split, for n < 1 and when the split has no prompt.
    """
    check_split(where, split)
    if n < 1:
        raise UserError(where, f"{n} prompts were asked for", "Ask for at least 1.")
    prompts = list(pool[split])
    if not prompts:
        held = ", ".join(f"{name} {len(pool[name])}" for name in SPLITS)
        raise UserError(where, f"the split '{split}' has no prompts ({held})", "Take another split or more data.")
    rng(seed, "prompts", split).shuffle(prompts)
    return prompts[:n]
