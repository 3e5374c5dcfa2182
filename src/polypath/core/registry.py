"""One registry for every named function: credit stages, losses, tasks, verifiers, measures, schedules.

Adding a method is `@register(kind, name, ...)` above a plain function, which the decorator returns unchanged. The
signature is the schema: positional parameters are data, keyword-only parameters are knobs. A generated index
(`index.json`, rebuilt by `python -m polypath.core.index`) lets `list`, `show` and recipe checks work without
importing the modules, and so without torch.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata, resources
from typing import Any, TypeVar

from polypath.core.errors import UserError, did_you_mean

F = TypeVar("F", bound=Callable[..., Any])
ENTRY_POINTS = "polypath.methods"


@dataclass(frozen=True)
class Entry:
    """What the registry knows of one function without importing it."""

    kind: str
    name: str
    target: str  # "module:qualname"
    data: tuple[str, ...] = ()  # names of the positional parameters
    knobs: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> {"type": str, "default": value | absent}
    returns: tuple[str, ...] = ()  # names of the fields that the function produces, in order
    paper: str = ""
    traits: tuple[str, ...] = ()
    summary: str = ""


_entries: dict[tuple[str, str], Entry] = {}
_functions: dict[tuple[str, str], Callable[..., Any]] = {}


def register(
    kind: str, name: str, *, returns: str = "", paper: str = "", traits: Iterable[str] = ()
) -> Callable[[F], F]:
    """Register the decorated function (or class) under `kind` and `name`; it is returned unchanged.

    `returns` names the produced fields, separated by blanks. Raises ValueError when the name is already taken by
    another function.
    """

    def add(function: F) -> F:
        target = f"{function.__module__}:{function.__qualname__}"
        known = _entries.get((kind, name))
        if known is not None and known.target != target:
            raise ValueError(f"{kind} '{name}' is already registered by {known.target}")
        data, knobs = describe_signature(function)
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        _entries[kind, name] = Entry(
            kind, name, target, data, knobs, tuple(returns.split()), paper, tuple(sorted(traits)), summary
        )
        _functions[kind, name] = function
        return function

    return add


def describe_signature(function: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
    """Split a signature into data (positional) and knobs (keyword-only, with type and default)."""
    data: list[str] = []
    knobs: dict[str, dict[str, Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            annotation = parameter.annotation
            text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
            knobs[parameter.name] = {"type": text}
            if parameter.default is not inspect.Parameter.empty:
                knobs[parameter.name]["default"] = parameter.default
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            data.append(parameter.name)
    return tuple(data), knobs


@cache
def _index() -> dict[tuple[str, str], Entry]:
    """Entries of the static index, then those of installed third-party packages."""
    text = resources.files("polypath.core").joinpath("index.json").read_text(encoding="utf-8")
    found = {}
    for row in json.loads(text):
        row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        found[row["kind"], row["name"]] = Entry(**row)
    for point in metadata.entry_points(group=ENTRY_POINTS):
        point.load()  # importing the module registers its functions
    return found


def entries(kind: str | None = None) -> list[Entry]:
    """All known entries, of one kind or of all, sorted by kind and name; imports none of the indexed modules."""
    merged = {**_index(), **_entries}
    return [merged[key] for key in sorted(merged) if kind is None or key[0] == kind]


def entry(kind: str, name: str, *, where: str = "") -> Entry:
    """The entry of one function. Raises UserError with the nearest known name when there is none."""
    found = _entries.get((kind, name)) or _index().get((kind, name))
    if found is None:
        names = [known.name for known in entries(kind)]
        raise UserError(where or kind, f"there is no {kind} named '{name}'", did_you_mean(name, names))
    return found


def get(kind: str, name: str, *, where: str = "") -> Callable[..., Any]:
    """The registered function, importing its module when needed. Raises UserError for an unknown name."""
    known = entry(kind, name, where=where)
    if (kind, name) not in _functions:
        importlib.import_module(known.target.partition(":")[0])
    return _functions[kind, name]


def index_rows() -> list[dict[str, Any]]:
    """The rows of the static index for what is registered now in polypath itself, in a stable order."""
    own = (e for e in _entries.values() if e.target.startswith("polypath."))
    return [asdict(e) for e in sorted(own, key=lambda e: (e.kind, e.name))]
