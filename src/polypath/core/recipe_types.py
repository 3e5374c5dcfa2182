"""The vocabulary of recipe schemas: references to registered functions, ranges, and types written as text."""

from __future__ import annotations

import ast
import dataclasses
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from polypath.core import registry


@dataclass(frozen=True)
class Kind:
    """`Annotated[Call, Kind("task")]`: a registered task, written `name` or `{name: {knob: value}}`."""

    name: str


@dataclass(frozen=True, init=False)
class Kinds:
    """`Annotated[list[Call], Kinds("gate", "fuse")]`: stages in order, each `{kind: name}`, or with knobs."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True)
class Range:
    """`Annotated[int, Range(1, None)]`: bounds, both included; None leaves a side open."""

    low: float | None = None
    high: float | None = None

    def __contains__(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        # `g`: typing keeps one of two equal annotations, so Range(0, 1) and Range(0.0, 1.0) must read the same.
        if self.high is None:
            return f"at least {self.low:g}" if self.low is not None else "any number"
        return f"at most {self.high:g}" if self.low is None else f"between {self.low:g} and {self.high:g}"


@dataclass(frozen=True)
class Call:
    """A registered function and the knobs that the recipe gives it; a knob may be a Call of kind `schedule`."""

    kind: str
    name: str
    knobs: dict[str, Any] = field(default_factory=dict)
    where: str = field(default="", compare=False)

    def bind(self) -> functools.partial[Any]:
        """The function with its knobs set, imported now. Raises UserError for an unknown name."""
        return functools.partial(registry.get(self.kind, self.name, where=self.where), **self.knobs)

    def to_plain(self) -> Any:
        """As a recipe writes it."""
        return {self.name: plain(self.knobs)} if self.knobs else self.name


Scheduled = float | Annotated[Call, Kind("schedule")]  # a number, or a number over steps


def plain(value: Any) -> Any:
    """A knob's value as plain data. A call keeps its mapping form, in which a number's schedule is recognised."""
    if isinstance(value, Call):
        return {value.name: plain(value.knobs)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "nothing"}


def expected(tp: Any) -> str:
    """A type in the words of an error message."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        names = [f"the name of a {mark.name}" for mark in args[1:] if isinstance(mark, Kind)]
        stages = ["a list of stages" for mark in args[1:] if isinstance(mark, Kinds)]
        bounds = [f"{expected(args[0])} {mark}" for mark in args[1:] if isinstance(mark, Range)]
        return (names + stages + bounds or [expected(args[0])])[0]
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(expected, args)))
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}"
    if dataclasses.is_dataclass(tp):
        return "a section"
    return EXPECTED.get(tp) or ("a mapping" if (origin or tp) in (dict, Mapping) else "a list")


_NAMES: dict[str, Any] = {
    "int": int, "float": float, "bool": bool, "str": str, "None": None, "Any": Any, "object": Any, "Call": Call,
    "list": list, "tuple": tuple, "dict": dict, "Sequence": Sequence, "Mapping": Mapping, "Iterable": Sequence,
    "Scheduled": Scheduled,
}  # fmt: skip
_MARKS: dict[str, Callable[..., Any]] = {"Kind": Kind, "Kinds": Kinds, "Range": Range}


@functools.cache
def parse_type(text: str) -> Any:
    """The type that an annotation's text names, or Any for one that is not understood here.

    >>> parse_type("int | None") == (int | None), parse_type("torch.Tensor")
    (True, typing.Any)
    """
    try:
        return _type(ast.parse(text, mode="eval").body)
    except (SyntaxError, KeyError, ValueError, TypeError):
        return Any


def _type(node: ast.AST) -> Any:
    """Raises KeyError, ValueError or TypeError for what it does not know."""
    if isinstance(node, ast.Constant):
        if node.value is None or node.value is Ellipsis:
            return node.value
        return _type(ast.parse(str(node.value), mode="eval").body)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[_type(node.left), _type(node.right)]  # noqa: UP007 - built at run time
    if not isinstance(node, ast.Subscript):
        return _NAMES[ast.unparse(node)]
    name = ast.unparse(node.value).removeprefix("typing.")
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        return Literal[tuple(ast.literal_eval(item) for item in items)]
    if name == "Annotated":
        marks = [_mark(item) for item in items[1:] if isinstance(item, ast.Call)]
        return Annotated[(_type(items[0]), *marks)] if marks else _type(items[0])
    arguments = tuple(_type(item) for item in items)
    return arguments[0] | None if name == "Optional" else _NAMES[name][arguments]


def _mark(node: ast.Call) -> Any:
    keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return _MARKS[ast.unparse(node.func)](*(ast.literal_eval(arg) for arg in node.args), **keywords)
