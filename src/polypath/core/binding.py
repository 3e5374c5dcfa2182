"""Binding YAML nodes to types: every mistake is collected, each with its place and a suggestion."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from polypath.core import registry
from polypath.core.document import Node, join
from polypath.core.errors import UserError, did_you_mean
from polypath.core.index import method_entry
from polypath.core.recipe_types import EXPECTED, Call, Kind, Kinds, Range, expected, parse_type

_NONE = type(None)


class _Mismatch(UserError):
    """The value has the wrong shape for the type: another member of a union may still fit."""


class Binder:
    """Binds nodes to types and collects errors; what a failed bind returns is never used."""

    def __init__(self) -> None:
        self.errors: list[UserError] = []

    def _fail(self, node: Node, path: str, what: str, fix: str = "") -> None:
        self.errors.append(UserError(node.where(path), what, fix))

    def _mismatch(self, node: Node, path: str, expected: str, fix: str = "") -> None:
        self.errors.append(_Mismatch(node.where(path), f"expects {expected}, got {_shown(node)}", fix))

    def bind(self, tp: Any, node: Node, path: str) -> Any:
        """The value of `node` as type `tp`; what cannot be understood as a type is accepted as it is."""
        origin, args = get_origin(tp), get_args(tp)
        if origin is Annotated:
            return self._annotated(args[0], args[1:], node, path)
        if origin in (Union, types.UnionType):
            return self._union(tp, args, node, path)
        if origin is Literal:
            if any(node.value == choice and type(node.value) is type(choice) for choice in args):
                return node.value
            return self._choice(args, node, path)
        if dataclasses.is_dataclass(tp) and isinstance(tp, type) and tp is not Call:
            return self._section(tp, node, path)
        if (origin or tp) in (list, tuple, Sequence):
            return self._sequence(origin or tp, args, node, path)
        if (origin or tp) in (dict, Mapping):
            if not isinstance(node.value, dict):
                self._mismatch(node, path, "a mapping")
                return None
            item = args[1] if args else Any
            return {key: self.bind(item, child, join(path, key)) for key, child in node.value.items()}
        if tp in EXPECTED:
            return self._scalar(tp, node, path)
        return node.plain()

    def _scalar(self, tp: Any, node: Node, path: str) -> Any:
        value = node.value
        if tp is float and value != value:  # NaN would spread silently
            self._mismatch(node, path, EXPECTED[tp])
            return None
        if type(value) is tp:
            return value
        if tp is float and type(value) is int:
            return float(value)
        if tp is int and type(value) is float and value.is_integer():
            return int(value)
        quote = tp is str and isinstance(value, int | float)
        self._mismatch(node, path, EXPECTED[tp], f"Put it in quotes: '{value}'." if quote else "")
        return None

    def _choice(self, choices: tuple[Any, ...], node: Node, path: str) -> None:
        if isinstance(node.value, dict | list):
            self._mismatch(node, path, f"one of {', '.join(map(str, choices))}")
            return None
        fix = did_you_mean(str(node.value), map(str, choices))
        self._fail(node, path, f"{_shown(node)} is not a choice", fix)
        return None

    def _sequence(self, kind: Any, args: tuple[Any, ...], node: Node, path: str) -> Any:
        if not isinstance(node.value, list):
            self._mismatch(node, path, "a list", f"Write [{node.value}]." if _is_scalar(node) else "")
            return None
        fixed = kind is tuple and bool(args) and args[-1] is not Ellipsis
        if fixed and len(args) != len(node.value):
            self._mismatch(node, path, f"a list of {len(args)}")
            return None
        item_types = args if fixed else (args[:1] or (Any,)) * len(node.value)
        bound = [
            self.bind(tp, child, join(path, index))
            for index, (tp, child) in enumerate(zip(item_types, node.value, strict=True))
        ]
        return tuple(bound) if kind is tuple else bound

    def _union(self, tp: Any, options: tuple[Any, ...], node: Node, path: str) -> Any:
        """The first option that fits; else the errors of the option that was meant."""
        before, attempts = len(self.errors), []
        for option in sorted(options, key=lambda option: option is not type(node.value)):
            bound = self.bind(option, node, path)
            found = self.errors[before:]
            if not found:
                return bound
            del self.errors[before:]
            if option is not _NONE:
                attempts.append(found)
        here = node.where(path)
        meant = [found for found in attempts if not any(isinstance(e, _Mismatch) and e.where == here for e in found)]
        if meant or len(attempts) == 1:
            self.errors += (meant or attempts)[0]
            return None
        self._mismatch(node, path, expected(tp))
        return None

    def _annotated(self, tp: Any, marks: tuple[Any, ...], node: Node, path: str) -> Any:
        for mark in marks:
            if isinstance(mark, Kind):
                return self._call(mark.name, node, path)
            if isinstance(mark, Kinds):
                return self._stages(mark.names, node, path)
        before = len(self.errors)
        bound = self.bind(tp, node, path)
        for mark in marks:
            numeric = isinstance(bound, int | float) and len(self.errors) == before
            if isinstance(mark, Range) and numeric and bound not in mark:
                self._fail(node, path, f"must be {mark}, got {_shown(node)}")
        return bound

    def _section(self, schema: Any, node: Node, path: str) -> Any:
        given = {} if node.value is None else node.value
        if not isinstance(given, dict):
            self._mismatch(node, path, "a section of keys and values")
            return None
        before = len(self.errors)
        hints = get_type_hints(schema, include_extras=True)
        fields = {field.name: field for field in dataclasses.fields(schema) if field.init}
        bound = {}
        for name, child in given.items():
            if name in fields:
                bound[name] = self.bind(hints[name], child, join(path, name))
            else:
                self._fail(child, join(path, name), f"unknown key '{name}'", did_you_mean(name, fields))
        for name, field in fields.items():
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if required and name not in given:
                self._fail(node, join(path, name), "required key is missing", f"Expected: {expected(hints[name])}.")
        if len(self.errors) > before:
            return None
        try:
            return schema(**bound)
        except ValueError as error:  # a __post_init__ that checks fields against each other
            self._fail(node, path, str(error))
            return None

    def _stages(self, kinds: tuple[str, ...], node: Node, path: str) -> Any:
        if not isinstance(node.value, list):
            self._mismatch(node, path, "a list of stages", f"Each is one of: {', '.join(kinds)}.")
            return None
        bound = []
        for index, item in enumerate(node.value):
            here = join(path, index)
            name, child = _only_entry(item)
            if name is None or child is None:
                self._mismatch(item, here, "one stage such as {kind: name}", f"Kinds: {', '.join(kinds)}.")
            elif name not in kinds:
                self._fail(child, join(here, name), f"there is no stage '{name}'", did_you_mean(name, kinds))
            else:
                bound.append(self._call(name, child, join(here, name)))
        return bound

    def _call(self, kind: str, node: Node, path: str) -> Call | None:
        name, given = (node.value, Node({}, node.source)) if isinstance(node.value, str) else _only_entry(node)
        if name is None or given is None:
            self._mismatch(node, path, f"the name of a {kind}, or {{name: {{knob: value}}}}")
            return None
        if not isinstance(node.value, str):
            path = join(path, name)
        try:
            # A method may also be a file of the user's own.
            own = name.endswith(".yaml") and Path(name).is_file()
            entry = method_entry(Path(name), kind) if own else registry.entry(kind, name, where=given.where(path))
        except UserError as error:
            self.errors.append(error)
            return None
        if not isinstance(given.value, dict | _NONE):
            self._mismatch(given, path, f"the knobs of {kind} '{name}'", did_you_mean("", entry.knobs))
            return None
        knobs = {}
        for knob, child in (given.value or {}).items():
            if knob in entry.knobs:
                knobs[knob] = self._knob(entry.knobs[knob]["type"], child, join(path, knob))
            else:
                what = f"no parameter of {kind} '{name}' named '{knob}'"
                self._fail(child, join(path, knob), what, did_you_mean(knob, entry.knobs))
        for knob, schema in entry.knobs.items():
            if "default" not in schema and knob not in knobs:
                self._fail(given, path, f"{kind} '{name}' needs the parameter '{knob}' ({schema['type']})")
        return Call(kind, name, knobs, given.where(path))

    def _knob(self, text: str, node: Node, path: str) -> Any:
        """A knob of the type that `text` names; a number may also be a schedule."""
        tp = parse_type(text)
        if _takes_number(tp) and isinstance(node.value, dict) and len(node.value) == 1:
            return self._call("schedule", node, path)
        return self.bind(tp, node, path)


def _only_entry(node: Node) -> tuple[str | None, Node | None]:
    """The entry of a one-entry mapping. What a later file or option names replaces what an earlier one named."""
    if not isinstance(node.value, dict) or not node.value:
        return None, None
    latest = max(child.layer for child in node.value.values())
    entries = [(key, child) for key, child in node.value.items() if child.layer == latest]
    return entries[0] if len(entries) == 1 else (None, None)


def _takes_number(tp: Any) -> bool:
    if get_origin(tp) is Annotated:
        return _takes_number(get_args(tp)[0])
    if get_origin(tp) in (Union, types.UnionType):
        return any(map(_takes_number, get_args(tp)))
    return tp in (int, float)


def _is_scalar(node: Node) -> bool:
    return not isinstance(node.value, dict | list)


def _shown(node: Node) -> str:
    if isinstance(node.value, dict):
        return "a mapping" if node.value else "an empty mapping"
    if isinstance(node.value, list):
        return f"a list of {len(node.value)}"
    return (
        "nothing"
        if node.value is None
        else str(node.value).lower()
        if node.value in (True, False)
        else repr(node.value)
    )
