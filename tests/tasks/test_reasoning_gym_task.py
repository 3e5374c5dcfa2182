import pytest

from polypath.core.errors import UserError
from polypath.tasks.expressions import algebra_form, expression_form
from polypath.tasks.protocol import Prompt
from polypath.tasks.reasoning_gym import ReasoningGym, literal_form

pytest.importorskip("reasoning_gym")


def test_prompts_are_repeatable_and_splits_disjoint():
    task = ReasoningGym(dataset="chain_sum")
    found = {split: task.prompts(split, n=20) for split in ("train", "dev", "test")}
    assert all(len({p.id for p in prompts}) == 20 for prompts in found.values())
    assert len({p.text for prompts in found.values() for p in prompts}) == 60
    again = ReasoningGym(dataset="chain_sum")
    assert [p.text for p in again.prompts("train", n=5)] == [p.text for p in found["train"][:5]]
    assert again.prompts("train", n=5, seed=1)[0].text != found["train"][0].text


@pytest.mark.parametrize("dataset", ["chain_sum", "jugs", "tower_of_hanoi", "puzzle24", "n_queens", "word_ladder"])
def test_reference_answers_are_correct_wherever_they_stand(dataset):
    task = ReasoningGym(dataset=dataset)
    for prompt in task.prompts("train", n=2):
        answer = prompt.data["entry"]["answer"]
        for text in (answer, f"Because.\n<answer>\n{answer}</answer>", f"<answer>1</answer><answer>{answer}</answer>"):
            score = task.verify(prompt, text)
            assert (score.correct, score.reward, score.valid) == (True, 1.0, True)
            assert score.canonical == task.verify(prompt, answer).canonical
        assert not task.verify(prompt, "<answer>nonsense</answer>").correct
    single_line = ReasoningGym(dataset="chain_sum")
    prompt = single_line.prompts("train", n=1)[0]
    assert single_line.verify(prompt, f"Let me see.\n{prompt.data['entry']['answer']}\n").correct


def test_the_last_number_of_a_sentence_on_request():
    entry = ReasoningGym(dataset="chain_sum").prompts("train", n=1)[0].data["entry"] | {"answer": "10"}
    prompt = Prompt("x", "?", {"entry": entry})
    strict, lenient = (ReasoningGym(dataset="chain_sum", untagged=how) for how in ("text", "last_number"))
    for text, right in (
        ("1+9=10.", True),
        ("It is 10, not 11", False),
        ("<answer>10</answer> or 3", True),
        ("ten", False),
    ):
        assert lenient.verify(prompt, text).correct == right
    assert not strict.verify(prompt, "1+9=10.").correct
    assert lenient.verify(prompt, "1 + 9 = 10").answer == "10"


def test_partial_scores_are_wrong_unless_asked_for():
    prompt = ReasoningGym(dataset="countdown").prompts("train", n=1)[0]
    wrong = "1 + 1"  # the scorer gives .05 for any expression
    assert ReasoningGym(dataset="countdown").verify(prompt, wrong).reward == 0.0
    score = ReasoningGym(dataset="countdown", partial_credit=True).verify(prompt, wrong)
    assert (score.reward, score.correct) == (0.05, False)
    assert ReasoningGym(dataset="countdown", threshold=0.05).verify(prompt, wrong).correct


def test_countdown_solutions_are_equal_up_to_order():
    task = ReasoningGym(dataset="countdown")
    entry = {"question": "?", "metadata": {"numbers": [2, 3, 4], "target": 14}}
    prompt = Prompt("x", "?", {"entry": entry})
    forms = [task.verify(prompt, text) for text in ("2*(3+4)", "(4 + 3) * 2", "2 * 3 * 4", "2*3 + 2*4")]
    assert [score.correct for score in forms] == [True, True, False, False]
    assert forms[0].canonical == forms[1].canonical != forms[2].canonical


def test_code_is_never_given_to_a_scorer_that_evaluates_it(tmp_path):
    task = ReasoningGym(dataset="countdown")
    prompt = task.prompts("train", n=1)[0]
    mark = tmp_path / "mark"
    for text in (f"open({str(mark)!r}, 'w')", "9**9**9**9", "__import__('os').getcwd()", "x + 1", "(" * 400):
        assert not task.verify(prompt, text).valid
    assert not mark.exists()


# All datasets whose scorer calls `eval` or sympy's parser on the answer, alone and inside a composite.
EVALUATING = ["binary_matrix", "n_queens", "spiral_matrix", "string_insertion"]
EVALUATING += ["simple_integration", "intermediate_integration", "polynomial_multiplication", "countdown", "puzzle24"]


@pytest.mark.parametrize("dataset", EVALUATING)
@pytest.mark.parametrize("composite", [False, True])
def test_no_scorer_gets_to_run_code(dataset, composite, tmp_path):
    from reasoning_gym.composite import DatasetSpec

    config = {"datasets": [DatasetSpec(dataset, 1.0, {})]} if composite else {}
    task = ReasoningGym(dataset="composite" if composite else dataset, config=config)
    prompt = task.prompts("train", n=1)[0]
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')"
    for text in (code, f"[{code}]", f"  [[{code}]]", f"sin({code})", f"f'{{{code}}}'", "9**9**9**9", "(" * 400):
        assert not task.verify(prompt, text).correct
    assert not mark.exists()
    answer = prompt.data["entry"]["answer"]
    assert task.verify(prompt, answer).correct


@pytest.mark.parametrize("text", ["[1, -2, 'a', [b]]", "", "1 2\n3 4", "\x00", "\ud800"])
def test_texts_that_nothing_can_come_of_are_shown_to_the_scorer(text):
    assert literal_form(text) is not None


def test_formulas():
    for text in ("26*X**3/5 + C", "-exp(-7*x**2 + 8) + C", "2*(4*x - 5)**(3/2)", "3*Integral(x*sin(x), x) + C"):
        assert algebra_form(text) == algebra_form(f" ({text}) ") is not None
    for text in (
        "x.y",
        "f(x)",
        "x[0]",
        "'a'",
        "__x__",
        "x**y",
        "9**9**9",
        "((9**99)**99)",
        "x**101",
        "x if y else z",
        "x!",
    ):
        assert algebra_form(text) is None


def test_a_scorer_that_raises_is_a_wrong_answer_and_counted():
    task = ReasoningGym(dataset="chain_sum")
    prompt = task.prompts("train", n=1)[0]
    task._scorer = lambda answer, entry: 1 / 0
    score = task.verify(prompt, "5")
    assert (score.reward, score.correct, score.valid) == (0.0, False, False)
    assert task.scorer_errors == 1


def test_mistakes():
    for knobs, message in [
        ({"dataset": "countdwn"}, "Did you mean countdown"),
        ({"dataset": "countdown", "config": {"min_number": 3}}, "min_number"),
        ({"dataset": "countdown", "config": {"min_numbers": 1}}, "min_numbers must be"),
        ({"dataset": "countdown", "config": {"seed": 3}}, "'seed' is set by"),
    ]:
        with pytest.raises(UserError, match=message):
            ReasoningGym(**knobs)
    with pytest.raises(UserError, match="split"):
        ReasoningGym(dataset="chain_sum").prompts("tset", n=1)


def test_config_and_instruction_reach_the_question():
    task = ReasoningGym(dataset="chain_sum", config={"min_terms": 2, "max_terms": 2}, instruction="Use tags.")
    prompt = task.prompts("dev", n=1)[0]
    assert prompt.text.endswith("\nUse tags.")
    assert prompt.data["entry"]["metadata"]["difficulty"]["num_terms"] == (2, 2)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1 + 2 - 3", "2 - 3 + 1"),
        ("1 - (2 - 3)", "3 + 1 - 2"),
        ("2 * 3 / 4", "3 / 4 * 2"),
        ("8 / (2 / 3)", "8 * 3 / 2"),
        ("((1)) + (2 * (3))", "3*2+1"),
        ("-1 + 4", "4 - 1"),
    ],
)
def test_expressions_that_are_the_same(a, b):
    assert expression_form(a) == expression_form(b)
    assert eval(expression_form(a)) == pytest.approx(eval(a))


def test_expressions_that_differ_or_are_none():
    assert len({expression_form(t) for t in ("1 + 2 * 3", "(1 + 2) * 3", "1 * 2 + 3", "3 * 2 - 1", "1 - 2 * 3")}) == 5
    for text in ("", "a", "1 +", "1 // 2", "2 ** 3", "f(1)", "True", "'1'", "~1", "1 < 2", "[1]", "9" * 600, "1j"):
        assert expression_form(text) is None
