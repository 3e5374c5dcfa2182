"""Anybody's completions as rollouts: ours, the logs of TRL, verl, lm-eval and inspect, plain JSONL, CSV, Parquet."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.eval_logs import LM_EVAL_COLUMNS, inspect_rows, is_lm_eval, lm_eval_row
from polypath.core.files import numbered_rows, open_for_reading
from polypath.core.record import Rollout
from polypath.core.store import from_parquet, parquet_table, to_rollout

Row = tuple[str, dict[str, Any]]  # where it stands, and its columns

# What others call our columns, the likeliest first.
_GUESSES: dict[str, tuple[str, ...]] = {
    "text": ("text", "completion", "response", "output", "generation", "completions", "responses", "outputs"),
    "prompt": ("prompt", "question", "input", "problem", "instruction"),
    "prompt_id": ("prompt_id", "task_id", "question_id", "problem_id", "doc_id"),
    "group_id": ("group_id",),
    "reward": ("reward", "score"),
    "correct": ("correct", "is_correct", "passed"),
    "answer": ("answer", "prediction", "extracted_answer"),
    "canonical": ("canonical",),
    "advantage": ("advantage",),
    "step": ("step", "global_step"),
}
_OURS = {"prompt_id", "group_id", "index", "text"}
_TRL = {"step", "prompt", "completion", "advantage"}


def load_rows(path: str | Path, columns: dict[str, str] | None = None) -> list[Rollout]:
    """Rollouts of a file, a run directory or a directory of TRL completion logs.

    `columns` says what the file calls a column of ours, as in `{"text": "answer_text", "reward": "r1,r2"}`; the rest
    is guessed, and unknown columns go to `extra`. A text that is a list of strings is one rollout per string. Rows
    without a group id are grouped by step and prompt. Raises UserError for what cannot be read or is missing.
    """
    path = Path(path)
    if path.is_dir():
        return _load_directory(path, columns)
    rows = list(read_rows(path))
    if not rows:
        raise UserError(str(path), "has no rows", "Is it the right file?")
    present = list(dict.fromkeys(name for _, row in rows for name in row))
    if columns is None and is_lm_eval(present):
        first = rows[0][1].get("filter")  # the filters of a task share their texts: one of them is enough
        rows = [(where, lm_eval_row(row)) for where, row in rows if row.get("filter") == first]
        present = list(dict.fromkeys(name for _, row in rows for name in row))
        metrics = [name for name in present if name not in LM_EVAL_COLUMNS]
        columns = {"reward": ",".join(metrics)} if metrics else None
    elif columns is None and path.suffix == ".eval":
        scores = [name for name in present if name.startswith("score/")]
        columns = {"reward": ",".join(scores)} if scores else None
    if columns is None and set(present) >= _OURS:
        return from_parquet(path) if path.suffix == ".parquet" else [to_rollout(row, where) for where, row in rows]
    names = _column_names(str(path), present, rows, columns or {})
    counts: Counter[str] = Counter()
    return [rollout for where, row in rows for rollout in _rollouts(where, row, names, counts)]


def _load_directory(path: Path, columns: dict[str, str] | None) -> list[Rollout]:
    if (path / "rollouts.jsonl").exists():
        return load_rows(path / "rollouts.jsonl", columns)
    files = sorted(file for file in path.iterdir() if file.suffix in (".parquet", ".jsonl"))
    if not files:
        raise UserError(str(path), "holds no rollouts", "Expected rollouts.jsonl, or *.parquet or *.jsonl files.")
    return [rollout for file in files for rollout in load_rows(file, columns)]


def read_rows(path: Path) -> Iterable[Row]:
    """(where, row) of a JSONL, JSON, CSV, TSV or Parquet file. Raises UserError for what cannot be read."""
    suffix = path.suffix.lower()
    if suffix == ".eval":
        return inspect_rows(path)
    if suffix in (".jsonl", ".ndjson"):
        return ((f"{path}:{number}", row) for number, row, _ in numbered_rows(path))
    if suffix == ".parquet":
        return ((f"{path} row {count}", row) for count, row in enumerate(parquet_table(path).to_pylist()))
    if suffix not in (".csv", ".tsv", ".json"):
        raise UserError(
            str(path), f"cannot read files named '*{suffix}'", "Use .jsonl, .json, .csv, .tsv, .parquet or .eval."
        )
    with open_for_reading(path) as file:
        try:
            text = file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(str(path), f"is not UTF-8 text ({error})", "Convert it to UTF-8.") from error
    return _json_rows(path, text) if suffix == ".json" else _csv_rows(path, text, "\t" if suffix == ".tsv" else ",")


def _json_rows(path: Path, text: str) -> list[Row]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise UserError(
            str(path), f"is not JSON ({error})", "For one object per line use the ending .jsonl."
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(str(path), "is not a JSON list of objects", "For one object per line use the ending .jsonl.")
    return [(f"{path} row {count}", row) for count, row in enumerate(rows)]


def _csv_rows(path: Path, text: str, delimiter: str) -> list[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = []
    for row in reader:
        where = f"{path}:{reader.line_num}"
        if None in row or None in row.values():
            raise UserError(where, f"has not {len(reader.fieldnames or [])} columns as the header", "Quote its commas.")
        rows.append((where, dict(row)))
    return rows


def _column_names(path: str, present: list[str], rows: list[Row], asked: dict[str, str]) -> dict[str, list[str]]:
    """Our column names with the file's; only the reward can have several."""
    there = f"There are: {', '.join(present)}. Name them as in: --column text=NAME"
    for ours, theirs in asked.items():
        if ours not in _GUESSES:
            raise UserError(path, f"there is no rollout column '{ours}'", did_you_mean(ours, _GUESSES))
        absent = [name for name in theirs.split(",") if name not in present]
        if absent:
            raise UserError(path, f"has no column '{absent[0]}'", there)
    names = {ours: theirs.split(",") for ours, theirs in asked.items()}
    for ours, guesses in _GUESSES.items():
        found = [name for name in guesses if name in present and [name] not in names.values()]
        if ours not in names and found:
            names[ours] = found[:1]
    if "reward" not in asked and set(present) >= _TRL:  # its reward functions are columns under their own names
        other = [name for name in present if name not in _TRL and not name.startswith("__")]
        names["reward"] = [name for name in other if all(_is_number(row.get(name)) for _, row in rows)]
    if "text" not in names:
        raise UserError(path, "has no column with the completions", there)
    if not names.keys() & {"prompt", "prompt_id", "group_id"}:
        raise UserError(path, "has no column that says which prompt a row answers", there.replace("text=", "prompt="))
    return names


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _rollouts(where: str, row: Mapping[str, Any], names: dict[str, list[str]], counts: Counter[str]) -> list[Rollout]:
    """The rollouts of one row; `counts` holds how many each group has so far."""
    used = {name for theirs in names.values() for name in theirs}
    value = {ours: row.get(theirs[0]) for ours, theirs in names.items()}
    text = value["text"]
    several = isinstance(text, list) and all(isinstance(item, str) for item in text)
    texts = list(text) if isinstance(text, list) and several else [text]
    prompt = _text(value.get("prompt"))
    prompt_id = str(value.get("prompt_id") or value.get("group_id") or hashlib.sha256(prompt.encode()).hexdigest()[:16])
    step = int(_number(where, names.get("step", ["step"])[0], value.get("step") or 0))
    group_id = str(value.get("group_id") or f"{step}:{prompt_id}")
    rollouts = []
    for place, item in enumerate(texts):

        def at(cell: Any, place: int = place) -> Any:
            """A cell of this rollout: beside a list of texts stand lists of rewards."""
            return cell[place] if several and isinstance(cell, list) and len(cell) == len(texts) else cell

        advantage = at(value.get("advantage"))
        rollouts.append(
            Rollout(
                prompt_id,
                group_id,
                counts[group_id],
                _text(item),
                prompt=prompt,
                step=step,
                rewards={name: _number(where, name, at(row.get(name))) for name in names.get("reward", ())},
                correct=_truth(where, at(value.get("correct"))),
                answer=_optional_text(at(value.get("answer"))),
                canonical=_optional_text(at(value.get("canonical"))),
                advantage=None if advantage in (None, "") else _number(where, "advantage", advantage),
                extra={name: cell for name, cell in row.items() if name not in used},
            )
        )
        counts[group_id] += 1
    return rollouts


def _text(value: Any) -> str:
    """A text as it is, a conversation as the contents of its messages."""
    if isinstance(value, list):
        return "\n".join(_text(message.get("content") if isinstance(message, dict) else message) for message in value)
    return "" if value is None else str(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None or value == "" else _text(value)


def _number(where: str, column: str, value: Any) -> float:
    try:
        return math.nan if value in (None, "") else float(value)
    except (TypeError, ValueError):
        raise UserError(where, f"column '{column}' expects a number, got {value!r}") from None


def _truth(where: str, value: Any) -> bool | None:
    known = {"": None, "none": None, "nan": None, "true": True, "1": True, "1.0": True} | dict.fromkeys(
        ("false", "0", "0.0"), False
    )
    word = str(value).lower()
    if word not in known:
        raise UserError(where, f"a verdict is true or false, got {value!r}", "Name a score as the reward instead.")
    return known[word]
