"""Where a change of the success rate comes from: other branches, or better work within them (Kitagawa 1955).

A policy's answers to a prompt begin in branches (a first step, a strategy, a class). Its success rate is
sum_b P(b) s(b), with the share P of each branch and the success rate s inside it. The difference of two policies is
then exactly *allocation*, sum_b (P1 - P0) (s1 + s0) / 2, plus *skill*, sum_b (s1 - s0) (P1 + P0) / 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from polypath.core.errors import UserError
from polypath.core.record import Rollout
from polypath.evaluate.runs import Run
from polypath.evaluate.stats import Estimate, mean_interval

Outcomes = Mapping[str, Sequence[tuple[Hashable, bool]]]


@dataclass(frozen=True)
class ShiftShare:
    """Means over prompts (or over seeds), each with a 95 % interval: `difference` is `allocation` plus `skill`."""

    difference: Estimate
    allocation: Estimate
    skill: Estimate
    unmatched: Estimate

    def __iter__(self) -> Iterator[Estimate]:
        """The four estimates in their order."""
        return (getattr(self, part.name) for part in fields(self))


def first_words(text: str, *, n: int) -> str:
    """The branch an answer begins in, its first `n` words.

    >>> first_words("1 + 6 = 7 + 9 = 16", n=3)
    '1 + 6'
    """
    return " ".join(text.split()[:n])


def shift_share(outcomes: Outcomes, baseline: Outcomes) -> ShiftShare:
    """Split the difference of two arms' success rates; the arms share their prompts.

    `outcomes` and `baseline` map a prompt's id to the (branch, correct) pairs of its answers. The success rate of a
    branch that one arm never entered is unknown: there both arms are given the other's, so that the branch counts as
    allocation alone, and `unmatched` is the mean share of answers (over both arms) in such branches.
    Raises UserError when no prompt has answers of both arms.

    >>> found = shift_share({"p": [("a", True), ("a", False)]}, {"p": [("a", True), ("b", False)]})
    >>> found.difference.value, found.allocation.value, found.skill.value
    (0.0, 0.375, -0.375)
    """
    shared = [prompt for prompt in outcomes if outcomes[prompt] and baseline.get(prompt)]
    if not shared:
        raise UserError("shift_share", "the two arms have answers to no common prompt", "Evaluate both on one split.")
    rows = [_of_prompt(outcomes[prompt], baseline[prompt]) for prompt in shared]
    allocation, skill, unmatched = (list(column) for column in zip(*rows, strict=True))
    difference = [a + s for a, s in zip(allocation, skill, strict=True)]
    return ShiftShare(*(mean_interval(column) for column in (difference, allocation, skill, unmatched)))


def outcomes_of(rollouts: Sequence[Rollout], *, words: int) -> dict[str, list[tuple[str, bool]]]:
    """The (branch, correct) pairs of each prompt, a branch being the first `words` words; the unjudged are left out."""
    found: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for rollout in rollouts:
        if rollout.correct is not None:
            found[rollout.prompt_id].append((first_words(rollout.text, n=words), rollout.correct))
    return dict(found)


def shift_of_runs(runs: Sequence[Run], arm: str, baseline: str, *, words: int) -> ShiftShare:
    """`shift_share` of two arms' final evaluations, over common seeds; of one seed, the interval is over prompts.

    Raises UserError when the arms have no seed in common.
    """
    of_arm, of_baseline = ({run.seed: run for run in runs if run.arm == name} for name in (arm, baseline))
    shared = sorted(of_arm.keys() & of_baseline.keys())
    if not shared:
        raise UserError("compare", f"'{arm}' and '{baseline}' have no seed in common", "Compare runs of equal seeds.")
    by_seed = [
        shift_share(
            outcomes_of(of_arm[seed].rollouts(), words=words), outcomes_of(of_baseline[seed].rollouts(), words=words)
        )
        for seed in shared
    ]
    if len(by_seed) == 1:
        return by_seed[0]
    return ShiftShare(*(mean_interval([part.value for part in parts]) for parts in zip(*by_seed, strict=True)))


def _of_prompt(
    answers: Sequence[tuple[Hashable, bool]], others: Sequence[tuple[Hashable, bool]]
) -> tuple[float, float, float]:
    (share, success), (share0, success0) = _branches(answers), _branches(others)
    allocation = skill = unmatched = 0.0
    for branch in share | share0:
        p, p0 = share.get(branch, 0.0), share0.get(branch, 0.0)
        s = success.get(branch, success0.get(branch, 0.0))
        s0 = success0.get(branch, s)
        allocation += (p - p0) * (s + s0) / 2
        skill += (s - s0) * (p + p0) / 2
        unmatched += (p + p0) / 2 if not (p and p0) else 0.0
    return allocation, skill, unmatched


def _branches(answers: Sequence[tuple[Hashable, bool]]) -> tuple[dict[Hashable, float], dict[Hashable, float]]:
    """The share of each branch, and the success rate inside it."""
    counts: dict[Hashable, list[int]] = defaultdict(lambda: [0, 0])
    for branch, correct in answers:
        counts[branch][0] += 1
        counts[branch][1] += bool(correct)
    return {b: n / len(answers) for b, (n, _) in counts.items()}, {b: right / n for b, (n, right) in counts.items()}
