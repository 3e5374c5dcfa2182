"""Signals from final answers: how often each was given in the group, and for its prompt over the whole training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from polypath.core.arrays import Array, per_group
from polypath.core.registry import register
from polypath.credit.memory import Memory, key
from polypath.diversity.partitions import first_appearance

EQUIVARIANT = frozenset({"permutation_equivariant", "duplicates_share"})


@register("signal", "answer_novelty", returns="diversity", paper="arXiv:2509.06941 [0.81]", traits={"whole_batch"})
def answer_novelty(
    answers: Sequence[str | None],
    prompts: Sequence[str],
    groups: Array,
    memory: Memory,
    *,
    minus: Literal["constant", "group", "nothing"] = "constant",
    constant: float = 0.5,
) -> np.ndarray:
    """min(1, 1/sqrt(N)), N how often the answer was given to its prompt in earlier batches, less a baseline (UCB).

    `minus="constant"` is UCB-Con: with .5, answers seen more than 4 times are pushed down; "group" subtracts the
    group's mean (UCB-Mean). Without an answer the value is 0 and nothing is counted. Counts rise after use.
    Runs once over the batch: (N,), (N,), (N,) -> (N,). Kept in memory["answers|PROMPT|ANSWER"].
    """
    keys = [None if a is None else key("answers", p, a) for a, p in zip(answers, prompts, strict=True)]
    known = np.array([name is not None for name in keys])
    counts = np.array([0 if name is None else memory.get(name, 0) for name in keys], dtype=float)
    bonus = np.where(known, 1.0 / np.sqrt(np.maximum(counts, 1.0)), 0.0)
    count_up(memory, keys)
    if minus == "constant":
        return np.where(known, bonus - constant, 0.0)
    if minus == "group":
        groups = np.asarray(groups)
        total, number = (np.bincount(groups, weights=w) for w in (bonus, known.astype(float)))
        return np.where(known, bonus - (total / np.maximum(number, 1.0))[groups], 0.0)
    return bonus


def count_up(memory: Memory, keys: Sequence[str | None]) -> None:
    """Add one to the entry of every key, in an order that does not depend on theirs."""
    for name, number in sorted(Counter(name for name in keys if name is not None).items()):
        memory[name] = memory.get(name, 0) + number


@register("signal", "batch_repetition", returns="diversity", paper="arXiv:2509.06941 [0.81]", traits=EQUIVARIANT)
def batch_repetition(answers: Sequence[str | None]) -> np.ndarray:
    """-(1/G) times the number of other rollouts with the same answer; 0 without an answer.

    Shapes: G answers, or B lists of G -> (..., G).

    >>> batch_repetition(["7", "7", "7", "9"]).tolist()
    [-0.5, -0.5, -0.5, 0.0]
    """

    def repeated(group: Sequence[str | None]) -> list[float]:
        counts = Counter(answer for answer in group if answer is not None)
        return [(1 - counts[answer]) / len(group) if answer is not None else 0.0 for answer in group]

    return per_group(repeated, answers)


@register("signal", "recurrent_answer", returns="diversity", paper="MEDS (0.7)", traits={"whole_batch"})
def recurrent_answer(
    answers: Sequence[str | None],
    correct: Array,
    prompts: Sequence[str],
    memory: Memory,
    *,
    alpha: float = 0.1,
    beta: float = 0.5,
) -> np.ndarray:
    """-min(alpha log(n + 1), beta) for a wrong rollout whose answer came n times before on its prompt, 0 for others.

    Correct rollouts and those without an answer are never penalised; with `beta` below the gap between a right and a
    wrong reward the order stays. Counts rise after use. Runs once over the batch: (N,) each -> (N,).
    Kept in memory["errors|PROMPT|ANSWER"].
    """
    wrong = ~np.asarray(correct, dtype=bool)
    rows = zip(answers, prompts, wrong, strict=True)
    keys = [key("errors", p, a) if bad and a is not None else None for a, p, bad in rows]
    seen = np.array([0 if name is None else memory.get(name, 0) for name in keys], dtype=float)
    count_up(memory, keys)
    return recurrence_penalty(seen, alpha, beta)


def recurrence_penalty(seen: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """-min(alpha log(n + 1), beta).

    >>> recurrence_penalty(np.array([0.0, 3.0, 20.0, 200.0]), 0.1, 0.5).round(6).tolist()
    [0.0, -0.138629, -0.304452, -0.5]
    """
    return 0.0 - np.minimum(alpha * np.log1p(seen), beta)


@register("signal", "remembered_rarity", returns="diversity", traits={"whole_batch"})
def remembered_rarity(
    solutions: Sequence[str | None],
    correct: Array,
    prompts: Sequence[str],
    groups: Array,
    memory: Memory,
    *,
    alpha: float = 0.5,
    decay: float = 0.5,
    most: int = 64,
) -> np.ndarray:
    """m^-alpha for a correct rollout, m its solution's correct rollouts in the group and, fading, before; 0 for others.

    At every visit of a prompt what is remembered of it shrinks by `decay` and the visit's counts are added, so that a
    solution that was found often stays common for a while; `decay` 0 is the signal rarity. A correct rollout without
    a canonical form is a solution of its own. The `most` frequent solutions of a prompt are kept.
    Runs once over the batch: (N,) each -> (N,). Kept in memory["found|PROMPT"].
    """
    right = np.asarray(correct, dtype=bool)
    weights = right.astype(float)
    found: dict[str, Counter[str]] = {}
    rows = [
        (i, int(group), key("found", prompt), key(solution))
        for i, (solution, prompt, group) in enumerate(zip(solutions, prompts, groups, strict=True))
        if right[i] and solution is not None
    ]
    here = Counter((group, solution) for _, group, _, solution in rows)
    for i, group, name, solution in rows:
        before = decay * memory.get(name, {}).get(solution, 0.0)
        weights[i] = (here[group, solution] + before) ** -alpha
        found.setdefault(name, Counter())[solution] += 1
    for name, counts in sorted(found.items()):
        total = {old: decay * count for old, count in memory.get(name, {}).items()}
        total |= {new: total.get(new, 0.0) + count for new, count in counts.items()}
        memory[name] = dict(sorted(total.items(), key=lambda item: (-item[1], item[0]))[:most])
    return weights


@register("signal", "context_entropy", returns="diversity", paper="Syn-GRPO (2.96)", traits=EQUIVARIANT)
def context_entropy(answers: Sequence[str | None], contexts: Array) -> np.ndarray:
    """Entropy of the answers among the rollouts of the own context over the log of their number, in [0, 1].

    A context that always leads to the same answer has 0, and so has one of a single rollout; an answer that is
    missing equals no other. Shapes: G answers, or B lists of G; int (..., G) -> (..., G).
    """
    same, here, number, _ = _shares(answers, contexts)
    entropy = (same * -np.log(here / number)[..., None, :]).sum(axis=-1) / number
    return entropy / np.log(np.maximum(number, 2.0))


@register("signal", "branch_information", returns="diversity", paper="IIB-LPO (0.61)", traits=EQUIVARIANT)
def branch_information(
    answers: Sequence[str | None], contexts: Array, lengths: Array | None = None, *, beta: float = 0.0
) -> np.ndarray:
    """KL(p(answer | branch) || p(answer)) in nats: what the own branch (context) says about the answer.

    Its mean over the rollouts is the mutual information of branch and answer. With `beta` and lengths, minus beta
    times the rollout's length over the group's mean: the price of carrying more of the prompt along.
    Shapes: G answers, or B lists of G; int (..., G), (..., G) -> (..., G).

    >>> branch_information(["a", "a", "b", "b"], [0, 0, 1, 1]).round(6).tolist()  # log 2
    [0.693147, 0.693147, 0.693147, 0.693147]
    """
    same, here, number, overall = _shares(answers, contexts)
    surprise = np.log(here / number) - np.log(overall / same.shape[-1])
    value = (same * surprise[..., None, :]).sum(axis=-1) / number
    if beta and lengths is not None:
        lengths = np.asarray(lengths, dtype=float)
        value = value - beta * lengths / np.maximum(lengths.mean(axis=-1, keepdims=True), 1e-12)
    return value


def _shares(answers: Any, contexts: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Who shares a context, and per rollout: its answer's count there, the context's size, its count in the group."""
    labels, contexts = np.asarray(per_group(first_appearance, answers)), np.asarray(contexts)
    same = (contexts[..., :, None] == contexts[..., None, :]).astype(float)
    alike = labels[..., :, None] == labels[..., None, :]
    return same, (same * alike).sum(axis=-1), same.sum(axis=-1), alike.sum(axis=-1).astype(float)
