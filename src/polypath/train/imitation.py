"""Rows for supervised training on an expert's episodes: every action under the transcript that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polypath.core.seeds import derive
from polypath.engines.chat import encode_prompt, encode_turn
from polypath.engines.protocol import Row
from polypath.tasks.environments.task import EnvironmentTask
from polypath.tasks.protocol import Prompt


def imitation_rows(
    tokenizer: Any, task: EnvironmentTask, prompts: Sequence[Prompt], per_prompt: int, seed: int
) -> list[Row]:
    """`per_prompt` expert games of each prompt as rows, one per action, each ended by the end-of-sequence token.

    Where the expert names its plan, the plan is a row of its own under the request for one, and every second game is
    imitated with its plan shown, the others without: the start can then be asked either way. Raises UserError for a
    task without an expert.
    """
    rows: list[Row] = []
    for prompt in prompts:
        for i in range(per_prompt):
            for plan, actions in task.expert(prompt, derive(seed, "expert", i)):
                shown = prompt.text
                if plan and i % 2:
                    request = task.plan_request.replace("{prompt}", prompt.text)
                    rows.append(_row(tokenizer, task, encode_prompt(tokenizer, request, task.chat), plan))
                    shown = task.plan_shown.replace("{prompt}", prompt.text).replace("{context}", plan)
                rows += _episode_rows(tokenizer, task, prompt, shown, actions)
    return rows


def _episode_rows(
    tokenizer: Any, task: EnvironmentTask, prompt: Prompt, shown: str, actions: Sequence[str]
) -> list[Row]:
    episode, rows = task.episode(prompt), []
    prefix = encode_prompt(tokenizer, shown, task.chat)
    for action in actions:
        if episode.over:
            break
        rows.append(_row(tokenizer, task, prefix, action))
        episode.play(action)
        ids = rows[-1].ids
        prefix = [*prefix, *ids, *encode_turn(tokenizer, episode.shown, task.chat, ids[-1])]
    episode.close()
    return rows


def _row(tokenizer: Any, task: EnvironmentTask, prefix: Sequence[int], text: str) -> Row:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return Row(tuple(prefix), (*ids, tokenizer.eos_token_id))
