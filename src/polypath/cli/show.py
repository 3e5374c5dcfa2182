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

from polypath.cli.catalogue import METHOD, PLAN, RECIPE, SELECTION, Item, catalogue, find
from polypath.cli.output import emit, say, table
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
    item, *others = find(name)
    if as_json:
        emit(describe(item))
        return
    print(f"{item.kind}/{item.name}")
    sections = {**({"paper": item.paper} if item.paper else {}), "traits": ", ".join(item.traits)}
    print("".join(f"{label}: {text}\n" for label, text in sections.items() if text), end="")
    print("\n" + (_recipe(item) if item.kind == RECIPE else _method(item) if item.text() else _function(item)))
    if others:
        say("\nAlso: " + ", ".join(f"polypath show {other.kind}/{other.name}" for other in others))


def describe(item: Item) -> dict[str, Any]:
    """The same as JSON data."""
    facts = {key: getattr(item, key) for key in ("kind", "name", "summary", "paper", "traits")}
    if item.entry is not None:
        facts |= {key: getattr(item.entry, key) for key in ("data", "knobs", "returns", "target")}
        facts["doc"] = docstring(item.entry.target)
    return {**facts, "body": item.body()} if item.text() else facts


def _function(item: Item) -> str:
    entry = item.entry or Entry(item.kind, item.name, "")
    parts = [docstring(entry.target) or entry.summary]
    if entry.data:
        parts.append(f"Takes {', '.join(entry.data)}; gives {', '.join(entry.returns) or 'a value'}.")
    return "\n\n".join([*parts, *_knobs(entry), f"Source: {entry.target}"])


def _knobs(entry: Entry) -> list[str]:
    rows = [
        (knob, facts["type"], json.dumps(facts["default"]) if "default" in facts else "(required)")
        for knob, facts in entry.knobs.items()
    ]
    return [table(("knob", "type", "default"), rows)] if rows else []


def _recipe(item: Item) -> str:
    return f"{item.text().rstrip()}\n\nCopy it: polypath init {item.name}\nRun it: polypath train {item.name}"


def _method(item: Item) -> str:
    body = item.body()
    composition = {key: body[key] for key in ("plan", "credit", "loss", "select", "groups") if body.get(key)}
    parts = [item.summary, *(f"- {choice}" for choice in body.get("choices", ()))]
    parts = ["\n".join(parts), *(_knobs(item.entry) if item.entry else ())]
    parts.append(yaml.safe_dump(composition, sort_keys=False, allow_unicode=True, width=WIDTH).rstrip())
    confidence = (body.get("paper") or {}).get("confidence")
    parts += [f"Confidence: {confidence}"] if confidence else []
    if item.kind == PLAN:
        return "\n\n".join([*parts, _cost(item)])
    if item.kind == SELECTION:
        return "\n\n".join([*parts, *_picks(item, body)])
    for example in body.get("examples", ())[:1]:
        given, knobs = json.dumps(example.get("given", {})), example.get("knobs", {})
        expected = f"Worked example: {given} gives {json.dumps(example.get('advantages'))}"
        options = "".join(f" -o {key}={value}" for key, value in knobs.items())
        parts += [expected, f"Try it: echo '{given}' | polypath {METHOD} {item.name} -{options}"]
    return "\n\n".join(parts)


def _picks(item: Item, body: dict[str, Any]) -> list[str]:
    """The worked example of a selection, and how it is called."""
    example = body["examples"][0]
    given, k = json.dumps(example["given"]), example["k"]
    options = "".join(f" -o '{key}={json.dumps(value)}'" for key, value in example.get("knobs", {}).items())
    picked = f"Worked example: {k} of {given} are {example['indices']}, gains {example['gains']}."
    return [f"{picked} {example['derivation']}", f"Run it: polypath select FILE --k {k} --method {item.name}{options}"]


def _cost(item: Item) -> str:
    """What a plan draws for a prompt at most, by a dry run with the default length."""
    from polypath.engines.protocol import SamplingParams
    from polypath.rollout.dry import dry_run
    from polypath.rollout.plan import build

    plan = build(item.name, params=SamplingParams(max_new_tokens=2048))
    found, length = dry_run(plan), plan.params.max_new_tokens
    bound = f"{found.answers} answers in {found.groups} group(s); at most {found.bound} tokens at {length} per answer"
    trained = "Trained: drawn tokens of the answers" + (" and strategies" if "strategies" in item.text() else "")
    tree = f"Tree: polypath sample --plan {item.name} --dry-run x"
    return f"A prompt: {bound}\n{trained}, with credit: {plan.credit}\n{tree}"


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
