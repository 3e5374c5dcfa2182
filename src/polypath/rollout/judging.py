"""A model reads its own episodes and names the steps that neither follow the strategy nor help: a penalty, no bonus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from polypath.core.errors import UserError
from polypath.core.seeds import derive
from polypath.engines.chat import decode, encode_prompt
from polypath.engines.protocol import SamplingParams
from polypath.rollout.forest import Node
from polypath.rollout.tools import Tools

MOST_FLAGGED = 0.5  # of an episode's steps
NUMBER = re.compile(r"\d+")
ASK = """{task}

Strategy: {strategy}

What was done:
{steps}

Which steps neither follow the strategy nor advance the task? Answer with their numbers, or with none."""


def judge_steps(tools: Tools, nodes: Sequence[Node], source: str, max_new: int) -> None:
    """Mark the steps of each episode that the judge lists, in one batch; its own tokens are trained by nobody.

    `source` is "self" for the policy or a further model's name. Raises UserError for a task that is not in chat form:
    a judge has to read a question.
    """
    played = [node for node in nodes if node.steps and not node.error]
    if not played:
        return
    if not tools.task.chat:
        raise UserError("rollout", "a judge needs an instruction model, and this task has no chat", "Set judge: none.")
    judge = tools.source("" if source == "self" else source)
    prompts = [encode_prompt(judge.tokenizer, question(node, tools), True) for node in played]
    room = int(getattr(judge, "max_positions", 2**31)) - max_new
    params = replace(SamplingParams(max_new), temperature=0.0)
    seeds = [derive(tools.draw_seed(node), "judge") for node in played]
    answers = judge.sample([ids[-room:] for ids in prompts], params, seeds)
    for node, answer in zip(played, answers, strict=True):
        for step in node.steps:
            step["flagged"] = False
        for place in flagged(decode(judge.tokenizer, answer.ids), len(node.steps)):
            node.steps[place]["flagged"] = True


def question(node: Node, tools: Tools) -> str:
    """What the judge reads: the task, the strategy, and each step with what came of it."""
    lines = []
    for number, step in enumerate(node.steps, 1):
        followed = node.steps[number]["start"] if number < len(node.steps) else len(node.ids)
        came = decode(tools.policy.tokenizer, node.ids[step["end"] : followed]).strip()
        came = " ".join(came.removeprefix("user").removesuffix("assistant").split())
        lines.append(f"{number}. {step['action']}" + (f" -> {came}" if came else ""))
    strategy = str((node.context or {}).get("text", "none"))
    text = ASK.replace("{task}", node.prompt.text).replace("{strategy}", strategy)
    return text.replace("{steps}", "\n".join(lines))


def flagged(answer: str, steps: int) -> list[int]:
    """Which of the steps an answer lists, from 0; at most half of them, and none when it lists no number.

    >>> flagged("Steps 2, 3 and 9.", 4), flagged("None of them.", 4), flagged("1 2 3 4", 4)
    ([1, 2], [], [0, 1])
    """
    named = sorted({int(number) - 1 for number in NUMBER.findall(answer)} & set(range(steps)))
    return named[: int(MOST_FLAGGED * steps)]
