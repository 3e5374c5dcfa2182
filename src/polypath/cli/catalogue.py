"""Everything that has a name: registered functions and methods from the static index, and the packaged recipes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from polypath.core.document import packaged
from polypath.core.errors import UserError, did_you_mean
from polypath.core.registry import Entry, entries

METHOD, PLAN, RECIPE, SELECTION = "credit", "plan", "recipe", "selection"  # kinds whose members are YAML files
FOLDERS = {METHOD: "methods", PLAN: "plans", RECIPE: "recipes", SELECTION: "selections"}


@dataclass(frozen=True)
class Item:
    """One named thing; `entry` is None for a recipe, which is a file and no function."""

    kind: str
    name: str
    summary: str = ""
    paper: str = ""
    traits: tuple[str, ...] = ()
    entry: Entry | None = None

    def text(self) -> str:
        """The file of a method, plan or recipe, "" for a function written in Python."""
        path = packaged(FOLDERS[self.kind]).get(self.name) if self.kind in FOLDERS else None
        return path.read_text(encoding="utf-8") if path else ""

    def body(self) -> dict[str, Any]:
        """The content of that file."""
        return read_yaml(self.text()) or {}


def catalogue(kind: str = "") -> list[Item]:
    """All items, or those of one kind, sorted by kind and name. Raises UserError for an unknown kind."""
    if kind and kind not in kinds():
        raise UserError("KIND", f"there is no kind '{kind}'", did_you_mean(kind, kinds()))
    found = [Item(e.kind, e.name, e.summary, e.paper, e.traits, e) for e in entries(kind or None)]
    found += _recipes() if kind in ("", RECIPE) else ()
    return sorted(found, key=lambda item: (item.kind, item.name))


def kinds() -> list[str]:
    """Every kind of which there is something."""
    return sorted({RECIPE, *(entry.kind for entry in entries())})


def find(name: str) -> list[Item]:
    """The items called `name` or `kind/name`, a method or recipe first. Raises UserError when there is none."""
    kind, _, bare = name.rpartition("/")
    items = catalogue(kind)
    matches = [item for item in items if item.name == bare]
    if not matches:
        raise UserError("NAME", f"there is nothing named '{name}'", did_you_mean(bare, {item.name for item in items}))
    return sorted(matches, key=lambda item: item.kind not in FOLDERS)


def names(kind: str) -> list[str]:
    """The names of one kind, for shell completion: opens no recipe."""
    return list(packaged(FOLDERS[kind])) if kind == RECIPE else [entry.name for entry in entries(kind)]


@cache
def _recipes() -> tuple[Item, ...]:
    texts = {name: path.read_text(encoding="utf-8") for name, path in packaged(FOLDERS[RECIPE]).items()}
    return tuple(Item(RECIPE, name, (read_yaml(text) or {}).get("summary", "")) for name, text in texts.items())


def read_yaml(text: str) -> Any:
    """Plain YAML, by libyaml where it is there, which is ten times as fast."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
