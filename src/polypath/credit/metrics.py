"""What a pipeline reports about its signal: where it came from and where there was none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polypath.credit.inputs import Bucket, Stack
from polypath.diversity.partitions import class_sizes


def measure(stack: Stack, without: Stack | None, divides_by_spread: bool) -> dict[str, float]:
    """The metrics of one batch; a share of groups is over groups with a rollout that takes part. NaN is undefined.

    `without` holds the advantages of the same pipeline with its diversity taken out. `std_inflated_groups` counts
    groups of equal given rewards whose fused rewards differ and are then divided by their own tiny spread.
    """
    buckets = stack.buckets
    tied = _join(buckets, lambda b: _tied(b.fields["base_rewards"]))
    fused_tied = _join(buckets, lambda b: _tied(b.fields["rewards"]))
    credit = _join(buckets, lambda b: np.abs(b.fields["advantages"]).ravel())
    with_correct = [b for b in buckets if "correct" in b.fields]
    right = _join(with_correct, lambda b: b.fields["correct"].mean(axis=-1))
    inflated = float((tied & ~fused_tied).sum()) if divides_by_spread else 0.0
    return {
        "frac_all_correct": _mean(right == 1.0),
        "frac_all_wrong": _mean(right == 0.0),
        "frac_tied": _mean(tied),
        "frac_signal_from_diversity": _from_diversity(stack, without),
        "mean_abs_advantage": _mean(credit),
        "distinct_per_correct_set": _distinct(with_correct),
        "corr_credit_length": _correlation(buckets),
        "std_inflated_groups": inflated,
    }


def _tied(rewards: np.ndarray) -> np.ndarray:
    return rewards.max(axis=-1) == rewards.min(axis=-1)


def _join(buckets: list[Bucket], function: Any) -> np.ndarray:
    return np.concatenate([function(bucket) for bucket in buckets]) if buckets else np.zeros(0, dtype=bool)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _from_diversity(stack: Stack, without: Stack | None) -> float:
    """sum |A - A_without| / sum |A|; 0 for a pipeline without a diversity signal, NaN when there is no credit."""
    total = sum(float(np.abs(b.fields["advantages"]).sum()) for b in stack.buckets)
    if without is None:
        return 0.0 if total > 0 else math.nan
    pairs = zip(stack.buckets, without.buckets, strict=True)
    moved = sum(float(np.abs(b.fields["advantages"] - w.fields["advantages"]).sum()) for b, w in pairs)
    return moved / total if total > 0 else math.nan


def _distinct(buckets: list[Bucket]) -> float:
    """Mean number of classes among the correct, over groups with a correct rollout: each member of f counts 1/f."""
    found = []
    for bucket in buckets:
        if "labels" in bucket.fields:
            correct = bucket.fields["correct"]
            sizes = np.maximum(class_sizes(bucket.fields["labels"], among=correct), 1)
            found.append((correct / sizes).sum(axis=-1)[correct.any(axis=-1)])
    return _mean(np.concatenate(found)) if found else math.nan


def _correlation(buckets: list[Bucket]) -> float:
    """Pearson correlation of a rollout's (mean token) advantage with its length over the batch."""
    pairs = [b for b in buckets if "lengths" in b.fields]
    credit = _join(pairs, lambda b: _per_rollout(b.fields["advantages"], b.fields["rewards"].ndim).ravel())
    length = _join(pairs, lambda b: b.fields["lengths"].ravel())
    if credit.size < 2 or credit.std() == 0 or length.std() == 0:
        return math.nan
    return float(np.corrcoef(credit, length)[0, 1])


def _per_rollout(advantages: np.ndarray, ndim: int) -> np.ndarray:
    return advantages if advantages.ndim == ndim else advantages.mean(axis=-1)
