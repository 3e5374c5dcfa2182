"""Countdown: reach a target with all the numbers. Many right answers, all of them known, so coverage is exact.

A prompt is `1 6 9 8 24 >`, an answer `1 + 6 = 7 + 9 = 16 + 8 = 24`: every number once, evaluated from left to right
with the intermediate results written out, operators + - *, all values within 0..max_value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby

from polypath.core.errors import UserError
from polypath.core.registry import register
from polypath.core.seeds import rng
from polypath.tasks.protocol import EOS, PAD, Prompt, Score
from polypath.tasks.splits import Pools, content_id, draw, pools, split_of

Step = tuple[str, int]  # operator and number
_ANSWER = re.compile(r"\s*([0-9]{1,4})((?:\s*[-+*]\s*[0-9]{1,4}\s*=\s*[0-9]{1,4})+)\s*")
_STEP = re.compile(r"([-+*])\s*([0-9]+)\s*=\s*([0-9]+)")


def apply(value: int, operator: str, number: int) -> int:
    """One step of the evaluation."""
    return value + number if operator == "+" else value - number if operator == "-" else value * number


def canonical_form(first: int, steps: Sequence[Step]) -> str:
    """The solution as a normal expression, sorted inside each run of additive or of multiplicative operations.

    Two answers are the same solution when they differ only by the order inside such runs.

    >>> canonical_form(6, [("-", 1), ("+", 2), ("*", 3)]) == canonical_form(2, [("+", 6), ("-", 1), ("*", 3)])
    True
    >>> canonical_form(6, [("-", 1), ("+", 2), ("*", 3)])
    '(2 + 6 - 1) * 3'
    """
    opening = "*" if steps[0][0] == "*" else "+"  # the first number belongs to the first run
    form = ""
    for multiplicative, run in groupby([(opening, first), *steps], key=lambda step: step[0] == "*"):
        terms = " ".join(f"{operator} {number}" for operator, number in sorted(run))
        form = terms[2:] if not form else f"({form}) {terms}" if multiplicative else f"{form} {terms}"
    return form


@cache
def solve(numbers: tuple[int, ...], max_value: int) -> dict[int, dict[str, str]]:
    """For sorted `numbers`, every reachable target with all its answers: target -> {answer text: canonical form}."""
    found: dict[int, dict[str, str]] = {}

    def extend(text: str, value: int, first: int, steps: list[Step], rest: list[int]) -> None:
        if not rest:
            found.setdefault(value, {})[text] = canonical_form(first, steps)
        for number, others in _picks(rest):
            for operator in "+-*":
                result = apply(value, operator, number)
                if 0 <= result <= max_value:
                    longer = f"{text} {operator} {number} = {result}"
                    extend(longer, result, first, [*steps, (operator, number)], others)

    for number, others in _picks(list(numbers)):
        extend(str(number), number, number, [], others)
    return found


def _picks(numbers: list[int]) -> Iterator[tuple[int, list[int]]]:
    """Each distinct number of a sorted list, with the others."""
    for i, number in enumerate(numbers):
        if i == 0 or numbers[i - 1] != number:
            yield number, numbers[:i] + numbers[i + 1 :]


@cache
def _generate(numbers: int, low: int, high: int, problems: int, seed: int, min_solutions: int, max_value: int) -> Pools:
    """Draw numbers uniformly, then a target uniformly among those with enough different solutions."""
    random = rng(seed, "countdown", numbers, low, high, min_solutions, max_value)
    drawn: list[tuple[list[int], int]] = []
    for _ in range(50 * problems):  # bounds the search where few draws have such a target
        terms = [random.randint(low, high) for _ in range(numbers)]
        targets = _targets(tuple(sorted(terms)), min_solutions, max_value)
        if targets:
            drawn.append((terms, random.choice(targets)))
        if len(drawn) == problems:
            break
    # The order of the numbers does not count for the split: the same problem in another order stays on the same side.
    splits = [split_of(f"countdown {sorted(terms)} {target}") for terms, target in drawn]
    return pools((make_prompt(terms, target) for terms, target in drawn), splits)


@cache
def _targets(numbers: tuple[int, ...], min_solutions: int, max_value: int) -> list[int]:
    """The targets with at least `min_solutions` different canonical forms, ascending."""
    found = solve(numbers, max_value)
    return sorted(target for target, answers in found.items() if len(set(answers.values())) >= min_solutions)


def make_prompt(numbers: Sequence[int], target: int) -> Prompt:
    """The prompt of one problem; `data` holds `numbers` and `target`."""
    text = f"{' '.join(map(str, numbers))} {target} >"
    return Prompt(content_id("countdown", text), text, {"numbers": list(numbers), "target": target})


@register("task", "countdown")
class Countdown:
    """Reach a target with all numbers and + - *, results written out; every solution is known.

    `problems` are drawn with `numbers` from low..high (repeats dropped, so slightly fewer remain), with a target that
    has at least `min_solutions` different solutions. A problem's split is a hash of its numbers, in whatever order,
    and its target.
    """

    name = "countdown"
    chat = False

    def __init__(
        self,
        *,
        numbers: int = 4,
        low: int = 1,
        high: int = 9,
        problems: int = 12_000,
        seed: int = 0,
        min_solutions: int = 3,
        max_value: int = 50,
    ) -> None:
        """Nothing is generated before the first use. Raises UserError for knobs that leave no problem."""
        if not 2 <= numbers <= 5:
            raise UserError("task.numbers", f"{numbers} numbers cannot be enumerated here", "Choose 2 to 5.")
        if not 0 <= low <= high <= max_value < 10_000:
            raise UserError("task.low", "needs 0 <= low <= high <= max_value < 10000", "Change low, high or max_value.")
        if problems < 1 or min_solutions < 1:
            raise UserError("task.problems", "problems and min_solutions must be positive", "Give at least 1.")
        self.max_value = max_value
        self._knobs = (numbers, low, high, problems, seed, min_solutions, max_value)

    def vocabulary(self) -> list[str]:
        """Every word of prompts and answers after PAD and EOS; 58 with the defaults."""
        return [PAD, EOS, *map(str, range(self.max_value + 1)), "+", "-", "*", "=", ">"]

    def prompts(self, split: str, *, n: int, seed: int = 0) -> list[Prompt]:
        """At most `n` prompts; see `splits.draw`."""
        return draw("task countdown", _generate(*self._knobs), split, n, seed)

    def verify(self, prompt: Prompt, text: str) -> Score:
        """1 when all numbers are used once, every written result is right and the last one is the target."""
        match = _ANSWER.fullmatch(text)
        if match is None:
            return Score(0.0, False, valid=False)
        first = value = int(match[1])
        used, steps, right = [first], [], True
        for operator, number, result in _STEP.findall(match[2]):
            value = apply(value, operator, int(number))
            right = right and value == int(result) and 0 <= value <= self.max_value
            used.append(int(number))
            steps.append((operator, int(number)))
        right = right and sorted(used) == sorted(prompt.data["numbers"]) and value == prompt.data["target"]
        answer = " ".join(re.findall(r"[0-9]+|[-+*=]", text))
        return Score(float(right), right, answer, canonical=canonical_form(first, steps))

    def solutions(self, prompt: Prompt) -> frozenset[str]:
        """The canonical forms of all solutions."""
        return frozenset(self._answers(prompt).values())

    def demonstrations(self, prompt: Prompt) -> list[str]:
        """All answers as they may be written, sorted."""
        return sorted(self._answers(prompt))

    def _answers(self, prompt: Prompt) -> dict[str, str]:
        return solve(tuple(sorted(prompt.data["numbers"])), self.max_value).get(prompt.data["target"], {})
