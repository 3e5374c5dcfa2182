"""Every method file: its worked examples, and conformance to the traits that it declares."""

import numpy as np
import pytest
from credit_groups import fill, groups, take
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath import credit
from polypath.core import registry
from polypath.credit.signals import ngram_unique_share

METHODS = {name: credit.load_method(name) for name in credit.methods()}
EXAMPLES = [(name, i) for name, method in METHODS.items() for i in range(len(method.examples))]
KNOWN_TRAITS = {
    "zero_mean",
    "permutation_equivariant",
    "duplicates_share",
    "zero_when_tied",
    "signal_in_equal_groups",
    "whole_batch",  # a group's credit depends on the other groups of the batch
    "absolute_baseline",  # what is subtracted is not the group's own mean, so that a tied or single group has credit
}


def declares(trait):
    return [name for name, method in METHODS.items() if trait in method.traits]


def lacks(trait):
    return sorted(set(METHODS) - set(declares(trait)))


@pytest.mark.parametrize(("name", "index"), EXAMPLES)
def test_worked_example(name, index):
    example = METHODS[name].examples[index]
    found = credit.run_method({name: example.get("knobs", {})}, example["given"])["advantages"]
    np.testing.assert_allclose(found, example["advantages"], atol=example.get("tolerance", 1e-9))
    assert example["derivation"]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_names_its_paper_choices_and_known_traits(name):
    method = METHODS[name]
    assert method.paper["title"] and method.summary and method.choices
    assert set(method.traits) <= KNOWN_TRAITS
    assert credit.build(name).loss is not None
    assert credit.build(name).describe() == credit.build({name: method.defaults}).describe()


# Knobs without which a method has nothing to do on tiny groups
KNOBS = {
    "dapo": {"max_length": 6, "buffer": 4},
    "blockwise": {"names": ["strategy", "b", ""]},
    "diver_ct": {"thresholds": [0.5] * 3},
}
PIPELINES = {name: credit.build({name: KNOBS.get(name, {})}) for name in METHODS}


def advantages(name, group):
    return PIPELINES[name](group, memory=credit.Memory()).advantages[0]


@settings(max_examples=15, deadline=None)
@given(group=groups())
@pytest.mark.parametrize("name", declares("zero_mean"))
def test_zero_mean(name, group):
    assert abs(advantages(name, group).sum()) < 1e-6 * max(1.0, np.abs(advantages(name, group)).max())


@settings(max_examples=15, deadline=None)
@given(group=groups(), data=st.data())
@pytest.mark.parametrize("name", declares("permutation_equivariant"))
def test_permutation_equivariant(name, group, data):
    order = np.array(data.draw(st.permutations(range(len(group["rewards"])))))
    np.testing.assert_allclose(advantages(name, take(group, order)), advantages(name, group)[order], atol=1e-7)


@settings(max_examples=15, deadline=None)
@given(group=groups(), data=st.data())
@pytest.mark.parametrize("name", declares("duplicates_share"))
def test_duplicates_share(name, group, data):
    n = len(group["rewards"])
    i = data.draw(st.integers(0, n - 1))
    found = advantages(name, take(group, [*range(n), i]))
    assert found[i] == pytest.approx(found[-1], abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(group=groups())
@pytest.mark.parametrize("name", declares("zero_when_tied"))
def test_zero_when_tied(name, group):
    n = len(group["rewards"])
    tied = {**group, "rewards": np.full(n, 0.1), "correct": np.full(n, True), "lengths": np.ones(n)}
    tied["reward_columns"] = np.full((n, 3), 0.1)
    assert not advantages(name, tied).any()


@pytest.mark.parametrize("name", declares("signal_in_equal_groups"))
def test_signal_in_equal_groups_prefers_the_rare(name):
    labels = np.array([0, 0, 1])
    group = {**take(fill(np.ones(3), np.random.default_rng(0)), [0, 0, 1]), "labels": labels}
    group |= {
        "texts": ["a b c", "a b c", "x y z"],
        "answers": ["a", "a", "b"],
        "solutions": ["a", "a", "b"],
        "embeddings": np.eye(2)[labels],
    }
    group["similarity"] = group["embeddings"] @ group["embeddings"].T
    found = advantages(name, group)
    assert found[2] > 0 > found[0]


@settings(max_examples=10, deadline=None)
@given(group=groups(), data=st.data())
@pytest.mark.parametrize("name", METHODS)
def test_undefined_rewards_take_no_part(name, group, data):
    n = len(group["rewards"])
    undefined = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    masked = {**group, "rewards": np.where(undefined, np.nan, group["rewards"])}
    result = PIPELINES[name](masked, memory=credit.Memory())
    assert not result.advantages[0][undefined].any() and not result.keep[0][undefined].any()
    rows = np.flatnonzero(~undefined)
    if len(rows):
        np.testing.assert_array_equal(result.advantages[0][rows], advantages(name, take(group, rows)))


@pytest.mark.parametrize("name", lacks("absolute_baseline"))
@pytest.mark.parametrize("reward", [0.0, 1.0, -3.5])
def test_a_group_of_one_gives_zero(name, reward):
    assert not advantages(name, fill(np.array([reward]), np.random.default_rng(0))).any()


@pytest.mark.parametrize("name", declares("absolute_baseline"))
def test_a_group_of_one_may_have_credit(name):
    alone = [advantages(name, fill(np.array([r]), np.random.default_rng(s))) for r in (0.0, 1.0) for s in range(5)]
    assert np.isfinite(alone).all() and np.any(alone)


@pytest.mark.parametrize("name", lacks("whole_batch"))
def test_any_split_of_the_batch_gives_the_same_advantages(name):
    batch = some_groups()
    together = PIPELINES[name](batch, memory=credit.Memory()).advantages
    for group, found in zip(batch, together, strict=True):
        np.testing.assert_allclose(found, advantages(name, group), atol=1e-12)


@pytest.mark.parametrize("name", declares("whole_batch"))
def test_the_order_of_the_groups_in_a_batch_does_not_matter(name):
    batch = some_groups()
    found = PIPELINES[name](batch, memory=credit.Memory()).advantages
    other = PIPELINES[name](batch[::-1], memory=credit.Memory()).advantages[::-1]
    for one, two in zip(found, other, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    assert any(not np.allclose(a, advantages(name, g)) for a, g in zip(found, batch, strict=True))


def some_groups():
    rng = np.random.default_rng(0)
    return [fill(rng.integers(0, 2, size).astype(float), rng) for size in (4, 2, 4, 5, 1, 2)]


@pytest.mark.parametrize("name", ["darling", "uniqueness", "rarity"])
def test_a_redundant_failure_is_never_better_than_a_distinct_one(name):
    for low in (-1.0, 0.0):
        group = {"rewards": [low, low, low, 1.0], "labels": [0, 0, 1, 2], "correct": [False, False, False, True]}
        found = advantages(name, group)
        assert found[0] <= found[2] + 1e-12 and found[3] > 0


SAFE = [e for e in registry.entries("signal") if "duplicate_never_raises" in e.traits]


@settings(max_examples=25, deadline=None)
@given(group=groups(st.integers(1, 6)), data=st.data())
@pytest.mark.parametrize("entry", SAFE, ids=lambda e: e.name)
def test_an_exact_duplicate_never_raises_its_own_diversity(entry, group, data):
    n = len(group["rewards"])
    function = registry.get("signal", entry.name)
    i = data.draw(st.integers(0, n - 1))

    def value(rows):
        fields = take(group, rows)
        return function(*(fields[name] for name in entry.data))[i]

    assert value([*range(n), i]) <= value(list(range(n))) + 1e-9


def test_random_tokens_do_not_beat_a_correct_answer():
    texts = ["the sum is nine", "the sum is nine", "zq xv kk ww jj pp"]
    assert ngram_unique_share(texts)[2] == 1.0  # noise is maximally unique
    stages = [{"signal": "ngram_unique_share"}, {"gate": "correct"}, {"fuse": {"additive": {"lam": 0.5}}}]
    found = credit.build([*stages, {"normalise": "centre"}])({"rewards": [1, 1, 0], "texts": texts}).advantages[0]
    assert found[2] < 0 < found[0]
