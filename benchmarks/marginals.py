"""Leave-one-out marginals of a training step: against a loop over the peer, and what each signal costs in credit.

One step is 512 groups, as a large run has them. Both sides run in turn in one process on one thread and are timed in
CPU seconds; a ratio is the median over the rounds. The loops are what a reward function does without closed forms:
the score of the group, and again without each of its members.

Run: OMP_NUM_THREADS=1 python benchmarks/marginals.py [--rounds 3] [--groups 512] [--only vendi logdet signals]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from polypath import credit
from polypath.core import registry
from polypath.diversity.marginals import loo_logdet, loo_vendi

WORDS = 60  # tokens of a text
RIDGE = 1e-3


def cpu(call: Callable[[], object]) -> tuple[float, object]:
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def kernels(groups: int, size: int, d: int = 384) -> np.ndarray:
    rows = np.random.default_rng(size).normal(size=(groups, size, d)) + 0.5
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows @ rows.transpose(0, 2, 1)


def without_each(score: Callable[[np.ndarray], float], kernels: np.ndarray) -> np.ndarray:
    """The loop: the score of each group less its score without each member."""
    out = np.empty(kernels.shape[:2])
    for b, kernel in enumerate(kernels):
        whole = score(kernel)
        for i in range(len(kernel)):
            keep = np.arange(len(kernel)) != i
            out[b, i] = whole - score(kernel[np.ix_(keep, keep)])
    return out


def against(
    name: str, goal: str, peer: Callable[[], object], sides: dict[str, Callable[[], object]], rounds: int
) -> None:
    """Rows of a table: every side in turn with the peer, `rounds` times."""
    theirs: list[float] = []
    ours: dict[str, list[float]] = {side: [] for side in sides}
    expected: np.ndarray = np.zeros(0)
    found: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        spent, result = cpu(peer)
        theirs.append(spent)
        expected = np.asarray(result)
        for side, call in sides.items():
            spent, result = cpu(call)
            ours[side].append(spent)
            found[side] = np.asarray(result)
    for side, spent_by in ours.items():
        ratio = statistics.median(b / a for a, b in zip(spent_by, theirs, strict=True))
        error = np.abs(found[side] - expected).max()
        cost = f"{statistics.median(theirs):.3f} | {statistics.median(spent_by):.4f}"
        print(f"| {name}, {side} | {cost} | **{ratio:.0f}x** | {error:.0e} | {goal} |", flush=True)


HEADER = "| task | peer, s | ours, s | ratio | largest error | goal |\n|---|---|---|---|---|---|"


def kinds(call: Callable[..., object], kernels: np.ndarray, **single: bool) -> dict[str, Callable[[], object]]:
    """The same call on numpy and torch, in double and single precision."""
    tensor, low = torch.tensor(kernels), torch.tensor(kernels, dtype=torch.float32)
    return {
        "numpy float64": lambda: call(kernels),
        "torch float64": lambda: call(tensor),
        "torch float32": lambda: call(low, **single),
    }


def vendi(groups: int, rounds: int) -> None:
    from vendi_score import vendi as peer

    print(f"\nLeave-one-out Vendi score of {groups} groups, against a loop over `vendi_score.score_K`\n\n{HEADER}")
    for size in (16, 64):
        some = kernels(groups, size)
        loop = lambda some=some: without_each(peer.score_K, some)  # noqa: E731
        against(f"G = {size}", "30x, 1e-4", loop, kinds(loo_vendi, some, double=False), rounds)


def logdet(groups: int, rounds: int) -> None:
    print(f"\nLeave-one-out log det of {groups} groups, against a loop over `numpy.linalg.slogdet`\n\n{HEADER}")

    def score(kernel: np.ndarray) -> float:
        return float(np.linalg.slogdet(kernel + RIDGE * np.eye(len(kernel)))[1])

    for size in (16, 64):
        some = kernels(groups, size)
        loop = lambda some=some: without_each(score, some)  # noqa: E731
        against(f"G = {size}", "25x", loop, kinds(loo_logdet, some), rounds)


def signals(groups: int, rounds: int) -> None:
    """Each signal of the marginals, alone and as a stage between its field and the advantages."""
    size, rng = 16, np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(400)])
    fields = {
        "similarity": kernels(groups, size),
        "labels": rng.integers(0, 5, (groups, size)),
        "success": rng.integers(0, 2, (groups, size, 20)).astype(float),
        "reward_columns": rng.uniform(size=(groups, size, 4)),
        "texts": [
            [" ".join(vocabulary[row]) for row in group] for group in rng.integers(0, 400, (groups, size, WORDS))
        ],
    }
    rewards = rng.integers(0, 2, (groups, size)).astype(float)
    print(f"\nEach signal on {groups} groups of {size} ({WORDS} words a text), and the whole credit with it, in ms\n")
    print("| signal | field | alone | rewards to advantages |\n|---|---|---|---|")
    entries = [e for e in registry.entries("signal") if e.target.startswith("polypath.diversity.marginals")]
    pipelines = {
        e.name: credit.build([{"signal": e.name}, {"fuse": "additive"}, {"normalise": "centre"}]) for e in entries
    }
    plain = credit.build([{"normalise": "centre"}])
    batch = {
        name: [{"rewards": r, name: v} for r, v in zip(rewards, values, strict=True)] for name, values in fields.items()
    }
    none = [cpu(lambda: plain(batch["labels"]))[0] for _ in range(rounds + 1)]
    print(f"| none | labels | - | {1000 * statistics.median(none):.1f} |")
    for entry in entries:
        (name,), function = entry.data, registry.get("signal", entry.name)
        alone, whole = [], []
        for _ in range(rounds + 1):
            alone.append(cpu(lambda f=function, n=name: f(fields[n]))[0])
            whole.append(cpu(lambda p=pipelines[entry.name], n=name: p(batch[n]))[0])
        spent = f"{1000 * statistics.median(alone):.1f} | {1000 * statistics.median(whole):.1f}"
        print(f"| {entry.name} | {name} | {spent} |", flush=True)


PARTS = {"vendi": vendi, "logdet": logdet, "signals": signals}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="every side in turn, this often")
    parser.add_argument("--groups", type=int, default=512)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.only:
        PARTS[name](options.groups, options.rounds)


if __name__ == "__main__":
    main()
