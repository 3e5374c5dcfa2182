import json

import pytest

from polypath.core.errors import UserError
from polypath.tasks.jsonl import Jsonl


def write(tmp_path, *lines):
    file = tmp_path / "data.jsonl"
    file.write_bytes("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines).encode())
    return str(file)


def test_prompts_splits_and_verdicts(tmp_path):
    rows = [{"question": f"{i} + {i}?", "gold": 2 * i} for i in range(200)]
    path = write(tmp_path, *rows, "", rows[0])
    task = Jsonl(path=path, prompt="question", answer="gold", verifier="numeric", chat=False)
    sizes = {split: task.prompts(split, n=1000) for split in ("train", "dev", "test")}
    assert sum(map(len, sizes.values())) == 200  # the repeated row is dropped
    assert len(sizes["train"]) > 140 and min(len(sizes["dev"]), len(sizes["test"])) > 8
    assert not {p.id for p in sizes["train"]} & {p.id for p in sizes["test"]}
    prompt = sizes["train"][0]
    assert task.verify(prompt, f"It is {prompt.data['answer']}").correct
    assert not task.verify(prompt, "It is -1").correct
    assert task.chat is False
    # a split depends on the prompt alone: other rows do not move it
    fewer = Jsonl(path=write(tmp_path, *rows[:50]), prompt="question", answer="gold")
    assert {p.id for p in fewer.prompts("test", n=99)} <= {p.id for p in sizes["test"]}


def test_a_list_of_answers_accepts_any(tmp_path):
    task = Jsonl(path=write(tmp_path, {"prompt": "A city?", "answer": ["Rome", "Paris"]}), dev=0, test=0)
    prompt = task.prompts("train", n=1)[0]
    assert task.verify(prompt, "paris").canonical == "paris"
    assert task.verify(prompt, "rome").correct
    assert not task.verify(prompt, "Oslo").correct
    with pytest.raises(UserError, match="no prompts"):
        task.prompts("test", n=1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "holds no rows"),
        (["", "  "], "holds no rows"),
        ([{"prompt": "a", "answer": "b"}, "{bad"], "data.jsonl:2: is not JSON"),
        ([{"prompt": "a", "answer": "b"}, "", "[1]"], "data.jsonl:3: is a JSON list"),
        ([{"promt": "a", "answer": "b"}], "data.jsonl:1: has no column 'prompt'. Did you mean promt?"),
        ([{"prompt": "a"}], "data.jsonl:1: has no column 'answer'"),
        ([{"prompt": " ", "answer": "b"}], "data.jsonl:1: the column 'prompt' holds no text"),
        ([{"prompt": ["a"], "answer": "b"}], "data.jsonl:1: the column 'prompt' holds no text"),
        ([{"prompt": "a", "answer": None}], "data.jsonl:1: the column 'answer' holds no answer"),
    ],
)
def test_bad_files_are_user_errors_with_their_line(lines, message, tmp_path):
    with pytest.raises(UserError) as error:
        Jsonl(path=write(tmp_path, *lines))
    assert message in str(error.value)


def test_other_mistakes(tmp_path):
    good = write(tmp_path, {"prompt": "a", "answer": "b"})
    (tmp_path / "latin").write_bytes(b'{"prompt": "\xe9"}')
    for knobs, message in [
        ({"path": str(tmp_path / "none")}, "cannot be read"),
        ({"path": str(tmp_path)}, "cannot be read"),
        ({"path": str(tmp_path / "latin")}, "not UTF-8"),
        ({"path": good, "verifier": "exakt"}, "Did you mean exact"),
        ({"path": good, "dev": 0.7, "test": 0.7}, "not possible"),
    ]:
        with pytest.raises(UserError, match=message):
            Jsonl(**knobs)


def test_without_an_answer_column(tmp_path):
    check = tmp_path / "check.py"
    check.write_text("def long(text, answer): return len(text) > 3 and answer is None")
    path = write(tmp_path, {"prompt": "Write."})
    task = Jsonl(path=path, answer=None, verifier={"python": {"function": f"{check}:long"}}, dev=0, test=0)
    assert task.verify(task.prompts("train", n=1)[0], "enough").correct
