"""Logs of evaluation frameworks as plain rows: inspect's `.eval` files, and the sample logs of lm-eval."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, missing_extra

Row = tuple[str, dict[str, Any]]  # where it stands, and its columns
ZSTD = 93  # a method of compression that zipfile does not know before Python 3.14
# What inspect writes for a verdict; a number is taken as it is.
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}


def inspect_rows(path: Path) -> Iterable[Row]:
    """One row per sample and epoch of an inspect log: prompt, text, answer, one reward per scorer, and `correct`.

    The first scorer decides what is correct. A sample that ended in an error has the text "" and no rewards.
    Raises UserError for a file that is not such a log.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(n for n in archive.namelist() if n.startswith("samples/") and n.endswith(".json"))
            for name in names:
                yield f"{path}:{name}", _inspect_sample(json.loads(_read(archive, name)))
    except zipfile.BadZipFile:
        raise UserError(str(path), "is not an inspect log", "Expected the .eval file that inspect writes.") from None


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != ZSTD:
        return archive.read(name)
    try:
        import pyarrow
    except ImportError:
        raise missing_extra(str(archive.filename), "pyarrow", "measure") from None
    with open(str(archive.filename), "rb") as file:
        file.seek(info.header_offset)
        header = file.read(30)  # the local header: the lengths of name and extra stand at its end
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        packed = file.read(info.compress_size)
    return bytes(pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd").read())


def _inspect_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    choices = (sample.get("output") or {}).get("choices") or [{}]
    message = choices[0].get("message") or {}
    scores = sample.get("scores") or {}
    rewards = {f"score/{name}": _grade(score.get("value")) for name, score in scores.items()}
    first: Mapping[str, Any] = next(iter(scores.values()), {})
    value = next(iter(rewards.values()), None)
    return {
        "prompt_id": str(sample.get("id", "")),
        "prompt": _content(sample.get("input", "")),
        "text": _content(message.get("content", "")),
        "epoch": sample.get("epoch", 1),
        "answer": first.get("answer"),
        "correct": None if value is None or value not in (0.0, 1.0) else value == 1.0,
        "target": sample.get("target"),
        "error": (sample.get("error") or {}).get("message"),
        **rewards,
    }


def _grade(value: Any) -> float | None:
    if isinstance(value, str | bool) and value in GRADES:
        return GRADES[value]
    return float(value) if isinstance(value, int | float) else None


def _content(value: Any) -> str:
    """A text, or the texts of messages or of parts of one."""
    if isinstance(value, list):
        return "\n".join(
            _content(item.get("content", item.get("text", ""))) for item in value if isinstance(item, dict)
        )
    return str(value)


LM_EVAL_COLUMNS = ("prompt_id", "prompt", "text", "target", "filter", "answer", "correct")  # of `lm_eval_row`


def is_lm_eval(columns: Iterable[str]) -> bool:
    """Whether these are the columns of `lm-eval --log_samples`."""
    return {"doc_id", "arguments", "resps"} <= set(columns)


def lm_eval_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of lm-eval's samples: one text per repeat of the (first) request, the filter's answers beside them.

    Rows of several filters share their texts; the metric columns that the row names become rewards. Log-likelihood
    requests have no text to measure: their text is "".
    """
    repeats = row["resps"][0] if row["resps"] else []
    texts = [item if isinstance(item, str) else "" for item in (repeats if isinstance(repeats, list) else [repeats])]
    answers = row.get("filtered_resps") or []
    answers = answers[0] if answers and isinstance(answers[0], list) else answers
    metrics = [name for name in row.get("metrics") or ("exact_match", "acc", "pass@1") if _is_number(row.get(name))]
    found: dict[str, Any] = {
        "prompt_id": str(row["doc_id"]),
        "prompt": _lm_eval_prompt(row["arguments"]),
        "text": texts,
        "target": row.get("target"),
        "filter": row.get("filter", "none"),
        **{name: row[name] for name in metrics},
    }
    if len(answers) == len(texts) and all(isinstance(answer, str) for answer in answers):
        found["answer"] = list(answers)
    if len(texts) == 1 and metrics and row[metrics[0]] in (0, 1):
        found["correct"] = bool(row[metrics[0]])
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lm_eval_prompt(arguments: Any) -> str:
    """The first argument of the first request: a list of lists, or `{gen_args_0: {arg_0: ...}}` in newer versions."""
    first = next(iter(arguments.values()), {}) if isinstance(arguments, Mapping) else (arguments or [[""]])[0]
    value = next(iter(first.values()), "") if isinstance(first, Mapping) else (first or [""])[0]
    return str(value)
