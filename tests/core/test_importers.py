"""Files of other frameworks as rollouts."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rows import group

from polypath.core.errors import UserError
from polypath.core.importers import load_rows
from polypath.core.store import RolloutWriter, to_parquet


def jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_our_own_rows_as_jsonl_parquet_and_run_directory(tmp_path: Path) -> None:
    with RolloutWriter(tmp_path / "rollouts.jsonl") as writer:
        writer.write(group(0))
    to_parquet(tmp_path / "rollouts.jsonl", tmp_path / "rollouts.parquet")
    for path in (tmp_path / "rollouts.jsonl", tmp_path / "rollouts.parquet", tmp_path):
        assert load_rows(path) == group(0)


def test_plain_jsonl_is_guessed_and_grouped_by_prompt(tmp_path: Path) -> None:
    rows = load_rows(
        jsonl(
            tmp_path / "r.jsonl",
            {"question": "1+1", "response": "2", "score": 1, "correct": True, "answer": 2, "model": "m"},
            {"question": "1+2", "response": "3", "score": None, "correct": 0},
            {"question": "1+1", "response": "11", "score": 0.0, "correct": None},
        )
    )
    assert [(r.prompt, r.text, r.index, r.correct, r.answer) for r in rows] == [
        ("1+1", "2", 0, True, "2"),
        ("1+2", "3", 0, False, None),
        ("1+1", "11", 1, None, None),
    ]
    assert rows[0].group_id == rows[2].group_id != rows[1].group_id
    assert [repr(r.rewards) for r in rows] == ["{'score': 1.0}", "{'score': nan}", "{'score': 0.0}"]
    assert rows[0].extra == {"model": "m"}


def test_verl_rollout_dump(tmp_path: Path) -> None:
    row = {"input": "user\nq", "output": "a", "gts": "a", "score": 1.0, "step": 7, "acc": True}
    first, second = load_rows(jsonl(tmp_path / "7.jsonl", row, row | {"output": "b", "score": 0.0}))
    assert (first.prompt, first.text, first.step, first.rewards) == ("user\nq", "a", 7, {"score": 1.0})
    assert first.extra == {"gts": "a"} and first.correct is True
    assert (first.group_id, second.index) == (second.group_id, 1)


def test_a_directory_of_verl_dumps_is_read_in_the_order_of_its_steps(tmp_path: Path) -> None:
    for step in (2, 10):
        row = {"input": "q", "output": "a", "gts": "4", "score": 0.5, "step": step, "acc": 0.5, "pred": "4"}
        jsonl(tmp_path / f"{step}.jsonl", row, row)
    rows = load_rows(tmp_path)
    assert [(r.step, r.index) for r in rows] == [(2, 0), (2, 1), (10, 0), (10, 1)]
    assert rows[0].correct is None and rows[0].extra["acc"] == 0.5 and rows[0].answer == "4"


def test_trl_completion_logs(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for step in (1, 2):
        table = {
            "step": [step] * 2,
            "prompt": [[{"role": "user", "content": "say hi"}]] * 2,
            "completion": [[{"role": "assistant", "content": text}] for text in ("hi", "ho")],
            "accuracy_reward": [1.0, None],
            "short": [0.5, 0.25],
            "note": ["x", "y"],
            "advantage": [0.7, -0.7],
        }
        pq.write_table(pa.table(table), tmp_path / f"completions_{step:05}.parquet")
    rows = load_rows(tmp_path)
    assert [(r.step, r.prompt, r.text, r.index, r.advantage) for r in rows] == [
        (1, "say hi", "hi", 0, 0.7), (1, "say hi", "ho", 1, -0.7), (2, "say hi", "hi", 0, 0.7),
        (2, "say hi", "ho", 1, -0.7),
    ]  # fmt: skip
    assert rows[0].rewards == {"accuracy_reward": 1.0, "short": 0.5}
    assert rows[1].rewards == {"short": 0.25}  # TRL adds up those that are not None
    assert rows[0].extra == {"note": "x"}
    assert rows[0].prompt_id == rows[2].prompt_id
    assert rows[0].group_id != rows[2].group_id


def test_a_completions_log_that_trl_wrote() -> None:
    """By TRL 1.16: two reward functions, of which one gave no value for the first completion."""
    pytest.importorskip("pyarrow")
    rows = load_rows(Path(__file__).parent / "logs" / "completions_00001.parquet")
    assert len(rows) == 8 and {r.step for r in rows} == {1}
    assert [(r.prompt, r.text, r.index) for r in rows[:2]] == [("w1 w2 w3", "w6 w7 w8", i) for i in (0, 1)]
    assert set(rows[0].rewards) == {"table_reward"}  # TRL adds up those that are not None
    assert set(rows[1].rewards) == {"table_reward", "short_reward"}


def test_csv_with_a_column_map(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('\ufeffid,reply,r1,r2,passed\n1,"two\nlines",1,0.5,True\n1,,,2,false\n', encoding="utf-8")
    first, second = load_rows(path, {"prompt_id": "id", "text": "reply", "reward": "r1,r2"})
    assert (first.text, first.rewards, first.correct) == ("two\nlines", {"r1": 1.0, "r2": 0.5}, True)
    assert (second.text, second.correct, second.index) == ("", False, 1)
    assert math.isnan(second.rewards["r1"])


def test_a_list_of_texts_is_one_rollout_each(tmp_path: Path) -> None:
    row = {"prompt": "q", "completions": ["a", "b"], "reward": [1, 0], "correct": True}
    (tmp_path / "r.json").write_text(json.dumps([row]))
    rows = load_rows(tmp_path / "r.json")
    assert [(r.text, r.index, r.rewards, r.correct) for r in rows] == [
        ("a", 0, {"reward": 1.0}, True),
        ("b", 1, {"reward": 0.0}, True),
    ]


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("r.jsonl", '{"q": 1, "a": 2}', None, r"r\.jsonl: has no column with the completions. There are: q, a\."),
        ("r.jsonl", '{"text": "t", "a": 2}', None, "no column that says which prompt.*There are: text, a.*prompt=NAME"),
        ("r.jsonl", '{"text": "t"}', {"prompt": "qq"}, r"has no column 'qq'\. There are: text\."),
        ("r.jsonl", '{"text": "t"}', {"txt": "text"}, "no rollout column 'txt'. Did you mean text"),
        ("r.jsonl", '{"text": "t", "prompt": "q", "score": "x"}', None, r"r\.jsonl:1: column 'score' expects a number"),
        ("r.jsonl", '{"text": "t", "prompt": "q", "correct": 0.5}', None, r"r\.jsonl:1: a verdict is true or false"),
        ("r.jsonl", "", None, "has no rows"),
        ("r.json", "{", None, r"is not JSON .*use the ending \.jsonl"),
        ("r.json", '{"a": 1}', None, "is not a JSON list of objects"),
        ("r.csv", "text,prompt\na,b,c\n", None, r"r\.csv:2: has not 2 columns"),
        ("r.jsonl", '{"text": "t", "prompt": "q"}\n{"prompt": "q"}', None, r"r\.jsonl:2: has no 'text', which other"),
        ("r.jsonl", '{"text": "t", "prompt": "q"}\n{"text": "u"}', None, r"r\.jsonl:2: does not say which prompt"),
        (
            "r.jsonl",
            '{"prompt_id": "p", "group_id": "g", "index": 0, "text": null}',
            None,
            r"r\.jsonl:1: 'text' is not a text but None\. An empty completion is \"\"",
        ),
        ("r.txt", "hello", None, r"cannot read files named '\*\.txt'"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, name: str, text: str, columns: Any, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        load_rows(tmp_path / name, columns)


def test_places_without_rows(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no rollouts"):
        load_rows(tmp_path)
    for name in ("gone.jsonl", "gone.csv"):
        with pytest.raises(UserError, match="cannot be read"):
            load_rows(tmp_path / name)


def test_a_prompt_numbered_zero_and_steps_that_are_no_number(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("question_id,text,step\n0,a,nan\n0,b,\n", encoding="utf-8")
    assert [(r.prompt_id, r.step, r.index) for r in load_rows(path)] == [("0", 0, 0), ("0", 0, 1)]


def test_texts_without_prompts_are_one_set_when_asked_for(tmp_path: Path) -> None:
    rows = load_rows(jsonl(tmp_path / "r.jsonl", {"text": "a"}, {"text": "b"}), prompts=False)
    assert [(r.index, r.prompt) for r in rows] == [(0, ""), (1, "")]


def test_lengths_and_how_a_completion_ended(tmp_path: Path) -> None:
    row = {"prompt": "q", "completion": "a", "completion_tokens": 7, "finish_reason": "length"}
    other = {"prompt": "q", "completion": "b", "completion_tokens": None, "finish_reason": "stop"}
    cut, whole = load_rows(jsonl(tmp_path / "r.jsonl", row, other))
    assert (cut.tokens, cut.status) == ({"generated": 7}, "truncated")
    assert (whole.tokens, whole.status) == ({}, "complete")


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv", "r.json"])
def test_packed_files(tmp_path: Path, name: str) -> None:
    text = {"r.jsonl": '{"prompt": "q", "text": "ü"}\n', "r.csv": "prompt,text\nq,ü\n"}
    data = text.get(name, '[{"prompt": "q", "text": "ü"}]').encode()
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(data))
    assert [(r.prompt, r.text) for r in load_rows(path)] == [("q", "ü")]
    path.write_bytes(gzip.compress(data * 100)[:-12])
    with pytest.raises(UserError, match="is no whole gzip file"):
        load_rows(path)
    path.write_bytes(b"not packed")
    with pytest.raises(UserError, match="is no whole gzip file"):
        load_rows(path)


def test_a_csv_with_a_very_long_completion(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"prompt,text\nq,{'x ' * 200_000}\n", encoding="utf-8")
    assert len(load_rows(path)[0].text) == 400_000


@pytest.mark.slow  # importing datasets
def test_a_saved_dataset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"question": ["q", "q"], "response": ["a", "b"], "embedding": [[1.0, 0.0], [0.0, 1.0]]}
    saved = datasets.Dataset.from_dict(rows)
    saved.save_to_disk(str(tmp_path / "one"))
    found = load_rows(tmp_path / "one")
    assert [(r.prompt, r.text, r.extra["embedding"]) for r in found] == [("q", "a", [1, 0]), ("q", "b", [0, 1])]
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(str(tmp_path / "both"))
    with pytest.raises(UserError, match=r"2 splits\. Name one: .*both/train, .*both/test"):
        load_rows(tmp_path / "both")
    next((tmp_path / "one").glob("*.arrow")).unlink()
    with pytest.raises(UserError, match="is missing, though"):
        load_rows(tmp_path / "one")


def test_several_conversations_and_their_embeddings_in_one_row(tmp_path: Path) -> None:
    chats = [[{"role": "assistant", "content": text}] for text in ("hi", "ho")]
    row = {"prompt": "q", "completions": chats, "embedding": [[1, 0], [0, 1]], "tags": ["x", "y"]}
    rows = load_rows(jsonl(tmp_path / "r.jsonl", row))
    assert [(r.text, r.extra["embedding"], r.extra["tags"]) for r in rows] == [
        ("hi", [1, 0], ["x", "y"]),
        ("ho", [0, 1], ["x", "y"]),
    ]
