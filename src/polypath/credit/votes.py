"""Rewards without labels: agents vote on the answer. A group holds rollouts of several agents, told apart by `sources`.

Every function gives 0 to a whole agent, or the whole group, where the vote is undecided, so that nothing is learnt
from a coin toss; a missing answer (None) neither votes nor is ever rewarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np

from polypath.core.arrays import Array
from polypath.core.registry import register

Answers = Sequence[str | None]


def plurality(answers: Sequence[Hashable | None], threshold: float = 0.0) -> Hashable | None:
    """The most frequent answer, None when it is tied, below `threshold` of all (missing ones included) or absent.

    >>> plurality(["a", "b", "a", None]), plurality(["a", "b"]), plurality(["a", "a", "b"], threshold=0.7)
    ('a', None, None)
    """
    counts = Counter(answer for answer in answers if answer is not None).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0] if counts[0][1] >= threshold * len(answers) else None


@register("fuse", "majority_vote", returns="rewards", paper="arXiv:2504.16084", traits={"permutation_equivariant"})
def majority_vote(answers: Answers, *, threshold: float = 0.0) -> np.ndarray:
    """1 for the group's most frequent answer, else 0 (TTRL). It rewards agreement, so pair it with a diversity signal.

    Shapes: G answers, or B lists of G -> (..., G).
    """
    return _each(lambda group, _: _agree(group, plurality(group, threshold)), answers, None)


@register("fuse", "peer_vote", returns="rewards", paper="Co-RL (2.30)", traits={"permutation_equivariant"})
def peer_vote(
    answers: Answers, sources: Array, *, exchange: Literal["ring", "peers"] = "ring", threshold: float = 0.5
) -> np.ndarray:
    """Each agent is rewarded for agreeing with others' labels, never with its own (Co-RL).

    An agent's label is its most frequent answer if its share is at least `threshold`. "ring": agent k takes the label
    of its predecessor in order of number; "peers": the label that a strict majority of the other agents holds.
    One agent alone has no peer: rewards 0. Shapes: G answers and int (G,), or B of each -> (..., G).
    """

    def rewards(group: Answers, agents: np.ndarray) -> np.ndarray:
        names = np.unique(agents)
        label = {n: plurality([a for a, s in zip(group, agents, strict=True) if s == n], threshold) for n in names}
        found = np.zeros(len(group))
        for place, name in enumerate(names):
            others = [label[n] for n in names if n != name]
            target = None
            if others and exchange == "ring":
                target = label[names[place - 1]]
            elif others:
                target = plurality(others, threshold=0.5 + 1e-9)
            found = np.where(agents == name, _agree(group, target), found)
        return found

    return _each(rewards, answers, sources)


@register("fuse", "collective_vote", returns="rewards", paper="RLCCF (1.98)", traits={"permutation_equivariant"})
def collective_vote(answers: Answers, sources: Array) -> np.ndarray:
    """1 for the answer with the largest sum over agents of self-consistency times frequency (RLCCF), else 0.

    An agent's self-consistency is the share of its most frequent answer: whoever agrees with itself counts more.
    A tied vote rewards nobody. Shapes: G answers and int (G,), or B of each -> (..., G).
    """

    def rewards(group: Answers, agents: np.ndarray) -> np.ndarray:
        totals = vote_totals(group, agents)
        best = max(totals.values(), default=0.0)
        leaders = [answer for answer, total in totals.items() if abs(total - best) < 1e-9]
        return _agree(group, leaders[0] if len(leaders) == 1 else None)

    return _each(rewards, answers, sources)


def vote_totals(answers: Answers, sources: Array) -> dict[Hashable, float]:
    """The weighted vote of one group: answer -> sum over agents of self-consistency times the answer's frequency."""
    totals: Counter[Hashable] = Counter()
    for name in np.unique(sources):
        own = [answer for answer, source in zip(answers, sources, strict=True) if source == name]
        counts = Counter(answer for answer in own if answer is not None)
        for answer, count in counts.items():
            totals[answer] += max(counts.values()) / len(own) * count / len(own)  # type: ignore[assignment]
    return dict(totals)


@register("fuse", "matches_reference", returns="rewards", paper="CaT (2.105)", traits={"permutation_equivariant"})
def matches_reference(answers: Answers, reference: Answers) -> np.ndarray:
    """1 where the answer equals the reference that an anchor synthesised from the group (CaT), else 0.

    The anchor may be right where every rollout is wrong; a missing reference rewards nobody.
    Shapes: G answers each, or B lists of G -> (..., G).
    """
    if answers and isinstance(answers[0], list | tuple):
        return np.stack([matches_reference(a, r) for a, r in zip(answers, reference, strict=True)])
    return np.array([float(a is not None and a == r) for a, r in zip(answers, reference, strict=True)])


def _agree(answers: Answers, target: Hashable | None) -> np.ndarray:
    return np.array([float(target is not None and answer == target) for answer in answers])


def _each(function: object, answers: Answers, sources: Array | None) -> np.ndarray:
    """Apply to one group, or to each of several."""
    nested = len(answers) > 0 and isinstance(answers[0], list | tuple)
    groups = answers if nested else [answers]
    agents = [None] * len(groups) if sources is None else np.asarray(sources).reshape(len(groups), -1)
    found = np.stack([function(group, own) for group, own in zip(groups, agents, strict=True)])  # type: ignore[operator]
    return found if nested else found[0]
