"""Measures against their peers, interleaved in one process: CPU seconds of one thread, as a table of ratios.

Peers are in the extra `bench`; one that is not installed is left out and named. Values must agree.
Run: OMP_NUM_THREADS=1 python benchmarks/measures.py [--quick] [--only NAME]
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from peers import amount, line, run

from polypath.diversity import measures


def interleaved(peer: Callable[[], Any], ours: Callable[[], Any], rounds: int = 3) -> tuple[float, float, Any, Any]:
    """Least CPU seconds of peer and ours, called in turn, and what they returned last."""
    best = [math.inf, math.inf]
    found: list[Any] = [None, None]
    for _ in range(rounds):
        for side, call in enumerate((peer, ours)):
            began = time.process_time()
            found[side] = call()
            best[side] = min(best[side], time.process_time() - began)
    return best[0], best[1], found[0], found[1]


def rows_of(n: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 384)).astype(dtype)


def texts_of(n: int, words: int = 60, vocabulary: int = 5000) -> list[str]:
    """Random texts whose word frequencies fall as 1 / rank, as in natural language."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, vocabulary + 1)
    drawn = rng.choice(vocabulary, size=(n, words), p=shares / shares.sum())
    return [" ".join(f"w{word}" for word in row) for row in drawn]


def vendi(quick: bool) -> None:
    from vendi_score import vendi as peer

    theirs, largest = math.nan, 0
    for n in (500, 1000) if quick else (2000, 4000):
        rows = rows_of(n, np.float64)
        theirs, ours, expected, value = interleaved(lambda r=rows: peer.score_X(r), lambda r=rows: measures.vendi(r), 1)
        difference = f"{abs(value / expected - 1):.1g} relative"
        line(
            f"Vendi, n = {n}, d = 384", "vendi-score `score_X`", theirs, ours, difference, "40" if n <= 2000 else "200"
        )
        largest = n
    n = 2500 if quick else 10_000
    rows = rows_of(n, np.float64)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    tracemalloc.start()
    measures.vendi(rows)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    dual, ours, expected, value = interleaved(
        lambda: peer.score_dual(unit, normalize=False), lambda: measures.vendi(rows)
    )
    guess, difference = theirs * (n / largest) ** 3, f"{abs(value / expected - 1):.1g} relative"
    name = f"Vendi, n = {n}, d = 384"
    line(name, f"vendi-score `score_X`, from n = {largest} by n^3", guess, ours, difference, "1000")
    amount(name, "MB of memory", peak * 1.048576, 50, "score_X: 800 MB")
    line(name, "vendi-score `score_dual`, unit rows given", dual, ours, difference, "-")


def self_bleu(quick: bool) -> None:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    texts, few = texts_of(1000), 3 if quick else 20
    words, smooth = [text.split() for text in texts], SmoothingFunction().method1

    def peer(words: Sequence[list[str]], few: int) -> list[float]:
        return [sentence_bleu(words[:i] + words[i + 1 :], words[i], smoothing_function=smooth) for i in range(few)]

    scaled, ours, some, _ = interleaved(lambda: peer(words, few), lambda: measures.self_bleu(texts), 1)
    error = np.abs(measures.bleu_against_others(words)[:few] - some).max()
    name = "self-BLEU, 1000 texts of 60 tokens"
    line(name, f"nltk, {few} texts, scaled", scaled * 1000 / few, ours, f"{error:.1g} absolute", "500")


def rouge_l(quick: bool) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    n = 30 if quick else 100
    texts = texts_of(n)
    scorer = RougeScorer(["rougeL"])

    def peer() -> float:
        pairs = [scorer.score(a, b)["rougeL"].fmeasure for i, a in enumerate(texts) for b in texts[:i]]
        return float(np.mean(pairs))

    theirs, ours, expected, value = interleaved(peer, lambda: measures.rouge_l(texts), 1)
    line(
        f"ROUGE-L, all pairs of {n} texts", "rouge-score", theirs, ours, f"{abs(value - expected):.1g} absolute", "200"
    )


def pairwise(quick: bool) -> None:
    from sklearn.metrics.pairwise import cosine_distances

    n = 1000 if quick else 5000
    rows = rows_of(n)
    theirs, ours, expected, value = interleaved(
        lambda: cosine_distances(rows).sum() / (n * (n - 1)), lambda: measures.pairwise_cosine(rows)
    )
    line(f"mean pairwise cosine, n = {n}", "scikit-learn", theirs, ours, f"{abs(value - expected):.1g} absolute", "50")


def novel_sum(quick: bool) -> None:
    n = 500 if quick else 3000
    rows = rows_of(n)
    sigma = np.random.default_rng(1).uniform(1, 2, size=n)

    def peer() -> float:
        """The published way: a full distance matrix, then each row sorted and averaged by itself, in float64."""
        unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        scaled = (1 - unit @ unit.T) * sigma[:, None]

        def average(row: np.ndarray) -> float:
            return float(np.average(row[np.argsort(row)], weights=1 / np.arange(1, len(row) + 1)))

        return float(np.mean(np.apply_along_axis(average, 1, scaled)))

    theirs, ours, expected, value = interleaved(peer, lambda: measures.novel_sum(rows, density=sigma))
    difference = f"{abs(value / expected - 1):.1g} relative"
    line(f"NovelSum, n = {n}, density given", "loop over rows", theirs, ours, difference, "2")


PARTS = {"vendi": vendi, "self_bleu": self_bleu, "rouge_l": rouge_l, "pairwise": pairwise, "novel_sum": novel_sum}


if __name__ == "__main__":
    run(__doc__, PARTS)
