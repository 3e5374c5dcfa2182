import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polypath.core.errors import UserError
from polypath.core.recipe_types import Call
from polypath.tasks.protocol import Score
from polypath.tasks.verifiers import bind, choice, exact, last_number, math_verify, numeric, python, regex


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("Paris", "paris", True),
        ("  ＰＡＲＩＳ\n", "paris", True),  # full-width letters are equal under NFKC
        ("New\u00a0  York", "new york", True),
        ("I think <answer>Rome</answer> no, <answer> Paris </answer>!", "Paris", True),
        ("Paris.", "Paris", False),
        ("straße", "STRASSE", True),
        ("42", 42, True),
        ("", "Paris", False),
        ("<answer></answer>", "", False),
    ],
)
def test_exact(text, answer, right):
    score = exact(text, answer)
    assert (score.correct, score.reward) == (right, float(right))
    assert not right or score.canonical == exact(str(answer), answer).canonical


def test_exact_with_case():
    assert not exact("paris", "Paris", case=True).correct
    assert exact("Paris", "Paris", case=True).correct


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("the answer is 42.", 42),
        ("3-5", 5),
        ("x = -5", -5),
        ("1,234,567.5 people", 1234567.5),
        ("1, 2, 3", 3),
        ("a1 b2", None),
        (".5", 0.5),
        ("6.02e23 and no more", 6.02e23),
        ("$1,200", 1200),
        ("#### 18", 18),
        ("none", None),
        ("- + . e", None),
        ("²", None),
    ],
)
def test_last_number(text, value):
    assert last_number(text) == value


def test_numeric():
    assert numeric("so 0.333", "1 / 3 = 0.3333333", tolerance=1e-3).correct
    assert not numeric("so 0.333", "0.3333333").correct
    assert numeric("2.0", "2").canonical == numeric("2", "2").canonical == "2"
    assert numeric("no idea", "2") == Score(0.0, False, valid=False)
    assert numeric("9" * 400, 1).valid is False  # not finite
    with pytest.raises(ValueError, match="no number"):
        numeric("2", "two")


def test_regex():
    assert regex("Result: A; Result: b", "B", pattern=r"Result: (\w)").correct  # the last match, any case
    assert regex("x 17", "17", pattern=r"\d+").correct  # no group: the whole match
    assert not regex("x 17", "17", pattern=r"y(\d+)").valid
    assert not regex("b", "", pattern=r"(a)|b").valid
    with pytest.raises(UserError, match="not a regular expression"):
        regex("x", "x", pattern="(")
    with pytest.raises(UserError, match="1 groups, not 2"):
        regex("x", "x", pattern="(x)", group=2)


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is B.", "B"),
        ("Answer: (C)", "C"),
        ("answer B first, but the answer is D", "D"),
        ("A dog barks. (B)", "B"),
        ("B", "B"),
        ("So\n**C**\n", "C"),
        (r"\boxed{D}", "D"),
        ("B) because A is wrong", "B"),
        ("A dog barks", None),
        ("E", None),
        ("b", None),
        ("The answer is Big", None),
    ],
)
def test_choice(text, letter):
    score = choice(text, letter or "A")
    assert (score.answer, score.correct, score.valid) == (letter, letter is not None, letter is not None)


def test_choice_reference_may_be_dressed():
    assert choice("B", "(B)").correct
    assert choice("Answer: Y", "Y", options="XY").correct


def test_python_functions(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "def even(text, answer): return int(text) % 2 == 0\ndef half(t, a): return 0.5\ndef bad(t, a): return 'x'"
    )
    assert python("4", None, function=f"{file}:even").correct
    assert not python("3", None, function=f"{file}:even").correct
    assert python("3", None, function=f"{file}:half").reward == 0.5
    assert not python("3", None, function=f"{file}:half").correct
    assert python("3", None, function=f"{file}:half", threshold=0.5).correct
    assert python("b", "b", function="operator:eq").correct
    with pytest.raises(TypeError, match="returned str"):
        python("3", None, function=f"{file}:bad")
    with pytest.raises(ValueError):
        python("x", None, function=f"{file}:even")
    for target in (f"{file}:evn", f"{tmp_path}/none.py:f", "no_such_module:f", "nothing", ":f"):
        with pytest.raises(UserError):
            python("3", None, function=target)
    with pytest.raises(UserError, match="Did you mean even"):
        python("3", None, function=f"{file}:evn")


def test_bind_checks_names_and_knobs():
    assert bind({"numeric": {"tolerance": 0.5}}, "here")("2.4", "2").correct
    assert bind("numeric", "here")("2", "2").correct
    assert bind(Call("verifier", "numeric", {"tolerance": 0.5}), "here")("2.4", "2").correct
    for wrong, message in [
        ("numerc", "Did you mean numeric"),
        ({"numeric": {"tolerence": 1}}, "Did you mean tolerance"),
        ({"a": {}, "b": {}}, "names 2 verifiers"),
        ("regex", "needs pattern"),
    ]:
        with pytest.raises(UserError, match=message):
            bind(wrong, "here")


def test_math_verify_in_the_main_thread_and_in_others():
    cases = [(r"so $\frac{1}{2}$", "0.5", True), (r"\boxed{x+1}", "$1+x$", True), ("$3$", "4", False)]
    found = []
    thread = threading.Thread(target=lambda: found.extend(math_verify(t, a) for t, a, _ in cases))
    thread.start()
    thread.join()
    assert found == [math_verify(t, a) for t, a, _ in cases]
    assert [score.correct for score in found] == [right for _, _, right in cases]
    assert not math_verify("nothing here", "4").valid


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_no_text_makes_a_verifier_raise(text):
    for score in (exact(text, "a"), numeric(text, 1), regex(text, "a", pattern=r"(\w+)"), choice(text, "A")):
        assert score.correct == (score.reward == 1.0)
        assert score.valid == (score.canonical is not None)
