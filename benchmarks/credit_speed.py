"""What every credit method costs for a large batch: 512 groups of 16 rollouts, embeddings given, one CPU core.

Every method of the package is timed with its defaults on the fields that its stages read, in turn within one run; a
new method file appears by itself. The stages are timed on arrays that are already stacked; stacking the groups'
mappings into arrays comes on top. Token fields hold 32 tokens a rollout, texts about 27. `growth` times 128 groups and
four times as many: a method that were quadratic in the batch would need 16 times as long.

Run: OMP_NUM_THREADS=1 python benchmarks/credit_speed.py [--quick] [--only speed] [--keep FILE]
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from peers import amount, run

from polypath import credit
from polypath.credit import pipeline as pipelines

TOKENS, STEPS, WIDTH = 32, 4, 64
LIMIT, SHOWN = 50.0, 10  # milliseconds; rows of the slowest methods
KNOBS: dict[str, dict[str, Any]] = {
    "dapo": {"max_length": 600, "buffer": 200},
    "blockwise": {"names": ["strategy", "plan", ""]},
    "diver_ct": {"thresholds": [0.5] * 3},
}
READS = dict.fromkeys(("dpwriter_reward", "multirole"), "cuts 8192 texts into words") | {"diver": "looks for formulas"}
WORDS = [*"abcdefghijklmnop", "alpha", "between", "carried", "doubling", "equation", "finally"]


def group(size: int, rng: np.random.Generator) -> dict[str, Any]:
    """One group with every field of the vocabulary, as arrays."""
    labels = rng.integers(0, 6, size)
    rewards = rng.integers(0, 2, size).astype(float)
    embeddings = rng.normal(size=(size, WIDTH))
    embeddings /= np.linalg.norm(embeddings, axis=-1, keepdims=True)
    turns = rng.integers(0, 2, (size, STEPS))
    return {
        "rewards": rewards,
        "correct": rewards > 0.5,
        "labels": labels,
        "texts": [" ".join(rng.choice(WORDS, 18)) + f" so ${a}*3={3 * a}$" for a in rng.integers(0, 9, size)],
        "answers": [str(label) for label in labels],
        "embeddings": embeddings,
        "similarity": np.clip(embeddings @ embeddings.T, 0.0, 1.0),
        "lengths": rng.integers(100, 500, size).astype(float),
        "mask": np.ones((size, TOKENS), dtype=bool),
        "logp": -rng.exponential(size=(size, TOKENS)),
        "entropy": rng.exponential(size=(size, TOKENS)),
        "confidence": rng.uniform(size=(size, TOKENS)),
        "reward_columns": np.stack([rewards, rng.uniform(size=size), rng.uniform(size=size)], axis=-1),
        "baseline": np.full(size, 0.4),
        "ranks": rng.permutation(size) + 1.0,
        "sources": rng.integers(0, 3, size),
        "contexts": rng.integers(0, 3, size),
        "spans": [{"strategy": [0, 8], "plan": [8, 16]} for _ in range(size)],
        "nodes": np.cumsum(turns, axis=-1) + 10 * np.arange(STEPS),
        "starts": np.tile(np.arange(STEPS) * (TOKENS // STEPS), (size, 1)),
        "states": np.cumsum(turns, axis=-1),
        "actions": turns,
        "reference": ["1"] * size,
        "progress": rng.uniform(size=size),
        "distance": rng.uniform(size=size),
        "steps": rng.integers(1, 20, size).astype(float),
        "prompts": [str(rng.integers(1 << 30))] * size,
        "solutions": [str(label) for label in labels],
        "candidate_rewards": rng.uniform(size=(size, 4, 3)),
        "candidate_embeddings": rng.normal(size=(size, 4, WIDTH)),
        "beliefs": rng.dirichlet(np.ones(4), (size, STEPS)),
        "curiosity": rng.exponential(size=(size, TOKENS)),
    }


def measure(name: str, groups: list[dict[str, Any]], rounds: int) -> float:
    """Median CPU milliseconds of the method's stages."""
    spent: list[float] = []
    original = pipelines._run

    def timed(*args: Any) -> Any:
        began = time.process_time()
        result = original(*args)
        spent[-1] += time.process_time() - began
        return result

    memory = credit.Memory()
    pipeline = credit.build({name: KNOBS.get(name, {})})
    names = {field for stage in pipeline.stages for field in (*stage.required, *stage.optional)}
    wanted = [{f: g[f] for f in g if f in names or f == "rewards"} for g in groups]
    pipeline(wanted, memory=memory)  # warms up
    pipelines._run = timed
    for step in range(rounds):
        spent.append(0.0)
        pipeline(wanted, step=step, memory=memory)
    pipelines._run = original
    return 1e3 * statistics.median(spent)


def batch(count: int) -> list[dict[str, Any]]:
    """That many groups of 16."""
    rng = np.random.default_rng(0)
    return [group(16, rng) for _ in range(count)]


def speed(quick: bool) -> None:
    """Every method: the median, the slowest, and how many are within the limit."""
    groups = batch(16 if quick else 512)
    found = {name: measure(name, groups, 1 if quick else 5) for name in credit.methods()}
    slowest = sorted(found, key=lambda name: -found[name])
    met = sum(value <= LIMIT for value in found.values())
    size = f"{len(groups)} groups of 16"
    note = f"{met} of {len(found)} methods need at most {LIMIT:g} ms"
    amount(f"median credit method, {size}", "ms", statistics.median(found.values()), LIMIT, note)
    for name in slowest[:SHOWN]:
        amount(f"{name}, {size}", "ms", found[name], LIMIT, READS.get(name, ""))


def growth(quick: bool) -> None:
    """Four times the groups: no method is quadratic in the batch."""
    small, large = (batch(4), batch(16)) if quick else (batch(128), batch(512))
    found = {}
    for name in credit.methods():
        less, more = (measure(name, groups, 1 if quick else 5) for groups in (small, large))
        found[name] = more / less
    worst = max(found, key=lambda name: found[name])
    task = f"{len(large)} groups against {len(small)}, the method that grows most"
    amount(task, "times", found[worst], 8.0, f"{worst}; median {statistics.median(found.values()):.2g}")


if __name__ == "__main__":
    run(__doc__, {"speed": speed, "growth": growth})
