"""Prefix sharing: the plan covers every prefix exactly, and counts what it shares."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.engines.prefix import plan_prefixes

prefix = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@given(st.lists(prefix, min_size=1, max_size=12), st.sampled_from([None, 1, 3, 8]))
def test_every_leaf_spells_its_prefix(prefixes, min_shared):
    plan = plan_prefixes(prefixes, min_shared)
    for row, (level, index) in zip(prefixes, plan.leaf, strict=True):
        tokens = ()
        while level >= 0:
            node = plan.levels[level][index]
            tokens, level, index = node.tokens + tokens, level - 1, node.parent
        assert index is None and tokens == row
    assert all(node.tokens for nodes in plan.levels for node in nodes)


@given(st.lists(prefix, min_size=1, max_size=12))
def test_sharing_everything_prefills_the_trie(prefixes):
    """With min_shared 1 the tokens prefilled are the nodes of the trie: the number of distinct non-empty beginnings."""
    beginnings = {row[:n] for row in prefixes for n in range(1, len(row) + 1)}
    assert plan_prefixes(prefixes, 1).prefilled == len(beginnings)


@given(st.lists(prefix, min_size=1, max_size=12))
def test_sharing_nothing_prefills_the_distinct_prefixes(prefixes):
    assert plan_prefixes(prefixes, None).prefilled == sum(map(len, set(prefixes)))


def test_a_shared_part_must_pay():
    # Three branches after two tokens save (3 - 1) * 2 = 4 tokens.
    prefixes = [(7, 7, i) for i in range(3)]
    assert plan_prefixes(prefixes, 4).prefilled == 2 + 3
    assert plan_prefixes(prefixes, 5).prefilled == 9


def test_a_long_chain_of_nested_prefixes_does_not_recurse():
    tokens = tuple(random.Random(0).randrange(9) for _ in range(1500))
    plan = plan_prefixes([tokens[:n] for n in range(1, 1501)], 1)
    assert plan.prefilled == 1500


@pytest.mark.parametrize("min_shared", [None, 1])
def test_the_order_of_rows_does_not_matter(min_shared):
    prefixes = [(1, 2, 3), (1, 2), (4,), (1, 2, 4), (1, 2)]
    plan, backwards = plan_prefixes(prefixes, min_shared), plan_prefixes(prefixes[::-1], min_shared)
    assert plan.leaf == backwards.leaf[::-1] and plan.levels == backwards.levels
