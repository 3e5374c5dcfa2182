r"""The structure of a worked solution: its steps, its equations, its answer, its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from polypath.core.registry import register
from polypath.diversity.features.signature import Features, Signature

_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:\**step\s+\d+\b|\d+[.)]\s|[-*•]\s))", re.IGNORECASE)
_MARK = re.compile(r"^\s*(?:#+\s*|\**step\s+\d+\s*[:.)]*\**\s*|\d+[.)]\s+|[-*•]\s+)+", re.IGNORECASE)
_MATH = re.compile(
    r"\$\$([^$]+)\$\$|\\\[((?:[^\\]|\\[^\[\]])+)\\\]|\\\(((?:[^\\]|\\[^()])+)\\\)|\$([^$\n]+)\$",
)
_TERM = r"\(*+(?:\d++(?:\.\d++)?|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))\)*+"
_SIDE = rf"[-+]?{_TERM}(?:[ \t]*[-+*/^×÷][ \t]*{_TERM}|{_TERM})*+"
# Terms joined by relations; a chain without one is read over as well, so that no part of it is tried again.
_RELATION = r"[ \t]*(?:=|<=|>=|<|>|≤|≥|≠|≈)[ \t]*"
_RELATED = re.compile("[=<>≤≥≠≈]")
_CHAIN = re.compile(rf"(?<![\w.])(?!(?<=\()\(){_SIDE}((?:{_RELATION}{_SIDE})*+)")
_FENCE = re.compile(r"```[\w+-]*\n(.*?)```", re.DOTALL)


def reasoning_steps(text: str) -> list[str]:
    r"""Steps split at blank lines, numbered lines, bullets and "Step k", without their marks; empty ones are dropped.

    >>> reasoning_steps("Step 1: Let x = 2.\nStep 2: Then 3x = 6.\n\nThe answer is 6.")
    ['Let x = 2.', 'Then 3x = 6.', 'The answer is 6.']
    """
    steps = (_MARK.sub("", part).strip() for part in _BREAK.split(text))
    return [step for step in steps if step]


@register("features", "reasoning_steps", returns="features", paper="[0.91]")
def step_lists(texts: Sequence[str]) -> Features:
    """The list of reasoning steps of each text, to be embedded for reasoning path divergence."""
    return Features([reasoning_steps(text) for text in texts], Signature("reasoning_steps"))


def equations(text: str) -> list[str]:
    r"""Formulas between $, $$, \(, \[ and, where there are none, equations in plain text; white space removed.

    >>> equations(r"We have $x + 1 = 3$, so \(x = 2\).")
    ['x+1=3', 'x=2']
    >>> equations("so 3 * 4 = 12\nthen stop")
    ['3*4=12']
    """
    formulas = ["".join(filter(None, found)) for found in _MATH.findall(text)]
    if not formulas and _RELATED.search(text):  # a quick look: the chain's expression is slow where there is none
        formulas = [chain[0] for chain in _CHAIN.finditer(text) if chain[1]]
    return ["".join(formula.split()) for formula in formulas]


@register("features", "equations", returns="features", paper="[1.7]")
def equation_sets(texts: Sequence[str]) -> Features:
    """The set of equations of each text, for the Jaccard kernel."""
    return Features([set(equations(text)) for text in texts], Signature("equations"))


def final_answer(text: str) -> str | None:
    r"""The last \boxed{...}, else what follows the last "answer is" or "answer:", else the last number, else None.

    Only normalises white space; whether two answers are equal is a task's or a verifier's matter.

    >>> final_answer(r"so \boxed{\frac{1}{2}}.") == r"\frac{1}{2}"
    True
    >>> final_answer("The answer is: 12 apples."), final_answer("3 or -4.5"), final_answer("none")
    ('12 apples', '-4.5', None)
    """
    boxed = list(_boxed(text))
    if boxed:
        return " ".join(boxed[-1].split())
    stated = re.findall(r"answer\s*(?:is|:)\s*:?\s*([^\n]+?)\.?\s*(?:\n|$)", text, re.IGNORECASE)
    if stated:
        return " ".join(stated[-1].split())
    numbers = re.findall(r"-?\d+(?:\.\d+)?", text)
    return numbers[-1] if numbers else None


@register("features", "answers", returns="features")
def answers(texts: Sequence[str]) -> Features:
    """The final answer stated in each text, None where there is none: labels for counts and partitions."""
    return Features([final_answer(text) for text in texts], Signature("answers"))


def ast_steps(text: str) -> list[str]:
    r"""The statements and expressions of the Python code in a text, by the kind of their syntax node, in reading order.

    Fenced blocks are read when there are any, else the whole text. Names and constants do not matter, structure does.
    Empty for text that is not Python.

    >>> ast_steps("for i in range(3):\n    total += i")
    ['For', 'Call', 'AugAssign']
    """
    source = "\n".join(_FENCE.findall(text)) or text
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    skipped = (ast.Module, ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.Load, ast.Expr, ast.arguments)
    return [type(node).__name__ for node in _preorder(tree) if not isinstance(node, skipped)]


@register("features", "ast_steps", returns="features")
def ast_step_lists(texts: Sequence[str]) -> Features:
    """The syntax nodes of each program, for the LCS kernel or, as n-grams, for Jaccard."""
    return Features([ast_steps(text) for text in texts], Signature("ast_steps"))


def _boxed(text: str) -> Iterator[str]:
    """The contents of \boxed{...}, braces matched, in order."""
    opened, closes = [], {}
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closes[opened.pop()] = brace.start()
    for found in re.finditer(r"\\boxed\s*\{", text):
        if found.end() - 1 in closes:
            yield text[found.end() : closes[found.end() - 1]]


def _preorder(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _preorder(child)
