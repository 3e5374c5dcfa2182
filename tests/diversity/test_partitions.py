from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from polypath.diversity.partitions import (
    class_sizes,
    classes,
    first_appearance,
    linked,
    same_answer,
    same_text,
    union_find,
    wrong_apart,
)

LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=9)


@given(LABELS)
def test_classes_renumber_by_first_appearance_and_negatives_stand_alone(labels):
    # the sequential definition, with None for "no class"
    expected = first_appearance([None if label < 0 else label for label in labels])
    assert classes(np.array(labels)).tolist() == expected.tolist()


@given(LABELS, st.data())
def test_class_sizes_are_counts(labels, data):
    among = data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels)))
    named = [f"alone {i}" if label < 0 else label for i, label in enumerate(labels)]
    assert class_sizes(np.array(labels)).tolist() == [Counter(named)[key] for key in named]
    counts = Counter(key for key, counted in zip(named, among, strict=True) if counted)
    assert class_sizes(np.array(labels), among=np.array(among)).tolist() == [counts[key] for key in named]


@given(st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_union_find_gives_the_connected_components(size, seed, density):
    same = np.random.default_rng(seed).random((size, size)) < density
    _, expected = connected_components(same, directed=False)
    assert union_find(same).tolist() == first_appearance(expected.tolist()).tolist()


def test_one_false_link_merges_two_classes():
    # 0-1 and 2-3 are pairs; the single link 1-2 joins all four
    similarity = np.eye(4)
    for i, j in ((0, 1), (2, 3), (1, 2)):
        similarity[i, j] = similarity[j, i] = 0.9
    assert linked(similarity).tolist() == [0, 0, 0, 0]
    assert linked(np.stack([similarity, np.eye(4)])).tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]


def test_answers_and_texts():
    assert same_answer(["4", None, "4", None]).tolist() == [0, 1, 0, 2]
    assert same_text(["a  b", "a b\n", "ab"]).tolist() == [0, 0, 1]
    assert same_text([["a", "a"], ["a", "b"]]).tolist() == [[0, 0], [0, 1]]


def test_wrong_rollouts_stand_alone():
    assert wrong_apart([0, 0, 0, 0], [True, False, True, False]).tolist() == [0, 1, 0, 2]
