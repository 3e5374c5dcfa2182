"""Everything that has a name: registered functions from the static index, papers' methods and runnable recipes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from polypath.core.document import packaged
from polypath.core.errors import UserError, did_you_mean
from polypath.core.registry import Entry, entries

FILES = {"method": "methods", "recipe": "recipes"}  # kinds that are YAML files of the package


@dataclass(frozen=True)
class Item:
    """One named thing. `entry` is set for a registered function, `body` for a method or recipe file."""

    kind: str
    name: str
    summary: str = ""
    paper: str = ""
    traits: tuple[str, ...] = ()
    entry: Entry | None = None
    body: dict[str, Any] = field(default_factory=dict)
    text: str = ""


def catalogue(kind: str = "") -> list[Item]:
    """All items, or those of one kind, sorted by kind and name. Raises UserError for an unknown kind."""
    kinds = {*FILES, *(entry.kind for entry in entries())}
    if kind and kind not in kinds:
        raise UserError("KIND", f"there is no kind '{kind}'", did_you_mean(kind, kinds))
    found = [item for file_kind in FILES if kind in ("", file_kind) for item in _files(file_kind)]
    found += [
        Item(entry.kind, entry.name, entry.summary, entry.paper, entry.traits, entry=entry)
        for entry in entries(kind or None)
    ]
    return sorted(found, key=lambda item: (item.kind, item.name))


def find(name: str) -> Item:
    """The item called `name` or `kind/name`. Raises UserError when there is none, or more than one."""
    kind, _, bare = name.rpartition("/")
    items = catalogue(kind)
    matches = [item for item in items if item.name == bare]
    if not matches:
        raise UserError("NAME", f"there is nothing named '{name}'", did_you_mean(bare, {item.name for item in items}))
    if len(matches) > 1:
        names = " or ".join(f"{item.kind}/{item.name}" for item in matches)
        raise UserError("NAME", f"'{name}' is ambiguous", f"Say {names}.")
    return matches[0]


def names(*kinds: str) -> list[str]:
    """Names for shell completion: files by their names alone, functions from the index."""
    listed = [name for kind in kinds if kind in FILES for name in packaged(FILES[kind])]
    return sorted(listed + [entry.name for kind in kinds if kind not in FILES for entry in entries(kind)])


@cache
def _files(kind: str) -> tuple[Item, ...]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast
    found = []
    for name, path in packaged(FILES[kind]).items():
        text = path.read_text(encoding="utf-8")
        body = yaml.load(text, loader)
        summary, traits = body.get("summary", ""), tuple(body.get("traits", ()))
        found.append(Item(kind, name, summary, _paper(body.get("paper")), traits, body=body, text=text))
    return tuple(found)


def _paper(paper: Any) -> str:
    if isinstance(paper, dict):
        return f"arXiv:{paper['arxiv']}" if paper.get("arxiv") else str(paper.get("title", ""))
    return str(paper or "")
