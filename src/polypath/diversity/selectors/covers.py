"""Selectors over what is solved, predicted or covered: set cover, ensembles, arms of subsets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.diversity.kernels import check_rows
from polypath.diversity.selectors.common import Selection, check_k
from polypath.diversity.selectors.coverage import features
from polypath.diversity.selectors.structured import upper_bound


@register("selector", "set_cover", paper="Chvatal 1979; FAC (2.83)", traits={"prefix", "gains_fall"})
def set_cover(
    sets: Sequence[AbstractSet[Hashable]], *, k: int, share: float = 1.0, cost: ArrayLike | None = None
) -> Selection:
    """As few items as greedy needs to cover `share` of all features, at most `k`; with a `cost`, the cheapest per gain.

    Within ln(m) + 1 of the fewest for m features. Gains are the features newly covered. Items that add nothing are
    never picked.

    >>> set_cover([{1, 2}, {2, 3, 4}, {5}, {3}], k=4).indices
    [1, 0, 2]
    """
    k = check_k(k, len(sets), "set_cover")
    if not 0 < share <= 1:
        raise UserError("set_cover.share", f"{share:g} is not in (0, 1]", "1 covers every feature.")
    wanted = share * len(set().union(*sets))
    found = features(sets, k=k, cost=cost)
    picks, gains, covered = [], [], 0.0
    for pick, gain in zip(found.indices, found.gains, strict=True):
        if covered >= wanted - 1e-9 or gain <= 0:
            break
        picks.append(pick)
        gains.append(gain)
        covered += gain
    return Selection(picks, gains, [f"{round(gain)} new" for gain in gains])


@register("selector", "ensemble", paper="Caruana et al. 2004; QDO-ES (1.96)", traits={"prefix"})
def ensemble(success: ArrayLike, *, k: int, seeds: int = 1) -> Selection:
    """Members of a majority vote, greedily: next the candidate that leaves the vote right on most queries.

    `success` (candidates, queries) is the probability of the right answer, 0 or 1 where only that is known; the vote is
    right on a query where the members' mean is above 1/2 (half right where it is 1/2). It begins with the `seeds` best
    single candidates. Ties go to the larger mean margin, then the lower index. Gains are changes of accuracy and may be
    below 0: more members need not help, so the reasons give the accuracy beside that of the best single candidate.

    >>> found = ensemble([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0]], k=3)
    >>> found.indices, [round(gain, 3) for gain in found.gains]
    ([0, 1, 2], [0.667, 0.0, 0.333])
    """
    table = check_rows(success, "success")
    if ((table < 0) | (table > 1)).any():
        raise UserError("success", "has values outside of [0, 1]", "Give probabilities of the right answer.")
    n = len(table)
    k = check_k(k, n, "ensemble")
    if not 1 <= seeds <= k:
        raise UserError("ensemble.seeds", f"{seeds} is not between 1 and k = {k}", "1 begins with the best.")
    right = _right(table)
    best = float(right.max())
    begin = [int(i) for i in np.lexsort((np.arange(n), -table.mean(axis=1), -right))[:seeds]]
    total, before = np.zeros(table.shape[1]), 0.0
    found = Selection([], [])
    while len(found) < k:
        mean = (total + table) / (len(found) + 1)
        accuracy = _right(mean)
        free = np.setdiff1d(np.arange(n), found.indices)
        order = free[np.lexsort((free, -mean[free].mean(axis=1).round(12), -accuracy[free].round(12)))]
        pick = begin[len(found)] if len(found) < seeds else int(order[0])
        found.indices.append(pick)
        found.gains.append(float(accuracy[pick]) - before)
        found.reasons.append(f"vote {accuracy[pick]:.3g}, best single {best:.3g}")
        total, before = total + table[pick], float(accuracy[pick])
    return found


def _right(mean: np.ndarray) -> np.ndarray:
    """The share of queries on which a vote of these means is right; a tie is half right."""
    return np.asarray(((mean > 0.5 + 1e-9) + 0.5 * (np.abs(mean - 0.5) <= 1e-9)).mean(axis=1))


@register("selector", "subset_bandit", paper="DATE (0.76)")
def subset_bandit(
    labels: Sequence[Hashable],
    value: Callable[[Sequence[int]], float] | Sequence[float],
    *,
    k: int,
    exploration: float = 2.0,
    per_pull: int = 8,
    start: float = 0.0,
) -> Selection:
    """Whole pulls of subsets, kept only if the value of all that is kept does not fall: a bandit with subsets as arms.

    An arm is a label; a pull offers its next `per_pull` items. `value(indices)` is what the kept set with them is worth
    (a validation accuracy), or give one number per item, whose mean it then is; `start` is the value of keeping none.
    The reward of a pull is the change; an arm that lowered the value is closed. The bound is that of `upper_bound`.
    Greedy choice of the best subset is not optimal where subsets are unlike. Gains are the rewards of the pulls.

    >>> subset_bandit(["a", "a", "b", "b"], [0.9, 0.9, 0.1, 0.1], k=4, per_pull=2).indices
    [0, 1]
    """
    n = len(labels)
    k = check_k(k, n, "subset_bandit")
    given = None if callable(value) else check_rows([list(value)], "value")[0]
    if given is not None and len(given) != n:
        raise UserError("value", f"has {len(given)} numbers for {n} items", "Give one number per item.")
    ask = value if callable(value) else (lambda indices: float(np.mean([value[i] for i in indices])))
    waiting = {label: [i for i in range(n) if labels[i] == label] for label in dict.fromkeys(labels)}
    rewards: dict[Hashable, list[float]] = {label: [] for label in waiting}
    found, worth, pulls = Selection([], [], []), start, 0
    while len(found) < k and waiting:
        arm = max(waiting, key=lambda a: upper_bound(rewards[a], pulls, exploration))
        pulls += 1
        batch = waiting[arm][:per_pull][: k - len(found)]
        waiting[arm] = waiting[arm][len(batch) :]
        new = float(ask([*found.indices, *batch]))
        rise = new - worth
        rewards[arm].append(rise)
        if rise >= 0:
            worth = new
            found.indices.extend(batch)
            found.gains.extend([rise] * len(batch))
            found.reasons.extend([f"subset {arm}: {new:.3g}"] * len(batch))
        if rise < 0 or not waiting[arm]:
            del waiting[arm]
    return found
