"""`polypath show`: one named thing in full, without importing it."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from polypath.cli.catalogue import Item, catalogue, find
from polypath.cli.output import emit, table
from polypath.core.registry import Entry

EXAMPLE = "polypath show rarity"
WIDTH = 110


def everything(incomplete: str) -> list[str]:
    """Names that begin with `incomplete`, for shell completion."""
    return sorted({item.name for item in catalogue() if item.name.startswith(incomplete)})


def command(
    name: Annotated[str, typer.Argument(help="A name, or kind/name where it is ambiguous.", autocompletion=everything)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Summary, composition or signature, knobs with defaults, example and paper of one named thing."""
    item = find(name)
    if as_json:
        emit(describe(item))
        return
    print(f"{item.kind}/{item.name}")
    sections = {**({"paper": item.paper} if item.paper else {}), "traits": ", ".join(item.traits)}
    print("".join(f"{label}: {text}\n" for label, text in sections.items() if text), end="")
    print("\n" + (_function(item.entry) if item.entry else _file(item)))


def describe(item: Item) -> dict[str, Any]:
    """The same as JSON data."""
    common = {key: getattr(item, key) for key in ("kind", "name", "summary", "paper", "traits")}
    if item.entry is None:
        return {**common, "body": item.body}
    entry = item.entry
    keys = ("data", "knobs", "returns", "target")
    return {**common, **{key: getattr(entry, key) for key in keys}, "doc": docstring(entry.target)}


def _function(entry: Entry) -> str:
    parts = [docstring(entry.target) or entry.summary]
    if entry.data:
        parts.append(f"Takes {', '.join(entry.data)}; gives {', '.join(entry.returns) or 'a value'}.")
    if entry.knobs:
        rows = [
            (knob, facts["type"], json.dumps(facts["default"]) if "default" in facts else "(required)")
            for knob, facts in entry.knobs.items()
        ]
        parts.append(table(("knob", "type", "default"), rows))
    parts.append(f"Source: {entry.target}")
    return "\n\n".join(parts)


def _file(item: Item) -> str:
    if item.kind == "recipe":
        return f"{item.text.rstrip()}\n\nCopy it: polypath init {item.name}\nRun it: polypath train {item.name}"
    body = {key: value for key, value in item.body.items() if key not in ("summary", "examples")}
    parts = [item.summary, yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=WIDTH).rstrip()]
    for example in item.body.get("examples", ())[:1]:
        facts = {key: value for key, value in example.items() if key not in ("derivation", "tolerance")}
        parts.append("Worked example:\n" + "\n".join(f"  {key}: {json.dumps(facts[key])}" for key in facts))
        given = json.dumps(example.get("given", {}))
        knobs = "".join(f" -o {key}={value}" for key, value in example.get("knobs", {}).items())
        parts.append(f"Try it: echo '{given}' | polypath credit {item.name} -{knobs}")
    return "\n\n".join(parts)


def docstring(target: str) -> str:
    """The docstring of `module:qualname`, read from the source without importing the module; "" when there is none."""
    module, _, qualname = target.partition(":")
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return ""
    node: ast.AST = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    for part in qualname.split("."):
        named = (child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part)
        found = next(named, None)
        if found is None:
            return ""
        node = found
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return inspect.cleandoc(ast.get_docstring(node) or "")
    return ""
