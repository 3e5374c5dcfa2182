"""Rebuild the static registry index: `python -m polypath.core.index`.

It lists every registered function, every `methods/*.yaml` as an entry of kind "credit", every `plans/*.yaml` as one
of kind "plan" and every `selections/*.yaml` as one of kind "selection".
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polypath
from polypath.core import registry
from polypath.core.document import load_document, packaged

PATH = Path(__file__).with_name("index.json")
FOLDERS = {"credit": "methods", "plan": "plans", "selection": "selections"}  # kinds whose members are YAML files
RETURNS = {"credit": ("advantages",), "plan": ("groups",), "selection": ("indices", "gains")}
SCANNED = (
    "core",
    "diversity",
    "engines",
    "tasks",
    "rollout",
    "credit",
    "losses",
    "decide",
    "train",
    "evaluate",
    "report",
)


def build() -> str:
    """Import every module that may register something, and return the index as JSON text."""
    for layer in SCANNED:
        package = importlib.import_module(f"polypath.{layer}")
        for module in pkgutil.walk_packages(package.__path__, f"{polypath.__name__}.{layer}."):
            importlib.import_module(module.name)
    rows = registry.index_rows()
    for kind, folder in FOLDERS.items():
        rows += [asdict(method_entry(path, kind)) for path in packaged(folder).values()]
    rows.sort(key=lambda row: (row["kind"], row["name"]))
    return json.dumps(rows, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def method_entry(path: Path, kind: str = "credit") -> registry.Entry:
    """The index entry of a method or plan written in YAML.

    Its knobs are `name: default` or `name: {default:, type:, help:}`.
    """
    method = load_document(path).plain()
    return registry.Entry(
        kind=kind,
        name=path.stem,
        target=f"polypath.{FOLDERS[kind]}:{path.name}",
        knobs={name: _knob(value) for name, value in (method.get("knobs") or {}).items()},
        returns=RETURNS[kind],
        paper=_citation(method.get("paper", "")),
        traits=tuple(sorted(method.get("traits") or ())),
        summary=method.get("summary", ""),
    )


def _knob(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value.keys() & {"default", "type"}:
        return {"type": _type_of(value.get("default"))} | value
    return {"type": _type_of(value), "default": value}


def _type_of(default: Any) -> str:
    if default is None:
        return "Any"
    # A name may stand for a stage, and a stage may be written as its name or as {name: {knob: value}}.
    return "str | dict" if isinstance(default, str | dict) else type(default).__name__


def _citation(paper: Any) -> str:
    """`{arxiv: "2509.02534", seed: "0.52"}` as "arXiv:2509.02534 [0.52]"."""
    if not isinstance(paper, dict):
        return str(paper or "")
    source = f"arXiv:{paper['arxiv']}" if paper.get("arxiv") else str(paper.get("title") or paper.get("url") or "")
    return f"{source} [{paper['seed']}]".strip() if paper.get("seed") else source


def main() -> None:
    """Write the index beside this module."""
    PATH.write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main()
