"""What every credit method costs for a large batch: 512 groups of 16 rollouts, embeddings given, one CPU core.

Every method of the package is timed with its defaults on the fields that its stages read, in turn within one run; a
new method file appears by itself. `stages` is the pipeline on arrays that are already stacked, `whole` includes
stacking the groups' mappings into arrays. Token fields hold 32 tokens a rollout.

Run: OMP_NUM_THREADS=1 python benchmarks/credit_methods.py [--groups 512] [--size 16] [--rounds 5] [--methods grpo ...]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from polypath import credit
from polypath.core.errors import UserError
from polypath.credit import pipeline as pipelines
from polypath.credit.inputs import stack

TOKENS, STEPS, WIDTH = 32, 4, 64
KNOBS: dict[str, dict[str, Any]] = {
    "dapo": {"max_length": 600, "buffer": 200},
    "blockwise": {"names": ["strategy", "plan", ""]},
    "diver_ct": {"thresholds": [0.5] * 3},
}
WORDS = list(map(str, range(20)))


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
        "texts": [" ".join(rng.choice(WORDS, 24)) for _ in range(size)],
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


def measure(name: str, groups: list[dict[str, Any]], rounds: int) -> tuple[float, float] | str:
    """Median CPU seconds of the stages and of the whole call, or why the method cannot run on these fields."""
    spent: list[float] = []
    run = pipelines._run

    def timed(*args: Any) -> Any:
        began = time.process_time()
        result = run(*args)
        spent.append(time.process_time() - began)
        return result

    memory = credit.Memory()
    try:
        pipeline = credit.build({name: KNOBS.get(name, {})})
        names = {field for stage in pipeline.stages for field in (*stage.required, *stage.optional)}
        wanted = [{f: g[f] for f in g if f in names or f == "rewards"} for g in groups]
        pipeline(wanted, memory=memory)  # warms up
    except UserError as error:
        return str(error)
    whole, stages = [], []
    pipelines._run = timed
    for step in range(rounds):
        spent.clear()
        began = time.process_time()
        pipeline(wanted, step=step, memory=memory)
        whole.append(time.process_time() - began)
        stages.append(sum(spent))
    pipelines._run = run
    return statistics.median(stages), statistics.median(whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=512)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=50.0, help="milliseconds; slower methods are marked")
    parser.add_argument("--methods", nargs="+", default=credit.methods())
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    groups = [group(options.size, rng) for _ in range(options.groups)]
    began = time.process_time()
    stack([{"rewards": g["rewards"]} for g in groups], {})
    alone = 1e3 * (time.process_time() - began)
    print(f"{options.groups} groups x {options.size}; stacking the rewards alone takes {alone:.1f} ms")
    print(f"{'method':26}{'stages ms':>12}{'whole ms':>12}")
    for name in options.methods:
        found = measure(name, groups, options.rounds)
        if isinstance(found, str):
            print(f"{name:26}{'-':>12}{'-':>12}  {found}")
        else:
            slow = "  slow" if 1e3 * found[0] > options.limit else ""
            print(f"{name:26}{1e3 * found[0]:12.1f}{1e3 * found[1]:12.1f}{slow}")


if __name__ == "__main__":
    main()
