"""What a pipeline reports about its signal: where it came from, where in the group it went, where there was none."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polypath.credit.inputs import Bucket, Stack
from polypath.diversity.partitions import class_sizes, first_appearance

Values = Callable[[Bucket], np.ndarray]


def measure(stack: Stack, without: Stack | None, divides_by_spread: bool) -> dict[str, float]:
    """The metrics of one batch; a share of groups is over groups with a rollout that takes part. NaN is undefined.

    `without` holds the advantages of the same pipeline with its diversity taken out. `std_inflated_groups` counts
    groups of equal given rewards whose fused rewards differ and are then divided by their own tiny spread.
    """
    buckets = stack.buckets
    tied = _join(buckets, lambda b: _tied(b.fields["base_rewards"]))
    fused_tied = _join(buckets, lambda b: _tied(b.fields["rewards"]))
    judged = _having(buckets, "correct")
    right = _join(judged, lambda b: b.fields["correct"].mean(axis=-1))
    return {
        "frac_all_correct": _mean(right == 1.0),
        "frac_all_wrong": _mean(right == 0.0),
        "frac_tied": _mean(tied),
        "frac_signal_from_diversity": _from_diversity(stack, without),
        "mean_abs_advantage": _mean(_join(buckets, lambda b: per_rollout(b, np.abs(credit_of(b))).ravel())),
        "distinct_per_correct_set": _distinct(_having(judged, "labels")),
        "top_answer_mass": _top_answer_mass(buckets),
        "corr_credit_length": _correlation(_having(buckets, "lengths")),
        "std_inflated_groups": float((tied & ~fused_tied).sum()) if divides_by_spread else 0.0,
        **_workings(stack, without),
        **_destinations(stack, without),
        **_contexts(_having(buckets, "contexts")),
    }


def credit_of(bucket: Bucket) -> np.ndarray:
    """The advantages as they are used: 0 for a rollout that a stage dropped. (B, G) or (B, G, T)."""
    values = bucket.fields["advantages"]
    kept = np.broadcast_to(bucket.fields.get("keep", True), values.shape[:2])
    return np.where(kept.reshape(*kept.shape, *[1] * (values.ndim - 2)), values, 0.0)


def per_rollout(bucket: Bucket, values: np.ndarray) -> np.ndarray:
    """Means over each rollout's own tokens where there is a value per token: (B, G) or (B, G, T) -> (B, G)."""
    if values.ndim == 2:
        return values
    mask = bucket.fields.get("mask", np.ones(values.shape, dtype=bool))
    return (values * mask).sum(axis=-1) / np.maximum(mask.sum(axis=-1), 1)


def _having(buckets: list[Bucket], *names: str) -> list[Bucket]:
    return [bucket for bucket in buckets if all(name in bucket.fields for name in names)]


def _tied(rewards: np.ndarray) -> np.ndarray:
    return rewards.max(axis=-1) == rewards.min(axis=-1)


def _join(buckets: list[Bucket], function: Values) -> np.ndarray:
    return np.concatenate([function(bucket) for bucket in buckets]) if buckets else np.zeros(0, dtype=bool)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _total(buckets: list[Bucket]) -> float:
    return sum(float(np.abs(credit_of(b)).sum()) for b in buckets)


def _from_diversity(stack: Stack, without: Stack | None) -> float:
    """sum |A - A_without| / sum |A|; 0 for a pipeline without a diversity signal, NaN when there is no credit."""
    total = _total(stack.buckets)
    if without is None or total == 0:
        return 0.0 if total > 0 else math.nan
    return sum(float(np.abs(moved).sum()) for _, moved in _moved(stack, without)) / total


def _moved(stack: Stack, without: Stack) -> list[tuple[Bucket, np.ndarray]]:
    """What the diversity signal did to each rollout's credit."""
    pairs = zip(stack.buckets, without.buckets, strict=True)
    return [(bucket, credit_of(bucket) - credit_of(other)) for bucket, other in pairs]


def _workings(stack: Stack, without: Stack | None) -> dict[str, float]:
    """Whether a pipeline's diversity does anything: where it moves credit, varies in the group, and passes its gate.

    `frac_moved_by_diversity` is the share of groups whose credit is another one than without it; 0 step after step is a
    method that trains like its own control. Empty for a pipeline without a diversity signal.
    """
    if without is None:
        return {}
    pairs = zip(stack.buckets, without.buckets, strict=True)
    moved = [~_alike(credit_of(bucket), credit_of(other)) for bucket, other in pairs]
    signalled, gated = (_having(stack.buckets, name) for name in ("diversity", "gate"))
    return {
        "frac_moved_by_diversity": _mean(np.concatenate(moved)) if moved else math.nan,
        "frac_diversity_varies": _mean(_join(signalled, lambda b: ~_constant(np.asarray(b.fields["diversity"])))),
        "diversity_gate_open": _mean(_join(gated, lambda b: np.asarray(b.fields["gate"]).ravel())),
    }


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(B, G) or (B, G, T) each -> bool (B,): equal but for rounding."""
    gap = np.abs(one - other).reshape(len(one), -1).max(axis=-1)
    return gap <= 1e-9 * np.maximum(1.0, np.abs(other).reshape(len(other), -1).max(axis=-1))


def _constant(values: np.ndarray) -> np.ndarray:
    """(B, G, ...) -> bool (B,): the same for every rollout, but for rounding."""
    return np.ptp(values.reshape(*values.shape[:2], -1), axis=1).max(axis=-1) <= 1e-9


def _destinations(stack: Stack, without: Stack | None) -> dict[str, float]:
    """Where the diversity signal went, as net credit gained over sum |A|: rare correct, common correct, wrong.

    A correct rollout is rare when fewer share its solution than do on average over the group's correct solutions.
    """
    judged = without is not None and all("correct" in b.fields and "labels" in b.fields for b in stack.buckets)
    total = _total(stack.buckets)
    if without is None or not judged or total == 0:
        return {}
    sums = dict.fromkeys(("rare_correct", "common_correct", "wrong"), 0.0)
    for bucket, moved in _moved(stack, without):
        gained = moved if moved.ndim == 2 else moved.sum(axis=-1)
        correct = bucket.fields["correct"]
        sizes = np.maximum(class_sizes(bucket.fields["labels"], among=correct), 1)
        solutions = (correct / sizes).sum(axis=-1, keepdims=True)
        rare = correct & (sizes * solutions < correct.sum(axis=-1, keepdims=True) - 1e-9)
        for name, where in {"rare_correct": rare, "common_correct": correct & ~rare, "wrong": ~correct}.items():
            sums[name] += float(gained[where].sum())
    return {f"diversity_to_{name}": value / total for name, value in sums.items()}


def _distinct(buckets: list[Bucket]) -> float:
    """Mean number of classes among the correct, over groups with a correct rollout: each member of f counts 1/f."""
    found = []
    for bucket in buckets:
        correct = bucket.fields["correct"]
        sizes = np.maximum(class_sizes(bucket.fields["labels"], among=correct), 1)
        found.append((correct / sizes).sum(axis=-1)[correct.any(axis=-1)])
    return _mean(np.concatenate(found)) if found else math.nan


def _top_answer_mass(buckets: list[Bucket]) -> float:
    """Mean share of the group's rollouts that give its commonest answer, by label, else by the answers."""
    found = []
    for bucket in buckets:
        labels = bucket.fields.get("labels")
        if labels is None and "answers" in bucket.fields:
            labels = np.stack([first_appearance(group) for group in bucket.fields["answers"]])
        if labels is not None:
            found.append(class_sizes(labels).max(axis=-1) / labels.shape[-1])
    return _mean(np.concatenate(found)) if found else math.nan


def _correlation(buckets: list[Bucket]) -> float:
    """Pearson correlation of a rollout's (mean token) advantage with its length over the batch."""
    credit = _join(buckets, lambda b: per_rollout(b, credit_of(b)).ravel())
    length = _join(buckets, lambda b: b.fields["lengths"].ravel())
    if credit.size < 2 or credit.std() == 0 or length.std() == 0:
        return math.nan
    return float(np.corrcoef(credit, length)[0, 1])


def _contexts(buckets: list[Bucket]) -> dict[str, float]:
    """How much of the rewards' variance lies between contexts, and how often bare and other prompts succeed.

    The share is corrected for chance (epsilon squared): contexts without any effect give 0 on average, now and then
    less. NaN where no context has two rollouts or all rewards are equal.
    """
    if not buckets:
        return {}
    within = total = inner = outer = 0.0
    for bucket in buckets:
        rewards, contexts = bucket.fields["base_rewards"], bucket.fields["contexts"]
        same = contexts[..., :, None] == contexts[..., None, :]
        size = same.sum(axis=-1)
        within += float(((rewards - (same * rewards[..., None, :]).sum(axis=-1) / size) ** 2).sum())
        total += float(((rewards - rewards.mean(axis=-1, keepdims=True)) ** 2).sum())
        inner += float((1.0 - 1.0 / size).sum())
        outer += float(rewards.size - rewards.shape[0])
    known = total > 1e-12 and 0 < inner < outer
    found = {"between_context_share": 1.0 - (within / inner) / (total / outer) if known else math.nan}
    judged = _having(buckets, "correct")
    right = _join(judged, lambda b: b.fields["correct"].ravel())
    bare = _join(judged, lambda b: (b.fields["contexts"] == 0).ravel())
    if bare.any() and not bare.all():
        found |= {"correct_bare": _mean(right[bare]), "correct_in_context": _mean(right[~bare])}
    return found
