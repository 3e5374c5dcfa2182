"""Which prompts come at which step: a function of the seed and the step alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from polypath.core.seeds import rng
from polypath.tasks.protocol import Prompt


@lru_cache(maxsize=4)
def _permutation(size: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(size))
    rng(seed, "prompts", epoch).shuffle(order)
    return tuple(order)


def prompts_at(pool: Sequence[Prompt], step: int, per_step: int, seed: int) -> list[tuple[int, Prompt]]:
    """The (position, prompt) pairs of one step. Every epoch is a fresh permutation of the pool.

    The same seed gives every arm of a study the same prompts in the same order.
    """
    first = step * per_step
    return [
        (j, pool[_permutation(len(pool), seed, k // len(pool))[k % len(pool)]])
        for j, k in enumerate(range(first, first + per_step))
    ]


def refill(
    pool: Sequence[Prompt], step: int, per_step: int, seed: int, rank: int = 0
) -> Callable[[int], list[tuple[int, Prompt]]]:
    """A source of further prompts for one step, at positions beyond the step's own; each process draws its own."""
    taken = 0

    def more(n: int) -> list[tuple[int, Prompt]]:
        nonlocal taken
        numbers = range(taken, taken + n)
        taken += n
        draws = [rng(seed, "refill", step, rank, number).randrange(len(pool)) for number in numbers]
        return [(per_step + rank + number * 1024, pool[draw]) for number, draw in zip(numbers, draws, strict=True)]

    return more
