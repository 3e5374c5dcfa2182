"""Every registered measure keeps what it declares, and has no value for an empty set."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.core.record import Rollout
from polypath.diversity import measures as m
from polypath.evaluate.measure import measure_rollouts

WORDS = ["let", "substitute", "thus", "bound", "solve for", "simplify"]
PER_SET = {"reference", "known"}
NUMBER = 6
FOUND = ("coverage", "feature_coverage")  # nothing finds nothing: 0 is what it is


def arguments(data):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(NUMBER, 3))
    made = {
        "texts": ["\n\n".join(rng.choice(WORDS, size=45)) for _ in range(NUMBER)],
        "prompts": ["\n\n".join(rng.choice(WORDS, size=9)) for _ in range(NUMBER)],
        "labels": list("aabcbc"),
        "approaches": list("aabcbc"),
        "correct": [True] * NUMBER,
        "rewards": np.ones(NUMBER),
        "embeddings": rows,
        "similarity": np.exp(-((rows[:, None] - rows) ** 2).sum(axis=-1)),
        "reference": rng.normal(size=(12, 3)),
        "known": {*range(20), *"abcd"},
        "attributes": [{"shape": "ab"[i % 2]} for i in range(NUMBER)],
        "steps": list(rng.normal(size=(NUMBER, 2, 3))),
        "gradients": rows,
        "probabilities": np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True),
        "features": [{i, i + 1} for i in range(NUMBER)],
        "outcomes": np.array([[int(bit) for bit in f"{i + 9:06b}"] for i in range(NUMBER)]),
        "ratings": rng.integers(1, 5, size=(NUMBER, 4)).astype(float),
    }
    return {name: made[name] for name in data}


def chosen(data, index):
    """The items of `index`, with repetitions; what belongs to the whole set stays."""

    def take(name, values):
        if name in PER_SET:
            return values
        if name == "similarity":
            return values[np.ix_(index, index)]
        return values[index] if isinstance(values, np.ndarray) else [values[i] for i in index]

    return {name: take(name, values) for name, values in data.items()}


def own_measures():
    return [e for e in registry.entries("measure") if e.target.startswith("polypath.diversity.measures.")]


def test_the_measures_are_registered_and_importable_from_the_package():
    assert len(own_measures()) > 40
    for entry in own_measures():
        assert registry.get("measure", entry.name) is getattr(m, entry.target.split(":")[1])


@pytest.mark.parametrize("entry", own_measures(), ids=lambda entry: entry.name)
def test_declared_traits_and_the_empty_set(entry):
    function, data = registry.get("measure", entry.name), arguments(entry.data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = function(**data)
        shuffled = function(**chosen(data, [4, 0, 5, 2, 1, 3]))
        same = function(**chosen(data, [0] * NUMBER))
    assert math.isfinite(value)
    if "permutation_invariant" in entry.traits:
        assert shuffled == pytest.approx(value, rel=1e-9, abs=1e-12)
    if "more_is_diverse" in entry.traits:
        assert same < value
    if "less_is_diverse" in entry.traits:
        assert same > value
    assert not {"more_is_diverse", "less_is_diverse"} <= set(entry.traits)
    empty = function(**chosen(data, []))
    assert empty == 0.0 if entry.name in FOUND else math.isnan(empty)


@pytest.mark.parametrize("entry", own_measures(), ids=lambda entry: entry.name)
def test_tensors_are_read_as_arrays(entry):
    function, data = registry.get("measure", entry.name), arguments(entry.data)
    arrays = {name: values for name, values in data.items() if isinstance(values, np.ndarray)}
    tensors = data | {name: torch.tensor(v, requires_grad=v.dtype == float) for name, v in arrays.items()}
    if "steps" in data:
        tensors["steps"] = [torch.tensor(one) for one in data["steps"]]
    assert function(**tensors) == pytest.approx(function(**data), rel=1e-12)


COSINE = ("vendi", "pairwise_cosine", "chamfer", "order_parameter", "mst_span", "energy", "log_det", "log_det_distance")


@pytest.mark.parametrize("name", COSINE)
@given(st.integers(0, 2**32 - 1))
def test_directions_count_and_neither_lengths_nor_axes(name, seed):
    rng = np.random.default_rng(seed)
    rows, turn = rng.normal(size=(6, 3)), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    function = registry.get("measure", name)
    moved = function(rows @ turn * rng.uniform(0.1, 10, size=(6, 1)))
    assert moved == pytest.approx(function(rows), rel=1e-6)


@pytest.mark.parametrize("entry", [e for e in own_measures() if "embeddings" in e.data], ids=lambda entry: entry.name)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_embedding_that_is_not_finite_is_named(entry, bad):
    data = arguments(entry.data)
    data["embeddings"][3, 1] = bad
    with pytest.raises(UserError, match=r"embeddings\[3\]: is not finite"):
        registry.get("measure", entry.name)(**data)


COLUMN = {"embeddings": "embedding", "labels": "canonical"}


def test_every_measure_is_read_from_rows():
    """A column named like the data; `embedding` and `canonical` are those of the record."""
    data = arguments({name for entry in own_measures() for name in entry.data})
    columns = {name: values for name, values in data.items() if name not in ("texts", "labels", "correct", "rewards")}
    rollouts = [
        Rollout(
            prompt_id="p", group_id="p", index=i, text=data["texts"][i], canonical=data["labels"][i],
            correct=data["correct"][i], rewards={"task": float(data["rewards"][i])},
            extra={COLUMN.get(name, name): v if name in PER_SET else v[i] for name, v in columns.items()},
        )
        for i in range(NUMBER)
    ]  # fmt: skip
    found = measure_rollouts(rollouts, [entry.name for entry in own_measures()])
    for entry in own_measures():
        direct = registry.get("measure", entry.name)(**{name: data[name] for name in entry.data})
        assert found[entry.name][0] == pytest.approx(direct), entry.name


def test_a_judges_measure_is_for_evaluation_only():
    assert "evaluation_only" in registry.entry("measure", "approach_diversity").traits
