"""Logs as plain rows: inspect's logs, the sample logs of lm-eval, and the recorded studies of polypath itself."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polypath.core.errors import UserError, missing_extra

Row = tuple[str, dict[str, Any]]  # where it stands, and its columns
ZSTD = 93  # a method of compression that zipfile does not know before Python 3.14
# What inspect writes for a verdict; a number is taken as it is.
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}
SCORES = "score/"  # before the name of a scorer of inspect
ATTACHMENT = "attachment://"
LM_EVAL_COLUMNS = ("prompt_id", "prompt", "text", "target", "filter", "answer", "correct", "task")  # of `lm_eval_row`
LM_EVAL_FILE = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[^_]*\.jsonl(\.gz)?")


def inspect_rows(path: Path) -> Iterator[Row]:
    """The rows of an `.eval` file, one sample of it in memory at a time (see `inspect_samples`).

    Raises UserError for a file that is not such a log.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/") and name.endswith(".json")]
            header = next((n for n in ("header.json", "_journal/start.json") if n in archive.namelist()), None)
            if header is None:
                raise UserError(str(path), "is a zip file and no inspect log", "Expected the .eval of inspect.")
            info = json.loads(_read(archive, header)).get("eval") or {}
            samples = (json.loads(_read(archive, name)) for name in names)
            yield from inspect_samples(str(path), samples, info, names)
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror or error})", "Is the path right?") from error
    except (zipfile.BadZipFile, ValueError) as error:
        fix = "Expected the .eval file that inspect writes."
        raise UserError(str(path), f"is not an inspect log ({error})", fix) from None


def inspect_samples(
    path: str, samples: Iterable[Mapping[str, Any]], info: Mapping[str, Any], names: Sequence[str] = ()
) -> Iterator[Row]:
    """One row per sample, epoch and choice: prompt, text, answer, one reward per scorer, and `correct`.

    The first scorer decides what is correct. A sample that ended in an error has the text "", no rewards and the
    status "aborted". Text is what the model said, without its hidden reasoning.
    """
    for count, sample in enumerate(samples):
        where = f"{path}:{names[count] if names else f'sample {count}'}"
        for choice in (sample.get("output") or {}).get("choices") or [{}]:
            yield where, _inspect_row(sample, choice, str(info.get("task", "")))


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


def _inspect_row(sample: Mapping[str, Any], choice: Mapping[str, Any], task: str) -> dict[str, Any]:
    scores = sample.get("scores") or {}
    rewards = {f"{SCORES}{name}": _grade(score.get("value")) for name, score in scores.items()}
    first: Mapping[str, Any] = next(iter(scores.values()), {})
    value = next(iter(rewards.values()), None)
    error = (sample.get("error") or {}).get("message")
    usage = (sample.get("output") or {}).get("usage") or {}
    attached = sample.get("attachments") or {}
    return {
        "prompt_id": str(sample.get("id", "")),
        "prompt": _content(sample.get("input", ""), attached),
        "text": _content((choice.get("message") or {}).get("content", ""), attached),
        "epoch": sample.get("epoch", 1),
        "task": task,
        "answer": first.get("answer"),
        "correct": None if value is None or value not in (0.0, 1.0) else value == 1.0,
        "finish_reason": "error" if error is not None else choice.get("stop_reason"),
        "completion_tokens": usage.get("output_tokens"),
        "target": sample.get("target"),
        "error": error,
        **rewards,
    }


def _grade(value: Any) -> float | None:
    if isinstance(value, str | bool) and value in GRADES:
        return GRADES[value]
    return float(value) if isinstance(value, int | float) else None


def _content(value: Any, attached: Mapping[str, str]) -> str:
    """A text, or the texts of messages or of parts of one; long ones may stand in the sample's attachments."""
    if isinstance(value, list):
        parts = [item.get("content", item.get("text")) for item in value if isinstance(item, dict)]
        return "\n".join(_content(part, attached) for part in parts if part is not None)
    text = str(value)
    return attached.get(text.removeprefix(ATTACHMENT), text) if text.startswith(ATTACHMENT) else text


def is_lm_eval(columns: Iterable[str]) -> bool:
    """Whether these are the columns of `lm-eval --log_samples`."""
    return {"doc_id", "arguments", "resps"} <= set(columns)


def lm_eval_rows(rows: Sequence[Row], path: Path) -> list[Row]:
    """The samples of lm-eval as plain rows; of several filters, which share their texts, only the first."""
    first = rows[0][1].get("filter")
    named = LM_EVAL_FILE.fullmatch(path.name)
    task = {"task": named["task"]} if named else {}
    return [(where, {**lm_eval_row(row), **task}) for where, row in rows if row.get("filter") == first]


def lm_eval_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of lm-eval's samples: one text per repeat of the request, the filter's answers beside them.

    The metrics that the row names become rewards. They score the document: its repeats share them, and `correct` is
    set for a single text only. Of a multiple choice the text is the likeliest option; a log-likelihood has none ("").
    """
    requests = _lm_eval_requests(row["arguments"])
    texts = _lm_eval_texts(row["resps"] or [[]], requests)
    answers = row.get("filtered_resps") or []
    answers = answers[0] if answers and isinstance(answers[0], list) else answers
    metrics = [name for name in row.get("metrics") or ("exact_match", "acc", "pass@1") if _is_number(row.get(name))]
    found: dict[str, Any] = {
        "prompt_id": str(row["doc_id"]),
        "prompt": str(requests[0][0]) if requests else "",
        "text": texts,
        "target": row.get("target"),
        "filter": row.get("filter", "none"),
        **{name: row[name] for name in metrics},
    }
    if len(requests) > 1:  # a multiple choice
        found["answer"] = [text.strip() for text in texts]
    elif len(answers) == len(texts) and all(isinstance(answer, str) for answer in answers):
        found["answer"] = list(answers)
    if len(texts) == 1 and metrics and row[metrics[0]] in (0, 1):
        found["correct"] = bool(row[metrics[0]])
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lm_eval_requests(arguments: Any) -> list[list[Any]]:
    """The arguments of each request: a list of lists, or `{gen_args_0: {arg_0: ...}}` in newer versions."""
    if isinstance(arguments, Mapping):
        arguments = arguments.values()
    return [list(r.values()) if isinstance(r, Mapping) else list(r) for r in arguments or []]


def _lm_eval_texts(responses: Sequence[Any], requests: Sequence[Sequence[Any]]) -> list[str]:
    if len(responses) > 1 and len(responses) == len(requests):
        options = [i for i, request in enumerate(requests) if request[0] == requests[0][0]]  # others have no context
        return [str(requests[max(options, key=lambda i: float(responses[i][0][0]))][1])]
    repeats = responses[0] if isinstance(responses[0], list) else [responses[0]]
    return [item if isinstance(item, str) else "" for item in repeats]


def is_recording(row: Mapping[str, Any]) -> bool:
    """Whether this is the first line of a recorded study (see `polypath demo`)."""
    return {"version", "title", "baseline", "pairs", "prompts"} <= row.keys()


def recorded_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """The answers whose texts a recorded study holds, one row each, with the `arm` that gave them.

    Of the problems that were evaluated only: those seen in training are few, and of other prompts. `known` are the
    solutions of the problem.
    """
    for where, line in rows:
        for group in line.get("groups", ()):
            for arm in group["arms"] if group["kind"] == "evaluation" else ():
                for row in arm["rows"]:
                    form = row["solution"]
                    yield from [(where, {
                        "prompt": group["prompt"],
                        "text": row["text"],
                        "correct": row["correct"],
                        "reward": row["reward"],
                        "canonical": None if form is None else group["solutions"][form],
                        "arm": arm["name"].partition(", seed")[0],
                        "known": group["solutions"],
                    })] * row["count"]  # fmt: skip
