"""Expressions as syntax, never computed: which arithmetic is the same solution, and which formulas are harmless."""

from __future__ import annotations

import ast

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
TRIGONOMETRIC = ("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh")
FUNCTIONS = frozenset((*TRIGONOMETRIC, "exp", "log", "ln", "sqrt", "Abs", "Integral"))
LONGEST = 500  # characters; deeper trees than these allow are not read
HIGHEST = 100  # degree of a formula: a computer algebra system would work out 9**9**9


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


def algebra_form(text: str) -> str | None:
    """A formula in Python's spelling, without superfluous blanks and brackets; None for what is not harmless algebra.

    Numbers, names, + - * / ** with a number as exponent, and calls of FUNCTIONS, up to degree HIGHEST. Nothing is
    computed.

    >>> algebra_form("(x**2) /2+ sin( x )"), algebra_form("9**9**9"), algebra_form("open('x')")
    ('x ** 2 / 2 + sin(x)', None, None)
    """
    if len(text) > LONGEST:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return ast.unparse(tree) if _degree(tree) <= HIGHEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _degree(node: ast.expr) -> float:
    """At most how many factors a formula multiplies when it is worked out. Raises ValueError for other syntax."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return 1.0
        case ast.Name(id=name) if not name.startswith("_"):
            return 1.0
        case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
            return _degree(node.operand)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return max(_degree(node.left), _degree(node.right))
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            return _degree(node.left) + _degree(node.right)
        case ast.BinOp(op=ast.Pow()):
            return _degree(node.left) * max(1.0, abs(_exponent(node.right)))
        case ast.Call(func=ast.Name(id=name), args=[*args], keywords=[]) if name in FUNCTIONS and args:
            return max(map(_degree, args))
    raise ValueError("not a formula")


def _exponent(node: ast.expr) -> float:
    """The value of a number, or of a fraction of two. Raises ValueError for any other exponent."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub()):
            return -_exponent(node.operand)
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value=int() | float() as number)) if number:
            return _exponent(node.left) / float(number)
    raise ValueError("not a number")
