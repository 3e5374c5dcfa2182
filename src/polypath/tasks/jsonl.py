"""Your own problems: a JSON-lines file of prompts and answers, judged by a verifier of your choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from polypath.core.errors import UserError, did_you_mean
from polypath.core.recipe_types import Call, Kind
from polypath.core.registry import register
from polypath.tasks.protocol import Prompt, Score
from polypath.tasks.splits import content_id, draw, pools, split_of
from polypath.tasks.verifiers import bind


@register("task", "jsonl")
class Jsonl:
    """Problems from a JSON-lines file, judged by a named verifier.

    `prompt` and `answer` name the columns (`answer: null` when the verifier needs none; a list of answers accepts any
    of them). `verifier` is a name or {name: {knob: value}}. A row's split is a hash of its prompt: `dev` and `test`
    are the shares held out.
    """

    name = "jsonl"

    def __init__(
        self,
        *,
        path: str,
        prompt: str = "prompt",
        answer: str | None = "answer",
        verifier: Annotated[Call | str | dict[str, Any], Kind("verifier")] = "exact",
        dev: float = 0.1,
        test: float = 0.1,
        chat: bool = True,
    ) -> None:
        """Read and check the whole file. Raises UserError, with file and line, for a row that cannot be used."""
        if min(dev, test) < 0 or dev + test > 1:
            raise UserError("task.dev", f"the shares dev {dev} and test {test} are not possible", "Keep the sum <= 1.")
        self.chat = chat
        self._verifier = bind(verifier, "task.verifier")
        rows = [_read_row(line, where, prompt, answer) for where, line in _lines(Path(path).expanduser())]
        if not rows:
            raise UserError(path, "holds no rows", 'Write one JSON object per line: {"prompt": ..., "answer": ...}.')
        self._pools = pools(rows, [split_of(row.text, dev, test) for row in rows])

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """At most `n` prompts; see `splits.draw`."""
        return draw("task jsonl", self._pools, split, n, seed)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """The verifier's verdict; the best one when several answers are accepted."""
        answer = prompt.data["answer"]
        answers = answer if isinstance(answer, list) else [answer]
        return max((self._verifier(text, accepted) for accepted in answers), key=lambda s: (s.correct, s.reward))


def _lines(path: Path) -> list[tuple[str, str]]:
    """(place, line) of every line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(str(path), f"cannot be read ({error.strerror})", "Correct the path.") from None
    except UnicodeDecodeError as error:
        raise UserError(str(path), f"is not UTF-8 (byte {error.start})", "Save it as UTF-8.") from None
    return [(f"{path}:{i}", line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]


def _read_row(line: str, where: str, prompt: str, answer: str | None) -> Prompt:
    """One line as a prompt whose `data` holds `answer`. Raises UserError."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(where, f"is not JSON ({error})", "Write one JSON object per line.") from None
    if not isinstance(row, dict):
        raise UserError(where, f"is a JSON {type(row).__name__}, not an object", "Write one JSON object per line.")
    for column in [prompt] if answer is None else [prompt, answer]:
        if column not in row:
            raise UserError(where, f"has no column '{column}'", did_you_mean(column, row))
    text, expected = row[prompt], row[answer] if answer is not None else None
    if not isinstance(text, str) or not text.strip():
        raise UserError(where, f"the column '{prompt}' holds no text", "Write the prompt as a string.")
    if answer is not None and (expected is None or expected == [] or isinstance(expected, dict)):
        raise UserError(where, f"the column '{answer}' holds no answer", "Write a string, a number or a list of them.")
    return Prompt(content_id("jsonl", text, json.dumps(expected)), text, {"answer": expected})
