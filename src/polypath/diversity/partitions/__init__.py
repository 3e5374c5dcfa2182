"""Equivalence classes inside a group: which rollouts are the same solution.

Labels are integers in order of first appearance (0, 1, ...), so that two partitions are equal iff their labels are.
What belongs to no class (None, a negative label, noise) stands alone. Exact and canonical forms in `labels`, relations
between pairs (rules, classifiers, entailment, decision models, judges) in `pairs`, clusters in `clusters`.
"""

from polypath.diversity.partitions.clusters import (
    Leader,
    adaptive_leader,
    average_linkage,
    by_threshold,
    hdbscan,
    k_means,
    leader,
)
from polypath.diversity.partitions.labels import (
    class_sizes,
    classes,
    first_appearance,
    same_answer,
    same_text,
    wrong_apart,
)
from polypath.diversity.partitions.pairs import (
    SAME,
    asked,
    both_ways,
    by_equivalence,
    each,
    linked,
    same_matrix,
    short_by_overlap,
    union_find,
)

__all__ = [
    "SAME",
    "Leader",
    "adaptive_leader",
    "asked",
    "average_linkage",
    "both_ways",
    "by_equivalence",
    "by_threshold",
    "class_sizes",
    "classes",
    "each",
    "first_appearance",
    "hdbscan",
    "k_means",
    "leader",
    "linked",
    "same_answer",
    "same_matrix",
    "same_text",
    "short_by_overlap",
    "union_find",
    "wrong_apart",
]
