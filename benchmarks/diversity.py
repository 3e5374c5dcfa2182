"""Marginals and selectors against their peers, interleaved in one process: CPU seconds of one thread.

Peers are in the extra `bench`; one that is not installed is left out and named. Results must agree where the peer is
right. Run: OMP_NUM_THREADS=1 python benchmarks/diversity.py [--quick] [--only NAME]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from peers import line, run


def cpu(call: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Least CPU seconds of several calls, and the last result."""
    best, result = math.inf, None
    for _ in range(repeats):
        began = time.process_time()
        result = call()
        best = min(best, time.process_time() - began)
    return best, result


def rows_of(n: int, d: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def leave_one_out(quick: bool) -> None:
    import torch
    from vendi_score import vendi as peer

    from polypath.diversity.marginals import loo_vendi

    torch.set_num_threads(1)
    for size in (16, 64):
        groups = 64 if quick or size == 64 else 512
        kernels = np.stack([(r := rows_of(size, 384, seed, np.float64)) @ r.T for seed in range(512)])

        def loop(kernels: np.ndarray = kernels[:groups], size: int = size) -> np.ndarray:
            out = np.empty(kernels.shape[:2])
            for b, kernel in enumerate(kernels):
                whole = peer.score_K(kernel)
                for i in range(size):
                    keep = np.arange(size) != i
                    out[b, i] = whole - peer.score_K(kernel[np.ix_(keep, keep)])
            return out

        theirs, expected = cpu(loop, 1)
        for kind, aim in ((torch.float64, "-"), (torch.float32, ">= 30x")):
            tensor = torch.tensor(kernels, dtype=kind)
            mine, value = cpu(lambda t=tensor: loo_vendi(t, double=t.dtype == torch.float64), 5)
            error = np.abs(np.asarray(value)[:groups] - expected).max()
            name = f"leave-one-out Vendi, 512 groups of {size}, {str(kind)[6:]}"
            line(name, "vendi-score, loop over score_K", theirs * 512 / groups, mine, f"error {error:.1g}", aim)


def dpp(quick: bool) -> None:
    from pyversity import Strategy, diversify

    from polypath.diversity.selectors.lazy import dpp as ours

    n, k = (4000, 200) if quick else (20_000, 1000)
    rows = rows_of(n, 384)

    def plain() -> list[int]:
        """Greedy by rows of the Cholesky factor (Chen et al. 2018), without a kernel."""
        factor = np.zeros((k, n), dtype=np.float32)
        variance = np.full(n, 1.1, dtype=np.float32)
        picks: list[int] = []
        for place in range(k):
            j = int(np.argmax(variance))
            row = rows @ rows[j]
            row[j] += 0.1
            row = (row - factor[:place, j] @ factor[:place]) / math.sqrt(variance[j])
            factor[place] = row
            variance = variance - row**2
            picks.append(j)
            variance[picks] = -np.inf
        return picks

    mine, found = cpu(lambda: ours(rows, k=k), 2)
    theirs, expected = cpu(plain, 1)

    def volume(picks: list[int]) -> float:
        part = rows[picks].astype(np.float64)
        return float(np.linalg.slogdet(part @ part.T + 0.1 * np.eye(len(picks)))[1])

    agreement = f"log det {volume(found.indices):.2f} / {volume(expected):.2f}"
    line(f"DPP MAP, n = {n}, k = {k}, d = 384", "Cholesky rows, numpy", theirs, mine, agreement, ">= 7x")
    scores = np.ones(n, dtype=np.float32)
    theirs, result = cpu(lambda: diversify(rows, scores, k=k, strategy=Strategy.DPP, diversity=1.0), 1)
    agreement = f"log det {volume(found.indices):.2f} / {volume([int(i) for i in result.indices]):.2f}"
    line(f"DPP MAP, n = {n}, k = {k}, d = 384", "pyversity", theirs, mine, agreement, ">= 8x")


def nearest(quick: bool) -> None:
    from polypath.diversity.selectors.lazy import k_center, mmr

    n, k = (4000, 200) if quick else (20_000, 1000)
    rows = rows_of(n, 384)
    quality = np.random.default_rng(1).uniform(size=n)

    def loop(offset: np.ndarray, slope: np.ndarray, first: int) -> list[int]:
        near = np.full(n, -1.0, dtype=np.float32)
        picks = [first]
        while len(picks) < k:
            np.maximum(near, rows @ rows[picks[-1]], out=near)
            value = offset - slope * near
            value[picks] = -np.inf
            picks.append(int(np.argmax(value)))
        return picks

    one = np.ones(n, dtype=np.float32)
    theirs, expected = cpu(lambda: loop(one, one, 0), 1)
    mine, found = cpu(lambda: k_center(rows, k=k), 2)
    same = sum(a == b for a, b in zip(found.indices, expected, strict=True))
    line(f"k-center, n = {n}, k = {k}", "numpy loop", theirs, mine, f"{same} of {k} picks equal", ">= 3x")
    half = (quality / 2).astype(np.float32)
    theirs, expected = cpu(lambda: loop(half, one / 2, int(np.argmax(quality))), 1)
    mine, found = cpu(lambda: mmr(rows, quality, k=k), 2)
    same = sum(a == b for a, b in zip(found.indices, expected, strict=True))
    line(f"MMR, n = {n}, k = {k}", "numpy loop", theirs, mine, f"{same} of {k} picks equal", ">= 3x")


def facility(quick: bool) -> None:
    from apricot import FacilityLocationSelection

    from polypath.diversity.selectors.coverage import facility_location

    n, k = (1500, 100) if quick else (10_000, 500)
    rows = rows_of(n, 64, dtype=np.float64)
    kernel = np.maximum(rows @ rows.T, 0)
    FacilityLocationSelection(5, metric="precomputed", optimizer="lazy").fit(kernel[:50, :50])  # compiles
    theirs, expected = cpu(lambda: FacilityLocationSelection(k, metric="precomputed", optimizer="lazy").fit(kernel), 1)
    facility_location(kernel[:1500, :1500], k=2)  # compiles
    mine, found = cpu(lambda: facility_location(kernel, k=k), 2)
    name = f"facility location, n = {n}, k = {k}, kernel given"

    def agreement(picks: list[int]) -> str:
        values = [kernel[list(some)].max(axis=0).sum() for some in (found.indices, picks)]
        return f"value {values[0] / values[1] - 1:+.1g}"

    line(name, "apricot-select, lazy", theirs, mine, agreement(list(expected.ranking)), ">= 3x")
    from submodlib import FacilityLocationFunction

    def submodlib() -> list[int]:
        objective = FacilityLocationFunction(n=n, mode="dense", sijs=kernel, separate_rep=False)
        return [i for i, _ in objective.maximize(budget=k, optimizer="LazyGreedy", show_progress=False)]

    theirs, picks = cpu(submodlib, 1)
    line(name, "submodlib, lazy (with its copy of the kernel)", theirs, mine, agreement(picks), ">= 20x")


PARTS = {"loo": leave_one_out, "dpp": dpp, "nearest": nearest, "facility": facility}


if __name__ == "__main__":
    run(__doc__, PARTS)
