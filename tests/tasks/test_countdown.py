import itertools
import operator as op
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.tasks.countdown import Countdown, canonical_form, make_prompt, solve

TASK = Countdown(problems=300)
OPERATORS = {"+": op.add, "-": op.sub, "*": op.mul}
EXAMPLE = make_prompt([1, 6, 9, 8], 24)


def brute_force(numbers, target, limit=50):
    """Independent oracle: all orders and operator choices, {answer text: solution key}."""
    answers = {}
    for order in itertools.permutations(numbers):
        for operators in itertools.product("+-*", repeat=len(numbers) - 1):
            values = [order[0]]
            for operator, number in zip(operators, order[1:], strict=True):
                values.append(OPERATORS[operator](values[-1], number))
            if values[-1] != target or not all(0 <= v <= limit for v in values):
                continue
            parts = zip(operators, order[1:], values[1:], strict=True)
            text = " ".join([str(order[0]), *(f"{o} {n} = {v}" for o, n, v in parts)])
            answers[text] = brute_key(order, operators)
    return answers


def brute_key(order, operators):
    """Runs of operations as multisets of signed terms or of factors."""
    runs = [("product" if operators[0] == "*" else "sum", Counter([order[0]]))]
    for operator, number in zip(operators, order[1:], strict=True):
        kind = "product" if operator == "*" else "sum"
        if runs[-1][0] != kind:
            runs.append((kind, Counter()))
        runs[-1][1][-number if operator == "-" else number] += 1
    return tuple((kind, frozenset(terms.items())) for kind, terms in runs)


def test_solution_sets_equal_brute_force():
    for prompt in TASK.prompts("train", n=25) + TASK.prompts("test", n=10) + [EXAMPLE]:
        expected = brute_force(prompt.data["numbers"], prompt.data["target"])
        assert TASK.demonstrations(prompt) == sorted(expected)
        assert len(TASK.solutions(prompt)) == len(set(expected.values())) >= 3 or prompt is EXAMPLE
        # the same partition: one canonical form for one key, in both directions
        pairs = {(TASK.verify(prompt, text).canonical, key) for text, key in expected.items()}
        assert len(pairs) == len(TASK.solutions(prompt)) == len(set(expected.values()))
        assert {form for form, _ in pairs} == TASK.solutions(prompt)


def test_reference_statistics_of_the_laboratory():
    # methods: 4.0 canonical forms and 11.5 answers per problem on average
    task = Countdown()
    prompts = [p for split in ("train", "dev", "test") for p in task.prompts(split, n=12_000)]
    assert 3.9 < sum(len(task.solutions(p)) for p in prompts) / len(prompts) < 4.1
    assert 11.0 < sum(len(task.demonstrations(p)) for p in prompts) / len(prompts) < 12.0
    held_out = 1 - len(task.prompts("train", n=12_000)) / len(prompts)
    assert 0.17 < held_out < 0.23
    assert len(task.prompts("dev", n=12_000)) >= 256 <= len(task.prompts("test", n=12_000))


def test_vocabulary_covers_prompts_and_answers():
    words = Countdown().vocabulary()
    assert len(words) == len(set(words)) == 58  # 51 numbers, 3 operators, "=", ">", pad, eos
    for prompt in TASK.prompts("train", n=20):
        for text in [prompt.text, *TASK.demonstrations(prompt)]:
            assert set(text.split(" ")) <= set(words)


def test_splits_are_disjoint_for_problems_in_any_order_and_repeatable():
    content = {}
    for split in ("train", "dev", "test"):
        prompts = TASK.prompts(split, n=10_000)
        assert len({p.id for p in prompts}) == len({p.text for p in prompts}) == len(prompts)
        content[split] = {(*sorted(p.data["numbers"]), p.data["target"]) for p in prompts}
        assert [p.text for p in prompts] == [p.text for p in Countdown(problems=300).prompts(split, n=10_000)]
        assert prompts[:5] == TASK.prompts(split, n=5)
        assert prompts[:5] != TASK.prompts(split, n=5, seed=1)
    assert not content["train"] & content["dev"]
    assert not content["train"] & content["test"]
    assert not content["dev"] & content["test"]
    other_seed = Countdown(problems=300, seed=1).prompts("train", n=10_000)
    assert not {(*sorted(p.data["numbers"]), p.data["target"]) for p in other_seed} & content["test"]


@pytest.mark.parametrize(
    ("text", "correct", "valid"),
    [
        ("1 + 6 = 7 + 9 = 16 + 8 = 24", True, True),
        ("  1+6=7 +9 = 16\n+ 8 =24 ", True, True),
        ("1 + 6 = 8 + 9 = 16 + 8 = 24", False, True),  # a written result is wrong
        ("1 + 6 = 7 + 9 = 16 + 8 = 25", False, True),
        ("6 + 9 = 15 + 9 = 24", False, True),  # not the numbers of the problem
        ("8 + 8 = 16 + 8 = 24", False, True),
        ("1 - 6 = -5 + 9 = 4", False, False),  # no negative values
        ("9 * 8 = 72 - 6 = 66 * 1 = 66", False, True),  # above max_value
        ("1 + 6 + 9 + 8 = 24", False, False),  # results are not written
        ("24", False, False),
        ("", False, False),
        ("1 + 6 = 7 + 9 = 16 + 8 = 24 = 24", False, False),
        ("1 + 6 = 7 + 9 = 16 + 8 = ٢٤", False, False),
        ("9" * 5000, False, False),
    ],
)
def test_verify(text, correct, valid):
    score = TASK.verify(EXAMPLE, text)
    assert (score.correct, score.valid, score.reward) == (correct, valid, float(correct))
    assert (score.canonical is None) == (not valid)
    if correct:
        assert (score.answer, score.canonical) == ("1 + 6 = 7 + 9 = 16 + 8 = 24", "1 + 6 + 8 + 9")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="0123456789+-*= >x\n", max_size=40) | st.text(max_size=40))
def test_garbage_never_raises_and_never_counts(text):
    score = TASK.verify(EXAMPLE, text)
    assert score.correct == (" ".join(text.split()) in TASK.demonstrations(EXAMPLE))


def test_canonical_form_by_hand():
    assert canonical_form(9, [("-", 1), ("+", 2), ("*", 3)]) == canonical_form(2, [("+", 9), ("-", 1), ("*", 3)])
    assert canonical_form(2, [("*", 3), ("-", 1), ("+", 4)]) == "2 * 3 + 4 - 1"
    assert canonical_form(2, [("+", 3), ("*", 4), ("+", 1), ("*", 5)]) == "((2 + 3) * 4 + 1) * 5"
    assert canonical_form(1, [("*", 4), ("+", 6)]) != canonical_form(4, [("+", 6), ("*", 1)])


def test_other_sizes_against_brute_force():
    generator = random.Random(5)
    for size in (2, 3, 5):
        numbers = tuple(sorted(generator.randint(1, 7) for _ in range(size)))
        found = solve(numbers, 30)
        for target in generator.sample(sorted(found), 3):
            assert set(found[target]) == set(brute_force(numbers, target, limit=30))


@pytest.mark.parametrize("knobs", [{"numbers": 6}, {"low": 5, "high": 4}, {"problems": 0}, {"max_value": 3}])
def test_impossible_knobs_are_user_errors(knobs):
    with pytest.raises(UserError):
        Countdown(**knobs)


def test_no_prompts_is_a_user_error():
    with pytest.raises(UserError, match="no prompts"):
        Countdown(problems=5, min_solutions=500).prompts("test", n=4)
    with pytest.raises(UserError, match="Did you mean train"):
        TASK.prompts("trian", n=4)
