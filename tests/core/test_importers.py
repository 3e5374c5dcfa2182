"""Files of other frameworks as rollouts."""

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
    assert first.extra == {"gts": "a", "acc": True}
    assert (first.group_id, second.index) == (second.group_id, 1)


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
    assert math.isnan(rows[1].reward)
    assert rows[0].extra == {"note": "x"}
    assert rows[0].prompt_id == rows[2].prompt_id
    assert rows[0].group_id != rows[2].group_id


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


def test_lm_eval_samples(tmp_path: Path) -> None:
    """As `--log_samples` of lm-eval 0.4 writes them: repeats inside the first request, one row per filter."""
    row = {
        "doc_id": 3,
        "doc": {"question": "2+2?"},
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": "Q: 2+2?\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [["It is 4", "5"]],
        "filtered_resps": ["4", "5"],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": "x",
        "exact_match": 1.0,
    }
    path = jsonl(tmp_path / "samples_gsm8k.jsonl", row, row | {"filter": "flexible-extract"}, row | {"doc_id": 4})
    rows = load_rows(path)
    assert [(r.prompt_id, r.text, r.answer, r.index) for r in rows] == [
        ("3", "It is 4", "4", 0),
        ("3", "5", "5", 1),
        ("4", "It is 4", "4", 0),
        ("4", "5", "5", 1),
    ]
    assert rows[0].prompt == "Q: 2+2?\nA:" and rows[0].rewards == {"exact_match": 1.0} and rows[0].correct is None
    single = row | {"resps": [["4"]], "filtered_resps": ["4"], "arguments": [["Q", {}]], "exact_match": 0.0}
    (one,) = load_rows(jsonl(tmp_path / "one.jsonl", single))
    assert one.correct is False and one.prompt == "Q"
    choice = row | {
        "resps": [[[-1.5, True]], [[-2.0, False]]],
        "filtered_resps": [[-1.5, True]],
        "metrics": ["acc"],
        "acc": 1,
    }
    (scored,) = load_rows(jsonl(tmp_path / "mc.jsonl", choice))
    assert scored.text == "" and scored.rewards == {"acc": 1.0}


def test_inspect_logs(tmp_path: Path) -> None:
    """A log that inspect-ai 0.3.285 wrote: two samples, three epochs, scored by match()."""
    pytest.importorskip("pyarrow")
    rows = load_rows(Path(__file__).parent / "inspect.eval")
    assert [(r.prompt_id, r.index, r.text, r.correct) for r in rows] == [
        ("a", 0, "The answer is 4", True),
        ("a", 1, "7", False),
        ("a", 2, "4", True),
        ("b", 0, "5", False),
        ("b", 1, "It is 7", True),
        ("b", 2, "9", False),
    ]
    assert len(rows) == 6 and {r.prompt for r in rows} == {"2+2?", "3+4?"}
    for row in rows:
        assert row.rewards == {"score/match": float(row.correct or 0)} and row.correct is not None
    bad = tmp_path / "bad.eval"
    bad.write_bytes(b"no zip")
    with pytest.raises(UserError, match="not an inspect log"):
        load_rows(bad)
