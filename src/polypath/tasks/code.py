"""When two programs are the same: the syntax tree without comments, docstrings, annotations and local names."""

from __future__ import annotations

import ast
import copy

Function = ast.FunctionDef | ast.AsyncFunctionDef


def canonical_code(tree: ast.Module) -> str:
    """The program in a normal form, as source text.

    Names bound inside a function are numbered in order of appearance. A function that is defined again later replaces
    the earlier one. Names of attributes, keywords, modules and of the functions themselves stay.

    >>> a = "def f(x):\\n    'Twice.'\\n    total = x + x  # sum\\n    return total"
    >>> b = "def f(n: int):\\n    y = n + n\\n    return y"
    >>> canonical_code(ast.parse(a)) == canonical_code(ast.parse(b))
    True
    """
    last = {node.name: node for node in tree.body if isinstance(node, Function)}
    body = [copy.deepcopy(node) for node in tree.body if not isinstance(node, Function) or last[node.name] is node]
    body = [node for node in body if not _is_text(node)]
    for node in body:
        if isinstance(node, Function):
            _Normalise(_bound_names(node)).function(node)
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def _is_text(node: ast.stmt) -> bool:
    """A statement that is only a string: a docstring, or a comment in disguise."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _bound_names(function: Function) -> set[str]:
    """Names that the function binds: parameters, targets, handlers, nested functions; not global ones."""
    bound, shared = set(), set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            bound.add(node.id)
        elif isinstance(node, ast.ExceptHandler | Function) and node.name and node is not function:
            bound.add(node.name)
        elif isinstance(node, ast.Global):
            shared.update(node.names)
    return bound - shared


class _Normalise(ast.NodeTransformer):
    """Numbers the bound names and drops docstrings and annotations, in place."""

    def __init__(self, bound: set[str]) -> None:
        self.bound = bound
        self.numbers: dict[str, str] = {}

    def rename(self, name: str) -> str:
        """The normal name of a bound name; any other name itself."""
        return self.numbers.setdefault(name, f"v{len(self.numbers)}") if name in self.bound else name

    def function(self, node: Function) -> None:
        """Normalise what is inside a function and keep its own name."""
        node.returns, node.type_comment = None, None
        node.body = [child for child in node.body if not _is_text(child)] or [ast.Pass()]
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A nested function: its name is local too."""
        node.name = self.rename(node.name)
        self.function(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter."""
        return ast.arg(self.rename(node.arg))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A use or a binding."""
        node.id = self.rename(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """The name of a caught exception."""
        node.name = self.rename(node.name) if node.name else None
        self.generic_visit(node)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        """Names of an enclosing function."""
        node.names = [self.rename(name) for name in node.names]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """An assignment loses its annotation; a bare annotation goes."""
        if node.value is None:
            return None
        return self.visit(ast.Assign([node.target], node.value))
