"""Whether a policy follows its strategies: what they explain of the rewards, and whether the texts give them away."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from polypath.core.record import Rollout
from polypath.core.seeds import derive
from polypath.diversity.features.words import ngrams, tokens

SHUFFLES = 200
ORDERS = (1, 2, 3)  # words per n-gram


@dataclass(frozen=True)
class Share:
    """How the variance of rewards splits. `between` + `within` = 1; NaN where all rewards of every prompt are equal.

    `chance` is the share between contexts that a random assignment of the same sizes has on average, exactly
    (K - 1) / (n - 1) for K contexts of n rollouts; `p` is how often a shuffle reached `between`.
    """

    between: float
    within: float
    chance: float
    p: float
    prompts: int


@dataclass(frozen=True)
class Prediction:
    """How often the context is told from the text alone, each text by the others; `chance` shuffles contexts.

    `p` is how often a shuffle reached `accuracy`; NaN where no prompt has two contexts of two rollouts.
    """

    accuracy: float
    chance: float
    p: float
    rollouts: int


@dataclass(frozen=True)
class StrategyFollow:
    """Both halves of the report for one set of rollouts."""

    rewards: Share
    texts: Prediction
    prompts: int
    contexts: float  # per prompt, mean

    def sentence(self) -> str:
        """The report in words."""
        r, t = self.rewards, self.texts
        share = "undefined (equal rewards)" if math.isnan(r.between) else f"{r.between:.0%} (chance {r.chance:.0%}, "
        share += "" if math.isnan(r.between) else f"p {r.p:.3f})"
        told = "undefined" if math.isnan(t.accuracy) else f"{t.accuracy:.0%} (chance {t.chance:.0%}, p {t.p:.3f})"
        head = f"Strategies: {self.contexts:.1f} contexts for each of {self.prompts} prompts"
        return f"{head}; share of reward variance between them {share}; told from the text alone {told}."


def strategy_follow(rollouts: Sequence[Rollout], *, seed: int = 0, shuffles: int = SHUFFLES) -> StrategyFollow | None:
    """The report for rollouts that were written in contexts; None when no prompt has two of them.

    Rollouts of one prompt and step are compared; strategies themselves and rollouts without a reward are left out.
    Of an episode the actions alone are read.
    """
    sets = [rows for rows in _visits(rollouts) if len({_context(row) for row in rows}) > 1]
    if not sets:
        return None
    contexts = [[_context(row) for row in rows] for rows in sets]
    share = reward_share([[row.reward for row in rows] for rows in sets], contexts, seed=seed, shuffles=shuffles)
    texts = [[_text(row) for row in rows] for rows in sets]
    prediction = context_from_text(texts, contexts, seed=seed, shuffles=shuffles)
    return StrategyFollow(share, prediction, len(sets), float(np.mean([len(set(names)) for names in contexts])))


def reward_share(
    rewards: Sequence[Sequence[float]],
    contexts: Sequence[Sequence[Hashable]],
    *,
    seed: int = 0,
    shuffles: int = SHUFFLES,
) -> Share:
    """Sums of squares between and within the contexts of each prompt, pooled over prompts.

    Shapes: for each prompt n rewards and n contexts. One-way analysis of variance (Fisher 1925).

    >>> share = reward_share([[1, 1, 1, 0]], [["a", "a", "b", "b"]])
    >>> round(share.between, 4), round(share.chance, 4)
    (0.3333, 0.3333)
    """
    parts = [(np.asarray(r, dtype=float), _numbers(c)) for r, c in zip(rewards, contexts, strict=True)]
    total = math.fsum(_spread(values) for values, _ in parts)
    if total <= 0:
        return Share(math.nan, math.nan, math.nan, math.nan, len(parts))
    between = math.fsum(_between(values, names) for values, names in parts) / total
    expected = math.fsum(_spread(v) * names.max() / (len(v) - 1) for v, names in parts if len(v) > 1) / total
    random = np.random.default_rng(derive(seed, "strategy_follow", "rewards"))
    found = [math.fsum(_between(v, random.permutation(c)) for v, c in parts) / total for _ in range(shuffles)]
    return Share(between, 1.0 - between, expected, _p(between, found), len(parts))


def context_from_text(
    texts: Sequence[Sequence[str]], contexts: Sequence[Sequence[Hashable]], *, seed: int = 0, shuffles: int = SHUFFLES
) -> Prediction:
    """Leave one out: a text belongs to the context whose other texts are most like it (Jaccard of 1- to 3-grams).

    Ties count by their share. Only contexts with two rollouts of a prompt take part. The chance level runs the same
    prediction on shuffled contexts: leaving one out alone makes it less than 1 / K.
    Shapes: for each prompt n texts and n contexts.

    >>> told = context_from_text([["go east", "go east now", "take lamp", "take lamp now"]], [[0, 0, 1, 1]])
    >>> told.accuracy
    1.0
    """
    parts = []
    for words, names in zip(texts, contexts, strict=True):
        size = Counter(names)
        kept = [i for i, name in enumerate(names) if size[name] > 1]
        if len({names[i] for i in kept}) > 1:
            parts.append((_likeness([words[i] for i in kept]), _numbers([names[i] for i in kept])))
    n = sum(len(names) for _, names in parts)
    if not n:
        return Prediction(math.nan, math.nan, math.nan, 0)
    accuracy = math.fsum(_told(like, names) for like, names in parts) / n
    random = np.random.default_rng(derive(seed, "strategy_follow", "texts"))
    found = [math.fsum(_told(like, random.permutation(names)) for like, names in parts) / n for _ in range(shuffles)]
    return Prediction(accuracy, float(np.mean(found)), _p(accuracy, found), n)


def _visits(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The answers with a context and a reward, together for each prompt and step."""
    rows = [r for r in rollouts if r.context and not r.group_id.endswith("/strategies") and not math.isnan(r.reward)]
    rows.sort(key=lambda row: (row.step, row.prompt_id))
    return [list(group) for _, group in groupby(rows, key=lambda row: (row.step, row.prompt_id))]


def _text(row: Rollout) -> str:
    """What the policy wrote: of an episode its actions, without the environment's words."""
    turns = row.extra.get("turns")
    return " ".join(str(turn["action"]) for turn in turns) if turns else row.text


def _context(row: Rollout) -> str:
    return str((row.context or {}).get("id"))


def _numbers(names: Sequence[Hashable]) -> np.ndarray:
    order = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names])


def _spread(values: np.ndarray) -> float:
    return float(((values - values.mean()) ** 2).sum())


def _between(values: np.ndarray, names: np.ndarray) -> float:
    size = np.bincount(names)
    means = np.bincount(names, weights=values) / np.maximum(size, 1)
    return float((size * (means - values.mean()) ** 2).sum())


def _likeness(texts: Sequence[str]) -> np.ndarray:
    grams = [ngrams(tokens(text), ORDERS) for text in texts]
    return np.array([[len(a & b) / len(a | b) if a or b else 1.0 for b in grams] for a in grams])


def _told(like: np.ndarray, names: np.ndarray) -> float:
    """How many texts are most like the others of their own context."""
    member = np.eye(names.max() + 1)[names]  # (n, K)
    others = member.sum(axis=0) - member
    score = ((like - np.diag(np.diag(like))) @ member / others).round(12)
    best = score == score.max(axis=1, keepdims=True)
    return float((best * member).sum(axis=1) @ (1.0 / best.sum(axis=1)))


def _p(value: float, shuffled: Sequence[float]) -> float:
    return (1 + sum(other >= value - 1e-12 for other in shuffled)) / (1 + len(shuffled))
