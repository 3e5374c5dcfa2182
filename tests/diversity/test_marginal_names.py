"""Marginals of every measure by name against brute force: the closed forms, their edges, and whole batches."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import marginals as m
from polypath.diversity.kernels import cosine
from polypath.diversity.marginals import leave_one_out

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(7, 4))
COPIES = ROWS[[0, 0, 1, 2, 2, 2, 3]]
SILENT = ROWS * np.array([1, 0, 1, 1, 0, 1, 1])[:, None]
REFERENCE = RNG.normal(size=(9, 4)) * 0.8
REWARDS = np.array([0.9, 0.1, 0.7, 0.5, 0.6, 0.0, 1.0])
CORRECT = [True, False, True, True, False, True, True]
LABELS = ["a", "b", None, "a", "c", None, "d"]
PLAIN = ["a", "b", "e", "a", "c", "b", "d"]
TEXTS = [
    "let x be 3 and add 4 to it",
    "let x be 3 and add 4 to it",
    "try all of the numbers. check each of the numbers. the the the",
    "",
    "solve the equation x = 3",
    "therefore add 4 to it and check",
    "x",
]
LONG = [" ".join(RNG.choice(list("abcdefgh"), size=n)) for n in (50, 60, 45, 10, 70, 44, 0)]
FEATURES = [{1, 2}, {2, 3}, set(), {4, 9}, {1}, {5}, {9}]
STEPS = [RNG.normal(size=(n, 3)) for n in (2, 3, 1, 0, 2, 4, 2)]
OUTCOMES = RNG.integers(0, 2, size=(7, 6)).astype(float)
OUTCOMES[4] = 1.0
RATINGS = RNG.integers(1, 5, size=(7, 5)).astype(float)
RATINGS[2, :3] = np.nan
PROBABILITIES = RNG.dirichlet([0.5] * 4, 7)
ATTRIBUTES = [{"tone": t, "form": f} for t, f in zip("aabbaca", "xxxyxxx", strict=True)]
ATTRIBUTES[3] = {"tone": "b"}
POSITIVE = np.exp(-((ROWS[:, None] - ROWS) ** 2).sum(-1))
PAIR = {"embeddings": ROWS, "reference": REFERENCE}
SCORED = {"embeddings": ROWS, "rewards": REWARDS}

CASES = [
    ("vendi", ROWS, {}),
    ("vendi", {"embeddings": COPIES}, {"q": 2}),
    ("vendi_of_kernel", cosine(ROWS), {"q": 0.5}),
    ("log_det", ROWS, {"ridge": 0.1}),
    ("log_det_distance", ROWS, {"ridge": 0.1}),
    ("log_det_distance", COPIES, {"reference": "sphere"}),
    ("pairwise_cosine", ROWS, {}),
    ("internal_diversity", cosine(ROWS), {}),
    ("internal_diversity", POSITIVE, {"power": 2.0}),
    ("internal_diversity", POSITIVE, {"self_pairs": True}),
    ("order_parameter", ROWS, {}),
    ("energy", ROWS, {}),
    ("energy", COPIES, {"s": 0}),
    ("energy", ROWS[[0, 0, 1, 2, 3, 4, 5]], {}),
    ("chamfer", ROWS, {}),
    ("chamfer", COPIES, {}),
    ("knn_novelty", PAIR, {"k": 3}),
    ("knn_novelty", PAIR, {"k": 50}),
    ("knn_novelty", {"embeddings": COPIES, "reference": REFERENCE[:0]}, {"k": 6}),
    ("novel_sum", ROWS, {"beta": 0}),
    ("novel_sum", COPIES, {"beta": 0, "with_self": False, "alpha": 2.0}),
    ("novel_sum_against", PAIR, {"k": 3}),
    ("novel_sum_against", {"embeddings": COPIES, "reference": REFERENCE}, {"with_self": False}),
    ("mmd", PAIR, {}),
    ("energy_distance", PAIR, {}),
    ("coverage_knn", PAIR, {"k": 2}),
    ("density_knn", PAIR, {"k": 2}),
    ("cross_diversity", {"gradients": ROWS, "reference": REFERENCE}, {}),
    ("diversity_coefficient", ROWS, {}),
    ("gradient_vendi", SILENT, {}),
    ("effective_channels", SILENT, {}),
    ("effective_channels_by_outcome", {"embeddings": ROWS, "correct": CORRECT}, {}),
    ("effective_channels_by_outcome", {"embeddings": SILENT, "correct": CORRECT}, {"of": "wrong"}),
    ("effective_size", OUTCOMES, {}),
    ("value_diversity", RATINGS, {"options": [4] * 5}),
    ("reasoning_path_divergence", STEPS, {}),
    ("reasoning_path_divergence", STEPS, {"reduce": "mean"}),
    ("vendi_quality", SCORED, {}),
    ("vendi_gated", SCORED, {}),
    ("vendi_gated", SCORED, {"gate": 0.95}),
    ("vendi_gated", SCORED, {"gate": 2.0}),
    ("vendi_correct", {"embeddings": COPIES, "correct": CORRECT}, {"q": 2}),
    ("creative_utility", SCORED, {}),
    ("creative_utility", {"embeddings": COPIES, "rewards": REWARDS}, {}),
    ("similarity_entropy", POSITIVE, {}),
    ("similarity_entropy", POSITIVE, {"q": 2.0}),
    ("similarity_entropy", POSITIVE, {"q": math.inf}),
    ("inception_score", PROBABILITIES, {}),
    ("distinct", LABELS, {}),
    ("entropy", LABELS, {}),
    ("entropy", LABELS, {"categories": 5}),
    ("entropy_corrected", LABELS, {}),
    ("entropy_corrected", LABELS, {"categories": 6}),
    ("hill", LABELS, {"q": 2.0}),
    ("pairwise_difference", LABELS, {}),
    ("correct_difference", {"labels": PLAIN, "correct": CORRECT}, {}),
    ("distinct_correct", {"labels": PLAIN, "correct": CORRECT}, {}),
    ("approach_diversity", {"approaches": PLAIN, "correct": CORRECT}, {"q": 2.0}),
    ("coverage", {"labels": PLAIN, "known": {"a", "c", "z"}}, {}),
    ("feature_coverage", {"features": FEATURES, "known": {1, 2, 4, 9, 7}}, {}),
    ("attribute_entropy", ATTRIBUTES, {}),
    ("attribute_entropy", ATTRIBUTES, {"categories": {"tone": 4, "form": 2}}),
    ("distinct_n", TEXTS, {"n": 1}),
    ("self_bleu", TEXTS, {"n": 2}),
    ("ngram_diversity", TEXTS, {"largest": 3}),
    ("prompt_diversity", TEXTS, {}),
    ("self_repetition", TEXTS, {"n": 2}),
    ("rouge_l", TEXTS, {}),
    ("route_diversity", TEXTS, {}),
    ("distinct_routes", TEXTS, {}),
    ("mtld", TEXTS, {}),
    ("hdd", LONG, {}),
    ("ngram_vendi", TEXTS, {}),
]
WHOLE = ("reference", "known")


def fields_of(measure, group):
    return group if isinstance(group, dict) else {registry.entry("measure", measure).data[0]: group}


def pick(name, values, keep):
    if name in WHOLE:
        return values
    if name == "similarity":
        return values[np.ix_(keep, keep)]
    return values[keep] if isinstance(values, np.ndarray) else [values[i] for i in keep]


def brute_force(measure, fields, knobs):
    function = registry.get("measure", measure)
    size = len(next(iter(fields.values())))

    def value(keep):
        return function(**{k: pick(k, v, keep) for k, v in fields.items()}, **knobs)

    with np.errstate(invalid="ignore"):
        return leave_one_out(value, size)


def closed(measure, group, knobs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return m.loo(measure, group, **options, **knobs)


@pytest.mark.parametrize(("measure", "group", "knobs"), CASES)
def test_closed_forms_equal_brute_force(measure, group, knobs):
    fields = fields_of(measure, group)
    found = closed(measure, group, knobs)
    np.testing.assert_allclose(found, brute_force(measure, fields, knobs), atol=2e-7)
    np.testing.assert_allclose(closed(registry.get("measure", measure), group, knobs), found)


@pytest.mark.parametrize(("measure", "group", "knobs"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_closed_forms_of_small_groups(measure, group, knobs, size):
    """Where a measure is undefined for what is left, so is the marginal."""
    fields = {name: pick(name, values, list(range(size))) for name, values in fields_of(measure, group).items()}
    try:
        expected = brute_force(measure, fields, knobs)
    except UserError:  # more values than were declared, say
        return
    found = closed(measure, fields, knobs)
    if size == 1 and measure in ("distinct", "log_det"):  # the marginal of the first item is that to nothing
        return
    np.testing.assert_allclose(found, expected, atol=2e-7, err_msg=f"{measure} of {size}")


@pytest.mark.parametrize(("measure", "group", "knobs"), CASES)
def test_batches_are_their_groups(measure, group, knobs):
    fields = fields_of(measure, group)
    orders = [list(range(6)), [6, 2, 0, 5, 4, 3], [1, 0, 3, 2, 6, 4]]
    several = [{name: pick(name, values, order) for name, values in fields.items()} for order in orders]
    batch = {name: several[0][name] if name in WHOLE else [one[name] for one in several] for name in fields}
    for name, values in batch.items():
        if name not in WHOLE and isinstance(values[0], np.ndarray):
            batch[name] = np.stack(values)
    found = closed(measure, batch, knobs, batched=True)
    assert found.shape == (3, 6)
    np.testing.assert_allclose(found, [closed(measure, one, knobs) for one in several], atol=1e-9)


def test_which_measures_have_closed_forms():
    every = {entry.name for entry in registry.entries("measure")}
    assert {case[0] for case in CASES} == set(m.LEAVE_ONE_OUT) <= every
    without = {"compression_ratio", "mst_span", "value_span", "frechet_distance", "recall_knn", "yield_size"}
    assert every - set(m.LEAVE_ONE_OUT) == without | {"pass_at_k", "distinct_at_k"}


@pytest.mark.parametrize(
    ("measure", "group", "knobs"),
    [
        ("compression_ratio", TEXTS, {}),
        ("mst_span", ROWS, {}),
        ("value_span", RATINGS, {"options": [4] * 5}),
        ("frechet_distance", PAIR, {}),
        ("recall_knn", PAIR, {"k": 2}),
        ("yield_size", SCORED, {}),
        ("pass_at_k", CORRECT, {"k": 2}),
        ("distinct_at_k", {"labels": PLAIN, "correct": CORRECT}, {"k": 2}),
    ],
)
def test_the_others_are_computed_again_with_a_warning(measure, group, knobs):
    with pytest.warns(UserWarning, match=f"{measure} have no closed form"):
        found = m.loo(measure, group, **knobs)
    np.testing.assert_allclose(found, brute_force(measure, fields_of(measure, group), knobs))


def test_groups_of_two_sizes_are_refused():
    with pytest.raises(UserError, match="different size"):
        m.loo("distinct", [["a"], ["a", "b"]], batched=True)
    assert m.loo("distinct", [], batched=True).size == 0
