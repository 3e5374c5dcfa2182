"""Allocators that help with hints: prompts without a success are answered again with more and more of a solution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from polypath.core.recipe_types import Range
from polypath.core.registry import register
from polypath.rollout.forest import Forest, Node, View
from polypath.rollout.tools import Tools

ASK = "{prompt}\n\nWrite hint {level} of {levels}, each stronger than the last. Do not give the answer."
SHOW = "{prompt}\n\nHint: {context}"


@register("allocator", "hint_ladder", paper="SAGE (1.83)")
def hint_ladder(
    forest: Forest,
    tools: Tools,
    *,
    n: Annotated[int, Range(1, None)] = 8,
    levels: Annotated[int, Range(1, None)] = 3,
    max_new: Annotated[int, Range(1, None)] = 48,
    ask: str = ASK,
    template: str = SHOW,
) -> None:
    """Draw `n` answers; where none earns anything draw all again with hint 1, then 2, up to `levels`.

    A new level replaces the answers before it; what is still unsolved after the last one keeps those. Hints are the
    beginning of a demonstration where the task has them (never all of it), else the policy writes them.
    """
    starts = forest.open()
    current = [tools.extend([start], n) for start in starts]
    tools.verify([node for answers in current for node in answers])
    for level in range(1, levels + 1):
        waiting = [i for i, answers in enumerate(current) if not _any_reward(answers)]
        texts = hint_texts([starts[i] for i in waiting], level, levels, tools, ask, max_new)
        shown = [_show(starts[i], text, level, template) for i, text in zip(waiting, texts, strict=True) if text]
        born = tools.extend(shown, n)
        tools.verify(born)
        helped = [i for i, text in zip(waiting, texts, strict=True) if text]
        for place, i in enumerate(helped):
            for node in current[i]:
                node.drop("replaced_with_hint")
            current[i] = born[place * n : (place + 1) * n]
    forest.frontier = [*forest.ended(), *(node for answers in current for node in answers)]


@register("allocator", "hint_level", paper="SAGE (1.83)")
def hint_level(
    forest: Forest,
    tools: Tools,
    *,
    n: Annotated[int, Range(1, None)] = 8,
    levels: Annotated[int, Range(1, None)] = 3,
    max_new: Annotated[int, Range(1, None)] = 48,
    ask: str = ASK,
    template: str = SHOW,
) -> None:
    """Draw `n` answers with the hint level that the prompt's last visit left; none at its first visit.

    The level is remembered by prompt. Accuracy of at most .1 raises it, above .35 lowers it.
    """
    starts = forest.open()
    grown: list[Node] = []
    for start in starts:
        key = f"hint_level/{start.prompt.id}"
        level = int(tools.memory.get(key, 0))
        text = hint_texts([start], level, levels, tools, ask, max_new)[0] if level else ""
        born = tools.extend([_show(start, text, level, template) if text else start], n)
        tools.verify(born)
        right = sum(node.score.correct for node in born if node.score is not None)
        tools.memory[key] = next_level(level, right / len(born), levels)
        grown += born
    forest.frontier = [*forest.ended(), *grown]


def next_level(level: int, accuracy: float, levels: int = 3) -> int:
    """One more at an accuracy of at most .1, one less above .35, within 0 and `levels`.

    >>> [next_level(1, accuracy) for accuracy in (0.05, 0.2, 0.5)]
    [2, 1, 0]
    """
    step = 1 if accuracy <= 0.1 else -1 if accuracy > 0.35 else 0
    return min(max(level + step, 0), levels)


def hint_texts(starts: Sequence[Node], level: int, levels: int, tools: Tools, ask: str, max_new: int) -> list[str]:
    """A hint per node: level/(levels + 1) of a demonstration's words, or what the policy writes when asked."""
    demonstrations = getattr(tools.task, "demonstrations", None)
    if demonstrations is not None:
        found = [list(demonstrations(start.prompt)) for start in starts]
        return [beginning(sorted(texts)[0], level / (levels + 1)) if texts else "" for texts in found]
    asked = []
    for start in starts:
        words = ask.replace("{level}", str(level)).replace("{levels}", str(levels))
        asked.append(start.child(view=View(words.replace("{prompt}", start.view.text), start.view.system), role="hint"))
    return [tools.text(node).strip() for node in tools.extend(asked, 1, max_new=max_new)]


def beginning(text: str, share: float) -> str:
    """The first words of a text, that share of them, rounded down; never all.

    >>> beginning("1 + 2 * 3 = 7", 0.5)
    '1 + 2'
    """
    words = text.split()
    return " ".join(words[: min(int(share * len(words) + 1e-9), len(words) - 1)])


def _show(start: Node, text: str, level: int, template: str) -> Node:
    view = View(template.replace("{context}", text).replace("{prompt}", start.view.text), start.view.system)
    return start.child(view=view, context={"id": f"hint-{level}", "kind": "hint", "level": level})


def _any_reward(answers: Sequence[Node]) -> bool:
    return any(node.score is not None and node.score.reward > 0 for node in answers)
