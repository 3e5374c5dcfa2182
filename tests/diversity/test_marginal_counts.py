"""Marginals of classes, successes, tastes and texts against brute force; traits; gradients; any measure by name."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import marginals as m
from polypath.diversity import measures
from polypath.diversity.kernels import cosine
from polypath.diversity.marginals import leave_one_out

LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=9)
TEXTS = st.lists(
    st.sampled_from(["a b c a", "a b", "b c a b c d", "", "c", "a b c a b", "了解 a"]), min_size=1, max_size=7
)


def of_subsets(function, items):
    return leave_one_out(lambda keep: function([items[i] for i in keep]), len(items))


@settings(max_examples=60, deadline=None)
@given(LABELS)
def test_class_marginals(labels):
    def same(found, function):
        expected = of_subsets(function, labels)
        np.testing.assert_allclose(found(np.array(labels)), expected, atol=1e-12)
        np.testing.assert_allclose(found(torch.tensor(labels)), expected, atol=1e-5)  # torch's default float

    same(m.loo_classes, lambda some: len(set(some)))
    same(lambda x: m.loo_entropy(x, undefined=math.nan), measures.entropy)
    same(lambda x: m.loo_label_pairs(x, undefined=math.nan), measures.pairwise_difference)
    for q in (0.0, 0.5, 1.0, 2.0, math.inf):
        same(lambda x, q=q: m.loo_hill(x, q=q, undefined=math.nan), lambda some, q=q: measures.hill(some, q=q))


def test_undefined_class_marginals_are_zero_in_the_pipeline():
    assert m.loo_entropy([3]).tolist() == m.loo_hill([3]).tolist() == [0.0]
    assert m.loo_label_pairs([3, 4]).tolist() == [0.0, 0.0]
    assert m.loo_classes([3]).tolist() == [1.0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 7))
def test_coverage_and_tastes(seed, size):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, size=(size, 5)).astype(float)
    covered = leave_one_out(lambda keep: table[keep].max(axis=0).sum() if keep else 0.0, size)
    np.testing.assert_allclose(m.loo_coverage(table), covered, atol=1e-12)
    np.testing.assert_allclose(m.loo_coverage(torch.tensor(table)), covered, atol=1e-12)
    added = [np.maximum(table[0], row).sum() - table[0].sum() for row in table]
    np.testing.assert_allclose(m.gain_coverage(table[:1], table), added, atol=1e-12)
    rewards, weights = rng.normal(size=(size, 3)), rng.dirichlet(np.ones(3), 4)
    best = leave_one_out(lambda keep: (rewards[keep] @ weights.T).max(axis=0).mean() if keep else 0.0, size)
    np.testing.assert_allclose(m.best_of_tastes(rewards, weights), best, atol=1e-12)


def test_tastes_by_hand():
    # weights (1,0), (.5,.5), (0,1): without the first the best for (1,0) is .9; for (.5,.5) the first two tie; nobody
    # else has (0,1). An undefined reward is 0
    rewards, weights = [[1.0, 0.0], [math.nan, 1.0], [0.9, 0.0]], [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    assert m.best_of_tastes(rewards, weights) == pytest.approx([0.1 / 3, 1 / 3, 0])
    # two specialists and one in between, two equal generalists: the copies earn nothing
    assert m.loo_scalarised([[1, 0], [0, 1], [0.6, 0.6], [0.6, 0.6]])[2:].tolist() == [0.0, 0.0]
    found = m.loo_scalarised(np.array([[1.0, 0], [0, 1]]), samples=20000)
    assert found == pytest.approx([0.25, 0.25], abs=0.01)  # E max(w, 1 - w) - E w = 3/4 - 1/2
    assert m.loo_scalarised([[1, 0], [0, 1]]).tolist() == m.loo_scalarised([[1, 0], [0, 1]]).tolist()


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.integers(1, 3))
def test_text_marginals(texts, n):
    found = m.loo_distinct_n(texts, n=n, undefined=math.nan)
    np.testing.assert_allclose(found, of_subsets(lambda some: measures.distinct_n(some, n=n), texts), atol=1e-12)
    found = m.loo_self_bleu(texts, n=n, undefined=math.nan)
    np.testing.assert_allclose(found, -of_subsets(lambda some: measures.self_bleu(some, n=n), texts), atol=1e-12)


def test_text_marginals_of_several_groups():
    groups = [["a b c", "a b d", "x y z", "a b c"], ["", "a b c", "c d", "了解 了解"]]
    for function in (m.loo_distinct_n, m.loo_self_bleu):
        found = function(groups)
        assert found.shape == (2, 4)
        for row, group in zip(found, groups, strict=True):
            np.testing.assert_allclose(row, function(group), atol=1e-15)
        assert function([]).shape == (0,) and function(["a b"]).tolist() == [0.0]
        with pytest.raises(UserError, match="different sizes"):
            function([["a"], ["a", "b"]])


def test_distance_to_a_reference():
    rng = np.random.default_rng(0)
    rows, reference = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)) + 1
    for found, measure in ((m.loo_mmd, measures.mmd), (m.loo_energy_distance, measures.energy_distance)):
        expected = leave_one_out(lambda keep, measure=measure: measure(rows[keep], reference), 5)
        np.testing.assert_allclose(found(rows, reference), expected, atol=1e-12)
        assert np.isnan(found(rows[:2], reference)).all()
    np.testing.assert_allclose(
        m.loo_mmd(rows, reference, bandwidth=0.7),
        leave_one_out(lambda keep: measures.mmd(rows[keep], reference, bandwidth=0.7), 5),
    )
    with pytest.raises(UserError, match="bandwidth"):
        m.loo_mmd(rows, reference, bandwidth=0.0)


SIGNALS = [entry for entry in registry.entries("signal") if entry.target.startswith("polypath.diversity.marginals")]


def a_group(draw, size):
    rows = np.array(draw(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=size, max_size=size)))
    return {
        "similarity": cosine(rows + 1.0),
        "labels": np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))),
        "success": rows / 3,
        "reward_columns": rows - 1.0,
        "texts": draw(st.lists(st.sampled_from(["a b c", "a b", "x y a b", "", "b c"]), min_size=size, max_size=size)),
    }


def pick(name, value, rows):
    if name == "similarity":
        return value[np.ix_(rows, rows)]
    return [value[i] for i in rows] if isinstance(value, list) else value[rows]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("entry", SIGNALS, ids=lambda entry: entry.name)
def test_declared_traits(entry, data):
    (field,), function = entry.data, registry.get("signal", entry.name)
    size = data.draw(st.integers(1, 6))
    value = a_group(data.draw, size)[field]
    plain = function(value)
    assert plain.shape == (size,) and np.isfinite(plain).all()
    order = data.draw(st.permutations(range(size)))
    np.testing.assert_allclose(function(pick(field, value, order)), plain[order], atol=2e-6)
    copied = data.draw(st.integers(0, size - 1))
    found = function(pick(field, value, [*range(size), copied]))
    assert found[copied] == pytest.approx(found[-1], abs=2e-6)
    if "duplicate_never_raises" in entry.traits:
        assert found[copied] <= plain[copied] + 1e-9


def test_all_signals_are_here():
    assert len(SIGNALS) == 13


@pytest.mark.parametrize("q", [0.5, 1, 1.5, 2])
def test_gradients_of_vendi(q):
    # through the embeddings, with a copy: the eigenvalue 0 is where the gradient of eigh is not defined
    rows = torch.tensor(np.random.default_rng(0).normal(size=(4, 2)), dtype=torch.float64)
    rows = torch.cat([rows, rows[:1]]).requires_grad_()

    def through(rows):
        unit = rows / rows.norm(dim=-1, keepdim=True)
        return m.loo_vendi(unit @ unit.mT, q=q)

    kernel = (rows @ rows.mT).detach()
    with torch.no_grad():
        by_eigenvalues = m.loo_vendi(kernel, q=q)
    torch.testing.assert_close(m.loo_vendi(kernel.requires_grad_(), q=q).detach(), by_eigenvalues, atol=1e-6, rtol=0)
    independent = torch.tensor(np.random.default_rng(1).normal(size=(2, 4, 5)), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(through, (independent,), atol=1e-5)
    (slope,) = torch.autograd.grad(through(rows)[:4].sum(), rows)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("function", [m.loo_pairs, m.loo_logdet, m.loo_kernel_entropy])
def test_gradients_of_kernel_marginals(function):
    rows = torch.tensor(np.random.default_rng(2).uniform(0.1, 1, size=(2, 4, 5)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: function(cosine(r)), (rows,), atol=1e-5)


ROWS = np.random.default_rng(3).normal(size=(6, 4))
LABELLED = ["a", "b", None, "a", "c", None]


def test_other_measures_are_computed_again_with_one_warning():
    with pytest.warns(UserWarning, match="mst_span have no closed form") as caught:
        found = m.loo("mst_span", ROWS)
    assert len(caught) == 1
    np.testing.assert_allclose(found, leave_one_out(lambda keep: measures.mst_span(ROWS[keep]), 6))
    with pytest.warns(UserWarning, match="novel_sum have no closed form"):  # for these knobs
        found = m.loo("novel_sum", ROWS, beta=0.5)
    np.testing.assert_allclose(found, leave_one_out(lambda keep: measures.novel_sum(ROWS[keep]), 6))
    with pytest.warns(UserWarning):
        assert m.loo(lambda items: float(len(items)), ["a", "b"]).tolist() == [1, 1]
    with pytest.raises(UserError, match="needs correct"):
        m.loo("correct_difference", {"labels": ["a"]})
    with pytest.raises(UserError, match="Did you mean vendi"):
        m.loo("vend", ROWS)


@pytest.mark.parametrize(("measure", "items"), [("vendi", ROWS), ("log_det", ROWS), ("pairwise_cosine", ROWS)])
def test_gains_by_name(measure, items):
    function = registry.get("measure", measure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = m.gain(measure, items[:3], items[3:])
    expected = [function(np.concatenate([items[:3], items[i : i + 1]])) - function(items[:3]) for i in (3, 4, 5)]
    np.testing.assert_allclose(found, expected, atol=2e-7)
    np.testing.assert_allclose(m.gain(measure, items[:0], items[3:5]), [function(items[3:4]), function(items[4:5])])


def test_other_gains_are_computed_again():
    with pytest.warns(UserWarning, match="distinct have no closed form"):
        assert m.gain("distinct", ["a"], ["a", "b"]).tolist() == [0, 1]
    with pytest.warns(UserWarning):
        found = m.gain("coverage", {"labels": ["a"], "known": {"a", "b"}}, {"labels": ["b", "c"], "known": {"a", "b"}})
    assert found.tolist() == [0.5, 0.0]
    with pytest.raises(UserError, match="similarities between"):
        m.gain("vendi_of_kernel", np.eye(2), np.eye(2))
