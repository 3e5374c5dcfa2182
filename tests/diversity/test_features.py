"""Features of texts, steps, code, gradients and judges: by hand, and the signature they carry."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polypath.core import registry
from polypath.core.errors import UserError
from polypath.diversity import features as f
from polypath.diversity import measures as m
from polypath.diversity.features import words


def test_cjk_is_split_per_character_inside_other_text():
    assert f.tokens("GRPO算法 works") == ["GRPO", "算", "法", "works"]
    assert f.tokens("한국어") == ["한", "국", "어"]


def test_accents_numbers_and_marks():
    assert f.tokens("café x_1 3.5!") == ["café", "x_1", "3", ".", "5", "!"]
    assert f.tokens("") == []
    assert f.tokens("it's a_b 3.5\x1c\x00") == ["it's", "a_b", "3", ".", "5", "\x00"]


@given(st.text(alphabet="ab'_ 1.+\n\x00\x1c\x1f’é了", max_size=12))
def test_the_quick_way_through_ascii_gives_the_same_tokens(text):
    assert f.tokens(text) == words._TOKEN.findall(text)


@given(
    st.lists(st.lists(st.lists(st.sampled_from("abc"), max_size=9), min_size=3, max_size=3), max_size=4),
    st.sampled_from([range(1, 2), range(2, 5), range(1, 6), range(2, 7, 2)]),
)
def test_unshared_ngrams_are_those_of_the_sets(groups, orders):
    def alone(group):
        grams = [f.ngrams(text, orders) for text in group]
        return [len(own.difference(*grams[:i], *grams[i + 1 :])) for i, own in enumerate(grams)]

    assert f.unshared_ngrams(groups, orders).tolist() == [alone(group) for group in groups]


def test_unshared_ngrams_are_numbered_anew_before_they_overflow():
    """600 words to the 7th power is beyond 62 bits, and 40 groups are more than one block."""
    rng = np.random.default_rng(0)
    groups = [[[f"w{w}" for w in rng.integers(0, 600, 40)] for _ in range(2)] for _ in range(40)]
    for group in groups:
        group[1][:20] = group[0][:20]
    orders = range(5, 9)
    found = f.unshared_ngrams(groups, orders)
    for group, counts in zip(groups, found, strict=True):
        one, two = (f.ngrams(text, orders) for text in group)
        assert counts.tolist() == [len(one - two), len(two - one)]


def test_a_short_text_has_no_long_ngrams():
    assert f.ngrams(["a", "b"], [2, 3]) == {("a", "b")}
    assert f.ngrams([], [1]) == set()


def test_signatures_tell_what_may_be_compared():
    a, b = f.hashed_ngrams(["a"], dims=8).signature, f.hashed_ngrams(["b c"], dims=8).signature
    assert a == b and str(a).startswith("hashed_ngrams v1 d=8 #")
    others = [f.hashed_ngrams(["a"], dims=9), f.hashed_ngrams(["a"], dims=8, orders=[1]), f.ngram_sets(["a"])]
    assert len({str(one.signature) for one in others} | {str(a)}) == 4
    assert f.embedded(np.ones((2, 3)), "minilm", weights="ab12").signature.dims == 3
    assert f.embedded([], "minilm").signature.dims == 0


def test_features_are_read_by_measures_as_they_are():
    features = f.hashed_ngrams(["a b", "c d", "a b"])
    assert m.vendi(features) == pytest.approx(m.vendi(features.values)) and len(features) == 3
    assert m.vendi(features) == pytest.approx(3 / 2 ** (2 / 3), rel=0.05), "two of three are the same"


@pytest.mark.parametrize("entry", registry.entries("features"), ids=lambda entry: entry.name)
def test_every_registered_feature_has_one_value_per_item_and_a_signature(entry):
    given = {"texts": ["Let x = 1.", ""], "outcomes": [[1, 0], [0, 1]], "activations": [[1.0], [0.0]]}
    given["embed"] = lambda texts: np.ones((len(texts), 3))
    found = registry.get("features", entry.name)(*(given[name] for name in entry.data))
    assert len(found) == 2 and found.signature.name == entry.name and len(found.signature.hash) == 8


def test_hashed_ngrams_by_hand_and_in_expectation():
    rows = f.hashed_ngrams(["a b a", "", "é"], orders=[1], dims=2**16).values
    assert sorted(np.abs(rows[0][rows[0] != 0]).tolist()) == [1.0, 2.0] and not rows[1].any() and rows[2].any()
    characters = f.hashed_ngrams(["ab"], orders=[1, 2], dims=2**16, unit="character").values
    assert np.abs(characters).sum() == 3
    # counts (2, 1, 1, 1) and (1, 1, 1, 1) of the words a b c d: inner product 5, by many hash sizes on average
    products = [np.prod(f.hashed_ngrams(["a a b c d", "a b c d"], orders=[1], dims=d).values, axis=0).sum()
                for d in range(20, 120)]  # fmt: skip
    assert np.mean(products) == pytest.approx(5, abs=0.5)


def test_steps_of_all_marks():
    text = "First, think.\n1. Let x = 1.\n2) Add 2.\n- so 3\n**Step 4:** check\n\n\nThe answer is 3."
    assert f.reasoning_steps(text) == ["First, think.", "Let x = 1.", "Add 2.", "so 3", "check", "The answer is 3."]
    assert f.reasoning_steps("") == f.reasoning_steps(" \n\n ") == []
    assert f.reasoning_steps("one line\ngoes on") == ["one line\ngoes on"]


def test_equations_in_formulas_and_in_plain_text():
    assert f.equations(r"\[ a = b \] then $$c=d$$ and $e$") == ["a=b", "c=d", "e"]
    assert f.equations("We get 3x + 2 = 11, so x = 3; and (4-2)*8 = 16.") == ["3x+2=11", "x=3", "(4-2)*8=16"]
    assert f.equations("no mathematics, e.g. none") == []
    assert f.equations("1 + 2 + 3, then 4") == []


@pytest.mark.parametrize(
    "text", ["(", "1+", "1 = ", "\\[", "\\( x", "$", r"\boxed{", "answer is ", "- ", "**", "```", "\n"]
)
def test_degenerate_text_is_read_in_linear_time(text):
    for read in (f.equations, f.final_answer, f.reasoning_steps, f.route, f.ast_steps, f.tokens):
        read(text * 20_000)


def test_final_answers():
    assert f.final_answer(r"\boxed{1} then \boxed{\frac{1}{ 2}}") == r"\frac{1}{ 2}"
    assert f.final_answer(r"\boxed{1") == "1", "an open brace is no box: the last number"
    assert f.final_answer("Answer: Paris.\nDone") == "Paris"
    assert f.final_answer("") is None
    assert f.answers(["so 3", "x"]).values == ["3", None]


def test_code_by_its_syntax_tree():
    text = "Here:\n```python\nfor i in range(3):\n    total += i\n```\nDone."
    assert f.ast_steps(text) == ["For", "Call", "AugAssign"]
    assert f.ast_steps("for k in f(9):\n  n += k") == f.ast_steps(text), "names do not matter"
    assert f.ast_steps("not python at all") == [] and f.ast_steps("x = 1\0") == []


def test_routes():
    a = "Let x be the sum. Then 2x = 6. Solve the equation. Check it: fine."
    assert f.route(a) == "DKQV" and f.route("") == "" and f.route("xyz. Xyz again.") == "o"
    assert f.route("Step 1 Compute a = b\nStep 2 Compute b = c") == "K"  # runs are one symbol: length earns nothing
    assert f.unknown_share("xyz. Let x be 1.") == 0.5 and math.isnan(f.unknown_share(""))


def gradients(hidden, probabilities, targets):
    """The head's gradient written out: the sum over tokens of (p - y) h^T."""
    errors = np.array(probabilities, dtype=float)
    errors[np.arange(len(targets)), targets] -= 1
    return (errors.T @ np.array(hidden)).ravel()


def examples(n, tokens=3, width=4, vocabulary=6):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(n, tokens, width))
    logits = rng.normal(size=(n, tokens, vocabulary))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return list(hidden), list(probabilities), list(rng.integers(vocabulary, size=(n, tokens)))


def test_head_gradients_are_those_of_autograd():
    hidden, probabilities, targets = (part[0] for part in examples(1))
    weight = torch.zeros(6, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(np.log(probabilities))  # logits that give these probabilities whatever the hidden state
    logits = torch.tensor(hidden) @ weight.T + bias
    torch.nn.functional.cross_entropy(logits, torch.tensor(targets), reduction="sum").backward()
    np.testing.assert_allclose(gradients(hidden, probabilities, targets), weight.grad.numpy().ravel(), atol=1e-12)


def test_sketches_keep_inner_products():
    parts = examples(4)
    exact = np.stack([gradients(*example) for example in zip(*parts, strict=True)])
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    sketch = np.asarray(f.head_gradients(*parts, dims=2**14))
    np.testing.assert_allclose(sketch @ sketch.T, exact @ exact.T, atol=0.05)
    products = [
        np.prod(np.asarray(f.head_gradients(*parts, dims=512, seed=seed))[:2], axis=0).sum() for seed in range(60)
    ]
    errors = np.array(products) - exact[0] @ exact[1]
    assert abs(np.mean(errors)) < 4 * np.std(errors) / math.sqrt(60), "no bias to speak of"


def test_sketches_of_edge_cases():
    hidden, probabilities, targets = examples(2)
    tensors = [torch.tensor(one, requires_grad=True) for one in hidden]
    same = f.head_gradients(tensors, probabilities, targets)
    np.testing.assert_allclose(same.values, f.head_gradients(hidden, probabilities, targets).values)
    none = f.head_gradients([np.empty((0, 4))], [np.empty((0, 6))], [[]], dims=16).values
    sure = f.head_gradients([[[1.0, 2.0]]], [[[0.0, 1.0]]], [[1]], dims=16).values
    assert not none.any() and not sure.any(), "no tokens, or nothing left to learn"
    for bad, message in [
        (([[[1.0]]], [[[0.5, 0.1]]], [[0]]), "do not sum to 1"),
        (([[[1.0]]], [[[0.5, 0.5]]], [[0, 1]]), "Give"),
        (([[[math.nan]]], [[[0.5, 0.5]]], [[0]]), "is not finite|NaN"),
    ]:
        with pytest.raises(UserError, match=message):
            f.head_gradients(*bad)


def test_fisher_diagonal_is_the_expected_square():
    hidden, probabilities, _ = (part[0] for part in examples(1))
    expected = np.zeros(24)
    for h, p in zip(hidden, probabilities, strict=True):
        for drawn in range(6):
            gradient = np.outer(p - np.eye(6)[drawn], h).ravel()
            expected += p[drawn] * gradient**2 / len(hidden)
    np.testing.assert_allclose(f.head_fisher(hidden, probabilities), expected)
    by_token = f.head_fisher(hidden, probabilities, by="token")
    np.testing.assert_allclose(by_token, expected.reshape(6, 4).mean(axis=1))
    assert np.isnan(f.head_fisher(np.empty((0, 4)), np.empty((0, 6)))).all()


def test_judged_attributes_are_declared_first():
    def judge(text, attribute, values):
        return text[0] if attribute == "first" else "purple"

    values = {"first": ["a", "b"], "colour": ["red", "blue"]}
    found = f.judged_attributes(["ax", "bx"], judge, values)
    assert found.values == [{"first": "a", "colour": "other"}, {"first": "b", "colour": "other"}]
    assert m.attribute_entropy(found.values, categories=2) == pytest.approx(0.5)
    with pytest.raises(UserError, match="at least two values"):
        f.judged_attributes(["a"], judge, {"first": ["a"]})


def test_approaches_by_majority_of_orders():
    def judge(texts):
        return [text[0] if texts[0] != "b1" else "same" for text in texts]  # wrong when it sees b1 first

    assert f.approaches(["a1", "b1", "a2"], judge, orders=3) == [0, 1, 0]
    assert f.approaches([], judge) == []
    with pytest.raises(ValueError, match="1 of 2"):
        f.approaches(["a", "b"], lambda texts: ["x"])


def test_agreement_beyond_chance():
    assert f.cohen_kappa([1, 0], [1, 0]) == 1.0 and f.cohen_kappa([1, 0], [0, 1]) == -1.0
    assert math.isnan(f.cohen_kappa([], [])) and math.isnan(f.cohen_kappa([1], [1]))


@given(st.integers(0, 2**32 - 1))
def test_outcomes_that_agree_coincide(seed):
    outcomes = np.random.default_rng(seed).integers(2, size=(5, 8)).astype(float)
    rows = f.outcome_vectors(np.vstack([outcomes, outcomes[:1]])).values
    np.testing.assert_allclose(rows[0], rows[-1])
    lengths = np.linalg.norm(rows, axis=1)
    assert all(length == pytest.approx(1) or length == 0 for length in lengths)


def test_outcomes_by_hand():
    # columns centred: (.5, -.5) and (0, 0); a missing outcome is the mean
    assert f.outcome_vectors([[1, 1], [0, 1]]).values.tolist() == [[1, 0], [-1, 0]]
    assert f.outcome_vectors([[1, math.nan], [0, math.nan]]).values.tolist() == [[1, 0], [-1, 0]]
    with pytest.raises(UserError, match="outcomes: have shape"):
        f.outcome_vectors([1, 0])
