"""Logs that lm-eval 0.4.13 and inspect-ai 0.3.285 wrote, and what is no such log."""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from polypath.core.errors import UserError
from polypath.core.importers import load_rows

LOGS = Path(__file__).parent / "logs"
STAMP = "2026-12-01T05-10-39.061418"


def test_lm_eval_repeats_share_the_metric_of_the_document() -> None:
    """Three repeats, two filters of equal texts (the first counts): strict-match took "2" of doc 0, which is right."""
    rows = load_rows(LOGS / f"samples_toy_sums_{STAMP}.jsonl")
    assert [(r.prompt_id, r.index, r.text) for r in rows] == [
        ("0", 0, "The answer is 2"), ("0", 1, "4"), ("0", 2, "it is 4 or 5"),
        ("1", 0, "two"), ("1", 1, "The answer is 2"), ("1", 2, "4"),
    ]  # fmt: skip
    assert [r.rewards["exact_match"] for r in rows] == [1.0] * 3 + [0.0] * 3
    assert {r.correct for r in rows} == {None}
    assert rows[0].prompt == "Q: 1+1?\nA:" and rows[0].extra == {
        "target": "2",
        "filter": "strict-match",
        "task": "toy_sums",
    }


def test_lm_eval_single_texts_have_verdicts() -> None:
    rows = load_rows(LOGS / f"samples_toy_one_{STAMP}.jsonl")
    assert [(r.prompt_id, r.correct) for r in rows] == [("0", False), ("1", False)]
    assert all(r.text == r.answer for r in rows)


def test_lm_eval_multiple_choice_gives_the_likeliest_option() -> None:
    """Log-likelihoods -1 and -2 for the options 1 and 2, then -3 and -1 for 4 and 5."""
    rows = load_rows(LOGS / f"samples_toy_choice_{STAMP}.jsonl")
    assert [(r.text, r.answer, r.correct) for r in rows] == [(" 1", "1", False), (" 5", "5", False)]
    assert rows[0].rewards == {"acc": 0.0}


def test_lm_eval_directory_tells_tasks_apart_and_pools_repeated_runs(tmp_path: Path) -> None:
    for name in ("toy_one", "toy_choice"):
        shutil.copy(LOGS / f"samples_{name}_{STAMP}.jsonl", tmp_path)
    (tmp_path / "results.json").write_text("{}")
    assert {r.prompt_id for r in load_rows(tmp_path)} == {"toy_one/0", "toy_one/1", "toy_choice/0", "toy_choice/1"}
    (tmp_path / f"samples_toy_choice_{STAMP}.jsonl").unlink()
    shutil.copy(LOGS / f"samples_toy_one_{STAMP}.jsonl", tmp_path / "samples_toy_one_2026-12-02T05-10-39.061418.jsonl")
    assert [(r.prompt_id, r.index) for r in load_rows(tmp_path)] == [("0", 0), ("1", 0), ("0", 1), ("1", 1)]


def test_lm_eval_older_forms(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "doc_id": 3,
        "target": "4",
        "arguments": [["Q", {"until": []}]],
        "resps": [["4"]],
        "filtered_resps": ["4"],
        "exact_match": 0.0,
    }
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(row))
    (one,) = load_rows(path)
    assert (one.correct, one.prompt, one.rewards) == (False, "Q", {"exact_match": 0.0})
    many = row | {"resps": [["It is 4", "5"]], "filtered_resps": [["4", "5"]], "pass@1": 0.5, "metrics": ["pass@1"]}
    path.write_text(json.dumps(many))
    assert [(r.text, r.answer, r.correct) for r in load_rows(path)] == [("It is 4", "4", None), ("5", "5", None)]
    choice = row | {"arguments": [["Q", " a"], ["Q", " b"], ["", " a"]], "metrics": ["acc"], "acc": 1}
    path.write_text(json.dumps(choice | {"resps": [[[-1.5, True]], [[-0.5, False]], [[-0.1, True]]]}))
    assert load_rows(path)[0].text == " b"
    path.write_text(json.dumps(row | {"arguments": [["Q", " a"]], "resps": [[[-1.5, True]]]}))
    assert load_rows(path)[0].text == ""
    assert load_rows(path, {"text": "target"})[0].text == "4"  # who names the texts gets the raw columns


def test_inspect_epochs() -> None:
    pytest.importorskip("pyarrow")
    rows = load_rows(Path(__file__).parent / "inspect.eval")
    assert sorted((r.prompt_id, r.index, r.text, r.correct) for r in rows) == [
        ("a", 0, "The answer is 4", True),
        ("a", 1, "7", False),
        ("a", 2, "4", True),
        ("b", 0, "5", False),
        ("b", 1, "It is 7", True),
        ("b", 2, "9", False),
    ]
    assert {r.prompt for r in rows} == {"2+2?", "3+4?"}
    for row in rows:
        assert row.rewards == {"score/match": float(row.correct or 0)}


@pytest.mark.parametrize("name", ["inspect_errors.eval", "inspect_errors.json"])
def test_inspect_errors_reasoning_and_chats(name: str) -> None:
    pytest.importorskip("pyarrow")
    rows = {(r.prompt_id, r.index): r for r in load_rows(LOGS / name)}
    assert len(rows) == 6
    failed = rows["bad", 0]
    assert (failed.text, failed.status, failed.correct, failed.extra["error"]) == (
        "", "aborted", None, "RuntimeError('boom')",
    )  # fmt: skip
    assert math.isnan(failed.reward)
    assert rows["2", 0].text == "8"  # its reasoning is no part of the answer
    chat = rows["chat", 0]
    assert (chat.prompt, chat.text, chat.correct) == ("Say 4 please.", "4", True)
    assert chat.rewards == {"score/match": 1.0, "score/includes": 1.0} and chat.tokens == {"generated": 1}
    assert chat.extra["task"] == "sums"


def inspect_log(path: Path, sample: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}}))
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample))
    return path


def test_inspect_choices_attachments_and_partial_verdicts(tmp_path: Path) -> None:
    said = [{"message": {"content": text}, "stop_reason": "max_tokens"} for text in ("a", "attachment://x")]
    sample = {"id": 1, "input": "q", "output": {"choices": said}, "scores": {"s": {"value": "P"}, "d": {"value": {}}}}
    rows = load_rows(inspect_log(tmp_path / "l.eval", sample | {"attachments": {"x": "long"}}))
    assert [(r.text, r.index, r.status, r.correct) for r in rows] == [
        ("a", 0, "truncated", None),
        ("long", 1, "truncated", None),
    ]
    assert rows[0].rewards["score/s"] == 0.5 and math.isnan(rows[0].rewards["score/d"])


def test_what_is_no_inspect_log(tmp_path: Path) -> None:
    bad = tmp_path / "bad.eval"
    bad.write_bytes(b"no zip")
    with pytest.raises(UserError, match=r"bad\.eval: is not an inspect log"):
        load_rows(bad)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(UserError, match="is a zip file and no inspect log"):
        load_rows(bad)
    with pytest.raises(UserError, match="cannot be read"):
        load_rows(tmp_path / "gone.eval")
