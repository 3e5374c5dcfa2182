"""Partitions: exact forms, relations between pairs, clusters; what all of them keep to."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import partitions as p
from polypath.diversity.kernels import cosine

LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=9)


@given(LABELS)
def test_classes_renumber_by_first_appearance_and_negatives_stand_alone(labels):
    # the sequential definition, with None for "no class"
    expected = p.first_appearance([None if label < 0 else label for label in labels])
    assert p.classes(np.array(labels)).tolist() == expected.tolist()


@given(LABELS, st.data())
def test_class_sizes_are_counts(labels, data):
    among = data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels)))
    named = [f"alone {i}" if label < 0 else label for i, label in enumerate(labels)]
    assert p.class_sizes(np.array(labels)).tolist() == [Counter(named)[key] for key in named]
    counts = Counter(key for key, counted in zip(named, among, strict=True) if counted)
    assert p.class_sizes(np.array(labels), among=np.array(among)).tolist() == [counts[key] for key in named]


@given(st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_union_find_gives_the_connected_components(size, seed, density):
    same = np.random.default_rng(seed).random((size, size)) < density
    _, expected = connected_components(same, directed=False)
    assert p.union_find(same).tolist() == p.first_appearance(expected.tolist()).tolist()


def test_one_false_link_merges_two_classes_of_linked_but_not_of_average_linkage():
    # 0-1 and 2-3 are pairs; the single link 1-2 joins all four, while the mean between the pairs is .9/4
    similarity = np.eye(4)
    for i, j in ((0, 1), (2, 3), (1, 2)):
        similarity[i, j] = similarity[j, i] = 0.9
    assert p.linked(similarity).tolist() == [0, 0, 0, 0]
    assert p.linked(np.stack([similarity, np.eye(4)])).tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]
    assert p.average_linkage(similarity).tolist() == [0, 0, 1, 1]


def test_answers_and_texts():
    assert p.same_answer(["4", None, "4", None]).tolist() == [0, 1, 0, 2]
    assert p.same_text(["a  b", "a b\n", "ab"]).tolist() == [0, 0, 1]
    assert p.same_text([["a", "a"], ["a", "b"]]).tolist() == [[0, 0], [0, 1]]


def test_wrong_rollouts_stand_alone():
    assert p.wrong_apart([0, 0, 0, 0], [True, False, True, False]).tolist() == [0, 1, 0, 2]


# --- what every partition keeps to

CALLS = {
    "same_answer": lambda group: p.same_answer(group["texts"]),
    "same_text": lambda group: p.same_text(group["texts"]),
    "classes": lambda group: p.classes(group["labels"]),
    "wrong_apart": lambda group: p.wrong_apart(group["labels"], group["labels"] > 0),
    "linked": lambda group: p.linked(group["similarity"], threshold=0.6),
    "average_linkage": lambda group: p.average_linkage(group["similarity"], threshold=0.6),
    "hdbscan": lambda group: p.hdbscan(group["embeddings"]),
    "leader": lambda group: p.leader(group["embeddings"], threshold=0.6),
    "k_means": lambda group: p.k_means(group["embeddings"], clusters=3),
    "adaptive_leader": lambda group: p.adaptive_leader(group["embeddings"], start=0.6),
    "by_threshold": lambda group: p.by_threshold(group["embeddings"], threshold=0.6),
    "by_equivalence": lambda group: p.by_equivalence(group["texts"], p.each(lambda a, b: a[:1] == b[:1])),
}
ORDERED = {"leader", "adaptive_leader", "k_means"}  # a stream's classes, and draws, depend on the order


def a_group(size, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, 2))
    return {
        "texts": [str(word) for word in rng.choice(["ab", "a", "ba", "b", "c"], size)],
        "labels": rng.integers(-1, 3, size),
        "embeddings": rows,
        "similarity": cosine(rows) if size else np.zeros((0, 0)),
    }


def permuted(group, order):
    return {
        "texts": [group["texts"][i] for i in order],
        "labels": group["labels"][order],
        "embeddings": group["embeddings"][order],
        "similarity": group["similarity"][np.ix_(order, order)],
    }


def test_all_registered_partitions_of_this_layer_are_tried():
    here = "polypath.diversity.partitions"
    assert {e.name for e in registry.entries("partition") if e.target.startswith(here)} <= set(CALLS)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.data())
@pytest.mark.parametrize("name", CALLS)
def test_labels_by_first_appearance_whatever_the_order(name, size, seed, data):
    group, call = a_group(size, seed), CALLS[name]
    labels = call(group)
    assert labels.dtype == np.int64 and labels.tolist() == p.first_appearance(labels.tolist()).tolist()
    if name not in ORDERED:
        order = np.array(data.draw(st.permutations(range(size))))
        assert call(permuted(group, order)).tolist() == p.first_appearance(labels[order].tolist()).tolist()


@pytest.mark.parametrize("name", CALLS)
def test_one_rollout_and_none(name):
    assert CALLS[name](a_group(1, 0)).tolist() == [0]
    assert CALLS[name](a_group(0, 0)).shape == (0,)


@pytest.mark.parametrize("name", ["linked", "average_linkage", "hdbscan", "leader"])
def test_groups_are_stacked(name):
    groups = [a_group(5, seed) for seed in range(4)]
    both = {key: np.stack([g[key] for g in groups]) for key in ("similarity", "embeddings")}
    assert CALLS[name](both).tolist() == [CALLS[name](g).tolist() for g in groups]
    assert CALLS[name]({key: value[:0] for key, value in both.items()}).shape == (0, 5)


# --- relations between pairs


def counting(rule):
    """A relation of a rule, and the list of batches that it was asked for."""
    batches = []

    def relation(pairs):
        batches.append(list(pairs))
        return [rule(a, b) for a, b in pairs]

    return relation, batches


def near(a, b):
    return abs(int(a) - int(b)) <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=10))
def test_relations_give_the_transitive_closure_asked_frugally_or_at_once(numbers):
    texts = [None if number is None else str(number) for number in numbers]
    pairs = np.array([[a == b if None in (a, b) else near(a, b) for b in texts] for a in texts], dtype=bool)
    pairs &= np.array([[a is not None and b is not None for b in texts] for a in texts], dtype=bool).reshape(
        pairs.shape
    )
    expected = p.union_find(pairs.reshape(len(texts), len(texts)) | np.eye(len(texts), dtype=bool))
    (frugal, some), (whole, once) = counting(near), counting(near)
    assert p.by_equivalence(texts, frugal).tolist() == expected.tolist()
    assert p.by_equivalence(texts, whole, frugal=False).tolist() == expected.tolist()
    known = len({text for text in texts if text is not None})
    assert sum(map(len, once)) == known * (known - 1) // 2 and len(once) <= 1
    asked = [pair for batch in some for pair in batch]
    assert len(asked) == len(set(asked)) <= known * (known - 1) // 2


def test_a_class_is_not_asked_about_twice():
    relation, batches = counting(lambda a, b: a[0] == b[0])
    assert p.by_equivalence(["a1", "a2", "b1", "a3", "b2", "a1"], relation).tolist() == [0, 0, 1, 0, 1, 0]
    # a2; b1 against a1, a2; a3 against a1 and b1, one each; b2 against b1, and all of a
    assert [len(batch) for batch in batches] == [1, 1, 1, 2, 2, 1, 1]


def test_a_matrix_of_verdicts():
    matrix = p.same_matrix(["a", "b", None, "a", "c"], lambda pairs: [0.7, None, True][: len(pairs)])
    # pairs (a, b), (a, c), (b, c); None is like nothing, an undecided pair is 0
    assert matrix.tolist() == [
        [1, 0.7, 0, 1, 0],
        [0.7, 1, 0, 0.7, 1],
        [0, 0, 1, 0, 0],
        [1, 0.7, 0, 1, 0],
        [0, 1, 0, 0, 1],
    ]
    assert p.same_matrix([], p.each(near)).shape == (0, 0) and p.same_matrix(["1"], p.each(near)).tolist() == [[1]]
    with pytest.raises(UserError, match="1 verdicts for 3 pairs"):
        p.same_matrix(["a", "b", "c"], lambda pairs: [True])
    with pytest.raises(UserError, match="NaN"):
        p.by_equivalence(["a", "b"], lambda pairs: [math.nan])


def test_entailment_must_hold_both_ways():
    entails, batches = counting(lambda a, b: 0.9 if set(b) <= set(a) else 0.1)
    assert p.by_equivalence(["abc", "ab", "cba"], entails).tolist() == [0, 0, 0]
    assert p.by_equivalence(["abc", "ab", "cba"], p.both_ways(entails)).tolist() == [0, 1, 0]
    assert batches[-1] == [("abc", "cba"), ("ab", "cba"), ("cba", "abc"), ("cba", "ab")]
    assert p.both_ways(lambda pairs: [None, 1.0])([("a", "b")]) == [None]


def test_questions_to_a_judge_or_a_decision_model():
    seen = []

    def answers(prompts):
        seen.extend(prompts)
        return ["**Yes**, they are", "No.", "Hard to say", ""]

    pairs = [("{b}", "b"), ("a", "c"), ("a", "d"), ("a", "e")]
    assert p.asked(answers, question="<{a}|{b}>", unclear=0.5)(pairs) == [1.0, 0.0, 0.5, 0.5]
    assert seen[0] == "<{b}|b>"  # a text with braces is left as it is
    assert p.asked(lambda prompts: [0.3] * len(prompts))([("a", "b")]) == [0.3]
    assert "Solution 2:\n" in p.SAME
    with pytest.raises(UserError, match="does not hold"):
        p.asked(answers, question="{a} and what?")


def test_short_texts_are_compared_by_their_words():
    relation, batches = counting(lambda a, b: False)
    pairs = [("a b c d", "a b x y"), ("a b c d", "a x y z"), ("a b c d e f", "a b c d e f"), ("", "")]
    # 2 of 4 words, 1 of 4; the third is long and goes to the classifier; nothing shares half of nothing's one
    assert p.short_by_overlap(relation)(pairs) == [True, False, False, False]
    assert batches == [[pairs[2]]]


# --- clusters

BLOBS = np.array([[1, 0], [0.99, 0.05], [0, 1], [0.02, 0.98], [1, 0.02], [-1, 0]])


def test_average_linkage_by_hand():
    # similarities .9 (0,1), .5 (0,2), .7 (1,2): first 0 and 1; their mean to 2 is .6
    kernel = np.array([[1, 0.9, 0.5], [0.9, 1, 0.7], [0.5, 0.7, 1]])
    assert p.average_linkage(kernel, threshold=0.61).tolist() == [0, 0, 1]
    assert p.average_linkage(kernel, threshold=0.6).tolist() == [0, 0, 0]
    for bad, where in (([[1.0, 0.5], [math.nan, 1.0]], "similarity, row 1"), (np.full((2, 1, 1), math.inf), "group")):
        with pytest.raises(UserError, match=where):
            p.average_linkage(bad)


@pytest.mark.parametrize(
    "partition", [p.hdbscan, lambda e: p.leader(e, threshold=0.9), lambda e: p.by_threshold(e, threshold=0.9)]
)
def test_blobs_are_found(partition):
    assert partition(BLOBS).tolist() == [0, 0, 1, 1, 0, 2]
    assert partition(BLOBS[[5, 3, 1, 0, 2, 4]]).tolist() == [0, 1, 2, 2, 1, 2]
    for bad in (0.0, math.nan):
        with pytest.raises(UserError, match=r"embeddings\[1\]"):
            partition(np.concatenate([BLOBS[:1], np.full((1, 2), bad), BLOBS]))


def test_hdbscan_of_small_groups():
    assert p.hdbscan(BLOBS[:3]).tolist() == [0, 1, 2]
    assert p.hdbscan(BLOBS[[0, 0, 0, 0]], min_samples=5).tolist() == [0, 1, 2, 3]
    with pytest.raises(UserError, match="min_cluster is 1"):
        p.hdbscan(BLOBS, min_cluster=1)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=4), st.floats(-1, 1), st.integers(0, 1000))
def test_a_stream_in_parts_is_the_stream(cuts, threshold, seed):
    rows = np.random.default_rng(seed).normal(size=(30, 3))
    whole = p.Leader(threshold=threshold)
    labels = whole.add(rows)
    parts = p.Leader(threshold=threshold)
    found = [parts.add(part) for part in np.split(rows, sorted(cuts))]
    assert np.concatenate(found).tolist() == labels.tolist()
    assert parts.sizes == whole.sizes == np.bincount(labels).tolist()
    np.testing.assert_allclose(parts.leaders, whole.leaders)
    # the definition, item by item
    leaders, expected = [], []
    for row in rows / np.linalg.norm(rows, axis=1, keepdims=True):
        near = [float(row @ other) for other in leaders]
        if not near or max(near) < threshold:
            leaders.append(row)
            near.append(math.inf)
        expected.append(int(np.argmax(near)))
    assert labels.tolist() == expected


def test_leaders_can_be_bounded():
    bounded = p.Leader(threshold=0.9, most=2)
    assert bounded.add(BLOBS).tolist() == [0, 0, 1, 1, 0, 1]  # the opposite of the first is nearer to the second
    assert bounded.leaders.shape == (2, 2)
    for options in ({"threshold": 2}, {"most": 0}):
        with pytest.raises(UserError, match="leader"):
            p.Leader(**options)
    with pytest.raises(UserError, match="is zero"):
        p.Leader().add([[0.0, 0.0]])
    with pytest.raises(UserError, match="3 dimensions"):
        bounded.add([[1.0, 0.0, 0.0]])
