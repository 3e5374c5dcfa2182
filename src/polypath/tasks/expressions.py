"""When two arithmetic expressions are the same solution: equal up to order and brackets in sums and products."""

from __future__ import annotations

import ast

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
LONGEST = 500  # characters; deeper trees than these allow are not read


def expression_form(text: str) -> str | None:
    """The commutative normal form of an expression of numbers, + - * / and brackets; None for anything else.

    Nested sums are one sum, nested products one product, their members sorted. Nothing is computed.

    >>> expression_form("2*(3 + 4) - 1") == expression_form("-1 + (4+3) * 2")
    True
    >>> expression_form("2 * 3"), expression_form("6"), expression_form("2 ** 3")
    ('2 * 3', '6', None)
    """
    if len(text) > LONGEST:
        return None
    try:
        return _form(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _form(node: ast.expr) -> str:
    """Raises ValueError for what is not arithmetic."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return repr(node.value)
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)
    pair = "*/" if product else "+-"
    members = sorted(_members(node, pair, False))
    return " ".join(f"{pair[inverse]} {form}" for inverse, form in members).removeprefix(f"{pair[0]} ")


def _members(node: ast.expr, pair: str, inverse: bool) -> list[tuple[bool, str]]:
    """The members of a sum ("+-") or a product ("*/"), each with whether it is subtracted or divided by."""
    same, other = (ast.Add, ast.Sub) if pair == "+-" else (ast.Mult, ast.Div)
    if isinstance(node, ast.BinOp) and isinstance(node.op, same | other):
        turned = inverse != isinstance(node.op, other)
        return _members(node.left, pair, inverse) + _members(node.right, pair, turned)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub) and pair == "+-":
        return _members(node.operand, pair, inverse != isinstance(node.op, ast.USub))
    sign = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub)
    if isinstance(node, ast.Constant) or sign or (isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC)):
        form = _form(node)
        return [(inverse, f"({form})" if pair == "*/" and not isinstance(node, ast.Constant) else form)]
    raise ValueError("not an arithmetic expression")
