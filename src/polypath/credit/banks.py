"""Signals against what was seen in earlier batches: banks of vectors and annotations, bounded and kept in a memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register
from polypath.core.seeds import derive
from polypath.credit.memory import Memory, key, pack, unpack
from polypath.credit.outcomes import recurrence_penalty

DIMS = 64  # of a vector in memory; longer ones are projected, which keeps their angles up to about 1/sqrt(DIMS)


def compress(embeddings: Array) -> np.ndarray:
    """Unit rows of at most `DIMS` numbers: (N, d) -> (N, min(d, DIMS)). A row of zeros stays."""
    rows = np.asarray(embeddings, dtype=np.float32)
    if rows.shape[-1] > DIMS:
        rows = rows @ projection(rows.shape[-1])
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


@cache
def projection(width: int) -> np.ndarray:
    """A fixed Gaussian matrix (width, DIMS), the same in every run."""
    return np.random.default_rng(derive(0, "projection", width)).normal(size=(width, DIMS)).astype(np.float32)


def by_value(rows: np.ndarray) -> np.ndarray:
    """The rows in an order of their own values, so that what a memory becomes does not depend on that of the batch."""
    return rows[np.argsort(rows @ np.cos(np.arange(rows.shape[-1])), kind="stable")]


class Bank:
    """A uniform sample (reservoir) of `size` of all vectors ever added, in one entry of a memory."""

    def __init__(self, memory: Memory, name: str, width: int, size: int) -> None:
        self.memory, self.name, self.size, self.width = memory, name, size, width
        stored = memory.get(name, {"seen": 0, "rows": "", "width": width})
        same = stored["width"] == width  # another encoder starts anew
        self.seen: int = stored["seen"] if same else 0
        self.rows: np.ndarray = unpack(stored["rows"] if same else "", width)

    def nearest(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Mean cosine similarity to the `k` nearest members, or all if fewer, of each row; 0 for an empty bank."""
        if not len(self.rows):
            return np.zeros(len(rows))
        if k >= len(self.rows):
            return (rows @ self.rows.mean(axis=0)).astype(float)
        alike = rows @ self.rows.T
        near = alike.max(axis=-1) if k == 1 else np.partition(alike, -k, axis=-1)[:, -k:].mean(axis=-1)
        return near.astype(float)

    def add(self, rows: np.ndarray) -> None:
        """Keep each new row with probability size/seen in the place of a random one, and write the bank back."""
        rows, free = by_value(rows), self.size - len(self.rows)
        self.rows = np.vstack([self.rows, rows[:free]])
        self.seen += len(rows[:free])
        numbers = self.seen + 1 + np.arange(len(rows[free:]))
        draw = np.random.default_rng(derive(0, self.name, self.seen))
        places = draw.integers(0, numbers)
        for place, row in zip(places[places < self.size], rows[free:][places < self.size], strict=True):
            self.rows[place] = row
        self.seen += len(numbers)
        self.memory[self.name] = {"seen": self.seen, "width": self.width, "rows": pack(self.rows)}


@register("signal", "history_distance", returns="diversity", paper="DiveR-CT (0.50)", traits={"whole_batch"})
def history_distance(embeddings: Array, memory: Memory, *, k: int = 16, size: int = 512) -> np.ndarray:
    """1 - mean cosine similarity to the `k` nearest of a bank of what was written before, over all prompts.

    The nearest, not all: against all of a growing history everything becomes equally far. 1 for an empty history.
    The rows are added after use. Runs once over the batch: (N, d) -> (N,). Kept in memory["history"].
    """
    rows = compress(embeddings)
    bank = Bank(memory, "history", rows.shape[-1], size)
    near = bank.nearest(rows, k)
    bank.add(rows)
    return 1.0 - near


@register("signal", "repeated_skill", returns="diversity", paper="R-Diverse (0.41)", traits={"whole_batch"})
def repeated_skill(
    embeddings: Array, memory: Memory, *, largest: float = 0.8, average: float = 0.3, size: int = 512
) -> np.ndarray:
    """-(relu(max - largest)/(1 - largest) + relu(mean - average)/(1 - average))/2 over a bank of all earlier rounds.

    Max and mean are cosine similarities to the bank; in [-1, 0], and 0 while the bank is empty. Embed what a text
    *asks for* (its solver program), not its words. Added after use. Runs once over the batch: (N, d) -> (N,).
    Kept in memory["skills"].
    """
    rows = compress(embeddings)
    bank = Bank(memory, "skills", rows.shape[-1], size)
    near, usual = bank.nearest(rows, 1), bank.nearest(rows, len(bank.rows) or 1)
    bank.add(rows)
    over = np.maximum(near - largest, 0.0) / (1.0 - largest) + np.maximum(usual - average, 0.0) / (1.0 - average)
    return 0.0 - 0.5 * over


@register("signal", "recurrent_error", returns="diversity", paper="MEDS (0.7)", traits={"whole_batch"})
def recurrent_error(
    embeddings: Array,
    correct: Array,
    prompts: Sequence[str],
    memory: Memory,
    *,
    alpha: float = 0.1,
    beta: float = 0.5,
    threshold: float = 0.9,
    clusters: int = 16,
    decay: float = 1.0,
) -> np.ndarray:
    """-min(alpha log(n + 1), beta) for a wrong rollout, n the size of its error's cluster in the prompt's memory.

    A wrong rollout is of the cluster whose first member is nearest, if the cosine similarity reaches `threshold`;
    else it is a new error, n = 0. Correct rollouts are never penalised. After use the errors are added; at most
    `clusters` per prompt are kept, the largest; `decay` shrinks the old sizes at every visit, as features drift.
    Runs once over the batch: (N, d), (N,), (N,) -> (N,). Kept in memory["error_clusters|PROMPT"].
    """
    rows, wrong = compress(embeddings), np.flatnonzero(~np.asarray(correct, dtype=bool))
    seen = np.zeros(len(rows))
    for name, members in by_name(np.asarray(prompts), wrong):
        entry = key("error_clusters", name)
        sizes, leaders = clusters_in(memory.get(entry), rows.shape[-1])
        cluster = nearest_leader(rows[members], leaders, threshold)
        seen[members] = np.append(sizes, 0.0)[cluster]
        joined = np.bincount(cluster[cluster >= 0], minlength=len(sizes))
        fresh, counts = new_leaders(by_value(rows[members[cluster < 0]]), threshold)
        sizes, leaders = np.concatenate([decay * sizes + joined, counts]), np.vstack([leaders, fresh])
        top = np.sort(np.argsort(-sizes, kind="stable")[:clusters])
        memory[entry] = {"sizes": sizes[top].tolist(), "width": rows.shape[-1], "rows": pack(leaders[top])}
    return recurrence_penalty(seen, alpha, beta)


def by_name(names: np.ndarray, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Each name with those of `rows` that bear it, by one sort."""
    order = rows[np.argsort(names[rows], kind="stable")]
    starts = np.flatnonzero(names[order[1:]] != names[order[:-1]]) + 1
    yield from ((str(names[part[0]]), part) for part in np.split(order, starts) if len(part))


def clusters_in(stored: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and first members of the clusters in a memory's entry; none for another encoder's."""
    if stored is None or stored["width"] != width:
        return np.empty(0), np.empty((0, width))
    return np.array(stored["sizes"], dtype=float), unpack(stored["rows"], width)


def nearest_leader(rows: np.ndarray, leaders: np.ndarray, threshold: float) -> np.ndarray:
    """The index of the most similar leader of each row, -1 where none reaches the threshold."""
    if not len(leaders):
        return np.full(len(rows), -1)
    alike = rows @ leaders.T
    return np.where(alike.max(axis=-1) >= threshold, alike.argmax(axis=-1), -1)


def new_leaders(rows: np.ndarray, threshold: float) -> tuple[np.ndarray, list[float]]:
    """The rows that no earlier leader is near to, and how many rows are nearest to each of them."""
    alike = rows @ rows.T
    leaders: list[int] = []
    for place in range(len(rows)):
        if not (alike[place, leaders] >= threshold).any():
            leaders.append(place)
    nearest = alike[:, leaders].argmax(axis=-1) if leaders else []
    return rows[leaders], np.bincount(nearest, minlength=len(leaders)).astype(float).tolist()


@register("signal", "annotated", returns="diversity", paper="ONI (1.118)", traits={"whole_batch"})
def annotated(answers: Sequence[str | None], memory: Memory, *, fade: float = 0.5) -> np.ndarray:
    """What a judge has said of an answer, by look-up, over (times seen)^fade; 0 for what was not judged yet.

    The judge works beside the training and writes with `annotate`; nothing waits for it. Seen counts the batches'
    rollouts, this one's included. Runs once over the batch: (N,) -> (N,). Kept in memory["judged|ANSWER"].
    """
    names = [None if answer is None else key("judged", answer) for answer in answers]
    for name, number in sorted(Counter(name for name in names if name is not None and name in memory).items()):
        value, seen = memory[name]
        memory[name] = [value, seen + number]
    said = [memory.get(name, [0.0, 1]) if name is not None else [0.0, 1] for name in names]
    return np.array([value / max(seen, 1) ** fade for value, seen in said], dtype=float)


def annotate(memory: Memory, values: Mapping[str, float]) -> None:
    """Write a judge's value of each answer where `annotated` looks it up; how often it was seen is kept.

    >>> memory = Memory()
    >>> annotate(memory, {"opened the door": 1.0})
    >>> annotated(["opened the door", "stood still"], memory).tolist()
    [1.0, 0.0]
    """
    for answer, value in values.items():
        seen = memory.get(key("judged", answer), [0.0, 0])[1]
        memory[key("judged", answer)] = [float(value), seen]
