"""Anybody's completions as rollouts: ours, the logs of TRL, verl, lm-eval and inspect, plain JSONL, CSV, Parquet."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.eval_logs import LM_EVAL_COLUMNS, SCORES, is_lm_eval, is_recording, lm_eval_rows, recorded_rows
from polypath.core.readers import Row, ending, is_saved_dataset, read_rows
from polypath.core.record import Rollout, Status
from polypath.core.store import from_parquet, to_rollout

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
    "tokens": ("completion_tokens", "output_tokens", "num_tokens", "response_length"),
    "finish": ("finish_reason", "stop_reason"),
}
_OURS = {"prompt_id", "group_id", "index", "text"}
_TRL = {"step", "prompt", "completion", "advantage"}
_VERL = {"input", "output", "gts", "score", "step"}
_VERL_EXTRA = {"correct": "acc", "answer": "pred"}  # what its reward functions commonly add
# Why a completion ended, in the words of OpenAI, vLLM, Anthropic and inspect.
_STATUS: dict[str, Status] = {
    "length": "truncated",
    "max_tokens": "truncated",
    "model_length": "truncated",
    "error": "aborted",
    "abort": "aborted",
    "aborted": "aborted",
}


def load_rows(path: str | Path, columns: Mapping[str, str] | None = None, *, prompts: bool = True) -> list[Rollout]:
    """Rollouts of a file, of a run directory, of a directory of logs or of a dataset that `datasets` saved.

    `columns` says what the file calls a column of ours, as in `{"text": "answer_text", "reward": "r1,r2"}`; the rest
    is guessed, and unknown columns go to `extra`. A text that is a list of strings is one rollout per string. Rows
    without a group id are grouped by step and prompt; with `prompts=False` rows need not say what they answer.
    Raises UserError for what cannot be read or is missing.
    """
    return _load(Path(path), columns or {}, prompts, Counter())


def _load(path: Path, columns: Mapping[str, str], prompts: bool, counts: Counter[str]) -> list[Rollout]:
    """`counts` holds how many rollouts each group has so far."""
    if path.is_dir() and not is_saved_dataset(path):
        return _load_directory(path, columns, prompts)
    rows = list(read_rows(path))
    if not rows:
        raise UserError(str(path), "has no rows", "Is it the right file?")
    if not columns and set(_names(rows)) >= _OURS:
        ours = from_parquet(path) if path.suffix == ".parquet" else [to_rollout(row, where) for where, row in rows]
        for (where, _), rollout in zip(rows, ours, strict=True):
            if not isinstance(rollout.text, str):
                raise UserError(where, f"'text' is not a text but {rollout.text!r}", 'An empty completion is "".')
        return ours
    if is_recording(rows[0][1]):
        rows = list(recorded_rows(rows))
    if is_lm_eval(_names(rows)) and "text" not in columns:
        rows = lm_eval_rows(rows, path)
        metrics = [name for name in _names(rows) if name not in LM_EVAL_COLUMNS]
        columns = {**({"reward": ",".join(metrics)} if metrics else {}), **columns}
    present = _names(rows)
    scores = [name for name in present if name.startswith(SCORES)]
    columns = {**({"reward": ",".join(scores)} if scores else {}), **columns}
    names = _column_names(str(path), present, rows, columns, prompts)
    rollouts = [rollout for where, row in rows for rollout in _rollouts(where, row, names, counts)]
    if set(present) >= _TRL:
        for rollout in rollouts:
            rollout.rewards = _defined(rollout.rewards)
    return rollouts


def _defined(rewards: dict[str, float]) -> dict[str, float]:
    """TRL adds up the rewards that are not None; only a row without any has none.

    >>> _defined({"format": math.nan, "right": 1.0}), _defined({"right": math.nan})
    ({'right': 1.0}, {'right': nan})
    """
    return {name: value for name, value in rewards.items() if not math.isnan(value)} or rewards


def _names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for _, row in rows for name in row))


def _load_directory(path: Path, columns: Mapping[str, str], prompts: bool) -> list[Rollout]:
    """All files of a directory; where they are logs of several tasks, prompts are told apart by task."""
    if (path / "rollouts.jsonl").exists():
        return _load(path / "rollouts.jsonl", columns, prompts, Counter())
    inside = sorted(path.iterdir(), key=_natural)
    files = [file for file in inside if ending(file) in (".parquet", ".jsonl", ".ndjson", ".eval")]
    files = files or [file for file in inside if ending(file) in (".csv", ".tsv")]  # beside logs they hold results
    if not files:
        what = "Expected rollouts.jsonl, files named *.jsonl, *.parquet, *.eval or *.csv, or a saved dataset."
        raise UserError(str(path), "holds no rollouts", what)
    counts: Counter[str] = Counter()
    rollouts = [rollout for file in files for rollout in _load(file, columns, prompts, counts)]
    if len({rollout.extra.get("task") for rollout in rollouts}) > 1:
        counts = Counter()
        for rollout in rollouts:
            task = rollout.extra.get("task", "")
            rollout.prompt_id, rollout.group_id = f"{task}/{rollout.prompt_id}", f"{task}/{rollout.group_id}"
            rollout.index = counts[rollout.group_id]
            counts[rollout.group_id] += 1
    return rollouts


def _natural(path: Path) -> list[tuple[bool, int, str]]:
    """2.jsonl before 10.jsonl."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", path.name)]


def _column_names(
    path: str, present: list[str], rows: list[Row], asked: Mapping[str, str], prompts: bool
) -> dict[str, list[str]]:
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
    if set(present) >= _VERL:
        names |= {ours: [name] for ours, name in _VERL_EXTRA.items() if name in present and ours not in names}
        if "correct" in names and "correct" not in asked and not _are_verdicts(rows, names["correct"][0]):
            del names["correct"]
    if "text" not in names:
        raise UserError(path, "has no column with the completions", there)
    if prompts and not names.keys() & {"prompt", "prompt_id", "group_id"}:
        fix = there.replace("text=", "prompt=") + "; or measure all rows as one set with --group-by all"
        raise UserError(path, "has no column that says which prompt a row answers", fix)
    return names


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_nested(value: Any) -> bool:
    """Whether a cell is a list of lists, such as the embeddings of several texts."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _are_verdicts(rows: list[Row], name: str) -> bool:
    return all(row.get(name) in (None, True, False) for _, row in rows)


def _rollouts(where: str, row: Mapping[str, Any], names: dict[str, list[str]], counts: Counter[str]) -> list[Rollout]:
    """The rollouts of one row; `counts` holds how many each group has so far."""
    used = {name for theirs in names.values() for name in theirs}
    value = {ours: row.get(theirs[0]) for ours, theirs in names.items()}
    if names["text"][0] not in row:
        raise UserError(where, f"has no '{names['text'][0]}', which other rows have", 'An empty completion is "".')
    text = value["text"]
    several = isinstance(text, list) and all(isinstance(item, str | list) for item in text)
    texts = list(text) if isinstance(text, list) and several else [text]
    prompt = _text(value.get("prompt"))
    given = [str(value[name]) for name in ("prompt_id", "group_id") if value.get(name) not in (None, "")]
    if not given and value.get("prompt") is None and names.keys() & {"prompt", "prompt_id", "group_id"}:
        raise UserError(where, "does not say which prompt it answers", "Repair or remove this row.")
    prompt_id = given[0] if given else hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    step = _number(where, names.get("step", ["step"])[0], value.get("step") or 0)
    step = 0 if math.isnan(step) else _whole(where, "step", step)
    group_id = f"{step}:{prompt_id}" if value.get("group_id") in (None, "") else str(value["group_id"])
    status = _STATUS.get(str(value.get("finish")).lower(), "complete")
    extra = {name: cell for name, cell in row.items() if name not in used}
    rollouts = []
    for place, item in enumerate(texts):

        def at(cell: Any, place: int = place) -> Any:
            """A cell of this rollout: beside a list of texts stand lists of rewards."""
            return cell[place] if several and isinstance(cell, list) and len(cell) == len(texts) else cell

        advantage = at(value.get("advantage"))
        length = _number(where, names.get("tokens", [""])[0], at(value.get("tokens")))
        rollouts.append(
            Rollout(
                prompt_id,
                group_id,
                counts[group_id],
                _text(item),
                prompt=prompt,
                step=step,
                status=status,
                rewards={name: _number(where, name, at(row.get(name))) for name in names.get("reward", ())},
                correct=_truth(where, at(value.get("correct"))),
                answer=_optional_text(at(value.get("answer"))),
                canonical=_optional_text(at(value.get("canonical"))),
                advantage=None if advantage in (None, "") else _number(where, "advantage", advantage),
                tokens={} if math.isnan(length) else {"generated": _whole(where, "tokens", length)},
                extra={name: at(cell) if _is_nested(cell) else cell for name, cell in extra.items()},
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
    except OverflowError:
        raise UserError(where, f"column '{column}' holds a number above 1.8e308", "Repair this row.") from None


def _whole(where: str, column: str, value: float) -> int:
    if math.isinf(value):
        raise UserError(where, f"column '{column}' expects a whole number, got {value}", "Repair this row.")
    return int(value)


def _truth(where: str, value: Any) -> bool | None:
    known = {"": None, "none": None, "nan": None, "true": True, "1": True, "1.0": True} | dict.fromkeys(
        ("false", "0", "0.0"), False
    )
    word = str(value).lower()
    if word not in known:
        raise UserError(where, f"a verdict is true or false, got {value!r}", "Name a score as the reward instead.")
    return known[word]
