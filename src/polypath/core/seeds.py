"""Counter-based seeds: every random draw is a function of the run's seed and of where it happens.

A draw is keyed by counters (run seed, operator, step, prompt, rollout), never by how many draws came before it. So a
run can be replayed, resumed after a kill and paired with another run.
"""

from __future__ import annotations

import hashlib
import random


def derive(seed: int, *counters: str | int) -> int:
    """A 63-bit seed from a run seed and any number of counters; the same on every machine.

    >>> derive(0, "sample", 3) == derive(0, "sample", 3)
    True
    >>> derive(0, "sample", 3) == derive(0, "sample", 4)
    False
    """
    text = "\x1f".join([str(seed), *(f"{type(c).__name__}:{c}" for c in counters)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def rng(seed: int, *counters: str | int) -> random.Random:
    """A generator of the standard library, seeded by `derive`."""
    return random.Random(derive(seed, *counters))
